//! Who is connected, and since when nobody is.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections at once. More wait to be accepted.
const MAX_CONNECTIONS: usize = 4096;

#[derive(Clone)]
pub(crate) struct Activity {
    free: Arc<Semaphore>,
    last: Arc<Mutex<Instant>>,
}

/// Held by a connection while it is open.
pub(crate) struct Guard {
    _permit: OwnedSemaphorePermit,
    last: Arc<Mutex<Instant>>,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self { free: Arc::new(Semaphore::new(MAX_CONNECTIONS)), last: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Waits for room.
    pub(crate) async fn enter(&self) -> Guard {
        let permit = Arc::clone(&self.free).acquire_owned().await.expect("the semaphore is never closed");
        Guard { _permit: permit, last: Arc::clone(&self.last) }
    }

    /// Something is under way, connected or not.
    pub(crate) fn touch(&self) {
        touch(&self.last);
    }

    /// How long nobody was connected.
    pub(crate) fn idle(&self) -> Duration {
        // The listener itself holds a place while it waits for the next connection.
        if self.free.available_permits() + 1 < MAX_CONNECTIONS {
            return Duration::ZERO;
        }
        self.last.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        touch(&self.last);
    }
}

fn touch(last: &Mutex<Instant>) {
    *last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
}
