//! Recorded-like answers replayed through the reader, and the whole wire over real HTTP against the fake model.

use super::OpenAiChat;
use super::answer::Answer;
use crate::wire::testing::{check_every_cut, check_linear, noted};
use crate::wire::{Endpoint, testing};
use crate::{Delta, Error, Message, Model, Provider, Reply, Request};
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::{FakeModel, Gate, Received};

const KEY: &str = "sk-do-not-show-me-0123456789";

fn fixture(name: &str) -> Vec<u8> {
    testing::fixture("openai_chat", name)
}

fn replay(chunks: impl IntoIterator<Item = impl AsRef<[u8]>>) -> (Vec<Delta>, Result<Reply, Error>) {
    testing::replay::<Answer>(chunks)
}

fn played(name: &str) -> String {
    noted(&replay([fixture(name)]).1)
}

#[test]
fn text_and_usage_without_what_was_cached() {
    insta::assert_snapshot!(played("text.sse"), @r"
    text: Hello, wörld 🙂
    end: Stop, in 20 cached 100 out 9, $0
    ");
}

#[test]
fn deltas_are_shown_as_they_come() {
    let (deltas, _) = replay([fixture("text.sse")]);
    assert_eq!(deltas, [Delta::Text("Hello".into()), Delta::Text(", wörld 🙂".into())]);
}

#[test]
fn parallel_calls_are_put_together_by_their_index() {
    insta::assert_snapshot!(played("parallel_calls.sse"), @r#"
    thought: two files
    text: Reading both.
    call: read {"filePath": "a.txt"} (a)
    call: read {"filePath": "b.txt"} (b)
    end: ToolCalls, in 0 cached 0 out 0, $0
    "#);
}

#[test]
fn thoughts_in_details_are_put_together_and_kept_with_their_signature() {
    insta::assert_snapshot!(played("reasoning_details.sse"), @r#"
    thought: First thought. [[{"type":"reasoning.text","text":"First thought.","format":"x-v1","index":0,"signature":"Sig+/=="},{"type":"reasoning.encrypted","data":"AbC=","id":"r1","index":1}]]
    text: Done.
    end: Stop, in 0 cached 0 out 0, $0
    "#);
}

#[test]
fn calls_without_an_index_are_told_apart_by_id_and_name() {
    insta::assert_snapshot!(played("calls_without_index.sse"), @r#"
    call: read {"x":1} (a)
    call: list {} (b)
    call: glob {"pattern":"*"} (no id)
    end: ToolCalls, in 0 cached 0 out 0, $0
    "#);
}

#[test]
fn calls_that_all_claim_to_be_the_first_are_told_apart_by_id() {
    insta::assert_snapshot!(played("calls_all_numbered_zero.sse"), @r#"
    call: read {"n":1} (a)
    call: read {"n":2} (b)
    end: ToolCalls, in 0 cached 0 out 0, $0
    "#);
}

#[test]
fn a_call_in_the_oldest_form_is_understood() {
    insta::assert_snapshot!(played("legacy_function.sse"), @r#"
    call: read {"a":1} (no id)
    end: ToolCalls, in 0 cached 0 out 0, $0
    "#);
}

#[test]
fn a_whole_answer_is_understood_where_a_stream_was_asked_for() {
    insta::assert_snapshot!(played("whole_answer.json"), @r"
    thought: greet
    text: Hi.
    call: list {} (a)
    end: ToolCalls, in 5 cached 0 out 2, $0
    ");
}

#[test]
fn strange_events_fields_line_ends_and_choices_are_passed_over() {
    insta::assert_snapshot!(played("strange_company.sse"), @r"
    thought: hm
    text: ABC
    end: Stop, in 3 cached 0 out 1, $0.25
    ");
}

#[test]
fn a_finished_answer_needs_no_closing_words() {
    insta::assert_snapshot!(played("no_done.sse"), @r"
    text: Enough.
    end: Length, in 0 cached 0 out 0, $0
    ");
    insta::assert_snapshot!(played("no_finish_reason.sse"), @r"
    text: Enough.
    end: Stop, in 0 cached 0 out 0, $0
    ");
}

#[test]
fn what_is_not_utf8_is_replaced() {
    insta::assert_snapshot!(played("invalid_utf8.sse"), @"
    text: caf�
    end: Stop, in 0 cached 0 out 0, $0
    ");
}

#[test]
fn what_is_no_answer_is_told_as_what_it_looks_like() {
    insta::assert_snapshot!(played("error_in_stream.sse"), @"error: the conversation no longer fits the model's context: the context window is full");
    insta::assert_snapshot!(played("broke_off.sse"), @"error: the model's server broke off in mid-answer");
    insta::assert_snapshot!(played("broke_off_in_a_line.sse"), @"error: the model's server broke off in mid-answer");
    insta::assert_snapshot!(played("not_json.sse"), @"error: the model's server sent something that is not a reply: key must be a string at line 1 column 2 in `{oops`");
    insta::assert_snapshot!(played("page.html"), @"error: the model's server sent something that is not a reply: a web page: <!DOCTYPE html> <html><head><title>Welcome</title></head><body>hi</body></html>");
    insta::assert_snapshot!(played("words.txt"), @"error: the model's server sent something that is not a reply: `upstream connect error or disconnect/reset before headers`");
    insta::assert_snapshot!(played("empty.sse"), @"error: the model's server sent something that is not a reply: an empty answer");
    insta::assert_snapshot!(played("only_done.sse"), @"error: the model's server sent something that is not a reply: `data: [DONE]`");
    insta::assert_snapshot!(played("whole_error.json"), @"error: the model's server failed in mid-answer: model requires more system memory");
}

#[test]
fn an_argument_in_single_bytes_costs_its_length() {
    check_linear::<Answer>(
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"write","arguments":""}}]}}]}"#,
        ],
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"x"}}]}}]}"#,
        &["[DONE]"],
    );
}

