//! The formal questions of a conversation, and how the scripted model answers them: from the conversation alone, and each
//! once.

use super::job::{Job, Manner};
use serde_json::{Value, json};

/// A question that came as mail.
struct Question {
    kind: String,
    request: String,
    from: String,
    text: String,
}

/// What is still to be answered, as calls.
pub(super) fn due(messages: &[Value], job: &Job) -> Vec<(&'static str, Value)> {
    let answered: Vec<String> = messages.iter().flat_map(calls).filter_map(|input| request(&input)).collect();
    let asked = messages.iter().filter_map(question);
    asked
        .filter(|question| !answered.contains(&question.request))
        .filter_map(|question| answer(&question, job))
        .collect()
}

/// Whether a reply is nothing but answers: no step of the job.
pub(super) fn is_answer(reply: &Value) -> bool {
    let calls = calls(reply);
    !calls.is_empty() && calls.iter().all(|input| request(input).is_some())
}

/// How a plan is written, so that its answer follows from it.
pub(super) fn plan(token: &str, version: u64) -> String {
    format!("the plan of {token}, version {version}")
}

fn answer(question: &Question, job: &Job) -> Option<(&'static str, Value)> {
    let request = &question.request;
    let message = match (question.kind.as_str(), job.manner()) {
        ("plan_approval_request", _) => json!({
            "type": "plan_approval_response", "request_id": request,
            "approve": !question.text.contains(", version 0"), "feedback": "once more",
        }),
        ("shutdown_request", Manner::Agrees | Manner::Refuses) => json!({
            "type": "shutdown_response", "request_id": request, "approve": job.manner() == Manner::Agrees,
        }),
        _ => return None,
    };
    Some(("send_message", json!({ "to": question.from, "message": message })))
}

fn question(message: &Value) -> Option<Question> {
    let text = message["content"].as_str().filter(|_| message["role"] == "user")?;
    let from = text.strip_prefix("<cross-session-message from=\"")?.split('"').next()?;
    let formal: Value = serde_json::from_str(text.lines().nth(1)?).ok()?;
    let word = |name: &str| formal[name].as_str().map(str::to_owned);
    let (kind, request) = (word("type")?, word("request_id")?);
    kind.ends_with("_request").then(|| Question { kind, request, from: from.to_owned(), text: text.to_owned() })
}

/// The inputs of a reply's calls.
fn calls(reply: &Value) -> Vec<Value> {
    let calls = reply["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    let input = |call: &Value| serde_json::from_str(call["function"]["arguments"].as_str()?).ok();
    calls.iter().map(|call| input(call).unwrap_or_default()).collect()
}

/// The question that a call answers.
fn request(input: &Value) -> Option<String> {
    input["message"]["request_id"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(kind: &str, rest: &str) -> Value {
        let text = format!(
            "<cross-session-message from=\"a\">\n{{\"type\":\"{kind}\",\"request_id\":\"r1\"}}\n{rest}\n</cross-session-message>"
        );
        json!({ "role": "user", "content": text })
    }

    fn replied(input: &Value) -> Value {
        json!({ "role": "assistant", "tool_calls": [{ "function": { "arguments": input.to_string() } }] })
    }

    #[test]
    fn a_question_is_answered_once() {
        let job = Job { id: "j1.refuses".into(), plan: Vec::new() };
        let mut messages = vec![asked("shutdown_request", "")];
        let due_now = due(&messages, &job);
        assert_eq!((&due_now[0].1["to"], &due_now[0].1["message"]["approve"]), (&json!("a"), &json!(false)));
        messages.push(replied(&due_now[0].1));
        assert!(is_answer(&messages[1]) && due(&messages, &job).is_empty());
        assert!(!is_answer(&replied(&json!({ "to": "a", "message": "hello" }))));
    }

    #[test]
    fn the_first_plan_is_rejected_and_the_deaf_do_not_answer() {
        let job = |id: &str| Job { id: id.into(), plan: Vec::new() };
        let approves = |version| {
            due(&[asked("plan_approval_request", &plan("t", version))], &job("j1"))[0].1["message"]["approve"].clone()
        };
        assert_eq!((approves(0), approves(1)), (json!(false), json!(true)));
        assert!(due(&[asked("shutdown_request", "")], &job("j1.deaf")).is_empty());
    }
}
