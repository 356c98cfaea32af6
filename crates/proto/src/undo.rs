//! What an undo or a redo did, and what it could not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileState {
    /// It is as it was.
    Restored,
    /// What the session changed is taken out of it; what others changed since stays.
    Merged,
    /// It was made by the session and is gone.
    Removed,
    /// It was removed by the session and is there again.
    Recreated,
    /// Others changed the same place since: left as it is.
    Conflict,
    /// It could not or must not be touched.
    Skipped,
}

impl FileState {
    /// Whether the file is another now.
    pub fn is_changed(self) -> bool {
        !matches!(self, Self::Conflict | Self::Skipped)
    }
}

/// A file that was to be put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileUndone {
    pub path: String,
    pub state: FileState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A call whose effects stay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotUndone {
    /// The entry that holds the call.
    pub seq: u64,
    pub tool: String,
    pub input: serde_json::Value,
}
