//! `convoke compact`: room in a session's context.

use super::block_on;
use crate::failure::Failure;
use crate::home::Home;
use crate::patience::insist;
use crate::reach::reach;
use crate::{terminal, waiting};
use client::{Client, Watch};
use proto::entry::CompactionState;
use proto::event::Seen;
use proto::methods::{Accepted, CompactInput, Selector, SessionsCompact, SessionsGet, WaitStatus};
use proto::{Entry, RunId};
use serde_json::json;

/// Sum a session up, so that it has room to go on
///
/// The newest turns stay as they are, and the history keeps everything. A session that is busy does it at its next step
/// and goes on.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The session: an id (or its last 4 characters), a key, a name or a label
    #[arg(value_name = "REF")]
    reference: String,
    /// What the summary is to look after
    #[arg(value_name = "TEXT")]
    instructions: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    let wish = args.instructions.join(" ");
    block_on(async {
        let mut client = reach(&home).await?;
        let run = RunId::new();
        let input = CompactInput {
            reference: args.reference,
            instructions: Some(wish).filter(|wish| !wish.trim().is_empty()),
            idempotency_key: Some(run.to_string()),
        };
        let accepted = insist::<SessionsCompact>(&home, &mut client, input).await?;
        let over = waiting::wait(&home, reach(&home).await?, &run, None);
        let waited = tokio::select! {
            () = made(&client, &accepted) => None,
            waited = over => Some(waited?),
        };
        let status = waited.as_ref().map_or(WaitStatus::Ok, |waited| waited.status);
        let selector = Selector { session_id: Some(accepted.session_id.to_string()), ..Selector::default() };
        let left = reach(&home).await?.call::<SessionsGet>(selector).await?.context_tokens;
        if args.json {
            terminal::print_json(&json!({
                "runId": run, "sessionId": accepted.session_id, "status": status, "contextTokens": left,
                "error": waited.and_then(|waited| waited.error),
            }));
        } else {
            waited.iter().for_each(waiting::show);
            if status == WaitStatus::Ok {
                terminal::say(&format!("about {left} tokens are left of the conversation"));
            }
        }
        Ok(waiting::exit_code(status))
    })
}

/// Ends when room was made, whether or not the run goes on. Where that cannot be seen, the end of the run tells.
async fn made(client: &Client, accepted: &Accepted) {
    let watch = Watch { root: accepted.session_id.clone(), after: Some(accepted.cursor.clone()), follow: true };
    if let Ok(mut events) = client.events(&watch).await {
        while let Ok(Some((_, seen))) = events.next().await {
            let of_it = matches!(&seen, Seen::Entry { session_id, .. } if session_id == &accepted.session_id);
            let done = |entry| matches!(entry, Entry::Compaction(done) if done.state == CompactionState::Done);
            if of_it && seen.entry().is_some_and(done) {
                return;
            }
        }
    }
    std::future::pending::<()>().await;
}
