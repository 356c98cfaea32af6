//! Our messages as Chat Completions JSON, and a request made of them.

use crate::wire::body::Pieces;
use crate::{CallRef, Message, Request, ToolSpec};
use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

/// What the server calls the limit on an answer's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitName {
    MaxTokens,
    /// What newer models of the first vendor insist on, and most other servers do not know.
    MaxCompletionTokens,
}

pub(super) fn message(message: &Message<'_>) -> Bytes {
    match message {
        Message::User { text } => json(&Plain { role: "user", content: text }),
        Message::Assistant { text, calls } if calls.is_empty() => json(&Plain { role: "assistant", content: text }),
        Message::Assistant { text, calls } => {
            let content = (!text.is_empty()).then_some(*text);
            let arguments: Vec<String> = calls.iter().map(|call| arguments(call.input)).collect();
            let tool_calls = calls.iter().zip(&arguments).map(|(call, arguments)| Call::new(call, arguments)).collect();
            json(&Calling { role: "assistant", content, tool_calls })
        }
        Message::Result { call, output, .. } => json(&Answer { role: "tool", tool_call_id: call, content: output }),
    }
}

/// As they stand in a request.
pub(super) fn join(messages: &[Bytes]) -> Bytes {
    Bytes::from(messages.join(&b","[..]))
}

pub(super) fn tools(tools: &[ToolSpec]) -> Bytes {
    if tools.is_empty() {
        return Bytes::new();
    }
    let tools: Vec<Tool<'_>> = tools.iter().map(Tool::new).collect();
    json(&tools)
}

/// The whole request. The history is referred to, not copied.
pub(super) fn request(request: &Request, limit: LimitName) -> Pieces {
    let mut pieces = Pieces::with_capacity(2 * request.messages.len() + 5);
    let options = json(&Options::new(request, limit));
    pieces.push(options.slice(..options.len() - 1));
    pieces.push(Bytes::from_static(b",\"messages\":["));
    let mut comma = false;
    if !request.system.is_empty() {
        pieces.push(json(&Plain { role: "system", content: &request.system }));
        comma = true;
    }
    for message in &request.messages {
        if std::mem::replace(&mut comma, true) {
            pieces.push(Bytes::from_static(b","));
        }
        pieces.push(message.clone());
    }
    pieces.push(Bytes::from_static(b"]"));
    if !request.tools.is_empty() {
        pieces.push(Bytes::from_static(b",\"tools\":"));
        pieces.push(request.tools.clone());
    }
    pieces.push(Bytes::from_static(b"}"));
    pieces
}

#[derive(Serialize)]
struct Options<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

impl<'a> Options<'a> {
    fn new(request: &'a Request, limit: LimitName) -> Self {
        // A model whose limit nobody knows is left to its server's own.
        let output = (request.model.output > 0).then_some(request.model.output);
        Self {
            model: &request.model.name,
            stream: true,
            stream_options: StreamOptions { include_usage: true },
            max_tokens: output.filter(|_| limit == LimitName::MaxTokens),
            max_completion_tokens: output.filter(|_| limit == LimitName::MaxCompletionTokens),
            temperature: request.temperature,
            top_p: request.top_p,
        }
    }
}

#[derive(Serialize)]
struct Plain<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct Calling<'a> {
    role: &'static str,
    content: Option<&'a str>,
    tool_calls: Vec<Call<'a>>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

