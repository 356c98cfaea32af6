//! Programs that run a program in their own language: from a file, which is a program like any other; from their words
//! after certain options, or from their input.

use super::super::read::Opaque;
use super::super::word::Word;

/// With the options that are harmless; any other is opaque.
const INTERPRETERS: &[(&str, &[&str])] = &[
    ("bun", &["run", "test", "install", "--version"]),
    ("clisp", &[]),
    ("deno", &["test", "fmt", "lint", "check", "--version"]),
    ("elixir", &["--version"]),
    ("erl", &[]),
    ("ghci", &[]),
    ("gnuplot", &["--version"]),
    ("groovy", &["--version"]),
    ("guile", &["--version"]),
    ("ipython", PYTHON),
    ("irb", &[]),
    ("jshell", &[]),
    ("julia", &["--version"]),
    ("lua", &["-v"]),
    ("luajit", &["-v"]),
    ("node", &["--version", "-v", "--test", "--check", "-c", "--enable-source-maps"]),
    ("nodejs", &["--version", "-v", "--test", "--check", "-c", "--enable-source-maps"]),
    ("ocaml", &["-version"]),
    ("octave", &["--version"]),
    ("osascript", &[]),
    ("perl", &["-v", "--version", "-w"]),
    ("php", &["-v", "--version", "-l", "-m"]),
    ("pypy", PYTHON),
    ("python", PYTHON),
    ("R", &["--version"]),
    ("racket", &["--version"]),
    ("raku", &["--version"]),
    ("Rscript", &["--version"]),
    ("ruby", &["-v", "--version", "-w"]),
    ("sbcl", &["--version"]),
    ("scala", &["--version"]),
    ("swipl", &["--version"]),
    ("ts-node", &["--version"]),
    ("tsx", &["--version"]),
];

const PYTHON: &[&str] =
    &["-m", "-V", "--version", "-u", "-B", "-s", "-S", "-E", "-O", "-OO", "-q", "-I", "-v", "-b", "-bb"];

/// Modules of Python that take a program from their words, or run one that they watch.
const RUNNERS: &[&str] = &[
    "IPython",
    "asyncio",
    "bdb",
    "cProfile",
    "code",
    "debugpy",
    "idlelib",
    "ipdb",
    "pdb",
    "profile",
    "pty",
    "pudb",
    "runpy",
    "timeit",
    "trace",
    "webbrowser",
];

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    INTERPRETERS.iter().map(|(name, _)| *name)
}

/// The options of such a program that are harmless.
pub(super) fn find(name: &str) -> Option<&'static [&'static str]> {
    INTERPRETERS.iter().find(|(known, _)| *known == name).map(|(_, harmless)| *harmless)
}

/// The first word that is no option is a file with the program; what follows is for it.
pub(super) fn check(harmless: &[&str], rest: &[Word]) -> Result<(), Opaque> {
    for (at, word) in rest.iter().enumerate() {
        if word.open || word.glob {
            return Err("an interpreter whose words are not known");
        }
        let text = word.text.as_str();
        if text == "-m" && harmless.contains(&text) {
            return module(&rest[at + 1..]);
        }
        if harmless.contains(&text) {
            if !text.starts_with('-') {
                return Ok(());
            }
            continue;
        }
        let runs = text.starts_with('-')
            || matches!(text, "CMD" | "debug" | "eval" | "exec" | "inspect" | "repl" | "x")
            || super::is_device(text);
        return if runs { Err("a program in another language") } else { Ok(()) };
    }
    if rest.is_empty() { Err("a program in another language") } else { Ok(()) }
}

/// The module of `python -m` and its words: the command it stands for.
pub(super) fn as_module<'w>(name: &str, rest: &'w [Word]) -> Option<&'w [Word]> {
    let harmless = find(name).filter(|harmless| harmless.contains(&"-m"))?;
    let options = rest.iter().take_while(|word| word.text != "-m" && harmless.contains(&word.text.as_str())).count();
    let inner = rest.get(options + 1..).filter(|_| rest[options].text == "-m")?;
    inner.first().is_some_and(|word| !word.open && !word.glob).then_some(inner)
}

/// A module is a program in a file, unless it takes another one; `coverage run -m` is followed by one more.
pub(super) fn module(rest: &[Word]) -> Result<(), Opaque> {
    let names = std::iter::once(0).chain((1..rest.len()).filter(|at| rest[at - 1].text == "-m"));
    let runs = |word: &Word| {
        let package = word.text.split('.').next().unwrap_or_default();
        word.open || word.glob || RUNNERS.contains(&package)
    };
    if names.filter_map(|at| rest.get(at)).any(runs) { Err("a program in another language") } else { Ok(()) }
}
