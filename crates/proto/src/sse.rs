//! Server-sent events, read from bytes: bounded, and blind to where chunks were cut.
//!
//! Transport, stall timers and what the data means are the caller's.

use memchr::memchr2;

/// How much one event may hold unless the caller says otherwise: a tool call that writes a large file fits well inside.
pub const DEFAULT_LIMIT: usize = 8 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One event as it was sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    pub event: Option<String>,
    pub data: String,
    /// The id this event itself carried; a client that wants to resume keeps the last one it saw.
    pub id: Option<String>,
}

/// An event, or a line of one, passed the reader's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {limit} bytes")]
pub struct TooLong {
    pub limit: usize,
}

/// Takes bytes as they come and gives whole events.
///
/// A byte is looked at once: an unfinished line is kept and only what is new is searched for its end. After `TooLong`
/// nothing more is understood.
#[derive(Debug)]
pub struct Reader {
    limit: usize,
    /// The start of a line whose end has not arrived.
    line: Vec<u8>,
    /// The last byte was a CR: an LF that follows belongs to it.
    after_cr: bool,
    at_start: bool,
    comments: u64,
    broken: bool,
    pending: Pending,
}

/// The event being put together.
#[derive(Debug, Default)]
struct Pending {
    event: Option<String>,
    data: String,
    has_data: bool,
    id: Option<String>,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT)
    }
}

impl Reader {
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            comments: 0,
            broken: false,
            pending: Pending::default(),
        }
    }

    /// The events that end within this chunk.
    pub fn push(&mut self, chunk: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut events = Vec::new();
        let mut rest = chunk;
        while !rest.is_empty() {
            if self.after_cr {
                self.after_cr = false;
                if rest[0] == b'\n' {
                    rest = &rest[1..];
                    continue;
                }
            }
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                self.check(rest.len())?;
                self.line.extend_from_slice(rest);
                break;
            };
            self.check(end)?;
            self.after_cr = rest[end] == b'\r';
            events.extend(self.complete(&rest[..end]));
            rest = &rest[end + 1..];
        }
        Ok(events)
    }

    /// What the sender left unfinished when it closed: a last event without its blank line.
    pub fn finish(mut self) -> Option<Event> {
        if !self.line.is_empty() {
            self.complete(b"");
        }
        self.pending.take()
    }

    /// How many comment lines have passed, which is how servers keep a silent connection alive.
    pub fn comments(&self) -> u64 {
        self.comments
    }

    fn check(&mut self, more: usize) -> Result<(), TooLong> {
        self.broken |= self.line.len() + self.pending.data.len() + more > self.limit;
        if self.broken { Err(TooLong { limit: self.limit }) } else { Ok(()) }
    }

    /// Handles the line that ends with `tail`.
    fn complete(&mut self, tail: &[u8]) -> Option<Event> {
        if self.line.is_empty() {
            return self.take_line(tail);
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(tail);
        let event = self.take_line(&line);
        line.clear();
        // Keep the buffer for the next cut line, but not one that a single giant line has grown.
        if line.capacity() <= 64 * 1024 {
            self.line = line;
        }
        event
    }

    fn take_line(&mut self, mut line: &[u8]) -> Option<Event> {
        if std::mem::take(&mut self.at_start) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            return self.pending.take();
        }
        if line[0] == b':' {
            self.comments += 1;
            return None;
        }
        let (field, value) = split_field(line);
        self.pending.set(field, value);
        None
    }
}

impl Pending {
    fn set(&mut self, field: &[u8], value: &[u8]) {
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(&String::from_utf8_lossy(value));
            }
            b"event" => self.event = Some(String::from_utf8_lossy(value).into_owned()),
            b"id" if !value.contains(&0) => self.id = Some(String::from_utf8_lossy(value).into_owned()),
            // `retry` and whatever is invented next: none of our business.
            _ => {}
        }
    }

    /// The event, unless no data came: a name or an id alone is not one.
    fn take(&mut self) -> Option<Event> {
        let done = std::mem::take(self);
        done.has_data.then_some(Event { event: done.event, data: done.data, id: done.id })
    }
}

