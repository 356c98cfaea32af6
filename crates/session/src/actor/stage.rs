//! What a call prints while it runs, shown to whoever watches. Seen, never kept.

use crate::runtime::Inner;
use proto::{CallId, Event, SessionId};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use store::Session;
use tools::process::{Glimpse, Live};

/// Between two looks: ten a second are enough for an eye, and few enough for a queue.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Stage {
    rt: Arc<Inner>,
    root: SessionId,
    session: SessionId,
    call: CallId,
    live: Live,
}

impl Stage {
    pub(super) fn new(rt: &Arc<Inner>, row: &Session, call: &CallId, live: &Live) -> Self {
        let (root, session) = (row.root.clone(), row.id.clone());
        Self { rt: rt.clone(), root, session, call: call.clone(), live: live.clone() }
    }

    /// Shows what comes, until it is dropped.
    pub(super) async fn show(&self) -> Infallible {
        loop {
            let glimpse = self.live.next().await;
            self.publish(glimpse);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The call is over: what was not shown yet is, before its result.
    pub(super) fn close(&self) {
        if let Some(glimpse) = self.live.rest() {
            self.publish(glimpse);
        }
    }

    fn publish(&self, Glimpse { text, dropped }: Glimpse) {
        let (session_id, call_id) = (self.session.clone(), self.call.clone());
        let text = self.rt.conceal(text);
        self.rt.hub.publish(&self.root, &Event::Output { session_id, call_id, text, dropped });
    }
}
