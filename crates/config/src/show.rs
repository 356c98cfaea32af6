//! Settings as people are shown them: every value with where it came from, and without secrets.

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::document::{self, Node, Value};
use crate::layer::{Layer, Origin, Source};
use crate::section::called_like_a_key;

/// One value that counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shown {
    /// The keys that lead to it, joined by dots; one that holds a dot is in quotes.
    pub path: String,
    pub value: Json,
    pub origin: Origin,
}

pub(crate) const HIDDEN: &str = "***";

/// What holds where nothing is set, beside what is laid below all settings.
const USUAL: &str = include_str!("usual.jsonc");

/// Every leaf below a node, in the order of the layers that set them, and what holds where nothing is set.
pub(crate) fn leaves(node: &Node) -> Vec<Shown> {
    let mut shown: Vec<Shown> = Vec::new();
    let source = Source::text(Layer::Builtin, "usual.jsonc", Path::new(""));
    if let Ok(usual) = document::parse(&source, USUAL) {
        gather(&usual, "", &mut shown);
    }
    // Without it somebody else answers.
    if find(node, "agent.build.disable").is_some_and(|disabled| disabled.flag() == Ok(true)) {
        shown.retain(|usual| usual.path != "default_agent");
    }
    gather(node, "", &mut shown);
    shown
}

/// The node of a setting, of the layer that counts.
pub(crate) fn find<'n>(node: &'n Node, path: &str) -> Option<&'n Node> {
    if node.path == path {
        return Some(node);
    }
    match &node.value {
        Value::Object(fields) => fields.iter().find_map(|field| find(&field.node, path)),
        Value::List(items) | Value::Layers(items) => items.iter().rev().find_map(|item| find(item, path)),
        Value::Null | Value::Flag(_) | Value::Number(_) | Value::Text(_) => None,
    }
}

/// `path` is that of the node, as `convoke config edit` takes it.
fn gather(node: &Node, path: &str, shown: &mut Vec<Shown>) {
    match &node.value {
        Value::Object(fields) if !fields.is_empty() => {
            fields.iter().for_each(|field| gather(&field.node, &below(path, &field.key), shown));
        }
        // Joined from several layers.
        Value::List(items) if path == "instructions" => {
            items.iter().enumerate().for_each(|(at, item)| gather(item, &format!("{path}.{at}"), shown));
        }
        Value::List(items) if items.iter().any(|item| matches!(item.value, Value::Object(_) | Value::List(_))) => {
            items.iter().enumerate().for_each(|(at, item)| gather(item, &format!("{path}[{at}]"), shown));
        }
        Value::Layers(layers) => layers.iter().for_each(|layer| gather_rules(layer, path, shown)),
        Value::Object(_) if path.is_empty() => {}
        _ => {
            // The same rule in a later layer counts instead, and at its place in the order.
            shown.retain(|known| known.path != path);
            shown.push(Shown { path: path.to_owned(), value: value(node), origin: node.place.origin() });
        }
    }
}

/// Rules of one layer. Those of a repository that is not trusted count where they are stricter.
fn gather_rules(layer: &Node, path: &str, shown: &mut Vec<Shown>) {
    if layer.place.source.repository.is_none() {
        return gather(layer, path, shown);
    }
    let mut theirs = Vec::new();
    gather(layer, path, &mut theirs);
    let mut forbids = false;
    for rule in theirs {
        forbids |= strictness(&rule.value) > 0;
        let known = shown.iter().position(|known| known.path == rule.path);
        let stricter = known.is_none_or(|at| strictness(&shown[at].value) < strictness(&rule.value));
        // What allows is an exception from what the same layer forbids, or nothing.
        if forbids && stricter {
            shown.retain(|known| known.path != rule.path);
            shown.push(rule);
        }
    }
}

fn strictness(action: &Json) -> u8 {
    match action.as_str() {
        Some("deny") => 2,
        Some("ask") => 1,
        _ => 0,
    }
}

/// The path of a key below another one; one with a dot in it is quoted.
fn below(path: &str, key: &str) -> String {
    let key = if key.contains('.') { format!("\"{key}\"") } else { key.to_owned() };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

fn value(node: &Node) -> Json {
    if node.secret || is_secret(&node.path) {
        return Json::String(HIDDEN.into());
    }
    match &node.value {
        Value::List(items) => items.iter().map(value).collect(),
        Value::Text(text) => Json::String(without_password(text)),
        _ => node.json(),
    }
}

/// By the name of the setting: keys, tokens, and whatever is sent along with requests.
fn is_secret(path: &str) -> bool {
    let parts: Vec<&str> = path.split('.').collect();
    let last = parts.last().copied().unwrap_or_default();
    let sent = parts.len() > 2 && ["headers", "env", "environment"].contains(&parts[parts.len() - 2]);
    let section = parts.first().copied().unwrap_or_default();
    let settings_with_keys = ["provider", "peers", "mcp"].iter().any(|name| section.starts_with(name));
    // A command that prints a key is no key.
    settings_with_keys && !last.ends_with("_command") && (sent || called_like_a_key(last))
}

/// `https://user:password@host` without the password.
fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let host = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..host].rsplit_once('@') {
        Some((user, _)) if user.contains(':') && !scheme.contains(char::is_whitespace) => {
            let name = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{name}:{HIDDEN}{}", &rest[user.len()..])
        }
        _ => text.to_owned(),
    }
}

/// The same as one object.
pub(crate) fn object(node: &Node) -> Json {
    match &node.value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|field| (field.key.clone(), object(&field.node)));
            Json::Object(fields.collect::<Map<_, _>>())
        }
        Value::List(items) => items.iter().map(object).collect(),
        Value::Layers(layers) => rules(layers),
        _ => value(node),
    }
}

/// Rules of several layers as one object, in the order in which they are asked.
fn rules(layers: &[Node]) -> Json {
    let mut merged = Map::new();
    for layer in layers {
        match object(layer) {
            Json::Object(tools) => tools.into_iter().for_each(|(tool, rule)| add_rule(&mut merged, tool, rule)),
            action => add_rule(&mut merged, "*".into(), action),
        }
    }
    Json::Object(merged)
}

fn add_rule(merged: &mut Map<String, Json>, tool: String, rule: Json) {
    let earlier = merged.shift_remove(&tool);
    let rule = match (earlier, rule) {
        (Some(Json::Object(mut patterns)), Json::Object(more)) => {
            for (pattern, action) in more {
                patterns.shift_remove(&pattern);
                patterns.insert(pattern, action);
            }
            Json::Object(patterns)
        }
        (Some(action @ Json::String(_)), Json::Object(more)) => {
            let patterns: Map<String, Json> = std::iter::once(("*".to_owned(), action)).chain(more).collect();
            Json::Object(patterns)
        }
        (_, rule) => rule,
    };
    merged.insert(tool, rule);
}
