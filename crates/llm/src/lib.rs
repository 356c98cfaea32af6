//! Who thinks: the `Provider` door, the wire formats behind it, and the model that needs no network.
//!
//! Only this crate knows vendors' JSON. A session hands over fragments it has cached per entry and gets a reply back.

use async_trait::async_trait;
use bytes::Bytes;
use proto::Usage;
use proto::entry::{Block, Finish, Thought};
use serde_json::value::RawValue;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

pub mod catalogue;
mod model;
pub mod models;
pub mod offline;
pub mod pace;
pub mod retry;
pub mod vendors;
pub mod wire;

pub use model::{Cost, Effort, Model, Reasoning, Variant};
pub use models::{Configured, Limits, Listed, Models, Unknown};
pub use offline::Offline;
pub use pace::{PerMinute, Wait};
pub use wire::{Anthropic, Auth, Endpoint, Key, OpenAiChat, OpenAiResponses, Wire};

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

    /// Takes a turn with a server that is asked only so often, or says how long to wait before looking again. Asked before
    /// everything else, so that a wait holds nothing.
    fn pace(&self, _request: &Request) -> Result<(), Wait> {
        Ok(())
    }

    /// Waits until this server may be asked, where it takes only so many requests at once. Asked before a run slot is
    /// taken, so that a crowd before one server does not sit on the slots of others.
    async fn admit(&self) -> Admitted {
        Admitted::default()
    }

    /// How often a call that failed for the moment is made again ([`retry`]).
    fn retries(&self) -> u32 {
        retry::MOST
    }

    /// Asks for one reply.
    async fn stream(&self, request: Request, seen: &mut (dyn FnMut(Delta) + Send)) -> Result<Reply, Error>;
}

/// Permission to ask one server; dropped, it goes to the next in line.
#[derive(Debug, Default)]
pub struct Admitted {
    _turn: Option<OwnedSemaphorePermit>,
}

impl From<OwnedSemaphorePermit> for Admitted {
    fn from(turn: OwnedSemaphorePermit) -> Self {
        Self { _turn: Some(turn) }
    }
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
    /// Fields of the user's own, by the names of the provider's API.
    pub options: serde_json::Map<String, serde_json::Value>,
}

impl Request {
    /// As far as the model lets itself be told.
    fn temperature(&self) -> Option<f64> {
        self.temperature.filter(|_| self.model.reasoning != Reasoning::Effort)
    }

    fn top_p(&self) -> Option<f64> {
        self.top_p.filter(|_| self.model.reasoning != Reasoning::Effort)
    }

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
    /// Not shown before a result points at it; only for models that can defer ([`Model::defers`]).
    pub deferred: bool,
}

/// A message of the conversation, as every wire can say it.
#[derive(Debug, Clone)]
pub enum Message<'a> {
    User {
        text: &'a str,
        files: Vec<FileRef<'a>>,
    },
    /// In the order it was said.
    Assistant(Vec<Said<'a>>),
    /// The results of all calls of the assistant message before it, in the order of its calls.
    Results(Vec<ResultRef<'a>>),
}

impl<'a> Message<'a> {
    /// Words alone.
    pub fn user(text: &'a str) -> Self {
        Self::User { text, files: Vec::new() }
    }
}

/// A piece of an assistant message.
#[derive(Debug, Clone)]
pub enum Said<'a> {
    Text(&'a str),
    Thought(&'a Thought),
    Call(CallRef<'a>),
    Block(&'a Block),
}

/// A call in an assistant message. `id` is the provider's own where it gave one, else ours.
#[derive(Debug, Clone)]
pub struct CallRef<'a> {
    pub id: &'a str,
    pub tool: &'a str,
    pub input: &'a RawValue,
}

/// What became of one call.
#[derive(Debug, Clone)]
pub struct ResultRef<'a> {
    pub call: &'a str,
    pub tool: &'a str,
    pub output: &'a str,
    pub failed: bool,
    /// What it brought to look at.
    pub files: Vec<FileRef<'a>>,
    /// Deferred tools that are shown from here on. They are pointed at, and described nowhere in `output`.
    pub shows: &'a [String],
}

/// Something to look at, in base64.
#[derive(Debug, Clone)]
pub struct FileRef<'a> {
    pub name: &'a str,
    pub mime: &'a str,
    pub data: &'a str,
}

/// Seen while a reply arrives; may be lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    Text(String),
    Reasoning(String),
    /// A call of this tool is being written. What it is given is known when it is whole.
    Call(String),
}

