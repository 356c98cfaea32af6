//! Events: one ordered stream for those who watch.
//!
//! Kept entries come from the store, after their commit and in cursor order; deltas come from actors, before the commit
//! of the reply they belong to. One channel carries both, so nobody sees an entry before the deltas that led to it. A
//! watcher that falls behind is told so and reads the store again from its cursor.

use proto::{Event, SessionId};
use serde_json::value::RawValue;
use std::sync::Arc;
use tokio::sync::broadcast;

/// How many events a slow watcher may be behind before it has to read the store again.
const BACKLOG: usize = 4096;

/// Where events are published. Cloning shares it.
#[derive(Clone)]
pub struct Hub {
    sender: broadcast::Sender<Arc<Seen>>,
}

/// An event, written once for all who watch.
#[derive(Debug)]
pub struct Seen {
    pub root: SessionId,
    /// Only kept ones have a cursor.
    pub cursor: Option<u64>,
    pub json: String,
}

impl Default for Hub {
    fn default() -> Self {
        Self { sender: broadcast::channel(BACKLOG).0 }
    }
}

impl Hub {
    /// What a store calls after each commit.
    pub fn on_kept(&self) -> store::OnKept {
        let hub = self.clone();
        Arc::new(move |kept| {
            // Nobody watches: nothing is written.
            if hub.sender.receiver_count() > 0 {
                for entry in kept {
                    hub.send(entry.root.clone(), Some(entry.cursor), json(entry));
                }
            }
        })
    }

    /// Publishes something that is not kept.
    pub fn publish(&self, root: &SessionId, event: &Event) {
        if self.sender.receiver_count() > 0 {
            let json = serde_json::to_string(event).expect("an event is JSON");
            self.send(root.clone(), None, json);
        }
    }

    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Seen>> {
        self.sender.subscribe()
    }

    fn send(&self, root: SessionId, cursor: Option<u64>, json: String) {
        // An error means that the last watcher just left.
        let _ = self.sender.send(Arc::new(Seen { root, cursor, json }));
    }
}

/// A kept entry as an event: the stored bytes, not a second writing of them.
pub fn json(kept: &store::Kept) -> String {
    let entry = RawValue::from_string(kept.body.to_string()).expect("a stored entry is JSON");
    let event = Event::Entry { session_id: kept.session.clone(), seq: kept.seq, at: kept.at, entry };
    serde_json::to_string(&event).expect("an event is JSON")
}
