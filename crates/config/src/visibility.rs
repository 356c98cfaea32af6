//! `sessions.visibility` of a section of tools: how far sessions see. The words are checked here, where their place is
//! known; what they mean is the guard's business.

use serde_json::{Value, json};

use crate::Error;
use crate::document::Node;
use crate::section::Notes;

const VISIBILITIES: &[(&str, &str)] = &[("self", "self"), ("tree", "tree"), ("agent", "agent"), ("all", "all")];
const ACTS: &[&str] = &["default", "list", "history", "send", "status", "control"];
const SESSIONS_KEYS: &[&str] = &["visibility"];

/// `{ "visibility": … }`: a word for every act, or an object with a word for each.
pub(crate) fn read(sessions: &Node, notes: &mut Notes) -> Result<Value, Error> {
    let mut out = json!({});
    for field in sessions.fields()? {
        match field.key.as_str() {
            "visibility" => out["visibility"] = levels(&field.node)?,
            _ => notes.unknown(field, SESSIONS_KEYS),
        }
    }
    Ok(out)
}

fn levels(node: &Node) -> Result<Value, Error> {
    if node.is_text() {
        return Ok(json!(node.choice(VISIBILITIES)?));
    }
    let forms = "write `\"tree\"`, or `{ \"list\": \"agent\", \"send\": \"tree\" }`";
    let fields = node.fields().map_err(|_| node.wrong("a word or an object", forms))?;
    let mut out = json!({});
    for field in fields {
        if !ACTS.contains(&field.key.as_str()) {
            let known: Vec<String> = ACTS.iter().map(|act| format!("`{act}`")).collect();
            return Err(field.node.refuse("is nothing that can be done", format!("use {}", known.join(", "))));
        }
        out[&field.key] = json!(field.node.choice(VISIBILITIES)?);
    }
    Ok(out)
}
