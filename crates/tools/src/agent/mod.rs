//! `agent`: start another agent, fresh or as a fork of the caller, in the background unless told otherwise (C1).

use crate::{Access, Audience, Error, Output, Spawn, Spec, Tool, ToolCx, Waited, answer};
use async_trait::async_trait;
use proto::Outcome;
use proto::entry::On;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

pub struct Agent;

/// The word that means "as I am".
pub const FORK: &str = "fork";

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The work in three to six words; it becomes the agent's title.
    description: String,
    /// What it is to do. For a fresh agent everything it needs to know, for a fork only what comes next.
    prompt: String,
    /// Which agent does it. Leave it out (or say `fork`) for a fork of yourself.
    #[serde(default, alias = "subagentType")]
    subagent_type: Option<String>,
    /// A name by which other agents of this task can write to it.
    #[serde(default)]
    name: Option<String>,
    /// A model for it, as `provider/model`, or `sonnet`, `opus` or `haiku` for the newest of those.
    #[serde(default)]
    model: Option<String>,
    /// How hard it is to think: a variant of its model, such as `high`.
    #[serde(default)]
    thinking: Option<String>,
    /// False waits for its answer; otherwise a message brings it.
    #[serde(default, alias = "runInBackground")]
    run_in_background: Option<bool>,
    /// `worktree` gives it a copy of the repository of its own.
    #[serde(default)]
    isolation: Option<Isolation>,
    /// Its permission mode: `ask`, `accept-edits`, `plan` or `auto`; never wider than yours.
    #[serde(default)]
    mode: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Isolation {
    Worktree,
}

/// Agents of Claude Code, by the names they have here.
const ELSEWHERE: [(&str, &str); 1] = [("general-purpose", "general")];

/// The agent that does here what one does elsewhere, for those who know it by that name.
pub fn elsewhere(name: &str) -> Option<&'static str> {
    ELSEWHERE.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours)
}

/// What starting an agent needs permission for: by the name it is given, and by the one it has here.
pub(crate) fn accesses(agent: &str) -> Vec<Access> {
    let names = std::iter::once(agent).chain(elsewhere(&agent.trim().to_ascii_lowercase()));
    names.map(|name| Access::new("task", name).always(name)).collect()
}

impl Args {
    /// The agent that is asked for; none means a fork.
    fn fresh(&self) -> Option<&str> {
        self.subagent_type.as_deref().map(str::trim).filter(|name| !name.is_empty() && *name != FORK)
    }
}

#[async_trait]
impl Tool for Agent {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("agent", include_str!("prompt.md"))
            .lasting()
            .again()
            .aliases(&["Agent"])
            .permission("task")
            .waits()
            .json()
    }

    fn describe(&self, audience: &Audience) -> Option<String> {
        let text = if audience.coordinates { include_str!("short.md") } else { include_str!("prompt.md") };
        let mut text = format!("{}\nAgents:\n", text.trim_end());
        for agent in &audience.agents {
            text.push_str(&format!("- {}: {}\n", agent.name, agent.description));
        }
        Some(text)
    }

    fn access(&self, args: &Args, _: &ToolCx) -> Vec<Access> {
        accesses(args.fresh().unwrap_or(FORK))
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let waits = args.run_in_background == Some(false);
        let fresh = args.fresh().map(str::to_owned);
        let request = Spawn {
            fork: fresh.is_none(),
            agent: fresh,
            prompt: args.prompt,
            title: Some(args.description),
            name: args.name,
            model: proto::model::choice(args.model, args.thinking.as_deref()),
            mode: args.mode,
            isolated: args.isolation == Some(Isolation::Worktree),
            waits,
            tool: "agent",
            ..Spawn::default()
        };
        let child = match cx.spawner.spawn(request).await {
            Ok(child) => child,
            Err(refused) => return Ok(answer::refused(&refused)),
        };
        if waits {
            let waiting = Output::waiting(On::Run { run: child.run, session: child.session });
            return Ok(match child.note {
                Some(note) => waiting.note(note),
                None => waiting,
            });
        }
        let mut value = json!({
            "status": "launched",
            "agent": child.agent,
            "agentId": child.session,
            "sessionKey": child.key,
            "runId": child.run,
            "output_file": child.output_file,
            "note": "It works in the background. You know nothing of its result yet: do not guess at it, and do not read \
                     or follow `output_file` unless the user asks. A message will tell you when it has ended.",
        });
        if let (Some(more), Some(note)) = (&child.note, value["note"].as_str()) {
            value["note"] = json!(format!("{more} {note}"));
        }
        if let Some(name) = &child.name {
            value["name"] = json!(name);
        }
        if let Some(worktree) = &child.worktree {
            value["worktree"] = json!(worktree);
        }
        Ok(Output::json(&value))
    }

    fn settle(&self, _: Args, waited: &Waited<'_>) -> Output {
        let finished = waited.finished;
        let status = match finished.outcome {
            Outcome::Ok => "ok",
            Outcome::Error => "error",
            Outcome::Cancelled => "cancelled",
        };
        let mut value = json!({
            "status": status,
            "agent": finished.agent,
            "agentId": finished.session,
            "runId": finished.run,
            "reply": finished.text,
            "usage": finished.usage,
            "ms": finished.ms,
        });
        if let Some(file) = &finished.file {
            value["output_file"] = json!(file);
        }
        if let Some(code) = finished.code {
            value["code"] = json!(code);
        }
        let mut notes: Vec<String> = waited.waiting.note.iter().cloned().collect();
        if let Some(worktree) = &finished.worktree {
            value["worktree"] = json!(worktree);
            notes.push(worktree.words());
        }
        if !notes.is_empty() {
            value["note"] = json!(notes.join(" "));
        }
        Output::json(&value)
    }
}
