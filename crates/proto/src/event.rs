//! Events: what those who watch see. Kept ones carry a cursor; the others may be missed.

use crate::letter::AskReply;
use crate::methods::{AskInfo, QuestionInfo};
use crate::{AskId, BoardTask, CallId, Entry, Millis, SessionId, Status};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Something that happened in a tree. Written as `{"type": …}`, read by every front end.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Event {
    /// An entry was kept. The bytes are those that were stored.
    Entry { session_id: SessionId, seq: u64, at: Millis, entry: Box<RawValue> },
    /// A piece of an answer under way. Never kept.
    Delta { session_id: SessionId, text: String },
    /// A piece of what the model thinks before it answers. Never kept.
    Reasoning { session_id: SessionId, text: String },
    /// The model is writing a call of this tool. Never kept: the entry of its reply has the call.
    Call { session_id: SessionId, tool: String },
    /// What a call has printed since the last of these: the newest of it. Never kept.
    Output { session_id: SessionId, call_id: CallId, text: String, dropped: u64 },
    /// A question to a person. Stored beside the log; told again to whoever asks for the open ones.
    Ask(Box<AskInfo>),
    /// Questions of a model to a person. Stored and told again like an ask, which they are.
    Question(Box<QuestionInfo>),
    /// An ask or a question is open no more. Without a reply it was withdrawn.
    Settled { ask_id: AskId, session_id: SessionId, by: SettledBy, reply: Option<AskReply> },
    /// A session changed what it is doing.
    Status { session_id: SessionId, status: Status },
    /// The model's server failed for the moment and is asked again after a while: deltas of this step so far are void.
    Retry { session_id: SessionId, attempt: u32, after_ms: u64, message: String },
    /// A hook of the user failed. What it hangs on went on without it.
    Hook { session_id: SessionId, event: String, command: String, error: String },
    /// A task of the tree's board changed; without its description, which a look at the board shows.
    Board { session_id: SessionId, task: Box<BoardTask> },
    /// The watcher was too slow: read again from the cursor it has.
    Resync {},
}

impl Event {
    /// Where it happened.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Entry { session_id, .. }
            | Self::Delta { session_id, .. }
            | Self::Reasoning { session_id, .. }
            | Self::Call { session_id, .. }
            | Self::Output { session_id, .. }
            | Self::Settled { session_id, .. }
            | Self::Status { session_id, .. }
            | Self::Retry { session_id, .. }
            | Self::Hook { session_id, .. }
            | Self::Board { session_id, .. } => Some(session_id),
            Self::Ask(ask) => Some(&ask.session_id),
            Self::Question(asked) => Some(&asked.session_id),
            Self::Resync {} => None,
        }
    }
}

/// What settled an ask.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettledBy {
    /// Somebody at a terminal, or a program with their token.
    Person,
    /// The session it was put to.
    Session,
    /// Its time was over.
    Timeout,
    /// Its call was stopped.
    Stopped,
    /// From a newer gateway.
    #[default]
    #[serde(other)]
    Unknown,
}

/// An event as a client reads it back.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum Seen {
    Entry {
        session_id: SessionId,
        seq: u64,
        at: Millis,
        entry: serde_json::Value,
    },
    Delta {
        session_id: SessionId,
        text: String,
    },
    Reasoning {
        session_id: SessionId,
        text: String,
    },
    Call {
        session_id: SessionId,
        tool: String,
    },
    Output {
        session_id: SessionId,
        call_id: CallId,
        text: String,
        #[serde(default)]
        dropped: u64,
    },
    Ask(Box<AskInfo>),
    Question(Box<QuestionInfo>),
    Settled {
        ask_id: AskId,
        session_id: SessionId,
        #[serde(default)]
        by: SettledBy,
        #[serde(default)]
        reply: Option<AskReply>,
    },
    Status {
        session_id: SessionId,
        status: Status,
    },
    Retry {
        session_id: SessionId,
        attempt: u32,
        after_ms: u64,
        message: String,
    },
    Hook {
        session_id: SessionId,
        event: String,
        command: String,
        error: String,
    },
    Board {
        session_id: SessionId,
        task: Box<BoardTask>,
    },
    Resync {},
    /// From a newer gateway; passed over.
    #[serde(other)]
    Unknown,
}

impl Seen {
    /// Where it happened.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Entry { session_id, .. }
            | Self::Delta { session_id, .. }
            | Self::Reasoning { session_id, .. }
            | Self::Call { session_id, .. }
            | Self::Output { session_id, .. }
            | Self::Settled { session_id, .. }
            | Self::Status { session_id, .. }
            | Self::Retry { session_id, .. }
            | Self::Hook { session_id, .. }
            | Self::Board { session_id, .. } => Some(session_id),
            Self::Ask(ask) => Some(&ask.session_id),
            Self::Question(asked) => Some(&asked.session_id),
            Self::Resync {} | Self::Unknown => None,
        }
    }

    /// The kept entry, typed.
    pub fn entry(&self) -> Option<Entry> {
        match self {
            Self::Entry { entry, .. } => serde_json::from_value(entry.clone()).ok(),
            _ => None,
        }
    }
}
