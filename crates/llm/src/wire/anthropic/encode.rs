//! Our messages as Messages JSON, and a request made of them.
//!
//! A user's message ends with its content and an assistant's with its role: so the end of a piece tells whether a mark
//! for the cache can be set there (`marks`).

use super::marks;
use crate::wire::body::Pieces;
use crate::wire::files::{self, Shown};
use crate::wire::json::{arguments, json, with_options};
use crate::{FileRef, Message, Reasoning, Request, ResultRef, Said, ToolSpec};
use bytes::Bytes;
use proto::entry::Block;
use serde::Serialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The API wants a limit. For a model of which nobody knows one, what every model can.
const UNKNOWN_OUTPUT: u64 = 4_096;

/// The smallest number of tokens for thinking that is accepted.
const LEAST_BUDGET: u64 = 1_024;

/// The API refuses an empty text.
const NOTHING: &str = "(nothing)";

pub(super) fn message(message: &Message<'_>, own: &str) -> Bytes {
    match message {
        Message::User { text, files } => json(&User { role: "user", content: shows(text, files) }),
        Message::Assistant(said) => json(&Assistant { content: spoken(said, own), role: "assistant" }),
        Message::Results(results) => json(&User { role: "user", content: answers(results) }),
    }
}

fn shows<'a>(text: &'a str, files: &[FileRef<'a>]) -> Vec<Content<'a>> {
    shown(text, files).into_iter().map(Content::Ours).collect()
}

fn shown<'a>(text: &'a str, files: &[FileRef<'a>]) -> Vec<Ours<'a>> {
    let mut content: Vec<Ours<'a>> = files
        .iter()
        .map(|file| match files::shown(file) {
            Shown::Image => Ours::Image { source: Source::of(file) },
            Shown::Pdf => Ours::Document { source: Source::of(file), title: file.name },
            Shown::Words(text) => Ours::Text { text },
        })
        .collect();
    if !text.trim().is_empty() || content.is_empty() {
        content.push(Ours::Text { text: filled(text) });
    }
    content
}

/// What was said, without what others wrote for themselves.
fn spoken<'a>(said: &'a [Said<'a>], own: &str) -> Vec<Content<'a>> {
    let ours = |block: &'a Block| (block.from == own).then_some(Content::Raw(&block.raw));
    let mut content: Vec<Content<'a>> = said
        .iter()
        .filter_map(|part| match part {
            Said::Text(text) if text.trim().is_empty() => None,
            Said::Text(text) => Some(Content::Ours(Ours::Text { text: Cow::Borrowed(text) })),
            Said::Thought(thought) => thought.block.as_ref().and_then(ours),
            Said::Block(block) => ours(block),
            Said::Call(call) => {
                let input = RawValue::from_string(arguments(call.input)).expect("an object around JSON is JSON");
                Some(Content::Ours(Ours::ToolUse { id: plain(call.id), name: call.tool, input }))
            }
        })
        .collect();
    if content.is_empty() {
        content.push(Content::Ours(Ours::Text { text: NOTHING.into() }));
    }
    content
}

/// The results, and behind them what is said beside references: those stand alone in theirs.
fn answers<'a>(results: &[ResultRef<'a>]) -> Vec<Content<'a>> {
    let beside = |result: &&ResultRef<'a>| !result.shows.is_empty() && !result.output.trim().is_empty();
    let beside = results.iter().filter(beside).map(|result| Ours::Text { text: Cow::Borrowed(result.output) });
    results.iter().map(result).chain(beside).map(Content::Ours).collect()
}

fn result<'a>(result: &ResultRef<'a>) -> Ours<'a> {
    let said = Some(result.output).filter(|output| !output.trim().is_empty()).map(Answer::Said);
    let content = match result.shows {
        [] if !result.files.is_empty() => Some(Answer::Looks(shown(result.output, &result.files))),
        [] => said,
        tools => Some(Answer::Shows(tools.iter().map(|tool| Reference::ToolReference { tool_name: tool }).collect())),
    };
    Ours::ToolResult { tool_use_id: plain(result.call), content, is_error: result.failed }
}

fn filled(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(if text.trim().is_empty() { NOTHING } else { text })
}

