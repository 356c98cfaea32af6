//! `questions.*`: what models want to know from a person.

use crate::{AskId, Millis, Question, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct QuestionsOutput {
    pub questions: Vec<QuestionInfo>,
}

/// What one call of a model asks.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionInfo {
    pub id: AskId,
    pub session_id: SessionId,
    pub agent: String,
    /// The session among those above it, by name: `build/writer`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The session's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub questions: Vec<Question>,
    #[serde(default)]
    pub created_at: Millis,
    #[serde(default)]
    pub until: Millis,
}

/// Answers, or a word that there are none.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    { "required": ["answers"], "properties": { "answers": { "minItems": 1 }, "reject": { "const": false } } },
    { "required": ["reject"], "properties": { "answers": { "maxItems": 0 }, "reject": { "const": true } } },
]))]
pub struct QuestionAnswer {
    pub id: AskId,
    /// A list for each question: labels of its options, or words of one's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Vec<String>>,
    /// Nobody answers; the model goes on without.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reject: bool,
    /// Told to the model with a rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
