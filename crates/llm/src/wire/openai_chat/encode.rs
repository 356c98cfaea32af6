//! Our messages as Chat Completions JSON, and a request made of them.

use crate::wire::body::Pieces;
use crate::wire::files::{self, Shown};
use crate::wire::json::{arguments, json, with_options};
use crate::{CallRef, Effort, FileRef, Message, Request, ResultRef, Said, ToolSpec};
use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// What the server calls the limit on an answer's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitName {
    MaxTokens,
    /// What newer models of the first vendor insist on, and most other servers do not know.
    MaxCompletionTokens,
}

/// Whose thoughts go back to the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thoughts<'a> {
    /// Blocks with this mark.
    pub(super) own: &'a str,
    /// Plain thoughts too, as `reasoning_content`.
    pub(super) echo: bool,
}

const FROM_TOOLS: &str = "[notice from the runtime, not from a person] What the calls above brought to look at:";

pub(super) fn message(message: &Message<'_>, thoughts: Thoughts<'_>) -> Bytes {
    match message {
        Message::User { text, files } if files.is_empty() => json(&Plain { role: "user", content: text }),
        Message::User { text, files } => json(&Shows { role: "user", content: shows(text, files) }),
        Message::Assistant(said) => assistant(said, thoughts),
        Message::Results(results) => {
            let mut answers: Vec<Bytes> = results.iter().map(answer).collect();
            // A result is words here; what there is to look at comes right behind all of them.
            let files: Vec<FileRef<'_>> = results.iter().flat_map(|result| result.files.iter().cloned()).collect();
            if !files.is_empty() {
                answers.push(json(&Shows { role: "user", content: shows(FROM_TOOLS, &files) }));
            }
            Bytes::from(answers.join(&b","[..]))
        }
    }
}

fn answer(result: &ResultRef<'_>) -> Bytes {
    json(&Answer { role: "tool", tool_call_id: result.call, content: result.output })
}

fn assistant(said: &[Said<'_>], thoughts: Thoughts<'_>) -> Bytes {
    let mut text = String::new();
    let mut thought = String::new();
    let (mut calls, mut details) = (Vec::new(), None);
    for part in said {
        match part {
            Said::Text(words) => text.push_str(words),
            Said::Thought(part) => {
                thought.push_str(&part.text);
                details = details.or(part.block.as_ref().filter(|block| block.from == thoughts.own));
            }
            Said::Call(call) => calls.push((call, arguments(call.input))),
            Said::Block(_) => {}
        }
    }
    json(&Assistant {
        role: "assistant",
        content: (!text.is_empty() || calls.is_empty()).then_some(&text),
        reasoning_content: Some(thought).filter(|thought| thoughts.echo && !thought.is_empty()),
        reasoning_details: details.map(|block| &*block.raw),
        tool_calls: calls.iter().map(|(call, arguments)| Call::new(call, arguments)).collect(),
    })
}

fn shows<'a>(text: &'a str, files: &'a [FileRef<'a>]) -> Vec<Content<'a>> {
    let mut content = Vec::with_capacity(files.len() + 1);
    if !text.trim().is_empty() {
        content.push(Content::Text { text: text.into() });
    }
    content.extend(files.iter().map(|file| match files::shown(file) {
        Shown::Image => Content::ImageUrl { image_url: Url { url: files::data_url(file) } },
        Shown::Pdf => Content::File { file: Attached { filename: file.name, file_data: files::data_url(file) } },
        Shown::Words(text) => Content::Text { text },
    }));
    content
}

pub(super) fn tools(tools: &[ToolSpec]) -> Bytes {
    if tools.is_empty() {
        return Bytes::new();
    }
    let tools: Vec<Tool<'_>> = tools.iter().map(Tool::new).collect();
    json(&tools)
}

/// The whole request. The history is referred to, not copied, and comes last: all before it is the same in every step.
pub(super) fn request(request: &Request, limit: LimitName) -> Pieces {
    let mut pieces = Pieces::with_capacity(2 * request.messages.len() + 7);
    let options = with_options(&Options::new(request, limit), &request.options);
    pieces.push(options.slice(..options.len() - 1));
    if !request.tools.is_empty() {
        pieces.push(Bytes::from_static(b",\"tools\":"));
        pieces.push(request.tools.clone());
    }
    pieces.push(Bytes::from_static(b",\"messages\":["));
    let system = (!request.system.is_empty()).then(|| json(&Plain { role: "system", content: &request.system }));
    pieces.list(system.iter().chain(&request.messages));
    pieces.push(Bytes::from_static(b"]}"));
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
    reasoning_effort: Option<&'static str>,
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
            reasoning_effort: request.model.effort.map(Effort::as_str),
            temperature: request.temperature(),
            top_p: request.top_p(),
        }
    }
}

#[derive(Serialize)]
struct Plain<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Serialize)]
struct Shows<'a> {
    role: &'static str,
    content: Vec<Content<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: Url },
    File { file: Attached<'a> },
}

#[derive(Serialize)]
struct Url {
    url: String,
}

#[derive(Serialize)]
struct Attached<'a> {
    filename: &'a str,
    file_data: String,
}