#[test]
fn calls_without_end_are_refused() {
    let endless = (0..5_000).map(|n| {
        format!("data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":{n},\"function\":{{\"name\":\"x\"}}}}]}}}}]}}\n\n")
    });
    assert!(matches!(replay(endless).1, Err(Error::Garbage(message)) if message.contains("1000 tool calls")));
}

#[test]
fn where_the_bytes_are_cut_does_not_matter() {
    let names = [
        "text.sse",
        "parallel_calls.sse",
        "strange_company.sse",
        "reasoning_details.sse",
        "whole_answer.json",
        "invalid_utf8.sse",
        "page.html",
    ];
    names.into_iter().for_each(|name| check_every_cut::<Answer>("openai_chat", name));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), name in prop::sample::select(vec!["text.sse", "parallel_calls.sse"]), at in 0usize..500) {
        let mut spoilt = fixture(name);
        let at = at.min(spoilt.len());
        spoilt.splice(at..at, bytes.iter().copied());
        let _ = replay(spoilt.chunks(7));
        let _ = replay([bytes]);
    }
}

fn provider(base_url: String) -> OpenAiChat {
    let headers = BTreeMap::from([("X-Extra".to_owned(), "extra-secret-value".to_owned())]);
    OpenAiChat::new(Endpoint { key: KEY.into(), headers, ..Endpoint::at(base_url) })
}

fn request(provider: &dyn Provider, prompt: &str) -> Request {
    let model = Model::new("test", 10_000, 100);
    let messages = vec![provider.encode(&Message::user(prompt))];
    Request {
        model,
        system: "be brief".into(),
        tools: Bytes::new(),
        messages,
        temperature: None,
        top_p: None,
        options: serde_json::Map::new(),
    }
}

async fn ask(provider: &OpenAiChat) -> Result<Reply, Error> {
    provider.stream(request(provider, "hi"), &mut |_| {}).await
}

/// What a person would see when the server answers so.
async fn asked(reply: testkit::Reply) -> String {
    let fake = FakeModel::start();
    fake.push(reply);
    let provider = provider(fake.base_url()).stall(Duration::from_secs(20));
    let noted = noted(&ask(&provider).await).replace(&fake.address().to_string(), "HOST");
    assert!(!noted.contains("sk-do-not"), "{noted}");
    noted
}

