//! Agents as files: `.convoke/agents/**/*.md`, and those of other programs. The body is the prompt.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Style, folders, markdown, markdown_below, stem};
use crate::agent::{self, Agent};
use crate::document::{Field, Node, Value, excerpt};
use crate::layer::Source;
use crate::read::Reading;
use crate::section::Notes;
use crate::{Error, document};

/// Where agents are kept below a place. Of two with one name the one found first counts.
const FOLDERS: &[(&str, Style)] = &[
    (".convoke/agents", Style::Convoke),
    (".opencode/agents", Style::Opencode),
    (".opencode/agent", Style::Opencode),
    (".claude/agents", Style::Claude),
];

/// The files of agents below one place.
pub(crate) fn find(base: &Path, reading: &mut Reading) -> Vec<(PathBuf, Style)> {
    let of =
        |(folder, style): (PathBuf, Style)| markdown_below(&folder, reading).into_iter().map(move |file| (file, style));
    folders(base, FOLDERS).into_iter().flat_map(of).collect()
}

/// An agent's file as a piece of settings: `{ "agent": { <name>: … } }`.
///
/// What another program's file asks for and is not done here is added to `warnings`.
pub(crate) fn read(
    source: &Arc<Source>,
    text: &str,
    file: &Path,
    style: Style,
    warnings: &mut Vec<String>,
) -> Result<(String, Node), Error> {
    let mut read = markdown::parse(source, text, "agent")?;
    let start = document::place(source, "", 0);
    let named = read.front.iter().position(|field| field.key == "name").map(|at| read.front.remove(at));
    let name = match named {
        Some(field) => agent::name(field.node.text()?, &field.node.place)?,
        None => agent::name(&stem(file), &start)?,
    };
    let path = format!("agent.{name}");
    for field in &mut read.front {
        below(&path, &mut field.node);
    }
    let mut fields = adapt(read.front, style, &path, warnings);
    if !read.body.is_empty() && !fields.iter().any(|field| field.key == "prompt") {
        fields.push(text_field(&path, "prompt", read.body, read.place));
    }
    let profile = Node::new(path, start.clone(), Value::Object(fields));
    // Read on its own first: what is wrong in one file must not take the others with it.
    Agent::read(&profile, &mut Notes::default())?;
    Ok((name.clone(), wrap(&name, profile)))
}

/// Puts the agent's name into the paths that were read before it was known.
fn below(path: &str, node: &mut Node) {
    node.path = node.path.replacen("agent", path, 1);
    match &mut node.value {
        Value::List(items) | Value::Layers(items) => items.iter_mut().for_each(|item| below(path, item)),
        Value::Object(fields) => fields.iter_mut().for_each(|field| below(path, &mut field.node)),
        Value::Null | Value::Flag(_) | Value::Number(_) | Value::Text(_) => {}
    }
}

fn wrap(name: &str, profile: Node) -> Node {
    let place = profile.place.clone();
    let field = Field { key: name.to_owned(), place: place.clone(), node: profile };
    let agents = Node::new("agent".into(), place.clone(), Value::Object(vec![field]));
    let field = Field { key: "agent".into(), place: place.clone(), node: agents };
    Node::new(String::new(), place, Value::Object(vec![field]))
}

/// What other programs write differently, as we would write it.
fn adapt(fields: Vec<Field>, style: Style, path: &str, warnings: &mut Vec<String>) -> Vec<Field> {
    let mut adapted: Vec<Field> = fields.into_iter().filter_map(|field| one(field, style, warnings)).collect();
    if style == Style::Claude && !adapted.iter().any(|field| field.key == "mode") {
        // There an agent is always started by another one.
        let place = adapted.first().map(|field| field.place.clone());
        adapted.extend(place.map(|place| text_field(path, "mode", "subagent".into(), place)));
    }
    adapted
}

fn one(mut field: Field, style: Style, warnings: &mut Vec<String>) -> Option<Field> {
    let text = field.node.text().ok().map(str::to_owned);
    match (field.key.as_str(), text) {
        // `tools:` without a value is all of them.
        ("tools", _) if matches!(field.node.value, Value::Null) => None,
        ("tools", Some(text)) => {
            field.node.value = Value::List(names(&field.node, &text));
            Some(field)
        }
        ("model", Some(text)) if style == Style::Claude && text == "inherit" => None,
        ("model", Some(text)) if style == Style::Claude && !text.contains('/') && !proto::model::is_short(&text) => {
            odd(&field, warnings, "names no provider, so the agent runs on the model of the session that starts it");
            None
        }
        ("permissionMode", text) if style == Style::Claude => permission_mode(field, text.as_deref(), warnings),
        ("isolation", text) if style == Style::Claude && text.as_deref() != Some("worktree") => {
            odd(&field, warnings, "is ignored: only `worktree` is known");
            None
        }
        // Agents work in the background anyway.
        ("background", _) if style == Style::Claude => {
            if !matches!(field.node.value, Value::Flag(true)) {
                odd(&field, warnings, "is ignored: the call that starts the agent decides (`run_in_background`)");
            }
            None
        }
        ("maxTurns", _) if style == Style::Claude => {
            "steps".clone_into(&mut field.key);
            Some(field)
        }
        (key, _) if style == Style::Claude => FROM_CLAUDE.contains(&key).then_some(field),
        _ => Some(field),
    }
}

/// Keys that mean the same to us; the others speak of things we do differently.
const FROM_CLAUDE: &[&str] = &["description", "model", "color", "prompt", "mode", "isolation"];

/// Claude Code's modes by the names they have here. One that never asks is not taken from a file.
fn permission_mode(mut field: Field, text: Option<&str>, warnings: &mut Vec<String>) -> Option<Field> {
    let mode = match text {
        Some("default") => "ask",
        Some("acceptEdits") => "accept-edits",
        Some("plan") => "plan",
        _ => {
            odd(&field, warnings, "is ignored: `default`, `acceptEdits` and `plan` are taken from an agent's file");
            return None;
        }
    };
    "permission_mode".clone_into(&mut field.key);
    field.node.value = Value::Text(mode.to_owned());
    Some(field)
}

/// Says what becomes of a key that does not do here what it does elsewhere.
fn odd(field: &Field, warnings: &mut Vec<String>, what: &str) {
    let value = field.node.text().map(|text| format!(": {}", excerpt(text))).unwrap_or_default();
    warnings.push(format!("{}: `{}{value}` {what}", field.place.line(), field.key));
}

/// `Read, Grep, Bash(git *)`: the names alone.
fn names(node: &Node, text: &str) -> Vec<Node> {
    let plain = text.split(',').map(|name| name.split('(').next().unwrap_or_default().trim());
    let known = plain.filter(|name| !name.is_empty() && !name.ends_with(')'));
    known.map(|name| Node::new(node.path.clone(), node.place.clone(), Value::Text(name.to_owned()))).collect()
}

fn text_field(path: &str, key: &str, text: String, place: document::Place) -> Field {
    let node = Node::new(format!("{path}.{key}"), place.clone(), Value::Text(text));
    Field { key: key.to_owned(), place, node }
}

/// Who has taken which name at one place.
#[derive(Default)]
pub(crate) struct Names(BTreeMap<String, String>);

impl Names {
    /// Whether the name is still free there. What is said otherwise names both files.
    pub(crate) fn take(&mut self, name: &str, file: &str) -> Result<(), String> {
        if let Some(first) = self.0.get(name) {
            let name = excerpt(name);
            return Err(format!("{file}:1: another agent is called `{name}`: {first} counts, this one is left out"));
        }
        self.0.insert(name.to_owned(), file.to_owned());
        Ok(())
    }
}
