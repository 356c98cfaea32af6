//! What the events of a Messages stream mean.
//!
//! An answer is blocks that grow, told apart by their index. Those whose type is known become words, thoughts and calls;
//! thoughts keep their signature, and all others are kept as they are, to be sent back. Unknown events are passed over.

use super::blocks::Growing;
use crate::wire::reader::{self, json, not_json};
use crate::wire::refusal;
use crate::{Delta, Error, Part, Reply};
use proto::Usage;
use proto::entry::Finish;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// No answer has more blocks; a server that sends more is broken.
const MOST_BLOCKS: usize = 2_000;

/// The event that opens a block, which stays the bytes it is.
#[derive(Deserialize)]
struct Start<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    content_block: &'a RawValue,
}

#[derive(Deserialize)]
struct Whole<'a> {
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
}

#[derive(Default)]
pub(crate) struct Answer {
    /// By their index.
    blocks: BTreeMap<u64, Growing>,
    usage: Usage,
    finish: Option<Finish>,
    understood: bool,
    done: bool,
}

impl reader::Answer for Answer {
    fn event(&mut self, data: &str, seen: &mut dyn FnMut(Delta)) -> Result<(), Error> {
        let event = json(data)?;
        if let Some(error) = refusal::from_event(&event) {
            return Err(error);
        }
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                self.understood = true;
                self.counted(&event["message"]["usage"]);
            }
            "content_block_start" => {
                let start: Start<'_> = serde_json::from_str(data).map_err(|error| not_json(data, &error))?;
                self.open(start.index, start.content_block, seen)?;
            }
            "content_block_delta" => {
                let index = event["index"].as_u64().unwrap_or_default();
                if let Some(block) = self.blocks.get_mut(&index) {
                    block.grow(&event["delta"], seen);
                }
            }
            "message_delta" => {
                self.counted(&event["usage"]);
                self.stopped(&event["delta"]["stop_reason"]);
            }
            "message_stop" => self.done = true,
            // `content_block_stop` says nothing new, `ping` nothing at all, and others will be invented.
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, body: &str, seen: &mut dyn FnMut(Delta)) -> Result<(), Error> {
        let message = json(body)?;
        if let Some(error) = refusal::from_event(&message) {
            return Err(error);
        }
        let Ok(whole) = serde_json::from_str::<Whole<'_>>(body) else { return Ok(()) };
        self.understood = true;
        whole.content.into_iter().try_for_each(|block| self.open(None, block, seen))?;
        self.counted(&message["usage"]);
        self.stopped(&message["stop_reason"]);
        Ok(())
    }

    fn understood(&self) -> bool {
        self.understood
    }

    fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn into_reply(self, from: &str) -> Reply {
        let parts: Vec<Part> = self.blocks.into_values().filter_map(|block| block.into_part(from)).collect();
        let calls = parts.iter().any(|part| matches!(part, Part::Call { .. }));
        let finish = match self.finish.unwrap_or(Finish::Stop) {
            // Whatever the reason is called, calls want results, and without a call there is nothing to wait for.
            Finish::Stop | Finish::Unknown if calls => Finish::ToolCalls,
            Finish::ToolCalls if !calls => Finish::Stop,
            finish => finish,
        };
        Reply { parts, usage: self.usage, finish }
    }
}

impl Answer {
    fn open(&mut self, index: Option<u64>, block: &RawValue, seen: &mut dyn FnMut(Delta)) -> Result<(), Error> {
        self.understood = true;
        if self.blocks.len() >= MOST_BLOCKS {
            return Err(Error::Garbage(format!("more than {MOST_BLOCKS} blocks in one answer")));
        }
        let next = self.blocks.last_key_value().map_or(0, |(last, _)| last + 1);
        if let Some(block) = Growing::open(block, seen) {
            self.blocks.insert(index.unwrap_or(next), block);
        }
        Ok(())
    }

    /// Counts are running totals: a later one replaces an earlier one, and what is left out has not changed.
    fn counted(&mut self, told: &Value) {
        let set = |place: &mut u64, name: &str| *place = reader::count(&told[name]).unwrap_or(*place);
        set(&mut self.usage.input, "input_tokens");
        set(&mut self.usage.output, "output_tokens");
        set(&mut self.usage.cache_read, "cache_read_input_tokens");
        set(&mut self.usage.cache_write, "cache_creation_input_tokens");
    }

    fn stopped(&mut self, reason: &Value) {
        self.finish = match reason.as_str() {
            None => return,
            Some("end_turn" | "stop_sequence") => Some(Finish::Stop),
            Some("tool_use") => Some(Finish::ToolCalls),
            Some("max_tokens" | "model_context_window_exceeded") => Some(Finish::Length),
            Some("refusal") => Some(Finish::ContentFilter),
            Some(_) => Some(Finish::Unknown),
        };
    }
}
