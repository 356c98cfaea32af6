//! The outbox: mail to sessions of other gateways, kept until the other side has it.

use proto::{LetterId, Millis, SessionId};

/// Mail on its way out. It leaves the outbox when the other gateway has it on disk, or will never take it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parcel {
    /// The same on the other side, which takes it once.
    pub id: LetterId,
    /// Who hears if it cannot be delivered; a person has no inbox.
    pub sender: Option<SessionId>,
    /// Whose it is: `uds:…` or `bridge:…`.
    pub address: String,
    pub posted: Millis,
    /// What the courier takes over, as it wrote it; opaque here.
    pub body: String,
}
