//! `provider.<name>`: where a model is reached, and how.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::document::{Field, Node, excerpt};
use crate::reference::{Kind, Section, When, setting};
use crate::section::{Notes, near};
use crate::{Error, Secret};

/// An endpoint that speaks a wire format.
#[derive(Clone, Default, PartialEq, Serialize)]
pub struct Provider {
    /// Unset: what the vendor of this name speaks, and Chat Completions for any other.
    pub wire: Option<Wire>,
    /// As the vendor's own SDK takes it, without a slash at the end. Unset only for a vendor whose address is known.
    pub base_url: Option<String>,
    pub api_key: Option<Secret>,
    /// Prints the key; run when the first request needs it.
    pub api_key_command: Option<String>,
    /// Sent with every request. Often a second kind of key, so values are not shown.
    #[serde(serialize_with = "names_only")]
    pub headers: BTreeMap<String, String>,
    /// Models that need more said about them than their name. When there are any, no others can be named.
    pub models: BTreeMap<String, ModelLimits>,
    /// Requests under way at once; unset: as many as there are run slots.
    pub concurrency: Option<u32>,
    /// What may be asked in a minute.
    pub limits: Pace,
    /// How often a request is tried again when the server is busy or cannot be reached; unset: 5.
    pub retries: Option<u32>,
}

/// How fast a provider may be asked; unset: as fast as it answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pace {
    pub requests_per_minute: Option<u32>,
    /// Read and written, without what comes from the cache.
    pub tokens_per_minute: Option<u64>,
}

/// How requests and streams are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// The Messages API.
    Anthropic,
    /// The Responses API.
    OpenaiResponses,
    /// Chat Completions, which most local servers and many vendors speak.
    OpenaiChat,
}

/// What a model can take and what it costs, where that differs from what the catalogue says.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ModelLimits {
    /// Tokens of its window.
    pub context: Option<u64>,
    /// Tokens of its longest answer.
    pub output: Option<u64>,
    pub cost: Option<Cost>,
    /// How much it thinks before it answers; unset: as its server likes.
    pub effort: Option<Effort>,
    /// How it is told to think.
    pub reasoning: Option<Reasoning>,
    /// It can be shown images.
    pub images: Option<bool>,
    /// Its server takes tools that the model does not see before it is pointed at them.
    pub defers: Option<bool>,
    /// Ways it can be asked, by a name of their own.
    pub variants: BTreeMap<String, Variant>,
}

/// How a model is told to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reasoning {
    None,
    /// By a number of tokens.
    Budget,
    /// By a word.
    Effort,
}

/// A way to ask a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Variant {
    pub effort: Option<Effort>,
    /// Tokens to think with.
    pub budget: Option<u64>,
    /// Tokens of the longest answer.
    pub output: Option<u64>,
}

/// Dollars for a million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Cost {
    pub input: f64,
    pub output: f64,
    pub cache_read: Option<f64>,
    pub cache_write: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    Low,
    Medium,
    High,
}

/// Providers whose address is known: the crate that talks to them has it, and a test of the binary compares.
pub const VENDORS: &[&str] =
    &["anthropic", "openai", "openrouter", "mistral", "deepseek", "gemini", "ollama", "llamacpp", "vllm"];

const WIRES: &[(&str, Wire)] =
    &[("anthropic", Wire::Anthropic), ("openai-responses", Wire::OpenaiResponses), ("openai-chat", Wire::OpenaiChat)];
const EFFORTS: &[(&str, Effort)] = &[("low", Effort::Low), ("medium", Effort::Medium), ("high", Effort::High)];
pub(crate) const KEYS: &[&str] =
    &["wire", "base_url", "api_key", "api_key_command", "headers", "models", "concurrency", "limits", "retries"];
pub(crate) const LIMIT_KEYS: &[&str] = &["concurrency", "requestsPerMinute", "tokensPerMinute"];
const REASONINGS: &[(&str, Reasoning)] =
    &[("none", Reasoning::None), ("budget", Reasoning::Budget), ("effort", Reasoning::Effort)];
pub(crate) const MODEL_KEYS: &[&str] =
    &["context", "output", "cost", "effort", "reasoning", "images", "defers", "variants"];
const VARIANT_KEYS: &[&str] = &["effort", "budget", "output"];
const COST_KEYS: &[&str] = &["input", "output", "cache_read", "cache_write"];

/// More requests at once than any vendor takes from one user.
const MOST_AT_ONCE: u64 = 10_000;

/// The same in a minute.
const MOST_A_MINUTE: u64 = 1_000_000;

/// A8: at most so many.
const MOST_RETRIES: u64 = 5;

/// Dollars for a million tokens; ten times what the dearest model ever asked.
const HIGHEST_PRICE: f64 = 10_000.0;

/// What servers want at least.
const LEAST_BUDGET: u64 = 1_024;

