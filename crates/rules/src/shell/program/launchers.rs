//! Programs that may run a command among their words. It is no command of the line, so no rule has to allow it; but one
//! that forbids it is a doubt.

use super::super::read::Opaque;
use super::super::word::Word;
use super::shells;

/// Run what follows one of these words.
const LAUNCHERS: &[(&str, &[&str])] = &[
    ("asdf", &["exec"]),
    ("bun", &["x"]),
    ("bundle", &["exec"]),
    ("conda", &["run"]),
    ("devbox", &["run"]),
    ("direnv", &["exec"]),
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
    ("uv", &["run"]),
    ("yarn", &["dlx", "exec", "node"]),
];

/// The same on another machine, whose options nobody knows here.
const ELSEWHERE: &[(&str, &[&str])] =
    &[("docker", &["exec", "run"]), ("kubectl", &["exec", "run"]), ("podman", &["exec", "run"]), ("vagrant", &["ssh"])];

/// Run what follows them.
const BARE: &[&str] = &["bunx", "npx", "pnpx", "uvx"];

/// Options of launchers that have no value.
const FLAGS: &[&str] = &["--", "-q", "-y", "--frozen", "--locked", "--no-install", "--offline", "--quiet", "--yes"];

/// Take words as words: none of these runs them. Those with options that run something are known elsewhere.
const PLAIN: &[&str] = &[
    "[",
    "[[",
    ":",
    "apk",
    "apropos",
    "apt-cache",
    "arch-chroot",
    "aws",
    "az",
    "base64",
    "basename",
    "bg",
    "brew",
    "break",
    "cal",
    "cat",
    "cd",
    "chgrp",
    "chmod",
    "chown",
    "cksum",
    "clear",
    "cmp",
    "code",
    "comm",
    "composer",
    "continue",
    "cp",
    "csplit",
    "cut",
    "dd",
    "df",
    "diff",
    "dirname",
    "dirs",
    "disown",
    "dnf",
    "dotnet",
    "du",
    "echo",
    "egrep",
    "exit",
    "expand",
    "expr",
    "false",
    "fg",
    "fgrep",
    "file",
    "fmt",
    "fold",
    "free",
    "gcloud",
    "getconf",
    "getent",
    "gh",
    "gradle",
    "grep",
    "groups",
    "gsutil",
    "gunzip",
    "gzip",
    "head",
    "help",
    "helm",
    "history",
    "host",
    "hostname",
    "id",
    "info",
    "install",
    "jj",
    "join",
    "just",
    "kill",
    "kubectl",
    "last",
    "link",
    "ln",
    "locate",
    "logname",
    "look",
    "ls",
    "lsof",
    "md5sum",
    "mkdir",
    "mkfifo",
    "mktemp",
    "mv",
    "nl",
    "nproc",
    "od",
    "pacman",
    "paste",
    "pgrep",
    "ping",
    "pkill",
    "podman",
    "popd",
    "port",
    "ps",
    "pushd",
    "pwd",
    "rclone",
    "readlink",
    "realpath",
    "return",
    "rev",
    "rm",
    "rmdir",
    "seq",
    "sha1sum",
    "sha256sum",
    "shift",
    "shred",
    "sleep",
    "snap",
    "stat",
    "strings",
    "stty",
    "sum",
    "sync",
    "systemctl",
    "tac",
    "tail",
    "terraform",
    "times",
    "tldr",
    "top",
    "touch",
    "tr",
    "true",
    "truncate",
    "tsort",
    "tty",
    "type",
    "ulimit",
    "umask",
    "uname",
    "unexpand",
    "unlink",
    "unzip",
    "uptime",
    "users",
    "vdir",
    "wc",
    "whatis",
    "whereis",
    "which",
    "who",
    "whoami",
    "xxd",
    "yes",
    "yq",
    "zcat",
    "zgrep",
];

/// Every program that is known here.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    LAUNCHERS.iter().chain(ELSEWHERE).map(|(name, _)| *name).chain(BARE.iter().chain(PLAIN).copied())
}

/// The words of a command among which there may be another one.
pub(in super::super) fn inside(words: &[Word]) -> Vec<Word> {
    let rest = &words[1..];
    match super::known(&words[0].text) {
        None if words[0].text.contains('=') => Vec::new(),
        None => rest.to_vec(),
        // `CC='ccache cc'`: a rule of the makefile runs what is in a variable.
        Some("make" | "gmake") => {
            let values = rest.iter().filter_map(|word| word.text.split_once('='));
            values.flat_map(|(_, value)| value.split_whitespace().map(Word::known)).collect()
        }
        // A copy of a program does what the program does.
        Some("cp" | "install" | "ln" | "mv") => {
            let is_program = |word: &&Word| word.text.rsplit_once('/').is_some_and(|(dir, _)| dir.ends_with("bin"));
            rest.iter().filter(is_program).cloned().collect()
        }
        Some("ssh") => rest.iter().flat_map(|word| word.text.split_whitespace().map(Word::known)).collect(),
        Some(name) => {
            let at = launched(name, rest).or_else(|| follows(ELSEWHERE, name, rest));
            at.map_or_else(Vec::new, |at| rest[at..].to_vec())
        }
    }
}

/// Where the words begin that a launcher runs.
pub(super) fn launched(name: &str, rest: &[Word]) -> Option<usize> {
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

/// A shell with options among the words of a program that is not known: whatever that is, it is told to run a script.
pub(super) fn check(rest: &[Word]) -> Result<(), Opaque> {
    let script = |pair: &[Word]| pair[1].text.starts_with('-') && shells::NAMES.contains(&super::base(&pair[0].text));
    let found = rest.windows(2).any(script);
    if found { Err("a script among the words of a program that nobody knows") } else { Ok(()) }
}
