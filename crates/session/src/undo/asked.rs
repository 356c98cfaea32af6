//! Undo and redo as a person asks for them: a letter, and the entry that answers it.

use crate::actor::busy;
use crate::runtime::{Runtime, control};
use proto::entry::{Entry, Undone};
use proto::letter::Undo;
use proto::{Body, Code, Error, LetterId, SessionId};
use std::time::Duration;
use store::{Session, Span, Store};
use tokio::time::Instant;

/// How long the answer is waited for. The wish is kept by then, and comes true when the session comes to it.
const WAIT: Duration = Duration::from_secs(60);

impl Runtime {
    /// Takes back what a session did, or takes that back. The same `once` again changes nothing more.
    pub async fn undo(&self, session: &SessionId, wish: Undo, once: Option<&str>) -> Result<Undone, Error> {
        let id = once.map_or_else(LetterId::new, |once| LetterId::derived("undo_", once));
        let row = self.inner.session(session).await?;
        if once.is_some()
            && let Some(undone) = self.answered(&row, &id).await?
        {
            return self.told(undone);
        }
        if row.status.is_busy() {
            return Err(busy(session));
        }
        self.post(vec![control(id.clone(), session, Body::Undo(wish))]).await?;
        let end = Instant::now() + WAIT;
        loop {
            let waiter = self.inner.waiters.join(row.root.as_str());
            let mut changed = std::pin::pin!(waiter.changed());
            changed.as_mut().enable();
            let row = self.inner.session(session).await?;
            if let Some(undone) = self.answered(&row, &id).await? {
                return self.told(undone);
            }
            if Instant::now() >= end {
                return Err(Error::new(Code::Unavailable, format!("`{session}` did not come to it in time"))
                    .hint("it is kept and will be done: look at the history in a while"));
            }
            tokio::select! {
                () = changed => {}
                // The hint may be lost.
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
        }
    }

    /// Commands are shown as readers see them: without secrets.
    fn told(&self, mut undone: Undone) -> Result<Undone, Error> {
        undone.not_undone.iter_mut().for_each(|call| self.inner.redact_input(&mut call.input));
        match undone.refused {
            Some(why) => Err(why),
            None => Ok(undone),
        }
    }

    /// The entry that answers a letter. Each names the one before it.
    async fn answered(&self, row: &Session, letter: &LetterId) -> Result<Option<Undone>, Error> {
        let mut seq = row.undone;
        while let Some(undone) = at(self.store().as_ref(), &row.id, seq).await? {
            if &undone.letter == letter {
                return Ok(Some(undone));
            }
            seq = undone.previous;
        }
        Ok(None)
    }
}

/// The undo or redo that stands at an entry.
pub(crate) async fn at(store: &dyn Store, session: &SessionId, seq: u64) -> Result<Option<Undone>, store::Error> {
    if seq == 0 {
        return Ok(None);
    }
    let entries = store.entries(session, Span::After { seq: seq - 1, limit: 1 }).await?;
    Ok(entries.into_iter().find_map(|stored| match stored.entry {
        Entry::Undo(undone) if stored.seq == seq => Some(undone),
        _ => None,
    }))
}
