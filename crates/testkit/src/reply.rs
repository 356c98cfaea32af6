//! What the fake model answers: something to say on any wire, or something a real server should never send.

use crate::received::Wire;
use crate::wires::{self, Piece};
use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, SizeHint};
use serde_json::Value;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::Semaphore;

/// One answer, built up by chaining.
#[derive(Debug, Clone)]
pub struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) delay: Duration,
    content: Content,
    usage: Option<(u64, u64)>,
    cost: Option<f64>,
    gate: Option<Gate>,
    dies_after: Option<usize>,
}

#[derive(Debug, Clone)]
enum Content {
    /// Pieces in order, then the reason to stop.
    Stream {
        pieces: Vec<Piece>,
        finish: &'static str,
    },
    Raw(Bytes),
    /// The start of one event, for as long as somebody reads.
    EndlessLine,
}

impl Reply {
    /// Says `text` in a few deltas.
    pub fn text(text: impl Into<String>) -> Self {
        Self::deltas(cut(&text.into()))
    }

    /// One delta for each item.
    pub fn deltas<S: Into<String>>(pieces: impl IntoIterator<Item = S>) -> Self {
        Self::stream(pieces.into_iter().map(|piece| Piece::Text(piece.into())).collect(), "stop")
    }

    /// Calls these tools at once.
    pub fn calls<S: Into<String>>(calls: impl IntoIterator<Item = (S, Value)>) -> Self {
        Self::stream(Vec::new(), "stop").and_calls(calls)
    }

    /// Any status and body, as JSON unless it is a success.
    pub fn raw(status: u16, body: impl Into<Bytes>) -> Self {
        let content_type = if status == 200 { "text/event-stream" } else { "application/json" };
        Self { status, content_type, ..Self::with(Content::Raw(body.into())) }
    }

    /// Bytes that are nobody's format.
    pub fn garbage() -> Self {
        Self::raw(200, Bytes::from_static(b"data: {\"choices\": [{\xff\xfe oops\n\n\x00\x01\x02"))
    }

    /// A line that never ends.
    pub fn endless_line() -> Self {
        Self::with(Content::EndlessLine)
    }

    /// Calls these tools after what was said.
    #[must_use]
    pub fn and_calls<S: Into<String>>(mut self, calls: impl IntoIterator<Item = (S, Value)>) -> Self {
        if let Content::Stream { pieces, finish } = &mut self.content {
            *finish = "tool_calls";
            let first = pieces.iter().filter(|piece| matches!(piece, Piece::Call { .. })).count();
            for (index, (tool, input)) in calls.into_iter().enumerate() {
                pieces.push(Piece::Call { index: first + index, tool: tool.into(), input: input.to_string() });
            }
        }
        self
    }

    /// Thinks first.
    #[must_use]
    pub fn thinking(mut self, text: impl Into<String>) -> Self {
        if let Content::Stream { pieces, .. } = &mut self.content {
            pieces.insert(0, Piece::Thought(text.into()));
        }
        self
    }

    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        self.usage = Some((input, output));
        self
    }

    /// Says what it costs, as some servers do, with a hundred tokens.
    #[must_use]
    pub fn cost(mut self, usd: f64) -> Self {
        self.usage.get_or_insert((80, 20));
        self.cost = Some(usd);
        self
    }

    #[must_use]
    pub fn finish(mut self, reason: &'static str) -> Self {
        if let Content::Stream { finish, .. } = &mut self.content {
            *finish = reason;
        }
        self
    }

    /// Each chunk waits until the test lets it go.
    #[must_use]
    pub fn gated(mut self, gate: Gate) -> Self {
        self.gate = Some(gate);
        self
    }

    /// The connection is cut after so many chunks.
    #[must_use]
    pub fn dies_after(mut self, chunks: usize) -> Self {
        self.dies_after = Some(chunks);
        self
    }

    /// Time that passes before the first byte.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    #[must_use]
    pub fn content_type(mut self, content_type: &'static str) -> Self {
        self.content_type = content_type;
        self
    }

    fn stream(pieces: Vec<Piece>, finish: &'static str) -> Self {
        Self::with(Content::Stream { pieces, finish })
    }

    fn with(content: Content) -> Self {
        Self {
            status: 200,
            content_type: "text/event-stream",
            headers: Vec::new(),
            delay: Duration::ZERO,
            content,
            usage: None,
            cost: None,
            gate: None,
            dies_after: None,
        }
    }

    /// The body; `done` is dropped when its last chunk has been handed over or the client has gone.
    pub(crate) fn into_body<D: Send + Sync + Unpin + 'static>(self, wire: Wire, done: D) -> BoxBody<Bytes, Died> {
        let (chunks, endless) = match self.content {
            Content::Stream { pieces, finish } => (wires::chunks(wire, &pieces, finish, self.usage, self.cost), None),
            Content::Raw(body) => (VecDeque::from([body]), None),
            Content::EndlessLine => {
                (VecDeque::from([Bytes::from_static(b"data: ")]), Some(Bytes::from(vec![b'x'; 64 * 1024])))
            }
        };
        let chunks = Chunks { chunks, endless, left: self.dies_after, flushed: false, done: Some(done) };
        match self.gate {
            None => chunks.boxed(),
            Some(gate) => Gated { chunks, gate, waiting: None, let_go: false }.boxed(),
        }
    }
}

