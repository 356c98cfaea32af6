//! Who is connected, and since when nobody is.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections at once over the socket. More wait to be accepted.
const MAX_SOCKET: usize = 4096;

/// Connections at once over TCP. They have places of their own: whoever takes all of them does not lock out this user.
const MAX_TCP: usize = 16_384;

/// Files a gateway needs for itself and its tools, whoever is connected.
const OWN_FILES: usize = 1024;

#[derive(Clone)]
pub(crate) struct Activity {
    socket: Places,
    tcp: Places,
    last: Arc<Mutex<Instant>>,
}

#[derive(Clone)]
struct Places {
    free: Arc<Semaphore>,
    all: usize,
}

/// Held by a connection while it is open.
pub(crate) struct Guard {
    _permit: OwnedSemaphorePermit,
    /// Others may be waiting for the place: a silent connection is closed soon.
    pub(crate) crowded: bool,
    last: Arc<Mutex<Instant>>,
}

impl Places {
    fn new(all: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(all)), all }
    }

    fn taken(&self) -> usize {
        self.all - self.free.available_permits()
    }
}

impl Activity {
    pub(crate) fn new() -> Self {
        let tcp = MAX_TCP.min(files().saturating_sub(MAX_SOCKET.min(files() / 4) + OWN_FILES)).max(16);
        Self { socket: Places::new(MAX_SOCKET), tcp: Places::new(tcp), last: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Waits for room.
    pub(crate) async fn enter(&self, over_tcp: bool) -> Guard {
        let places = if over_tcp { &self.tcp } else { &self.socket };
        let permit = Arc::clone(&places.free).acquire_owned().await.expect("the semaphore is never closed");
        let crowded = places.free.available_permits() < places.all / 4;
        Guard { _permit: permit, crowded, last: Arc::clone(&self.last) }
    }

    /// Something is under way, connected or not.
    pub(crate) fn touch(&self) {
        touch(&self.last);
    }

    /// Connections over the socket and over TCP.
    pub(crate) fn connected(&self) -> (usize, usize) {
        (self.socket.taken(), self.tcp.taken())
    }

    /// How long nobody was connected.
    pub(crate) fn idle(&self) -> Duration {
        if self.connected() != (0, 0) {
            return Duration::ZERO;
        }
        self.last.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

/// How many files this process may have open.
fn files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

impl Drop for Guard {
    fn drop(&mut self) {
        touch(&self.last);
    }
}

fn touch(last: &Mutex<Instant>) {
    *last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_places_are_for_those_who_say_what_they_want() {
        let activity = Activity { tcp: Places::new(16), ..Activity::new() };
        let mut guards = Vec::new();
        for _ in 0..16 {
            guards.push(activity.enter(true).await);
        }
        let crowded: Vec<bool> = guards.iter().map(|guard| guard.crowded).collect();
        assert_eq!(crowded, [[false; 12].as_slice(), &[true; 4]].concat());
        assert!(!activity.enter(false).await.crowded, "the socket has its own");
    }
}
