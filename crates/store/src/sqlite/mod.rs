//! The default store: one SQLite file in the state directory, one thread that writes it, a few connections that read it.

mod apply;
mod board;
mod check;
mod fault;
mod file;
mod lock;
mod messages;
mod purses;
mod read;
mod readers;
mod value;
mod writer;

#[cfg(test)]
mod tests;

use crate::ready::{Done, Ready};
use crate::{
    Ahead, Ask, Awake, Batch, BoardChange, BoardQuery, Commits, Committed, Error, Fence, Find, Held, HeldQuery, Kept,
    Mail, OnKept, OutboxQuery, Page, Parcel, Purse, Query, Receipt, Run, Sent, SentQuery, Session, Span, Store, Unread,
};
use async_trait::async_trait;
use fault::Place;
use lock::Lock;
pub use lock::holder_of;
use proto::entry::Stored;
use proto::{AskId, BoardTask, Letter, LetterId, Millis, RunId, SessionId};
use readers::Readers;
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use writer::Writer;

/// A store in a directory that it has to itself.
pub struct Sqlite {
    /// `None` when it was opened for reading only.
    writer: Option<Arc<Writer>>,
    readers: Readers,
}

impl Sqlite {
    /// Opens the store of a state directory, and makes both when they are missing. The directory stays locked until the
    /// store is closed or dropped.
    pub fn open(dir: &Path, on_kept: OnKept) -> Result<Self, Error> {
        Self::open_with(dir, on_kept, |_| Ok(()))
    }

    /// `tune` changes the connection that writes; a test makes its disk small with it.
    pub(crate) fn open_with(
        dir: &Path,
        on_kept: OnKept,
        tune: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<Self, Error> {
        let place = Place::new(dir);
        file::make_dir(&place)?;
        let lock = Lock::take(&place)?;
        file::prepare(&place)?;
        let connection = file::writer(&place).map_err(|fault| place.explain(fault))?;
        tune(&connection).map_err(|error| place.explain(error.into()))?;
        let readers = Readers::new(place.clone(), file::reader);
        let writer = Writer::start(place, connection, lock, on_kept)?;
        Ok(Self { writer: Some(Arc::new(writer)), readers })
    }

    /// Opens a store that another process may be using. It takes no lock, and refuses to write.
    pub fn open_read(dir: &Path) -> Result<Self, Error> {
        let place = Place::new(dir);
        file::visitor(&place).map_err(|fault| place.explain(fault))?;
        Ok(Self { writer: None, readers: Readers::new(place, file::visitor) })
    }

    async fn write(&self, work: Ready) -> Result<Done, Error> {
        match &self.writer {
            Some(writer) => writer.write(work).await,
            None => Err(Error::Disk {
                message: "it was opened for reading only".into(),
                hint: "let the gateway do it: start one with `convoke serve`".into(),
            }),
        }
    }
}

#[async_trait]
impl Store for Sqlite {
    async fn commit(&self, session: &SessionId, fence: Fence, batch: Batch) -> Result<Committed, Error> {
        Ok(self.write(Ready::commit(session, fence, batch)?).await?.committed())
    }

    async fn deliver(&self, mail: Mail) -> Result<Vec<Receipt>, Error> {
        Ok(self.write(Ready::mail(mail)?).await?.receipts)
    }

    async fn change_board(&self, change: BoardChange) -> Result<BoardTask, Error> {
        self.write(Ready::board(change)?).await?.changed()
    }

    async fn board(&self, root: &SessionId, query: &BoardQuery) -> Result<Vec<BoardTask>, Error> {
        let (root, query) = (root.clone(), query.clone());
        self.readers.read(move |db| board::board(db, &root, &query)).await
    }

    async fn wake(&self, session: &SessionId) -> Result<Awake, Error> {
        let session = session.clone();
        self.readers.read(move |db| read::wake(db, &session)).await
    }

    async fn letters(&self, session: &SessionId, ids: &[LetterId]) -> Result<Vec<Letter>, Error> {
        let (session, ids) = (session.clone(), ids.to_vec());
        self.readers.read(move |db| read::letters(db, &session, &ids)).await
    }

    async fn inbox(&self, session: &SessionId, after: u64) -> Result<Vec<(u64, Unread)>, Error> {
        let session = session.clone();
        self.readers.read(move |db| read::inbox(db, &session, after)).await
    }

    async fn session(&self, session: &SessionId) -> Result<Option<Session>, Error> {
        let session = session.clone();
        self.readers.glance(move |db| read::session(db, &session)).await
    }

    async fn find(&self, what: &Find) -> Result<Vec<Session>, Error> {
        let what = what.clone();
        match what {
            // Two statements, which have to see the same moment.
            Find::NewestIn(_) => self.readers.read(move |db| read::find(db, &what)).await,
            _ => self.readers.glance(move |db| read::find(db, &what)).await,
        }
    }

    async fn list(&self, query: &Query) -> Result<Page, Error> {
        let query = query.clone();
        self.readers.read(move |db| read::list(db, &query)).await
    }

    async fn tree(&self, root: &SessionId, limit: usize) -> Result<Vec<Session>, Error> {
        let root = root.clone();
        self.readers.read(move |db| read::tree(db, &root, limit)).await
    }

