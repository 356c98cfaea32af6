//! Builtins of the shell that take the names of variables. What stands in the index of a name is run, so a name that is
//! known only when it runs may run anything; and there are names that change which programs run.

use super::super::read::Opaque;
use super::super::word::Word;
use super::variables::{self, is_name, redirects};

pub(super) const NAMES: &[&str] = &[
    "declare", "export", "getopts", "local", "printf", "read", "readonly", "set", "shopt", "test", "typeset", "unset",
    "wait",
];

/// Letters of `set` that leave the reading of later lines as it is. `-k` makes variables of words, and `-H` brings back
/// what was typed before.
const SET: &str = "abefhmnotuvxBCETP";

/// Names of `set -o` and `shopt` of the same kind. `posix`, `extglob` and `expand_aliases` are not.
const OPTIONS: &[&str] = &[
    "allexport",
    "dotglob",
    "errexit",
    "errtrace",
    "failglob",
    "functrace",
    "globstar",
    "inherit_errexit",
    "lastpipe",
    "monitor",
    "nocaseglob",
    "nocasematch",
    "noclobber",
    "noglob",
    "nounset",
    "nullglob",
    "pipefail",
    "verbose",
    "xtrace",
];

const NAME: Opaque = "the name of a variable is not known";
const READING: Opaque = "it changes how later lines are read";
const PROGRAMS: Opaque = "a variable that changes which programs run";

pub(super) fn check(name: &str, rest: &[Word]) -> Result<(), Opaque> {
    match name {
        "declare" | "typeset" | "local" | "readonly" | "export" => {
            rest.iter().try_for_each(|word| declared(name, word))
        }
        "test" => test(rest),
        "printf" => printf(rest),
        "set" => set(rest),
        "shopt" => {
            let fine = |word: &Word| matches!(word.text.as_str(), "-s" | "-u" | "-q" | "-p" | "-o") || is_option(word);
            if rest.iter().all(fine) { Ok(()) } else { Err(READING) }
        }
        "wait" => {
            let odd =
                |word: &Word| word.open && word.raw != "$!" || word.text.starts_with('-') && word.text.contains('p');
            if rest.iter().any(odd) { Err(NAME) } else { Ok(()) }
        }
        _ if rest.iter().any(|word| word.open || word.text.contains('[')) => Err(NAME),
        _ if name != "unset" && rest.iter().any(|word| redirects(&word.text, None)) => Err(PROGRAMS),
        _ => Ok(()),
    }
}

/// Options first, then words that are kept for later.
fn set(rest: &[Word]) -> Result<(), Opaque> {
    let mut words = rest.iter().peekable();
    while let Some(word) = words.next() {
        let Some(letters) = word.text.strip_prefix(['-', '+']).filter(|_| !word.open && !word.glob) else {
            return if word.open && !word.quoted || word.text.starts_with('*') { Err(READING) } else { Ok(()) };
        };
        if matches!(letters, "" | "-") {
            return Ok(());
        }
        if !letters.chars().all(|letter| SET.contains(letter)) {
            return Err(READING);
        }
        let named = letters.contains('o').then(|| words.next()).flatten();
        if named.is_some_and(|name| !is_option(name)) {
            return Err(READING);
        }
    }
    Ok(())
}

fn is_option(word: &Word) -> bool {
    !word.open && OPTIONS.contains(&word.text.as_str())
}

/// A number is worked out whenever it is set, and a reference leads to another name.
fn declared(builtin: &str, word: &Word) -> Result<(), Opaque> {
    if word.open && !word.quoted {
        return Err(NAME);
    }
    if word.text.starts_with(['-', '+']) {
        let evaluates = builtin != "export" && word.text.contains(['i', 'n']);
        return if evaluates { Err("a variable that is worked out when it is set") } else { Ok(()) };
    }
    let name = word.text.split('=').next().unwrap_or_default().trim_end_matches('+');
    if is_name(name) { variables::check(word) } else { Err(NAME) }
}

/// Options come first: a word that begins with something unknown may be one.
fn printf(rest: &[Word]) -> Result<(), Opaque> {
    let Some(first) = rest.first() else { return Ok(()) };
    if first.open && first.text.starts_with(['*', '-']) {
        return Err(NAME);
    }
    let Some(behind) = first.text.strip_prefix("-v") else { return Ok(()) };
    let name = if behind.is_empty() { rest.get(1).map_or("", |word| &word.text) } else { behind };
    if !is_name(name) {
        return Err(NAME);
    }
    if redirects(name, None) { Err(PROGRAMS) } else { Ok(()) }
}

/// `-v` asks about a name. A word that is not known is no operator where it stands beside one, and in quotes.
fn test(rest: &[Word]) -> Result<(), Opaque> {
    let operator = |at: Option<usize>| {
        let word = at.and_then(|at| rest.get(at)).filter(|word| !word.open);
        word.is_some_and(|word| {
            word.text.len() > 1 && word.text.starts_with('-') || ["=", "==", "!=", "!"].contains(&word.text.as_str())
        })
    };
    for (at, word) in rest.iter().enumerate() {
        let asks_name = matches!(word.text.as_str(), "-v" | "-R");
        if asks_name && rest.get(at + 1).is_some_and(|name| name.open || !is_name(&name.text)) {
            return Err(NAME);
        }
        let held = rest.len() == 1 || operator(at.checked_sub(1)) || operator(Some(at + 1));
        if word.open && !is_number(&word.raw) && !(word.quoted && held) {
            return Err("an operator that is not known");
        }
    }
    Ok(())
}

/// Between double brackets what stands beside a comparison of numbers is worked out, whatever quotes are around it.
pub(in super::super) fn double_brackets(inner: &str) -> Result<(), Opaque> {
    let words: Vec<&str> = inner.split([' ', '\t', '&', '|', '!']).filter(|word| !word.is_empty()).collect();
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| words[at]);
        let after = words.get(at + 1).copied();
        let fine = match *word {
            "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" => {
                before.is_none_or(is_number) && after.is_none_or(is_number)
            }
            "-v" | "-R" => after.is_none_or(is_name),
            _ => true,
        };
        if !fine {
            return Err("something is worked out that is not known");
        }
    }
    Ok(())
}

/// Written out, or one of the shell's own.
fn is_number(text: &str) -> bool {
    let digits = text.trim_start_matches('-');
    matches!(text.trim_matches('"'), "$?" | "$#" | "$$" | "$!")
        || !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}
