//! The formats models are spoken to in, one folder each, and what they share.

pub mod anthropic;
mod body;
mod endpoint;
mod exchange;
mod files;
mod format;
mod json;
mod key;
mod mask;
pub mod openai_chat;
pub mod openai_responses;
mod reader;
mod refusal;
#[cfg(test)]
mod testing;

pub use anthropic::Anthropic;
pub use endpoint::{Auth, Endpoint};
pub use format::Wired;
pub use key::Key;
pub use openai_chat::OpenAiChat;
pub use openai_responses::OpenAiResponses;

use crate::Provider;
use std::sync::Arc;

/// A format by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Anthropic,
    OpenAiResponses,
    OpenAiChat,
}

impl Wire {
    pub const ALL: [Self; 3] = [Self::Anthropic, Self::OpenAiResponses, Self::OpenAiChat];

    /// As settings name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiResponses => "openai-responses",
            Self::OpenAiChat => "openai-chat",
        }
    }

    /// A server that speaks it.
    pub fn provider(self, endpoint: Endpoint) -> Arc<dyn Provider> {
        match self {
            Self::Anthropic => Arc::new(Anthropic::new(endpoint)),
            Self::OpenAiResponses => Arc::new(OpenAiResponses::new(endpoint)),
            Self::OpenAiChat => Arc::new(OpenAiChat::new(endpoint)),
        }
    }
}
