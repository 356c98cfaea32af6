//! One request and its answer over HTTP: what is sent, how long silence is borne, and what a refusal was.

use super::body::Pieces;
use super::endpoint::Connection;
use super::reader::{Answer, Reader};
use super::refusal;
use crate::{Delta, Error, Reply};
use reqwest::Response;
use reqwest::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, timeout, timeout_at};

/// No byte for this long means that nobody is at the other end (A8).
const STALL: Duration = Duration::from_secs(120);

/// A server may say that it still works for so many times [`STALL`] before something of the answer has to come.
const PINGS: u32 = 5;

/// No answer takes longer than so many times [`STALL`], two hours: a server that drips one byte a minute is broken.
const WHOLE: u32 = 60;

/// How long the body of an error may take: what has come by then is told.
const ERROR_TIME: Duration = Duration::from_secs(10);

/// How long a finished answer waits for the server's closing words about usage.
const CLOSING_WORDS: Duration = Duration::from_secs(3);

/// How long the end of a body is waited for, so that its connection can be used again.
const BODY_END: Duration = Duration::from_millis(20);

/// The most of an error's body that is read.
const ERROR_BODY: usize = 64 * 1024;

pub(crate) struct Exchange {
    pub(crate) connection: Connection,
    pub(crate) stall: Duration,
}

impl Exchange {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection, stall: STALL }
    }

    /// A response that promises an answer, or what the server said instead.
    pub(crate) async fn post(&self, path: &str, pieces: Pieces) -> Result<Result<Response, Refused>, Error> {
        let post = self
            .connection
            .post(path)
            .await?
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .header(CONTENT_LENGTH, pieces.len())
            .body(pieces.into_body());
        let response = timeout(self.stall, post.send()).await.map_err(|_| self.stalled())?;
        let response = response.map_err(|error| self.connection.unreachable(&error))?;
        if response.status().is_success() {
            return Ok(Ok(response));
        }
        Ok(Err(Refused::read(response, self.stall).await))
    }

    /// Reads the answer to its end; `from` marks what only its sender can read.
    pub(crate) async fn read<A: Answer>(
        &self,
        mut response: Response,
        from: &str,
        seen: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Reply, Error> {
        let mut reader = Reader::<A>::new();
        let start = Instant::now();
        let (mut heard, mut progress) = (start, 0);
        loop {
            if reader.progress() != progress {
                (heard, progress) = (Instant::now(), reader.progress());
            }
            let limit = (heard + self.stall * PINGS).min(start + self.stall * WHOLE);
            let patience = if reader.is_finished() { CLOSING_WORDS.min(self.stall) } else { self.stall };
            let left = limit.saturating_duration_since(Instant::now());
            match timeout(patience.min(left), response.chunk()).await {
                Ok(Ok(Some(chunk))) => reader.push(&chunk, seen)?,
                Ok(Ok(None)) => break,
                // The answer is whole; how the connection ends no longer matters.
                Ok(Err(_)) | Err(_) if reader.is_finished() => break,
                Ok(Err(_)) => {
                    return Err(Error::Network(format!("{} broke off in mid-answer", self.connection.origin())));
                }
                Err(_) if left < patience => return Err(self.idled(limit - heard)),
                Err(_) => return Err(self.stalled()),
            }
            if reader.is_done() {
                // Dropped before its end, a body takes its connection with it.
                let _ = timeout(BODY_END, response.chunk()).await;
                break;
            }
        }
        reader.finish(from, seen)
    }

    fn idled(&self, time: Duration) -> Error {
        let (origin, seconds) = (self.connection.origin(), time.as_secs_f64());
        Error::Network(format!("{origin} kept the connection open for {seconds} s without going on with its answer"))
    }

    fn stalled(&self) -> Error {
        let seconds = self.stall.as_secs_f64();
        Error::Network(format!("{} sent nothing for {seconds} s", self.connection.origin()))
    }
}

/// A response that is none, with as much of its body as is worth reading.
pub(crate) struct Refused {
    pub(crate) status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Refused {
    async fn read(mut response: Response, patience: Duration) -> Self {
        let mut body = Vec::new();
        let end = Instant::now() + patience.min(ERROR_TIME);
        while let Ok(Ok(Some(chunk))) = timeout_at(end, response.chunk()).await {
            let room = ERROR_BODY - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == ERROR_BODY {
                break;
            }
        }
        Self { status: response.status().as_u16(), headers: std::mem::take(response.headers_mut()), body }
    }

    /// What the server said, in small letters.
    pub(crate) fn words(&self) -> String {
        String::from_utf8_lossy(&self.body).to_lowercase()
    }

    pub(crate) fn into_error(self) -> Error {
        refusal::from_status(self.status, &self.headers, &self.body, SystemTime::now())
    }
}
