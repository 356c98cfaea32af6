//! Undo and redo: files first, each kept as it is before it is touched, then the one commit that says what was done.
//!
//! A crash in between finds the letter unread and the journal with what was done already: doing it again comes to the same
//! end.

use super::{Actor, Stop, Talk};
use crate::grant::Grant;
use crate::undo::{self, Past, Plan};
use crate::view::View;
use crate::{fork, now};
use proto::entry::{Stored, Undone};
use proto::letter::Undo;
use proto::{Body, Code, Entry, Error, Letter, LetterId};
use rules::mode::Mode;
use std::collections::HashSet;
use store::{Batch, Span};

impl Actor {
    pub(super) async fn undo(&mut self, letter: &Letter) -> Result<(), Stop> {
        let Body::Undo(wish) = letter.body else { return Ok(()) };
        let base = self.row.base.saturating_sub(1);
        let from = wish.to.map_or(base, |to| to.min(base));
        let span = Span::After { seq: from, limit: usize::MAX };
        let log = self.rt.store.entries(&self.row.id, span).await?;
        let newest = undo::at(self.rt.store.as_ref(), &self.row.id, self.row.undone).await?;
        let aside = newest.map(|newest| newest.aside).unwrap_or_default();
        let past = Past { log: &log, last: self.row.seq, aside };
        match self.weigh_undo(&past, &letter.id, &wish).await {
            Ok((entry, mode)) => self.commit_undo(log, letter, entry, mode).await,
            Err(why) => {
                let entry = undo::refusal(&past, &letter.id, why);
                self.commit(self.undo_batch(letter, entry)).await
            }
        }
    }

    /// What is undone, with the files put back by now.
    async fn weigh_undo(
        &self,
        past: &Past<'_>,
        letter: &LetterId,
        wish: &Undo,
    ) -> Result<(Undone, Option<String>), Error> {
        if self.view.answering().is_some() {
            return Err(busy(&self.row.id));
        }
        let Plan { mut entry, by, mode } = undo::plan(past, letter, wish)?;
        if !by.is_empty() {
            let (journal, seen, page) = (self.rt.journal(&self.row.id), self.files.clone(), letter.to_string());
            let work = move || {
                let by: HashSet<&str> = by.iter().map(String::as_str).collect();
                journal.take_back(&by, &page, &seen)
            };
            let done = tokio::task::spawn_blocking(work).await;
            let done = done.map_err(|error| Error::internal(format!("putting files back broke down: {error}")))?;
            entry.changed = done.map_err(|error| {
                Error::new(Code::Unavailable, format!("what files were before cannot be read: {error}"))
            })?;
        }
        Ok((entry, mode))
    }

    /// The session is what its log says without what is set aside: agent, list, plan and tools included.
    async fn commit_undo(
        &mut self,
        mut log: Vec<Stored>,
        letter: &Letter,
        entry: Undone,
        mode: Option<String>,
    ) -> Result<(), Stop> {
        let mut batch = self.undo_batch(letter, entry);
        let (seq, at) = (self.row.seq + 1, now());
        log.retain(|stored| stored.seq >= self.row.base);
        log.extend(batch.entries.iter().map(|entry| Stored { seq, at, entry: entry.clone() }));
        let log = fork::standing(&self.row, log);
        let mut view = View::of(log.iter().map(|stored| (stored.seq, &stored.entry)));
        view.set_paused(self.view.paused());
        batch.row.context_tokens = Some(view.context());
        batch.row.agent = Some(view.agent().unwrap_or(&self.row.owner).to_owned()).filter(|to| to != &self.row.agent);
        if let Some(mode) = mode.as_deref().and_then(Mode::parse) {
            let mut grant = Grant::read(&self.row.policy);
            grant.mode = mode;
            batch.row.policy = Some(grant.write());
        }
        self.commit(batch).await?;
        (self.view, self.talk) = (view, Talk::Loaded(log));
        self.take_role();
        Ok(())
    }

    fn undo_batch(&self, letter: &Letter, entry: Undone) -> Batch {
        let entry = Undone { previous: self.row.undone, ..entry };
        let mut batch = Batch { entries: vec![Entry::Undo(entry)], ..Batch::default() };
        batch.consume.push(letter.id.clone());
        batch.row.undone = Some(self.row.seq + 1);
        batch
    }
}

/// What is under way has to end first.
pub(crate) fn busy(session: &proto::SessionId) -> Error {
    Error::new(Code::Conflict, format!("`{session}` is busy, and what is under way cannot be undone"))
        .hint("wait for its end, or stop it first with `convoke kill`")
}
