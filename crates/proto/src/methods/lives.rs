//! What the methods take and give that put sessions away, begin them anew, or write into them.

use crate::shape::{Chosen, Ref, Words};
use crate::{RunId, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetireInput {
    #[serde(rename = "ref")]
    #[schemars(with = "Ref")]
    pub reference: String,
    /// The same key again changes nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Chosen>")]
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Retired {
    pub session_id: SessionId,
    /// Always true: a session that cannot be put away is an error.
    pub archived: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InjectInput {
    #[serde(rename = "ref")]
    #[schemars(with = "Ref")]
    pub reference: String,
    /// Stands in the log as if the session's model had said it.
    #[schemars(with = "Words")]
    pub message: String,
    /// The same key again changes nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Chosen>")]
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Injected {
    pub session_id: SessionId,
    /// What `agent.wait` waits for until it stands there: no model is asked.
    pub run_id: RunId,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelsOutput {
    /// `provider/model` for sessions and agents that name none.
    pub default: String,
    pub models: Vec<ModelRow>,
}

/// A model that can be named. A key is never shown, only where it comes from.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelRow {
    /// `provider/model`.
    pub name: String,
    pub provider: String,
    pub model: String,
    pub wire: String,
    /// In tokens.
    pub context: u64,
    pub output: u64,
    /// Dollars for a million tokens, where they are known.
    pub cost: Option<serde_json::Value>,
    pub reasoning: bool,
    /// What may stand behind `#` in its name.
    #[serde(default)]
    pub variants: Vec<String>,
    pub images: bool,
    /// `none`, `env:VARIABLE`, `config`, `file` or `command`.
    pub key: String,
}
