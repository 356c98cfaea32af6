//! Shells: `sh -c 'script'`, where the script is read as this one is.

use super::super::read::{Opaque, Reader};
use super::super::word::Word;

pub(super) const NAMES: &[&str] = &[
    "ash",
    "bash",
    "bash-static",
    "csh",
    "dash",
    "elvish",
    "fish",
    "ksh",
    "lksh",
    "mksh",
    "nu",
    "oksh",
    "osh",
    "posh",
    "pwsh",
    "rbash",
    "sash",
    "sh",
    "static-sh",
    "tcsh",
    "xonsh",
    "yash",
    "zsh",
];

/// Those whose scripts are written in the language that is read here.
const ALIKE: &[&str] = &["ash", "bash", "bash-static", "dash", "ksh", "mksh", "rbash", "sh", "zsh"];

/// What bash reads in one way, and `dash` and its like in another: to them `a &> b` is two commands.
const OWN: &[&str] =
    &["[[", "((", "&>", "|&", ";&", "<(", ">(", "<<<", "$'", "$\"", "${", "function", "select", "time"];

/// Whether a shell reads a script as bash does.
fn is_alike(name: &str, script: &str) -> bool {
    match name {
        "bash" | "bash-static" | "rbash" => true,
        // It has brackets, signs and loops of its own.
        "zsh" => !script.contains(['{', '(', '[', '*', '?', '=', '~', '#', '$', '^']),
        _ => !OWN.iter().any(|sign| script.replace("\\\n", "").contains(sign)),
    }
}

impl Reader<'_> {
    pub(super) fn shell(&mut self, name: &str, rest: &[Word]) -> Result<(), Opaque> {
        let mut script = false;
        let mut at = 0;
        while let Some(word) = rest.get(at) {
            if word.open || word.glob {
                return Err("a shell whose words are not known");
            }
            let Some(letters) = word.text.strip_prefix(['-', '+']) else { break };
            at += 1;
            match letters {
                "-" => break,
                "-version" | "-help" => return Ok(()),
                "-norc" | "-noprofile" | "-posix" | "-login" => {}
                "o" | "O" => at += 1,
                _ if !letters.is_empty() && letters.chars().all(|letter| "ceflnuvxhEH".contains(letter)) => {
                    script |= letters.contains('c');
                }
                _ => return Err("a shell with an option nobody knows"),
            }
        }
        let Some(word) = rest.get(at) else { return Err("a shell that reads commands from its input") };
        if word.open || word.glob {
            return Err("a shell whose words are not known");
        }
        if !script {
            // A file with commands, as any other program.
            return if super::is_device(&word.text) { Err("a shell that reads from a device") } else { Ok(()) };
        }
        if !ALIKE.contains(&name) {
            return Err("a shell of another language");
        }
        let read = self.nested(&word.text);
        self.check(if is_alike(name, &word.text) { Ok(()) } else { Err("another shell reads it in another way") });
        read
    }
}
