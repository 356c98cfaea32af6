//! What a shell line does, as far as its text tells.
//!
//! A wildcard sees text, not commands: `git *` matches `git status; rm -rf ~`. So a line is read as a shell reads it
//! and comes down to [`Want`]s: each simple command in it, wherever it stands, each file it opens by a redirection, and
//! one for the whole when something in it is *opaque*: it could run what nobody can name before it runs. The strictest
//! verdict about any of them is the verdict about the line.
//!
//! - `read.rs` walks the syntax tree. Only kinds of nodes it knows pass, and no byte between them goes unseen: what the
//!   grammar misreads must not look harmless.
//! - `joined.rs` joins lines that bash reads as one, before anything else looks at them.
//! - `plain.rs` reads lines of words alone, and gives the same.
//! - `word.rs` takes quotes off words, and marks what is known only when it runs.
//! - `program/` looks through programs that run others (`env`, `xargs`, `sh -c`, `find -exec`).
//! - `judge.rs` asks the rules about one want.

mod joined;
mod judge;
mod plain;
mod program;
mod read;
mod word;

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod threats;

use word::Word;

pub(crate) use judge::evaluate;
pub use program::git::Alias;
pub use read::read;

/// The permission whose patterns are shell lines.
pub const PERMISSION: &str = "bash";

/// What a line comes down to, in the order it is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    pub wants: Vec<Want>,
    /// Why the line as a whole is opaque, if it is.
    pub opaque: Option<&'static str>,
    /// Where it goes by `cd` before some of it runs. `None` when that is known only then.
    pub dirs: Option<Vec<String>>,
}

/// One thing a line does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    pub kind: Kind,
    /// As a person would write it: a command without needless quotes, a path, or the whole line.
    pub source: String,
    /// What allows have to match. When `open`, each `*` in it stands for something nobody knows yet.
    pub text: String,
    pub open: bool,
    /// What it comes to in other words, such as `rm x` for `/bin/rm x`: stricter rules match these as well.
    pub looks: Vec<String>,
    /// The words of a command that are known, its name first.
    pub words: Vec<String>,
    /// Words among which there may be another command. It is looked for only where a rule names it.
    parts: Vec<Word>,
    /// With names of files that are patterns: what the shell makes of them is known only when it runs.
    spread: Option<Box<Spread>>,
}

/// A command with patterns for names of files, as rules see it: `*` stands for what nobody knows yet.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Spread {
    text: String,
    looks: Vec<String>,
    /// Which words are such patterns, and no options by how they begin.
    names: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A simple command.
    Command,
    /// A file that is written.
    Edit,
    /// A file that is read.
    Read,
    /// The line as a whole: nobody can say what it runs.
    Opaque,
}

impl Want {
    /// The permission it is judged by.
    pub fn permission(&self) -> &'static str {
        match self.kind {
            Kind::Command | Kind::Opaque => PERMISSION,
            Kind::Edit => "edit",
            Kind::Read => "read",
        }
    }

    /// A call of git by a word that is not git's own, which may be an alias.
    pub fn alias(&self) -> Option<Alias> {
        Alias::of(&self.parts)
    }

    /// A simple command of these words.
    fn command(words: &[Word]) -> Self {
        let join = |part: fn(&Word) -> String| words.iter().map(part).collect::<Vec<_>>().join(" ");
        let (source, text, open) = (join(Word::shown), join(Word::matched), words.iter().any(|word| word.open));
        let mut looks = vec![join(|word| word.text.clone())];
        if let Some((_, name)) = words[0].text.rsplit_once('/').filter(|(dir, _)| !dir.contains('=')) {
            looks.push(format!("{name}{}", &looks[0][words[0].text.len()..]));
        }
        looks.extend(program::in_other_words(words));
        looks.retain(|look| look != &text);
        let known = words.iter().filter(|word| !word.open).map(|word| word.text.clone()).collect();
        let (kind, parts, spread) = (Kind::Command, words.to_vec(), Spread::of(words));
        Self { kind, source, text, open, looks, words: known, parts, spread }
    }

    fn opaque(line: &str) -> Self {
        let (source, text) = (line.to_owned(), "*".to_owned());
        Self {
            kind: Kind::Opaque,
            source,
            text,
            open: true,
            looks: Vec::new(),
            words: Vec::new(),
            parts: Vec::new(),
            spread: None,
        }
    }

    /// A request that is what it says.
    fn plain(text: &str) -> Self {
        let (source, text) = (text.to_owned(), text.to_owned());
        Self {
            kind: Kind::Command,
            source,
            text,
            open: false,
            looks: Vec::new(),
            words: Vec::new(),
            parts: Vec::new(),
            spread: None,
        }
    }

    fn file(kind: Kind, source: &str, path: String, open: bool) -> Self {
        Self {
            kind,
            source: source.to_owned(),
            text: path,
            open,
            looks: Vec::new(),
            words: Vec::new(),
            parts: Vec::new(),
            spread: None,
        }
    }
}

impl Spread {
    /// Nothing for a command without such patterns.
    fn of(words: &[Word]) -> Option<Box<Self>> {
        if !words.iter().any(|word| word.glob) {
            return None;
        }
        let words: Vec<Word> = words.iter().map(Word::spread).collect();
        let Want { text, looks, .. } = Want::command(&words);
        let is_name = |at: &usize| words[*at].open && !words[*at].text.starts_with('-');
        let names = (0..words.len()).filter(is_name).collect();
        Some(Box::new(Self { text, looks, names }))
    }
}

/// Whether some of a shell line is beyond what its text tells.
pub fn opaque(line: &str) -> bool {
    read(line).opaque.is_some()
}
