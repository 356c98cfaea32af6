//! What the events of a Chat Completions stream mean.
//!
//! Servers differ: a missing index, a name in pieces, a thought under three names, usage in three places. What is
//! understood is taken and the rest passed over.

use super::details::Details;
use crate::wire::reader::{self, broken_off, count as number, json};
use crate::wire::refusal;
use crate::{Delta, Error, Part, Reply};
use proto::Usage;
use proto::entry::{Finish, Thought};
use serde_json::Value;

/// No answer has more; a server that sends more is broken.
const MOST_CALLS: usize = 1_000;

/// What has been understood so far.
#[derive(Default)]
pub(crate) struct Answer {
    parts: Vec<Part>,
    /// Where in `parts` each call is, with the place the server gave it.
    calls: Vec<Slot>,
    details: Details,
    usage: Option<Usage>,
    finish: Option<Finish>,
    understood: bool,
}

struct Slot {
    part: usize,
    index: Option<u64>,
}

impl reader::Answer for Answer {
    fn event(&mut self, data: &str, seen: &mut dyn FnMut(Delta)) -> Result<(), Error> {
        self.take(&json(data)?, seen)
    }

    fn whole(&mut self, body: &str, seen: &mut dyn FnMut(Delta)) -> Result<(), Error> {
        self.take(&json(body)?, seen)
    }

    fn understood(&self) -> bool {
        self.understood
    }

    fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    fn into_reply(self, from: &str) -> Reply {
        let calls = !self.calls.is_empty();
        let finish = match self.finish {
            // Whatever the reason is called, calls want results, and without a call there is nothing to wait for.
            Some(Finish::Stop | Finish::Unknown) | None if calls => Finish::ToolCalls,
            Some(Finish::ToolCalls) | None if !calls => Finish::Stop,
            Some(finish) => finish,
            None => Finish::Stop,
        };
        let mut parts = self.parts;
        self.details.add_to(&mut parts, from);
        Reply { parts, usage: self.usage.unwrap_or_default(), finish }
    }
}

impl Answer {
    /// One chunk of a stream, or a whole answer.
    fn take(&mut self, value: &Value, seen: &mut dyn FnMut(Delta)) -> Result<(), Error> {
        if let Some(error) = refusal::from_object(value) {
            return Err(error);
        }
        let choices = value["choices"].as_array();
        self.understood |= choices.is_some() || value["usage"].is_object();
        for choice in choices.into_iter().flatten() {
            if choice["index"].as_u64().unwrap_or(0) == 0 {
                self.take_choice(choice, seen)?;
            }
        }
        // Two vendors put it elsewhere.
        let places = [&value["usage"], &value["x_groq"]["usage"], &value["choices"][0]["usage"]];
        if let Some(told) = places.into_iter().find(|place| place.is_object()) {
            self.usage = Some(usage(told));
        }
        Ok(())
    }

    fn take_choice(&mut self, choice: &Value, seen: &mut dyn FnMut(Delta)) -> Result<(), Error> {
        if !choice["error"].is_null()
            && let Some(error) = refusal::from_object(choice)
        {
            return Err(error);
        }
        let said = if choice["delta"].is_object() { &choice["delta"] } else { &choice["message"] };
        let thought = ["reasoning_content", "reasoning"].iter().find_map(|field| text(&said[*field]));
        if let Some(thought) = thought {
            self.think(thought, seen);
        }
        self.details.take(&said["reasoning_details"]);
        match &said["content"] {
            Value::Array(blocks) => blocks.iter().for_each(|block| self.take_block(block, seen)),
            content => self.say(text(content).unwrap_or_default(), seen),
        }
        self.say(text(&said["refusal"]).unwrap_or_default(), seen);
        for call in said["tool_calls"].as_array().into_iter().flatten() {
            self.take_call(call, seen)?;
        }
        if said["function_call"].is_object() {
            self.take_call(&serde_json::json!({ "index": 0, "function": said["function_call"] }), seen)?;
        }
        match choice["finish_reason"].as_str() {
            None | Some("") => {}
            Some("error" | "insufficient_system_resource") => return Err(broken_off()),
            Some(reason) => self.finish = Some(finish(reason)),
        }
        Ok(())
    }

    /// Content in blocks: words, or thoughts that are themselves blocks.
    fn take_block(&mut self, block: &Value, seen: &mut dyn FnMut(Delta)) {
        if let Some(thought) = text(&block["thinking"]) {
            return self.think(thought, seen);
        }
        if let Some(thoughts) = block["thinking"].as_array() {
            return thoughts.iter().filter_map(|thought| text(&thought["text"])).for_each(|t| self.think(t, seen));
        }
        self.say(text(&block["text"]).unwrap_or_default(), seen);
    }

