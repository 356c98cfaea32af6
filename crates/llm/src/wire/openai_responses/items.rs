//! One item of an answer while it arrives.

use crate::{Delta, Part};
use proto::entry::{Block, Thought};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// What has come of an item, and the whole of it once it is done.
#[derive(Default)]
pub(super) struct Item {
    kind: String,
    text: String,
    arguments: String,
    name: String,
    call_id: Option<String>,
    refusal: bool,
    /// The item as it was sent when it was done.
    raw: Option<Box<RawValue>>,
}

/// The fields of all items that matter here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Whole {
    r#type: String,
    call_id: Option<String>,
    id: Option<String>,
    name: String,
    arguments: Value,
    content: Value,
    summary: Value,
    encrypted_content: Option<String>,
}

impl Item {
    pub(super) fn begin(&mut self, item: Option<&RawValue>, seen: &mut dyn FnMut(Delta)) {
        if let Some(whole) = item.and_then(|item| serde_json::from_str::<Whole>(item.get()).ok()) {
            self.take(whole);
            if self.kind == "function_call" {
                seen(Delta::Call(self.name.clone()));
            }
        }
    }

    /// The item as a whole: it says what the pieces may have left out.
    pub(super) fn end(&mut self, item: Option<&RawValue>, seen: &mut dyn FnMut(Delta)) {
        let Some(raw) = item else { return };
        let Ok(mut whole) = serde_json::from_str::<Whole>(raw.get()) else { return };
        self.refusal |= pieces(&whole.content, "refusal").next().is_some();
        if self.text.is_empty() {
            match whole.r#type.as_str() {
                "message" => {
                    let said: String =
                        pieces(&whole.content, "text").chain(pieces(&whole.content, "refusal")).collect();
                    self.say(&said, seen);
                }
                "reasoning" => {
                    let thoughts = pieces(&whole.summary, "text").chain(pieces(&whole.content, "text"));
                    self.think(&thoughts.collect::<Vec<_>>().join("\n\n"), seen);
                }
                _ => {}
            }
        }
        match std::mem::take(&mut whole.arguments) {
            Value::String(all) if !all.is_empty() => self.arguments = all,
            Value::Object(all) => self.arguments = Value::Object(all).to_string(),
            _ => {}
        }
        // Without its encrypted form the server would not know a thought again: it keeps none itself.
        let replayed = whole.r#type != "reasoning" || whole.encrypted_content.is_some();
        self.raw = Some(if replayed { raw.to_owned() } else { RawValue::NULL.to_owned() });
        self.take(whole);
    }

    fn take(&mut self, whole: Whole) {
        self.kind = whole.r#type;
        self.call_id = whole.call_id.or(whole.id).or(self.call_id.take());
        if !whole.name.is_empty() {
            self.name = whole.name;
        }
    }

    pub(super) fn say(&mut self, more: &str, seen: &mut dyn FnMut(Delta)) {
        if !more.is_empty() {
            self.text.push_str(more);
            seen(Delta::Text(more.to_owned()));
        }
    }

    pub(super) fn think(&mut self, more: &str, seen: &mut dyn FnMut(Delta)) {
        if !more.is_empty() {
            self.text.push_str(more);
            seen(Delta::Reasoning(more.to_owned()));
        }
    }

    /// A summary has paragraphs.
    pub(super) fn next_thought(&mut self, seen: &mut dyn FnMut(Delta)) {
        if !self.text.is_empty() {
            self.think("\n\n", seen);
        }
    }

    pub(super) fn argue(&mut self, more: &str) {
        self.arguments.push_str(more);
    }

    pub(super) fn is_whole(&self) -> bool {
        self.raw.is_some()
    }

    pub(super) fn is_refusal(&self) -> bool {
        self.refusal
    }

    pub(super) fn into_part(self, from: &str) -> Option<Part> {
        let raw = self.raw.filter(|raw| raw.get() != "null");
        let block = raw.map(|raw| Block { from: from.to_owned(), raw });
        match self.kind.as_str() {
            "function_call" => Some(Part::Call { id: self.call_id, tool: self.name, input: self.arguments }),
            "reasoning" if self.text.is_empty() && block.is_none() => None,
            "reasoning" => Some(Part::Reasoning(Thought { text: self.text, block })),
            "message" | "" => (!self.text.is_empty()).then_some(Part::Text(self.text)),
            _ => block.map(Part::Block),
        }
    }
}

/// The texts of a list of parts.
fn pieces<'a>(list: &'a Value, field: &'static str) -> impl Iterator<Item = &'a str> {
    list.as_array().into_iter().flatten().filter_map(move |piece| piece[field].as_str())
}
