//! Which sessions are awake here, and how to reach them.
//!
//! A session is awake while its actor runs; asleep it is rows and costs nothing. Waking is a hint: the letter that is the
//! reason for it is stored already.

use proto::SessionId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Registry {
    awake: Mutex<HashMap<SessionId, Arc<Handle>>>,
}

/// The outside of one actor.
#[derive(Default)]
pub(crate) struct Handle {
    notify: Notify,
    /// Letters may have come in since the inbox was last read.
    dirty: AtomicBool,
    busy: AtomicBool,
    /// Why it cannot go on right now, such as a full disk.
    trouble: Mutex<Option<proto::Error>>,
}

impl Registry {
    /// Tells an awake session to look at its inbox. `Some` means it was asleep and is to be started.
    pub(crate) fn wake(&self, session: &SessionId) -> Option<Arc<Handle>> {
        let mut awake = self.awake.lock().expect("no holder of this lock panics");
        if let Some(handle) = awake.get(session) {
            handle.dirty.store(true, Ordering::SeqCst);
            handle.notify.notify_one();
            return None;
        }
        let handle = Arc::new(Handle::default());
        handle.dirty.store(true, Ordering::SeqCst);
        handle.busy.store(true, Ordering::SeqCst);
        awake.insert(session.clone(), handle.clone());
        Some(handle)
    }

    /// Falls asleep, unless a hint came in meanwhile: both happen under one lock, so no hint is lost.
    pub(crate) fn sleep(&self, session: &SessionId, handle: &Handle) -> bool {
        let mut awake = self.awake.lock().expect("no holder of this lock panics");
        let quiet = !handle.dirty.load(Ordering::SeqCst);
        if quiet {
            awake.remove(session);
        }
        quiet
    }

    pub(crate) fn remove(&self, session: &SessionId) {
        self.awake.lock().expect("no holder of this lock panics").remove(session);
    }

    pub(crate) fn get(&self, session: &SessionId) -> Option<Arc<Handle>> {
        self.awake.lock().expect("no holder of this lock panics").get(session).cloned()
    }

    pub(crate) fn counts(&self) -> (usize, usize) {
        let awake = self.awake.lock().expect("no holder of this lock panics");
        (awake.len(), awake.values().filter(|handle| handle.busy.load(Ordering::SeqCst)).count())
    }
}

impl Handle {
    pub(crate) async fn hinted(&self) {
        self.notify.notified().await;
    }

    /// Whether there is something to read; reading clears it.
    pub(crate) fn take_dirty(&self) -> bool {
        self.dirty.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn mark_dirty(&self) {
        self.dirty.store(true, Ordering::SeqCst);
    }

    pub(crate) fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::SeqCst);
    }

    pub(crate) fn set_trouble(&self, trouble: Option<proto::Error>) {
        *self.trouble.lock().expect("no holder of this lock panics") = trouble;
    }

    pub(crate) fn trouble(&self) -> Option<proto::Error> {
        self.trouble.lock().expect("no holder of this lock panics").clone()
    }
}