impl<'a> Call<'a> {
    fn new(call: &CallRef<'a>, arguments: &'a str) -> Self {
        Self { id: call.id, r#type: "function", function: Function { name: call.tool, arguments } }
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    role: &'static str,
    tool_call_id: &'a str,
    content: &'a str,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Described<'a>,
}

#[derive(Serialize)]
struct Described<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
}

impl<'a> Tool<'a> {
    fn new(spec: &'a ToolSpec) -> Self {
        let function = Described { name: &spec.name, description: &spec.description, parameters: &spec.schema };
        Self { r#type: "function", function }
    }
}

/// The raw text of the input. Servers that put it through a template insist on an object, so what a model once sent that
/// was none is wrapped in one.
fn arguments(input: &RawValue) -> String {
    let raw = input.get();
    if raw.trim_start().starts_with('{') { raw.to_owned() } else { format!("{{\"input\":{raw}}}") }
}

fn json(value: &impl Serialize) -> Bytes {
    Bytes::from(serde_json::to_vec(value).expect("strings, numbers and raw JSON always serialise"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Model;
    use serde_json::{Value, json};

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn parsed(bytes: &Bytes) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    fn sample(messages: Vec<Bytes>, tools: Bytes) -> Request {
        let model = Model { name: "m".into(), context: 1000, output: 50 };
        Request { model, system: "be brief".into(), tools, messages, temperature: Some(0.5), top_p: None }
    }

    fn sent(request: &Request, limit: LimitName) -> Value {
        let pieces = super::request(request, limit);
        let length = pieces.len();
        let bytes = pieces.into_body();
        let bytes = futures_util::FutureExt::now_or_never(collect(bytes)).unwrap();
        assert_eq!(bytes.len(), length);
        serde_json::from_slice(&bytes).unwrap()
    }

    async fn collect(body: reqwest::Body) -> Vec<u8> {
        let response = reqwest::Response::from(http::Response::new(body));
        response.bytes().await.unwrap().to_vec()
    }

    #[test]
    fn a_call_carries_its_input_as_the_text_it_was() {
        let input = raw(r#"{"path":  "a\"b", "n": 1.50}"#);
        let calls = vec![CallRef { id: "c1", tool: "read", input: &input }];
        let bytes = message(&Message::Assistant { text: "", calls });
        let value = parsed(&bytes);
        assert_eq!(value["content"], Value::Null);
        assert_eq!(value["tool_calls"][0]["id"], "c1");
        assert_eq!(value["tool_calls"][0]["function"]["arguments"], input.get());
    }

    #[test]
    fn an_input_that_is_no_object_is_wrapped_in_one() {
        assert_eq!(arguments(&raw(r#""{broken""#)), r#"{"input":"{broken"}"#);
    }

    #[test]
    fn a_result_names_its_call() {
        let bytes = message(&Message::Result { call: "c1", tool: "read", output: "x\ny", failed: true });
        assert_eq!(parsed(&bytes), json!({ "role": "tool", "tool_call_id": "c1", "content": "x\ny" }));
    }

    #[test]
    fn a_request_is_its_fragments_in_order() {
        let user = message(&Message::User { text: "hi" });
        let said = message(&Message::Assistant { text: "hello", calls: vec![] });
        let spec = ToolSpec { name: "read".into(), description: "reads".into(), schema: raw(r#"{"type":"object"}"#) };
        let request = sample(vec![user, said], tools(&[spec]));
        insta::assert_snapshot!(sent(&request, LimitName::MaxTokens), @r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":50,"temperature":0.5,"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}],"tools":[{"type":"function","function":{"name":"read","description":"reads","parameters":{"type":"object"}}}]}"#);
    }

    #[test]
    fn joined_messages_are_sent_as_the_same_bytes() {
        let messages: Vec<Bytes> = ["a", "b", "c"].map(|text| message(&Message::User { text })).into();
        let joined = vec![join(&messages[..2]), messages[2].clone()];
        let bytes = |messages| {
            let body = request(&sample(messages, Bytes::new()), LimitName::MaxTokens).into_body();
            futures_util::FutureExt::now_or_never(collect(body)).unwrap()
        };
        assert_eq!(bytes(joined), bytes(messages));
    }

    #[test]
    fn what_is_empty_is_left_out() {
        let mut request = sample(vec![], tools(&[]));
        request.system.clear();
        request.model.output = 0;
        let value = sent(&request, LimitName::MaxTokens);
        assert_eq!(value["messages"], json!([]));
        assert!(value.get("tools").is_none() && value.get("max_tokens").is_none());
    }

    #[test]
    fn the_limit_has_another_name_where_the_server_wants_it() {
        let value = sent(&sample(vec![], Bytes::new()), LimitName::MaxCompletionTokens);
        assert_eq!((value.get("max_tokens"), &value["max_completion_tokens"]), (None, &json!(50)));
    }
}
