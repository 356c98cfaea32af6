//! The outbox: mail to sessions of other gateways, kept until the other side has it, and for a while after that.

use crate::{Error, MailKey};
use proto::methods::MailState;
use proto::{LetterId, Millis, SessionId};

/// Messages that may wait for all other gateways, and for one address. A dead gateway must not take all the room.
const MOST: (u64, u64) = (10_000, 1_000);
/// The same in bytes.
const MOST_BYTES: (u64, u64) = (64 << 20, 16 << 20);

/// Mail on its way out.
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
    /// Without one it waits.
    pub fate: Option<Fate>,
}

/// What became of mail to another gateway: that has it on disk, or will never take it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fate {
    /// As the other side said.
    pub state: MailState,
    pub reason: Option<String>,
    pub at: Millis,
}

/// Which mail to other gateways, newest first.
#[derive(Debug, Clone, Default)]
pub struct OutboxQuery {
    pub id: Option<LetterId>,
    pub sender: Option<SessionId>,
    /// What waits is queued.
    pub state: Option<MailState>,
    pub after: Option<MailKey>,
    pub limit: usize,
}

impl OutboxQuery {
    pub(crate) fn fits(&self, parcel: &Parcel) -> bool {
        let state = parcel.fate.as_ref().map_or(MailState::Queued, |fate| fate.state);
        self.id.as_ref().is_none_or(|id| parcel.id == *id)
            && self.sender.as_ref().is_none_or(|sender| parcel.sender.as_ref() == Some(sender))
            && self.state.is_none_or(|wanted| wanted == state)
            && self.after.as_ref().is_none_or(|key| (parcel.posted, &parcel.id) < (key.posted, &key.id))
    }
}

/// How much waits.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

impl Load {
    fn exceeds(self, count: u64, bytes: u64) -> bool {
        self.count >= count || self.bytes > bytes
    }
}

/// Whether a message that has to wait fits, beside what waits for its address and for all.
pub(crate) fn check_room(parcel: &Parcel, there: Load, all: Load) -> Result<(), Error> {
    let with = |load: Load| Load { bytes: load.bytes + parcel.body.len() as u64, ..load };
    if with(there).exceeds(MOST.1, MOST_BYTES.1) {
        return Err(Error::OutboxFull { to: parcel.address.clone(), count: there.count, bytes: there.bytes });
    }
    if with(all).exceeds(MOST.0, MOST_BYTES.0) {
        return Err(Error::OutboxFull { to: "other gateways".into(), count: all.count, bytes: all.bytes });
    }
    Ok(())
}
