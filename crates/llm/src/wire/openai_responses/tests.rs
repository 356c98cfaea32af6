//! Answers as the API's description has them, replayed through the reader; requests as they are sent; and the whole wire
//! over real HTTP against the fake model.

use super::answer::Answer;
use super::{OpenAiResponses, encode};
use crate::wire::Endpoint;
use crate::wire::testing::{FROM, check_every_cut, check_linear, fixture, noted, replay};
use crate::{
    CallRef, Delta, Effort, Error, FileRef, Message, Model, Part, Provider, Reasoning, Request, ResultRef, Said,
    ToolSpec,
};
use bytes::Bytes;
use proto::entry::Block;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use testkit::FakeModel;

const KEY: &str = "sk-do-not-show-me-0123456789";

fn played(name: &str) -> String {
    noted(&replay::<Answer>([fixture("openai_responses", name)]).1)
}

#[test]
fn text_and_usage_without_what_was_cached() {
    insta::assert_snapshot!(played("text.sse"), @"
    text: Hello, wörld 🙂
    end: Stop, in 20 cached 100 out 9, $0
    ");
    let (deltas, _) = replay::<Answer>([fixture("openai_responses", "text.sse")]);
    assert_eq!(deltas, [Delta::Text("Hello".into()), Delta::Text(", wörld 🙂".into())]);
}

#[test]
fn thoughts_keep_their_encrypted_form_and_calls_may_arrive_together() {
    insta::assert_snapshot!(played("reasoning_and_parallel_calls.sse"), @r#"
    thought: Two files.

    Both small. [{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Two files."},{"type":"summary_text","text":"Both small."}],"encrypted_content":"gAAAA+/x=="}]
    text: Reading both.
    call: read {"filePath": "a.txt"} (call_a)
    call: list {} (call_b)
    end: ToolCalls, in 20 cached 100 out 9, $0
    "#);
    let (deltas, _) = replay::<Answer>([fixture("openai_responses", "reasoning_and_parallel_calls.sse")]);
    let thoughts: String = deltas
        .iter()
        .filter_map(|delta| if let Delta::Reasoning(text) = delta { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!(thoughts, "Two files.\n\nBoth small.");
}

#[test]
fn unknown_events_are_passed_over_and_unknown_items_kept() {
    insta::assert_snapshot!(played("strange_company.sse"), @r#"
    block: {"id":"ws_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"x","n":1.50}}
    thought: open thought
    text: Found.
    end: Stop, in 20 cached 100 out 9, $0
    "#);
}

#[test]
fn an_answer_that_comes_all_at_the_end_is_understood() {
    insta::assert_snapshot!(played("only_the_end.sse"), @r#"
    thought: Two files.

    Both small. [{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"Two files."},{"type":"summary_text","text":"Both small."}],"encrypted_content":"gAAAA+/x=="}]
    text: Reading both.
    call: read {"filePath": "a.txt"} (call_a)
    end: ToolCalls, in 20 cached 100 out 9, $0
    "#);
    insta::assert_snapshot!(played("whole_answer.json"), @r#"
    thought: Two files.

    Both small. [{
       "id": "rs_1",
       "type": "reasoning",
       "summary": [
        {
         "type": "summary_text",
         "text": "Two files."
        },
        {
         "type": "summary_text",
         "text": "Both small."
        }
       ],
       "encrypted_content": "gAAAA+/x=="
      }]
    text: Reading both.
    call: read {"filePath": "a.txt"} (call_a)
    end: ToolCalls, in 20 cached 100 out 9, $0
    "#);
}

#[test]
fn reasons_to_stop() {
    insta::assert_snapshot!(played("refusal.sse"), @"
    text: I will not.
    end: ContentFilter, in 20 cached 100 out 9, $0
    ");
    insta::assert_snapshot!(played("incomplete.sse"), @r#"
    call: write {"filePath":"a","content":"half (c1)
    end: Length, in 20 cached 100 out 9, $0
    "#);
    insta::assert_snapshot!(played("filtered.sse"), @"end: ContentFilter, in 20 cached 100 out 9, $0");
}

#[test]
fn what_is_no_answer_is_told_as_what_it_is() {
    insta::assert_snapshot!(played("failed.sse"), @"error: the model's server failed in mid-answer: The model had an accident.");
    insta::assert_snapshot!(played("overflow.sse"), @"error: the conversation no longer fits the model's context: Your input exceeds the context window of this model.");
    insta::assert_snapshot!(played("error.sse"), @"error: the model's server asks to wait: Rate limit reached");
    insta::assert_snapshot!(played("error_without_a_name.sse"), @"error: the model's server asks to wait: Rate limit reached");
    insta::assert_snapshot!(played("broke_off.sse"), @"error: the model's server broke off in mid-answer");
    insta::assert_snapshot!(played("whole_error.json"), @"error: the model's server refused the request: no such model");
    assert!(matches!(replay::<Answer>([fixture("openai_chat", "text.sse")]).1, Err(Error::Garbage(_))));
}

#[test]
fn where_the_bytes_are_cut_does_not_matter() {
    let names = [
        "text.sse",
        "reasoning_and_parallel_calls.sse",
        "strange_company.sse",
        "refusal.sse",
        "failed.sse",
        "broke_off.sse",
        "whole_answer.json",
    ];
    names.into_iter().for_each(|name| check_every_cut::<Answer>("openai_responses", name));
}

#[test]
fn an_argument_in_single_bytes_costs_its_length() {
    check_linear::<Answer>(
        &[
            r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"a","name":"write"}}"#,
        ],
        r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"x"}"#,
        &[r#"{"type":"response.completed","response":{"status":"completed"}}"#],
    );
}

#[test]
fn items_without_end_are_refused() {
    let endless = (0..5_000)
        .map(|n| format!("data: {{\"type\":\"response.output_text.delta\",\"output_index\":{n},\"delta\":\"x\"}}\n\n"));
    assert!(matches!(replay::<Answer>(endless).1, Err(Error::Garbage(message)) if message.contains("2000 items")));
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn encoded(message: &Message<'_>) -> String {
    String::from_utf8(encode::message(message, FROM).to_vec()).unwrap()
}

/// What was read is what is sent back.
#[test]
fn thoughts_and_unknown_items_go_back_byte_for_byte_to_who_wrote_them() {
    for (name, count) in [("reasoning_and_parallel_calls.sse", 1), ("strange_company.sse", 1)] {
        let reply = replay::<Answer>([fixture("openai_responses", name)]).1.unwrap();
        let said: Vec<Said<'_>> = reply
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Reasoning(thought) => Some(Said::Thought(thought)),
                Part::Block(block) => Some(Said::Block(block)),
                _ => None,
            })
            .collect();
        let blocks: Vec<&Block> = said
            .iter()
            .filter_map(|part| match part {
                Said::Thought(thought) => thought.block.as_ref(),
                Said::Block(block) => Some(*block),
                _ => None,
            })
            .collect();
        let sent = encoded(&Message::Assistant(said.clone()));
        assert_eq!(blocks.len(), count, "{name}");
        assert_eq!(sent, blocks[0].raw.get());
        let bytes = String::from_utf8(fixture("openai_responses", name)).unwrap();
        assert!(bytes.contains(&sent), "as it came: {sent}");
        assert!(!encode::message(&Message::Assistant(said), "elsewhere").is_empty());
    }
}

#[test]
fn messages_are_written_as_items() {
    let input = raw(r#"{"path":  "a", "n": 1.50}"#);
    let call = |id, input| Said::Call(CallRef { id, tool: "read", input });
    insta::assert_snapshot!(encoded(&Message::Assistant(vec![Said::Text("Let me see."), call("c1", &input)])), @r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Let me see."}]},{"type":"function_call","call_id":"c1","name":"read","arguments":"{\"path\":  \"a\", \"n\": 1.50}"}"#);
    let result = |call, output, failed| ResultRef { call, tool: "read", output, failed, files: Vec::new(), shows: &[] };
    insta::assert_snapshot!(encoded(&Message::Results(vec![result("c1", "x", false), result("c2", "no", true)])), @r#"{"type":"function_call_output","call_id":"c1","output":"x"},{"type":"function_call_output","call_id":"c2","output":"no"}"#);
    let file = |name, mime, data| FileRef { name, mime, data };
    let files = vec![file("a.png", "image/png", "AAAA"), file("b.pdf", "application/pdf", "BBBB")];
    let shows =
        ResultRef { call: "c1", tool: "read", output: "a.png", failed: false, files: files.clone(), shows: &[] };
    insta::assert_snapshot!(encoded(&Message::Results(vec![shows])), @r#"{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"a.png"},{"type":"input_image","image_url":"data:image/png;base64,AAAA"},{"type":"input_file","filename":"b.pdf","file_data":"data:application/pdf;base64,BBBB"}]}"#);
    insta::assert_snapshot!(encoded(&Message::User { text: "look", files }), @r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":"data:image/png;base64,AAAA"},{"type":"input_file","filename":"b.pdf","file_data":"data:application/pdf;base64,BBBB"}]}"#);
}

fn request(model: Model, messages: Vec<Bytes>) -> Request {
    let spec = ToolSpec {
        name: "read".into(),
        description: "reads".into(),
        schema: raw(r#"{"type":"object"}"#),
        deferred: false,
    };
    let tools = encode::tools(&[spec]);
    Request {
        model,
        system: "be brief".into(),
        tools,
        messages,
        temperature: Some(0.5),
        top_p: None,
        options: serde_json::Map::new(),
    }
}

fn sent(request: &Request) -> String {
    String::from_utf8(encode::request(request, true).joined()).unwrap()
}

#[test]
fn a_request_ends_with_its_items() {
    let messages = vec![encode::message(&Message::user("hi"), FROM)];
    insta::assert_snapshot!(sent(&request(Model::new("m", 1000, 50), messages.clone())), @r#"{"model":"m","stream":true,"store":false,"include":["reasoning.encrypted_content"],"max_output_tokens":50,"temperature":0.5,"instructions":"be brief","tools":[{"type":"function","name":"read","description":"reads","parameters":{"type":"object"},"strict":false}],"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}]}"#);
    let thinker = Model { reasoning: Reasoning::Effort, effort: Some(Effort::Low), ..Model::new("m", 1000, 50) };
    let body: Value = serde_json::from_str(&sent(&request(thinker, messages))).unwrap();
    assert_eq!((&body["reasoning"], body.get("temperature")), (&json!({ "effort": "low" }), None));
}

#[test]
fn a_step_keeps_every_byte_of_the_request_before_but_its_end() {
    let mut messages = vec![encode::message(&Message::user("go"), FROM)];
    let mut before = sent(&request(Model::new("m", 1000, 50), messages.clone()));
    for step in 0..20 {
        let output = format!("result {step}");
        let result =
            ResultRef { call: "c", tool: "read", output: &output, failed: false, files: Vec::new(), shows: &[] };
        messages.push(encode::message(&Message::Results(vec![result]), FROM));
        let now = sent(&request(Model::new("m", 1000, 50), messages.clone()));
        assert!(now.starts_with(before.strip_suffix("]}").unwrap()), "{now}");
        before = now;
    }
}

fn provider(fake: &FakeModel) -> OpenAiResponses {
    OpenAiResponses::new(Endpoint { key: KEY.into(), ..Endpoint::at(fake.base_url()) })
}

async fn ask(provider: &OpenAiResponses) -> Result<crate::Reply, Error> {
    let model = Model::new("test", 10_000, 100);
    provider.stream(request(model, vec![provider.encode(&Message::user("hi"))]), &mut |_| {}).await
}

#[tokio::test]
async fn a_request_carries_key_and_length() {
    let fake = FakeModel::scripted(|_| {
        testkit::Reply::text("hello there").thinking("hm").and_calls([("list", json!({ "path": "." }))]).usage(7, 3)
    });
    let reply = ask(&provider(&fake)).await;
    insta::assert_snapshot!(noted(&reply), @r#"
    thought: hm [{"type":"reasoning","id":"rs_0","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"Seal+/2=="}]
    text: hello there
    call: list {"path":"."} (wire_0)
    end: ToolCalls, in 7 cached 0 out 3, $0
    "#);
    let received = fake.last().unwrap();
    let header = |name: &str| received.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    assert_eq!((received.path.as_str(), header("authorization")), ("/v1/responses", format!("Bearer {KEY}")));
    assert_eq!(header("content-length"), received.raw.len().to_string());
    assert_eq!((received.last("system"), received.last("user")), (Some("be brief".into()), Some("hi".into())));
    assert_eq!(received.tools(), ["read"]);
}

#[tokio::test]
async fn one_connection_serves_many_steps() {
    let fake = FakeModel::start();
    let provider = provider(&fake);
    for _ in 0..5 {
        ask(&provider).await.unwrap();
    }
    assert_eq!((fake.count(), fake.connections()), (5, 1));
}

#[tokio::test]
async fn a_model_without_thoughts_is_asked_without_them_from_then_on() {
    let fake = FakeModel::scripted(|received| match received.body()["include"].is_null() {
        true => testkit::Reply::text("fine"),
        false => testkit::Reply::raw(
            400,
            r#"{"error":{"message":"Encrypted content is not supported with this model.","param":"include"}}"#,
        ),
    });
    let provider = provider(&fake);
    ask(&provider).await.unwrap();
    ask(&provider).await.unwrap();
    assert_eq!(fake.count(), 3);
}

#[tokio::test]
async fn broken_answers_over_http() {
    use testkit::Reply;
    let asked = async |reply: Reply| {
        let fake = FakeModel::start();
        fake.push(reply);
        noted(&ask(&provider(&fake)).await).replace(&fake.address().to_string(), "HOST")
    };
    insta::assert_snapshot!(asked(Reply::raw(400, r#"{"error":{"message":"Your input exceeds the context window of this model.","code":"context_length_exceeded"}}"#)).await, @"error: the conversation no longer fits the model's context: HTTP 400: Your input exceeds the context window of this model.");
    insta::assert_snapshot!(asked(Reply::text("hello world").dies_after(3)).await, @"error: http://HOST broke off in mid-answer");
    insta::assert_snapshot!(asked(Reply::raw(200, "<html>log in</html>").content_type("text/html")).await, @"error: the model's server sent something that is not a reply: a web page: <html>log in</html>");
    insta::assert_snapshot!(asked(Reply::deltas([""; 0]).finish("content_filter")).await, @"error: the model declined to answer: it gave no answer");
}