/// The test holds the chunks of a reply back and lets them go. Clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate(Arc<Semaphore>);

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// Closed.
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Lets one more chunk go.
    pub fn release(&self) {
        self.0.add_permits(1);
    }

    /// Lets everything go, now and later.
    pub fn open(&self) {
        self.0.close();
    }

    async fn pass(self) {
        // A closed semaphore is an open gate.
        if let Ok(permit) = self.0.acquire().await {
            permit.forget();
        }
    }
}

/// Why a body broke off: the script said so.
#[derive(Debug)]
pub(crate) struct Died;

impl std::fmt::Display for Died {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the script ends the connection here")
    }
}

impl std::error::Error for Died {}

impl From<Infallible> for Died {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

struct Chunks<D> {
    chunks: VecDeque<Bytes>,
    endless: Option<Bytes>,
    left: Option<usize>,
    /// What was written before the connection dies has been sent.
    flushed: bool,
    done: Option<D>,
}

impl<D> Chunks<D> {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Died>>> {
        if self.left == Some(0) && !std::mem::replace(&mut self.flushed, true) {
            // The server sends what it has when a body makes it wait; an error at once would discard it.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.next())
    }

    fn next(&mut self) -> Option<Result<Frame<Bytes>, Died>> {
        if let Some(left) = &mut self.left {
            let Some(less) = left.checked_sub(1) else {
                self.done = None;
                return Some(Err(Died));
            };
            *left = less;
        }
        let chunk = self.chunks.pop_front().or_else(|| self.endless.clone());
        if self.chunks.is_empty() && self.endless.is_none() && self.left.is_none() {
            self.done = None;
        }
        chunk.map(|chunk| Ok(Frame::data(chunk)))
    }
}

impl<D: Unpin> Body for Chunks<D> {
    type Data = Bytes;
    type Error = Died;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Died>>> {
        self.poll_next(cx)
    }

    /// Known only for a single piece, so that plain bodies carry a length and streams do not.
    fn size_hint(&self) -> SizeHint {
        match (self.chunks.len(), &self.endless, self.left) {
            (1, None, None) => SizeHint::with_exact(self.chunks[0].len() as u64),
            _ => SizeHint::default(),
        }
    }
}

type Permit = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

struct Gated<D> {
    chunks: Chunks<D>,
    gate: Gate,
    waiting: Option<Permit>,
    /// The gate has let the next chunk go.
    let_go: bool,
}

impl<D: Unpin> Body for Gated<D> {
    type Data = Bytes;
    type Error = Died;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Died>>> {
        let this = self.get_mut();
        if !this.let_go {
            let waiting = this.waiting.get_or_insert_with(|| Box::pin(this.gate.clone().pass()));
            ready!(waiting.as_mut().poll(cx));
            (this.waiting, this.let_go) = (None, true);
        }
        let chunk = ready!(this.chunks.poll_next(cx));
        this.let_go = false;
        Poll::Ready(chunk)
    }
}

/// A few pieces, cut between characters.
fn cut(text: &str) -> Vec<String> {
    let size = text.chars().count().div_ceil(4).max(1);
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(size).map(|piece| piece.iter().collect()).collect()
}
