//! `{env:NAME}` and `{file:path}` in texts, written out after a file was parsed, so that a value cannot become syntax.
//!
//! What a variable holds is not looked at again. What a file holds is: it may name further files, though not itself.
//! A repository that is not trusted gets no variables and no files from outside it: its prompts are sent to a model,
//! and must not carry the user's keys there. Trusted or not, it gets no file that the rules of `read` do not allow.

use std::fs;
use std::path::{Path, PathBuf};

use crate::document::{Node, Value, excerpt};
use crate::read::{Reader, Reading, read_shared};
use crate::section::called_like_a_key;
use crate::{Environment, Error};

const ENV: &str = "{env:";
const FILE: &str = "{file:";

/// A file that names a file that names a file: nobody goes further on purpose.
const DEEPEST: usize = 16;

/// Writes texts out, and remembers what it read.
pub(crate) struct Expander<'a> {
    pub(crate) env: &'a Environment,
    pub(crate) reading: &'a mut Reading,
    /// Nothing from outside this directory, and no variables.
    pub(crate) within: Option<&'a Path>,
    /// What texts of this repository may name.
    pub(crate) rules: Option<Rules<'a>>,
    /// The files that were named, and what they held.
    pub(crate) named: Vec<(PathBuf, String)>,
}

/// What holds for texts that came with a repository.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) root: &'a Path,
    pub(crate) may_read: &'a Reader,
    /// All of what is written out came with it; else only what a file of it names.
    pub(crate) all: bool,
}

impl Rules<'_> {
    /// Whether a text that stands in a file of this directory is one of the repository; `nested`: another text named it.
    fn hold(&self, base: &Path, nested: bool) -> bool {
        self.all || (nested && base.starts_with(self.root))
    }
}

/// What became of one text.
#[derive(Default)]
struct Written {
    text: String,
    secret: bool,
}

/// Variables that a text names.
pub(crate) fn variables(text: &str) -> impl Iterator<Item = &str> {
    text.split(ENV).skip(1).filter_map(|rest| Some(rest.split_once('}')?.0))
}

impl Expander<'_> {
    pub(crate) fn expand(&mut self, node: &mut Node) -> Result<(), Error> {
        match &mut node.value {
            Value::Text(text) if text.contains(ENV) || text.contains(FILE) => {
                let text = std::mem::take(text);
                let base = node.place.source.directory.clone();
                let written = self.write(node, &text, &base, &mut Vec::new())?;
                node.value = Value::Text(written.text);
                node.secret |= written.secret;
            }
            Value::List(items) | Value::Layers(items) => items.iter_mut().try_for_each(|item| self.expand(item))?,
            Value::Object(fields) => fields.iter_mut().try_for_each(|field| self.expand(&mut field.node))?,
            Value::Null | Value::Flag(_) | Value::Number(_) | Value::Text(_) => {}
        }
        Ok(())
    }

    fn write(&mut self, node: &Node, text: &str, base: &Path, open: &mut Vec<PathBuf>) -> Result<Written, Error> {
        let (mut written, mut rest) = (Written::default(), text);
        while let Some(start) = rest.find('{') {
            let (before, after) = rest.split_at(start);
            written.text.push_str(before);
            let named = |mark| after.strip_prefix(mark).and_then(|after: &str| after.split_once('}'));
            if let Some((name, after)) = named(ENV) {
                let foreign = self.rules.is_some_and(|rules| !rules.all && rules.hold(base, !open.is_empty()));
                self.variable(node, name, foreign, &mut written)?;
                rest = after;
            } else if let Some((path, after)) = named(FILE) {
                let inner = self.file(node, path, base, open)?;
                written.text.push_str(&inner.text);
                written.secret |= inner.secret;
                rest = after;
            } else {
                written.text.push('{');
                rest = &after[1..];
            }
        }
        written.text.push_str(rest);
        Ok(written)
    }

    /// `foreign`: a file of a repository names it, which a text of the user's own has named.
    fn variable(&mut self, node: &Node, name: &str, foreign: bool, written: &mut Written) -> Result<(), Error> {
        let (line, path) = (node.place.line(), &node.path);
        let value = self.env.get(name);
        self.spend(node, value.map_or(0, str::len))?;
        if foreign {
            let what = format!("`{{env:{}}}` of `{path}` is left out: a file of a repository names it", excerpt(name));
            self.reading.warnings.push(format!("{line}: {what}"));
        } else if self.within.is_some() {
            let what = format!("`{{env:{}}}` of `{path}`", excerpt(name));
            let trust = "is left out until `convoke trust` is run in its repository";
            self.reading.warnings.push(format!("{line}: {what} {trust}"));
        } else if let Some(value) = value {
            written.text.push_str(value);
            written.secret |= called_like_a_key(name);
        } else {
            let name = excerpt(name);
            let what = format!("the variable `{name}` of `{path}` is not set; nothing is put in its place");
            self.reading.warnings.push(format!("{line}: {what}"));
        }
        Ok(())
    }

    /// A text of a few bytes can name many files, and each of those many more.
    fn spend(&mut self, node: &Node, bytes: usize) -> Result<(), Error> {
        let spent = self.reading.spend(bytes as u64);
        spent.map_err(|error| node.refuse(format_args!("names too much: {}", error.message), &error.hint))
    }

    fn file(&mut self, node: &Node, path: &str, base: &Path, open: &mut Vec<PathBuf>) -> Result<Written, Error> {
        self.spend(node, 0)?;
        let named = match (path.strip_prefix("~/"), self.env.home()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => base.join(path),
        };
        let shown = excerpt(path);
        let refuse = |why: String, hint: &str| Err(node.refuse(format_args!("names the file `{shown}`, {why}"), hint));
        let Ok(file) = fs::canonicalize(&named) else {
            self.reading.saw(&named);
            return refuse("which does not exist".into(), "a relative path starts where the file that names it is");
        };
        if self.within.is_some_and(|root| !file.starts_with(root)) {
            return refuse("which is outside the repository".into(), "run `convoke trust` if that is meant to be read");
        }
        let held = self.rules.filter(|rules| rules.hold(base, !open.is_empty()));
        if held.is_some_and(|rules| !(rules.may_read)(rules.root, &file)) {
            self.reading.saw(&named);
            let what = format!("`{{file:{shown}}}` of `{}` is left out", node.path);
            self.reading.warn(format!("{}: {what}, because no rule of `read` allows this file", node.place.line()));
            return Ok(Written::default());
        }
        if open.contains(&file) {
            let ring: Vec<String> = open.iter().chain([&file]).map(|file| file.display().to_string()).collect();
            return refuse(format!("which names itself: {}", ring.join(" → ")), "break the circle of `{file:…}`");
        }
        if open.len() == DEEPEST {
            return refuse(format!("which is the {DEEPEST}th in a row"), "name it directly");
        }
        let text = match read_shared(&file, self.reading) {
            Ok(Some(text)) => text,
            Ok(None) => return refuse("which does not exist".into(), "check its name"),
            Err(error) => return refuse(format!("which cannot be used: {}", error.message), &error.hint),
        };
        open.push(file.clone());
        self.named.push((file.clone(), text.clone()));
        let inner = file.parent().unwrap_or(Path::new("/")).to_owned();
        let written = self.write(node, text.trim_end_matches(['\n', '\r']), &inner, open)?;
        open.pop();
        Ok(written)
    }
}
