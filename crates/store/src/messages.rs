//! Mail as whoever oversees it sees it: what is kept back for a person to decide, and what went from session to session.

use proto::{Class, Letter, LetterId, Millis, SessionId};
use serde::{Deserialize, Serialize};

/// A letter to keep back until a person lets it in. One that was held or posted before changes nothing.
#[derive(Debug, Clone)]
pub struct Hold {
    pub letter: Letter,
    /// Who sent it, as a person is shown it.
    pub sender: String,
    /// From this moment on it can no longer be let in.
    pub expires: Millis,
    /// The most letters that may be held for the receiver: with that many it is full.
    pub queue: Option<u32>,
}

/// What a person says about a held letter. Accepting posts it in the same transaction.
#[derive(Debug, Clone)]
pub struct Release {
    pub id: LetterId,
    pub accept: bool,
    /// Why it was refused.
    pub reason: Option<String>,
}

/// What became of a held letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HeldState {
    Held,
    Accepted,
    Refused,
    Expired,
}

impl HeldState {
    /// What it is at a moment, given what was written: nobody writes that a letter expired before somebody looks.
    pub(crate) fn at(self, now: Millis, expires: Millis) -> Self {
        if self == Self::Held && expires <= now { Self::Expired } else { self }
    }
}

/// A letter that was held.
#[derive(Debug, Clone)]
pub struct Held {
    pub id: LetterId,
    pub to: SessionId,
    pub root: SessionId,
    pub sender: String,
    pub posted: Millis,
    pub expires: Millis,
    pub state: HeldState,
    /// When a person decided.
    pub decided: Option<Millis>,
    pub reason: Option<String>,
    /// Gone once it was decided or found expired.
    pub letter: Option<Letter>,
}

/// Which held letters, newest first.
#[derive(Debug, Clone, Default)]
pub struct HeldQuery {
    pub id: Option<LetterId>,
    /// Held for this session.
    pub session: Option<SessionId>,
    /// Any without one.
    pub states: Vec<HeldState>,
    /// The clock that says what has expired.
    pub now: Millis,
    pub after: Option<MailKey>,
    pub limit: usize,
}

/// A letter that a session posted to a session. Orders of the runtime are not among them.
#[derive(Debug, Clone)]
pub struct Sent {
    pub id: LetterId,
    pub to: SessionId,
    pub root: SessionId,
    /// The sending session: its id, or where it can be reached if it lives elsewhere.
    pub sender: String,
    pub class: Class,
    pub posted: Millis,
    /// When it was taken into the receiver's log, and where it is in there.
    pub consumed: Option<Millis>,
    pub seq: Option<u64>,
    /// Gone once it was consumed.
    pub letter: Option<Letter>,
}

/// Which letters between sessions, newest first.
#[derive(Debug, Clone, Default)]
pub struct SentQuery {
    pub id: Option<LetterId>,
    /// To or from this session.
    pub session: Option<SessionId>,
    /// From this session, or from this address elsewhere.
    pub sender: Option<String>,
    /// Only those that are unread, or only those that were taken.
    pub unread: Option<bool>,
    pub after: Option<MailKey>,
    pub limit: usize,
}

/// Where a page of mail ended: when its last letter was posted, and its id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MailKey {
    pub posted: Millis,
    pub id: LetterId,
}
