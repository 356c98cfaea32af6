//! Programs that run other programs.
//!
//! Whoever allows `timeout *` does not mean `timeout 9 rm -rf ~`. So the command inside is judged as well; where it
//! cannot be told, or is in a language nobody reads here, the line is opaque. A program that is not named here is judged
//! by its words alone.

mod awk;
pub(super) mod builtins;
mod compilers;
mod databases;
mod find;
pub(super) mod git;
mod interpreters;
mod launchers;
mod options;
pub(super) mod places;
mod sed;
mod shells;
pub(super) mod variables;
mod wrappers;

use super::Kind;
use super::read::{Opaque, Reader};
use super::word::Word;
use options::{TRAPS, has_trap};
use std::collections::HashSet;
use std::sync::LazyLock;

/// Runs what its words, its input or a person tell it, in ways of its own.
const ALWAYS_OPAQUE: &[&str] = &[
    ".",
    "aa-exec",
    "alias",
    "at",
    "batch",
    "bind",
    "bpftrace",
    "bwrap",
    "capsh",
    "cgdb",
    "choom",
    "chpst",
    "chroot",
    "compgen",
    "complete",
    "coproc",
    "coreutils",
    "cpulimit",
    "crontab",
    "dbus-run-session",
    "dc",
    "dmenu",
    "ed",
    "emacs",
    "enable",
    "entr",
    "eval",
    "evim",
    "ex",
    "expect",
    "fakeroot",
    "fc",
    "firejail",
    "flock",
    "ftp",
    "fzf",
    "gdb",
    "gdb-multiarch",
    "gdbserver",
    "gimp",
    "gvim",
    "hash",
    "hyperfine",
    "i386",
    "jjs",
    "jrunscript",
    "ld.so",
    "ldd",
    "let",
    "lftp",
    "linux32",
    "linux64",
    "lldb",
    "logsave",
    "ltrace",
    "m4",
    "mail",
    "mailx",
    "mapfile",
    "newgrp",
    "nix-shell",
    "nsenter",
    "numactl",
    "nvim",
    "openvpn",
    "parallel",
    "perf",
    "pkexec",
    "pppd",
    "prlimit",
    "proot",
    "pry",
    "readarray",
    "rlwrap",
    "rpmbuild",
    "rr",
    "rust-gdb",
    "rust-lldb",
    "run-parts",
    "runcon",
    "runuser",
    "rview",
    "rvim",
    "screen",
    "script",
    "setarch",
    "setpriv",
    "sftp",
    "sg",
    "socat",
    "source",
    "ssh-agent",
    "start-stop-daemon",
    "strace",
    "su",
    "systemd-inhibit",
    "systemd-run",
    "tclsh",
    "telnet",
    "tmux",
    "tnftp",
    "trap",
    "uname26",
    "unshare",
    "valgrind",
    "vi",
    "view",
    "vigr",
    "vim",
    "vimdiff",
    "vipe",
    "vipw",
    "w3m",
    "watch",
    "wish",
    "x86_64",
    "xterm",
    "xvfb-run",
];

/// Looked at by name in [`Reader::program`].
const NAMED: &[&str] = &[
    "awk",
    "coverage",
    "fd",
    "fdfind",
    "find",
    "gawk",
    "gfind",
    "git",
    "gsed",
    "less",
    "man",
    "mariadb",
    "mawk",
    "more",
    "mosh",
    "most",
    "mysql",
    "nano",
    "nawk",
    "psql",
    "scp",
    "sed",
    "sqlcipher",
    "sqlite3",
    "ssh",
    "tee",
];