#[tokio::test]
async fn a_request_carries_key_headers_length_and_body() {
    let fake = FakeModel::scripted(|_: &Received| testkit::Reply::text("hello there").thinking("hm").usage(7, 3));
    let reply = ask(&provider(fake.base_url())).await;
    insta::assert_snapshot!(noted(&reply), @"
    thought: hm
    text: hello there
    end: Stop, in 7 cached 0 out 3, $0
    ");
    let received = fake.last().unwrap();
    let header = |name: &str| received.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    assert_eq!(received.path, "/v1/chat/completions");
    assert_eq!(header("authorization"), format!("Bearer {KEY}"));
    assert_eq!(header("x-extra"), "extra-secret-value");
    assert_eq!(header("content-length"), received.raw.len().to_string());
    assert_eq!(header("transfer-encoding"), "");
    assert_eq!((received.last("system"), received.last("user")), (Some("be brief".into()), Some("hi".into())));
}

#[tokio::test]
async fn a_server_that_does_not_count_is_estimated() {
    let fake = FakeModel::start();
    let reply = ask(&provider(fake.base_url())).await.unwrap();
    assert!(reply.usage.input > 5 && reply.usage.output > 0, "{:?}", reply.usage);
}

#[tokio::test]
async fn one_connection_serves_many_steps() {
    let fake = FakeModel::start();
    let provider = provider(fake.base_url());
    for _ in 0..5 {
        ask(&provider).await.unwrap();
    }
    assert_eq!((fake.count(), fake.connections()), (5, 1));
}

#[tokio::test]
async fn a_large_history_arrives_as_it_was() {
    let fake = FakeModel::start();
    let provider = provider(fake.base_url());
    let mut request = request(&provider, "hi");
    let long = "x".repeat(100_000);
    let texts: Vec<String> = (0..500).map(|n| format!("{n} {}", if n % 50 == 0 { &long } else { "short" })).collect();
    request.messages = texts.iter().map(|text| provider.encode(&Message::user(text))).collect();
    provider.stream(request, &mut |_| {}).await.unwrap();
    let body = fake.last().unwrap().body();
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 501);
    assert!(messages[1..].iter().zip(&texts).all(|(message, text)| message["content"] == **text));
}

#[tokio::test]
async fn deltas_are_seen_before_the_answer_ends() {
    let fake = FakeModel::start();
    let gate = Gate::new();
    fake.push(testkit::Reply::deltas(["one", "two"]).gated(gate.clone()));
    let provider = provider(fake.base_url());
    let mut seen = Vec::new();
    gate.release();
    let reply = provider
        .stream(request(&provider, "hi"), &mut |delta| {
            // Each piece lets the next one go: if they were kept back, this would never end.
            seen.push(delta);
            gate.open();
        })
        .await;
    assert_eq!(seen, [Delta::Text("one".into()), Delta::Text("two".into())]);
    assert!(reply.is_ok());
}

#[tokio::test]
async fn dropping_the_future_ends_the_request() {
    let fake = FakeModel::start();
    fake.push(testkit::Reply::endless_line());
    let provider = provider(fake.base_url());
    // Dropped as soon as the server has begun to answer.
    tokio::select! {
        _ = ask(&provider) => {}
        () = fake.wait_for(1) => {}
    }
    // The next one does not wait behind it.
    ask(&provider).await.unwrap();
}

