//! OpenAI Responses.
//!
//! Nothing is kept on the server (`store: false`): the conversation is sent whole each time, with the model's thoughts in
//! the encrypted form it gave them. `encode` makes items and requests, `answer` reads what comes back.

mod answer;
mod encode;
mod items;
#[cfg(test)]
mod tests;

use super::Endpoint;
use super::body::Pieces;
use super::exchange::Refused;
use super::format::{Format, Wired};
use crate::{Message, Request, ToolSpec};
use bytes::Bytes;
use std::sync::atomic::{AtomicBool, Ordering};

/// A server that speaks the Responses API.
pub type OpenAiResponses = Wired<Responses>;

impl OpenAiResponses {
    pub fn new(endpoint: Endpoint) -> Self {
        Self::of(Responses::default(), endpoint)
    }
}

#[derive(Default)]
pub struct Responses {
    /// Learnt from a refusal: this server's models do not hand out their thoughts.
    without_thoughts: AtomicBool,
}

impl Format for Responses {
    type Answer = answer::Answer;

    const NAME: &'static str = "openai-responses";

    fn path(&self, _base_url: &str) -> &'static str {
        "/responses"
    }

    fn message(&self, message: &Message<'_>, own: &str) -> Bytes {
        encode::message(message, own)
    }

    fn tools(&self, tools: &[ToolSpec]) -> Bytes {
        encode::tools(tools)
    }

    fn request(&self, request: &Request) -> Pieces {
        encode::request(request, !self.without_thoughts.load(Ordering::Relaxed))
    }

    /// Models that do not think, and servers that only speak the rest of this API, refuse to be asked for thoughts.
    fn learn(&self, refused: &Refused) -> bool {
        let words = refused.words();
        refused.status == 400
            && ["encrypted_content", "encrypted content", "'include'", "\"include\""].iter().any(|w| words.contains(w))
            && !self.without_thoughts.swap(true, Ordering::Relaxed)
    }
}