fn split_field(line: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b':', line) {
        None => (line, b""),
        Some(colon) => {
            let value = &line[colon + 1..];
            (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Vec<Event> {
        let mut reader = Reader::default();
        let mut events = reader.push(bytes).unwrap();
        events.extend(reader.finish());
        events
    }

    #[track_caller]
    fn check(bytes: &[u8], data: &[&str]) {
        let events = read(bytes);
        assert_eq!(events.iter().map(|e| e.data.as_str()).collect::<Vec<_>>(), data);
    }

    #[test]
    fn lines_end_in_lf_cr_or_both() {
        for end in ["\n", "\r", "\r\n"] {
            let text = "data: a{}data: b{}{}data: c{}{}".replace("{}", end);
            check(text.as_bytes(), &["a\nb", "c"]);
        }
    }

    #[test]
    fn one_space_after_the_colon_is_not_data() {
        check(b"data:a\n\ndata:  b\n\ndata\n\n", &["a", " b", ""]);
    }

    #[test]
    fn name_and_id_belong_to_one_event() {
        let events = read(b"event: ping\nid: 7\ndata: x\n\ndata: y\n\n");
        assert_eq!(events[0], Event { event: Some("ping".into()), data: "x".into(), id: Some("7".into()) });
        assert_eq!(events[1], Event { event: None, data: "y".into(), id: None });
    }

    #[test]
    fn an_event_without_data_is_none_and_an_id_with_nul_is_ignored() {
        check(b"event: ping\n\n", &[]);
        assert_eq!(read(b"id: a\0b\ndata: x\n\n")[0].id, None);
    }

    #[test]
    fn comments_are_counted_and_unknown_fields_passed_over() {
        let mut reader = Reader::default();
        let events = reader.push(b": hello\n:\nretry: 5\nfoo\ndata: x\n\n").unwrap();
        assert_eq!((reader.comments(), events.len(), events[0].data.as_str()), (2, 1, "x"));
    }

    #[test]
    fn a_byte_order_mark_is_skipped_only_at_the_start() {
        check(b"\xef\xbb\xbfdata: x\n\n\xef\xbb\xbfdata: y\n\n", &["x"]);
    }

    #[test]
    fn what_is_not_utf8_is_replaced() {
        check(b"data: a\xffb\n\n", &["a\u{fffd}b"]);
    }

    #[test]
    fn a_last_event_without_its_blank_line_is_not_lost() {
        check(b"data: [DONE]", &["[DONE]"]);
        check(b"data: [DONE]\n", &["[DONE]"]);
    }

    #[test]
    fn a_line_and_an_event_are_bounded_and_the_reader_stays_broken() {
        let mut reader = Reader::new(10);
        assert_eq!(reader.push(b"data: 12345678"), Err(TooLong { limit: 10 }));
        assert!(reader.push(b"\n\ndata: x\n\n").is_err());

        let mut reader = Reader::new(20);
        assert!(reader.push(b"data: 123456\ndata: 123456\ndata: 123456\n").is_err());
    }

    /// Searching a kept line again with every chunk would make this take hours, not milliseconds.
    #[test]
    fn a_long_line_in_small_chunks_costs_its_length() {
        let chunk = [b'x'; 16];
        let mut reader = Reader::default();
        reader.push(b"data: ").unwrap();
        for _ in 0..(5 * 1024 * 1024 / chunk.len()) {
            assert!(reader.push(&chunk).unwrap().is_empty());
        }
        let events = reader.push(b"\n\n").unwrap();
        assert_eq!(events[0].data.len(), 5 * 1024 * 1024);
    }

    /// Bytes that are likely to meet: line ends, colons, halves of characters.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"data: ".to_vec()),
            Just(b"data:".to_vec()),
            Just(b"event: e".to_vec()),
            Just(b"id: 1".to_vec()),
            Just(b": note".to_vec()),
            Just(b"\n".to_vec()),
            Just(b"\r".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"\n\n".to_vec()),
            Just("né日🙂".as_bytes().to_vec()),
            Just(BYTE_ORDER_MARK.to_vec()),
            prop::collection::vec(any::<u8>(), 0..4),
        ];
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn where_the_bytes_are_cut_does_not_matter(bytes in bytes(), cuts in prop::collection::vec(1usize..9, 1..40)) {
            let mut reader = Reader::default();
            let mut events = Vec::new();
            let mut rest = bytes.as_slice();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break }
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                events.extend(reader.push(now).unwrap());
                rest = later;
            }
            events.extend(reader.finish());
            prop_assert_eq!(events, read(&bytes));
        }
    }
}
