//! Talks to a Chat Completions server.

use super::encode::{self, LimitName};
use super::{Parser, refusal};
use crate::wire::Endpoint;
use crate::wire::endpoint::Connection;
use crate::{Delta, Error, Message, Part, Provider, Reply, Request, ToolSpec, estimate};
use async_trait::async_trait;
use bytes::Bytes;
use proto::Usage;
use reqwest::Response;
use reqwest::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// No byte for this long means that nobody is at the other end (A8).
const STALL: Duration = Duration::from_secs(120);

/// How long a finished answer waits for the server's closing words about usage.
const CLOSING_WORDS: Duration = Duration::from_secs(3);

/// How long the end of a body is waited for, so that its connection can be used again.
const BODY_END: Duration = Duration::from_millis(20);

/// The most of an error's body that is read.
const ERROR_BODY: usize = 64 * 1024;

/// A server that speaks Chat Completions.
pub struct OpenAiChat {
    connection: Connection,
    stall: Duration,
    /// Learnt from the server's first refusal.
    other_limit_name: AtomicBool,
}

impl OpenAiChat {
    pub fn new(endpoint: Endpoint) -> Self {
        Self { connection: Connection::new(endpoint), stall: STALL, other_limit_name: AtomicBool::new(false) }
    }

    /// Gives up after so long without a byte.
    #[must_use]
    pub fn stall(mut self, stall: Duration) -> Self {
        self.stall = stall;
        self
    }

    async fn ask(&self, request: &Request, seen: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, Error> {
        let mut response = self.open(request).await?;
        let mut parser = Parser::new();
        loop {
            let patience = if parser.is_finished() { CLOSING_WORDS.min(self.stall) } else { self.stall };
            match timeout(patience, response.chunk()).await {
                Ok(Ok(Some(chunk))) => parser.push(&chunk, seen)?,
                Ok(Ok(None)) => break,
                // The answer is whole; how the connection ends no longer matters.
                Ok(Err(_)) | Err(_) if parser.is_finished() => break,
                Ok(Err(_)) => {
                    return Err(Error::Network(format!("{} broke off in mid-answer", self.connection.origin())));
                }
                Err(_) => return Err(self.stalled()),
            }
            if parser.is_done() {
                // Dropped before its end, a body takes its connection with it.
                let _ = timeout(BODY_END, response.chunk()).await;
                break;
            }
        }
        parser.finish(seen)
    }

    /// A response that promises an answer.
    async fn open(&self, request: &Request) -> Result<Response, Error> {
        let limit = self.limit_name();
        match self.post(request, limit).await? {
            Ok(response) => Ok(response),
            Err(refused) if limit == LimitName::MaxTokens && refused.wants_other_limit_name() => {
                self.other_limit_name.store(true, Ordering::Relaxed);
                self.post(request, LimitName::MaxCompletionTokens).await?.map_err(Refused::into_error)
            }
            Err(refused) => Err(refused.into_error()),
        }
    }

    async fn post(&self, request: &Request, limit: LimitName) -> Result<Result<Response, Refused>, Error> {
        let pieces = encode::request(request, limit);
        let post = self
            .connection
            .post("/chat/completions")?
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

    fn limit_name(&self) -> LimitName {
        match self.other_limit_name.load(Ordering::Relaxed) {
            true => LimitName::MaxCompletionTokens,
            false => LimitName::MaxTokens,
        }
    }

    fn stalled(&self) -> Error {
        let seconds = self.stall.as_secs_f64();
        Error::Network(format!("{} sent nothing for {seconds} s", self.connection.origin()))
    }
}

#[async_trait]
impl Provider for OpenAiChat {
    fn encode(&self, message: &Message<'_>) -> Bytes {
        encode::message(message)
    }

    fn join(&self, messages: &[Bytes]) -> Option<Bytes> {
        Some(encode::join(messages))
    }

    fn encode_tools(&self, tools: &[ToolSpec]) -> Bytes {
        encode::tools(tools)
    }

    async fn stream(&self, request: Request, seen: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, Error> {
        let reply = self.ask(&request, seen).await;
        let mut reply = reply.map_err(|error| self.connection.masks().error(error))?;
        if reply.usage == Usage::default() {
            reply.usage = estimated(&request, &reply);
        }
        Ok(reply)
    }
}

/// For servers that do not count: without a number nobody would notice the context filling up.
fn estimated(request: &Request, reply: &Reply) -> Usage {
    let said: usize = reply.parts.iter().map(Part::size).sum();
    Usage { input: estimate(request.size()), output: estimate(said), ..Usage::default() }
}

/// A response that is none, with as much of its body as is worth reading.
struct Refused {
    status: u16,
    headers: reqwest::header::HeaderMap,
    body: Vec<u8>,
}

impl Refused {
    async fn read(mut response: Response, patience: Duration) -> Self {
        let mut body = Vec::new();
        while let Ok(Ok(Some(chunk))) = timeout(patience, response.chunk()).await {
            let room = ERROR_BODY - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == ERROR_BODY {
                break;
            }
        }
        Self { status: response.status().as_u16(), headers: std::mem::take(response.headers_mut()), body }
    }

    fn wants_other_limit_name(&self) -> bool {
        refusal::wants_other_limit_name(self.status, &self.body)
    }

    fn into_error(self) -> Error {
        refusal::from_status(self.status, &self.headers, &self.body)
    }
}