    fn say(&mut self, said: &str, seen: &mut dyn FnMut(Delta)) {
        if said.is_empty() {
            return;
        }
        match self.parts.last_mut() {
            Some(Part::Text(text)) => text.push_str(said),
            _ => self.parts.push(Part::Text(said.to_owned())),
        }
        seen(Delta::Text(said.to_owned()));
    }

    fn think(&mut self, thought: &str, seen: &mut dyn FnMut(Delta)) {
        match self.parts.last_mut() {
            Some(Part::Reasoning(last)) => last.text.push_str(thought),
            _ => self.parts.push(Part::Reasoning(Thought::new(thought))),
        }
        seen(Delta::Reasoning(thought.to_owned()));
    }

    fn take_call(&mut self, call: &Value, seen: &mut dyn FnMut(Delta)) -> Result<(), Error> {
        let wire_id = text(&call["id"]);
        let name = text(&call["function"]["name"]);
        let slot = match self.find_call(call["index"].as_u64(), wire_id, name) {
            Some(slot) => slot,
            None if self.calls.len() == MOST_CALLS => {
                return Err(Error::Garbage(format!("more than {MOST_CALLS} tool calls in one answer")));
            }
            None => {
                name.iter().for_each(|name| seen(Delta::Call((*name).to_owned())));
                self.open_call(call["index"].as_u64())
            }
        };
        let Part::Call { id, tool, input } = &mut self.parts[self.calls[slot].part] else {
            unreachable!("a slot is made with its call");
        };
        if id.is_none() {
            *id = wire_id.map(str::to_owned);
        }
        // Some servers send the name in pieces, others the whole name with every piece of the arguments.
        if let Some(name) = name.filter(|name| name != tool) {
            tool.push_str(name);
        }
        match &call["function"]["arguments"] {
            Value::String(piece) => input.push_str(piece),
            Value::Null => {}
            object => input.push_str(&object.to_string()),
        }
        Ok(())
    }

    /// The call a piece belongs to; `None` if it starts a new one.
    fn find_call(&self, index: Option<u64>, wire_id: Option<&str>, name: Option<&str>) -> Option<usize> {
        let with_id = |slot: &Slot| match &self.parts[slot.part] {
            Part::Call { id: Some(id), .. } => Some(id.as_str() == wire_id.unwrap_or(id)),
            _ => None,
        };
        if let Some(index) = index {
            let slot = self.calls.iter().rposition(|slot| slot.index == Some(index))?;
            // Some servers number every call of an answer 0: another id with a name is another call.
            let another = name.is_some() && with_id(&self.calls[slot]) == Some(false);
            return (!another).then_some(slot);
        }
        if wire_id.is_some() {
            return self.calls.iter().rposition(|slot| with_id(slot) == Some(true));
        }
        let last = self.calls.len().checked_sub(1)?;
        let has_input = matches!(&self.parts[self.calls[last].part], Part::Call { input, .. } if !input.is_empty());
        (name.is_none() || !has_input).then_some(last)
    }

    fn open_call(&mut self, index: Option<u64>) -> usize {
        self.calls.push(Slot { part: self.parts.len(), index });
        self.parts.push(Part::Call { id: None, tool: String::new(), input: String::new() });
        self.calls.len() - 1
    }
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

fn finish(reason: &str) -> Finish {
    match reason {
        "stop" | "end_turn" | "eos" | "stop_sequence" => Finish::Stop,
        "tool_calls" | "tool_use" | "function_call" => Finish::ToolCalls,
        "length" | "max_tokens" | "model_length" => Finish::Length,
        "content_filter" | "safety" | "refusal" => Finish::ContentFilter,
        _ => Finish::Unknown,
    }
}

/// Tokens as we count them: what came from the cache is not input.
fn usage(told: &Value) -> Usage {
    let all = number(&told["prompt_tokens"]).or_else(|| number(&told["input_tokens"])).unwrap_or(0);
    let output = number(&told["completion_tokens"]).or_else(|| number(&told["output_tokens"])).unwrap_or(0);
    let cached = number(&told["prompt_tokens_details"]["cached_tokens"])
        .or_else(|| number(&told["prompt_cache_hit_tokens"]))
        .unwrap_or(0)
        .min(all);
    let cost_usd = told["cost"].as_f64().filter(|cost| *cost >= 0.0).unwrap_or(0.0);
    Usage { input: all - cached, output, cache_read: cached, cache_write: 0, cost_usd }
}
