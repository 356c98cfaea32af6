//! `task`: hand a piece of work to a subagent and wait for its answer (A10).

use crate::{Access, Audience, Error, Output, Spawn, Spec, Tool, ToolCx, Waited};
use async_trait::async_trait;
use proto::entry::On;
use proto::{Outcome, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct Task;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The work in three to six words; it becomes the child's title.
    description: String,
    /// Everything the agent needs to know: it sees nothing of this conversation.
    prompt: String,
    /// Which agent does it.
    #[serde(alias = "subagentType", alias = "agent")]
    subagent_type: String,
    /// The session id of an earlier task of yours, to go on with that agent and what it knows.
    #[serde(default, alias = "sessionId")]
    session_id: Option<SessionId>,
    /// The slash command that led here, if one did.
    #[serde(default)]
    #[expect(dead_code, reason = "accepted for readers of the transcript; nothing acts on it")]
    command: Option<String>,
}

/// What a reader of the result can rely on.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Facts<'a> {
    session_id: &'a SessionId,
    model: &'a str,
    usage: &'a proto::Usage,
    summary: String,
}

#[async_trait]
impl Tool for Task {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("task", include_str!("prompt.md")).lasting().again().aliases(&["Task"]).waits()
    }

    fn describe(&self, audience: &Audience) -> Option<String> {
        let mut text = format!("{}\nAgents:\n", include_str!("prompt.md").trim_end());
        for agent in &audience.agents {
            text.push_str(&format!("- {}: {}\n", agent.name, agent.description));
        }
        Some(text)
    }

    fn access(&self, args: &Args, _: &ToolCx) -> Vec<Access> {
        crate::agent::accesses(&args.subagent_type)
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let title = format!("{} (@{} subagent)", args.description, args.subagent_type);
        let request = Spawn {
            agent: Some(args.subagent_type),
            prompt: args.prompt,
            title: Some(title),
            resume: args.session_id,
            waits: true,
            subagents_only: true,
            tool: "task",
            ..Spawn::default()
        };
        let child = cx.spawner.spawn(request).await.map_err(|error| Error::Tell(error.message))?;
        Ok(Output::waiting(On::Run { run: child.run, session: child.session }))
    }

    fn settle(&self, _: Args, waited: &Waited<'_>) -> Output {
        let finished = waited.finished;
        let said = match finished.outcome {
            Outcome::Ok => finished.text.clone(),
            Outcome::Error => format!("The agent failed: {}", finished.text),
            Outcome::Cancelled => format!("The agent was stopped before it finished. {}", finished.text),
        };
        let summary = said.lines().next().unwrap_or_default().chars().take(200).collect();
        let facts = Facts { session_id: &finished.session, model: &finished.model, usage: &finished.usage, summary };
        Output::text(format!("{}\n\nsession_id: {}", said.trim_end(), finished.session)).with(&facts)
    }
}
