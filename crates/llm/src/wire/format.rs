//! A provider is a format and a place: what every wire does alike around the JSON of its own.

use super::body::Pieces;
use super::endpoint::{Connection, Endpoint};
use super::exchange::{Exchange, Refused};
use super::reader::Answer;
use crate::{Admitted, Delta, Error, Message, Provider, Reply, Request, ToolSpec, Wait, estimate};
use async_trait::async_trait;
use bytes::Bytes;
use std::time::Duration;

/// How one API is written and read. Nothing here touches a socket.
pub(crate) trait Format: Send + Sync {
    type Answer: Answer;

    /// As settings name it.
    const NAME: &'static str;

    /// What is appended to a base URL.
    fn path(&self, base_url: &str) -> &'static str;

    /// One message, or several joined by commas; never empty. Blocks that are not marked with `own` are for others.
    fn message(&self, message: &Message<'_>, own: &str) -> Bytes;

    fn tools(&self, tools: &[ToolSpec]) -> Bytes;

    /// The whole request. What comes before the messages must not depend on them, so that a conversation that grows keeps
    /// its beginning byte for byte.
    fn request(&self, request: &Request) -> Pieces;

    /// A refusal that this format can answer by saying the same differently. True: ask once more.
    fn learn(&self, _refused: &Refused) -> bool {
        false
    }
}

/// A server that speaks `F`.
pub struct Wired<F> {
    exchange: Exchange,
    format: F,
    path: &'static str,
    /// Marks what only this server can read.
    own: String,
}

#[allow(private_bounds, reason = "formats are made in this crate; whoever has one asks through `Provider`")]
impl<F: Format> Wired<F> {
    pub(crate) fn of(format: F, endpoint: Endpoint) -> Self {
        let path = format.path(&endpoint.base_url);
        let connection = Connection::new(endpoint);
        let own = format!("{} {}", F::NAME, connection.origin());
        Self { exchange: Exchange::new(connection), format, path, own }
    }

    /// Gives up after so long without a byte.
    #[must_use]
    pub fn stall(mut self, stall: Duration) -> Self {
        self.exchange.stall = stall;
        self
    }

    async fn ask(&self, request: &Request, seen: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, Error> {
        let mut answer = self.exchange.post(self.path, self.format.request(request)).await?;
        if let Err(refused) = &answer
            && self.format.learn(refused)
        {
            answer = self.exchange.post(self.path, self.format.request(request)).await?;
        }
        let response = answer.map_err(Refused::into_error)?;
        self.exchange.read::<F::Answer>(response, &self.own, seen).await
    }
}

#[async_trait]
impl<F: Format> Provider for Wired<F> {
    fn encode(&self, message: &Message<'_>) -> Bytes {
        self.format.message(message, &self.own)
    }

    fn join(&self, messages: &[Bytes]) -> Option<Bytes> {
        Some(Bytes::from(messages.join(&b","[..])))
    }

    fn encode_tools(&self, tools: &[ToolSpec]) -> Bytes {
        self.format.tools(tools)
    }

    fn pace(&self, request: &Request) -> Result<(), Wait> {
        self.exchange.connection.pace(estimate(request.size()))
    }

    async fn admit(&self) -> Admitted {
        self.exchange.connection.admit().await
    }

    fn retries(&self) -> u32 {
        self.exchange.connection.retries()
    }

    async fn stream(&self, request: Request, seen: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, Error> {
        let mut seen = |delta: Delta| delta.in_pieces(seen);
        let asked = self.ask(&request, &mut seen).await.and_then(Reply::measured);
        self.exchange.connection.asked(estimate(request.size()), &asked);
        match asked.and_then(|reply| reply.settled(&request)) {
            Ok(reply) => Ok(reply),
            Err(error) => Err(self.exchange.connection.shown(error).await),
        }
    }
}
