//! `chat.*`: what a person says to a session, reads of it, and stops.

use super::agent::accepted;
use crate::Gateway;
use proto::message::History;
use proto::methods::{
    AbortInput, Aborted, Accepted, ChatAbort, ChatHistory, ChatInject, ChatInput, ChatSend, Handle, HistoryInput,
    InjectInput, Injected, Queue, StoppedRow,
};
use proto::{Error, RunId};
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
        self.stop_session(&input.reference, input.run_id).await
    }
}

impl Gateway {
    pub(super) async fn stop_session(&self, reference: &str, run: Option<RunId>) -> Result<Aborted, Error> {
        let session_id = self.named(reference).await?.id;
        let row =
            |row: store::Session| StoppedRow { session_id: row.id, name: row.name, label: row.label, agent: row.agent };
        let stopped: Vec<_> = self.runtime.abort(&session_id, run).await?.into_iter().map(row).collect();
        Ok(Aborted { session_id, aborted: !stopped.is_empty(), stopped })
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
