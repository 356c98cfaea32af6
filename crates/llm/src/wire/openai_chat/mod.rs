//! OpenAI Chat Completions, and the many servers that speak it more or less.
//!
//! `encode` makes fragments and requests, `answer` reads what comes back, `details` keeps thoughts of others' models.

mod answer;
mod details;
mod encode;
#[cfg(test)]
mod tests;

use super::Endpoint;
use super::body::Pieces;
use super::exchange::Refused;
use super::format::{Format, Wired};
use crate::{Message, Request, ToolSpec};
use bytes::Bytes;
use encode::{LimitName, Thoughts};
use std::sync::atomic::{AtomicBool, Ordering};

/// A server that speaks Chat Completions.
pub type OpenAiChat = Wired<Chat>;

impl OpenAiChat {
    pub fn new(endpoint: Endpoint) -> Self {
        Self::of(Chat::default(), endpoint)
    }

    /// A server that wants plain thoughts back, as `reasoning_content`.
    pub fn echoing_thoughts(endpoint: Endpoint) -> Self {
        Self::of(Chat { echo: true, ..Chat::default() }, endpoint)
    }
}

#[derive(Default)]
pub struct Chat {
    echo: bool,
    /// Learnt from the server's first refusal.
    other_limit_name: AtomicBool,
}

impl Chat {
    fn limit_name(&self) -> LimitName {
        match self.other_limit_name.load(Ordering::Relaxed) {
            true => LimitName::MaxCompletionTokens,
            false => LimitName::MaxTokens,
        }
    }
}

impl Format for Chat {
    type Answer = answer::Answer;

    const NAME: &'static str = "openai-chat";

    fn path(&self, _base_url: &str) -> &'static str {
        "/chat/completions"
    }

    fn message(&self, message: &Message<'_>, own: &str) -> Bytes {
        encode::message(message, Thoughts { own, echo: self.echo })
    }

    fn tools(&self, tools: &[ToolSpec]) -> Bytes {
        encode::tools(tools)
    }

    fn request(&self, request: &Request) -> Pieces {
        encode::request(request, self.limit_name())
    }

    /// Some models know the limit on an answer's length by another name only, and say which.
    fn learn(&self, refused: &Refused) -> bool {
        refused.status == 400
            && refused.words().contains("max_completion_tokens")
            && !self.other_limit_name.swap(true, Ordering::Relaxed)
    }
}
