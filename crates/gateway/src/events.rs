//! Events for one watcher: what is kept since its cursor, then what happens, each kept entry exactly once.
//!
//! The watcher subscribes first and reads the store after that, to its end. Live entries up to the last one read are
//! then known already and dropped; everything later is in its queue. A watcher that falls behind is told so (`resync`) and reads the store again from its last entry, so nothing kept is missed and memory stays bounded.
//! Deltas are not kept: those of an entry that was read from the store are dropped with it.
//!
//! How events are written is left to the doors: [`crate::sse`] and [`crate::ws`].

use crate::Gateway;
use crate::caller::Caller;
use proto::{Error, SessionId};
use session::Seen;
use session::hub::{Behind, LARGE, Watching, What};
use session::shown::{Passed, Shown};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Entries read from the store at a time.
const CHUNK: usize = 256;

/// How long a silent stream may look dead.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The header that tells where a stream begins.
pub(crate) const CURSOR: &str = "convoke-cursor";

/// What a watcher asks for.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    /// Any session of the tree to watch.
    root: Option<String>,
    /// One session alone.
    session: Option<String>,
    /// The last cursor seen; from now on without it.
    pub(crate) after: Option<String>,
    /// `false`: end where the store ends now.
    follow: Option<bool>,
}

/// Something for a watcher.
pub(crate) enum Item {
    /// An event, with its cursor if it is kept.
    Event { cursor: Option<u64>, json: Json },
    /// Nothing happened for a while.
    Silence,
}

/// An event's text: what was written once for everybody, with or without secrets, or one watcher's own.
pub(crate) enum Json {
    Shared(Arc<Seen>),
    Masked(Arc<Seen>),
    Own(String),
}

impl AsRef<[u8]> for Json {
    fn as_ref(&self) -> &[u8] {
        self.as_str().as_bytes()
    }
}

impl Json {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Shared(seen) => &seen.json,
            // Masked before it is handed out; what is not has nothing to show.
            Self::Masked(seen) => seen.is_masked().unwrap_or("{}"),
            Self::Own(json) => json,
        }
    }
}

/// Starts watching. From here on nothing is missed.
pub(crate) async fn watch(gateway: Gateway, caller: &Caller, filter: Filter) -> Result<Watcher, Error> {
    let only = filter.session.as_deref().map(session_id).transpose()?;
    let root = tree_of(&gateway, &filter).await?;
    let what = match (&only, &root) {
        (Some(session), _) => What::Session(session.clone()),
        (None, Some(root)) => What::Tree(root.clone()),
        (None, None) => What::Everything,
    };
    let live = gateway.runtime.hub().watch(what);
    let newest = gateway.store().cursor().await?;
    let last = match &filter.after {
        // One from the future would pass over what happens until then.
        Some(cursor) => cursor.parse().ok().filter(|cursor| *cursor <= newest).ok_or_else(foreign_cursor)?,
        None => newest,
    };
    let follow = filter.follow.unwrap_or(true);
    let revoked = caller.revoked().clone();
    let shown = (!caller.is_admin()).then(|| gateway.runtime.shown());
    Ok(Watcher { gateway, revoked, root, only, last, follow, live, shown, replaying: true, ready: VecDeque::new() })
}

pub(crate) fn foreign_cursor() -> Error {
    Error::invalid("the cursor is not one of ours").hint("use the id of the last event, or no cursor at all")
}

fn session_id(text: &str) -> Result<SessionId, Error> {
    SessionId::parse(text).map_err(|error| Error::invalid(error.to_string()))
}

/// The tree to watch, or to look for the session in.
async fn tree_of(gateway: &Gateway, filter: &Filter) -> Result<Option<SessionId>, Error> {
    let mut tree = None;
    for id in [&filter.root, &filter.session].into_iter().flatten() {
        let session = gateway.store().session(&session_id(id)?).await?;
        let session = session.ok_or_else(|| Error::not_found(format!("there is no session `{id}`")))?;
        if tree.as_ref().is_some_and(|tree| *tree != session.root) {
            return Err(Error::invalid(format!("the session `{id}` is not in that tree"))
                .hint("give `root` or `session`, not both"));
        }
        tree = Some(session.root);
    }
    Ok(tree)
}

/// One watcher's place. It is asked for the next event when the one before has been taken, so that nothing piles up.
pub(crate) struct Watcher {
    gateway: Gateway,
    revoked: CancellationToken,
    root: Option<SessionId>,
    only: Option<SessionId>,
    /// The cursor of the last kept entry that was passed on or passed over.
    last: u64,
    follow: bool,
    live: Watching,
    /// For one that may not see secrets.
    shown: Option<Shown>,
    replaying: bool,
    ready: VecDeque<Item>,
}

impl Watcher {
    /// What is passed on next comes after this.
    pub(crate) fn cursor(&self) -> u64 {
        self.last
    }

    /// The next one; `None` ends the watching. Safe to drop and call again.
    pub(crate) async fn next(&mut self) -> Option<Item> {
        loop {
            if self.revoked.is_cancelled() {
                return None;
            }
            self.mask_next().await;
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            let more = if self.replaying { self.replay().await } else { self.listen().await };
            if !more {
                return None;
            }
        }
    }

