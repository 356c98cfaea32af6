//! Errors as callers see them: a stable code, a message, and what to do next.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stable for ever: callers branch on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    InvalidInput,
    NotFound,
    Ambiguous,
    Conflict,
    Unauthorized,
    ForbiddenScope,
    Denied,
    Provider,
    Interrupted,
    Internal,
    ForbiddenVisibility,
    ForbiddenA2a,
    ForbiddenSandbox,
    ForbiddenDepth,
    ForbiddenAgent,
    LimitChildren,
    LimitBudget,
    LimitHops,
    LimitRate,
    Cycle,
    Timeout,
    Cancelled,
    Unavailable,
}

impl Code {
    /// The HTTP status a method answers with (P1).
    pub fn http_status(self) -> u16 {
        match self {
            Self::InvalidInput => 400,
            Self::Unauthorized => 401,
            Self::ForbiddenScope
            | Self::Denied
            | Self::ForbiddenVisibility
            | Self::ForbiddenA2a
            | Self::ForbiddenSandbox
            | Self::ForbiddenDepth
            | Self::ForbiddenAgent => 403,
            Self::NotFound => 404,
            Self::Conflict | Self::Ambiguous | Self::Cycle => 409,
            Self::LimitChildren | Self::LimitBudget | Self::LimitHops | Self::LimitRate => 429,
            Self::Unavailable => 503,
            Self::Provider | Self::Interrupted | Self::Timeout | Self::Cancelled | Self::Internal => 500,
        }
    }
}

/// What a method answers when it does not do what it was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct Error {
    pub code: Code,
    pub message: String,
    /// What the caller can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<serde_json::Value>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retryable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, details: None, retryable: false, retry_after_ms: None }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidInput, message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Overload: the same call may succeed later.
    pub fn unavailable(message: impl Into<String>, retry_after_ms: u64) -> Self {
        Self { retryable: true, retry_after_ms: Some(retry_after_ms), ..Self::new(Code::Unavailable, message) }
    }
}
