//! Who thinks: the `Provider` door, the wire formats behind it, and the model that needs no network.
//!
//! Only this crate knows vendors' JSON. A session hands over fragments it has cached per entry and gets a reply back.

use async_trait::async_trait;
use bytes::Bytes;
use proto::Usage;
use proto::entry::Finish;
use serde_json::value::RawValue;
use std::time::Duration;

pub mod models;
pub mod offline;
pub mod wire;

pub use models::{Configured, Limits, Models, Unknown};
pub use offline::Offline;
pub use wire::Endpoint;
pub use wire::openai_chat::OpenAiChat;

/// A model's server, or something that stands for one.
///
/// `encode` must be pure and must not depend on what came before: its bytes are cached per entry and sent again with
/// every later request, which is what makes a step cost what is new in it. `stream` must tolerate anything a server may
/// send, report what it understood through `seen`, and return the whole reply; dropping its future must end the request.
#[async_trait]
pub trait Provider: Send + Sync {
    /// One message in this wire's format, without separators.
    fn encode(&self, message: &Message<'_>) -> Bytes;

    /// Consecutive messages as one piece, byte for byte as a request holds them, so that a long conversation is a few
    /// large pieces. `None` where the wire needs them one by one.
    fn join(&self, _messages: &[Bytes]) -> Option<Bytes> {
        None
    }

    /// The list of tools in this wire's format; cached by the caller while the list stays the same.
    fn encode_tools(&self, tools: &[ToolSpec]) -> Bytes;

    /// Asks for one reply.
    async fn stream(&self, request: Request, seen: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, Error>;
}

/// What is known about a model before asking it.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// As the provider names it, without the provider.
    pub name: String,
    /// The window, in tokens.
    pub context: u64,
    /// The most it may answer, in tokens.
    pub output: u64,
}

/// One model call.
#[derive(Debug, Clone)]
pub struct Request {
    pub model: Model,
    pub system: String,
    /// From `encode_tools`; empty when the model gets no tools.
    pub tools: Bytes,
    /// From `encode`, oldest first.
    pub messages: Vec<Bytes>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
}

impl Request {
    /// Bytes of everything the model is given to read.
    pub fn size(&self) -> usize {
        self.system.len() + self.tools.len() + self.messages.iter().map(Bytes::len).sum::<usize>()
    }
}

/// A tool as a model is shown it.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    pub schema: Box<RawValue>,
}

/// A message of the conversation, as every wire can say it.
#[derive(Debug, Clone)]
pub enum Message<'a> {
    User {
        text: &'a str,
    },
    Assistant {
        text: &'a str,
        calls: Vec<CallRef<'a>>,
    },
    /// The result of one call. Results follow their assistant message in the order of its calls.
    Result {
        call: &'a str,
        tool: &'a str,
        output: &'a str,
        failed: bool,
    },
}

/// A call in an assistant message. `id` is the provider's own where it gave one, else ours.
#[derive(Debug, Clone)]
pub struct CallRef<'a> {
    pub id: &'a str,
    pub tool: &'a str,
    pub input: &'a RawValue,
}

/// Seen while a reply arrives; may be lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    Text(String),
    Reasoning(String),
}

/// A whole reply.
#[derive(Debug, Clone)]
pub struct Reply {
    /// In the order they arrived.
    pub parts: Vec<Part>,
    pub usage: Usage,
    pub finish: Finish,
}

#[derive(Debug, Clone)]
pub enum Part {
    Text(String),
    Reasoning(String),
    /// `input` is the argument text exactly as received; it may be broken JSON. Empty means `{}`.
    Call {
        id: Option<String>,
        tool: String,
        input: String,
    },
}

impl Part {
    /// Bytes of what the model wrote.
    pub fn size(&self) -> usize {
        match self {
            Self::Text(text) | Self::Reasoning(text) => text.len(),
            Self::Call { tool, input, .. } => tool.len() + input.len(),
        }
    }
}

/// Tokens in so many bytes, roughly: for whoever does not count them.
pub fn estimate(bytes: usize) -> u64 {
    bytes.div_ceil(4) as u64
}

/// Why there is no reply.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The conversation no longer fits.
    #[error("the conversation no longer fits the model's context: {0}")]
    Overflow(String),
    #[error("the model's server asks to wait: {message}")]
    RateLimited { message: String, retry_after: Option<Duration> },
    /// The key is missing, wrong or not allowed.
    #[error("the model's server refused the key: {0}")]
    Auth(String),
    /// The server could not be reached, broke off, or went silent. Trying again may help.
    #[error("{0}")]
    Network(String),
    /// The server refused the request itself. Trying again will not help.
    #[error("the model's server refused the request: {0}")]
    Refused(String),
    /// What came back is not the wire's format.
    #[error("the model's server sent something that is not a reply: {0}")]
    Garbage(String),
}

impl Error {
    /// What a person can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Overflow(_) => "start a new session, or choose a model with a larger context",
            Self::RateLimited { .. } => "wait a little and send the prompt again",
            Self::Auth(_) => "check `api_key` of this provider in the config",
            Self::Network(_) => "check that `base_url` is right and the server is up, then send the prompt again",
            Self::Refused(_) => "check the model's name and the provider's `wire` in the config",
            Self::Garbage(_) => "check that `base_url` points at an API of the configured `wire`",
        }
    }
}
