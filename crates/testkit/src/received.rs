//! A request as it arrived, and what it says whatever its wire.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;
use std::time::Instant;

/// The formats the fake speaks, told apart by the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Anthropic,
    OpenAiResponses,
    OpenAiChat,
}

impl Wire {
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::OpenAiResponses, Self::OpenAiChat];

    /// As settings name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiResponses => "openai-responses",
            Self::OpenAiChat => "openai-chat",
        }
    }
}

/// One request as it arrived.
#[derive(Debug)]
pub struct Received {
    /// Counted from 0 over the server's life.
    pub n: usize,
    /// When its head had arrived, before its body was read.
    pub at: Instant,
    pub path: String,
    pub headers: HeaderMap,
    pub raw: Bytes,
}

/// One thing that was said, in whatever way a wire says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: &'static str,
    pub text: String,
    /// Images and files that came with it.
    pub files: usize,
}

impl Received {
    pub fn wire(&self) -> Wire {
        match self.path.rsplit('/').next() {
            Some("messages") => Wire::Anthropic,
            Some("responses") => Wire::OpenAiResponses,
            _ => Wire::OpenAiChat,
        }
    }

    /// The body, parsed now: a bench that sends large histories should not ask.
    pub fn body(&self) -> Value {
        serde_json::from_slice(&self.raw).unwrap_or(Value::Null)
    }

    /// The text of the newest message with this role.
    pub fn last(&self, role: &str) -> Option<String> {
        self.lines().into_iter().rev().find(|line| line.role == role).map(|line| line.text)
    }

    /// How many answers follow the newest user message.
    pub fn step(&self) -> usize {
        let lines = self.lines();
        let newest = lines.iter().rposition(|line| line.role == "user").unwrap_or(0);
        // On some wires one answer is several items.
        let since = &lines[newest..];
        since.windows(2).filter(|pair| pair[0].role != "assistant" && pair[1].role == "assistant").count()
    }

    /// The names of the tools that were offered.
    pub fn tools(&self) -> Vec<String> {
        let body = self.body();
        let name = |tool: &Value| tool["function"]["name"].as_str().or(tool["name"].as_str()).map(str::to_owned);
        body["tools"].as_array().into_iter().flatten().filter_map(name).collect()
    }

    /// The conversation, oldest first.
    pub fn lines(&self) -> Vec<Line> {
        let body = self.body();
        let list = |name: &str| body[name].as_array().cloned().unwrap_or_default();
        let (system, said) = match self.wire() {
            Wire::Anthropic => (&body["system"], list("messages")),
            Wire::OpenAiResponses => (&body["instructions"], list("input")),
            Wire::OpenAiChat => (&Value::Null, list("messages")),
        };
        let system = (!system.is_null()).then(|| line("system", system));
        system.into_iter().chain(said.iter().flat_map(lines_of)).collect()
    }
}

/// What one message or item says; results of calls are lines of their own.
fn lines_of(said: &Value) -> Vec<Line> {
    match said["type"].as_str() {
        Some("function_call_output") => return vec![line("tool", &said["output"])],
        Some("function_call" | "reasoning") => return vec![line("assistant", &Value::Null)],
        _ => {}
    }
    let results: Vec<Line> = said["content"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|block| block["type"] == "tool_result")
        .map(|block| line("tool", &block["content"]))
        .collect();
    match said["role"].as_str() {
        _ if !results.is_empty() => results,
        Some("system") => vec![line("system", &said["content"])],
        Some("assistant") => vec![line("assistant", &said["content"])],
        Some("tool") => vec![line("tool", &said["content"])],
        _ => vec![line("user", &said["content"])],
    }
}

fn line(role: &'static str, content: &Value) -> Line {
    let blocks = content.as_array().into_iter().flatten();
    let is_file = |block: &&Value| {
        matches!(
            block["type"].as_str(),
            Some("image" | "document" | "image_url" | "file" | "input_image" | "input_file")
        )
    };
    let files = blocks.clone().filter(is_file).count();
    let texts: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
    let text = content.as_str().map_or_else(|| texts.join("\n"), str::to_owned);
    Line { role, text, files }
}
