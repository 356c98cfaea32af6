//! A session's own list of what is left to do, as it is stored and shown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One point of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Todo {
    /// What is to be done, in one line.
    #[serde(alias = "text", alias = "title")]
    pub content: String,
    /// How far it is.
    #[serde(default)]
    pub status: TodoStatus,
    /// How much it matters, where that counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    #[default]
    Pending,
    #[serde(alias = "in-progress", alias = "inProgress")]
    InProgress,
    #[serde(alias = "done")]
    Completed,
    #[serde(alias = "canceled")]
    Cancelled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    High,
    Medium,
    Low,
}

impl Todo {
    /// Whether something is still to be done about it.
    pub fn is_open(&self) -> bool {
        matches!(self.status, TodoStatus::Pending | TodoStatus::InProgress)
    }
}

/// As a line of a list: a box, the words, and what matters about it.
impl fmt::Display for Todo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.status {
            TodoStatus::Pending => "[ ]",
            TodoStatus::InProgress => "[>]",
            TodoStatus::Completed => "[x]",
            TodoStatus::Cancelled => "[-]",
        };
        write!(f, "{mark} {}", self.content)?;
        match self.priority {
            Some(Priority::High) => f.write_str(" (high)"),
            Some(Priority::Low) => f.write_str(" (low)"),
            Some(Priority::Medium) | None => Ok(()),
        }
    }
}
