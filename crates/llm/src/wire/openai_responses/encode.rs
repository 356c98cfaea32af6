//! Our messages as Responses items, and a request made of them.

use crate::wire::body::Pieces;
use crate::wire::files::{self, Shown};
use crate::wire::json::{arguments, json, with_options};
use crate::{Effort, FileRef, Message, Request, ResultRef, Said, ToolSpec};
use bytes::Bytes;
use proto::entry::Block;
use serde::Serialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// So that thoughts can be sent back without being kept by the server.
const THOUGHTS: &[&str] = &["reasoning.encrypted_content"];

pub(super) fn message(message: &Message<'_>, own: &str) -> Bytes {
    match message {
        Message::User { text, files } => json(&Item::Message { role: "user", content: shows(text, files) }),
        Message::Assistant(said) => assistant(said, own),
        Message::Results(results) => joined(results.iter().map(result)),
    }
}

fn shows<'a>(text: &'a str, files: &'a [FileRef<'a>]) -> Vec<Content<'a>> {
    let mut content = Vec::with_capacity(files.len() + 1);
    if !text.trim().is_empty() || files.is_empty() {
        content.push(Content::InputText { text: text.into() });
    }
    content.extend(files.iter().map(|file| match files::shown(file) {
        Shown::Image => Content::InputImage { image_url: files::data_url(file) },
        Shown::Pdf => Content::InputFile { filename: file.name, file_data: files::data_url(file) },
        Shown::Words(text) => Content::InputText { text },
    }));
    content
}

/// One item for each thing said, in order; what others wrote for themselves is left out.
fn assistant(said: &[Said<'_>], own: &str) -> Bytes {
    let ours = |block: &Block| (block.from == own).then(|| Bytes::copy_from_slice(block.raw.get().as_bytes()));
    let spoken = |text: &str| {
        json(&Item::Message { role: "assistant", content: vec![Content::OutputText { text: Cow::Borrowed(text) }] })
    };
    let items: Vec<Bytes> = said
        .iter()
        .filter_map(|part| match part {
            Said::Text("") => None,
            Said::Text(text) => Some(spoken(text)),
            Said::Thought(thought) => thought.block.as_ref().and_then(ours),
            Said::Block(block) => ours(block),
            Said::Call(call) => {
                Some(json(&Item::FunctionCall { call_id: call.id, name: call.tool, arguments: arguments(call.input) }))
            }
        })
        .collect();
    // A request's list has no room for nothing.
    if items.is_empty() { spoken("") } else { joined(items) }
}

fn result(result: &ResultRef<'_>) -> Bytes {
    let output = match &result.files[..] {
        [] => Brought::Told(result.output),
        files => Brought::Shown(shows(result.output, files)),
    };
    json(&Item::FunctionCallOutput { call_id: result.call, output })
}

fn joined(items: impl IntoIterator<Item = Bytes>) -> Bytes {
    let items: Vec<Bytes> = items.into_iter().collect();
    Bytes::from(items.join(&b","[..]))
}

pub(super) fn tools(tools: &[ToolSpec]) -> Bytes {
    if tools.is_empty() {
        return Bytes::new();
    }
    json(&tools.iter().map(Tool::new).collect::<Vec<_>>())
}

/// The whole request. The history is referred to, not copied, and comes last: all before it is the same in every step.
pub(super) fn request(request: &Request, thoughts: bool) -> Pieces {
    let mut pieces = Pieces::with_capacity(2 * request.messages.len() + 7);
    let options = with_options(&Options::new(request, thoughts), &request.options);
    pieces.push(options.slice(..options.len() - 1));
    if !request.tools.is_empty() {
        pieces.push(Bytes::from_static(b",\"tools\":"));
        pieces.push(request.tools.clone());
    }
    pieces.push(Bytes::from_static(b",\"input\":["));
    pieces.list(&request.messages);
    pieces.push(Bytes::from_static(b"]}"));
    pieces
}

#[derive(Serialize)]
struct Options<'a> {
    model: &'a str,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    include: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
}

#[derive(Serialize)]
struct Reasoning {
    effort: &'static str,
}

impl<'a> Options<'a> {
    fn new(request: &'a Request, thoughts: bool) -> Self {
        let model = &request.model;
        Self {
            model: &model.name,
            stream: true,
            store: false,
            include: if thoughts { THOUGHTS } else { &[] },
            reasoning: model.effort.map(|effort| Reasoning { effort: Effort::as_str(effort) }),
            max_output_tokens: (model.output > 0).then_some(model.output),
            temperature: request.temperature(),
            top_p: request.top_p(),
            instructions: &request.system,
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message { role: &'static str, content: Vec<Content<'a>> },
    FunctionCall { call_id: &'a str, name: &'a str, arguments: String },
    FunctionCallOutput { call_id: &'a str, output: Brought<'a> },
}

/// What a call brought: words, or something to look at as well.
#[derive(Serialize)]
#[serde(untagged)]
enum Brought<'a> {
    Told(&'a str),
    Shown(Vec<Content<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    InputText { text: Cow<'a, str> },
    InputImage { image_url: String },
    InputFile { filename: &'a str, file_data: String },
    OutputText { text: Cow<'a, str> },
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
    strict: bool,
}

impl<'a> Tool<'a> {
    fn new(spec: &'a ToolSpec) -> Self {
        let ToolSpec { name, description, schema, .. } = spec;
        // Strict mode wants schemas in which everything is required.
        Self { r#type: "function", name, description, parameters: schema, strict: false }
    }
}