/// Above any model there is; a longer number is a slip of the finger.
const MOST_TOKENS: u64 = 1_000_000_000;

pub(crate) const SECTION: Section = Section {
    name: "provider",
    about: "Where models are reached, and how.",
    when: When::NextRun,
    settings: &[
        setting(
            "provider.<name>.wire",
            Kind::Choice(&["anthropic", "openai-responses", "openai-chat"]),
            "what the vendor speaks, else `openai-chat`",
            "the format of requests",
        ),
        setting(
            "provider.<name>.base_url",
            Kind::Text,
            "the vendor's; required for others",
            "as the vendor's own SDK takes it",
        ),
        setting(
            "provider.<name>.api_key",
            Kind::Text,
            "the vendor's variable, then `convoke auth login`",
            "better as `{env:NAME}` than written out",
        ),
        setting("provider.<name>.api_key_command", Kind::Text, "none", "a command that prints the key"),
        setting("provider.<name>.headers", Kind::Any, "none", "sent with every request; values are never shown"),
        setting("provider.<name>.concurrency", Kind::Whole, "no limit of its own", "requests under way at once"),
        setting("provider.<name>.limits.concurrency", Kind::Whole, "no limit of its own", "the same as `concurrency`"),
        setting("provider.<name>.limits.requestsPerMinute", Kind::Whole, "no limit", "requests begun in a minute"),
        setting(
            "provider.<name>.limits.tokensPerMinute",
            Kind::Whole,
            "no limit",
            "tokens read and written in a minute, without what comes from the cache",
        ),
        setting("provider.<name>.retries", Kind::Whole, "5", "how often a request is tried again, 0 to 5"),
        setting("provider.<name>.models.<model>.context", Kind::Whole, "the catalogue's", "tokens of its window"),
        setting(
            "provider.<name>.models.<model>.output",
            Kind::Whole,
            "the catalogue's",
            "tokens of its longest answer",
        ),
        setting(
            "provider.<name>.models.<model>.cost",
            Kind::Any,
            "the catalogue's",
            "dollars for a million tokens: `{ \"input\", \"output\", \"cache_read\", \"cache_write\" }`",
        ),
        setting(
            "provider.<name>.models.<model>.effort",
            Kind::Choice(&["low", "medium", "high"]),
            "the server's",
            "how much it thinks before it answers",
        ),
        setting(
            "provider.<name>.models.<model>.reasoning",
            Kind::Choice(&["none", "budget", "effort"]),
            "the catalogue's",
            "how it is told to think: not at all, by a number of tokens, or by a word",
        ),
        setting(
            "provider.<name>.models.<model>.defers",
            Kind::Flag,
            "the catalogue's, at the vendor's own address",
            "whether its server (wire `anthropic`) takes tools with `defer_loading`, so that loading one keeps its cache",
        ),
        setting(
            "provider.<name>.models.<model>.variants",
            Kind::Any,
            "`low`, `medium` and `high` for a model that thinks",
            "ways to ask it, by names of your own: `{ \"deep\": { \"effort\", \"budget\", \"output\" } }`",
        ),
        setting(
            "provider.<name>.models.<model>.images",
            Kind::Flag,
            "the catalogue's",
            "whether it can be shown images",
        ),
    ],
};

impl Provider {
    pub(crate) fn read(node: &Node, notes: &mut Notes) -> Result<Self, Error> {
        let mut read = Self::default();
        for field in node.fields()? {
            match field.key.as_str() {
                "wire" => read.wire = Some(field.node.choice(WIRES)?),
                "base_url" => read.base_url = Some(url(&field.node)?),
                // An empty key is what `{env:NAME}` leaves behind: there is none.
                "api_key" => read.api_key = Some(field.node.text()?).filter(|key| !key.is_empty()).map(Secret::new),
                "api_key_command" => read.api_key_command = Some(field.node.text()?.to_owned()),
                "headers" => read.headers = read_headers(&field.node)?,
                "models" => read.models = read_models(&field.node, notes)?,
                "concurrency" => read.concurrency = Some(count(&field.node, 1, MOST_AT_ONCE)?),
                "limits" => read_limits(&mut read, &field.node, notes)?,
                "retries" => read.retries = Some(count(&field.node, 0, MOST_RETRIES)?),
                _ => notes.unknown(field, KEYS),
            }
        }
        let name = node.path.rsplit('.').next().unwrap_or_default();
        if read.base_url.is_none() && !VENDORS.contains(&name) {
            let meant = |field: &&Field| near(&field.key, &["base_url"]).is_some();
            if let Some(field) = node.fields()?.iter().find(meant) {
                let (path, key) = (&node.path, excerpt(&field.key));
                let what = format!("`{path}` has no `base_url`, only `{key}`");
                return Err(field.place.error(what, "call it `base_url`"));
            }
            let hint = "add where it is reached, such as `\"base_url\": \"http://localhost:8080/v1\"`";
            return Err(node.refuse("has no `base_url`", hint));
        }
        Ok(read)
    }
}

