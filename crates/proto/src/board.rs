//! The board: tasks that a tree of sessions shares, as they are stored, sent and shown.

use crate::{Millis, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A task on the board of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BoardTask {
    /// 1, 2, 3 … in its tree.
    pub number: u64,
    pub title: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub state: TaskState,
    /// Who works on it, or did.
    pub owner: Option<Holder>,
    /// What the owner's tree calls it; known to those who show a task, not to those who keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_name: Option<String>,
    /// Grows with every change; an update names the one it has seen.
    pub version: u64,
    /// Tasks that come before it.
    pub blocked_by: Vec<u64>,
    /// Those of them that are neither done nor cancelled: while there are any, nobody can claim it.
    pub waiting_for: Vec<u64>,
    /// What was said last about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub created_at: Millis,
    pub updated_at: Millis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Free to be claimed, once nothing blocks it.
    Pending,
    /// Claimed, for as long as its owner lives.
    #[serde(alias = "in-progress", alias = "inProgress")]
    InProgress,
    #[serde(alias = "completed")]
    Done,
    Failed,
    #[serde(alias = "canceled", alias = "deleted")]
    Cancelled,
}

impl TaskState {
    pub const ALL: [Self; 5] = [Self::Pending, Self::InProgress, Self::Done, Self::Failed, Self::Cancelled];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// What waits for a task in this state need not wait any longer.
    pub fn lets_others_go_on(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled)
    }
}

/// Who holds a task: a session, or a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    Person,
    Session(SessionId),
}

/// How a person is written where a session's id could stand.
const PERSON: &str = "person";

impl Holder {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Person => PERSON,
            Self::Session(id) => id.as_str(),
        }
    }

    pub fn parse(text: &str) -> Result<Self, crate::ids::Invalid> {
        if text == PERSON { Ok(Self::Person) } else { SessionId::parse(text).map(Self::Session) }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Holder {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Holder {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Holder {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Holder".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "description": "The id of a session, or `person`."})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_holders_read_back() {
        for state in TaskState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
        for (word, state) in [("completed", TaskState::Done), ("deleted", TaskState::Cancelled)] {
            assert_eq!(serde_json::from_value::<TaskState>(word.into()).unwrap(), state);
        }
        for holder in [Holder::Person, Holder::Session(SessionId::new())] {
            assert_eq!(Holder::parse(holder.as_str()).unwrap(), holder);
        }
        assert!(Holder::parse("no body").is_err());
    }
}
