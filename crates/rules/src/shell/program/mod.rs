//! Programs that run other programs.
//!
//! Whoever allows `timeout *` does not mean `timeout 9 rm -rf ~`. So the command inside is judged as well; where it
//! cannot be told, or is in a language nobody reads here, the line is opaque. A program that is not named here is judged
//! by its words alone.

mod awk;
mod find;
mod git;
mod options;
mod sed;
mod shells;
mod wrappers;

use super::Kind;
use super::read::{Opaque, Reader};
use super::word::Word;
use options::{TRAPS, has_trap};

/// Runs what its words, its input or a person tell it, in ways of its own.
const ALWAYS_OPAQUE: &[&str] = &[
    ".",
    "alias",
    "at",
    "batch",
    "bind",
    "bwrap",
    "chroot",
    "compgen",
    "complete",
    "coproc",
    "crontab",
    "dbus-run-session",
    "dmenu",
    "ed",
    "enable",
    "entr",
    "eval",
    "ex",
    "expect",
    "fakeroot",
    "fc",
    "firejail",
    "flock",
    "fzf",
    "gdb",
    "hash",
    "ld.so",
    "ldd",
    "let",
    "lldb",
    "ltrace",
    "m4",
    "mapfile",
    "newgrp",
    "nsenter",
    "parallel",
    "perf",
    "pkexec",
    "pppd",
    "proot",
    "readarray",
    "rlwrap",
    "runuser",
    "screen",
    "script",
    "sg",
    "socat",
    "source",
    "start-stop-daemon",
    "strace",
    "su",
    "systemd-run",
    "tclsh",
    "tmux",
    "trap",
    "unshare",
    "valgrind",
    "watch",
    "wish",
    "xterm",
    "xvfb-run",
];

/// Runs a program in its own language: from its input when it gets no words, from its words after certain options.
/// With the options that are harmless; any other is opaque.
const INTERPRETERS: &[(&str, &[&str])] = &[
    ("bun", &["run", "test", "install", "--version"]),
    ("deno", &["test", "fmt", "lint", "check", "--version"]),
    ("ghci", &[]),
    ("irb", &[]),
    ("julia", &["--version"]),
    ("lua", &["-v"]),
    ("luajit", &["-v"]),
    ("node", &["--version", "-v", "--test", "--check", "-c", "--enable-source-maps"]),
    ("nodejs", &["--version", "-v", "--test", "--check", "-c", "--enable-source-maps"]),
    ("osascript", &[]),
    ("perl", &["-v", "--version", "-w"]),
    ("php", &["-v", "--version", "-l", "-m"]),
    ("pypy", PYTHON),
    ("python", PYTHON),
    ("R", &["--version"]),
    ("Rscript", &["--version"]),
    ("ruby", &["-v", "--version", "-w"]),
];

const PYTHON: &[&str] =
    &["-m", "-V", "--version", "-u", "-B", "-s", "-S", "-E", "-O", "-OO", "-q", "-I", "-v", "-b", "-bb"];

impl Reader<'_> {
    /// Looks at what a command runs beside itself.
    pub(super) fn program(&mut self, words: &[Word]) -> Result<(), Opaque> {
        let name = base(&words[0].text);
        let rest = &words[1..];
        if ALWAYS_OPAQUE.contains(&name) || name.starts_with("ld-linux") {
            return Err("it runs what it is told");
        }
        if let Some(wrapper) = wrappers::find(name) {
            return self.wrapped(wrapper, rest);
        }
        if shells::NAMES.contains(&name) {
            return self.shell(name, rest);
        }
        // `python3.12` is `python`.
        let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        if let Some((_, harmless)) = INTERPRETERS.iter().find(|(known, _)| *known == plain) {
            return interpreter(harmless, rest);
        }
        match name {
            "git" => git::check(rest),
            "find" | "gfind" | "fd" | "fdfind" => self.find(name, rest),
            "awk" | "gawk" | "mawk" | "nawk" => awk::check(rest),
            "sed" | "gsed" => self.sed(rest),
            "tee" => self.writes(rest),
            "vi" | "vim" | "nvim" | "view" | "emacs" | "nano" | "less" | "more" | "most" | "man" => editor(rest),
            "ssh" | "scp" | "sftp" | "mosh" => remote(rest),
            _ => match TRAPS.iter().find(|(known, _)| *known == name) {
                Some((_, traps)) => has_trap(name, traps, rest),
                None => Ok(()),
            },
        }
    }

    /// Every operand is a file that is written.
    fn writes(&mut self, rest: &[Word]) -> Result<(), Opaque> {
        for word in rest.iter().filter(|word| !word.text.starts_with('-')) {
            self.file(Kind::Edit, word.clone())?;
        }
        Ok(())
    }
}

/// The same command as a person would name it, for rules that forbid.
pub(super) fn in_other_words(words: &[Word]) -> Option<String> {
    if base(&words[0].text) == "git" { git::without_options(words) } else { None }
}

fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The first word that is no option is a file with the program; what follows is for it.
fn interpreter(harmless: &[&str], rest: &[Word]) -> Result<(), Opaque> {
    for word in rest {
        if word.open || word.glob {
            return Err("an interpreter whose words are not known");
        }
        if harmless.contains(&word.text.as_str()) {
            if !word.text.starts_with('-') || word.text == "-m" {
                return Ok(());
            }
            continue;
        }
        let runs = word.text.starts_with('-') || matches!(word.text.as_str(), "eval" | "exec" | "repl" | "x");
        return if runs { Err("a program in another language") } else { Ok(()) };
    }
    if rest.is_empty() { Err("a program in another language") } else { Ok(()) }
}

/// Editors and pagers run commands by options and by `+`.
fn editor(rest: &[Word]) -> Result<(), Opaque> {
    let odd = |word: &Word| word.open || word.glob || word.text.starts_with(['-', '+']) && word.text.len() > 1;
    if rest.iter().any(odd) { Err("an editor or a pager runs commands") } else { Ok(()) }
}

/// Options can name programs to run here.
fn remote(rest: &[Word]) -> Result<(), Opaque> {
    let harmless = ["-p", "-P", "-r", "-q", "-v", "-C", "-4", "-6", "-N", "-T", "-l", "-b"];
    let odd =
        |word: &Word| word.open || word.glob || word.text.starts_with('-') && !harmless.contains(&word.text.as_str());
    if rest.iter().any(odd) { Err("an option can run something here") } else { Ok(()) }
}
