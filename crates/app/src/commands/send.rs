//! `convoke send`: something said to a session that exists.

use super::block_on;
use crate::failure::Failure;
use crate::home::Home;
use crate::patience::insist;
use crate::reach::reach;
use crate::{duration, terminal, waiting};
use proto::methods::{Accepted, ChatInput, ChatSend, Queue, WaitStatus, Waited};
use proto::{Error, RunId};
use serde_json::{Value, json};
use std::time::Duration;

/// Send a message to a session
///
/// A session that is busy reads it at its next step, unless `--queue` says otherwise. With `--wait` the answer goes to
/// stdout.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The session: an id (or its last 4 characters), a key, a name or a label
    #[arg(value_name = "REF")]
    reference: String,
    /// What to say
    #[arg(value_name = "TEXT", required = true)]
    text: Vec<String>,
    /// What happens to the message while the session is busy
    #[arg(long, value_enum, default_value_t = WhileBusy::Steer)]
    queue: WhileBusy,
    /// Wait this long for the answer
    #[arg(long, value_name = "SECS", value_parser = duration::seconds)]
    wait: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WhileBusy {
    /// The session reads it at its next step, in the run in progress
    Steer,
    /// It waits, and starts a run of its own after the run in progress
    Followup,
    /// It stops the run in progress, and starts a run of its own
    Interrupt,
}

impl From<WhileBusy> for Queue {
    fn from(queue: WhileBusy) -> Self {
        match queue {
            WhileBusy::Steer => Self::Steer,
            WhileBusy::Followup => Self::Followup,
            WhileBusy::Interrupt => Self::Interrupt,
        }
    }
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    let message = args.text.join(" ");
    if message.trim().is_empty() {
        return Err(Error::invalid("the message is empty").hint("say what is to be done").into());
    }
    block_on(async {
        let mut client = reach(&home).await?;
        // Chosen here, so that a second attempt sends nothing twice.
        let input = ChatInput {
            reference: args.reference,
            message,
            queue: args.queue.into(),
            idempotency_key: Some(RunId::new().to_string()),
            ..ChatInput::default()
        };
        let accepted = insist::<ChatSend>(&home, &mut client, input).await?;
        let Some(limit) = args.wait else {
            sent(&accepted, args.json);
            return Ok(0);
        };
        let waited = waiting::wait(&home, client, &accepted.run_id, Some(limit)).await?;
        if args.json {
            terminal::print_json(&answered(&waited));
        } else {
            waiting::show(&waited);
        }
        Ok(waiting::exit_code(waited.status))
    })
}

/// As the tool of the same name answers (S6).
fn sent(accepted: &Accepted, as_json: bool) {
    if as_json {
        let delivery = json!({ "status": "pending", "mode": "reply" });
        terminal::print_json(&json!({
            "runId": accepted.run_id,
            "status": "sent",
            "sessionKey": accepted.session_key,
            "sessionId": accepted.session_id,
            "delivery": delivery,
        }));
    } else {
        terminal::print(accepted.run_id.as_str());
        terminal::say("note: sent; `convoke wait` with this run waits for the answer");
    }
}

/// As the tool of the same name answers (S6).
fn answered(waited: &Waited) -> Value {
    let mut line = json!({
        "runId": waited.run_id,
        "status": waited.status,
        "sessionKey": waited.session_key,
        "sessionId": waited.session_id,
        "delivery": { "status": if waited.status == WaitStatus::Timeout { "pending" } else { "done" }, "mode": "reply" },
    });
    if let (WaitStatus::Ok, Some(text)) = (waited.status, &waited.text) {
        line["reply"] = json!(text);
    }
    if let Some(error) = &waited.error {
        line["error"] = json!(error);
    }
    line
}
