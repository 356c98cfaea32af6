//! Permission rules as they are written, stored and shown; `rules` evaluates them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a rule says. Ordered: the smaller of two is the stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    Deny,
    Ask,
    Allow,
}

/// One line of a ruleset: the last one that matches decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rule {
    pub permission: String,
    pub pattern: String,
    pub action: Action,
}

impl Rule {
    pub fn new(permission: impl Into<String>, pattern: impl Into<String>, action: Action) -> Self {
        Self { permission: permission.into(), pattern: pattern.into(), action }
    }
}