/// A whole reply.
#[derive(Debug, Clone)]
pub struct Reply {
    /// In the order they arrived.
    pub parts: Vec<Part>,
    pub usage: Usage,
    pub finish: Finish,
}

/// Bytes of one delta: watchers take events up to a size.
const LARGEST_PIECE: usize = 256 << 10;
/// Bytes of a whole reply, as JSON. A model says a tenth of it at most; watchers take 8 MiB at once.
const LARGEST_REPLY: usize = 4 << 20;
/// The longest name of a tool, and the longest id, that servers take back.
const LONGEST_NAME: usize = 64;
const LONGEST_ID: usize = 256;
/// Tokens of one request: far more than any context. Who tells of more counts wrongly.
const MOST_TOKENS: u64 = 100_000_000;
/// What one request can cost, in dollars.
const MOST_MONEY: f64 = 10_000.0;

impl Delta {
    /// The same in pieces that anybody takes.
    fn in_pieces(self, seen: &mut (dyn FnMut(Delta) + Send)) {
        let (text, wrap): (String, fn(String) -> Self) = match self {
            Self::Text(text) => (text, Self::Text),
            Self::Reasoning(text) => (text, Self::Reasoning),
            Self::Call(mut tool) => {
                tool.truncate(tool.floor_char_boundary(LONGEST_NAME));
                return seen(Self::Call(tool));
            }
        };
        let mut rest = text.as_str();
        while rest.len() > LARGEST_PIECE {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(LARGEST_PIECE));
            seen(wrap(piece.to_owned()));
            rest = after;
        }
        // Nearly always all of it, and then not copied.
        seen(wrap(if rest.len() == text.len() { text } else { rest.to_owned() }));
    }
}

impl Reply {
    /// Within what can be kept, shown and sent back: a server may say anything.
    fn measured(mut self) -> Result<Self, Error> {
        let size: usize = self.parts.iter().map(Part::written_size).sum();
        if size > LARGEST_REPLY {
            return Err(Error::Garbage(format!("a reply of {size} bytes, and {LARGEST_REPLY} is the most")));
        }
        for part in &mut self.parts {
            if let Part::Call { id, tool, .. } = part {
                // No tool has such a name, so nothing else is meant by what is left of it.
                tool.truncate(tool.floor_char_boundary(LONGEST_NAME));
                // Without one, ours is used.
                *id = id.take().filter(|id| id.len() <= LONGEST_ID);
            }
        }
        if self.usage.context() > MOST_TOKENS {
            self.usage = Usage { cost_usd: self.usage.cost_usd, ..Usage::default() };
        }
        if !(0.0..=MOST_MONEY).contains(&self.usage.cost_usd) {
            self.usage.cost_usd = 0.0;
        }
        Ok(self)
    }

    /// Adds what a server leaves to us: a count where it does not count, and the price of what was used.
    fn settled(mut self, request: &Request) -> Result<Self, Error> {
        if self.finish == Finish::ContentFilter && !self.parts.iter().any(Part::is_heard) {
            return Err(Error::Declined("it gave no answer".to_owned()));
        }
        if self.usage.context() == 0 {
            // Without a number nobody would notice the context filling up.
            let said: usize = self.parts.iter().map(Part::size).sum();
            (self.usage.input, self.usage.output) = (estimate(request.size()), estimate(said));
        }
        if self.usage.cost_usd == 0.0
            && let Some(cost) = &request.model.cost
        {
            self.usage.cost_usd = cost.of(&self.usage);
        }
        Ok(self)
    }
}

