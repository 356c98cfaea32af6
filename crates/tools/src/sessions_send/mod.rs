//! `sessions_send`: a message into another session, and its answer (S6).

use crate::doors::{Delivery, Message, Unsent};
use crate::{Access, Error, Output, Spec, Tool, ToolCx, Waited, answer, label_is_too_long, tolerant};
use async_trait::async_trait;
use proto::entry::{On, Waiting};
use proto::{Outcome, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;

pub struct SessionsSend;

/// How long an answer is waited for, unless said otherwise.
const WAIT_SECONDS: u64 = 30;
/// A year: longer waits mean "for ever" and would only overflow clocks.
const MOST_SECONDS: u64 = 31_536_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// The session's key, as lists show it, or its id or the end of that. Either this or `label`.
    #[serde(default, deserialize_with = "tolerant::text", alias = "session_key")]
    session_key: Option<String>,
    /// The session's label or the agent's name. Either this or `sessionKey`.
    #[serde(default, deserialize_with = "tolerant::text")]
    label: Option<String>,
    /// Look for the label among this agent's sessions instead of your own.
    #[serde(default, deserialize_with = "tolerant::text", alias = "agent_id")]
    agent_id: Option<String>,
    /// What to say.
    #[serde(default, deserialize_with = "tolerant::text")]
    message: Option<String>,
    /// How long to wait for the answer: 30 unless given; 0 sends without waiting, and the answer comes as a message.
    #[serde(default, deserialize_with = "tolerant::number", alias = "timeout_seconds")]
    #[schemars(with = "Option<u64>")]
    timeout_seconds: Option<u64>,
    /// What follows: `reply` brings you the answer, `announce` lets the two of you talk it over and the receiver tell its
    /// channel, `none` brings nothing back.
    #[serde(default, deserialize_with = "tolerant::or_default")]
    delivery: Delivery,
    /// `user`, as by default: the receiver reads and answers it. `assistant`: it stands in the receiver's log as its own
    /// answer; only for sessions you may control.
    #[serde(default, deserialize_with = "tolerant::or_default")]
    role: Role,
}

/// Who the message is from, as the receiver reads it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Role {
    #[default]
    User,
    Assistant,
}

/// What a waiting call remembers of the receiver.
#[derive(Serialize, Deserialize)]
struct Note {
    key: String,
}

#[async_trait]
impl Tool for SessionsSend {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("sessions_send", include_str!("prompt.md")).lasting().again().json().waits()
    }

    fn access(&self, args: &Args, _: &ToolCx) -> Vec<Access> {
        let target = args.session_key.as_deref().or(args.label.as_deref()).unwrap_or("*");
        vec![Access::new("sessions_send", target)]
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let Some(text) = args.message.clone() else {
            return Err(Error::tell("`message` is missing: say what the other session is to read"));
        };
        if let Some(why) = args.label.as_deref().and_then(label_is_too_long) {
            return Err(Error::Tell(why));
        }
        let wait = args.wait();
        let message = Message {
            key: args.session_key,
            label: args.label,
            agent: args.agent_id,
            text,
            wait,
            delivery: args.delivery,
            spoken: args.role == Role::Assistant,
        };
        match cx.office.send(message).await {
            Err(refused) => Ok(unsent(&refused)),
            Ok(sent) if wait.is_zero() => {
                Ok(Output::json(&result(&sent.run, "sent", &sent.key, delivery("pending", args.delivery))))
            }
            Ok(sent) => {
                let note = serde_json::to_string(&Note { key: sent.key }).expect("a note is JSON");
                Ok(Output::waiting(On::Run { run: sent.run, session: sent.session }).at_most(wait).note(note))
            }
        }
    }

    fn settle(&self, args: Args, waited: &Waited<'_>) -> Output {
        let finished = waited.finished;
        let key = key_of(waited.waiting);
        if finished.outcome == Outcome::Ok {
            let mut value = result(&finished.run, "ok", &key, delivery("done", args.delivery));
            value["reply"] = json!(finished.text);
            return Output::json(&value);
        }
        let mut value = result(&finished.run, "error", &key, delivery("done", args.delivery));
        value["error"] = json!(finished.text);
        value["code"] = json!(finished.code);
        Output::json(&value).failed()
    }

    fn give_up(&self, args: Args, waiting: &Waiting) -> Output {
        let On::Run { run, .. } = &waiting.on else { return Output::text("nothing was waited for").failed() };
        Output::json(&result(run, "timeout", &key_of(waiting), delivery("pending", args.delivery)))
    }
}

impl Args {
    fn wait(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds.unwrap_or(WAIT_SECONDS).min(MOST_SECONDS))
    }
}

fn result(run: &RunId, status: &str, key: &str, delivery: Value) -> Value {
    json!({ "runId": run, "status": status, "sessionKey": key, "delivery": delivery })
}

fn delivery(status: &str, mode: Delivery) -> Value {
    json!({ "status": if mode == Delivery::None { "skipped" } else { status }, "mode": mode })
}

fn unsent(refused: &Unsent) -> Output {
    let mut value = json!({ "runId": refused.run });
    let refusal = answer::refusal(&refused.error);
    for (name, field) in refusal.as_object().into_iter().flatten() {
        value[name] = field.clone();
    }
    if let Some(key) = &refused.key {
        value["sessionKey"] = json!(key);
    }
    Output::json(&value).failed()
}

fn key_of(waiting: &Waiting) -> String {
    let note = waiting.note.as_deref().and_then(|note| serde_json::from_str::<Note>(note).ok());
    note.map(|note| note.key).unwrap_or_default()
}
