//! What a session did, in a few sentences: said by the hidden agent `summary` when somebody asks. Nothing is kept but what
//! it cost.

use crate::runtime::control;
use crate::{Runtime, compaction, fork, hidden};
use proto::letter::{Sender, Switch};
use proto::methods::SummaryOutput;
use proto::{Body, Code, Error, LetterId, SessionId};
use store::Span;

/// The agent that says it.
const AGENT: &str = "summary";

/// Tokens of a conversation that are read for a few sentences about it.
const READ: u64 = 50_000;

impl Runtime {
    /// Asks the model of that agent, else `small_model`, else the session's own.
    pub async fn summary(&self, session: &SessionId) -> Result<SummaryOutput, Error> {
        let rt = &self.inner;
        let row = rt.session(session).await?;
        let here = rt.here(&row);
        let profile = here.agents.get(AGENT).map_err(|_| {
            Error::new(Code::Unavailable, "the agent `summary` is switched off").hint("allow it in `agent.summary`")
        })?;
        let small = here.loaded.config.small_model.clone();
        let name = profile.model_or(|| small.unwrap_or_else(|| rt.model_of(&row)));
        let (provider, model) = here.model(&name)?;
        // Older ones are summed up already.
        let since = Span::After { seq: row.base.saturating_sub(1), limit: usize::MAX };
        let entries = rt.store.entries(session, since).await?;
        let entries = fork::standing(&row, entries);
        let summed = entries.iter().filter_map(compaction::done).rfind(|done| done.keeps_from.is_some());
        let from = summed.and_then(|done| done.keeps_from).unwrap_or(0);
        let kept = &entries[entries.partition_point(|stored| stored.seq < from)..];
        if summed.is_none() && !compaction::says_something(kept) {
            return Err(Error::invalid("nothing was said in this session yet"));
        }
        let usable = if model.context == 0 { 0 } else { (model.context / 2).min(READ) };
        let before = summed.and_then(|done| done.summary.as_deref());
        let conversation = compaction::text(before, kept, compaction::most_bytes(usable));
        let text = format!("<conversation>\n{conversation}</conversation>\n\nSay what it did and how it ended.");
        let asked = hidden::ask(profile, provider.as_ref(), model, &text, None);
        let reply = tokio::select! {
            reply = asked => reply.map_err(|error| Error::new(Code::Provider, error.to_string()).hint(error.hint()))?,
            () = rt.stop_token().cancelled() => return Err(Error::new(Code::Unavailable, "the gateway is stopping")),
        };
        let spent = Switch { spent: Some(reply.usage), ..Switch::default() };
        let mut post = control(LetterId::new(), session, Body::Switch(spent));
        post.letter.from = Sender::Runtime;
        rt.post(vec![post]).await?;
        let text = rt.conceal(hidden::words(&reply.parts).trim().to_owned());
        Ok(SummaryOutput { session_id: session.clone(), model: name, text, usage: reply.usage })
    }
}
