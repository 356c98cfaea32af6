//! `subagents.*`: a session's children (S11).

use crate::Gateway;
use proto::methods::{
    Aborted, ChildInput, ChildrenInput, ChildrenWait, Done, Handle, ListOutput, SteerInput, SubagentsKill,
    SubagentsList, SubagentsSteer, SubagentsWait,
};
use proto::{Error, SessionId};
use session::{NewPrompt, Target};
use std::time::Duration;
use tokio::time::Instant;

/// The longest word to a child.
const MAX_WORDS: usize = 4_000;
/// How long children are waited for, unless said otherwise.
const WAIT: Duration = Duration::from_secs(60);

impl Handle<SubagentsList> for Gateway {
    async fn handle(&self, input: ChildrenInput) -> Result<ListOutput, Error> {
        let parent = self.named(&input.reference).await?.id;
        self.children(&parent).await
    }
}

impl Gateway {
    async fn children(&self, parent: &SessionId) -> Result<ListOutput, Error> {
        let sessions = self.runtime.directory().children(parent).await?;
        Ok(ListOutput { count: sessions.len(), sessions, next_cursor: None })
    }
}

impl Handle<SubagentsSteer> for Gateway {
    async fn handle(&self, input: SteerInput) -> Result<Done, Error> {
        let text = super::agent::text(input.message)?;
        if text.chars().count() > MAX_WORDS {
            return Err(Error::invalid(format!("the message has more than {MAX_WORDS} characters")));
        }
        let target = Target::Found(Box::new(self.named(&input.reference).await?));
        let prompt = NewPrompt { target, text, agent: None, model: None, run: None, steer: true };
        self.runtime.prompt(prompt).await?;
        Ok(Done { ok: true })
    }
}

impl Handle<SubagentsKill> for Gateway {
    async fn handle(&self, input: ChildInput) -> Result<Aborted, Error> {
        self.stop_session(&input.reference, None).await
    }
}

impl Handle<SubagentsWait> for Gateway {
    async fn handle(&self, input: ChildrenWait) -> Result<ListOutput, Error> {
        let parent = self.named(&input.reference).await?.id;
        let end =
            Instant::now() + input.timeout_ms.map_or(WAIT, Duration::from_millis).min(Duration::from_secs(86_400));
        let mut were_busy: Option<Vec<SessionId>> = None;
        loop {
            let children = self.children(&parent).await?;
            let busy: Vec<SessionId> = children
                .sessions
                .iter()
                .filter(|child| child.status.is_busy())
                .map(|child| child.session_id.clone())
                .collect();
            let were = were_busy.get_or_insert_with(|| busy.clone());
            let done = busy.is_empty() || (input.any && were.iter().any(|child| !busy.contains(child)));
            if done || Instant::now() >= end {
                return Ok(children);
            }
            tokio::select! {
                () = self.stop.cancelled() => return Err(Error::unavailable("the gateway is stopping", 100)),
                () = tokio::time::sleep(Duration::from_millis(100)) => {}
            }
        }
    }
}
