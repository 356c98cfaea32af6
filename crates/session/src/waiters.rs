//! Who waits for a run to end or a tree to fall quiet, in this process. A hint only: the store says what is true.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Waiters {
    waiting: Mutex<HashMap<String, Arc<Notify>>>,
}

/// A place in the list; leaving it empty removes it.
pub(crate) struct Waiter<'a> {
    list: &'a Waiters,
    name: String,
    notify: Arc<Notify>,
}

impl Waiters {
    /// Registers before looking, so that a change between the look and the wait is not missed.
    pub(crate) fn join(&self, name: &str) -> Waiter<'_> {
        let mut waiting = self.waiting.lock().expect("no holder of this lock panics");
        let notify = waiting.entry(name.to_owned()).or_default().clone();
        Waiter { list: self, name: name.to_owned(), notify }
    }

    /// Something about `name` changed.
    pub(crate) fn tell(&self, name: &str) {
        if let Some(notify) = self.waiting.lock().expect("no holder of this lock panics").get(name) {
            notify.notify_waiters();
        }
    }
}

impl Waiter<'_> {
    /// What to await for the next change. Pin and `enable` it before looking at the store.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.notify.notified()
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.list.waiting.lock().expect("no holder of this lock panics");
        // The map and this waiter hold it: nobody else is left.
        if Arc::strong_count(&self.notify) <= 2 {
            waiting.remove(&self.name);
        }
    }
}
