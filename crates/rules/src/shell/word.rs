//! One word of a command: what it is when quotes are off, and how much of that is known.

use tree_sitter::Node;

use super::read::{Opaque, Reader};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// As it is written.
    pub(super) raw: String,
    /// Without its quotes; `*` for each part that is known only when it runs.
    pub(super) text: String,
    /// Some of it is known only when it runs, and it may become several words.
    pub(super) open: bool,
    /// It names files by a pattern.
    pub(super) glob: bool,
    /// Stays one word, as it is written: has quotes and nothing but what is between them, or sets a variable.
    pub(super) quoted: bool,
    /// Has `{` or `}` outside of quotes.
    pub(super) braced: bool,
}

impl Word {
    /// A word that is what it says.
    pub(super) fn known(text: &str) -> Self {
        Self { raw: text.into(), text: text.into(), ..Self::default() }
    }

    /// Something nobody knows yet.
    pub(super) fn hole(raw: &str) -> Self {
        Self { raw: raw.into(), text: "*".into(), open: true, ..Self::default() }
    }

    /// The same with something nobody knows yet wherever the mark stands, also within a script.
    pub(super) fn filled(&self, mark: &str) -> Self {
        if !self.text.contains(mark) {
            return self.clone();
        }
        let mut raw = ITEM.to_owned();
        if self.text != mark {
            let pieces: Vec<String> = self.text.split(mark).map(escaped).collect();
            raw = format!("\"{}\"", pieces.join(ITEM));
        }
        Self { raw, text: self.text.replace(mark, "*"), open: true, ..self.clone() }
    }

    /// A pattern for names of files as what it may come to: `?` is one character, and a set of them is anything.
    pub(super) fn spread(&self) -> Self {
        if !self.glob {
            return self.clone();
        }
        let mut text = String::with_capacity(self.text.len());
        let mut rest = self.text.as_str();
        while let Some(c) = rest.chars().next() {
            let end = (c == '[').then(|| rest.rfind(']')).flatten();
            text.push(if end.is_some() { '*' } else { c });
            rest = &rest[end.unwrap_or(0) + if end.is_some() { 1 } else { c.len_utf8() }..];
        }
        // What an extended pattern stands for depends on options.
        if text.contains('(') {
            text = "*".into();
        }
        Self { text, open: true, glob: false, ..self.clone() }
    }

    /// As a person would write it.
    pub(super) fn shown(&self) -> String {
        if self.open || self.quoted && !is_plain(&self.text) || self.glob {
            self.raw.clone()
        } else if is_plain(&self.text) {
            self.text.clone()
        } else {
            format!("'{}'", self.text.replace('\'', r"'\''"))
        }
    }

    /// What allows have to match.
    pub(super) fn matched(&self) -> String {
        if self.open { self.text.clone() } else { self.shown() }
    }
}

/// How something is written that a program puts into a command it runs, so that it is read as what it is.
pub(super) const ITEM: &str = "${ITEM}";

/// As it is written between double quotes.
fn escaped(text: &str) -> String {
    let escape = |c: char| ['\\', c].into_iter().skip(usize::from(!"\"\\$`".contains(c)));
    text.chars().flat_map(escape).collect()
}

/// Nothing in it that a shell would read as more than itself.
pub(super) fn is_plain(text: &str) -> bool {
    let odd = |c: char| !(c.is_alphanumeric() || "-_./=:,@%+^~".contains(c));
    !text.is_empty() && !text.contains(odd)
}

