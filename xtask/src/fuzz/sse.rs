//! Server-sent events: where the bytes are cut does not matter, and the limit holds.

use super::{Target, Trial, signature};
use proto::sse::{Event, Reader, TooLong};
use std::path::Path;

/// Small enough that inputs pass it.
const LIMIT: usize = 16 * 1024;

pub(super) const TARGET: Target = Target {
    name: "sse",
    words: &["data:", "data: ", "event: ", "id: ", "retry: ", ":", "\n\n", "\r", "\r\n\r\n", "data: [DONE]\n\n"],
    folders: &["crates/llm/fixtures/anthropic", "crates/llm/fixtures/openai_responses"],
    open,
};

fn open(_: &Path) -> anyhow::Result<Trial> {
    Ok(Box::new(|input| {
        let whole = read([input]);
        // Single bytes of long inputs would only take long.
        let cut = read(input.chunks(if input.len() < 2_000 { 1 } else { 61 }));
        // A reader that gives up does so at another place when it is fed in pieces.
        if let (Ok(whole), Ok(cut)) = (&whole, &cut)
            && whole != cut
        {
            return Err(format!("{} events in one piece, {} when cut", whole.len(), cut.len()));
        }
        if whole.is_ok() != cut.is_ok() {
            return Err("too long only in one of two ways to cut it".into());
        }
        let events = whole.unwrap_or_default();
        if events.iter().any(|event| event.data.len() > LIMIT * 3) {
            return Err("an event is longer than the limit".into());
        }
        let shape: Vec<_> = events
            .iter()
            .take(8)
            .map(|event| (event.event.is_some(), event.id.is_some(), event.data.len().min(3)))
            .collect();
        Ok(signature(shape))
    }))
}

fn read<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Event>, TooLong> {
    let mut reader = Reader::new(LIMIT);
    let mut events = Vec::new();
    for chunk in chunks {
        events.extend(reader.push(chunk)?);
    }
    events.extend(reader.finish());
    Ok(events)
}
