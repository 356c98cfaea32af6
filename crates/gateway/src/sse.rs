//! Events as server-sent events.

use crate::caller::Caller;
use crate::events::{Item, Json, Watcher};
use crate::metrics;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{Stream, stream};
use session::hub::LARGE;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::{Duration, Instant};

/// What a stream says before it closes, so that nobody takes the end for a broken connection.
const END: &[u8] = b": the gateway closes this stream\n\n";

/// How much of a large event is handed over at a time. What is handed over may be copied.
const PIECE: usize = 64 * 1024;

/// How long a peer may take over an event of so many bytes: a large one is in the way of others. What it missed is kept;
/// it can come back with its cursor.
pub(crate) fn patience(bytes: usize) -> Duration {
    Duration::from_secs(60 + (bytes / PIECE) as u64)
}

struct Open {
    watcher: Watcher,
    /// Of the event that is being sent.
    pieces: VecDeque<Bytes>,
    until: Instant,
    _counted: metrics::Stream,
    _caller: Caller,
}

/// The bytes of a stream, one event after the other. It is counted, and the caller is inside, while it is open.
pub(crate) fn bytes(
    watcher: Watcher,
    counted: metrics::Stream,
    caller: Caller,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let open = Open { watcher, pieces: VecDeque::new(), until: Instant::now(), _counted: counted, _caller: caller };
    stream::unfold(Some(open), async |open| {
        let mut open = open?;
        if let Some(piece) = open.pieces.pop_front() {
            return (Instant::now() < open.until).then_some((Ok(piece), Some(open)));
        }
        Some(match open.watcher.next().await {
            Some(Item::Silence) => (Ok(Bytes::from_static(b":\n\n")), Some(open)),
            Some(Item::Event { cursor, json }) if json.as_str().len() < LARGE => {
                (Ok(frame(cursor, json.as_str())), Some(open))
            }
            Some(Item::Event { cursor, json }) => {
                open.until = Instant::now() + patience(json.as_str().len());
                open.pieces = pieces(cursor, json);
                let first = open.pieces.pop_front().unwrap_or_default();
                (Ok(first), Some(open))
            }
            None => (Ok(Bytes::from_static(END)), None),
        })
    })
}

/// One event on the wire. A stored call may hold line breaks between its tokens, so there may be several data lines.
fn frame(cursor: Option<u64>, json: &str) -> Bytes {
    let mut out = BytesMut::with_capacity(json.len() + 40);
    if let Some(cursor) = cursor {
        out.put_slice(format!("id: {cursor}\n").as_bytes());
    }
    for line in json.split(['\n', '\r']) {
        out.put_slice(b"data: ");
        out.put_slice(line.as_bytes());
        out.put_u8(b'\n');
    }
    out.put_u8(b'\n');
    out.freeze()
}

/// The same in pieces that are not copied: a large event is there once, whoever is sent it.
fn pieces(cursor: Option<u64>, json: Json) -> VecDeque<Bytes> {
    let whole = Bytes::from_owner(json);
    let mut out = VecDeque::new();
    out.extend(cursor.map(|cursor| Bytes::from(format!("id: {cursor}\n"))));
    for line in whole.split(|byte| matches!(byte, b'\n' | b'\r')) {
        out.push_back(Bytes::from_static(b"data: "));
        out.extend(line.chunks(PIECE).map(|piece| whole.slice_ref(piece)));
        out.push_back(Bytes::from_static(b"\n"));
    }
    out.push_back(Bytes::from_static(b"\n"));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_between_tokens_survive_the_wire() {
        let mut reader = proto::sse::Reader::default();
        let events = reader.push(&frame(Some(7), "{\"a\":\n1,\r\n\"b\":2}")).unwrap();
        assert_eq!(events[0].id.as_deref(), Some("7"));
        let value: serde_json::Value = serde_json::from_str(&events[0].data).unwrap();
        assert_eq!(value, serde_json::json!({"a": 1, "b": 2}));
        assert_eq!(&frame(None, "{}")[..], b"data: {}\n\n");
    }

    #[test]
    fn pieces_are_the_frame() {
        for text in ["{}".to_owned(), "{\"a\":\n1,\r\n\"b\":2}".to_owned(), "x".repeat(3 * PIECE + 7)] {
            for cursor in [None, Some(7)] {
                let joined: Vec<u8> = pieces(cursor, Json::Own(text.clone())).into_iter().flatten().collect();
                assert_eq!(joined, frame(cursor, &text));
            }
        }
    }
}
