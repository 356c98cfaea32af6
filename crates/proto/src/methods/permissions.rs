//! `permissions.*`: calls that wait for a user's approval, with all that they need to know before they answer.

use crate::letter::AskReply;
use crate::{AskId, CallId, Millis, Rule, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Asks {
    pub asks: Vec<AskInfo>,
}

/// A permission request. The event `ask`, `permissions.list` and `permissions.get` all show it like this.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskInfo {
    pub ask_id: AskId,
    pub session_id: SessionId,
    pub agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    #[serde(default)]
    pub tool: String,
    pub permission: String,
    pub patterns: Vec<String>,
    /// What the answer `always` could keep: one text for each choice, the narrowest first. Empty: nothing.
    #[serde(default)]
    pub always: Vec<String>,
    /// The rules of each choice; `keep` of `permissions.reply` is an index of this list.
    #[serde(default)]
    pub keeps: Vec<Vec<Rule>>,
    /// What the first choice would keep, one for each pattern; an empty pattern is none.
    #[serde(default)]
    pub rules: Vec<Rule>,
    #[serde(flatten)]
    pub about: AskAbout,
    #[serde(default)]
    pub created_at: Millis,
    #[serde(default)]
    pub until: Millis,
    /// The session that is asked beside the user: the lead whose plan it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<SessionId>,
    /// The answer, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<AskReply>,
}

/// What a permission request says about its call: found out when the call is made, and stored with the request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AskAbout {
    /// The session among those above it, by name: `build/writer`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The session's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The entry of the session's log that has the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// What the call was given.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// How long the whole input is, as JSON.
    pub input_bytes: u64,
    /// Texts in `input` are cut here; `permissions.get` has the whole.
    pub input_cut: bool,
    /// Why it is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<AskReason>,
    /// A deny might match it, which is known only when it runs: nothing but a person's answer allows it.
    pub may_be_denied: bool,
    /// What would become of files, as a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The diff is cut here; `permissions.get` has more of it, and the input has all.
    pub diff_cut: bool,
}

/// Why something is asked, and by which rule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AskReason {
    pub text: String,
    /// The rule that decides; without one, no rule matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// `builtin` for a rule that stands in no file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AskInput {
    pub ask_id: AskId,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AskAnswer {
    pub ask_id: AskId,
    pub reply: AskReply,
    /// With `always`: which of the choices in `keeps` is kept; the first one without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<u32>,
    /// Told to the model with a rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
