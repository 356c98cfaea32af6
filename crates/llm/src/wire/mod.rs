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

use crate::{Error, Provider, Reply};
use format::Format;
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

    /// Reads an answer that is there already, cut as it is given. For those who try what a server may send.
    pub fn read<'a>(self, chunks: impl IntoIterator<Item = &'a [u8]>) -> Result<Reply, Error> {
        match self {
            Self::Anthropic => reader::read::<<anthropic::Messages as Format>::Answer>(chunks),
            Self::OpenAiResponses => reader::read::<<openai_responses::Responses as Format>::Answer>(chunks),
            Self::OpenAiChat => reader::read::<<openai_chat::Chat as Format>::Answer>(chunks),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Message, Model, Request};
    use bytes::Bytes;
    use testkit::{FakeModel, Reply};

    const KEY: &str = "sk-do-not-show-me-0123456789";

    fn request(provider: &dyn Provider) -> Request {
        let messages = vec![provider.encode(&Message::user("hi"))];
        let model = Model::new("test", 10_000, 100);
        Request {
            model,
            system: String::new(),
            tools: Bytes::new(),
            messages,
            temperature: None,
            top_p: None,
            options: serde_json::Map::new(),
        }
    }

    fn base(wire: Wire, fake: &FakeModel) -> String {
        if wire == Wire::Anthropic { fake.origin() } else { fake.base_url() }
    }

    #[tokio::test]
    async fn t15_a_key_stays_with_its_origin_wherever_a_server_points() {
        for wire in Wire::ALL {
            for status in [301, 302, 303, 307, 308] {
                let (theirs, other) = (FakeModel::start(), FakeModel::start());
                theirs.push(Reply::raw(status, "").header("location", format!("{}/v1/steal", other.origin())));
                let provider = wire.provider(Endpoint { key: KEY.into(), ..Endpoint::at(base(wire, &theirs)) });
                let error = provider.stream(request(&*provider), &mut |_| {}).await.unwrap_err().to_string();
                assert!(error.contains("redirects are not followed"), "{error}");
                assert_eq!((theirs.count(), other.count()), (1, 0), "{wire:?} {status}");
            }
        }
    }

    #[tokio::test]
    async fn a_key_from_a_command_is_asked_for_once_and_again_when_it_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let count = dir.path().join("count");
        let command = format!("echo x >> {0}; echo secret-key-$(wc -l < {0})", count.display());
        let fake = FakeModel::start();
        let endpoint = Endpoint { key: Key::Command(command), ..Endpoint::at(fake.base_url()) };
        let provider = Wire::OpenAiChat.provider(endpoint);
        let sent = || fake.last().unwrap().headers["authorization"].to_str().unwrap().to_owned();
        for _ in 0..2 {
            provider.stream(request(&*provider), &mut |_| {}).await.unwrap();
            assert_eq!(sent(), "Bearer secret-key-1");
        }
        fake.push(Reply::raw(401, r#"{"error":{"message":"secret-key-1 has expired"}}"#));
        let error = provider.stream(request(&*provider), &mut |_| {}).await.unwrap_err().to_string();
        assert!(error.ends_with("*** has expired"), "{error}");
        provider.stream(request(&*provider), &mut |_| {}).await.unwrap();
        assert_eq!(sent(), "Bearer secret-key-2");
    }

    #[test]
    fn every_wire_is_named_as_its_format_is() {
        let names = [anthropic::Messages::NAME, openai_responses::Responses::NAME, openai_chat::Chat::NAME];
        assert_eq!(Wire::ALL.map(Wire::as_str), names);
    }
}
