//! What the events of a Responses stream mean.
//!
//! An answer is items, told apart by their place in the output. Words and arguments are taken as they come; when an item
//! is done it comes once more as a whole, and that is what counts. Thoughts are kept as they came, as are items of a kind
//! nobody here knows. Unknown events are passed over.

use super::items::Item;
use crate::wire::reader::{self, not_json};
use crate::wire::refusal;
use crate::{Delta, Error, Part, Reply};
use proto::Usage;
use proto::entry::Finish;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// No answer has more items; a server that sends more is broken.
const MOST_ITEMS: usize = 2_000;

/// The fields of all events that matter here. Items stay the bytes they are.
#[derive(Deserialize)]
struct Event<'a> {
    r#type: Option<String>,
    output_index: Option<u64>,
    delta: Option<Value>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Response<'a> {
    status: Option<String>,
    error: Option<Value>,
    incomplete_details: Option<Value>,
    usage: Option<Value>,
    #[serde(borrow, default)]
    output: Option<Vec<&'a RawValue>>,
}

#[derive(Default)]
pub(crate) struct Answer {
    /// By their place in the output.
    items: BTreeMap<u64, Item>,
    usage: Usage,
    finish: Option<Finish>,
    understood: bool,
}

impl reader::Answer for Answer {
    fn event(&mut self, data: &str, seen: &mut dyn FnMut(Delta)) -> Result<(), Error> {
        let event: Event<'_> = serde_json::from_str(data).map_err(|error| not_json(data, &error))?;
        let kind = event.r#type.as_deref().unwrap_or_default();
        self.understood |= kind.starts_with("response.");
        let index = event.output_index.unwrap_or_default();
        let delta = || event.delta.as_ref().and_then(Value::as_str).unwrap_or_default();
        match kind {
            "error" => return Err(complaint(data)),
            "response.output_item.added" => self.item(index)?.begin(event.item, seen),
            "response.output_item.done" => self.item(index)?.end(event.item, seen),
            "response.output_text.delta" | "response.refusal.delta" => self.item(index)?.say(delta(), seen),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.item(index)?.think(delta(), seen);
            }
            "response.reasoning_summary_part.added" => self.item(index)?.next_thought(seen),
            "response.function_call_arguments.delta" => self.item(index)?.argue(delta()),
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                self.ended(event.response, seen)?;
            }
            // The others announce what follows or repeat what was said.
            _ if kind.is_empty() => return refusal::from_event(&reader::json(data)?).map_or(Ok(()), Err),
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, body: &str, seen: &mut dyn FnMut(Delta)) -> Result<(), Error> {
        let response = serde_json::from_str::<&RawValue>(body).map_err(|error| not_json(body, &error))?;
        let value = reader::json(body)?;
        self.understood = value["output"].is_array();
        match refusal::from_event(&value) {
            Some(error) if !self.understood => Err(error),
            _ => self.ended(Some(response), seen),
        }
    }

    fn understood(&self) -> bool {
        self.understood
    }

    fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    fn is_done(&self) -> bool {
        self.finish.is_some()
    }

    fn into_reply(self, from: &str) -> Reply {
        let parts: Vec<Part> = self.items.into_values().filter_map(|item| item.into_part(from)).collect();
        let calls = parts.iter().any(|part| matches!(part, Part::Call { .. }));
        let finish = match self.finish.unwrap_or(Finish::Stop) {
            Finish::Stop if calls => Finish::ToolCalls,
            finish => finish,
        };
        Reply { parts, usage: self.usage, finish }
    }
}

impl Answer {
    fn item(&mut self, index: u64) -> Result<&mut Item, Error> {
        if self.items.len() >= MOST_ITEMS && !self.items.contains_key(&index) {
            return Err(Error::Garbage(format!("more than {MOST_ITEMS} items in one answer")));
        }
        Ok(self.items.entry(index).or_default())
    }

    /// The last event has the whole response once more: what it cost, why it ended, and items that were never told.
    fn ended(&mut self, response: Option<&RawValue>, seen: &mut dyn FnMut(Delta)) -> Result<(), Error> {
        let Some(raw) = response else { return Err(reader::broken_off()) };
        let response: Response<'_> = serde_json::from_str(raw.get()).map_err(|error| not_json(raw.get(), &error))?;
        match response.status.as_deref() {
            Some("failed" | "cancelled") => {
                let error = response.error.filter(|error| !error.is_null());
                let told = error.and_then(|error| refusal::from_object(&serde_json::json!({ "error": error })));
                return Err(told.unwrap_or_else(reader::broken_off));
            }
            Some("incomplete") => {
                let reason = response.incomplete_details.unwrap_or_default();
                self.finish = Some(match reason["reason"].as_str() {
                    Some("max_output_tokens") => Finish::Length,
                    Some("content_filter") => Finish::ContentFilter,
                    _ => Finish::Unknown,
                });
            }
            _ => self.finish = Some(Finish::Stop),
        }
        for (index, item) in (0..).zip(response.output.unwrap_or_default()) {
            let known = self.item(index)?;
            if !known.is_whole() {
                known.end(Some(item), seen);
            }
        }
        self.refused();
        self.usage = response.usage.as_ref().map(usage).unwrap_or_default();
        Ok(())
    }

    /// A refusal is words like any other, but a different end.
    fn refused(&mut self) {
        let refused = self.items.values().any(Item::is_refusal);
        if refused && self.finish == Some(Finish::Stop) {
            self.finish = Some(Finish::ContentFilter);
        }
    }
}

/// An error told as an event of its own.
fn complaint(data: &str) -> Error {
    let value = serde_json::from_str(data).unwrap_or_default();
    refusal::from_event(&value).unwrap_or_else(reader::broken_off)
}

/// Tokens as we count them: what came from the cache is not input.
fn usage(told: &Value) -> Usage {
    let all = reader::count(&told["input_tokens"]).unwrap_or(0);
    let cached = reader::count(&told["input_tokens_details"]["cached_tokens"]).unwrap_or(0).min(all);
    let output = reader::count(&told["output_tokens"]).unwrap_or(0);
    Usage { input: all - cached, output, cache_read: cached, ..Usage::default() }
}
