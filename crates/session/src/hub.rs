//! Events: one ordered stream for each of those who watch.
//!
//! Kept entries come from the store, after their commit and in cursor order; deltas come from actors, before the commit
//! of the reply they belong to. A watcher has one queue for both, so it sees no entry before the deltas that led to it.
//! It is woken for what it watches and for nothing else: what happens in a tree costs those who watch that tree. A
//! watcher that falls behind is told so, its queue is given back, and it reads the store again from its cursor.
//!
//! A large event is in memory once, however many watchers take their time over it, and all large ones together have a
//! limit: where there is no room for another, its watchers fall behind, and wait for room before they read it.

use proto::{Event, SessionId};
use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How many events a slow watcher may be behind before it has to read the store again: a few commits of a wide turn.
const MOST_EVENTS: usize = 1024;

/// How many bytes of them. Watchers of the same thing share these.
const MOST_BYTES: usize = 1024 * 1024;

/// From this size on an event counts as large.
pub const LARGE: usize = 64 * 1024;

/// What large events may take up together, in KiB: a few of the largest there are, 25 MiB.
const ROOM: u32 = 256 * 1024;

/// Where events are published. Cloning shares it.
#[derive(Clone, Default)]
pub struct Hub {
    watchers: Arc<Mutex<Watchers>>,
    large: Arc<Large>,
}

/// Large events that are in memory.
struct Large {
    room: Arc<Semaphore>,
    /// For what is copied to one peer. Apart: whoever waits for this holds an event, and is not waited for by one who
    /// holds this.
    copies: Arc<Semaphore>,
    /// By cursor; those that nobody holds any more are forgotten when the next one comes.
    held: Mutex<HashMap<u64, Weak<Seen>>>,
}

impl Default for Large {
    fn default() -> Self {
        let room = || Arc::new(Semaphore::new(ROOM as usize));
        Self { room: room(), copies: room(), held: Mutex::default() }
    }
}

/// Room for one large event, or for a copy of one. Given back when it is dropped.
#[derive(Debug)]
pub struct Room(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

/// Twice its size: it may be there with and without secrets.
fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes / 512).unwrap_or(u32::MAX).clamp(1, ROOM / 2)
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
    /// Without secrets, once somebody was shown that.
    masked: OnceLock<String>,
    _room: Option<Room>,
}

impl Seen {
    pub(crate) fn new(cursor: Option<u64>, json: String) -> Self {
        Self { cursor, json, masked: OnceLock::new(), _room: None }
    }

    /// Without secrets: written once for all who are shown that.
    pub(crate) fn masked(&self, mask: impl FnOnce(&str) -> String) -> &str {
        self.masked.get_or_init(|| mask(&self.json))
    }

    /// The same, if it was written.
    pub fn is_masked(&self) -> Option<&str> {
        self.masked.get().map(String::as_str)
    }
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
        let mut seen = Seen::new(cursor, write());
        if seen.json.len() >= LARGE {
            let Ok(permit) = self.large.room.clone().try_acquire_many_owned(kib(seen.json.len())) else {
                return queues.iter().for_each(|queue| queue.fall_behind());
            };
            seen._room = Some(Room(permit));
        }
        let seen = Arc::new(seen);
        self.hold(&seen);
        queues.iter().for_each(|queue| queue.push(&seen));
    }

    /// Waits until there is room for an event of so many bytes.
    pub async fn room(&self, bytes: usize) -> Room {
        let permit = self.large.room.clone().acquire_many_owned(kib(bytes)).await;
        Room(permit.expect("the semaphore is never closed"))
    }

    /// Waits until so many bytes may be held for one peer.
    pub async fn room_for_copy(&self, bytes: usize) -> Room {
        let permit = self.large.copies.clone().acquire_many_owned(kib(bytes)).await;
        Room(permit.expect("the semaphore is never closed"))
    }

    /// A large event that somebody holds, by its cursor.
    pub fn held(&self, cursor: u64) -> Option<Arc<Seen>> {
        self.large.held.lock().unwrap_or_else(PoisonError::into_inner).get(&cursor)?.upgrade()
    }

    /// A kept event that was read again. With room, others may hold the same.
    pub fn recall(&self, kept: &store::Kept, room: Option<Room>) -> Arc<Seen> {
        let seen = Arc::new(Seen { _room: room, ..Seen::new(Some(kept.cursor), json(kept)) });
        self.hold(&seen);
        seen
    }

    fn hold(&self, seen: &Arc<Seen>) {
        let Some(cursor) = seen.cursor.filter(|_| seen._room.is_some()) else { return };
        let mut held = self.large.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|_, seen| seen.strong_count() > 0);
        held.insert(cursor, Arc::downgrade(seen));
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

    fn fall_behind(&self) {
        *self.waiting() = Waiting { behind: true, ..Waiting::default() };
        self.more.notify_one();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A kept entry as an event: the stored bytes, copied once.
pub fn json(kept: &store::Kept) -> String {
    let store::Kept { session, seq, at, body, .. } = kept;
    let mut json = String::with_capacity(body.len() + session.as_str().len() + 96);
    write!(json, r#"{{"type":"entry","sessionId":"{session}","seq":{seq},"at":{at},"entry":{body}}}"#)
        .expect("a string takes everything");
    json
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
    fn a_kept_entry_is_written_as_its_event() {
        let body = r#"{"type":"notice","text":"x"}"#;
        let (session, root) = (SessionId::new(), SessionId::new());
        let kept = store::Kept { cursor: 7, session: session.clone(), root, seq: 3, at: 9, body: body.into() };
        let entry = serde_json::value::RawValue::from_string(body.into()).unwrap();
        let event = Event::Entry { session_id: session, seq: 3, at: 9, entry };
        assert_eq!(json(&kept), serde_json::to_string(&event).unwrap());
    }

    #[tokio::test]
    async fn large_events_share_a_limit_however_many_hold_one() {
        let (hub, root) = (Hub::default(), SessionId::new());
        let large = "x".repeat(24 << 20);
        let kept = |cursor| store::Kept {
            cursor,
            session: root.clone(),
            root: root.clone(),
            seq: cursor,
            at: 1,
            body: format!("\"{large}\"").into(),
        };
        let watchers: Vec<Watching> = (0..100).map(|_| hub.watch(What::Tree(root.clone()))).collect();
        let told = hub.on_kept();
        // Each takes one and holds on to it; each a different one, as far as there is room.
        let mut held = Vec::new();
        for (n, watching) in watchers.iter().enumerate() {
            told(&[kept(n as u64 + 1)]);
            held.extend(watching.take().ok().flatten());
            watchers.iter().for_each(|other| while !matches!(other.take(), Ok(None)) {});
        }
        let bytes: usize = held.iter().map(|seen| seen.json.len()).sum();
        assert!(bytes <= ROOM as usize * 1024 / 2, "{bytes}");
        assert!(hub.held(1).is_some_and(|seen| Arc::ptr_eq(&seen, &held[0])));
        assert!(hub.room(24 << 20).now_or_never().is_none(), "it waits");
        drop(held);
        assert!(hub.held(1).is_none());
        assert!(hub.room(24 << 20).now_or_never().is_some());
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
