//! Watching a tree: kept entries from a cursor on, and what happens live.

use crate::address::Address;
use crate::http::{Open, broken};
use crate::{Error, pulse};
use http_body_util::BodyExt;
use proto::SessionId;
use proto::event::Seen;
use proto::sse::Reader;
use std::collections::VecDeque;

/// What to watch.
#[derive(Debug, Clone)]
pub struct Watch {
    /// Any session of the tree.
    pub root: SessionId,
    /// Only what came after this cursor.
    pub after: Option<String>,
    /// Stay and watch; else the stream ends with what is kept now.
    pub follow: bool,
}

impl Watch {
    pub(crate) fn path(&self) -> String {
        let after = self.after.as_ref().map(|cursor| format!("&after={cursor}")).unwrap_or_default();
        let follow = if self.follow { "" } else { "&follow=false" };
        format!("/events?root={}{after}{follow}", self.root)
    }
}

/// The longest event: the largest prompt a gateway takes (25 MiB), as JSON inside of JSON.
const LONGEST: usize = 64 << 20;

/// An open stream of events. Whoever wants to go on after it broke keeps the last cursor.
pub struct Events {
    address: Address,
    open: Open,
    reader: Reader,
    ready: VecDeque<proto::sse::Event>,
}

impl Events {
    pub(crate) fn new(address: Address, open: Open) -> Self {
        Self { address, open, reader: Reader::new(LONGEST), ready: VecDeque::new() }
    }

    /// Where the stream began: a client that resumes here misses nothing before its first event.
    pub fn cursor(&self) -> Option<String> {
        self.open.cursor.clone()
    }

    /// The next event, with its cursor if it is kept; `None` when the gateway closed the stream. Safe to drop and call
    /// again, also after [`Error::Silent`]: what was read stays here.
    pub async fn next(&mut self) -> Result<Option<(Option<String>, Seen)>, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                let seen = serde_json::from_str(&event.data).map_err(|error| Error::Garbage(error.to_string()))?;
                return Ok(Some((event.id, seen)));
            }
            let frame = async { self.open.body.frame().await.transpose().map_err(|error| broken(&error)) };
            let Some(frame) = pulse::watched(&self.address, frame).await? else { return Ok(None) };
            let Ok(bytes) = frame.into_data() else { continue };
            self.ready.extend(self.reader.push(&bytes).map_err(|error| Error::Garbage(error.to_string()))?);
        }
    }
}