#[derive(Debug, Clone)]
pub enum Part {
    Text(String),
    Reasoning(Thought),
    /// `input` is the argument text exactly as received; it may be broken JSON. Empty means `{}`.
    Call {
        id: Option<String>,
        tool: String,
        input: String,
    },
    /// Of a kind nobody here knows; kept for the server that sent it.
    Block(Block),
}

impl Part {
    /// Bytes of what the model wrote.
    pub fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Reasoning(thought) => thought.text.len(),
            Self::Call { tool, input, .. } => tool.len() + input.len(),
            Self::Block(block) => block.raw.get().len(),
        }
    }

    /// Bytes of it as JSON, which writes some characters as six.
    fn written_size(&self) -> usize {
        let quoted = |text: &str| text.len() + 5 * text.bytes().filter(|byte| *byte < 32).count();
        match self {
            Self::Text(text) => quoted(text),
            Self::Reasoning(thought) => {
                quoted(&thought.text) + thought.block.as_ref().map_or(0, |it| it.raw.get().len())
            }
            Self::Call { tool, input, .. } => quoted(tool).min(LONGEST_NAME) + quoted(input),
            Self::Block(block) => block.raw.get().len(),
        }
    }

    /// Words, or a call.
    fn is_heard(&self) -> bool {
        match self {
            Self::Text(text) => !text.trim().is_empty(),
            Self::Call { .. } => true,
            Self::Reasoning(_) | Self::Block(_) => false,
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
    /// The key could not be had, so nobody was asked.
    #[error("there is no key for the model's server: {0}")]
    NoKey(String),
    /// The server could not be reached, broke off, or went silent. Trying again may help.
    #[error("{0}")]
    Network(String),
    /// The server refused the request itself. Trying again will not help.
    #[error("the model's server refused the request: {0}")]
    Refused(String),
    /// The model itself would not answer.
    #[error("the model declined to answer: {0}")]
    Declined(String),
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
            Self::Auth(_) => {
                "check the provider's key: `api_key` in the config, its variable in the environment, or `convoke auth login`"
            }
            Self::NoKey(_) => {
                "run the command of `api_key_command` yourself: it has to print the key, and nothing else"
            }
            Self::Network(_) => "check that `base_url` is right and the server is up, then send the prompt again",
            Self::Refused(_) => "check the model's name and the provider's `wire` in the config",
            Self::Declined(_) => "say it differently, or choose another model",
            Self::Garbage(_) => "check that `base_url` points at an API of the configured `wire`",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(parts: Vec<Part>, usage: Usage) -> Result<Reply, Error> {
        Reply { parts, usage, finish: Finish::Stop }.measured()
    }

    #[test]
    fn what_a_server_says_is_kept_within_what_can_be_kept_and_sent_back() {
        let long = "ä".repeat(500_000);
        let call = Part::Call { id: Some(long.clone()), tool: long.clone(), input: String::new() };
        let parts = reply(vec![call], Usage::default()).unwrap().parts;
        let Part::Call { id: None, tool, .. } = &parts[0] else { panic!("{parts:?}") };
        assert_eq!(tool.len(), LONGEST_NAME);
        assert!(reply(vec![Part::Text("x".repeat(LARGEST_REPLY + 1))], Usage::default()).is_err());
        assert!(reply(vec![Part::Text("\u{1}".repeat(LARGEST_REPLY / 5))], Usage::default()).is_err());
        let many = Usage { input: u64::MAX, output: u64::MAX, cost_usd: f64::INFINITY, ..Usage::default() };
        assert_eq!(reply(Vec::new(), many).unwrap().usage, Usage::default());
    }

    #[test]
    fn a_long_delta_is_seen_in_pieces() {
        let text = "ä".repeat(LARGEST_PIECE);
        let mut seen = Vec::new();
        Delta::Reasoning(text.clone()).in_pieces(&mut |delta| seen.push(delta));
        assert_eq!(seen.len(), 2);
        let all: String = seen
            .iter()
            .map(|delta| match delta {
                Delta::Reasoning(it) => it.as_str(),
                Delta::Text(_) | Delta::Call(_) => "",
            })
            .collect();
        assert!(all == text || all.len() == text.len());
    }
}
