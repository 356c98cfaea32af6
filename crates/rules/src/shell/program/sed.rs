//! `sed`: a script that can run commands (`e`) and write files (`w`), unless it is of the plain kind.

use super::super::Kind;
use super::super::read::{Opaque, Reader};
use super::super::word::Word;

impl Reader<'_> {
    pub(super) fn sed(&mut self, rest: &[Word]) -> Result<(), Opaque> {
        let (mut scripts, mut files, mut in_place) = (Vec::new(), Vec::new(), None);
        let mut words = rest.iter();
        while let Some(word) = words.next() {
            if word.open || word.glob && word.text.starts_with(['*', '?', '[']) {
                return Err("a sed script that is not known");
            }
            match word.text.as_str() {
                "-e" | "--expression" => scripts.push(words.next().ok_or("a sed script that is missing")?),
                "-n" | "-E" | "-r" | "-s" | "-u" | "-z" | "--quiet" | "--silent" | "--regexp-extended" | "--posix"
                | "--debug" | "--sandbox" | "-nE" | "-En" | "-nr" | "-rn" => {}
                "--in-place" => in_place = Some(""),
                option if option.strip_prefix("-i").is_some_and(is_suffix) => in_place = option.strip_prefix("-i"),
                option if option.starts_with('-') && option.len() > 1 => return Err("a sed option nobody knows"),
                _ => files.push(word),
            }
        }
        if scripts.is_empty() && !files.is_empty() {
            scripts.push(files.remove(0));
        }
        // A pattern may become the name of a file, and that another script.
        if scripts.iter().any(|script| script.open || script.glob || !is_harmless(&script.text)) {
            return Err("a sed script that can run commands or write files");
        }
        let Some(suffix) = in_place else { return Ok(()) };
        for file in files {
            self.file(Kind::Edit, file.clone())?;
            if !suffix.is_empty() {
                let (raw, text) = (format!("{}{suffix}", file.raw), format!("{}{suffix}", file.text));
                self.file(Kind::Edit, Word { raw, text, ..file.clone() })?;
            }
        }
        Ok(())
    }
}

/// What is put behind a name for the copy that `-i` keeps. With a `*` or a `/` in it that is in another place.
fn is_suffix(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-~".contains(&byte))
}

/// Marks between the parts of `s` and `y` that mean nothing else in any of them.
const MARKS: &str = "/|,#:@!%~_+-=;";

type Chars<'s> = std::iter::Peekable<std::str::Chars<'s>>;

/// Addresses, and commands that only change what is printed. Commands that take the rest of their line (`a`, `b`, `:`,
/// `r`) are not among them, so that each sign is what it looks like, but for the texts between marks.
fn is_harmless(script: &str) -> bool {
    let mut chars = script.chars().peekable();
    while let Some(c) = chars.next() {
        let fine = match c {
            ' ' | '\t' | '\n' | ';' | '{' | '}' | '!' | ',' | '$' | '~' | '+' | '0'..='9' => true,
            '/' => skip_pattern(&mut chars, '/'),
            'p' | 'd' | 'q' | '=' | 'n' | 'N' | 'h' | 'H' | 'g' | 'G' | 'x' | 'D' | 'P' | 'l' => true,
            's' | 'y' => match chars.next().filter(|mark| MARKS.contains(*mark)) {
                Some(mark) => {
                    let first = if c == 's' { skip_pattern(&mut chars, mark) } else { skip_text(&mut chars, mark) };
                    let whole = first && skip_text(&mut chars, mark);
                    while c == 's' && chars.next_if(|flag| "gpiI0123456789".contains(*flag)).is_some() {}
                    // Another flag could be `e` or `w`.
                    whole && chars.peek().is_none_or(|next| " \t\n;}".contains(*next))
                }
                None => false,
            },
            _ => false,
        };
        if !fine {
            return false;
        }
    }
    true
}