impl Reader<'_> {
    /// Reads a word, and with it the commands in its substitutions.
    pub(super) fn word(&mut self, node: Node) -> Result<Word, Opaque> {
        let raw = self.text(node);
        let mut word = self.piece(node)?;
        word.raw = raw.to_owned();
        // `{a,b}` is two words, and either may be an option.
        if word.braced && (raw.contains(',') || raw.contains("..")) {
            (word.text, word.open) = ("*".into(), true);
        }
        // The shell runs what stands in the index of an array, even out of quotes and where a number is expected.
        if raw.contains('[') && (raw.contains("$(") || raw.contains('`')) {
            return Err("a command in an index");
        }
        Ok(word)
    }

    fn piece(&mut self, node: Node) -> Result<Word, Opaque> {
        let raw = self.text(node);
        let mut word = Word::default();
        match node.kind() {
            "word" | "number" | "variable_name" | "test_operator" | "==" | "extglob_pattern" => bare(raw, &mut word)?,
            "raw_string" => {
                let inner = raw.strip_prefix('\'').and_then(|raw| raw.strip_suffix('\''));
                word.text = inner.filter(|inner| !inner.contains('\'')).ok_or("odd quotes")?.to_owned();
                word.quoted = true;
            }
            "string" => self.string(node, &mut word)?,
            "concatenation" => self.joined(node, &mut word)?,
            "ansi_c_string" if !is_whole(raw) => return Err("odd quotes"),
            "ansi_c_string" | "brace_expression" => word = Word::hole(raw),
            "translated_string" => {
                // Another language may have other words for it; what it runs, it runs in any.
                let string = node.named_child(0).filter(|_| node.named_child_count() == 1).ok_or("odd quotes")?;
                self.piece(string)?;
                word = Word::hole(raw);
            }
            "simple_expansion" => word = Word::hole(raw),
            "expansion" if is_variable(raw) => word = Word::hole(raw),
            "arithmetic_expansion" if is_sum(raw) => word = Word::hole(raw),
            "command_substitution" | "process_substitution" => {
                // A backslash between backticks means something else than outside of them.
                if raw.starts_with('`') && raw.contains('\\') {
                    return Err("a backslash between backticks");
                }
                self.inside(node)?;
                word = Word::hole(raw);
            }
            _ => return Err("a part of a word that nobody can read"),
        }
        Ok(word)
    }

    fn joined(&mut self, node: Node, word: &mut Word) -> Result<(), Opaque> {
        let mut end = node.start_byte();
        for child in node.children(&mut node.walk()) {
            if child.start_byte() != end {
                return Err("a gap in a word");
            }
            end = child.end_byte();
            let piece = self.piece(child)?;
            word.text.push_str(&piece.text);
            word.open |= piece.open;
            word.glob |= piece.glob;
            word.braced |= piece.braced;
        }
        if end == node.end_byte() { Ok(()) } else { Err("a gap in a word") }
    }

    /// The text between the quotes is taken from the line itself: the grammar has no node for some of it.
    fn string(&mut self, node: Node, word: &mut Word) -> Result<(), Opaque> {
        let whole = self.text(node);
        if whole.len() < 2 || !whole.starts_with('"') || !whole.ends_with('"') {
            return Err("odd quotes");
        }
        let mut at = node.start_byte() + 1;
        for child in node.named_children(&mut node.walk()) {
            if child.kind() == "string_content" {
                continue;
            }
            unescape(&self.line[at..child.start_byte()], &mut word.text)?;
            word.text.push_str(&self.piece(child)?.text);
            word.open = true;
            at = child.end_byte();
        }
        word.quoted = true;
        unescape(self.line.get(at..node.end_byte() - 1).ok_or("odd quotes")?, &mut word.text)
    }
}

/// A word without quotes.
fn bare(raw: &str, word: &mut Word) -> Result<(), Opaque> {
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(next) if next != '\n' => word.text.push(next),
                _ => return Err("a backslash at the end"),
            },
            ';' | '|' | '&' | '<' | '>' | '(' | ')' | '$' | '`' | '"' | '\'' | '\n' | ' ' | '\t' => {
                return Err("a sign where a word should be");
            }
            _ => {
                word.glob |= matches!(c, '*' | '?' | '[');
                word.braced |= matches!(c, '{' | '}');
                word.text.push(c);
            }
        }
    }
    Ok(())
}

/// What stands between double quotes and is no expansion.
fn unescape(raw: &str, into: &mut String) -> Result<(), Opaque> {
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(next @ ('"' | '\\' | '$' | '`')) => into.push(next),
                Some(next) => into.extend(['\\', next]),
                None => return Err("a backslash at the end"),
            },
            '`' | '"' => return Err("odd quotes"),
            '$' if chars
                .peek()
                .is_some_and(|next| next.is_ascii_alphanumeric() || "_({[@*#?$!-'\"".contains(*next)) =>
            {
                return Err("an expansion nobody saw");
            }
            _ => into.push(c),
        }
    }
    Ok(())
}

/// `$'…'` up to the quote that ends it, and no further.
fn is_whole(raw: &str) -> bool {
    let mut chars = raw.chars().skip(2);
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '\'' => return chars.next().is_none(),
            _ => {}
        }
    }
    false
}

/// `${NAME}`: other forms can run something, or say something else than the variable.
fn is_variable(raw: &str) -> bool {
    let name = raw.strip_prefix("${").and_then(|raw| raw.strip_suffix('}')).unwrap_or_default();
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A sum of numbers: a variable in it can hold text that is run.
fn is_sum(raw: &str) -> bool {
    raw.starts_with("$((") && raw[3..].chars().all(|c| c.is_ascii_digit() || " +-*/%()".contains(c))
}
