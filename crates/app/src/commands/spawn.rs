//! `convoke spawn`: a session that works on its own.

use super::block_on;
use crate::failure::Failure;
use crate::home::Home;
use crate::patience::insist;
use crate::reach::reach;
use crate::{duration, terminal, waiting};
use proto::methods::{SessionsSpawn, SpawnInput, SpawnMode, SpawnOutput, WaitStatus};
use proto::{Error, RunId};
use serde_json::json;
use std::time::Duration;

/// Start a session that works on a task by itself
///
/// Below another session with `--parent`, which is told of the end; else on its own. With `--wait` the answer goes to
/// stdout.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to do: the session knows nothing else
    #[arg(value_name = "TASK", required = true)]
    task: Vec<String>,
    /// The agent it runs as
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// The session above it: an id (or its last 4 characters), a key, a name or a label
    #[arg(long, value_name = "REF")]
    parent: Option<String>,
    /// A name to reach it by
    #[arg(long)]
    label: Option<String>,
    /// The model it runs on, as `provider/model`
    #[arg(long, short, value_name = "PROVIDER/MODEL")]
    model: Option<String>,
    /// How the model is asked: one of its variants, such as `high`
    #[arg(long, visible_alias = "thinking", value_name = "VARIANT")]
    variant: Option<String>,
    /// Keep it open after its first answer
    #[arg(long)]
    stay: bool,
    /// Wait this long for the answer
    #[arg(long, value_name = "SECS", value_parser = duration::seconds)]
    wait: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    let task = args.task.join(" ");
    if task.trim().is_empty() {
        return Err(Error::invalid("the task is empty").hint("say what is to be done").into());
    }
    let cwd = std::env::current_dir().ok().and_then(|dir| dir.into_os_string().into_string().ok());
    block_on(async {
        let mut client = reach(&home).await?;
        // Chosen here, so that a second attempt starts nothing twice.
        let input = SpawnInput {
            task,
            // A child works where its parent does.
            cwd: if args.parent.is_none() { cwd } else { None },
            parent: args.parent,
            agent_id: args.agent,
            label: args.label,
            model: args.model,
            thinking: args.variant,
            mode: args.stay.then_some(SpawnMode::Session),
            idempotency_key: Some(RunId::new().to_string()),
            ..SpawnInput::default()
        };
        let spawned = insist::<SessionsSpawn>(&home, &mut client, input).await?;
        let Some(limit) = args.wait else {
            started(&spawned, args.json);
            return Ok(0);
        };
        let waited = waiting::wait(&home, client, &spawned.run_id, Some(limit)).await?;
        if args.json {
            let mut line = json!(spawned);
            line["outcome"] = json!(waited.status);
            line["usage"] = json!(waited.usage);
            if let (WaitStatus::Ok, Some(text)) = (waited.status, &waited.text) {
                line["reply"] = json!(text);
            }
            if let Some(error) = &waited.error {
                line["error"] = json!(error);
            }
            terminal::print_json(&line);
        } else {
            waiting::show(&waited);
        }
        Ok(waiting::exit_code(waited.status))
    })
}

fn started(spawned: &SpawnOutput, as_json: bool) {
    if as_json {
        terminal::print_json(spawned);
    } else {
        terminal::print(spawned.session_id.as_str());
        terminal::say(&format!("note: at work; `convoke wait {}` waits for the answer", spawned.run_id));
    }
}
