//! Events: one ordered stream for each of those who watch.
//!
//! Kept entries come from the store, after their commit and in cursor order; deltas come from actors, before the commit
//! of the reply they belong to. A watcher has one queue for both, so it sees no entry before the deltas that led to it.
//! It is woken for what it watches and for nothing else: what happens in a tree costs those who watch that tree. A
//! watcher that falls behind is told so, its queue is given back, and it reads the store again from its cursor.

use proto::{Event, SessionId};
use serde_json::value::RawValue;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// How many events a slow watcher may be behind before it has to read the store again: a few commits of a wide turn.
const MOST_EVENTS: usize = 1024;

/// How many bytes of them. Watchers of the same thing share these.
const MOST_BYTES: usize = 1024 * 1024;

/// Where events are published. Cloning shares it.
#[derive(Clone, Default)]
pub struct Hub {
    watchers: Arc<Mutex<Watchers>>,
}

type Watchers = HashMap<What, Vec<Arc<Queue>>>;

/// What somebody watches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum What {
    Everything,
    /// A root session and all below it.
    Tree(SessionId),
    /// One session alone.
    Session(SessionId),
}

/// An event, written once for all who watch.
#[derive(Debug)]
pub struct Seen {
    /// Only kept ones have a cursor.
    pub cursor: Option<u64>,
    pub json: String,
}

impl Hub {
    /// What a store calls after each commit.
    pub fn on_kept(&self) -> store::OnKept {
        let hub = self.clone();
        Arc::new(move |kept| {
            for entry in kept {
                hub.tell(&entry.root, &entry.session, Some(entry.cursor), || json(entry));
            }
        })
    }

    /// Publishes something that is not kept.
    pub fn publish(&self, root: &SessionId, event: &Event) {
        if let Some(session) = event.session() {
            self.tell(root, session, None, || serde_json::to_string(event).expect("an event is JSON"));
        }
    }

    /// Starts watching: from here on nothing is missed without being told.
    pub fn watch(&self, what: What) -> Watching {
        let queue = Arc::new(Queue::default());
        self.watchers().entry(what.clone()).or_default().push(queue.clone());
        Watching { hub: self.clone(), what, queue }
    }

    /// Nobody watches: nothing is written. The list is let go of before that, so that nobody waits for it; whoever comes
    /// meanwhile finds what is kept in the store.
    fn tell(&self, root: &SessionId, session: &SessionId, cursor: Option<u64>, write: impl FnOnce() -> String) {
        let mut queues = Vec::new();
        {
            let watchers = self.watchers();
            if watchers.is_empty() {
                return;
            }
            for what in [What::Everything, What::Tree(root.clone()), What::Session(session.clone())] {
                queues.extend(watchers.get(&what).into_iter().flatten().cloned());
            }
        }
        if queues.is_empty() {
            return;
        }
        let seen = Arc::new(Seen { cursor, json: write() });
        queues.iter().for_each(|queue| queue.push(&seen));
    }

    fn watchers(&self) -> MutexGuard<'_, Watchers> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One watcher's place; dropping it leaves.
pub struct Watching {
    hub: Hub,
    what: What,
    queue: Arc<Queue>,
}

/// The watcher was too slow: what it has not taken is gone, and what is kept of it is in the store.
#[derive(Debug, PartialEq, Eq)]
pub struct Behind;

impl Watching {
    /// The next event, when there is one. Safe to drop and call again.
    pub async fn next(&self) -> Result<Arc<Seen>, Behind> {
        loop {
            match self.take() {
                Ok(None) => self.queue.more.notified().await,
                Ok(Some(seen)) => return Ok(seen),
                Err(behind) => return Err(behind),
            }
        }
    }

    /// The next event, if there is one already.
    pub fn take(&self) -> Result<Option<Arc<Seen>>, Behind> {
        let mut waiting = self.queue.waiting();
        if std::mem::take(&mut waiting.behind) {
            return Err(Behind);
        }
        let seen = waiting.events.pop_front();
        waiting.bytes -= seen.as_ref().map_or(0, |seen| seen.json.len());
        if waiting.events.is_empty() {
            // Most watchers are idle most of the time.
            waiting.events = VecDeque::new();
        }
        Ok(seen)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut watchers = self.hub.watchers();
        let Some(queues) = watchers.get_mut(&self.what) else { return };
        queues.retain(|queue| !Arc::ptr_eq(queue, &self.queue));
        if queues.is_empty() {
            watchers.remove(&self.what);
        }
    }
}

/// What waits for one watcher.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    more: Notify,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<Arc<Seen>>,
    bytes: usize,
    /// There were more than it may hold. Until the watcher knows, more would be no use.
    behind: bool,
}