    /// Takes secrets out of the next event, beside the other work where that takes long.
    async fn mask_next(&mut self) {
        let Some(shown) = &self.shown else { return };
        let Some(Item::Event { json: Json::Masked(seen), .. }) = self.ready.front() else { return };
        if seen.is_masked().is_some() {
            return;
        }
        if seen.json.len() < LARGE {
            shown.mask(seen);
            return;
        }
        let (shown, seen) = (self.gateway.runtime.shown(), seen.clone());
        if let Err(error) = tokio::task::spawn_blocking(move || {
            shown.mask(&seen);
        })
        .await
        {
            tracing::error!(%error, "an event could not be masked");
        }
    }

    async fn replay(&mut self) -> bool {
        match self.read_on().await {
            Ok(true) => true,
            Ok(false) if !self.follow => !self.ready.is_empty(),
            Ok(false) => {
                self.replaying = false;
                self.catch_up();
                true
            }
            Err(error) => {
                tracing::error!(%error, "a watcher cannot be served");
                false
            }
        }
    }

    /// Reads the next entries from the store; false at its end. A large one alone, and when there is room for it.
    async fn read_on(&mut self) -> Result<bool, store::Error> {
        let Some(next) = self.gateway.store().kept_next(self.root.as_ref(), self.last).await? else { return Ok(false) };
        if next.bytes < LARGE {
            for entry in self.gateway.store().kept_since(self.root.as_ref(), self.last, CHUNK).await? {
                if entry.body.len() >= LARGE {
                    break;
                }
                self.last = self.last.max(entry.cursor);
                if self.wants(&entry.session) {
                    let seen = self.gateway.runtime.hub().recall(&entry, None);
                    self.push(seen);
                }
            }
            return Ok(true);
        }
        if self.wants(&next.session) {
            let hub = self.gateway.runtime.hub().clone();
            let room = tokio::select! {
                room = hub.room(next.bytes) => room,
                // The watcher is ended by whoever asks it next.
                () = self.gateway.stop.cancelled() => return Ok(false),
                () = self.revoked.cancelled() => return Ok(true),
            };
            let seen = match hub.held(next.cursor) {
                Some(seen) => Some(seen),
                None => {
                    let kept = self.gateway.store().kept_since(self.root.as_ref(), next.cursor - 1, 1).await?;
                    kept.first().map(|kept| hub.recall(kept, Some(room)))
                }
            };
            seen.into_iter().for_each(|seen| self.push(seen));
        }
        self.last = next.cursor;
        Ok(true)
    }

    fn wants(&self, session: &SessionId) -> bool {
        self.only.as_ref().is_none_or(|only| only == session)
    }

    /// An event for this watcher, as it may see it.
    fn push(&mut self, seen: Arc<Seen>) {
        let Some(shown) = &mut self.shown else {
            return self.ready.push_back(Item::Event { cursor: seen.cursor, json: Json::Shared(seen) });
        };
        for passed in shown.pass(seen) {
            self.ready.push_back(match passed {
                Passed::Masked(seen) => Item::Event { cursor: seen.cursor, json: Json::Masked(seen) },
                Passed::Live(json) => Item::Event { cursor: None, json: Json::Own(json) },
            });
        }
    }

    /// Passes over what the store has told already.
    fn catch_up(&mut self) {
        let mut waiting = Vec::new();
        loop {
            match self.live.take() {
                Ok(Some(seen)) => waiting.push(seen),
                Ok(None) => break,
                // The entries of these are read from the store; what was not kept is told as missing.
                Err(Behind) => return self.fell_behind(),
            }
        }
        let told = waiting.iter().rposition(|seen| seen.cursor.is_some_and(|cursor| cursor <= self.last));
        for seen in waiting.drain(told.map_or(0, |told| told + 1)..) {
            self.pass_on(seen);
        }
    }

    async fn listen(&mut self) -> bool {
        tokio::select! {
            seen = self.live.next() => match seen {
                Ok(seen) => self.pass_on(seen),
                Err(Behind) => self.fell_behind(),
            },
            () = tokio::time::sleep(HEARTBEAT) => self.ready.push_back(Item::Silence),
            () = self.gateway.stop.cancelled() => return false,
            () = self.revoked.cancelled() => return false,
        }
        true
    }

    /// Tells the watcher that it was too slow, and from where it is told again.
    fn fell_behind(&mut self) {
        self.replaying = true;
        self.shown.iter_mut().for_each(Shown::missed);
        let json = format!(r#"{{"type":"resync","cursor":"{}"}}"#, self.last);
        self.ready.push_back(Item::Event { cursor: Some(self.last), json: Json::Own(json) });
    }

    fn pass_on(&mut self, seen: Arc<Seen>) {
        if let Some(cursor) = seen.cursor {
            if cursor <= self.last {
                return;
            }
            self.last = cursor;
        }
        self.push(seen);
    }
}
