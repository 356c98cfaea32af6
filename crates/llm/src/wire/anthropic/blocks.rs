//! One block of an answer while it grows.

use crate::{Delta, Part};
use proto::entry::{Block, Thought};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A block as it was opened, and the text that has come since. Kept apart, so that a piece costs its own length.
pub(super) struct Growing {
    kind: Kind,
    /// The bytes it was opened with.
    raw: Box<RawValue>,
    start: Map<String, Value>,
    /// Words, thoughts, or the JSON of an input.
    text: String,
    signature: String,
    citations: Vec<Value>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    ToolUse,
    /// Anything else: kept, and of no meaning here.
    Other,
}

impl Growing {
    /// `None` if it is no object.
    pub(super) fn open(raw: &RawValue, seen: &mut dyn FnMut(Delta)) -> Option<Self> {
        let mut start: Map<String, Value> = serde_json::from_str(raw.get()).ok()?;
        let (kind, field) = match start.get("type").and_then(Value::as_str) {
            Some("text") => (Kind::Text, "text"),
            Some("thinking") => (Kind::Thinking, "thinking"),
            Some("tool_use") => (Kind::ToolUse, ""),
            _ => (Kind::Other, ""),
        };
        let text = match start.get_mut(field) {
            Some(Value::String(text)) => std::mem::take(text),
            _ => String::new(),
        };
        let raw = raw.to_owned();
        let block = Self { kind, raw, start, text, signature: String::new(), citations: Vec::new() };
        if let (Kind::ToolUse, Some(Value::String(tool))) = (kind, block.start.get("name")) {
            seen(Delta::Call(tool.clone()));
        }
        block.show(&block.text, seen);
        Some(block)
    }

    pub(super) fn grow(&mut self, delta: &Value, seen: &mut dyn FnMut(Delta)) {
        let piece = |name: &str| delta[name].as_str().unwrap_or_default();
        let more = match delta["type"].as_str().unwrap_or_default() {
            "text_delta" => piece("text"),
            "thinking_delta" => piece("thinking"),
            "input_json_delta" => piece("partial_json"),
            "signature_delta" => return self.signature.push_str(piece("signature")),
            "citations_delta" => return self.citations.push(delta["citation"].clone()),
            _ => return,
        };
        self.text.push_str(more);
        self.show(more, seen);
    }

    fn show(&self, more: &str, seen: &mut dyn FnMut(Delta)) {
        if more.is_empty() {
            return;
        }
        match self.kind {
            Kind::Text => seen(Delta::Text(more.to_owned())),
            Kind::Thinking => seen(Delta::Reasoning(more.to_owned())),
            Kind::ToolUse | Kind::Other => {}
        }
    }

    /// What it is in a reply; nothing if it stayed empty.
    pub(super) fn into_part(self, from: &str) -> Option<Part> {
        match self.kind {
            Kind::Text => (!self.text.is_empty()).then_some(Part::Text(self.text)),
            Kind::ToolUse => Some(self.into_call()),
            Kind::Thinking => {
                let text = self.text.clone();
                Some(Part::Reasoning(Thought { text, block: Some(self.into_block(from, "thinking")) }))
            }
            Kind::Other if self.start.get("type").and_then(Value::as_str) == Some("redacted_thinking") => {
                Some(Part::Reasoning(Thought { text: String::new(), block: Some(self.into_block(from, "")) }))
            }
            Kind::Other => Some(Part::Block(self.into_block(from, ""))),
        }
    }

    fn into_call(self) -> Part {
        let field = |name: &str| self.start.get(name).and_then(Value::as_str).map(str::to_owned);
        // In a stream the input comes in pieces after an empty one; in a whole answer it is there at once.
        let whole = self.start.get("input").filter(|_| self.text.is_empty()).map(Value::to_string);
        Part::Call { id: field("id"), tool: field("name").unwrap_or_default(), input: whole.unwrap_or(self.text) }
    }

    /// The block as the server would have sent it in one piece: what was opened, with what came since in its place.
    fn into_block(mut self, from: &str, field: &str) -> Block {
        let from = from.to_owned();
        if field.is_empty() && self.text.is_empty() && self.signature.is_empty() && self.citations.is_empty() {
            return Block { from, raw: self.raw };
        }
        if !field.is_empty() {
            self.start.insert(field.to_owned(), Value::String(self.text));
        } else if let Ok(input) = serde_json::from_str::<Value>(&self.text) {
            self.start.insert("input".to_owned(), input);
        }
        if !self.signature.is_empty() {
            self.start.insert("signature".to_owned(), Value::String(self.signature));
        }
        if !self.citations.is_empty() {
            self.start.insert("citations".to_owned(), Value::Array(self.citations));
        }
        let raw = serde_json::to_string(&self.start).expect("JSON values always serialise");
        Block { from, raw: RawValue::from_string(raw).expect("what was just written is JSON") }
    }
}
