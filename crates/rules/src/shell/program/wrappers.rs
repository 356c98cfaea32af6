//! Programs that are followed by the command they run.

use super::super::read::{Opaque, Reader};
use super::super::word::{ITEM, Word};
use super::variables;

pub(super) struct Wrapper {
    names: &'static [&'static str],
    /// Options without a value. Any that is in neither list makes the line opaque.
    flags: &'static [&'static str],
    /// Options with a value, behind them or as the next word; with `=` only behind them.
    valued: &'static [&'static str],
    /// Words between the options and the command.
    operands: usize,
    /// More words are added to the command, nobody knows which.
    adds: bool,
}

const NO: &[&str] = &[];

const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        names: &["env"],
        flags: &["-i", "-", "--ignore-environment", "-v", "--debug", "-0", "--null"],
        valued: &["-u", "--unset", "-C", "--chdir"],
        operands: 0,
        adds: false,
    },
    Wrapper { names: &["nice"], flags: &["-0"], valued: &["-n", "--adjustment"], operands: 0, adds: false },
    Wrapper {
        names: &["ionice"],
        flags: &["-t", "--ignore"],
        valued: &["-c", "-n", "--class", "--classdata"],
        operands: 0,
        adds: false,
    },
    Wrapper {
        names: &["timeout", "gtimeout"],
        flags: &["--foreground", "--preserve-status", "-v", "--verbose"],
        valued: &["-k", "-s", "--kill-after", "--signal"],
        operands: 1,
        adds: false,
    },
    Wrapper {
        names: &[
            "nohup",
            "chronic",
            "unbuffer",
            "builtin",
            "busybox",
            "toybox",
            "catchsegv",
            "noglob",
            "sem",
            "caffeinate",
        ],
        flags: NO,
        valued: NO,
        operands: 0,
        adds: false,
    },
    Wrapper {
        names: &["time", "gtime"],
        flags: &["-p", "--portability", "-v", "--verbose"],
        valued: &["-f", "--format"],
        operands: 0,
        adds: false,
    },
    Wrapper { names: &["command"], flags: &["-p"], valued: NO, operands: 0, adds: false },
    Wrapper { names: &["exec"], flags: &["-c", "-l"], valued: &["-a"], operands: 0, adds: false },
    Wrapper {
        names: &["setsid"],
        flags: &["-c", "-f", "-w", "--ctty", "--fork", "--wait"],
        valued: NO,
        operands: 0,
        adds: false,
    },
    Wrapper {
        names: &["stdbuf"],
        flags: NO,
        valued: &["-i", "-o", "-e", "--input", "--output", "--error"],
        operands: 0,
        adds: false,
    },
    Wrapper { names: &["chrt"], flags: &["-b", "-f", "-i", "-o", "-r"], valued: NO, operands: 1, adds: false },
    Wrapper { names: &["taskset"], flags: NO, valued: NO, operands: 1, adds: false },
    Wrapper {
        names: &["sudo"],
        flags: &["-n", "-E", "-H", "-k", "-S", "-b", "-A", "-P", "--non-interactive", "--preserve-env", "--set-home"],
        valued: &["-u", "-g", "-p", "-C", "-T", "-D", "--user", "--group", "--prompt", "--chdir"],
        operands: 0,
        adds: false,
    },
    Wrapper { names: &["doas"], flags: &["-n"], valued: &["-u"], operands: 0, adds: false },
    Wrapper {
        names: &["xargs", "gxargs"],
        flags: &[
            "-0",
            "-r",
            "-t",
            "-x",
            "--null",
            "--no-run-if-empty",
            "--verbose",
            "--exit",
            "--max-lines",
            "--replace",
        ],
        valued: &[
            "-n",
            "-P",
            "-L",
            "-d",
            "-s",
            "-E",
            "-I",
            "--max-args",
            "--max-procs",
            "--max-lines=",
            "--delimiter",
            "--replace=",
        ],
        operands: 0,
        adds: true,
    },
];

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    WRAPPERS.iter().flat_map(|wrapper| wrapper.names.iter().copied())
}

pub(super) fn find(name: &str) -> Option<&'static Wrapper> {
    WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name))
}

impl Reader<'_> {
    pub(super) fn wrapped(&mut self, wrapper: &Wrapper, rest: &[Word]) -> Result<(), Opaque> {
        // `command -v name` only tells where it is.
        if wrapper.names == ["command"] && rest.first().is_some_and(|word| matches!(word.text.as_str(), "-v" | "-V")) {
            return Ok(());
        }
        let mut at = wrapper.options(rest)? + wrapper.operands;
        let sets = |word: &Word| word.text.contains('=') && !word.text.starts_with(['-', '/', '.']);
        while let Some(word) = rest.get(at).filter(|word| sets(word) && !word.open) {
            self.check(variables::check(word));
            at += 1;
        }
        let Some(inner) = rest.get(at..).filter(|inner| !inner.is_empty()) else { return Ok(()) };
        if rest[..at].iter().any(|word| word.open || word.glob) {
            return Err("where the command inside begins is not known");
        }
        let mut inner = inner.to_vec();
        if wrapper.adds {
            for mark in marks(&rest[..at]) {
                inner.iter_mut().for_each(|word| *word = word.filled(mark));
            }
            // A later option may take `-I` back, so there may be more at the end as well.
            inner.push(Word::hole(ITEM));
        }
        self.deeper(|reader| reader.command(&inner))
    }
}

impl Wrapper {
    /// How many words are options.
    fn options(&self, rest: &[Word]) -> Result<usize, Opaque> {
        let mut at = 0;
        while let Some(word) = rest.get(at).map(|word| word.text.as_str()).filter(|word| word.starts_with('-')) {
            if word == "--" {
                return Ok(at + 1);
            }
            at += if self.flags.contains(&word) || self.is_bundle(word) {
                1
            } else if self.valued.contains(&word) {
                2
            } else if self.valued.iter().any(|known| has_value(known, word)) || self.is_number(word) {
                1
            } else {
                return Err("an option nobody knows before the command inside");
            };
        }
        Ok(at)
    }

    /// `-0r`, as `-0 -r`.
    fn is_bundle(&self, word: &str) -> bool {
        let letters = word.strip_prefix('-').unwrap_or_default();
        !letters.is_empty() && letters.chars().all(|letter| self.flags.contains(&format!("-{letter}").as_str()))
    }

    /// `nice -5`.
    fn is_number(&self, word: &str) -> bool {
        self.names == ["nice"] && word[1..].bytes().all(|byte| byte.is_ascii_digit())
    }
}

/// The texts that `xargs -I` puts something in the place of.
fn marks(options: &[Word]) -> Vec<&str> {
    let marks = options.iter().enumerate().filter_map(|(at, word)| match word.text.as_str() {
        "-I" => options.get(at + 1).map(|word| word.text.as_str()),
        "--replace" => Some("{}"),
        _ => word.text.strip_prefix("-I").or_else(|| word.text.strip_prefix("--replace=")),
    });
    marks.filter(|mark| !mark.is_empty()).collect()
}

/// `-n5` and `--signal=9`.
fn has_value(option: &str, word: &str) -> bool {
    if option.ends_with('=') {
        word.starts_with(option)
    } else if option.starts_with("--") {
        word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))
    } else {
        !word.starts_with("--") && word.starts_with(option) && word.len() > option.len()
    }
}
