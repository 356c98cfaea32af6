//! What callers send: bodies of requests and messages of WebSockets. Each has a limit, and so have all of them together: a
//! large one needs room, from when it begins to be large until its call is answered. Where there is none it waits, unread,
//! and is then refused.

use crate::caller::Caller;
use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use futures_util::StreamExt;
use hyper::body::Body as _;
use proto::Error;
use proto::methods::{Sent, decode};
use serde::de::DeserializeOwned;
use session::hub::LARGE;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// The largest body a method takes, and the largest message of a WebSocket (P2).
pub(crate) const MAX_BODY: usize = 25 * 1024 * 1024;

/// How long one may take to arrive.
pub(crate) const ARRIVAL: Duration = Duration::from_secs(60);

/// What large ones may take up together, in KiB: a few of the largest.
const ROOM: usize = 128 * 1024;

/// How long one waits for room.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a caller without room is told to wait before the next try.
const AGAIN_MS: u64 = 2000;

/// From this size on it is taken apart beside the async workers: this much takes a few milliseconds.
const HEAVY: usize = 256 * 1024;

/// Values in one input. Each takes far more memory than the two bytes it may be written with.
const MOST_VALUES: usize = 100_000;

/// Room for what is sent. The owner of the gateway has their own: tokens cannot take it.
#[derive(Clone)]
pub(crate) struct Bodies {
    owner: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

impl Default for Bodies {
    fn default() -> Self {
        let room = || Arc::new(Semaphore::new(ROOM));
        Self { owner: room(), others: room() }
    }
}

/// Given back when it is dropped.
pub(crate) struct Room(OwnedSemaphorePermit);

impl Room {
    /// Keeps what so many bytes need.
    fn shrink(&mut self, bytes: usize) {
        drop(self.0.split(self.0.num_permits().saturating_sub(kib(bytes) as usize)));
    }
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.min(MAX_BODY).div_ceil(1024)).unwrap_or(u32::MAX)
}

/// What was sent with one call.
pub(crate) struct Input {
    bytes: Bytes,
    /// For a large one.
    pub(crate) room: Option<Room>,
}

impl Input {
    pub(crate) fn new(bytes: Bytes, room: Option<Room>) -> Self {
        Self { bytes, room }
    }
}

impl Sent for Input {
    async fn decode<T: DeserializeOwned + Send + 'static>(self) -> Result<T, Error> {
        let bytes = self.bytes;
        beside(bytes.len(), move || {
            measure(&bytes)?;
            decode(&bytes)
        })
        .await
    }
}

/// Does something with so many bytes: beside the async workers if they are many.
pub(crate) async fn beside<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    if bytes < HEAVY {
        return work();
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Error::internal(format!("the call broke: {error}"))))
}

/// Refuses an input of too many values before a parser makes them.
pub(crate) fn measure(text: &[u8]) -> Result<(), Error> {
    let (mut values, mut quoted, mut escaped) = (0_usize, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b'[' | b'{' if !quoted => values += 1,
            _ => {}
        }
    }
    if values <= MOST_VALUES {
        return Ok(());
    }
    Err(Error::invalid(format!("the input has more than {MOST_VALUES} values"))
        .hint("put large content into a file and name it"))
}

impl Bodies {
    /// The body, unless it says or turns out to be too large, never comes, or finds no room.
    pub(crate) async fn read(&self, caller: &Caller, request: Request) -> Result<Input, Error> {
        let body = request.into_body();
        if body.size_hint().lower() > MAX_BODY as u64 {
            return Err(too_large());
        }
        let read = tokio::time::timeout(ARRIVAL, self.collect(caller, body)).await;
        read.unwrap_or_else(|_| Err(Error::invalid("the body did not arrive in time")))
    }

    async fn collect(&self, caller: &Caller, body: Body) -> Result<Input, Error> {
        let said = body.size_hint().upper().and_then(|most| usize::try_from(most).ok()).unwrap_or(MAX_BODY);
        let (mut bytes, mut room) = (Vec::new(), None);
        let mut pieces = body.into_data_stream();
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| Error::invalid(format!("the body cannot be read: {error}")))?;
            let length = bytes.len() + piece.len();
            if length > MAX_BODY {
                return Err(too_large());
            }
            if length >= LARGE && room.is_none() {
                room = Some(self.room(caller, said).await?);
                // Once, and without a copy for each time it grows. What is not filled takes no memory.
                bytes.reserve_exact(said.min(MAX_BODY).saturating_sub(bytes.len()));
            }
            bytes.extend_from_slice(&piece);
        }
        if let Some(room) = &mut room {
            Room::shrink(room, bytes.len());
        }
        Ok(Input::new(bytes.into(), room))
    }

    /// All that it may need at once: two that have a part of it would wait for each other.
    async fn room(&self, caller: &Caller, bytes: usize) -> Result<Room, Error> {
        let permit = Arc::clone(self.of(caller)).acquire_many_owned(kib(bytes));
        let permit = tokio::time::timeout(PATIENCE, permit).await.map_err(|_| no_room())?;
        permit.map(Room).map_err(|_| no_room())
    }

    fn of(&self, caller: &Caller) -> &Arc<Semaphore> {
        if caller.is_owner() { &self.owner } else { &self.others }
    }
}

fn no_room() -> Error {
    Error::unavailable("too many large inputs arrive at once", AGAIN_MS).hint("send it again in a few seconds")
}

fn too_large() -> Error {
    Error::invalid("the body is larger than 25 MiB").hint("put large content into a file and name it")
}

