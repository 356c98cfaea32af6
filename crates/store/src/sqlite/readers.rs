//! A few connections that only read, opened when first needed. All but single rows are read away from the runtime's
//! threads.

use super::fault::{Place, Result};
use crate::Error;
use rusqlite::Connection;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, TryAcquireError};

/// How many may read at once. More would wait for the same disk and cost memory.
const READERS: u32 = 4;

type Open = fn(&Place) -> Result<Connection>;

#[derive(Clone)]
pub(super) struct Readers {
    place: Place,
    open: Open,
    idle: Arc<Mutex<Vec<Connection>>>,
    permits: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn new(place: Place, open: Open) -> Self {
        let permits = Arc::new(Semaphore::new(READERS as usize));
        Self { place, open, idle: Arc::default(), permits }
    }

    /// Runs a read in one snapshot of the database.
    pub(super) async fn read<T, F>(&self, read: F) -> std::result::Result<T, Error>
    where
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
        T: Send + 'static,
    {
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| Error::Closed)?;
        let readers = self.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let outcome = readers.with_connection(|connection| in_snapshot(connection, read));
            drop(permit);
            outcome.map_err(|fault| readers.place.explain(fault))
        });
        reading.await.unwrap_or_else(|_| Err(Error::Internal("a read of the store broke off".into())))
    }

    /// Reads by a key, with one statement, where the caller is. That takes microseconds, less than handing it to another
    /// thread and waking the caller; when nobody is free to read, it waits its turn like any other read. One statement
    /// sees one moment by itself.
    pub(super) async fn glance<T, F>(&self, read: F) -> std::result::Result<T, Error>
    where
        F: FnOnce(&Connection) -> Result<T> + Send + 'static,
        T: Send + 'static,
    {
        match self.permits.try_acquire() {
            Ok(_permit) => self.with_connection(read).map_err(|fault| self.place.explain(fault)),
            Err(TryAcquireError::NoPermits) => self.read(read).await,
            Err(TryAcquireError::Closed) => Err(Error::Closed),
        }
    }

    fn with_connection<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => (self.open)(&self.place)?,
        };
        let outcome = read(&connection);
        // One that cannot end its transaction would hold its snapshot for ever: let it go.
        if connection.is_autocommit() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
        outcome
    }

    /// Waits for reads under way and closes the connections.
    pub(super) async fn close(&self) {
        let all = self.permits.acquire_many(READERS).await;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.permits.close();
        drop(all);
    }
}

fn in_snapshot<T>(connection: &Connection, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    connection.prepare_cached("BEGIN")?.execute([])?;
    let outcome = read(connection);
    connection.prepare_cached("COMMIT")?.execute([])?;
    outcome
}