    async fn busy_below(&self, session: &SessionId, limit: usize) -> Result<Vec<SessionId>, Error> {
        let session = session.clone();
        self.readers.read(move |db| read::busy_below(db, &session, limit)).await
    }

    async fn is_quiet(&self, session: &SessionId) -> Result<bool, Error> {
        let session = session.clone();
        self.readers.read(move |db| read::is_quiet(db, &session)).await
    }

    async fn inside(&self, dir: &str, limit: usize) -> Result<Vec<Session>, Error> {
        let dir = dir.to_owned();
        self.readers.read(move |db| read::inside(db, &dir, limit)).await
    }

    async fn live_children(&self, session: &SessionId) -> Result<u64, Error> {
        let session = session.clone();
        self.readers.read(move |db| read::live_children(db, &session)).await
    }

    async fn entries(&self, session: &SessionId, span: Span) -> Result<Vec<Stored>, Error> {
        let session = session.clone();
        self.readers.read(move |db| read::entries(db, &session, span)).await
    }

    async fn held(&self, query: &HeldQuery) -> Result<Vec<Held>, Error> {
        let query = query.clone();
        self.readers.read(move |db| messages::held(db, &query)).await
    }

    async fn sent(&self, query: &SentQuery) -> Result<Vec<Sent>, Error> {
        let query = query.clone();
        self.readers.read(move |db| messages::sent(db, &query)).await
    }

    async fn run(&self, run: &RunId) -> Result<Option<Run>, Error> {
        let run = run.clone();
        self.readers.glance(move |db| read::run(db, &run)).await
    }

    async fn asks(&self, root: Option<&SessionId>) -> Result<Vec<Ask>, Error> {
        let root = root.cloned();
        self.readers.read(move |db| read::asks(db, root.as_ref())).await
    }

    async fn ask(&self, ask: &AskId) -> Result<Option<Ask>, Error> {
        let ask = ask.clone();
        self.readers.glance(move |db| read::ask(db, &ask)).await
    }

    async fn unfinished(&self, after: Option<&SessionId>, limit: usize) -> Result<Vec<SessionId>, Error> {
        let after = after.cloned();
        self.readers.read(move |db| read::unfinished(db, after.as_ref(), limit)).await
    }

    async fn waits_for(&self, from: &SessionId, to: &SessionId) -> Result<bool, Error> {
        let (from, to) = (from.clone(), to.clone());
        self.readers.read(move |db| read::waits_for(db, &from, &to)).await
    }

    async fn awaits_news(&self, session: &SessionId) -> Result<bool, Error> {
        let session = session.clone();
        self.readers.read(move |db| read::awaits_news(db, &session)).await
    }

    async fn purses(&self, run: &RunId) -> Result<Vec<Purse>, Error> {
        let run = run.clone();
        self.readers.read(move |db| purses::chain(db, &run)).await
    }

    async fn outbox_addresses(&self, limit: usize) -> Result<Vec<String>, Error> {
        self.readers.read(move |db| read::outbox_addresses(db, limit)).await
    }

    async fn outbox(&self, address: &str, limit: usize) -> Result<Vec<Parcel>, Error> {
        let address = address.to_owned();
        self.readers.read(move |db| read::outbox(db, &address, limit)).await
    }

    async fn outgoing(&self, query: &OutboxQuery) -> Result<Vec<Parcel>, Error> {
        let query = query.clone();
        self.readers.read(move |db| read::outgoing(db, &query)).await
    }

    async fn settled_before(&self, moment: Millis, limit: usize) -> Result<Vec<LetterId>, Error> {
        self.readers.read(move |db| read::settled_before(db, moment, limit)).await
    }

    async fn owes_news(&self) -> Result<bool, Error> {
        self.readers.read(read::owes_news).await
    }

    async fn kept_since(&self, root: Option<&SessionId>, cursor: u64, limit: usize) -> Result<Vec<Kept>, Error> {
        let root = root.cloned();
        self.readers.read(move |db| read::kept_since(db, root.as_ref(), cursor, limit)).await
    }

    async fn kept_next(&self, root: Option<&SessionId>, cursor: u64) -> Result<Option<Ahead>, Error> {
        let root = root.cloned();
        self.readers.read(move |db| read::kept_next(db, root.as_ref(), cursor)).await
    }

    async fn cursor(&self) -> Result<u64, Error> {
        match &self.writer {
            Some(writer) => writer.newest(),
            None => self.readers.read(read::cursor).await,
        }
    }

    async fn cursor_before(&self, letter: &LetterId) -> Result<u64, Error> {
        let letter = letter.clone();
        self.readers.read(move |db| read::cursor_before(db, &letter)).await
    }

    async fn check(&self) -> Result<Vec<String>, Error> {
        self.readers.read(check::check).await
    }

    fn commits(&self) -> Commits {
        self.writer.as_ref().map_or_else(Commits::default, |writer| writer.commits())
    }

    async fn close(&self) {
        self.readers.close().await;
        let Some(writer) = self.writer.clone() else { return };
        // Joining blocks until the last transaction is on disk.
        if tokio::task::spawn_blocking(move || writer.close()).await.is_err() {
            tracing::error!("closing the store broke off");
        }
    }
}
