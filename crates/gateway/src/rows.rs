//! Sessions as lists show them (S4).

use crate::{Gateway, history, now};
use futures_util::{StreamExt, TryStreamExt, stream};
use proto::Error;
use proto::message::Message;
use proto::methods::{HistoryInput, SessionInfo};
use store::{Query, Session};

/// Children a row names; a session may have no more live ones by default.
const MAX_CHILDREN: usize = 100;

/// Histories read at once for one list (S4).
const AT_ONCE: usize = 4;

impl Gateway {
    pub(crate) async fn info(&self, session: Session) -> Result<SessionInfo, Error> {
        let children = Query { limit: MAX_CHILDREN, parent: Some(session.id.clone()), ..Query::default() };
        let children = self.store().list(&children).await?.sessions;
        Ok(SessionInfo {
            display_key: self.display_key(&session.key),
            channel: channel(&session.kind).into(),
            display_name: session.title.clone(),
            updated_at: session.activity,
            model: self.runtime.model_of(&session),
            context_tokens: session.context_tokens,
            total_tokens: session.usage.context(),
            estimated_cost_usd: session.usage.cost_usd,
            runtime_ms: runtime_ms(&session),
            child_sessions: children.into_iter().map(|child| child.key).collect(),
            messages: Vec::new(),
            key: session.key,
            kind: session.kind,
            label: session.label,
            session_id: session.id,
            parent_id: session.parent,
            owner: session.owner,
            agent: session.agent,
            title: session.title,
            cwd: session.cwd,
            status: session.status,
            run_id: session.run,
            started_at: session.started,
            ended_at: session.ended,
        })
    }

    pub(crate) async fn add_messages(&self, sessions: &mut [SessionInfo], limit: u32) -> Result<(), Error> {
        let ids: Vec<_> = sessions.iter().map(|session| session.session_id.to_string()).collect();
        let reads = ids.into_iter().map(|session_key| self.last_messages(session_key, limit));
        let messages: Vec<Vec<Message>> = stream::iter(reads).buffered(AT_ONCE).try_collect().await?;
        for (session, messages) in sessions.iter_mut().zip(messages) {
            session.messages = messages;
        }
        Ok(())
    }

    async fn last_messages(&self, session_key: String, limit: u32) -> Result<Vec<Message>, Error> {
        let session = self.named(&session_key).await?;
        let input = HistoryInput { session_key, limit: Some(limit), ..HistoryInput::default() };
        Ok(history::page(self.store(), &session, &input).await?.messages)
    }
}

/// No session has a channel of its own yet.
fn channel(kind: &str) -> &'static str {
    match kind {
        "cron" | "hook" | "node" => "internal",
        _ => "unknown",
    }
}

/// How long the last run took, or takes.
fn runtime_ms(session: &Session) -> Option<u64> {
    let until = if session.status.is_busy() { now() } else { session.ended? };
    u64::try_from(until - session.started?).ok()
}