#[derive(Serialize)]
struct Assistant<'a> {
    role: &'static str,
    content: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_details: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Model;
    use proto::entry::{Block, Thought};
    use serde_json::{Value, json};

    const PLAINLY: Thoughts<'_> = Thoughts { own: "us", echo: false };

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn parsed(bytes: &Bytes) -> Value {
        serde_json::from_slice(bytes).unwrap()
    }

    fn sample(messages: Vec<Bytes>, tools: Bytes) -> Request {
        let model = Model::new("m", 1000, 50);
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

    fn sent(request: &Request, limit: LimitName) -> Value {
        let pieces = super::request(request, limit);
        let length = pieces.len();
        let bytes = pieces.joined();
        assert_eq!(bytes.len(), length);
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn a_call_carries_its_input_as_the_text_it_was() {
        let input = raw(r#"{"path":  "a\"b", "n": 1.50}"#);
        let call = CallRef { id: "c1", tool: "read", input: &input };
        let bytes = message(&Message::Assistant(vec![Said::Call(call)]), PLAINLY);
        let value = parsed(&bytes);
        assert_eq!(value["content"], Value::Null);
        assert_eq!(value["tool_calls"][0]["id"], "c1");
        assert_eq!(value["tool_calls"][0]["function"]["arguments"], input.get());
    }

    #[test]
    fn results_name_their_calls() {
        let result =
            |call| ResultRef { call, tool: "read", output: "x\ny", failed: true, files: Vec::new(), shows: &[] };
        let bytes = message(&Message::Results(vec![result("c1"), result("c2")]), PLAINLY);
        let list: Value = serde_json::from_str(&format!("[{}]", str::from_utf8(&bytes).unwrap())).unwrap();
        let tool = |id: &str| json!({ "role": "tool", "tool_call_id": id, "content": "x\ny" });
        assert_eq!(list, json!([tool("c1"), tool("c2")]));
    }

    #[test]
    fn what_results_show_comes_behind_all_of_them() {
        let file = FileRef { name: "a.png", mime: "image/png", data: "AAAA" };
        let result = |call, files| ResultRef { call, tool: "read", output: "x", failed: false, files, shows: &[] };
        let bytes = message(&Message::Results(vec![result("c1", vec![file]), result("c2", Vec::new())]), PLAINLY);
        let list: Value = serde_json::from_str(&format!("[{}]", str::from_utf8(&bytes).unwrap())).unwrap();
        let roles: Vec<&str> = list.as_array().unwrap().iter().filter_map(|one| one["role"].as_str()).collect();
        assert_eq!(roles, ["tool", "tool", "user"]);
        assert_eq!(list[2]["content"][1]["image_url"]["url"], "data:image/png;base64,AAAA");
    }

    #[test]
    fn thoughts_go_back_only_where_they_are_wanted() {
        let details = raw(r#"[{"type":"reasoning.text","signature":"s+/="}]"#);
        let thought = Thought { text: "hm".into(), block: Some(Block { from: "us".into(), raw: details }) };
        let said = || Message::Assistant(vec![Said::Thought(&thought), Said::Text("hi")]);
        let sent = |own, echo| String::from_utf8(message(&said(), Thoughts { own, echo }).to_vec()).unwrap();
        assert_eq!(sent("others", false), r#"{"role":"assistant","content":"hi"}"#);
        assert_eq!(
            sent("us", false),
            r#"{"role":"assistant","content":"hi","reasoning_details":[{"type":"reasoning.text","signature":"s+/="}]}"#
        );
        assert_eq!(sent("others", true), r#"{"role":"assistant","content":"hi","reasoning_content":"hm"}"#);
    }

    #[test]
    fn files_are_shown_as_what_they_are() {
        let file = |name, mime, data| FileRef { name, mime, data };
        let files = vec![
            file("a.png", "image/png", "AAAA"),
            file("b.pdf", "application/pdf", "BBBB"),
            file("c.txt", "text/plain", "aGk="),
        ];
        let value = parsed(&message(&Message::User { text: "look", files }, PLAINLY));
        assert_eq!(
            value["content"],
            json!([
                { "type": "text", "text": "look" },
                { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } },
                { "type": "file", "file": { "filename": "b.pdf", "file_data": "data:application/pdf;base64,BBBB" } },
                { "type": "text", "text": "<file name=\"c.txt\">\nhi\n</file>" },
            ])
        );
    }

    #[test]
    fn a_request_is_its_fragments_in_order() {
        let user = message(&Message::user("hi"), PLAINLY);
        let said = message(&Message::Assistant(vec![Said::Text("hello")]), PLAINLY);
        let spec = ToolSpec {
            name: "read".into(),
            description: "reads".into(),
            schema: raw(r#"{"type":"object"}"#),
            deferred: false,
        };
        let request = sample(vec![user, said], tools(&[spec]));
        insta::assert_snapshot!(sent(&request, LimitName::MaxTokens), @r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":50,"temperature":0.5,"tools":[{"type":"function","function":{"name":"read","description":"reads","parameters":{"type":"object"}}}],"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}"#);
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