fn read_limits(read: &mut Provider, node: &Node, notes: &mut Notes) -> Result<(), Error> {
    for field in node.fields()? {
        match field.key.as_str() {
            "concurrency" => read.concurrency = Some(count(&field.node, 1, MOST_AT_ONCE)?),
            "requestsPerMinute" => read.limits.requests_per_minute = Some(count(&field.node, 1, MOST_A_MINUTE)?),
            "tokensPerMinute" => read.limits.tokens_per_minute = Some(field.node.whole(1, MOST_TOKENS)?),
            _ => notes.unknown(field, LIMIT_KEYS),
        }
    }
    Ok(())
}

fn count(node: &Node, least: u64, most: u64) -> Result<u32, Error> {
    Ok(u32::try_from(node.whole(least, most)?).unwrap_or(u32::MAX))
}

/// The value stays out of the message: a URL may hold a password.
pub(crate) fn url(node: &Node) -> Result<String, Error> {
    let url = node.text()?.trim_end_matches('/');
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    if rest.is_none_or(|rest| rest.is_empty() || rest.contains(|c: char| c.is_whitespace() || c.is_control())) {
        return Err(node.refuse("is not a URL", "start it with `https://` or `http://`, and leave no blanks in it"));
    }
    Ok(url.to_owned())
}

fn read_headers(node: &Node) -> Result<BTreeMap<String, String>, Error> {
    let mut headers = BTreeMap::new();
    for field in node.fields()? {
        let is_name = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        if field.key.is_empty() || !field.key.bytes().all(is_name) {
            return Err(field.node.refuse("is not the name of a header", "use letters, digits and `-`"));
        }
        let value = field.node.text()?;
        if value.contains(char::is_control) {
            return Err(field.node.refuse("holds a control character", "write the value on one line"));
        }
        headers.insert(field.key.clone(), value.to_owned());
    }
    Ok(headers)
}

fn read_models(node: &Node, notes: &mut Notes) -> Result<BTreeMap<String, ModelLimits>, Error> {
    let mut models = BTreeMap::new();
    for model in node.fields()? {
        let mut limits = ModelLimits::default();
        for field in model.node.fields()? {
            match field.key.as_str() {
                "context" => limits.context = Some(field.node.whole(1, MOST_TOKENS)?),
                "output" => limits.output = Some(field.node.whole(1, MOST_TOKENS)?),
                "cost" => limits.cost = Some(read_cost(&field.node, notes)?),
                "effort" => limits.effort = Some(field.node.choice(EFFORTS)?),
                "reasoning" => limits.reasoning = Some(field.node.choice(REASONINGS)?),
                "images" => limits.images = Some(field.node.flag()?),
                "defers" => limits.defers = Some(field.node.flag()?),
                "variants" => limits.variants = read_variants(&field.node, notes)?,
                _ => notes.unknown(field, MODEL_KEYS),
            }
        }
        models.insert(model.key.clone(), limits);
    }
    Ok(models)
}

fn read_variants(node: &Node, notes: &mut Notes) -> Result<BTreeMap<String, Variant>, Error> {
    let mut variants = BTreeMap::new();
    for named in node.fields()? {
        let mut variant = Variant::default();
        for field in named.node.fields()? {
            match field.key.as_str() {
                "effort" => variant.effort = Some(field.node.choice(EFFORTS)?),
                "budget" => variant.budget = Some(field.node.whole(LEAST_BUDGET, MOST_TOKENS)?),
                "output" => variant.output = Some(field.node.whole(1, MOST_TOKENS)?),
                _ => notes.unknown(field, VARIANT_KEYS),
            }
        }
        variants.insert(named.key.clone(), variant);
    }
    Ok(variants)
}

fn read_cost(node: &Node, notes: &mut Notes) -> Result<Cost, Error> {
    let mut cost = Cost::default();
    for field in node.fields()? {
        let price = |field: &Field| field.node.number(0.0, HIGHEST_PRICE);
        match field.key.as_str() {
            "input" => cost.input = price(field)?,
            "output" => cost.output = price(field)?,
            "cache_read" => cost.cache_read = Some(price(field)?),
            "cache_write" => cost.cache_write = Some(price(field)?),
            _ => notes.unknown(field, COST_KEYS),
        }
    }
    Ok(cost)
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("wire", &self.wire)
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key)
            .field("api_key_command", &self.api_key_command.as_ref().map(|_| "***"))
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("models", &self.models)
            .field("concurrency", &self.concurrency)
            .field("limits", &self.limits)
            .field("retries", &self.retries)
            .finish()
    }
}

fn names_only<S: Serializer>(headers: &BTreeMap<String, String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(headers.keys().map(|name| (name, "***")))
}
