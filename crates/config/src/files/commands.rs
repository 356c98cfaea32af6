//! Commands of the user's own: a prompt in a file, used as `/name and arguments`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::{Style, folders, markdown, markdown_below};
use crate::document::{Node, Value};
use crate::layer::Source;
use crate::read::Reading;
use crate::section::Notes;
use crate::{Error, agent, model};

/// A prompt with places for arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Command {
    pub name: String,
    pub description: String,
    /// Who is to do it; whoever is asked anyway without this.
    pub agent: Option<String>,
    /// `provider/model`.
    pub model: Option<String>,
    /// In a session of its own, below the one it was typed in.
    pub subtask: bool,
    /// With `$ARGUMENTS`, `$1`, `$2`, …
    pub template: String,
    pub file: String,
}

const FOLDERS: &[(&str, Style)] = &[
    (".convoke/commands", Style::Convoke),
    (".opencode/commands", Style::Opencode),
    (".opencode/command", Style::Opencode),
    (".claude/commands", Style::Claude),
];

/// The files of commands below one place, each with the directory that holds them.
pub(crate) fn find(base: &Path, reading: &mut Reading) -> Vec<(PathBuf, PathBuf, Style)> {
    let of = |(folder, style): (PathBuf, Style)| {
        let files = markdown_below(&folder, reading);
        files.into_iter().map(move |file| (file, folder.clone(), style))
    };
    folders(base, FOLDERS).into_iter().flat_map(of).collect()
}

/// `.convoke/commands/git/tidy.md` is `/git:tidy`.
fn name(file: &Path, folder: &Path) -> String {
    let below = file.strip_prefix(folder).unwrap_or(file).with_extension("");
    let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    parts.join(":")
}

pub(crate) fn read(
    source: &Arc<Source>,
    text: &str,
    file: &Path,
    folder: &Path,
    style: Style,
) -> Result<Command, Error> {
    let read = markdown::parse(source, text, "command")?;
    let mut command =
        Command { name: name(file, folder), template: read.body, file: source.name.clone(), ..Command::default() };
    if command.template.is_empty() {
        return Err(read.place.error("the command has no text", "write the prompt below the front matter"));
    }
    for field in &read.front {
        let node = &field.node;
        match field.key.as_str() {
            "description" => node.text()?.clone_into(&mut command.description),
            "agent" => command.agent = Some(agent::name(node.text()?, &node.place)?),
            "model" if style == Style::Claude && !has_slash(node) => {}
            "model" => command.model = Some(model(node, &mut Notes::default())?),
            "subtask" => command.subtask = node.flag()?,
            // Hints for a composer, and permissions of another program.
            _ => {}
        }
    }
    Ok(command)
}

fn has_slash(node: &Node) -> bool {
    matches!(&node.value, Value::Text(text) if text.contains('/'))
}

/// All commands by name; the nearest place counts.
pub type Commands = BTreeMap<String, Command>;

impl Command {
    /// The prompt for these arguments. Words in quotes are one argument; the last place takes all that are left. A
    /// template without a place gets them at its end.
    pub fn prompt(&self, arguments: &str) -> String {
        let arguments = arguments.trim();
        let words = words(arguments);
        let mut written = String::with_capacity(self.template.len() + arguments.len());
        let (mut rest, mut used) = (self.template.as_str(), false);
        let last = last_place(&self.template);
        while let Some((before, after)) = rest.split_once('$') {
            written.push_str(before);
            if let Some(after) = after.strip_prefix("ARGUMENTS") {
                written.push_str(arguments);
                (rest, used) = (after, true);
            } else if let Some((place, after)) = place(after) {
                let here = words.iter().skip(place - 1).take(if place == last { usize::MAX } else { 1 });
                written.push_str(&here.map(String::as_str).collect::<Vec<_>>().join(" "));
                (rest, used) = (after, true);
            } else {
                written.push('$');
                rest = after;
            }
        }
        written.push_str(rest);
        if !used && !arguments.is_empty() {
            written.push_str("\n\n");
            written.push_str(arguments);
        }
        written
    }
}

/// `1 and more` is place 1. Two digits at most: `$100` in a text is money.
fn place(text: &str) -> Option<(usize, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 || digits > 2 {
        return None;
    }
    let (number, rest) = text.split_at(digits);
    number.parse().ok().filter(|number| *number > 0).map(|number| (number, rest))
}

fn last_place(template: &str) -> usize {
    template.split('$').skip(1).filter_map(|after| place(after).map(|(number, _)| number)).max().unwrap_or(0)
}

/// Words as a shell would see them, as far as quotes go.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match (c, quote) {
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, Some(open)) if c == open => quote = None,
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(template: &str, arguments: &str, expected: &str) {
        let command = Command { template: template.into(), ..Command::default() };
        assert_eq!(command.prompt(arguments), expected, "{template}");
    }

    #[test]
    fn arguments_are_put_where_the_template_wants_them() {
        check("Review $ARGUMENTS now", "a b", "Review a b now");
        check("$1 then $2", "a b c", "a then b c");
        check("$1 then $2", "'a b' c", "a b then c");
        check("Say hello", "to Ada", "Say hello\n\nto Ada");
        check("Say hello", "", "Say hello");
        check("$2", "a", "");
        check("costs $100 and $", "x", "costs $100 and $\n\nx");
        check("$ARGUMENTS", "$1 {x}", "$1 {x}");
    }

    #[test]
    fn a_command_is_called_after_its_path() {
        assert_eq!(name(Path::new("/c/git/tidy.md"), Path::new("/c")), "git:tidy");
        assert_eq!(name(Path::new("/c/tidy.md"), Path::new("/c")), "tidy");
    }
}
