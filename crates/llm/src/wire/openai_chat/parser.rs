//! Reads an answer: bytes in, deltas and a reply out. No clock, no socket.
//!
//! Servers differ in everything around the words, so only what is understood is taken and the rest passed over: unknown
//! events and fields, comments, a missing index, a name in pieces, a whole answer where a stream was asked for. Only
//! what cannot be an answer at all is an error.

use super::refusal;
use crate::wire::mask::excerpt;
use crate::{Delta, Error, Part, Reply};
use proto::Usage;
use proto::entry::Finish;
use proto::sse;
use serde_json::Value;

/// Far more than any model says; a server that sends more is broken.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;

/// Likewise for calls in one answer.
const MOST_CALLS: usize = 1_000;

/// How much of the start is kept to show what arrived when it was no answer.
const HEAD: usize = 2_000;

/// Reads one answer.
pub struct Parser {
    shape: Shape,
    /// The first bytes, for messages.
    head: Vec<u8>,
    received: usize,
    answer: Answer,
    done: bool,
}

enum Shape {
    /// Nothing but white space so far.
    Unknown,
    Events(Box<sse::Reader>),
    /// The server ignored `stream` and sends one object.
    Whole(Vec<u8>),
    /// A web page, most likely.
    Foreign,
}

impl Default for Parser {
    fn default() -> Self {
        Self::new()
    }
}

impl Parser {
    pub fn new() -> Self {
        Self { shape: Shape::Unknown, head: Vec::new(), received: 0, answer: Answer::default(), done: false }
    }

    /// Takes what has arrived and reports what can be shown of it.
    pub fn push(&mut self, mut chunk: &[u8], seen: &mut dyn FnMut(Delta)) -> Result<(), Error> {
        self.received += chunk.len();
        if self.received > LARGEST_ANSWER {
            return Err(Error::Garbage(format!("more than {} MiB", LARGEST_ANSWER >> 20)));
        }
        let room = HEAD.saturating_sub(self.head.len());
        self.head.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if matches!(self.shape, Shape::Unknown) {
            let Some(start) = start(chunk) else { return Ok(()) };
            chunk = &chunk[start..];
            self.shape = Shape::of(chunk[0]);
        }
        match &mut self.shape {
            Shape::Unknown | Shape::Foreign => Ok(()),
            Shape::Whole(body) => {
                body.extend_from_slice(chunk);
                Ok(())
            }
            Shape::Events(reader) => {
                let events = reader.push(chunk).map_err(|error| Error::Garbage(error.to_string()))?;
                events.into_iter().try_for_each(|event| self.take(&event, seen))
            }
        }
    }

    /// The server has said that nothing follows.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// The model has finished, though the server may still add what it cost.
    pub fn is_finished(&self) -> bool {
        self.done || self.answer.finish.is_some()
    }

    /// The body is at its end.
    pub fn finish(mut self, seen: &mut dyn FnMut(Delta)) -> Result<Reply, Error> {
        match std::mem::replace(&mut self.shape, Shape::Foreign) {
            Shape::Unknown => return Err(Error::Garbage("an empty answer".to_owned())),
            Shape::Foreign => return Err(self.foreign()),
            Shape::Whole(body) => {
                let value: Value = serde_json::from_slice(&body)
                    .map_err(|error| if error.is_eof() { broken_off() } else { self.foreign() })?;
                self.answer.take(&value, seen)?;
                self.done = true;
            }
            Shape::Events(reader) => {
                if let Some(event) = reader.finish() {
                    // A last line cut in the middle is a broken connection, not a broken server.
                    self.take(&event, seen).map_err(|error| match error {
                        Error::Garbage(_) if self.answer.understood => broken_off(),
                        error => error,
                    })?;
                }
            }
        }
        if !self.answer.understood {
            return Err(self.foreign());
        }
        if !self.is_finished() {
            return Err(broken_off());
        }
        Ok(self.answer.into_reply())
    }

