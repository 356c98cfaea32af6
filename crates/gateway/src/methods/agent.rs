//! `agent` and `agent.wait`: a request, and its end.

use crate::{Gateway, now, reference};
use proto::ids;
use proto::letter::{InputPart, Switch};
use proto::methods::{Accepted, Agent, AgentInput, AgentWait, FileInput, Handle, WaitInput, WaitStatus, Waited};
use proto::{Code, Entry, Error, RunId};
use session::{Bounds, NewPrompt, NewSession, Posted, Target};
use std::time::Duration;
use store::Span;

impl Handle<Agent> for Gateway {
    async fn handle(&self, input: AgentInput) -> Result<Accepted, Error> {
        let text = text(input.message)?;
        let run = run_id(input.idempotency_key)?;
        let model = proto::model::choice(input.model, input.thinking.as_deref());
        let target = match (&input.session_id, &input.session_key) {
            (Some(_), Some(_)) => return Err(Error::invalid("give `sessionId` or `sessionKey`, not both")),
            (Some(id), None) => Target::Found(Box::new(self.named(id).await?)),
            (None, Some(key)) => self.target(key, input.cwd.as_deref()).await?,
            (None, None) => Target::New(NewSession {
                agent: input.agent_id.clone(),
                model: model.clone(),
                cwd: reference::directory(input.cwd.as_deref().unwrap_or(&self.home))?,
                label: input.label.as_deref().map(proto::key::label).transpose()?,
                title: None,
                permission: Vec::new(),
                mode: input.permission_mode.clone(),
                once: None,
                ..NewSession::default()
            }),
        };
        self.set_mode(&target, input.permission_mode, run.as_ref()).await?;
        let prompt = NewPrompt { target, text, agent: input.agent_id, model: model.clone(), run, steer: false };
        let bounds = bounds(input.max_turns, input.max_budget_usd)?;
        let posted = self.runtime.prompt_within(prompt, files(input.files)?, bounds).await?;
        Ok(accepted(self, posted, model))
    }
}

fn bounds(steps: Option<u32>, cost_usd: Option<f64>) -> Result<Bounds, Error> {
    if steps == Some(0) {
        return Err(Error::invalid("`maxTurns` is 0").hint("give a run at least 1 turn"));
    }
    if cost_usd.is_some_and(|cost| !(cost.is_finite() && cost > 0.0)) {
        return Err(Error::invalid("`maxBudgetUsd` is not an amount").hint("give more than 0 US dollars"));
    }
    Ok(Bounds { steps, cost_usd })
}

/// More than a model looks at in one prompt.
const MOST_FILES: usize = 20;

/// In base64. An entry with them still fits into one event.
const MOST_BYTES: usize = 7 * 1024 * 1024;

/// Files as a prompt holds them, once they are known to be what they say.
fn files(files: Vec<FileInput>) -> Result<Vec<InputPart>, Error> {
    let bytes: usize = files.iter().map(|file| file.data.len()).sum();
    if files.len() > MOST_FILES || bytes > MOST_BYTES {
        return Err(Error::invalid("the files are too many or too large: at most 20, and 5 MiB in all")
            .hint("send fewer, or name their paths in the prompt"));
    }
    let plain = |text: &str| !text.is_empty() && text.len() <= 255 && !text.contains(char::is_control);
    let is_mime = |mime: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "/.+-".contains(c);
        plain(mime) && mime.split('/').count() == 2 && mime.chars().all(fits)
    };
    let is_base64 = |data: &str| {
        let body = data.trim_end_matches('=');
        data.len().is_multiple_of(4)
            && data.len() - body.len() < 3
            && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
    };
    let check =
        |file: FileInput| match (plain(&file.name), is_mime(&file.mime), is_base64(&file.data)) {
            (true, true, true) => Ok(InputPart::File { name: file.name, mime: file.mime, data: file.data }),
            (true, true, false) => Err(Error::invalid(format!("`data` of the file `{}` is not base64", file.name))),
            (true, false, _) => Err(Error::invalid(format!("`mime` of the file `{}` is not one", file.name))
                .hint("write it as `image/png`")),
            (false, ..) => Err(Error::invalid("a file has no usable name").hint("use up to 255 letters")),
        };
    files.into_iter().map(check).collect()
}

