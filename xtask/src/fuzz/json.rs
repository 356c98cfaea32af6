//! JSON from elsewhere, as MCP servers, peers and clients send it: methods' inputs, letters, entries. What is read can be
//! written and read again, and masking secrets leaves JSON behind and finds nothing twice.

use super::{Target, Trial, signature};
use proto::methods::{AgentInput, DeliverInput, HistoryInput, ListInput, PatchInput, SpawnInput, decode};
use proto::{Entry, Letter};
use rules::redact::Redactor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;

pub(super) const TARGET: Target = Target {
    name: "json",
    words: &[
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\\\"",
        "\\u0000",
        "\\ud83d\\ude00",
        "\\ud800",
        "null",
        "true",
        "-0",
        "1e309",
        "\"jsonrpc\":\"2.0\"",
        "\"id\":",
        "\"method\":",
        "\"params\":",
        "\"result\":",
        "\"content\":",
        "\"type\":",
        "\"text\":",
        "\"inputSchema\":",
        "\"properties\":",
        "\"message\":",
        "\"sessionKey\":",
        "\"parts\":",
        "\"api_key\":\"",
        "Bearer ",
    ],
    folders: &[],
    open,
};

fn open(_: &Path) -> anyhow::Result<Trial> {
    let redactor = Redactor::new(["correct horse battery".to_owned()]);
    Ok(Box::new(move |input| {
        let text = String::from_utf8_lossy(input);
        let read = [
            again::<Entry>(&text)?,
            again::<Letter>(&text)?,
            decode::<AgentInput>(input).is_ok(),
            decode::<DeliverInput>(input).is_ok(),
            decode::<HistoryInput>(input).is_ok(),
            decode::<ListInput>(input).is_ok(),
            decode::<PatchInput>(input).is_ok(),
            decode::<SpawnInput>(input).is_ok(),
        ];
        let mut value: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|_| text.clone().into());
        let found = redactor.redact_json(&mut value);
        let masked = value.to_string();
        if masked.contains("correct horse battery") {
            return Err("a known secret is still there".into());
        }
        if serde_json::from_str::<serde_json::Value>(&masked).is_err()
            && serde_json::from_str::<serde_json::Value>(&text).is_ok()
        {
            return Err("what was masked is not JSON any more".into());
        }
        if redactor.redact_json(&mut value) {
            return Err("masking twice finds more".into());
        }
        Ok(signature((read, found, text.len().min(4_096) / 256)))
    }))
}

/// Whether it is one; if so, it is the same when it was written and read again.
fn again<T: Serialize + DeserializeOwned>(text: &str) -> Result<bool, String> {
    let Ok(read) = serde_json::from_str::<T>(text) else { return Ok(false) };
    let written = serde_json::to_string(&read).map_err(|error| format!("cannot be written: {error}"))?;
    let back = serde_json::from_str::<T>(&written).map_err(|error| format!("cannot be read again: {error}"))?;
    let twice = serde_json::to_string(&back).map_err(|error| format!("cannot be written: {error}"))?;
    if twice == written { Ok(true) } else { Err("differs when read again".into()) }
}
