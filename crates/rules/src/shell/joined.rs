//! Lines that bash reads as one: it takes a backslash out together with the line end behind it, before it looks for
//! words, signs or keywords. `r\⏎m` is `rm` and `&\⏎&` is `&&`.
//!
//! It does not do so between single quotes, in comments and in here-documents whose end is quoted. Where this file cannot
//! tell which of these it is in, the line is opaque.

use std::borrow::Cow;

use super::read::Opaque;

const UNSURE: Opaque = "a line that goes on where nobody can tell how";

/// The line as bash sees it.
pub(super) fn join(line: &str) -> Result<Cow<'_, str>, Opaque> {
    if !line.contains("\\\n") {
        return Ok(Cow::Borrowed(line));
    }
    let mut joiner = Joiner { rest: line, text: String::with_capacity(line.len()), within: Vec::new(), here: None };
    joiner.walk()?;
    Ok(Cow::Owned(joiner.text))
}

/// What the text stands in, beside the line itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Quotes,
    /// `$(…)`, and the brackets of a subshell.
    Brackets,
    Backticks,
}

struct Joiner<'l> {
    rest: &'l str,
    text: String,
    within: Vec<Within>,
    /// The end of a here-document that begins with the next line, and whether tabs may stand before it.
    here: Option<(&'l str, bool)>,
}

impl<'l> Joiner<'l> {
    fn walk(&mut self) -> Result<(), Opaque> {
        while let Some(c) = self.rest.chars().next() {
            if let Some(rest) = self.rest.strip_prefix("\\\n") {
                self.rest = rest;
                continue;
            }
            match self.within.last() {
                Some(Within::Quotes) => self.quoted(c)?,
                // What quotes and backslashes mean there depends on what is around it.
                Some(Within::Backticks) if "\\'\"#$<(".contains(c) => return Err(UNSURE),
                _ => self.bare(c)?,
            }
        }
        if self.within.is_empty() && self.here.is_none() { Ok(()) } else { Err(UNSURE) }
    }

    /// Moves this many bytes over as they are.
    fn take(&mut self, bytes: usize) -> Result<(), Opaque> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or(UNSURE)?;
        self.text.push_str(taken);
        self.rest = rest;
        Ok(())
    }

    /// Moves everything over up to a sign and with it.
    fn take_through(&mut self, from: usize, sign: char) -> Result<(), Opaque> {
        let found = self.rest.get(from..).and_then(|rest| rest.find(sign)).ok_or(UNSURE)?;
        self.take(from + found + sign.len_utf8())
    }

    /// A backslash and what it takes the meaning of. A line end between the two is gone before it is looked at.
    fn escaped(&mut self) -> Result<(), Opaque> {
        let next = self.rest[1..].chars().next().ok_or(UNSURE)?;
        self.take(1 + next.len_utf8())
    }

    fn quoted(&mut self, c: char) -> Result<(), Opaque> {
        match c {
            '\\' => self.escaped(),
            '"' => {
                self.within.pop();
                self.take(1)
            }
            '`' => self.backtick(),
            '$' => self.dollar(),
            _ => self.take(c.len_utf8()),
        }
    }

    fn bare(&mut self, c: char) -> Result<(), Opaque> {
        match c {
            '\\' => self.escaped(),
            '\'' => self.take_through(1, '\''),
            '"' => {
                self.within.push(Within::Quotes);
                self.take(1)
            }
            '`' => self.backtick(),
            '$' => self.dollar(),
            '#' if self.begins() => self.take(self.rest.find('\n').unwrap_or(self.rest.len())),
            '(' => self.bracket(1),
            ')' => {
                // In a list of cases it closes nothing.
                if self.within.last() == Some(&Within::Brackets) {
                    self.within.pop();
                }
                self.take(1)
            }
            '<' if self.rest.starts_with("<<") => self.here(),
            '\n' => self.line_end(),
            // Its patterns have brackets that nobody opened.
            'c' if !self.within.is_empty() && self.rest.starts_with("case") => Err(UNSURE),
            _ => self.take(c.len_utf8()),
        }
    }

    /// Whether a word could begin here.
    fn begins(&self) -> bool {
        self.text.chars().next_back().is_none_or(|before| " \t\n;&|()<>`".contains(before))
    }

    fn backtick(&mut self) -> Result<(), Opaque> {
        if self.within.last() == Some(&Within::Backticks) {
            self.within.pop();
        } else if self.within.contains(&Within::Backticks) {
            return Err(UNSURE);
        } else {
            self.within.push(Within::Backticks);
        }
        self.take(1)
    }

    /// The sign may be split from what follows it.
    fn dollar(&mut self) -> Result<(), Opaque> {
        let mut behind = &self.rest[1..];
        while let Some(rest) = behind.strip_prefix("\\\n") {
            behind = rest;
        }
        let quoted = self.within.last() == Some(&Within::Quotes);
        match behind.chars().next() {
            // `${NAME}` has nothing in it that would matter here.
            Some('{') => {
                let name = behind.split('}').next().unwrap_or_default();
                let plain = |c: char| c.is_ascii_alphanumeric() || "_{\\\n".contains(c);
                if name.chars().all(plain) { self.take(1) } else { Err(UNSURE) }
            }
            Some('[') => Err(UNSURE),
            Some('(') => {
                self.text.push('$');
                self.rest = behind;
                self.bracket(1)
            }
            Some('\'') if !quoted => {
                self.text.push('$');
                self.rest = behind;
                self.take(1)?;
                while !self.rest.starts_with('\'') {
                    if self.rest.starts_with('\\') { self.escaped()? } else { self.take(char_len(self.rest)?)? }
                }
                self.take(1)
            }
            _ => self.take(1),
        }
    }

    fn bracket(&mut self, bytes: usize) -> Result<(), Opaque> {
        let mut behind = &self.rest[bytes..];
        while let Some(rest) = behind.strip_prefix("\\\n") {
            behind = rest;
        }
        // Something is worked out, in a language of its own.
        if behind.starts_with('(') {
            return Err(UNSURE);
        }
        self.within.push(Within::Brackets);
        self.take(bytes)
    }

    /// `<<END`, or `<<<`.
    fn here(&mut self) -> Result<(), Opaque> {
        if self.rest.starts_with("<<<") {
            return self.take(3);
        }
        let tabs = self.rest.starts_with("<<-");
        let word = self.rest[2 + usize::from(tabs)..].trim_start_matches([' ', '\t']);
        let end = word.split([' ', '\t', '\n', ';', '|', '&', '<', '>', ')']).next().unwrap_or_default();
        let name = end.trim_matches(['\'', '"']);
        let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !plain || self.here.is_some() {
            return Err(UNSURE);
        }
        self.here = Some((name, tabs));
        self.take(self.rest.len() - word.len() + end.len())
    }

    /// After it the text of a here-document stands, if one was begun. One whose end has no quotes is refused later if it
    /// has a backslash.
    fn line_end(&mut self) -> Result<(), Opaque> {
        self.take(1)?;
        let Some((end, tabs)) = self.here.take() else { return Ok(()) };
        loop {
            let line = self.rest.split('\n').next().unwrap_or_default();
            let ends = end == if tabs { line.trim_start_matches('\t') } else { line };
            if !ends && line.len() == self.rest.len() {
                return Err(UNSURE);
            }
            self.take(if ends { line.len() } else { line.len() + 1 })?;
            if ends {
                return Ok(());
            }
        }
    }
}