impl Handle<AgentWait> for Gateway {
    async fn handle(&self, input: WaitInput) -> Result<Waited, Error> {
        let known = self.store().run(&input.run_id).await?.ok_or_else(|| no_run(&input.run_id))?;
        let timeout = input.timeout_ms.map(Duration::from_millis);
        let waited = tokio::select! {
            waited = self.runtime.wait(&input.run_id, input.tree, timeout) => waited?,
            () = self.stop.cancelled() => {
                return Err(Error::unavailable("the gateway is stopping", 100).hint("ask the next one"));
            }
        };
        let session = self.store().session(&known.session).await?.ok_or_else(|| no_run(&known.id))?;
        let run = waited.unwrap_or(known);
        let status = run.outcome.map_or(WaitStatus::Timeout, WaitStatus::from);
        Ok(Waited {
            run_id: input.run_id,
            status,
            session_id: session.id.clone(),
            session_key: session.key,
            text: self.answer_of(&run).await?,
            usage: run.usage,
            error: failure(&run, status),
            started_at: run.started,
            ended_at: run.ended,
        })
    }
}

impl Gateway {
    /// Puts a session that is there into a permission mode before it is asked. A new one is made in it.
    async fn set_mode(&self, target: &Target, mode: Option<String>, run: Option<&RunId>) -> Result<(), Error> {
        if mode.is_none() {
            return Ok(());
        }
        let session = match target {
            Target::New(_) => return Ok(()),
            Target::Found(row) => &row.id,
            Target::Session(id) => id,
            Target::Main { .. } => {
                return Err(Error::invalid("this session is not there yet, so it has no permission mode")
                    .hint("ask it something first, or set `permission_mode`"));
            }
        };
        self.runtime.patch(session, Switch { mode, ..Switch::default() }, run.map(RunId::as_str)).await.map(drop)
    }

    /// The text of a run's final answer.
    async fn answer_of(&self, run: &store::Run) -> Result<Option<String>, Error> {
        let Some(seq) = run.answer else { return Ok(None) };
        let span = Span::After { seq: seq.saturating_sub(1), limit: 1 };
        let entries = self.store().entries(&run.session, span).await?;
        Ok(entries.into_iter().find_map(|stored| match stored.entry {
            Entry::Reply(reply) if stored.seq == seq => Some(reply.text()),
            _ => None,
        }))
    }
}

fn failure(run: &store::Run, status: WaitStatus) -> Option<Error> {
    let code = match status {
        WaitStatus::Ok | WaitStatus::Timeout => return None,
        WaitStatus::Error => run.code.unwrap_or(Code::Internal),
        WaitStatus::Cancelled => run.code.unwrap_or(Code::Cancelled),
    };
    let message = run.message.clone().unwrap_or_else(|| match status {
        WaitStatus::Cancelled => "the run was cancelled".into(),
        _ => "the run failed".into(),
    });
    Some(Error { hint: run.hint.clone(), ..Error::new(code, message) })
}

fn no_run(run: &RunId) -> Error {
    Error::not_found(format!("there is no run `{run}`")).hint("use the `runId` that `agent` answered with")
}

/// A prompt that says something.
pub(super) fn text(message: String) -> Result<String, Error> {
    if !proto::letter::says_something(&message) {
        return Err(Error::invalid("the message is empty").hint("say what is to be done"));
    }
    Ok(message)
}

pub(super) fn run_id(key: Option<String>) -> Result<Option<RunId>, Error> {
    let run = |key: String| RunId::parse(&key).map_err(|error| Error::invalid(format!("`idempotencyKey`: {error}")));
    chosen(key)?.map(run).transpose()
}

/// An idempotency key as P1 wants it.
pub(super) fn chosen(key: Option<String>) -> Result<Option<String>, Error> {
    match key {
        Some(key) if !ids::is_chosen(&key) => Err(Error::invalid("`idempotencyKey` does not fit")
            .hint("use 1 to 128 of letters, digits, `_`, `.`, `:` and `-`")),
        key => Ok(key),
    }
}

pub(super) fn accepted(gateway: &Gateway, posted: Posted, model: Option<String>) -> Accepted {
    Accepted {
        run_id: posted.run,
        model: proto::model::chosen(model.as_deref(), || gateway.runtime.model_of(&posted.session)),
        session_id: posted.session.id,
        session_key: posted.session.key,
        agent: posted.session.agent,
        accepted_at: now(),
        cursor: posted.cursor.to_string(),
    }
}
