//! `provider.<name>`: where a model is reached, and how.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::document::Node;
use crate::section::Notes;
use crate::{Error, Secret};

/// An endpoint that speaks a wire format.
#[derive(Clone, PartialEq, Serialize)]
pub struct Provider {
    pub wire: Wire,
    /// As the vendor's own SDK takes it, without a slash at the end.
    pub base_url: String,
    pub api_key: Option<Secret>,
    /// Sent with every request. Often a second kind of key, so values are not shown.
    #[serde(serialize_with = "names_only")]
    pub headers: BTreeMap<String, String>,
    /// Models that need more said about them than their name.
    pub models: BTreeMap<String, ModelLimits>,
}

/// How requests and streams are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// Chat Completions, which most local servers and many vendors speak.
    #[default]
    OpenaiChat,
}

/// What a model can take, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ModelLimits {
    pub context: Option<u64>,
    pub output: Option<u64>,
}

const WIRES: &[(&str, Wire)] = &[("openai-chat", Wire::OpenaiChat)];
const KEYS: &[&str] = &["wire", "base_url", "api_key", "headers", "models"];
const MODEL_KEYS: &[&str] = &["context", "output"];

/// Above any model there is; a longer number is a slip of the finger.
const MOST_TOKENS: u64 = 1_000_000_000;

impl Provider {
    pub(crate) fn read(node: &Node, notes: &mut Notes) -> Result<Self, Error> {
        let (mut wire, mut base_url, mut api_key) = (Wire::default(), None, None);
        let (mut headers, mut models) = (BTreeMap::new(), BTreeMap::new());
        notes.repeated(node.fields()?);
        for field in node.fields()? {
            match field.key.as_str() {
                "wire" => wire = field.node.choice(WIRES)?,
                "base_url" => base_url = Some(url(&field.node)?),
                // An empty key is what `{env:NAME}` leaves behind: there is none.
                "api_key" => api_key = Some(field.node.text()?).filter(|key| !key.is_empty()).map(Secret::new),
                "headers" => headers = read_headers(&field.node)?,
                "models" => models = read_models(&field.node, notes)?,
                _ => notes.unknown(field, KEYS),
            }
        }
        let hint = "add where it is reached, such as `\"base_url\": \"http://localhost:8080/v1\"`";
        let base_url = base_url.ok_or_else(|| node.refuse("has no `base_url`", hint))?;
        Ok(Self { wire, base_url, api_key, headers, models })
    }
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
                _ => notes.unknown(field, MODEL_KEYS),
            }
        }
        models.insert(model.key.clone(), limits);
    }
    Ok(models)
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("wire", &self.wire)
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("models", &self.models)
            .finish()
    }
}

fn names_only<S: Serializer>(headers: &BTreeMap<String, String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(headers.keys().map(|name| (name, "***")))
}
