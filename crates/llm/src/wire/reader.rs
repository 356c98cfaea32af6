//! Reads an answer: bytes in, deltas and a reply out. No clock, no socket.
//!
//! Servers differ in everything around the words, so only what is understood is taken and the rest passed over: unknown
//! events and fields, comments, a whole answer where a stream was asked for. Only what cannot be an answer at all is an
//! error. What the events mean is the wire's own business: its [`Answer`].

use super::mask::excerpt;
use super::refusal;
use crate::{Delta, Error, Reply};
use proto::sse;
use serde_json::Value;

/// Far more than any model says; a server that sends more is broken.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;

/// How much of the start is kept to show what arrived when it was no answer.
const HEAD: usize = 2_000;

/// What one wire makes of what arrives.
pub(crate) trait Answer: Default + Send {
    /// One event of a stream: JSON.
    fn event(&mut self, data: &str, seen: &mut dyn FnMut(Delta)) -> Result<(), Error>;

    /// The server ignored `stream` and sent one object.
    fn whole(&mut self, body: &str, seen: &mut dyn FnMut(Delta)) -> Result<(), Error>;

    /// Something of an answer has been recognised.
    fn understood(&self) -> bool;

    /// The model has finished, though the server may still add what it cost.
    fn is_finished(&self) -> bool;

    /// The server has said that nothing follows.
    fn is_done(&self) -> bool {
        false
    }

    /// `from` marks blocks that only this server can read.
    fn into_reply(self, from: &str) -> Reply;
}

/// Reads one answer.
pub(crate) struct Reader<A> {
    shape: Shape,
    /// The first bytes, for messages.
    head: Vec<u8>,
    received: usize,
    answer: A,
    done: bool,
    /// Events that were more than a sign of life.
    progress: u64,
}

enum Shape {
    /// Nothing but white space so far.
    Unknown,
    Events(Box<sse::Reader>),
    /// One object.
    Whole(Vec<u8>),
    /// A web page, most likely.
    Foreign,
}

impl<A: Answer> Reader<A> {
    pub(crate) fn new() -> Self {
        Self { shape: Shape::Unknown, head: Vec::new(), received: 0, answer: A::default(), done: false, progress: 0 }
    }

    /// Takes what has arrived and reports what can be shown of it.
    pub(crate) fn push(&mut self, mut chunk: &[u8], seen: &mut dyn FnMut(Delta)) -> Result<(), Error> {
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

    /// Grows with what belongs to an answer, and not with what merely keeps the connection open.
    pub(crate) fn progress(&self) -> u64 {
        self.progress
    }

    /// The server has said that nothing follows.
    pub(crate) fn is_done(&self) -> bool {
        self.done || self.answer.is_done()
    }

    /// The model has finished, though the server may still add what it cost.
    pub(crate) fn is_finished(&self) -> bool {
        self.is_done() || self.answer.is_finished()
    }

    /// The body is at its end.
    pub(crate) fn finish(mut self, from: &str, seen: &mut dyn FnMut(Delta)) -> Result<Reply, Error> {
        match std::mem::replace(&mut self.shape, Shape::Foreign) {
            Shape::Unknown => return Err(Error::Garbage("an empty answer".to_owned())),
            Shape::Foreign => return Err(self.foreign()),
            Shape::Whole(body) => {
                let body = String::from_utf8_lossy(&body);
                if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&body) {
                    return Err(if error.is_eof() { broken_off() } else { self.foreign() });
                }
                self.answer.whole(&body, seen)?;
                self.done = true;
            }
            Shape::Events(reader) => {
                if let Some(event) = reader.finish() {
                    // A last line cut in the middle is a broken connection, not a broken server.
                    self.take(&event, seen).map_err(|error| match error {
                        Error::Garbage(_) if self.answer.understood() => broken_off(),
                        error => error,
                    })?;
                }
            }
        }
        if !self.answer.understood() {
            return Err(self.foreign());
        }
        if !self.is_finished() {
            return Err(broken_off());
        }
        Ok(self.answer.into_reply(from))
    }

    fn take(&mut self, event: &sse::Event, seen: &mut dyn FnMut(Delta)) -> Result<(), Error> {
        let data = event.data.trim();
        if self.is_done() || data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        if event.event.as_deref() == Some("error") {
            return Err(told_as_event(data));
        }
        self.progress += u64::from(!is_ping(event.event.as_deref(), data));
        self.answer.event(data, seen)
    }

    /// What arrived is no answer: says what it looks like.
    fn foreign(&self) -> Error {
        let looks = excerpt(&self.head);
        let page = looks.trim_start_matches('\u{feff}').starts_with('<');
        Error::Garbage(if page { format!("a web page: {looks}") } else { format!("`{looks}`") })
    }
}

/// Reads an answer that is there already.
pub(crate) fn read<'a, A: Answer>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Result<Reply, Error> {
    let mut reader = Reader::<A>::new();
    for chunk in chunks {
        reader.push(chunk, &mut |_| {})?;
    }
    reader.finish("elsewhere", &mut |_| {})
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

/// Says that the server still works, and nothing else. Comments are not even events.
fn is_ping(name: Option<&str>, data: &str) -> bool {
    const LONGEST: usize = 200;
    let typed = || serde_json::from_str::<Value>(data).is_ok_and(|event| event["type"] == "ping");
    name == Some("ping") || (data.len() < LONGEST && data.contains("ping") && typed())
}

/// A number of tokens as servers write it: some write fractions, and one that is less than none is none.
pub(crate) fn count(told: &Value) -> Option<u64> {
    told.as_u64().or_else(|| told.as_f64().map(|number| number as u64))
}

/// An event that is JSON, or the complaint that it is none.
pub(crate) fn json(data: &str) -> Result<Value, Error> {
    serde_json::from_str(data).map_err(|error| not_json(data, &error))
}

pub(crate) fn not_json(data: &str, error: &serde_json::Error) -> Error {
    Error::Garbage(format!("{error} in `{}`", excerpt(data.as_bytes())))
}

pub(crate) fn broken_off() -> Error {
    Error::Network("the model's server broke off in mid-answer".to_owned())
}

/// An event that is called an error, whatever it holds.
fn told_as_event(data: &str) -> Error {
    match serde_json::from_str::<Value>(data) {
        Ok(value) => refusal::from_object(&value)
            .or_else(|| refusal::from_object(&serde_json::json!({ "error": value })))
            .unwrap_or_else(broken_off),
        Err(_) => Error::Network(format!("the model's server failed: {}", excerpt(data.as_bytes()))),
    }
}

/// Where the first byte that means something is. A byte order mark counts as one: the event reader knows it.
fn start(chunk: &[u8]) -> Option<usize> {
    chunk.iter().position(|byte| !byte.is_ascii_whitespace())
}
