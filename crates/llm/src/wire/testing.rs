//! What the tests of all wires share: answers replayed through a reader, and replies as a person would note them down.

use super::reader::{Answer, Reader};
use crate::{Delta, Error, Part, Reply};

/// Who the tests say the answers are from.
pub(crate) const FROM: &str = "test http://example";

pub(crate) fn fixture(wire: &str, name: &str) -> Vec<u8> {
    let path = format!("{}/fixtures/{wire}/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub(crate) fn replay<A: Answer>(
    chunks: impl IntoIterator<Item = impl AsRef<[u8]>>,
) -> (Vec<Delta>, Result<Reply, Error>) {
    let mut deltas = Vec::new();
    let mut seen = |delta| deltas.push(delta);
    let mut reader = Reader::<A>::new();
    for chunk in chunks {
        if let Err(error) = reader.push(chunk.as_ref(), &mut seen) {
            return (deltas, Err(error));
        }
    }
    let reply = reader.finish(FROM, &mut seen);
    (deltas, reply)
}

pub(crate) fn noted(reply: &Result<Reply, Error>) -> String {
    let reply = match reply {
        Ok(reply) => reply,
        Err(error) => return format!("error: {error}"),
    };
    let mut lines: Vec<String> = reply.parts.iter().map(note_part).collect();
    let usage = &reply.usage;
    let written = if usage.cache_write > 0 { format!(" written {}", usage.cache_write) } else { String::new() };
    let tokens = format!("in {} cached {}{written} out {}", usage.input, usage.cache_read, usage.output);
    lines.push(format!("end: {:?}, {tokens}, ${}", reply.finish, usage.cost_usd));
    lines.join("\n")
}

fn note_part(part: &Part) -> String {
    match part {
        Part::Text(text) => format!("text: {text}"),
        Part::Reasoning(thought) => {
            let block = thought.block.as_ref().map(|block| format!(" [{}]", block.raw.get())).unwrap_or_default();
            format!("thought: {}{block}", thought.text)
        }
        Part::Call { id, tool, input } => format!("call: {tool} {input} ({})", id.as_deref().unwrap_or("no id")),
        Part::Block(block) => format!("block: {}", block.raw.get()),
    }
}

/// Every way to cut an answer in two, and into single bytes, gives the same.
#[track_caller]
pub(crate) fn check_every_cut<A: Answer>(wire: &str, name: &str) {
    let bytes = fixture(wire, name);
    let whole = replay::<A>([&bytes]);
    let expected = (whole.0, noted(&whole.1));
    for at in 0..=bytes.len() {
        let (deltas, reply) = replay::<A>([&bytes[..at], &bytes[at..]]);
        assert_eq!((&deltas, noted(&reply)), (&expected.0, expected.1.clone()), "{name} cut at {at}");
    }
    let (deltas, reply) = replay::<A>(bytes.chunks(1));
    assert_eq!((deltas, noted(&reply)), expected, "{name} byte by byte");
}

/// A call's argument that arrives byte by byte: four times as many bytes ask for four times as much memory in all, and
/// hold no more than a fixed multiple of themselves at once. Work that grows faster would show in either.
#[track_caller]
pub(crate) fn check_linear<A: Answer>(before: &[&str], delta: &str, after: &[&str]) {
    let measured = |bytes: usize| {
        let events = before.iter().copied().chain(std::iter::repeat_n(delta, bytes)).chain(after.iter().copied());
        let stream: String = events.map(|event| format!("data: {event}\n\n")).collect();
        let mut length = 0;
        let used = allocation_counter::measure(|| {
            let reply = replay::<A>(stream.as_bytes().chunks(1_000)).1.expect("an answer");
            length =
                reply.parts.iter().map(|part| if let Part::Call { input, .. } = part { input.len() } else { 0 }).sum();
        });
        assert_eq!(length, bytes);
        used
    };
    let (short, long) = (measured(5_000), measured(20_000));
    assert!(
        long.bytes_total < short.bytes_total * 9 / 2,
        "{} for 5,000, {} for 20,000",
        short.bytes_total,
        long.bytes_total
    );
    assert!(long.bytes_max < 20_000 * 8, "{} held at once", long.bytes_max);
}
