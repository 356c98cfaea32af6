//! Anthropic Messages.
//!
//! `encode` makes fragments and requests, `marks` says what the server may cache, `answer` reads what comes back.

mod answer;
mod blocks;
mod encode;
mod marks;
#[cfg(test)]
mod tests;

use super::Endpoint;
use super::body::Pieces;
use super::format::{Format, Wired};
use crate::{Message, Request, ToolSpec};
use bytes::Bytes;

/// The version of the API this wire was written for.
const VERSION: &str = "2023-06-01";

/// A server that speaks the Messages API.
pub type Anthropic = Wired<Messages>;

impl Anthropic {
    pub fn new(mut endpoint: Endpoint) -> Self {
        let named = endpoint.headers.keys().any(|name| name.eq_ignore_ascii_case("anthropic-version"));
        if !named {
            endpoint.headers.insert("anthropic-version".to_owned(), VERSION.to_owned());
        }
        Self::of(Messages, endpoint)
    }
}

pub struct Messages;

impl Format for Messages {
    type Answer = answer::Answer;

    const NAME: &'static str = "anthropic";

    /// The vendor's SDK takes the base without the version; one that has it all the same is understood.
    fn path(&self, base_url: &str) -> &'static str {
        let address = base_url.split('?').next().unwrap_or_default();
        if address.trim_end_matches('/').ends_with("/v1") { "/messages" } else { "/v1/messages" }
    }

    fn message(&self, message: &Message<'_>, own: &str) -> Bytes {
        encode::message(message, own)
    }

    fn tools(&self, tools: &[ToolSpec]) -> Bytes {
        encode::tools(tools)
    }

    fn request(&self, request: &Request) -> Pieces {
        encode::request(request)
    }
}
