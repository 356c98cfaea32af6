//! Keys, references and names: what is read can be written and read again.

use super::{Target, Trial, signature};
use proto::key::{AgentId, Key, Reference, label, title};
use std::path::Path;

pub(super) const TARGET: Target = Target {
    name: "keys",
    words: &[
        "agent:",
        "main",
        "current",
        "ses_",
        "subagent:",
        "chat:",
        "group:",
        "cron:",
        "node:",
        ":",
        "global",
        "@",
        "/",
    ],
    folders: &[],
    open,
};

fn open(_: &Path) -> anyhow::Result<Trial> {
    Ok(Box::new(|input| {
        let text = String::from_utf8_lossy(input);
        let key = Key::parse(&text);
        if let Ok(key) = &key {
            let again =
                Key::parse(&key.to_string()).map_err(|error| format!("a key cannot be read again: {error:?}"))?;
            if again != *key {
                return Err(format!("`{key}` is another key when read again"));
            }
            if Reference::parse(&key.to_string()).is_err() {
                return Err(format!("`{key}` is a key but cannot be referred to"));
            }
            let _ = (key.display("build"), key.kind());
        }
        let repaired = AgentId::repair(&text);
        match AgentId::parse(repaired.as_str()) {
            Ok(again) if again == repaired => {}
            _ => return Err(format!("`{repaired}` was repaired and is not a name")),
        }
        let reference = Reference::parse(&text);
        let way = reference.as_ref().map_or(0, |reference| match reference {
            Reference::Id(_) => 1,
            Reference::Key(_) => 2,
            Reference::Main => 3,
            Reference::Current => 4,
            _ => 5,
        });
        let kind = key.as_ref().map(|key| key.kind().as_str()).unwrap_or_default();
        let names = (label(&text).is_ok(), title(&text).is_ok(), AgentId::parse(&text).is_ok());
        Ok(signature((way, kind, names, text.len().min(600) / 100)))
    }))
}
