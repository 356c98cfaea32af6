//! Events for one watcher: what is kept since its cursor, then what happens, each kept entry exactly once.
//!
//! The watcher subscribes first and reads the store after that, to its end. Live entries up to the last one read are
//! then known already and dropped; everything later is in the channel. A watcher that falls behind the channel reads
//! the store again from its last entry, so nothing kept is missed and memory stays bounded. Deltas are not kept: those
//! of an entry that was read from the store are dropped with it.

use crate::Gateway;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{Stream, stream};
use proto::{Error, SessionId};
use session::{Seen, hub};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

/// Entries read from the store at a time.
const CHUNK: usize = 256;

/// How long a silent stream may look dead.
const HEARTBEAT: Duration = Duration::from_secs(15);

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

pub(crate) async fn watch(
    gateway: Gateway,
    filter: Filter,
) -> Result<impl Stream<Item = Result<Bytes, Infallible>> + Send + use<>, Error> {
    let live = gateway.runtime.hub().subscribe();
    let named = filter.root.as_deref().or(filter.session.as_deref());
    let root = match named {
        Some(id) => Some(root_of(&gateway, id).await?),
        None => None,
    };
    let only = filter.session.as_deref().map(session_id).transpose()?;
    let last = match &filter.after {
        Some(cursor) => cursor.parse().map_err(|_| foreign_cursor())?,
        None => gateway.store().cursor().await?,
    };
    let follow = filter.follow.unwrap_or(true);
    let watcher = Watcher { gateway, root, only, last, follow, live, replaying: true, ready: VecDeque::new() };
    Ok(stream::unfold(watcher, async |mut watcher| Some((Ok(watcher.next().await?), watcher))))
}

fn foreign_cursor() -> Error {
    Error::invalid("the cursor is not one of ours").hint("use the id of the last event, or no cursor at all")
}

fn session_id(text: &str) -> Result<SessionId, Error> {
    SessionId::parse(text).map_err(|error| Error::invalid(error.to_string()))
}

async fn root_of(gateway: &Gateway, id: &str) -> Result<SessionId, Error> {
    let session = gateway.store().session(&session_id(id)?).await?;
    session.map(|session| session.root).ok_or_else(|| Error::not_found(format!("there is no session `{id}`")))
}

struct Watcher {
    gateway: Gateway,
    root: Option<SessionId>,
    only: Option<SessionId>,
    /// The cursor of the last kept entry that was passed on or passed over.
    last: u64,
    follow: bool,
    live: Receiver<Arc<Seen>>,
    replaying: bool,
    ready: VecDeque<Bytes>,
}

impl Watcher {
    /// The next bytes for the watcher; `None` ends its stream.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            let more = if self.replaying { self.replay().await } else { self.listen().await };
            if !more {
                return None;
            }
        }
    }

    async fn replay(&mut self) -> bool {
        let kept = match self.gateway.store().kept_since(self.root.as_ref(), self.last, CHUNK).await {
            Ok(kept) => kept,
            Err(error) => {
                tracing::error!(%error, "a watcher cannot be served");
                return false;
            }
        };
        for entry in &kept {
            self.last = self.last.max(entry.cursor);
            if self.only.as_ref().is_none_or(|only| *only == entry.session) {
                self.ready.push_back(frame(Some(entry.cursor), &hub::json(entry)));
            }
        }
        if kept.len() == CHUNK {
            return true;
        }
        if !self.follow {
            return !self.ready.is_empty();
        }
        self.replaying = false;
        self.catch_up();
        true
    }

    /// Passes over what the store has told already.
    fn catch_up(&mut self) {
        let mut waiting = Vec::new();
        loop {
            match self.live.try_recv() {
                Ok(seen) => waiting.push(seen),
                Err(TryRecvError::Lagged(_)) => {
                    self.replaying = true;
                    return;
                }
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        let told = waiting.iter().rposition(|seen| seen.cursor.is_some_and(|cursor| cursor <= self.last));
        for seen in &waiting[told.map_or(0, |told| told + 1)..] {
            self.pass_on(seen);
        }
    }

    async fn listen(&mut self) -> bool {
        tokio::select! {
            seen = self.live.recv() => match seen {
                Ok(seen) => self.pass_on(&seen),
                Err(RecvError::Lagged(_)) => self.replaying = true,
                Err(RecvError::Closed) => return false,
            },
            () = tokio::time::sleep(HEARTBEAT) => self.ready.push_back(Bytes::from_static(b":\n\n")),
            () = self.gateway.stop.cancelled() => return false,
        }
        true
    }

    fn pass_on(&mut self, seen: &Seen) {
        if self.root.as_ref().is_some_and(|root| *root != seen.root) {
            return;
        }
        if let Some(cursor) = seen.cursor {
            if cursor <= self.last {
                return;
            }
            self.last = cursor;
        }
        if self.only.as_ref().is_none_or(|only| is_of(seen, only)) {
            self.ready.push_back(frame(seen.cursor, &seen.json));
        }
    }
}

fn is_of(seen: &Seen, session: &SessionId) -> bool {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Of {
        session_id: Option<SessionId>,
    }
    serde_json::from_str::<Of>(&seen.json).is_ok_and(|of| of.session_id.as_ref() == Some(session))
}

/// One event on the wire. A stored call may hold line breaks between its tokens, so there may be several data lines.
fn frame(cursor: Option<u64>, json: &str) -> Bytes {
    let mut out = BytesMut::with_capacity(json.len() + 40);
    if let Some(cursor) = cursor {
        out.put_slice(format!("id: {cursor}\n").as_bytes());
    }
    for line in json.split(['\n', '\r']) {
        out.put_slice(b"data: ");
        out.put_slice(line.as_bytes());
        out.put_u8(b'\n');
    }
    out.put_u8(b'\n');
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_between_tokens_survive_the_wire() {
        let mut reader = proto::sse::Reader::default();
        let events = reader.push(&frame(Some(7), "{\"a\":\n1,\r\n\"b\":2}")).unwrap();
        assert_eq!(events[0].id.as_deref(), Some("7"));
        let value: serde_json::Value = serde_json::from_str(&events[0].data).unwrap();
        assert_eq!(value, serde_json::json!({"a": 1, "b": 2}));
        assert_eq!(&frame(None, "{}")[..], b"data: {}\n\n");
    }
}