impl Reader<'_> {
    /// Looks at what a command runs beside itself.
    pub(super) fn program(&mut self, words: &[Word]) -> Result<(), Opaque> {
        let rest = &words[1..];
        places::check(words)?;
        let Some(name) = known(&words[0].text) else { return Ok(()) };
        if ALWAYS_OPAQUE.contains(&name) || name.starts_with("ld-linux") {
            return Err("it runs what it is told");
        }
        if let Some(wrapper) = wrappers::find(name) {
            return self.wrapped(wrapper, rest);
        }
        if let Some(inner) = launchers::command(name, rest) {
            self.deeper(|reader| reader.program(inner?))?;
        }
        if shells::NAMES.contains(&name) {
            return self.shell(name, rest);
        }
        if let Some(harmless) = interpreters::find(name) {
            interpreters::check(harmless, rest)?;
            let module = interpreters::as_module(name, rest);
            return module.map_or(Ok(()), |inner| self.deeper(|reader| reader.program(inner)));
        }
        if compilers::is_one(name) {
            compilers::check(rest)?;
        }
        match name {
            "git" => git::check(rest),
            "find" | "gfind" | "fd" | "fdfind" => self.find(name, rest),
            "awk" | "gawk" | "mawk" | "nawk" => awk::check(rest),
            "sed" | "gsed" => self.sed(rest),
            "sqlcipher" | "sqlite3" => databases::sqlite(rest),
            "mariadb" | "mysql" | "psql" => databases::client(rest),
            "gh" if rest.first().is_some_and(|word| matches!(word.text.as_str(), "alias" | "extension")) => {
                Err("it runs what it is told")
            }
            "coverage" => interpreters::module(rest),
            "tee" => self.writes(rest),
            "less" | "more" | "most" | "man" | "nano" => pager(rest),
            "ssh" | "scp" | "mosh" => remote(rest),
            _ if builtins::NAMES.contains(&name) => builtins::check(name, rest),
            _ if name.starts_with("git-") => {
                let words: Vec<Word> = [Word::known(&name[4..])].into_iter().chain(rest.iter().cloned()).collect();
                git::check(&words)
            }
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
pub(super) fn in_other_words(words: &[Word]) -> Vec<String> {
    let name = base(&words[0].text);
    if name == "git" || name.starts_with("git-") { git::in_other_words(name, words) } else { run_from_file(words) }
}

/// `deploy x` for `bash ./deploy x`, and `pip install` for `python3 -m pip install`.
fn run_from_file(words: &[Word]) -> Vec<String> {
    let Some(name) = known(&words[0].text) else { return Vec::new() };
    let is_shell = shells::NAMES.contains(&name);
    if !is_shell && interpreters::find(name).is_none() {
        return Vec::new();
    }
    let is_option = |word: &&Word| word.text.starts_with(['-', '+']);
    let rest = &words[1..];
    let options = rest.iter().take_while(is_option).count();
    // A program in one of its words is no file.
    let takes_one = if is_shell { "c" } else { "cepr" };
    let inline = |word: &Word| word.text.contains(|c| takes_one.contains(c)) && !word.text.starts_with("--");
    if rest[..options].iter().any(inline) || options == rest.len() {
        return Vec::new();
    }
    let said: Vec<&str> = rest[options..].iter().map(|word| word.text.as_str()).collect();
    let as_written = said.join(" ");
    let as_named = as_written[said[0].len() - base(said[0]).len()..].to_owned();
    vec![as_written, as_named]
}

/// The name of a program, if what it does with its words is known here.
fn known(name: &str) -> Option<&str> {
    static NAMES: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        let lists = [ALWAYS_OPAQUE, NAMED, builtins::NAMES, shells::NAMES].into_iter().flatten().copied();
        let options = TRAPS.iter().map(|(name, _)| *name);
        lists
            .chain(options)
            .chain(wrappers::names())
            .chain(interpreters::names())
            .chain(launchers::names())
            .chain(places::names())
            .collect()
    });
    let is_known = |name: &str| {
        NAMES.contains(name) || compilers::is_one(name) || name.starts_with("git-") || name.starts_with("ld-linux")
    };
    let name = base(name);
    if is_known(name) {
        return Some(name);
    }
    let stem = stem(name);
    (stem != name && is_known(stem)).then_some(stem)
}

/// `python` for `python3.12`, `perl` for `perl5.36-x86_64-linux-gnu`, `vim` for `vim.tiny`. A file `watch.sh` is itself.
fn stem(name: &str) -> &str {
    if let Some((stem, "athena" | "basic" | "gtk" | "gtk3" | "nox" | "static" | "tiny")) = name.split_once('.') {
        return stem;
    }
    let (stem, version) = name.split_at(name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len()));
    let version = version.split('-').next().unwrap_or_default();
    let is_version = version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_version { stem.trim_end_matches('-') } else { name }
}

/// What a file says may be what somebody else says just now: input, open files, other programs.
pub(super) fn is_device(path: &str) -> bool {
    let (mut parts, mut from_root) = (Vec::new(), path.starts_with('/'));
    for part in path.split('/') {
        match part {
            "" | "." => {}
            // Enough of them lead to the root from anywhere.
            ".." => from_root |= parts.pop().is_none(),
            _ => parts.push(part),
        }
    }
    from_root && matches!(parts.first(), Some(&"dev" | &"proc"))
}

pub(super) fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Pagers run commands by options and by `+`.
fn pager(rest: &[Word]) -> Result<(), Opaque> {
    let odd = |word: &Word| word.open || word.glob || word.text.starts_with(['-', '+']) && word.text.len() > 1;
    if rest.iter().any(odd) { Err("a pager runs commands") } else { Ok(()) }
}

/// Options can name programs to run here.
fn remote(rest: &[Word]) -> Result<(), Opaque> {
    let harmless = ["-p", "-P", "-r", "-q", "-v", "-C", "-4", "-6", "-N", "-T", "-l", "-b"];
    let odd =
        |word: &Word| word.open || word.glob || word.text.starts_with('-') && !harmless.contains(&word.text.as_str());
    if rest.iter().any(odd) { Err("an option can run something here") } else { Ok(()) }
}
