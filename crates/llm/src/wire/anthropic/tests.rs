//! Answers as the API's description has them, replayed through the reader; requests as they are sent; and the whole wire
//! over real HTTP against the fake model.

use super::answer::Answer;
use super::{Anthropic, encode};
use crate::wire::testing::{FROM, check_every_cut, check_linear, fixture, noted, replay};
use crate::wire::{Auth, Endpoint};
use crate::{
    CallRef, Cost, Delta, Effort, Error, FileRef, Message, Model, Part, Provider, Reasoning, Request, ResultRef, Said,
    ToolSpec,
};
use bytes::Bytes;
use proto::entry::{Block, Thought};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use testkit::FakeModel;

const KEY: &str = "sk-do-not-show-me-0123456789";

fn played(name: &str) -> String {
    noted(&replay::<Answer>([fixture("anthropic", name)]).1)
}

#[test]
fn text_and_usage_with_what_the_cache_gave_and_took() {
    insta::assert_snapshot!(played("text.sse"), @"
    text: Hello, wörld 🙂
    end: Stop, in 12 cached 4000 written 300 out 33, $0
    ");
    let (deltas, _) = replay::<Answer>([fixture("anthropic", "text.sse")]);
    assert_eq!(deltas, [Delta::Text("Hello".into()), Delta::Text(", wörld 🙂".into())]);
}

#[test]
fn thoughts_keep_their_signature_and_calls_their_text() {
    insta::assert_snapshot!(played("thinking_and_parallel_calls.sse"), @r#"
    thought: Two files. [{"type":"thinking","thinking":"Two files.","signature":"EqQB+/x=="}]
    thought:  [{"type":"redacted_thinking","data":"EmwKAhgB/+="}]
    text: Reading both.
    call: read {"filePath": "a.txt"} (toolu_a)
    call: list {} (toolu_b)
    end: ToolCalls, in 12 cached 4000 written 300 out 33, $0
    "#);
}

#[test]
fn blocks_may_grow_at_the_same_time() {
    insta::assert_snapshot!(played("interleaved.sse"), @r#"
    text: AB
    call: read {"n":1} (t1)
    end: ToolCalls, in 12 cached 4000 written 300 out 33, $0
    "#);
}

#[test]
fn unknown_events_are_passed_over_and_unknown_blocks_kept() {
    insta::assert_snapshot!(played("strange_company.sse"), @r#"
    block: {"type":"server_tool_use","id":"srv_1","name":"web_search","input":{"query":"x"}}
    block: {"type":"web_search_tool_result","tool_use_id":"srv_1","content":[{"type":"web_search_result","url":"https://example.com","encrypted_content":"Zz=="}]}
    text: Found.
    block: {"type":"hologram","shape":[1.50,{"a":null}]}
    end: Stop, in 12 cached 4000 written 300 out 33, $0
    "#);
}

#[test]
fn a_whole_answer_is_understood_where_a_stream_was_asked_for() {
    insta::assert_snapshot!(played("whole_answer.json"), @r#"
    thought: greet [{"type":"thinking","thinking":"greet","signature":"S="}]
    text: Hi.
    call: list {"path":"."} (t1)
    end: ToolCalls, in 5 cached 0 out 2, $0
    "#);
}

#[test]
fn reasons_to_stop() {
    insta::assert_snapshot!(played("refusal.sse"), @"end: ContentFilter, in 12 cached 4000 written 300 out 0, $0");
    insta::assert_snapshot!(played("cut_short.sse"), @r#"
    call: write {"filePath":"a","content":"half (t1)
    end: Length, in 12 cached 4000 written 300 out 33, $0
    "#);
    insta::assert_snapshot!(played("pause.sse"), @"
    text: Hm.
    end: Unknown, in 12 cached 4000 written 300 out 33, $0
    ");
}

#[test]
fn what_is_no_answer_is_told_as_what_it_is() {
    insta::assert_snapshot!(played("broke_off.sse"), @"error: the model's server broke off in mid-answer");
    insta::assert_snapshot!(played("overloaded.sse"), @"error: the model's server failed in mid-answer: Overloaded");
    insta::assert_snapshot!(played("error_without_a_name.sse"), @"error: the model's server asks to wait: slow down");
    insta::assert_snapshot!(played("whole_error.json"), @"error: the conversation no longer fits the model's context: prompt is too long: 9 tokens > 8 maximum");
    assert!(matches!(replay::<Answer>([fixture("openai_chat", "text.sse")]).1, Err(Error::Garbage(_))));
}

#[test]
fn where_the_bytes_are_cut_does_not_matter() {
    let names = [
        "text.sse",
        "thinking_and_parallel_calls.sse",
        "interleaved.sse",
        "strange_company.sse",
        "overloaded.sse",
        "broke_off.sse",
        "whole_answer.json",
    ];
    names.into_iter().for_each(|name| check_every_cut::<Answer>("anthropic", name));
}

#[test]
fn an_argument_in_single_bytes_costs_its_length() {
    check_linear::<Answer>(
        &[
            r#"{"type":"message_start","message":{}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"write","input":{}}}"#,
        ],
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"x"}}"#,
        &[r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#, r#"{"type":"message_stop"}"#],
    );
}

#[test]
fn blocks_without_end_are_refused() {
    let endless = (0..5_000).map(|n| {
        format!("data: {{\"type\":\"content_block_start\",\"index\":{n},\"content_block\":{{\"type\":\"text\"}}}}\n\n")
    });
    assert!(matches!(replay::<Answer>(endless).1, Err(Error::Garbage(message)) if message.contains("2000 blocks")));
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn encoded(message: &Message<'_>) -> String {
    String::from_utf8(encode::message(message, FROM).to_vec()).unwrap()
}

/// What was read is what is sent back.
#[test]
fn thoughts_and_unknown_blocks_go_back_byte_for_byte_to_who_wrote_them() {
    for name in ["thinking_and_parallel_calls.sse", "strange_company.sse"] {
        let reply = replay::<Answer>([fixture("anthropic", name)]).1.unwrap();
        let blocks: Vec<&Block> = reply
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Reasoning(thought) => thought.block.as_ref(),
                Part::Block(block) => Some(block),
                _ => None,
            })
            .collect();
        let said = reply.parts.iter().filter_map(|part| match part {
            Part::Reasoning(thought) => Some(Said::Thought(thought)),
            Part::Block(block) => Some(Said::Block(block)),
            _ => None,
        });
        let message = Message::Assistant(said.collect());
        let sent = encoded(&message);
        assert!(blocks.len() >= 2 && blocks.iter().all(|block| sent.contains(block.raw.get())), "{sent}");
        let elsewhere = encode::message(&message, "anthropic https://elsewhere.example");
        assert_eq!(&elsewhere[..], br#"{"content":[{"type":"text","text":"(nothing)"}],"role":"assistant"}"#);
    }
}

#[test]
fn messages_are_written_as_the_api_wants_them() {
    let input = raw(r#"{"path":  "a", "n": 1.50}"#);
    let call = |id, input| Said::Call(CallRef { id, tool: "read", input });
    let broken = raw(r#""{half""#);
    let said = vec![Said::Text("Let me see."), call("toolu_1", &input), call("odd id:2", &broken), Said::Text(" ")];
    insta::assert_snapshot!(encoded(&Message::Assistant(said)), @r#"{"content":[{"type":"text","text":"Let me see."},{"type":"tool_use","id":"toolu_1","name":"read","input":{"path":  "a", "n": 1.50}},{"type":"tool_use","id":"odd_id_2","name":"read","input":{"input":"{half"}}],"role":"assistant"}"#);
    let result = |call, output, failed| ResultRef { call, tool: "read", output, failed, files: Vec::new(), shows: &[] };
    let results = vec![result("toolu_1", "x", false), result("odd id:2", "no", true), result("c", "", false)];
    insta::assert_snapshot!(encoded(&Message::Results(results)), @r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"x"},{"type":"tool_result","tool_use_id":"odd_id_2","content":"no","is_error":true},{"type":"tool_result","tool_use_id":"c"}]}"#);
    insta::assert_snapshot!(encoded(&Message::user(" ")), @r#"{"role":"user","content":[{"type":"text","text":"(nothing)"}]}"#);
    let file = |name, mime, data| FileRef { name, mime, data };
    let files = vec![file("a.png", "image/png", "AAAA"), file("b.pdf", "application/pdf", "BBBB")];
    let shows = ResultRef { call: "c", tool: "read", output: "a.png", failed: false, files: files.clone(), shows: &[] };
    insta::assert_snapshot!(encoded(&Message::Results(vec![shows])), @r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"BBBB"},"title":"b.pdf"},{"type":"text","text":"a.png"}]}]}"#);
    insta::assert_snapshot!(encoded(&Message::User { text: "look", files }), @r#"{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"BBBB"},"title":"b.pdf"},{"type":"text","text":"look"}]}"#);
}

#[test]
fn deferred_tools_are_marked_and_a_result_points_at_them() {
    let spec = ToolSpec { name: "far".into(), description: "d".into(), schema: raw("{}"), deferred: true };
    insta::assert_snapshot!(String::from_utf8_lossy(&encode::tools(&[spec])), @r#"[{"name":"far","description":"d","input_schema":{},"defer_loading":true}]"#);
    let shows = ["far".to_owned()];
    let found =
        ResultRef { call: "c", tool: "tool_search", output: "", failed: false, files: Vec::new(), shows: &shows };
    let half = ResultRef { call: "d", output: "There is no tool `x`.", ..found.clone() };
    insta::assert_snapshot!(encoded(&Message::Results(vec![found, half])), @r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"tool_reference","tool_name":"far"}]},{"type":"tool_result","tool_use_id":"d","content":[{"type":"tool_reference","tool_name":"far"}]},{"type":"text","text":"There is no tool `x`."}]}"#);
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
    String::from_utf8(encode::request(request).joined()).unwrap()
}

#[test]
fn a_request_ends_with_its_messages_and_marks_what_is_worth_caching() {
    let messages = vec![encode::message(&Message::user("hi"), FROM)];
    insta::assert_snapshot!(sent(&request(Model::new("m", 1000, 50), messages)), @r#"{"model":"m","max_tokens":50,"stream":true,"temperature":0.5,"tools":[{"name":"read","description":"reads","input_schema":{"type":"object"}}],"system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]}]}"#);
}

#[test]
fn a_model_is_told_to_think_in_its_own_way() {
    let told = |reasoning, effort, output| {
        let model = Model { reasoning, effort, ..Model::new("m", 200_000, output) };
        let body: Value = serde_json::from_str(&sent(&request(model, Vec::new()))).unwrap();
        json!([body["thinking"], body["output_config"], body["temperature"], body["max_tokens"]])
    };
    let high = Some(Effort::High);
    assert_eq!(told(Reasoning::None, high, 0), json!([null, null, 0.5, 4096]));
    assert_eq!(told(Reasoning::Budget, None, 64_000), json!([null, null, 0.5, 64_000]));
    let budget = |tokens: u64| json!({ "type": "enabled", "budget_tokens": tokens });
    assert_eq!(told(Reasoning::Budget, high, 64_000), json!([budget(28_000), null, null, 64_000]));
    assert_eq!(told(Reasoning::Budget, high, 8_000), json!([budget(4_000), null, null, 8_000]));
    assert_eq!(told(Reasoning::Budget, high, 2_000), json!([null, null, 0.5, 2_000]));
    let adaptive = json!([{ "type": "adaptive" }, { "effort": "high" }, null, 64_000]);
    assert_eq!(told(Reasoning::Effort, high, 64_000), adaptive);
}

/// Shared bytes at the start of two requests.
fn common(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}

#[test]
fn a_step_keeps_every_byte_of_the_request_before_but_its_mark_and_end() {
    let input = raw("{}");
    let mut messages = vec![encode::message(&Message::user("go"), FROM)];
    let mut before = sent(&request(Model::new("m", 1000, 50), messages.clone()));
    let tail = r#","cache_control":{"type":"ephemeral"}}]}]}"#;
    for step in 0..20 {
        let thought =
            Thought { text: "hm".into(), block: Some(Block { from: FROM.into(), raw: raw(r#"{"s":"+/="}"#) }) };
        let call = CallRef { id: "c", tool: "read", input: &input };
        messages.push(encode::message(&Message::Assistant(vec![Said::Thought(&thought), Said::Call(call)]), FROM));
        let output = format!("result {step}");
        let result =
            ResultRef { call: "c", tool: "read", output: &output, failed: false, files: Vec::new(), shows: &[] };
        messages.push(encode::message(&Message::Results(vec![result]), FROM));
        let now = sent(&request(Model::new("m", 1000, 50), messages.clone()));
        assert!(before.ends_with(tail) && now.matches("cache_control").count() == 2, "{now}");
        assert_eq!(common(&before, &now), before.len() - tail.len());
        before = now;
    }
}

#[test]
fn many_results_at_once_are_marked_where_the_server_looks_for_them() {
    let results = |count: usize| {
        let result = |_| ResultRef {
            call: "c",
            tool: "read",
            output: r#"{"type":"tool_result",} x"#,
            failed: false,
            files: Vec::new(),
            shows: &[],
        };
        encode::message(&Message::Results((0..count).map(result).collect()), FROM)
    };
    let said = encode::message(&Message::Assistant(vec![Said::Text("calls")]), FROM);
    let marks = |newest: Bytes| {
        let messages = vec![encode::message(&Message::user("go"), FROM), said.clone(), newest];
        let body: Value = serde_json::from_str(&sent(&request(Model::new("m", 1000, 50), messages))).unwrap();
        let marked =
            |message: &Value| message["content"].as_array().unwrap().last().unwrap()["cache_control"].is_object();
        body["messages"].as_array().unwrap().iter().map(marked).collect::<Vec<_>>()
    };
    assert_eq!(marks(results(8)), [false, false, true]);
    assert_eq!(marks(results(9)), [true, false, true]);
    assert_eq!(marks(said.clone()), [false, false, false], "an answer is never marked");
}

fn provider(fake: &FakeModel) -> Anthropic {
    let endpoint = Endpoint { key: KEY.into(), auth: Auth::Header("x-api-key"), ..Endpoint::at(fake.origin()) };
    Anthropic::new(endpoint)
}

async fn ask(provider: &Anthropic) -> Result<crate::Reply, Error> {
    let cost = Cost { input: 1_000_000.0, output: 0.0, cache_read: None, cache_write: None };
    let model = Model { cost: Some(cost), ..Model::new("test", 10_000, 100) };
    provider.stream(request(model, vec![provider.encode(&Message::user("hi"))]), &mut |_| {}).await
}

#[tokio::test]
async fn a_request_carries_key_version_and_length_and_its_answer_has_a_price() {
    let fake = FakeModel::scripted(|_| {
        testkit::Reply::text("hello there").thinking("hm").and_calls([("list", json!({ "path": "." }))]).usage(7, 3)
    });
    let reply = ask(&provider(&fake)).await;
    insta::assert_snapshot!(noted(&reply), @r#"
    thought: hm [{"type":"thinking","thinking":"hm","signature":"Seal+/2=="}]
    text: hello there
    call: list {"path":"."} (wire_0)
    end: ToolCalls, in 7 cached 0 out 3, $7
    "#);
    let received = fake.last().unwrap();
    let header = |name: &str| received.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    assert_eq!(received.path, "/v1/messages");
    assert_eq!((header("x-api-key").as_str(), header("authorization").as_str()), (KEY, ""));
    assert_eq!(header("anthropic-version"), "2023-06-01");
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
async fn refusals_over_http() {
    use testkit::Reply;
    let asked = async |reply: Reply| {
        let fake = FakeModel::start();
        fake.push(reply);
        let noted = noted(&ask(&provider(&fake)).await).replace(&fake.address().to_string(), "HOST");
        assert!(!noted.contains("sk-do-not"), "{noted}");
        noted
    };
    let error = |kind: &str, message: &str| {
        format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"req_1"}}"#)
    };
    insta::assert_snapshot!(asked(Reply::raw(401, error("authentication_error", &format!("invalid x-api-key {KEY}")))).await, @"error: the model's server refused the key: HTTP 401: invalid x-api-key ***");
    insta::assert_snapshot!(asked(Reply::raw(404, error("not_found_error", "model: test"))).await, @"error: the model's server refused the request: HTTP 404: model: test");
    insta::assert_snapshot!(asked(Reply::raw(413, error("request_too_large", "Request exceeds the maximum size"))).await, @"error: the conversation no longer fits the model's context: HTTP 413: Request exceeds the maximum size");
    insta::assert_snapshot!(asked(Reply::raw(529, error("overloaded_error", "Overloaded"))).await, @"error: the model's server failed: HTTP 529: Overloaded");
    insta::assert_snapshot!(asked(Reply::raw(200, "<html>log in</html>").content_type("text/html")).await, @"error: the model's server sent something that is not a reply: a web page: <html>log in</html>");
    insta::assert_snapshot!(asked(Reply::text("hello world").dies_after(3)).await, @"error: http://HOST broke off in mid-answer");
    insta::assert_snapshot!(asked(Reply::deltas([""; 0]).finish("refusal")).await, @"error: the model declined to answer: it gave no answer");
}
