//! `sessions.spawn` and `sessions.send`: what agents do with their tools, without a model's turn (S6, S8).

use super::agent::{run_id, text};
use crate::{Gateway, reference};
use proto::methods::{
    Delivery, DeliveryState, Handle, SendInput, SendOutput, SendRole, SessionsSend, SessionsSpawn, SpawnInput,
    SpawnMode, SpawnOutput,
};
use proto::{Code, Error, Outcome};
use session::{NewPrompt, NewSession, Target};
use std::time::Duration;
use tools::Spawn;

/// How long an answer is waited for, unless said otherwise.
const WAIT_SECONDS: u64 = 30;
const MOST_SECONDS: u64 = 31_536_000;

impl Handle<SessionsSpawn> for Gateway {
    async fn handle(&self, input: SpawnInput) -> Result<SpawnOutput, Error> {
        let task = text(input.task.clone())?;
        let mode = input.mode.unwrap_or_default();
        let (run, session_id, key) = match &input.parent {
            Some(parent) => self.child(parent, &input, task, mode).await?,
            None => self.root(&input, task).await?,
        };
        let note = "it works on its own now; `agent.wait` with this run id waits for the answer";
        Ok(SpawnOutput {
            status: "ok".into(),
            run_id: run,
            child_session_key: key,
            session_id,
            label: input.label,
            mode,
            note: Some(note.into()),
        })
    }
}

type Started = (proto::RunId, proto::SessionId, String);

impl Gateway {
    async fn child(&self, parent: &str, input: &SpawnInput, task: String, mode: SpawnMode) -> Result<Started, Error> {
        let parent = self.named(parent).await?;
        let request = Spawn {
            agent: input.agent_id.clone(),
            prompt: task,
            label: input.label.clone(),
            model: proto::model::choice(input.model.clone(), input.thinking.as_deref()),
            cwd: input.cwd.clone(),
            timeout: input.run_timeout_seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs),
            stays: mode == SpawnMode::Session,
            ..Spawn::default()
        };
        let spawned = self.runtime.spawn(&parent.id, run_id(input.idempotency_key.clone())?, request).await?;
        let row = self.store().session(&spawned.session).await?;
        let key = row.map_or(spawned.key, |row| row.key);
        Ok((spawned.run, spawned.session, key))
    }

    async fn root(&self, input: &SpawnInput, task: String) -> Result<Started, Error> {
        let new = NewSession {
            agent: input.agent_id.clone(),
            model: proto::model::choice(input.model.clone(), input.thinking.as_deref()),
            cwd: reference::directory(input.cwd.as_deref().unwrap_or(&self.home))?,
            label: input.label.clone(),
            ..NewSession::default()
        };
        let prompt = NewPrompt {
            target: Target::New(new),
            text: task,
            agent: input.agent_id.clone(),
            model: proto::model::choice(input.model.clone(), input.thinking.as_deref()),
            run: run_id(input.idempotency_key.clone())?,
            steer: false,
        };
        let posted = self.runtime.prompt(prompt).await?;
        Ok((posted.run, posted.session.id, posted.session.key))
    }
}

impl Handle<SessionsSend> for Gateway {
    async fn handle(&self, input: SendInput) -> Result<SendOutput, Error> {
        let message = text(input.message)?;
        let named = match (&input.session_key, &input.label) {
            (Some(_), Some(_)) => return Err(Error::invalid("Provide either sessionKey or label (not both).")),
            (None, None) => return Err(Error::invalid("Either sessionKey or label is required")),
            (Some(key), None) => self.target(key, None).await?,
            (None, Some(label)) => Target::Found(Box::new(self.labelled(label, input.agent_id.as_deref()).await?)),
        };
        let run = run_id(input.idempotency_key)?;
        let wait = Duration::from_secs(input.timeout_seconds.unwrap_or(WAIT_SECONDS).min(MOST_SECONDS));
        let prompt = NewPrompt { target: named, text: message, agent: None, model: None, run, steer: false };
        let posted = match (input.role, input.delivery) {
            (SendRole::Assistant, _) => self.runtime.say_for(prompt).await?,
            (SendRole::User, Delivery::Announce) => self.runtime.prompt_announced(prompt, wait).await?,
            (SendRole::User, Delivery::Reply | Delivery::None) => self.runtime.prompt(prompt).await?,
        };
        let mode = input.delivery;
        let key = posted.session.key.clone();
        let answer = |status: &str, delivery: &str| SendOutput {
            run_id: posted.run.clone(),
            status: status.into(),
            session_key: key.clone(),
            reply: None,
            error: None,
            delivery: DeliveryState { status: if mode == Delivery::None { "skipped" } else { delivery }.into(), mode },
        };
        if wait.is_zero() {
            return Ok(answer("sent", "pending"));
        }
        let waited = tokio::select! {
            waited = self.runtime.wait(&posted.run, false, Some(wait)) => waited?,
            () = self.stop.cancelled() => None,
        };
        let Some(run) = waited else { return Ok(answer("timeout", "pending")) };
        if run.outcome == Some(Outcome::Ok) {
            return Ok(SendOutput { reply: Some(self.runtime.answer_of(&run).await?), ..answer("ok", "done") });
        }
        let why = run.message.clone().unwrap_or_else(|| "the run did not come to its end".into());
        let error = Error { hint: run.hint, ..Error::new(run.code.unwrap_or(Code::Internal), why) };
        Ok(SendOutput { error: Some(error), ..answer("error", "done") })
    }
}
