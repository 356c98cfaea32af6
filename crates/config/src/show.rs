//! Settings as people are shown them: every value with where it came from, and without secrets.

use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::document::{Node, Value};
use crate::layer::Origin;
use crate::section::called_like_a_key;

/// One value that counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shown {
    /// The keys that lead to it, joined by dots.
    pub path: String,
    pub value: Json,
    pub origin: Origin,
}

pub(crate) const HIDDEN: &str = "***";

/// Every leaf below a node, in the order of the layers that set them.
pub(crate) fn leaves(node: &Node) -> Vec<Shown> {
    let mut shown: Vec<Shown> = Vec::new();
    gather(node, &mut shown);
    shown
}

fn gather(node: &Node, shown: &mut Vec<Shown>) {
    match &node.value {
        Value::Object(fields) if !fields.is_empty() => fields.iter().for_each(|field| gather(&field.node, shown)),
        Value::List(items) if items.iter().any(|item| matches!(item.value, Value::Object(_) | Value::List(_))) => {
            items.iter().for_each(|item| gather(item, shown));
        }
        Value::Layers(layers) => layers.iter().for_each(|layer| gather(layer, shown)),
        Value::Object(_) if node.path.is_empty() => {}
        _ => {
            // The same rule in a later layer counts instead, and at its place in the order.
            shown.retain(|known| known.path != node.path);
            shown.push(Shown { path: node.path.clone(), value: value(node), origin: node.place.origin() });
        }
    }
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
