//! `convoke compact`: room in a session's context.

use super::block_on;
use crate::failure::Failure;
use crate::home::Home;
use crate::reach::reach;
use crate::{terminal, waiting};
use proto::RunId;
use proto::methods::{CompactInput, Selector, SessionsCompact, SessionsGet, WaitStatus};
use serde_json::json;

/// Sum a session up, so that it has room to go on
///
/// The newest turns stay as they are, and the history keeps everything. A session that is busy does it at its next step,
/// and this command waits until it has come to rest.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The session: an id, a key or a label
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
        let accepted = match client.call::<SessionsCompact>(input.clone()).await {
            Err(error) if error.is_lost() => {
                client = reach(&home).await?;
                client.call::<SessionsCompact>(input).await?
            }
            answered => answered?,
        };
        let waited = waiting::wait(&home, client, &run, None).await?;
        let selector = Selector { session_id: Some(accepted.session_id.to_string()), ..Selector::default() };
        let left = reach(&home).await?.call::<SessionsGet>(selector).await?.context_tokens;
        if args.json {
            terminal::print_json(&json!({
                "runId": run, "sessionId": waited.session_id, "status": waited.status, "contextTokens": left,
                "error": waited.error,
            }));
        } else {
            waiting::show(&waited);
            if waited.status == WaitStatus::Ok {
                terminal::say(&format!("about {left} tokens are left of the conversation"));
            }
        }
        Ok(waiting::exit_code(waited.status))
    })
}
