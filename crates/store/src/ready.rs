//! A commit, a delivery or a change of a board made ready for its backend: whatever becomes text becomes it here, in the caller's task, so that
//! the one writer has nothing left to do but write.

use crate::{
    Ask, AskChange, Batch, BoardChange, Committed, Error, Fate, Fence, Fork, Hold, Mail, Once, Parcel, Post, Receipt,
    Release, Retire, RowChange, RunChange, Session, WaitChange,
};
use proto::letter::{Allotment, AskReply, Purse, Report, Sender};
use proto::{AskId, BoardTask, Body, Class, Entry, Letter, LetterId, Millis, RunId, SessionId, Status};
use serde::Serialize;
use std::sync::Arc;

/// One transaction's worth of work.
pub(crate) struct Ready {
    /// Whose commit it is; a delivery is nobody's.
    pub(crate) by: Option<(SessionId, Fence)>,
    pub(crate) at: Millis,
    pub(crate) once: Option<Once>,
    pub(crate) entries: Vec<Arc<str>>,
    pub(crate) consume: Vec<Consume>,
    pub(crate) expect_unread: Option<u32>,
    pub(crate) retire: Vec<Retire>,
    pub(crate) label: Vec<(SessionId, Option<String>)>,
    pub(crate) open: Vec<Session>,
    pub(crate) post: Vec<Posting>,
    pub(crate) hold: Vec<Holding>,
    pub(crate) release: Vec<Release>,
    pub(crate) send: Vec<Parcel>,
    pub(crate) sent: Vec<(LetterId, Fate)>,
    pub(crate) forget: Vec<LetterId>,
    pub(crate) runs: Vec<RunChange>,
    pub(crate) asks: Vec<Asking>,
    pub(crate) waits: Vec<WaitChange>,
    pub(crate) archive: Vec<SessionId>,
    pub(crate) row: RowChange,
    pub(crate) board: Option<BoardChange>,
}

/// What was done, for the answer.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
    pub(crate) receipts: Vec<Receipt>,
    /// Tasks whose holder ended.
    pub(crate) returned: Vec<BoardTask>,
    /// The task that was changed.
    pub(crate) task: Option<BoardTask>,
}

impl Done {
    pub(crate) fn committed(self) -> Committed {
        Committed { epoch: self.epoch, seq: self.seq, receipts: self.receipts, returned: self.returned }
    }

    pub(crate) fn changed(self) -> Result<BoardTask, Error> {
        self.task.ok_or_else(|| Error::Internal("a change of a board came back without its task".into()))
    }
}

/// A letter to take out of the inbox.
pub(crate) struct Consume {
    pub(crate) letter: LetterId,
    /// Which of the batch's entries is its input; a control letter has none.
    pub(crate) entry: Option<usize>,
}

/// A run that a letter opens: who hears of its end, and who pays.
pub(crate) struct Opens {
    pub(crate) report: Option<Report>,
    pub(crate) purse: Option<Purse>,
}

impl Opens {
    /// What the run is to get for itself, and out of which purse; nothing, when the purse is its own to begin with.
    pub(crate) fn taken(&self, run: &RunId) -> Option<(&RunId, Allotment)> {
        let purse = self.purse.as_ref().filter(|purse| purse.of != *run)?;
        Some((&purse.of, purse.allotted?))
    }
}

/// A letter to put into an inbox.
pub(crate) struct Posting {
    pub(crate) id: LetterId,
    pub(crate) to: SessionId,
    pub(crate) class: Class,
    pub(crate) person: bool,
    pub(crate) queue: Option<u32>,
    /// A prompt opens a run.
    pub(crate) run: Option<Opens>,
    /// The session it is from, here or elsewhere.
    pub(crate) sender: Option<String>,
    pub(crate) body: String,
}

/// A letter to keep back.
pub(crate) struct Holding {
    pub(crate) posting: Posting,
    pub(crate) sender: String,
    pub(crate) expires: Millis,
}

pub(crate) enum Asking {
    Open { ask: Box<Ask>, body: String },
    Close { ask: AskId, reply: Option<AskReply> },
}

impl Ready {
    pub(crate) fn commit(session: &SessionId, fence: Fence, batch: Batch) -> Result<Self, Error> {
        let consume = batch.consume.into_iter().map(|letter| {
            let is_its_input = |entry: &Entry| matches!(entry, Entry::Input(input) if input.letter == letter);
            Consume { entry: batch.entries.iter().position(is_its_input), letter }
        });
        Ok(Self {
            by: Some((session.clone(), fence)),
            at: batch.at,
            once: None,
            consume: consume.collect(),
            entries: batch.entries.iter().map(|entry| Ok(text(entry)?.into())).collect::<Result<_, Error>>()?,
            expect_unread: batch.expect_unread,
            retire: Vec::new(),
            label: Vec::new(),
            open: batch.open,
            post: batch.post.into_iter().map(Posting::new).collect::<Result<_, _>>()?,
            hold: batch.hold.into_iter().map(Holding::new).collect::<Result<_, _>>()?,
            release: Vec::new(),
            send: batch.send,
            sent: Vec::new(),
            forget: Vec::new(),
            runs: batch.runs,
            asks: batch.asks.into_iter().map(Asking::new).collect::<Result<_, _>>()?,
            waits: batch.waits,
            archive: batch.archive,
            row: batch.row,
            board: None,
        })
    }