fn char_len(text: &str) -> Result<usize, Opaque> {
    text.chars().next().map(char::len_utf8).ok_or(UNSURE)
}

#[cfg(test)]
mod tests {
    use super::join;

    #[test]
    fn a_line_goes_on_where_bash_lets_it() {
        for (line, expected) in [
            ("r\\\nm x", "rm x"),
            ("r\\\n\\\nm x", "rm x"),
            ("ls &\\\n& r\"m\\\n\" x", "ls && r\"m\" x"),
            ("ls \\\\\nrm", "ls \\\\\nrm"),
            ("echo 'a\\\nb' \"a\\\nb\"", "echo 'a\\\nb' \"ab\""),
            ("ls # a\\\nrm x", "ls # a\\\nrm x"),
            ("ls x\\\n#a\\\nb", "ls x#ab"),
            ("echo \"$(r\\\nm)\" '\\\n'", "echo \"$(rm)\" '\\\n'"),
            ("echo $\\\n(r\\\nm) $\\\nX", "echo $(rm) $X"),
            ("echo $'\\'\\\n' r\\\nm", "echo $'\\'\\\n' rm"),
            ("cat <<'E' x\na\\\nb'\nE\nr\\\nm", "cat <<'E' x\na\\\nb'\nE\nrm"),
            ("echo \"$(cat <<'E'\na\\\n\"\nE\n)\" r\\\nm", "echo \"$(cat <<'E'\na\\\n\"\nE\n)\" rm"),
            ("docker run \\\n  -it \\\n  image", "docker run   -it   image"),
        ] {
            assert_eq!(join(line).as_deref(), Ok(expected), "{line:?}");
        }
    }

    #[test]
    fn where_nobody_can_tell_the_line_is_opaque() {
        for line in [
            "echo ${x#'} r\\\nm",
            "echo `echo \\`r\\\nm\\``",
            "echo $((1 \\\n+ 1))",
            "(( x \\\n))",
            "echo $(case x in x) echo;; esac; r\\\nm)",
            "cat <<$X\nr\\\nm",
            "cat <<E\nr\\\nm",
            "echo 'r\\\nm",
            "echo \"r\\\nm",
        ] {
            assert!(join(line).is_err(), "{line:?}");
        }
    }
}