#[tokio::test]
async fn refusals_over_http() {
    use testkit::Reply;
    let body = format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}"}}}}"#);
    insta::assert_snapshot!(asked(Reply::raw(401, body)).await, @"error: the model's server refused the key: HTTP 401: Incorrect API key provided: ***");
    insta::assert_snapshot!(asked(Reply::raw(429, "slow down").header("retry-after", "2")).await, @"error: the model's server asks to wait: HTTP 429: slow down");
    insta::assert_snapshot!(asked(Reply::raw(404, r#"{"error":{"message":"no model `test`"}}"#)).await, @"error: the model's server refused the request: HTTP 404: no model `test`");
    insta::assert_snapshot!(asked(Reply::raw(400, r#"{"error":{"code":"context_length_exceeded","message":"too long"}}"#)).await, @"error: the conversation no longer fits the model's context: HTTP 400: too long");
    insta::assert_snapshot!(asked(Reply::raw(502, "<h1>Bad Gateway</h1>")).await, @"error: the model's server failed: HTTP 502: <h1>Bad Gateway</h1>");
    insta::assert_snapshot!(asked(Reply::raw(302, "").header("location", "http://example.com/")).await, @"error: the model's server refused the request: HTTP 302 (redirects are not followed, so that the key stays with `base_url`)");
}

#[tokio::test]
async fn broken_answers_over_http() {
    use testkit::Reply;
    insta::assert_snapshot!(asked(Reply::garbage()).await, @r#"error: the model's server sent something that is not a reply: key must be a string at line 1 column 15 in `{"choices": [{�� oops`"#);
    insta::assert_snapshot!(asked(Reply::endless_line()).await, @"error: the model's server sent something that is not a reply: an event is longer than 8388608 bytes");
    insta::assert_snapshot!(asked(Reply::text("hello world").dies_after(2)).await, @"error: http://HOST broke off in mid-answer");
    insta::assert_snapshot!(asked(Reply::text("hello world").dies_after(0)).await, @"error: http://HOST broke off in mid-answer");
    insta::assert_snapshot!(asked(Reply::raw(200, "")).await, @"error: the model's server sent something that is not a reply: an empty answer");
    insta::assert_snapshot!(asked(Reply::raw(200, "<html>log in</html>").content_type("text/html")).await, @"error: the model's server sent something that is not a reply: a web page: <html>log in</html>");
}

#[tokio::test]
async fn a_connection_lost_after_the_end_is_no_loss() {
    let said = asked(testkit::Reply::deltas(["all of it"]).usage(1, 1).dies_after(3)).await;
    assert!(said.starts_with("text: all of it"), "{said}");
}

#[tokio::test]
async fn a_server_that_falls_silent_is_given_up() {
    let fake = FakeModel::start();
    let gate = Gate::new();
    gate.release();
    fake.push(testkit::Reply::deltas(["one", "two"]).gated(gate));
    let provider = provider(fake.base_url()).stall(Duration::from_millis(200));
    let error = ask(&provider).await.unwrap_err();
    assert!(matches!(&error, Error::Network(message) if message.ends_with("sent nothing for 0.2 s")), "{error}");
}

/// A server that answers with this head and then drips these bytes for ever.
fn dripping(head: &'static str, drop: &'static str) -> String {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 16_384]);
        let _ = write!(stream, "HTTP/1.1 {head}\r\n\r\n");
        while stream.write_all(drop.as_bytes()).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    format!("http://{address}/v1")
}

#[tokio::test]
async fn a_server_that_only_keeps_the_connection_open_is_given_up() {
    const STREAM: &str = "200 OK\r\ncontent-type: text/event-stream";
    for (head, drop, words) in [
        (STREAM, ": still thinking\n\n", "without going on"),
        (STREAM, "event: ping\ndata: {\"type\": \"ping\"}\n\n", "without going on"),
        (STREAM, "data: {\"type\":\"ping\"}\n\n", "without going on"),
        (STREAM, "data:\n\n", "without going on"),
        (STREAM, "\n", "without going on"),
        ("200 OK\r\ncontent-type: application/json", " ", "without going on"),
        ("500 Broken", "x", "HTTP 500"),
        ("429 Slow", "{", "HTTP 429"),
    ] {
        let provider = provider(dripping(head, drop)).stall(Duration::from_millis(100));
        let error = ask(&provider).await.unwrap_err().to_string();
        assert!(error.contains(words), "{head} {drop}: {error}");
    }
}

#[tokio::test]
async fn a_server_that_drips_its_answer_is_given_up_after_its_whole_time() {
    let word = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
    let url = dripping("200 OK\r\ncontent-type: text/event-stream", word);
    let error = ask(&provider(url).stall(Duration::from_millis(30))).await.unwrap_err();
    assert!(matches!(&error, Error::Network(_)), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let fake = FakeModel::start();
    let (base_url, address) = (fake.base_url(), fake.address());
    drop(fake);
    let error = ask(&provider(base_url)).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot connect to http://{address}: ")), "{error}");
    assert!(error.to_lowercase().contains("refused"), "{error}");
}

#[tokio::test]
async fn the_other_name_of_the_limit_is_learnt_once() {
    let fake = FakeModel::scripted(|received| match received.body()["max_tokens"].is_null() {
        true => testkit::Reply::text("fine"),
        false => testkit::Reply::raw(400, r#"{"error":{"message":"use 'max_completion_tokens' instead"}}"#),
    });
    let provider = provider(fake.base_url());
    ask(&provider).await.unwrap();
    ask(&provider).await.unwrap();
    assert_eq!(fake.count(), 3);
    assert_eq!(fake.last().unwrap().body()["max_completion_tokens"], 100);
}
