//! What `sessions.undo` and `sessions.redo` take and give.

use crate::shape::{Chosen, Ref};
use crate::{FileUndone, NotUndone, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is taken back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum What {
    #[default]
    Both,
    /// The files that the session changed.
    Files,
    /// What was said.
    Conversation,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UndoInput {
    #[serde(rename = "ref")]
    #[schemars(with = "Ref")]
    pub reference: String,
    /// Back to where this entry was the newest; without one, to before the newest word of a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    #[serde(default)]
    pub what: What,
    /// The same key again changes nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Chosen>")]
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RedoInput {
    #[serde(rename = "ref")]
    #[schemars(with = "Ref")]
    pub reference: String,
    /// Of what the undo did.
    #[serde(default)]
    pub what: What,
    /// The same key again changes nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Chosen>")]
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoOutput {
    pub session_id: SessionId,
    /// The session is where it was after this entry; of a redo, the entry that the undo had gone back to.
    pub to: u64,
    /// Files that were to be put back. One that was as it should be already is not named.
    pub files: Vec<FileUndone>,
    /// What became of the conversation, if it was part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Talked>,
    /// Calls whose effects stay: commands that may have changed files, and agents that were started.
    pub not_undone: Vec<NotUndone>,
}

/// Messages that were set aside, or that are back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Talked {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<u64>,
}
