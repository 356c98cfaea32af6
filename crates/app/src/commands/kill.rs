//! `convoke kill`: stops what a session is doing, or one run.

use super::block_on;
use crate::failure::Failure;
use crate::home::Home;
use crate::reach::reach;
use crate::{terminal, waiting};
use proto::methods::{AbortInput, Aborted, ChatAbort, StoppedRow};
use proto::{Code, RunId};
use serde_json::json;

/// Stop a session and its descendants, or a single run
///
/// The history is kept, and your next message to the session continues it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A session (an id (or its last 4 characters), a key, a name or a label), or the id of a run
    #[arg(value_name = "REF|RUN")]
    target: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    let (stopped, run) = block_on(stop(&home, &args.target))?;
    if args.json {
        let mut line = json!(stopped);
        if let Some(run) = run {
            line["runId"] = json!(run);
        }
        terminal::print_json(&line);
    } else {
        terminal::say(&told(&stopped, run.is_some()));
    }
    Ok(0)
}

/// What was stopped, by name.
pub(crate) fn told(stopped: &Aborted, one_run: bool) -> String {
    let name = |row: &StoppedRow| {
        let tail = row.session_id.as_str().len().saturating_sub(6);
        let unnamed = || format!("{} …{}", row.agent, &row.session_id.as_str()[tail..]);
        row.name.clone().or_else(|| row.label.clone()).unwrap_or_else(unnamed)
    };
    match stopped.stopped.as_slice() {
        [] => format!("nothing to stop: {} and its descendants are idle", stopped.session_id),
        [row] if one_run => format!("stopped the run of {}", name(row)),
        [row] => format!("stopped 1 session: {}", name(row)),
        rows => format!("stopped {} sessions: {}", rows.len(), rows.iter().map(name).collect::<Vec<_>>().join(", ")),
    }
}

async fn stop(home: &Home, target: &str) -> Result<(Aborted, Option<RunId>), Failure> {
    let run = RunId::parse(target.trim()).ok();
    // Ids of ours say what they are; a caller's own id for a run may look like a label, and then the session counts.
    if let Some(run) = run.clone().filter(|_| target.trim().starts_with(RunId::PREFIX)) {
        return stop_run(home, run).await;
    }
    match abort(home, AbortInput { reference: target.to_owned(), run_id: None }).await {
        Ok(aborted) => Ok((aborted, None)),
        Err(failure) if failure.error.code == Code::NotFound => match run {
            Some(run) => stop_run(home, run).await.map_err(|_| failure),
            None => Err(failure),
        },
        Err(failure) => Err(failure),
    }
}

async fn stop_run(home: &Home, run: RunId) -> Result<(Aborted, Option<RunId>), Failure> {
    let session = waiting::look(home, &run).await?.session_id;
    let aborted = abort(home, AbortInput { reference: session.to_string(), run_id: Some(run.clone()) }).await?;
    Ok((aborted, Some(run)))
}

/// Also in a home where no gateway runs: what is unfinished there would go on with the next one.
async fn abort(home: &Home, input: AbortInput) -> Result<Aborted, Failure> {
    Ok(reach(home).await?.call::<ChatAbort>(input).await?)
}
