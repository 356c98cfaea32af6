//! `sed`: a script that can run commands (`e`) and write files (`w`), unless it is of the plain kind.

use super::super::Kind;
use super::super::read::{Opaque, Reader};
use super::super::word::Word;

impl Reader<'_> {
    pub(super) fn sed(&mut self, rest: &[Word]) -> Result<(), Opaque> {
        let (mut scripts, mut files, mut in_place) = (Vec::new(), Vec::new(), false);
        let mut words = rest.iter();
        while let Some(word) = words.next() {
            if word.open || word.glob && word.text.starts_with(['*', '?', '[']) {
                return Err("a sed script that is not known");
            }
            match word.text.as_str() {
                "-e" | "--expression" => scripts.push(words.next().ok_or("a sed script that is missing")?),
                "-n" | "-E" | "-r" | "-s" | "-u" | "-z" | "--quiet" | "--silent" | "--regexp-extended" | "--posix"
                | "--debug" | "--sandbox" | "-nE" | "-En" | "-nr" | "-rn" => {}
                option if option == "--in-place" || option.starts_with("-i") => in_place = true,
                option if option.starts_with('-') && option.len() > 1 => return Err("a sed option nobody knows"),
                _ => files.push(word),
            }
        }
        if scripts.is_empty() && !files.is_empty() {
            scripts.push(files.remove(0));
        }
        if scripts.iter().any(|script| script.open || !is_harmless(&script.text)) {
            return Err("a sed script that can run commands or write files");
        }
        for file in files.into_iter().filter(|_| in_place) {
            self.file(Kind::Edit, file.clone())?;
        }
        Ok(())
    }
}

/// Addresses, and commands that only change what is printed.
fn is_harmless(script: &str) -> bool {
    let mut chars = script.chars().peekable();
    while let Some(c) = chars.next() {
        let fine = match c {
            ' ' | '\t' | '\n' | ';' | '{' | '}' | '!' | ',' | '$' | '~' | '+' | '0'..='9' => true,
            '/' => skip(&mut chars, '/'),
            'p' | 'd' | 'q' | '=' | 'n' | 'N' | 'h' | 'H' | 'g' | 'G' | 'x' | 'D' | 'P' | 'l' => true,
            's' | 'y' => match chars.next() {
                Some(mark) if mark.is_ascii_punctuation() && mark != '\\' => {
                    let whole = skip(&mut chars, mark) && skip(&mut chars, mark);
                    while chars.next_if(|flag| "gpiI0123456789".contains(*flag)).is_some() {}
                    // Another flag could be `e` or `w`.
                    whole && chars.peek().is_none_or(|next| " \t\n;}".contains(*next))
                }
                _ => false,
            },
            _ => false,
        };
        if !fine {
            return false;
        }
    }
    true
}

/// Goes behind the next mark. A class in brackets is read as `sed` reads it by some and not by others: not at all.
fn skip(chars: &mut std::iter::Peekable<std::str::Chars>, mark: char) -> bool {
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '\n' => return false,
            c if c == mark => return true,
            '[' if mark != '[' => {
                // Only a class without the mark in it means the same to everybody.
                for c in chars.by_ref() {
                    if c == mark {
                        return false;
                    }
                    if c == ']' {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    false
}
