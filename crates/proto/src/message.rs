//! Messages: a session's log as readers see it (A14). A projection of entries, never stored.

mod project;
mod trim;

pub use project::{Before, is_message, project, project_after};
pub use trim::{Capped, MAX_BYTES, cap, readable};

use crate::{CallId, Millis, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A page of a session's messages (S5).
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct History {
    pub session_key: String,
    pub messages: Vec<Message>,
    /// The size limit removed something.
    pub hard_capped: bool,
    /// Bytes of what is returned.
    pub total_bytes: usize,
    pub truncated: bool,
    pub dropped_messages: usize,
    pub content_truncated: bool,
    pub content_redacted: bool,
    /// Where the page before this one ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_before: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    pub id: String,
    pub seq: u64,
    pub role: Role,
    /// Who spoke: `person`, `parent`, `notice`, or an agent by its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sender: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// The agent that answered, once more: readers of other programs' messages look for it here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<String>,
    pub timestamp: Millis,
    /// The text, or blocks when there is more than text.
    pub content: serde_json::Value,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

/// How a text is made fit for readers.
pub type OnText<'a> = dyn Fn(&str) -> Cow<'_, str> + 'a;
/// The same for structured values; true when something changed.
pub type OnJson<'a> = dyn Fn(&mut serde_json::Value) -> bool + 'a;

impl Message {
    /// Passes everything a reader would see through the two; true when something changed.
    pub fn redact(&mut self, text: &OnText<'_>, json: &OnJson<'_>) -> bool {
        let mut changed = false;
        let on_text = |held: &mut String| {
            let blanked = match text(held) {
                Cow::Borrowed(_) => None,
                Cow::Owned(other) => Some(other).filter(|other| other != held),
            };
            blanked.map(|other| *held = other).is_some()
        };
        for part in &mut self.parts {
            changed |= match part {
                Part::Text { text } | Part::Reasoning { text } => on_text(text),
                Part::Tool { input, output, title, .. } => {
                    let blanked = json(input);
                    if blanked {
                        *title = project::title(input);
                    }
                    blanked | output.as_mut().is_some_and(on_text)
                }
                Part::Subtask { prompt, description, .. } => on_text(prompt) | on_text(description),
                Part::File(_) | Part::Agent { .. } | Part::Compaction { .. } | Part::Step { .. } => false,
            };
        }
        if changed {
            // It says the same in other words: made anew, nothing has to be found twice.
            self.content = project::content(&self.parts);
        }
        changed
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    User,
    Assistant,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Part {
    Text {
        text: String,
    },
    Reasoning {
        text: String,
    },
    Tool {
        call_id: CallId,
        tool: String,
        state: ToolState,
        input: serde_json::Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<String>,
        /// What of its input tells most, on a line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// What it brought to look at.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<FilePart>,
    },
    Subtask {
        agent: String,
        prompt: String,
        description: String,
        /// The user's own command that it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
    },
    File(FilePart),
    /// An agent that the text calls by name.
    Agent {
        name: String,
    },
    Compaction {
        auto: bool,
    },
    Step {
        usage: Usage,
        /// US dollars.
        #[serde(default)]
        cost: f64,
    },
}

/// What a file holds is not shown, only how much it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilePart {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub filename: String,
    pub mime: String,
    pub omitted: bool,
    /// Of what is stored, in base64.
    pub bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolState {
    Pending,
    Running,
    Completed,
    Error,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_blanked_in_the_parts_is_blanked_in_the_content() {
        fn blank(text: &str) -> Cow<'_, str> {
            Cow::Owned(text.replace("secret", "***"))
        }
        let json = |value: &mut serde_json::Value| {
            let blanked = json!({ "command": "echo ***" });
            std::mem::replace(value, blanked.clone()) != blanked
        };
        let message: Message = serde_json::from_value(json!({
            "id": "msg_1", "seq": 1, "role": "assistant", "timestamp": 1, "content": "the secret",
            "parts": [{ "type": "text", "text": "the secret" }],
        }))
        .unwrap();
        let mut said = message.clone();
        assert!(said.redact(&blank, &json));
        assert_eq!(said.content, json!("the ***"));
        assert!(!said.redact(&blank, &json), "nothing is left to find");
        let mut called = Message {
            parts: vec![Part::Tool {
                call_id: CallId::parse("call_1").unwrap(),
                tool: "bash".into(),
                state: ToolState::Completed,
                input: json!({ "command": "echo secret" }),
                output: Some("secret".into()),
                title: Some("echo secret".into()),
                files: Vec::new(),
            }],
            ..message
        };
        assert!(called.redact(&blank, &json));
        let text = serde_json::to_string(&called).unwrap();
        assert!(!text.contains("secret") && text.contains("echo ***"), "{text}");
    }
}
