//! Mail between sessions, as methods and tools show it (C3, C4).

use crate::shape::{Chosen, Foreign, KeptMail, MailWords, PageCursor, Ref, SocketPath, Words};
use crate::{LetterId, Millis, SessionId, Status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Mail from a person.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MailInput {
    /// A name, `main` or `*` of the tree that `session` belongs to; or a session's id (or its last 4 characters), key or label; or a peer's address.
    #[schemars(with = "Words")]
    pub to: String,
    /// Text, or an object with a `type`: `shutdown_request`, `plan_approval_response`.
    #[schemars(with = "MailWords")]
    pub message: serde_json::Value,
    /// A session of the tree whose names are meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Ref>")]
    pub session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Chosen>")]
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MailOutput {
    /// `ok` when somebody gets it, else `error`.
    pub status: String,
    pub receipts: Vec<MailReceipt>,
    /// What an answer to a formal question has to repeat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// What became of one copy of a message.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MailReceipt {
    /// The address it went to.
    pub to: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    pub state: MailState,
    /// Why it did not arrive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MailState {
    /// In the receiver's inbox, on disk.
    Queued,
    /// In the receiver's log.
    Delivered,
    /// A person must let it in.
    Held,
    Refused,
    Expired,
    /// Nobody is there.
    Unreachable,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MessagesInput {
    /// Only this message, with its whole text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<LetterId>,
    /// `held`, `queued`, `delivered`, `refused`, `expired` or `unreachable`; all of them without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<KeptMail>")]
    pub state: Option<MailState>,
    /// Only mail to or from this session.
    #[serde(alias = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Ref>")]
    pub session: Option<String>,
    /// 50 without it, 200 at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// `nextCursor` of the page before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PageCursor>")]
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessagesOutput {
    pub count: usize,
    /// Newest first.
    pub messages: Vec<MessageRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A letter from one session to another, here or elsewhere.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageRow {
    pub id: LetterId,
    /// The sending session, or where it came from.
    pub from: String,
    /// What a sender here is called: its name, else its label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_name: Option<String>,
    /// The receiving session, or the address of one of another gateway.
    pub to: String,
    /// The same of a receiver here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_name: Option<String>,
    /// It went to another gateway: `state` is what that said last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outgoing: bool,
    /// `message`, `request`, `task`, `steer`, `reply`, `completion` or `conversation`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    pub state: MailState,
    pub posted_at: Millis,
    /// When a held one can no longer be accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Millis>,
    /// When it was taken into the receiver's log, and where it is in there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// When a person decided about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Millis>,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What its sender says it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// What it says, shortened in a list; for `limits.mailDays` also after it was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl MessageRow {
    /// A row with nothing but what every message has.
    pub fn new(id: LetterId, from: String, to: String, state: MailState, posted_at: Millis) -> Self {
        Self {
            id,
            from,
            from_name: None,
            to,
            to_name: None,
            outgoing: false,
            kind: None,
            state,
            posted_at,
            expires_at: None,
            delivered_at: None,
            seq: None,
            decided_at: None,
            reason: None,
            summary: None,
            text: None,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AcceptInput {
    /// The held message.
    pub id: LetterId,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RefuseInput {
    /// The held message.
    pub id: LetterId,
    /// Kept with it, at most 1,000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1000))]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PeersInput {
    /// Whom this session can write to; without it, every live session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Ref>")]
    pub session: Option<String>,
    /// Leave other gateways out.
    pub local: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PeersOutput {
    pub peers: Vec<PeerRow>,
}

/// Somebody to write to.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeerRow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its turn is done, and a message starts it again with all it knows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumable: bool,
    /// What to write into `to`.
    pub address: String,
    pub agent: String,
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// `tree`, `machine` or `remote`.
    #[serde(rename = "where")]
    pub place: Place,
    pub last_activity: Millis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    Tree,
    Machine,
    Remote,
}

/// Mail from a session of another gateway.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeliverInput {
    /// The same however often it is sent; it is taken once.
    #[schemars(with = "Foreign")]
    pub id: String,
    /// A session here: its id, key, name or label, or `main`.
    #[schemars(with = "Words")]
    pub to: String,
    /// The session over there.
    #[schemars(with = "Foreign")]
    pub from: String,
    /// What it is called over there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The agent it belongs to over there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// How far its own gateway lets it write (`tools.sessions.visibility.send`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<String>,
    /// Over there it listens at this socket; means something only between gateways of one user on one machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SocketPath>")]
    pub socket: Option<String>,
    #[schemars(with = "Words")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// How many sessions it has come through.
    #[serde(default)]
    pub hops: u32,
}
