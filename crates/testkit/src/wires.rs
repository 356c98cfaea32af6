//! An answer in the format of each wire, one chunk for each piece of it and a few for its end.

use crate::received::Wire;
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// A piece of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    Text(String),
    Thought(String),
    Call { index: usize, tool: String, input: String },
}

/// Tokens in and out.
type Counted = Option<(u64, u64)>;

pub(crate) fn chunks(wire: Wire, pieces: &[Piece], finish: &str, usage: Counted, cost: Option<f64>) -> VecDeque<Bytes> {
    match wire {
        Wire::OpenAiChat => chat(pieces, finish, usage, cost),
        Wire::Anthropic => anthropic(pieces, finish, usage),
        Wire::OpenAiResponses => responses(pieces, finish, usage),
    }
}

fn chat(pieces: &[Piece], finish: &str, usage: Counted, cost: Option<f64>) -> VecDeque<Bytes> {
    let chunk = |choices: Value| json!({ "id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 0, "model": "fake", "choices": choices });
    let choice = |delta: Value, finish: Value| chunk(json!([{ "index": 0, "delta": delta, "finish_reason": finish }]));
    let mut chunks: VecDeque<Bytes> =
        pieces.iter().map(|piece| bare(&choice(chat_delta(piece), Value::Null))).collect();
    chunks.push_back(bare(&choice(json!({}), finish.into())));
    if let Some((input, output)) = usage {
        let mut last = chunk(json!([]));
        last["usage"] = json!({ "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output });
        if let Some(usd) = cost {
            last["usage"]["cost"] = json!(usd);
        }
        chunks.push_back(bare(&last));
    }
    chunks.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
    chunks
}

fn chat_delta(piece: &Piece) -> Value {
    match piece {
        Piece::Text(text) => json!({ "content": text }),
        Piece::Thought(text) => json!({ "reasoning_content": text }),
        Piece::Call { index, tool, input } => {
            let function = json!({ "name": tool, "arguments": input });
            json!({ "tool_calls": [{ "index": index, "id": id(*index), "type": "function", "function": function }] })
        }
    }
}

fn anthropic(pieces: &[Piece], finish: &str, usage: Counted) -> VecDeque<Bytes> {
    let (input, output) = usage.unwrap_or_default();
    let mut stream = Stream::default();
    let counted = json!({ "input_tokens": input, "output_tokens": 0 });
    let message = json!({ "id": "msg_fake", "type": "message", "role": "assistant", "content": [], "usage": counted });
    stream.event(json!({ "type": "message_start", "message": message }));
    for piece in pieces {
        let (block, deltas) = anthropic_block(piece);
        if stream.turns_to(piece) {
            stream.close(|index| json!({ "type": "content_block_stop", "index": index }));
            let index = stream.open();
            stream.event(json!({ "type": "content_block_start", "index": index, "content_block": block }));
        }
        for delta in deltas {
            stream.event(json!({ "type": "content_block_delta", "index": stream.index, "delta": delta }));
        }
        stream.flush();
    }
    stream.close(|index| json!({ "type": "content_block_stop", "index": index }));
    let reason = match finish {
        "stop" => "end_turn",
        "tool_calls" => "tool_use",
        "length" => "max_tokens",
        "content_filter" => "refusal",
        other => other,
    };
    let delta = json!({ "stop_reason": reason, "stop_sequence": null });
    stream.event(json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": output } }));
    stream.flush();
    stream.event(json!({ "type": "message_stop" }));
    stream.end()
}

fn anthropic_block(piece: &Piece) -> (Value, Vec<Value>) {
    match piece {
        Piece::Text(text) => {
            (json!({ "type": "text", "text": "" }), vec![json!({ "type": "text_delta", "text": text })])
        }
        Piece::Thought(text) => (
            json!({ "type": "thinking", "thinking": "", "signature": "" }),
            vec![
                json!({ "type": "thinking_delta", "thinking": text }),
                json!({ "type": "signature_delta", "signature": seal(text) }),
            ],
        ),
        Piece::Call { index, tool, input } => (
            json!({ "type": "tool_use", "id": id(*index), "name": tool, "input": {} }),
            vec![json!({ "type": "input_json_delta", "partial_json": input })],
        ),
    }
}

fn responses(pieces: &[Piece], finish: &str, usage: Counted) -> VecDeque<Bytes> {
    let mut stream = Stream::default();
    let mut items: Vec<Value> = Vec::new();
    stream.event(json!({ "type": "response.created", "response": { "id": "resp_fake", "status": "in_progress" } }));
    for piece in pieces {
        if stream.turns_to(piece) {
            let done = items.last().cloned();
            stream.close(|index| json!({ "type": "response.output_item.done", "output_index": index, "item": done }));
            let index = stream.open();
            let item = responses_item(piece, index);
            stream.event(json!({ "type": "response.output_item.added", "output_index": index, "item": item }));
            items.push(item);
        }
        let index = stream.index;
        let (kind, delta) = responses_delta(piece, items.last_mut().expect("one was opened"));
        stream.event(json!({ "type": kind, "output_index": index, "delta": delta }));
        stream.flush();
    }
    let done = items.last().cloned();
    stream.close(|index| json!({ "type": "response.output_item.done", "output_index": index, "item": done }));
    let reason = match finish {
        "length" => Some("max_output_tokens"),
        "content_filter" | "refusal" => Some("content_filter"),
        _ => None,
    };
    let status = if reason.is_some() { "incomplete" } else { "completed" };
    let usage = usage.map(|(input, output)| json!({ "input_tokens": input, "output_tokens": output }));
    let details = reason.map(|reason| json!({ "reason": reason }));
    stream.event(json!({
        "type": format!("response.{status}"),
        "response": { "id": "resp_fake", "status": status, "incomplete_details": details, "output": items, "usage": usage },
    }));
    stream.end()
}

fn responses_item(piece: &Piece, index: usize) -> Value {
    match piece {
        Piece::Text(_) => json!({
            "type": "message", "id": format!("msg_{index}"), "role": "assistant",
            "content": [{ "type": "output_text", "text": "" }],
        }),
        Piece::Thought(text) => json!({
            "type": "reasoning", "id": format!("rs_{index}"), "summary": [{ "type": "summary_text", "text": "" }],
            "encrypted_content": seal(text),
        }),
        Piece::Call { index, tool, .. } => json!({
            "type": "function_call", "id": format!("fc_{index}"), "call_id": id(*index), "name": tool, "arguments": "",
        }),
    }
}

/// The event for a piece; the item grows with it.
fn responses_delta(piece: &Piece, item: &mut Value) -> (&'static str, String) {
    let (kind, more, place) = match piece {
        Piece::Text(text) => ("response.output_text.delta", text, &mut item["content"][0]["text"]),
        Piece::Thought(text) => ("response.reasoning_summary_text.delta", text, &mut item["summary"][0]["text"]),
        Piece::Call { input, .. } => ("response.function_call_arguments.delta", input, &mut item["arguments"]),
    };
    let grown = format!("{}{more}", place.as_str().unwrap_or_default());
    *place = grown.into();
    (kind, more.clone())
}

/// Events gathered into chunks, and the block or item that is open.
#[derive(Default)]
struct Stream {
    chunks: VecDeque<Bytes>,
    now: String,
    index: usize,
    opened: usize,
    is_open: bool,
    text: bool,
}

impl Stream {
    fn event(&mut self, data: Value) {
        let kind = data["type"].as_str().unwrap_or_default();
        self.now.push_str(&format!("event: {kind}\ndata: {data}\n\n"));
    }

    fn flush(&mut self) {
        self.chunks.push_back(Bytes::from(std::mem::take(&mut self.now)));
    }

    fn end(mut self) -> VecDeque<Bytes> {
        self.flush();
        self.chunks
    }

    /// Whether this piece needs a block of its own: only words go on in the one that is open.
    fn turns_to(&mut self, piece: &Piece) -> bool {
        let text = matches!(piece, Piece::Text(_));
        let same = self.is_open && text && self.text;
        self.text = text;
        !same
    }

    fn open(&mut self) -> usize {
        (self.index, self.is_open) = (self.opened, true);
        self.opened += 1;
        self.index
    }

    fn close(&mut self, event: impl FnOnce(usize) -> Value) {
        if std::mem::replace(&mut self.is_open, false) {
            self.event(event(self.index));
        }
    }
}

/// What a server would sign a thought with, or encrypt it to: characters that are easily spoilt on the way.
fn seal(text: &str) -> String {
    format!("Seal+/{}==", text.len())
}

fn id(index: usize) -> String {
    format!("wire_{index}")
}

/// An event without a name.
fn bare(data: &Value) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}
