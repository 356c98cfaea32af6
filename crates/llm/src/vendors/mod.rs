//! Vendors: where each is, how it is opened, and in what it differs. One line of a table each.
//!
//! Any other server needs only `base_url` in the settings; this table saves people from looking up what is known.

pub mod local;
mod setup;

pub use setup::{About, Setup, Source};

use crate::wire::{Auth, Wire};

/// Somebody who runs models.
#[derive(Debug, Clone, Copy)]
pub struct Vendor {
    /// What its models are named with: `name/model`.
    pub name: &'static str,
    pub wire: Wire,
    /// As its own SDK takes it; empty where everybody has an address of their own.
    pub base_url: &'static str,
    pub auth: Auth,
    /// Variables of the environment its key may be in, the first that is set counts. None: it needs no key.
    pub keys: &'static [&'static str],
    /// The variable its SDK reads another address from.
    pub base_env: Option<&'static str>,
    /// Who answers when its key is all there is.
    pub model: &'static str,
    pub quirk: Quirk,
}

/// In what a server differs from the format it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quirk {
    None,
    /// It wants its plain thoughts back.
    EchoThoughts,
    /// Whoever poses as this vendor at another address speaks Chat Completions, and seldom more.
    ChatElsewhere,
}

const BEARER: Auth = Auth::Bearer;

/// In the order in which a key is looked for.
#[rustfmt::skip]
pub const VENDORS: &[Vendor] = &[
    Vendor { name: "anthropic",  wire: Wire::Anthropic,       base_url: "https://api.anthropic.com",         auth: Auth::Header("x-api-key"), keys: &["ANTHROPIC_API_KEY"],                base_env: Some("ANTHROPIC_BASE_URL"), model: "claude-sonnet-4-5", quirk: Quirk::None },
    Vendor { name: "openai",     wire: Wire::OpenAiResponses, base_url: "https://api.openai.com/v1",         auth: BEARER,                    keys: &["OPENAI_API_KEY"],                   base_env: Some("OPENAI_BASE_URL"),    model: "gpt-5-mini",        quirk: Quirk::ChatElsewhere },
    Vendor { name: "openrouter", wire: Wire::OpenAiChat,      base_url: "https://openrouter.ai/api/v1",      auth: BEARER,                    keys: &["OPENROUTER_API_KEY"],               base_env: None,                       model: "openrouter/auto",   quirk: Quirk::None },
    Vendor { name: "mistral",    wire: Wire::OpenAiChat,      base_url: "https://api.mistral.ai/v1",         auth: BEARER,                    keys: &["MISTRAL_API_KEY"],                  base_env: None,                       model: "mistral-medium-latest", quirk: Quirk::None },
    Vendor { name: "deepseek",   wire: Wire::OpenAiChat,      base_url: "https://api.deepseek.com/v1",       auth: BEARER,                    keys: &["DEEPSEEK_API_KEY"],                 base_env: None,                       model: "deepseek-chat",     quirk: Quirk::EchoThoughts },
    Vendor { name: "gemini",     wire: Wire::OpenAiChat,      base_url: "https://generativelanguage.googleapis.com/v1beta/openai", auth: BEARER, keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"], base_env: None,                       model: "gemini-2.5-flash",  quirk: Quirk::None },
    Vendor { name: "azure",      wire: Wire::OpenAiChat,      base_url: "",                                  auth: Auth::Header("api-key"),   keys: &["AZURE_OPENAI_API_KEY"],             base_env: None,                       model: "",                  quirk: Quirk::None },
    Vendor { name: "ollama",     wire: Wire::OpenAiChat,      base_url: "http://127.0.0.1:11434/v1",         auth: BEARER,                    keys: &[],                                   base_env: None,                       model: "",                  quirk: Quirk::None },
    Vendor { name: "llamacpp",   wire: Wire::OpenAiChat,      base_url: "http://127.0.0.1:8080/v1",          auth: BEARER,                    keys: &[],                                   base_env: None,                       model: "",                  quirk: Quirk::None },
    Vendor { name: "vllm",       wire: Wire::OpenAiChat,      base_url: "http://127.0.0.1:8000/v1",          auth: BEARER,                    keys: &[],                                   base_env: None,                       model: "",                  quirk: Quirk::None },
];

/// The vendor of this name.
pub fn find(name: &str) -> Option<&'static Vendor> {
    VENDORS.iter().find(|vendor| vendor.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vendor_can_be_told_apart_and_reached() {
        for (n, vendor) in VENDORS.iter().enumerate() {
            assert!(VENDORS[..n].iter().all(|other| other.name != vendor.name), "{}", vendor.name);
            assert!(!vendor.name.contains('/') && !vendor.base_url.ends_with('/'), "{}", vendor.name);
            let local = vendor.base_url.starts_with("http://127.0.0.1:");
            assert!(vendor.base_url.is_empty() || local || vendor.base_url.starts_with("https://"), "{}", vendor.name);
            assert_eq!(local, vendor.keys.is_empty(), "only this machine asks for no key: {}", vendor.name);
        }
    }
}
