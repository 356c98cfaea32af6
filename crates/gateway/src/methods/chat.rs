//! `chat.*`: what a person says to a session, reads of it, and stops.

use super::agent::accepted;
use crate::Gateway;
use proto::Error;
use proto::message::History;
use proto::methods::{
    AbortInput, Aborted, Accepted, ChatAbort, ChatHistory, ChatInject, ChatInput, ChatSend, Handle, HistoryInput,
    InjectInput, Injected, Queue,
};
use session::NewPrompt;

impl Handle<ChatSend> for Gateway {
    async fn handle(&self, input: ChatInput) -> Result<Accepted, Error> {
        let model = proto::model::choice(input.model, input.thinking.as_deref());
        let prompt = NewPrompt {
            target: self.target(&input.reference, None).await?,
            text: super::agent::text(input.message)?,
            agent: input.agent_id,
            model: model.clone(),
            run: super::agent::run_id(input.idempotency_key)?,
            steer: input.queue == Queue::Steer,
        };
        let posted = match input.queue {
            Queue::Steer | Queue::Followup => self.runtime.prompt(prompt).await?,
            Queue::Interrupt => self.runtime.interrupt(prompt).await?,
        };
        Ok(accepted(self, posted, model))
    }
}

impl Handle<ChatHistory> for Gateway {
    async fn handle(&self, input: HistoryInput) -> Result<History, Error> {
        self.runtime.directory().history(&input).await
    }
}

impl Handle<ChatAbort> for Gateway {
    async fn handle(&self, input: AbortInput) -> Result<Aborted, Error> {
        let session = self.named(&input.reference).await?.id;
        let aborted = self.runtime.abort(&session, input.run_id).await?;
        Ok(Aborted { session_id: session, aborted })
    }
}

impl Handle<ChatInject> for Gateway {
    async fn handle(&self, input: InjectInput) -> Result<Injected, Error> {
        let session = self.named(&input.reference).await?.id;
        let run = super::agent::run_id(input.idempotency_key)?;
        let run_id = self.runtime.inject(&session, super::agent::text(input.message)?, run).await?;
        Ok(Injected { session_id: session, run_id })
    }
}
