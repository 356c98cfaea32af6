//! `send_message`: mail to another agent, and the few formal questions agents put to each other (C3, C6).

use crate::doors::{Mail, Say};
use crate::{Access, Error, Output, Spec, Tool, ToolCx, answer, tolerant};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

pub struct SendMessage;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// Who gets it: a name, `main`, `*`, a session, or an address that `list_peers` shows.
    to: String,
    /// The text, or one of the objects described above.
    #[schemars(with = "Text")]
    message: Value,
    /// Five to ten words for people who watch.
    #[serde(default)]
    summary: Option<String>,
    /// Tell me when the receiver has nothing left to do.
    #[serde(default, alias = "notifyWhenIdle", deserialize_with = "tolerant::truth")]
    notify_when_idle: bool,
}

/// What a message looks like in the schema.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Text {
    Plain(String),
    Formal(serde_json::Map<String, Value>),
}

#[async_trait]
impl Tool for SendMessage {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("send_message", include_str!("prompt.md")).lasting().again().aliases(&["SendMessage"]).json()
    }

    fn access(&self, args: &Args, _: &ToolCx) -> Vec<Access> {
        vec![Access::new("send_message", args.to.trim()).always(args.to.trim())]
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let say = match say(args.message) {
            Ok(say) => say,
            Err(refused) => return Ok(answer::refused(&refused)),
        };
        let mail =
            Mail { to: args.to.trim().to_owned(), say, summary: args.summary, notify_when_idle: args.notify_when_idle };
        let mailed = match cx.office.mail(mail).await {
            Ok(mailed) => mailed,
            Err(refused) => return Ok(answer::refused(&refused)),
        };
        let mut value = json!({ "status": mailed.status(), "receipts": mailed.receipts });
        if let Some(request) = &mailed.request {
            value["request_id"] = json!(request);
        }
        let mut output = Output::json(&value);
        output.shutdown = mailed.shutdown;
        Ok(output)
    }
}

/// What a message says: text, or one of the formal questions and answers.
pub fn say(message: Value) -> Result<Say, proto::Error> {
    let object = match message {
        Value::String(text) if text.trim().is_empty() => {
            return Err(proto::Error::invalid("`message` is empty: say what the other agent is to read"));
        }
        Value::String(text) => return Ok(Say::Text(text)),
        object @ Value::Object(_) => object,
        _ => return Err(proto::Error::invalid("`message` must be text, or an object with a `type`")),
    };
    let kind = object["type"].as_str().unwrap_or_default().to_owned();
    let text = |name: &str| object[name].as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    let request = || {
        text("request_id").ok_or_else(|| {
            proto::Error::invalid(format!("a `{kind}` needs the `request_id` of the question it answers"))
        })
    };
    let approve = || {
        object["approve"]
            .as_bool()
            .ok_or_else(|| proto::Error::invalid(format!("a `{kind}` needs `approve`: true or false")))
    };
    match kind.as_str() {
        "shutdown_request" => {
            Ok(Say::Shutdown { reason: text("reason"), force: object["force"].as_bool() == Some(true) })
        }
        "shutdown_response" => {
            Ok(Say::ShutdownAnswer { request: request()?, approve: approve()?, reason: text("reason") })
        }
        "plan_approval_response" => {
            let feedback = text("feedback").or_else(|| text("reason"));
            Ok(Say::PlanAnswer { request: request()?, approve: approve()?, feedback })
        }
        "plan_approval_request" => Err(proto::Error::invalid("a plan is put to your lead by `plan_exit`, not by mail")
            .hint("call plan_exit with the plan")),
        _ => Err(proto::Error::invalid("a message is text; JSON is kept for the formal questions")
            .hint("write it as text, or keep progress and status on the board (board_update)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::Code;

    #[test]
    fn text_and_the_formal_messages_are_read() {
        assert!(matches!(say(json!("hello")), Ok(Say::Text(text)) if text == "hello"));
        assert!(matches!(say(json!({"type": "shutdown_request"})), Ok(Say::Shutdown { force: false, reason: None })));
        let answered = say(json!({"type": "shutdown_response", "request_id": "r", "approve": false, "reason": "busy"}));
        assert!(matches!(answered, Ok(Say::ShutdownAnswer { approve: false, .. })));
        let answered = say(json!({"type": "plan_approval_response", "request_id": "r", "approve": true}));
        assert!(matches!(answered, Ok(Say::PlanAnswer { approve: true, feedback: None, .. })));
    }

    #[test]
    fn what_is_neither_is_refused_and_says_what_to_do() {
        for bad in [
            json!(""),
            json!(7),
            json!({"type": "status", "progress": 7}),
            json!({"done": true}),
            json!({"type": "shutdown_response", "approve": true}),
            json!({"type": "shutdown_response", "request_id": "r", "approve": "yes"}),
            json!({"type": "plan_approval_request", "plan": "x"}),
        ] {
            let refused = say(bad.clone()).unwrap_err();
            assert_eq!(refused.code, Code::InvalidInput, "{bad}");
        }
        assert!(say(json!({"type": "status"})).unwrap_err().hint.unwrap().contains("board"));
    }
}
