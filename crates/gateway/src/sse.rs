//! Events as server-sent events.

use crate::caller::Caller;
use crate::events::{Item, Watcher};
use crate::metrics;
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{Stream, stream};
use std::convert::Infallible;

/// What a stream says before it closes, so that nobody takes the end for a broken connection.
const END: &[u8] = b": the gateway closes this stream\n\n";

/// The bytes of a stream, one event after the other. It is counted, and the caller is inside, while it is open.
pub(crate) fn bytes(
    watcher: Watcher,
    counted: metrics::Stream,
    caller: Caller,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    stream::unfold(Some((watcher, counted, caller)), async |open| {
        let (mut watcher, counted, caller) = open?;
        Some(match watcher.next().await {
            Some(item) => (Ok(write(&item)), Some((watcher, counted, caller))),
            None => (Ok(Bytes::from_static(END)), None),
        })
    })
}

fn write(item: &Item) -> Bytes {
    match item {
        Item::Event { cursor, json } => frame(*cursor, json.as_str()),
        Item::Silence => Bytes::from_static(b":\n\n"),
    }
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
}
