//! A commit or a delivery made ready for its backend: whatever becomes text becomes it here, in the caller's task, so that
//! the one writer has nothing left to do but write.

use crate::{Ask, AskChange, Batch, Error, Fence, Fork, Mail, Once, Post, RowChange, RunChange, Session, WaitChange};
use proto::letter::{AskReply, Report};
use proto::{AskId, Body, Class, Entry, LetterId, Millis, SessionId, Status};
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
    pub(crate) open: Vec<Session>,
    pub(crate) post: Vec<Posting>,
    pub(crate) runs: Vec<RunChange>,
    pub(crate) asks: Vec<Asking>,
    pub(crate) waits: Vec<WaitChange>,
    pub(crate) archive: Vec<SessionId>,
    pub(crate) row: RowChange,
}

/// A letter to take out of the inbox.
pub(crate) struct Consume {
    pub(crate) letter: LetterId,
    /// Which of the batch's entries is its input; a control letter has none.
    pub(crate) entry: Option<usize>,
}

/// A letter to put into an inbox.
pub(crate) struct Posting {
    pub(crate) id: LetterId,
    pub(crate) to: SessionId,
    pub(crate) class: Class,
    pub(crate) person: bool,
    pub(crate) queue: Option<u32>,
    /// A prompt opens a run; this is who hears of its end.
    pub(crate) run: Option<Option<Report>>,
    pub(crate) body: String,
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
            open: batch.open,
            post: batch.post.into_iter().map(Posting::new).collect::<Result<_, _>>()?,
            runs: batch.runs,
            asks: batch.asks.into_iter().map(Asking::new).collect::<Result<_, _>>()?,
            waits: batch.waits,
            archive: batch.archive,
            row: batch.row,
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
            open: mail.open,
            post: mail.post.into_iter().map(Posting::new).collect::<Result<_, _>>()?,
            runs: Vec::new(),
            asks: Vec::new(),
            waits: Vec::new(),
            archive: Vec::new(),
            row: RowChange::default(),
        })
    }

    /// Roughly what it weighs: the text that will be written.
    pub(crate) fn bytes(&self) -> usize {
        let entries: usize = self.entries.iter().map(|body| body.len()).sum();
        let post: usize = self.post.iter().map(|posting| posting.body.len()).sum();
        let open: usize = self.open.iter().map(|session| session.policy.len() + session.key.len()).sum();
        entries + post + open
    }

    /// Nothing in it can be refused once its first row is written, so it can never leave half of itself behind. A letter
    /// is refused before anything is written for it, so one alone is of this kind.
    pub(crate) fn is_refused_early(&self) -> bool {
        let one_letter = self.by.is_none() && self.once.is_none() && self.post.len() == 1;
        let plain = self.consume.is_empty() && self.open.is_empty() && self.waits.is_empty();
        plain && (self.post.is_empty() || one_letter)
    }
}

impl Posting {
    fn new(post: Post) -> Result<Self, Error> {
        let Post { letter, person, queue } = post;
        let run = match &letter.body {
            Body::Prompt(_) => Some(letter.report.clone()),
            _ => None,
        };
        let body = text(&letter)?;
        Ok(Self { id: letter.id, to: letter.to, class: letter.class, person, queue, run, body })
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

impl Asking {
    fn new(change: AskChange) -> Result<Self, Error> {
        Ok(match change {
            AskChange::Open(ask) => Self::Open { body: text(&ask)?, ask: Box::new(ask) },
            AskChange::Close { ask, reply } => Self::Close { ask, reply },
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