    fn take(&mut self, event: &sse::Event, seen: &mut dyn FnMut(Delta)) -> Result<(), Error> {
        let data = event.data.trim();
        if self.done || data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        let failed = event.event.as_deref() == Some("error");
        match serde_json::from_str::<Value>(data) {
            Ok(value) if failed => Err(refusal::from_object(&value)
                .or_else(|| refusal::from_object(&serde_json::json!({ "error": value })))
                .unwrap_or_else(broken_off)),
            Ok(value) => self.answer.take(&value, seen),
            Err(_) if failed => Err(Error::Network(format!("the model's server failed: {}", excerpt(data.as_bytes())))),
            Err(error) => Err(Error::Garbage(format!("{error} in `{}`", excerpt(data.as_bytes())))),
        }
    }

    /// What arrived is no answer: says what it looks like.
    fn foreign(&self) -> Error {
        let looks = excerpt(&self.head);
        let page = looks.trim_start_matches('\u{feff}').starts_with('<');
        Error::Garbage(if page { format!("a web page: {looks}") } else { format!("`{looks}`") })
    }
}

impl Shape {
    fn of(first: u8) -> Self {
        match first {
            b'{' | b'[' => Self::Whole(Vec::new()),
            b'<' => Self::Foreign,
            _ => Self::Events(Box::default()),
        }
    }
}

/// Where the first byte that means something is. A byte order mark counts as one: the event reader knows it.
fn start(chunk: &[u8]) -> Option<usize> {
    chunk.iter().position(|byte| !byte.is_ascii_whitespace())
}

fn broken_off() -> Error {
    Error::Network("the model's server broke off in mid-answer".to_owned())
}

/// What has been understood so far.
#[derive(Default)]
struct Answer {
    parts: Vec<Part>,
    /// Where in `parts` each call is, with the place the server gave it.
    calls: Vec<Slot>,
    usage: Option<Usage>,
    finish: Option<Finish>,
    understood: bool,
}

struct Slot {
    part: usize,
    index: Option<u64>,
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
        match &said["content"] {
            Value::Array(blocks) => blocks.iter().for_each(|block| self.take_block(block, seen)),
            content => self.say(text(content).unwrap_or_default(), seen),
        }
        self.say(text(&said["refusal"]).unwrap_or_default(), seen);
        for call in said["tool_calls"].as_array().into_iter().flatten() {
            self.take_call(call)?;
        }
        if said["function_call"].is_object() {
            self.take_call(&serde_json::json!({ "index": 0, "function": said["function_call"] }))?;
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
            Some(Part::Reasoning(text)) => text.push_str(thought),
            _ => self.parts.push(Part::Reasoning(thought.to_owned())),
        }
        seen(Delta::Reasoning(thought.to_owned()));
    }

    fn take_call(&mut self, call: &Value) -> Result<(), Error> {
        let wire_id = text(&call["id"]);
        let name = text(&call["function"]["name"]);
        let slot = match self.find_call(call["index"].as_u64(), wire_id, name) {
            Some(slot) => slot,
            None if self.calls.len() == MOST_CALLS => {
                return Err(Error::Garbage(format!("more than {MOST_CALLS} tool calls in one answer")));
            }
            None => self.open_call(call["index"].as_u64()),
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

    fn into_reply(self) -> Reply {
        let calls = !self.calls.is_empty();
        let finish = match self.finish {
            // Whatever the reason is called, calls want results, and without a call there is nothing to wait for.
            Some(Finish::Stop | Finish::Unknown) | None if calls => Finish::ToolCalls,
            Some(Finish::ToolCalls) | None if !calls => Finish::Stop,
            Some(finish) => finish,
            None => Finish::Stop,
        };
        Reply { parts: self.parts, usage: self.usage.unwrap_or_default(), finish }
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
    let number = |value: &Value| value.as_u64().or_else(|| value.as_f64().map(|number| number as u64));
    let all = number(&told["prompt_tokens"]).or_else(|| number(&told["input_tokens"])).unwrap_or(0);
    let output = number(&told["completion_tokens"]).or_else(|| number(&told["output_tokens"])).unwrap_or(0);
    let cached = number(&told["prompt_tokens_details"]["cached_tokens"])
        .or_else(|| number(&told["prompt_cache_hit_tokens"]))
        .unwrap_or(0)
        .min(all);
    let cost_usd = told["cost"].as_f64().filter(|cost| *cost >= 0.0).unwrap_or(0.0);
    Usage { input: all - cached, output, cache_read: cached, cache_write: 0, cost_usd }
}
