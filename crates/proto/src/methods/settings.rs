//! What the methods about settings take and give.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A directory, for what differs between them.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct InDirectory {
    /// An absolute path; without it, what holds everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ConfigInput {
    /// An absolute path; without it, what holds everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Only what stands at or below these keys, such as `limits` or `agent.build.steps`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigOutput {
    /// Everything, or what stands at `path`; null where nothing does.
    pub value: serde_json::Value,
    /// What is odd about the settings.
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OriginOutput {
    pub settings: Vec<SettingRow>,
}

/// One value that counts.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SettingRow {
    /// The keys that lead to it, joined by dots.
    pub path: String,
    pub value: serde_json::Value,
    pub origin: SettingOrigin,
}

/// Where a value stands.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SettingOrigin {
    /// `builtin`, `organisation`, `user`, `file`, `project`, `directory`, `content` or `managed`.
    pub layer: String,
    /// A path, an address, or the name of a variable.
    pub file: String,
    pub line: u32,
}