/// An id as this API takes them; other wires allow more.
fn plain(id: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.chars().all(fits) { Cow::Borrowed(id) } else { id.chars().map(|c| if fits(c) { c } else { '_' }).collect() }
}

pub(super) fn tools(tools: &[ToolSpec]) -> Bytes {
    if tools.is_empty() {
        return Bytes::new();
    }
    json(&tools.iter().map(Tool::new).collect::<Vec<_>>())
}

/// The whole request. The history is referred to, not copied, and comes last: all before it is the same in every step.
pub(super) fn request(request: &Request) -> Pieces {
    let mut pieces = Pieces::with_capacity(2 * request.messages.len() + 9);
    let options = with_options(&Options::new(request), &request.options);
    pieces.push(options.slice(..options.len() - 1));
    if !request.tools.is_empty() {
        pieces.push(Bytes::from_static(b",\"tools\":"));
        pieces.push(request.tools.clone());
    }
    if !request.system.is_empty() {
        pieces.push(Bytes::from_static(b",\"system\":"));
        pieces.push(json(&[System { r#type: "text", text: &request.system, cache_control: marks::MARK }]));
    }
    pieces.push(Bytes::from_static(b",\"messages\":["));
    pieces.list(&marks::set(&request.messages));
    pieces.push(Bytes::from_static(b"]}"));
    pieces
}

#[derive(Serialize)]
struct Options<'a> {
    model: &'a str,
    max_tokens: u64,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Thinking {
    Enabled { budget_tokens: u64 },
    Adaptive,
}

#[derive(Serialize)]
struct OutputConfig {
    effort: &'static str,
}

impl<'a> Options<'a> {
    fn new(request: &'a Request) -> Self {
        let model = &request.model;
        let max_tokens = if model.output > 0 { model.output } else { UNKNOWN_OUTPUT };
        let thinking = match model.reasoning {
            Reasoning::None => None,
            Reasoning::Effort => model.effort.map(|_| Thinking::Adaptive),
            Reasoning::Budget => model.thinks_with().and_then(|tokens| budget(tokens, max_tokens)),
        };
        let effort = model.effort.filter(|_| model.reasoning == Reasoning::Effort);
        Self {
            model: &model.name,
            max_tokens,
            stream: true,
            output_config: effort.map(|effort| OutputConfig { effort: effort.as_str() }),
            // A model that thinks does not let itself be told a temperature.
            temperature: request.temperature().filter(|_| thinking.is_none()),
            top_p: request.top_p().filter(|_| thinking.is_none()),
            thinking,
        }
    }
}

/// Thinking counts as output: half of it is left for the answer.
fn budget(tokens: u64, max_tokens: u64) -> Option<Thinking> {
    let budget_tokens = tokens.min(max_tokens / 2);
    (budget_tokens >= LEAST_BUDGET).then_some(Thinking::Enabled { budget_tokens })
}

#[derive(Serialize)]
struct User<'a> {
    role: &'static str,
    content: Vec<Content<'a>>,
}

#[derive(Serialize)]
struct Assistant<'a> {
    content: Vec<Content<'a>>,
    role: &'static str,
}

/// A block of a message: one the server wrote itself, or one of ours.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Raw(&'a RawValue),
    Ours(Ours<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Ours<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        title: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: &'a str,
        input: Box<RawValue>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Answer<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

/// What a call brought: words, something to look at as well, or tools that the server describes itself.
#[derive(Serialize)]
#[serde(untagged)]
enum Answer<'a> {
    Said(&'a str),
    Looks(Vec<Ours<'a>>),
    Shows(Vec<Reference<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Reference<'a> {
    ToolReference { tool_name: &'a str },
}

#[derive(Serialize)]
struct Source<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: &'a str,
}

impl<'a> Source<'a> {
    fn of(file: &FileRef<'a>) -> Self {
        Self { r#type: "base64", media_type: file.mime, data: file.data }
    }
}

#[derive(Serialize)]
struct System<'a> {
    r#type: &'static str,
    text: &'a str,
    cache_control: marks::Mark,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    defer_loading: bool,
}

impl<'a> Tool<'a> {
    fn new(spec: &'a ToolSpec) -> Self {
        let ToolSpec { name, description, schema, deferred } = spec;
        Self { name, description, input_schema: schema, defer_loading: *deferred }
    }
}