    pub(crate) fn mail(mail: Mail) -> Result<Self, Error> {
        Ok(Self {
            by: None,
            at: mail.at,
            once: mail.once,
            entries: Vec::new(),
            consume: Vec::new(),
            expect_unread: None,
            retire: mail.retire,
            label: mail.label,
            open: mail.open,
            post: mail.post.into_iter().map(Posting::new).collect::<Result<_, _>>()?,
            hold: mail.hold.into_iter().map(Holding::new).collect::<Result<_, _>>()?,
            release: mail.release,
            send: mail.send,
            sent: mail.sent,
            forget: mail.forget,
            runs: Vec::new(),
            asks: Vec::new(),
            waits: Vec::new(),
            archive: Vec::new(),
            row: RowChange::default(),
            board: None,
        })
    }

    pub(crate) fn board(change: BoardChange) -> Result<Self, Error> {
        let change = change.checked()?;
        Ok(Self { board: Some(change.clone()), ..Self::mail(Mail { at: change.at, ..Mail::default() })? })
    }

    /// Roughly what it weighs: the text that will be written.
    pub(crate) fn bytes(&self) -> usize {
        let entries: usize = self.entries.iter().map(|body| body.len()).sum();
        let post: usize = self.post.iter().map(|posting| posting.body.len()).sum();
        let hold: usize = self.hold.iter().map(|holding| holding.posting.body.len()).sum();
        let open: usize = self.open.iter().map(|session| session.policy.len() + session.key.len()).sum();
        let send: usize = self.send.iter().map(|parcel| parcel.body.len()).sum();
        entries + post + hold + send + open + self.board.as_ref().map_or(0, BoardChange::bytes)
    }

    /// Nothing in it can be refused once its first row is written, so it can never leave half of itself behind. A letter
    /// is refused before anything is written for it, so one alone is of this kind.
    pub(crate) fn is_refused_early(&self) -> bool {
        let one_letter = self.by.is_none() && self.once.is_none() && self.post.len() == 1 && self.post[0].is_plain();
        let plain = self.consume.is_empty()
            && self.open.is_empty()
            && self.hold.is_empty()
            && self.release.is_empty()
            && self.send.is_empty()
            && self.waits.is_empty();
        plain && (self.post.is_empty() || one_letter)
    }
}

impl Posting {
    /// It takes nothing out of anybody's purse: once there is somebody to get it, it goes through.
    pub(crate) fn is_plain(&self) -> bool {
        self.run.as_ref().is_none_or(|opens| opens.taken(&self.id.run()).is_none())
    }

    fn new(post: Post) -> Result<Self, Error> {
        let Post { letter, person, queue } = post;
        let body = text(&letter)?;
        Ok(Self { person, queue, ..Self::again(letter, body) })
    }

    /// A letter that was written before, whoever let it through: nothing is in its way.
    pub(crate) fn again(letter: Letter, body: String) -> Self {
        let run = match letter.body {
            Body::Prompt(prompt) => Some(Opens { report: letter.report, purse: prompt.purse }),
            _ => None,
        };
        let sender = match letter.from {
            Sender::Session { id } => Some(id.to_string()),
            Sender::Peer { address } => Some(address),
            Sender::Person | Sender::Runtime => None,
        };
        Self { id: letter.id, to: letter.to, class: letter.class, person: false, queue: None, run, sender, body }
    }

    /// The class it gets, given what its receiver is doing.
    pub(crate) fn class_for(&self, receiver_is_busy: bool) -> Class {
        match (self.person, receiver_is_busy) {
            (true, true) => Class::Steer,
            (true, false) => Class::Request,
            (false, _) => self.class,
        }
    }
}

impl Holding {
    fn new(hold: Hold) -> Result<Self, Error> {
        let Hold { letter, sender, expires, queue } = hold;
        Ok(Self { posting: Posting::new(Post { letter, person: false, queue })?, sender, expires })
    }
}

impl Asking {
    fn new(change: AskChange) -> Result<Self, Error> {
        Ok(match change {
            AskChange::Open(ask) => Self::Open { body: text(&ask)?, ask },
            AskChange::Close { ask, reply, by: _ } => Self::Close { ask, reply },
        })
    }
}

fn text<T: Serialize>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::Internal(format!("cannot write as JSON: {error}")))
}

/// Mail makes it queued: neither busy nor paused.
pub(crate) fn rests(receiver: Status) -> bool {
    !receiver.is_busy() && receiver != Status::Paused
}

/// A prefix that does not exist yet would fill itself with whatever its parent says later.
pub(crate) fn fork_from_nowhere(fork: &Fork) -> Error {
    Error::Internal(format!("session `{}` has no entry {} to fork at", fork.of, fork.seq))
}
