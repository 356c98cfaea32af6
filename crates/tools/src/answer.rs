//! Answers of the session tools: JSON, refusals too (spec 1).

use crate::Output;
use proto::{Code, Error};
use serde_json::{Value, json};

/// A refusal as a result: `forbidden` when a rule says so, `error` otherwise.
pub fn refused(error: &Error) -> Output {
    Output::json(&refusal(error)).failed()
}

pub(crate) fn refusal(error: &Error) -> Value {
    let mut value = json!({ "status": word(error.code), "error": error.message, "code": error.code });
    if let Some(hint) = &error.hint {
        value["hint"] = json!(hint);
    }
    if let Some(details) = &error.details {
        value["details"] = details.clone();
    }
    if let Some(after) = error.retry_after_ms {
        value["retryAfterMs"] = json!(after);
    }
    value
}

/// The word of the contract for a kind of refusal.
pub(crate) fn word(code: Code) -> &'static str {
    if code.http_status() == 403 { "forbidden" } else { "error" }
}

/// The result of a door that answers or refuses.
pub(crate) fn either(result: Result<impl serde::Serialize, Error>) -> Output {
    match result {
        Ok(value) => Output::json(&value),
        Err(error) => refused(&error),
    }
}
