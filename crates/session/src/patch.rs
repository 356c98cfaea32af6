//! What a person changes about a session that is there: what it is called and what it runs as, and what it does first.
//! Both reach it as letters.

use crate::runtime::{NewPrompt, Posted, Runtime, Target, Then, control, mode, person, visible};
use proto::letter::{Abort, Prompt, Reason, Switch};
use proto::{Body, Error, LetterId, RunId, SessionId};
use std::time::Duration;
use store::{Post, Session};
use tokio::time::Instant;

/// How long a change is waited for. It is kept by then, and made when the session comes to it.
const WAIT: Duration = Duration::from_secs(5);

impl Runtime {
    /// Changes a session: from its next step on it runs as that. The same `once` again changes nothing.
    pub async fn patch(&self, session: &SessionId, change: Switch, once: Option<&str>) -> Result<Session, Error> {
        let row = self.inner.session(session).await?;
        let here = self.inner.here(&row);
        if let Some(agent) = &change.agent {
            visible(&here.agents, agent)?;
        }
        let model = change.model.map(|choice| {
            let choice = here.full(&choice);
            let own = proto::model::chosen(Some(&choice), || row.model.clone().unwrap_or_default());
            let runs_as = change.agent.as_deref().unwrap_or(&row.agent);
            // A variant alone is one of whatever model it runs on.
            let usual = || self.inner.model_for(&Session { model: None, ..row.clone() }, runs_as);
            here.model(&proto::model::chosen(Some(&own), usual)).map(|_| own)
        });
        let model = model.transpose()?;
        // As it is written in the row, however it was named.
        let mode = change.mode.as_deref().map(|name| mode(Some(name), &here)).transpose()?;
        let mode = mode.map(|mode| mode.as_str().to_owned());
        let agent = change.agent.map(|agent| agent.trim().to_ascii_lowercase());
        let change = Switch { agent, model, mode, ..change };
        let id = once.map_or_else(LetterId::new, |once| LetterId::derived("patch_", once));
        let receipts = self.post(vec![control(id, session, Body::Switch(change.clone()))]).await?;
        if receipts.iter().any(|receipt| receipt.duplicate) {
            return self.inner.session(session).await;
        }
        let end = Instant::now() + WAIT;
        loop {
            let row = self.inner.session(session).await?;
            if is_made(&change, &row) || Instant::now() >= end {
                return Ok(row);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Writes into a log what its model did not say. The same `run` again changes nothing.
    pub async fn inject(&self, session: &SessionId, text: String, run: Option<RunId>) -> Result<RunId, Error> {
        let run = run.unwrap_or_else(RunId::new);
        let letter = person(&run, session, Body::Prompt(Prompt { spoken: true, ..Prompt::text(text) }));
        self.post(vec![Post { letter, person: false, queue: Some(self.inner.limits.queue) }]).await?;
        Ok(run)
    }

    /// Posts a prompt that does not wait for the run under way: that one is stopped. Both are one transaction.
    pub async fn interrupt(&self, prompt: NewPrompt) -> Result<Posted, Error> {
        let session = match &prompt.target {
            Target::Session(session) => session,
            Target::Found(row) => &row.id,
            Target::New(_) | Target::Main { .. } => return self.prompt(prompt).await,
        };
        let Some(run) = self.inner.session(session).await?.run else { return self.prompt(prompt).await };
        let id = LetterId::derived("interrupt_", run.as_str());
        let abort = control(id, session, Body::Abort(Abort { reason: Reason::User, run: Some(run), wave: None }));
        self.prompt_after(vec![abort], NewPrompt { steer: false, ..prompt }, Vec::new(), Then::Nothing).await
    }
}

fn is_made(change: &Switch, row: &Session) -> bool {
    let same = |wanted: &Option<String>, is: Option<&str>| wanted.is_none() || wanted.as_deref() == is;
    same(&change.title, row.title.as_deref())
        && same(&change.agent, Some(&row.agent))
        && same(&change.model, row.model.as_deref())
        && same(&change.mode, Some(crate::grant::Grant::read(&row.policy).mode.as_str()))
}