/// Goes behind the mark that ends a regular expression.
fn skip_pattern(chars: &mut Chars<'_>, mark: char) -> bool {
    while let Some(c) = chars.next() {
        let fine = match c {
            c if c == mark => return true,
            '[' => skip_class(chars, mark),
            '\\' => skip_escaped(chars),
            c => c != '\n',
        };
        if !fine {
            return false;
        }
    }
    false
}

/// Goes behind the mark that ends what takes the place of something. Brackets mean nothing there.
fn skip_text(chars: &mut Chars<'_>, mark: char) -> bool {
    while let Some(c) = chars.next() {
        let fine = match c {
            c if c == mark => return true,
            '\\' if chars.next_if_eq(&'\n').is_some() => true,
            '\\' => skip_escaped(chars),
            c => c != '\n',
        };
        if !fine {
            return false;
        }
    }
    false
}

/// `\cX` is a sign of its own, in which `X` may be a backslash or a bracket.
fn skip_escaped(chars: &mut Chars<'_>) -> bool {
    chars.next().is_some_and(|c| c != 'c' && c != '\n')
}

/// Goes behind the class that a bracket begins. Some read a mark or a backslash in it as `sed` does elsewhere, others as
/// any sign: only a class that ends in the same place for all of them will do.
fn skip_class(chars: &mut Chars<'_>, mark: char) -> bool {
    chars.next_if_eq(&'^');
    // Here it is a sign like others.
    chars.next_if_eq(&']');
    while let Some(c) = chars.next() {
        let fine = match c {
            ']' => return true,
            '[' => match chars.peek() {
                Some(':') => skip_named(chars),
                Some('.' | '=') => false,
                _ => true,
            },
            '\\' => chars.next_if(|c| !matches!(c, ']' | '[' | 'c' | '\\') && *c != mark).is_some_and(|c| c != '\n'),
            c => c != mark && c != '\n',
        };
        if !fine {
            return false;
        }
    }
    false
}

/// The rest of `[:alpha:]`.
fn skip_named(chars: &mut Chars<'_>) -> bool {
    chars.next_if_eq(&':');
    while chars.next_if(char::is_ascii_lowercase).is_some() {}
    chars.next() == Some(':') && chars.next() == Some(']')
}

#[cfg(test)]
mod tests {
    use super::is_harmless;
    use proptest::prelude::*;
    use std::process::Command;

    /// Scripts of `sed` in which a mark may or may not be one.
    fn sed_script() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            4 => Just("s/"), 2 => Just("s,"), 2 => Just("y/"), 6 => Just("/"), 3 => Just(","), 5 => Just("e"), 3 => Just(";"),
            4 => Just("["), 4 => Just("]"), 2 => Just("[^"), 2 => Just("[]"), 1 => Just("[:alpha:]"), 1 => Just("[.].]"),
            1 => Just("[=]=]"), 3 => Just("\\"), 1 => Just("\\c"), 1 => Just("\\n"), 1 => Just("\n"), 2 => Just("p"), 1 => Just("{"),
            1 => Just("}"), 1 => Just("g"), 2 => Just("x"), 1 => Just("&"), 1 => Just(" "), 1 => Just("1"), 1 => Just("!"),
            1 => Just("w"), 1 => Just("s|"), 1 => Just("|"), 1 => Just("#"), 1 => Just("s#"),
        ];
        prop::collection::vec(piece, 1..14).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

        /// In its own sandbox GNU `sed` refuses scripts that run something or open files.
        #[test]
        fn a_sed_script_that_is_taken_for_harmless_runs_nothing(script in sed_script()) {
            for extended in [false, true].into_iter().filter(|_| is_harmless(&script)) {
                let mut sed = Command::new("sed");
                sed.args(["--sandbox", "-n"]).args(extended.then_some("-E")).args(["-e", &script]);
                let done = sed.env("LC_ALL", "C").stdin(std::process::Stdio::null()).output().expect("sed is needed for tests");
                let said = String::from_utf8_lossy(&done.stderr);
                prop_assert!(!said.contains("sandbox mode"), "{script:?}: {said}");
            }
        }
    }
}
