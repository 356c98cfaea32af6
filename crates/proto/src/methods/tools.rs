//! `tools.*`: what a model is shown, and why something is allowed or not.

use crate::shape::{AgentName, Directory, Ref};
use crate::{Action, Rule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ToolsInput {
    /// As this session is shown them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Ref>")]
    pub session: Option<String>,
    /// As a new session of this agent would be; the default one without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AgentName>")]
    pub agent: Option<String>,
    /// Where it would work.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Directory>")]
    pub cwd: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolsOutput {
    pub agent: String,
    /// In the order of the tool list.
    pub tools: Vec<ToolInfo>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolInfo {
    pub name: String,
    /// The first line of it.
    pub description: String,
    /// What its calls ask for.
    pub permission: String,
    /// Told by name only, until it is loaded.
    pub deferred: bool,
    pub hidden: bool,
    /// Why it is hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WhyInput {
    /// The tool or the permission.
    pub tool: String,
    /// What it is wanted for: a command, a path, a name.
    pub pattern: String,
    /// As a new session of this agent; the default one without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AgentName>")]
    pub agent: Option<String>,
    /// As this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Ref>")]
    pub session: Option<String>,
    /// Where it would be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Directory>")]
    pub cwd: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WhyOutput {
    #[serde(flatten)]
    pub whole: WhyPart,
    pub agent: String,
    /// What a shell line does, one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<WhyPart>,
    /// The variables that a command gets, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
}

/// One decision.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WhyPart {
    pub permission: String,
    pub pattern: String,
    pub action: Action,
    /// The rule that decides, if there is one.
    pub rule: Option<Rule>,
    /// Where that rule stands.
    pub origin: Option<WhyOrigin>,
    pub reason: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WhyOrigin {
    /// `builtin` for what stands in no file.
    pub layer: String,
    pub file: Option<String>,
    pub line: Option<u64>,
}