impl Queue {
    fn push(&self, seen: &Arc<Seen>) {
        let mut waiting = self.waiting();
        let full = waiting.events.len() >= MOST_EVENTS || waiting.bytes + seen.json.len() > MOST_BYTES;
        if waiting.behind {
            return;
        }
        if full && !waiting.events.is_empty() {
            *waiting = Waiting { behind: true, ..Waiting::default() };
        } else {
            waiting.bytes += seen.json.len();
            waiting.events.push_back(seen.clone());
        }
        drop(waiting);
        self.more.notify_one();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A kept entry as an event: the stored bytes, not a second writing of them.
pub fn json(kept: &store::Kept) -> String {
    let entry = RawValue::from_string(kept.body.to_string()).expect("a stored entry is JSON");
    let event = Event::Entry { session_id: kept.session.clone(), seq: kept.seq, at: kept.at, entry };
    serde_json::to_string(&event).expect("an event is JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn delta(session: &SessionId, text: &str) -> Event {
        Event::Delta { session_id: session.clone(), text: text.into() }
    }

    /// All that waits, as the texts of deltas.
    fn texts(watching: &Watching) -> Vec<String> {
        let text = |seen: Arc<Seen>| {
            let value: serde_json::Value = serde_json::from_str(&seen.json).unwrap();
            value["text"].as_str().unwrap().to_owned()
        };
        std::iter::from_fn(|| watching.take().unwrap()).map(text).collect()
    }

    #[tokio::test]
    async fn a_watcher_is_woken_for_its_own_and_for_nothing_else() {
        let hub = Hub::default();
        let [root, child, other] = [(); 3].map(|()| SessionId::new());
        let all = hub.watch(What::Everything);
        let tree = hub.watch(What::Tree(root.clone()));
        let alone = hub.watch(What::Session(child.clone()));
        let mut sleeping = std::pin::pin!(alone.next());
        hub.publish(&other, &delta(&other, "elsewhere"));
        hub.publish(&root, &delta(&root, "above"));
        assert!(sleeping.as_mut().now_or_never().is_none());
        assert!(alone.queue.more.notified().now_or_never().is_none(), "it was not even woken");
        hub.publish(&root, &delta(&child, "own"));
        assert_eq!(texts(&all), ["elsewhere", "above", "own"]);
        assert_eq!(texts(&tree), ["above", "own"]);
        assert_eq!(texts(&alone), ["own"]);
    }

    #[tokio::test]
    async fn a_slow_watcher_is_told_once_and_holds_nothing() {
        let (hub, root) = (Hub::default(), SessionId::new());
        let (slow, quick) = (hub.watch(What::Tree(root.clone())), hub.watch(What::Tree(root.clone())));
        for n in 0..=MOST_EVENTS {
            hub.publish(&root, &delta(&root, &n.to_string()));
            assert_eq!(texts(&quick), [n.to_string()]);
        }
        assert!(slow.queue.waiting().events.is_empty());
        assert_eq!(slow.next().await.unwrap_err(), Behind);
        hub.publish(&root, &delta(&root, "after"));
        assert_eq!(texts(&slow), ["after"]);
        // Few, but large.
        let large = "x".repeat(MOST_BYTES / 2);
        (0..3).for_each(|_| hub.publish(&root, &delta(&root, &large)));
        assert_eq!(slow.next().await.unwrap_err(), Behind);
        // One alone always fits.
        hub.publish(&root, &delta(&root, &"x".repeat(2 * MOST_BYTES)));
        assert_eq!(texts(&slow).len(), 1);
    }

    #[test]
    fn whoever_leaves_is_forgotten() {
        let (hub, root) = (Hub::default(), SessionId::new());
        let (one, two) = (hub.watch(What::Tree(root.clone())), hub.watch(What::Tree(root)));
        drop(one);
        assert_eq!(hub.watchers().len(), 1);
        drop(two);
        assert!(hub.watchers().is_empty());
    }
}