/// Counts what is read of a connection's message while it is not whole. Off until the connection is a WebSocket: what reads
/// that knows no limit but the one of a message.
#[derive(Default)]
pub(crate) struct Meter(Mutex<Metered>);

#[derive(Default)]
struct Metered {
    room: Option<Arc<Semaphore>>,
    /// Bytes of the message that is arriving.
    read: usize,
    taken: Option<(Room, Instant)>,
    waiting: Option<Waiting>,
}

type Waiting = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// What a frame without content has, from a client: two bytes and a mask.
const FRAME: usize = 6;

impl Meter {
    fn inner(&self) -> MutexGuard<'_, Metered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on messages are read.
    pub(crate) fn begin(&self, bodies: &Bodies, caller: &Caller) {
        self.inner().room = Some(Arc::clone(bodies.of(caller)));
    }

    /// Ready when more may be read.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut metered = self.inner();
        let Some(room) = metered.room.clone() else { return Poll::Ready(()) };
        if metered.read < LARGE || metered.taken.is_some() {
            return Poll::Ready(());
        }
        let waiting = metered.waiting.get_or_insert_with(|| Box::pin(room.acquire_many_owned(kib(MAX_BODY))));
        let permit = ready!(waiting.as_mut().poll(cx));
        metered.waiting = None;
        metered.taken = permit.ok().map(|permit| (Room(permit), Instant::now()));
        Poll::Ready(())
    }

    pub(crate) fn count(&self, bytes: usize) {
        let mut metered = self.inner();
        if metered.room.is_some() {
            metered.read += bytes;
        }
    }

    /// A whole message has come: the next one begins. What it needs of its room stays with it.
    pub(crate) fn message(&self, bytes: usize) -> Option<Room> {
        let mut metered = self.inner();
        metered.read = 0;
        let (mut room, _) = metered.taken.take()?;
        room.shrink(bytes);
        Some(room)
    }

    /// A frame has come that belongs to no message.
    pub(crate) fn aside(&self, bytes: usize) {
        let mut metered = self.inner();
        metered.read = metered.read.saturating_sub(bytes + FRAME);
    }

    /// A large message has been arriving for too long.
    pub(crate) fn is_overdue(&self) -> bool {
        self.inner().taken.as_ref().is_some_and(|(_, since)| since.elapsed() > ARRIVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(pieces: usize, each: Duration) -> Request {
        let pieces = futures_util::stream::unfold((pieces, each), async |(left, each)| {
            tokio::time::sleep(each).await;
            let piece = Bytes::from_static(&[b' '; 32 * 1024]);
            (left > 0).then(|| (Ok::<_, std::convert::Infallible>(piece), (left - 1, each)))
        });
        Request::new(Body::from_stream(pieces))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_drips_is_waited_for_only_so_long() {
        let started = Instant::now();
        let error = Bodies::default().read(&Caller::owner(), stream(500, Duration::from_secs(1))).await.err().unwrap();
        assert_eq!((error.code, started.elapsed()), (proto::Code::InvalidInput, ARRIVAL));
    }

    #[tokio::test(start_paused = true)]
    async fn large_bodies_share_room_and_small_ones_need_none() {
        let (bodies, owner) = (Bodies::default(), Caller::owner());
        let mut held = Vec::new();
        // Of unknown length: each may become as large as any.
        let error = loop {
            match bodies.read(&owner, stream(640, Duration::ZERO)).await {
                Ok(input) => held.push(input),
                Err(error) => break error,
            }
        };
        assert!(error.code == proto::Code::Unavailable && error.retryable && error.retry_after_ms.is_some(), "{error}");
        assert_eq!(held.len(), (ROOM - kib(MAX_BODY) as usize) / (20 << 10) + 1, "each keeps what it needs");
        assert!(bodies.read(&owner, stream(1, Duration::ZERO)).await.is_ok());
        held.pop();
        assert!(bodies.read(&owner, stream(640, Duration::ZERO)).await.is_ok());
    }

    #[tokio::test]
    async fn a_message_takes_room_when_it_grows_large_and_keeps_what_it_needs() {
        let (bodies, owner) = (Bodies::default(), Caller::owner());
        let free = || bodies.owner.available_permits();
        let ready = |meter: &Meter| meter.poll_ready(&mut Context::from_waker(std::task::Waker::noop())).is_ready();
        let meters: Vec<Meter> = (0..6).map(|_| Meter::default()).collect();
        for meter in &meters {
            meter.begin(&bodies, &owner);
            meter.count(1000);
            assert!(ready(meter) && free() == ROOM);
            // Pings and pongs are not a part of it.
            for _ in 0..10_000 {
                meter.count(FRAME + 10);
                meter.aside(10);
            }
            assert!(ready(meter) && free() == ROOM);
        }
        let beyond: Vec<bool> = meters
            .iter()
            .map(|meter| {
                meter.count(LARGE);
                ready(meter)
            })
            .collect();
        assert_eq!(beyond, [true, true, true, true, true, false], "the last one is not read any further");
        let kept = meters[0].message(100 << 10).unwrap();
        assert!(ready(&meters[5]));
        drop((kept, meters));
        assert_eq!(free(), ROOM);
    }

    #[test]
    fn values_are_counted_and_text_is_not() {
        let many = format!("{{\"x\":[{}0]}}", "0,".repeat(MOST_VALUES));
        assert!(measure(many.as_bytes()).is_err());
        let text = serde_json::json!({ "x": "[{,\"\\,".repeat(MOST_VALUES) }).to_string();
        assert!(measure(text.as_bytes()).is_ok());
    }
}
