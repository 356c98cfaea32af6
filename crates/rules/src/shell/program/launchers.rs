//! Programs that run the command among their words, where that is known: what it runs in turn is looked at as well.

use super::super::read::Opaque;
use super::super::word::Word;

/// Run what follows one of these words.
const LAUNCHERS: &[(&str, &[&str])] = &[
    ("asdf", &["exec"]),
    ("bun", &["x"]),
    ("bundle", &["exec"]),
    ("conda", &["run"]),
    ("devbox", &["run"]),
    ("direnv", &["exec"]),
    ("meson", &["devenv"]),
    ("mise", &["exec", "x"]),
    ("nix", &["develop", "run", "shell"]),
    ("npm", &["exec", "x"]),
    ("pdm", &["run"]),
    ("pipenv", &["run"]),
    ("pixi", &["run"]),
    ("pnpm", &["dlx", "exec"]),
    ("poetry", &["run"]),
    ("rtx", &["exec", "x"]),
    ("rustup", &["run"]),
    ("rye", &["run"]),
    ("tox", &["exec"]),
    ("uv", &["run"]),
    ("yarn", &["dlx", "exec", "node"]),
];

/// Run what follows them.
const BARE: &[&str] = &["bunx", "npx", "pnpx", "uvx"];

/// Options of launchers that have no value.
const FLAGS: &[&str] = &["--", "-q", "-y", "--frozen", "--locked", "--no-install", "--offline", "--quiet", "--yes"];

/// Every program that is known here.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    LAUNCHERS.iter().map(|(name, _)| *name).chain(BARE.iter().copied())
}

/// Whether a program is a launcher, whatever its words are.
pub(super) fn is_one(name: &str) -> bool {
    names().any(|known| known == name)
}

/// Where the words begin that a launcher runs.
fn launched(name: &str, rest: &[Word]) -> Option<usize> {
    if BARE.contains(&name) {
        return Some(0);
    }
    follows(LAUNCHERS, name, rest)
}

fn follows(list: &[(&str, &[&str])], name: &str, rest: &[Word]) -> Option<usize> {
    let (_, words) = list.iter().find(|(known, _)| *known == name)?;
    // `x` alone is short for one of them only where they begin.
    let elsewhere = |at: usize| at > 0 && rest[at].text == "x" && !rest[0].text.starts_with('-');
    let found = (0..rest.len()).find(|at| words.contains(&rest[*at].text.as_str()) && !elsewhere(*at));
    found.map(|at| at + 1)
}

/// The command a launcher runs, if it is one. An option before it may have a value, so where it begins is not known.
pub(super) fn command<'w>(name: &str, rest: &'w [Word]) -> Option<Result<&'w [Word], Opaque>> {
    let mut inner = &rest[launched(name, rest)?..];
    while inner.first().is_some_and(|word| FLAGS.contains(&word.text.as_str())) {
        inner = &inner[1..];
    }
    // A directory, or a toolchain.
    let inner = if matches!(name, "direnv" | "rustup") { inner.get(1..)? } else { inner };
    // Without a command some run a shell.
    let known = inner.first().is_some_and(|word| !word.open && !word.glob && !word.text.starts_with('-'));
    Some(if known { Ok(inner) } else { Err("where the command inside begins is not known") })
}
