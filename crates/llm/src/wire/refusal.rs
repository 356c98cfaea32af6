//! What a server's complaint means for us, whether it came as a status or in the middle of a stream.

use crate::Error;
use crate::wire::mask::excerpt;
use reqwest::header::HeaderMap;
use serde_json::Value;
use std::time::{Duration, SystemTime};

/// Longer than any server means; what is longer than our patience is for `retry` to say.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// How servers say that the conversation is too long.
const TOO_LONG: &[&str] = &[
    "context_length",
    "context length",
    "context window",
    "context size",
    "context_size",
    "context limit",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "input token count",
    "reduce the length of",
    "maximum number of tokens",
    "max_prompt_tokens",
];

/// A kind of complaint that no waiting mends.
const NO_MONEY: &[&str] = &["insufficient_quota", "billing", "credit balance", "insufficient credits"];

const BAD_KEY: &[&str] = &["invalid_api_key", "authentication", "unauthorized", "permission_denied"];
const TOO_FAST: &[&str] = &["rate_limit", "rate limit", "too many requests", "resource_exhausted"];
const BAD_REQUEST: &[&str] = &["invalid_request", "not_found", "unsupported", "bad_request", "badrequest"];

/// What a response with this status means.
pub(crate) fn from_status(status: u16, headers: &HeaderMap, body: &[u8], now: SystemTime) -> Error {
    let json: Option<Value> = serde_json::from_slice(body).ok();
    let complaint = json.as_ref().and_then(Complaint::of);
    let (words, said) = match &complaint {
        Some(complaint) => (complaint.words(), excerpt(complaint.message.as_bytes())),
        None => (String::from_utf8_lossy(body).to_lowercase(), excerpt(body)),
    };
    let message = if said.is_empty() { format!("HTTP {status}") } else { format!("HTTP {status}: {said}") };
    let wait = retry_after(headers, now);
    match status {
        401..=403 => Error::Auth(message),
        400 if has(&words, NO_MONEY) => Error::Auth(message),
        429 if has(&words, NO_MONEY) => Error::Auth(message),
        429 => Error::RateLimited { message, retry_after: wait },
        413 => Error::Overflow(message),
        400 | 422 if has(&words, TOO_LONG) => Error::Overflow(message),
        300..400 => {
            Error::Refused(format!("{message} (redirects are not followed, so that the key stays with `base_url`)"))
        }
        408 | 409 | 425 => Error::Network(message),
        503 | 529 if wait.is_some() => Error::RateLimited { message, retry_after: wait },
        500.. => Error::Network(format!("the model's server failed: {message}")),
        _ => Error::Refused(message),
    }
}

/// What an error object inside an answer means. `None` if it is not one.
pub(crate) fn from_object(value: &Value) -> Option<Error> {
    let complaint = Complaint::of(value)?;
    let words = complaint.words();
    let message = excerpt(complaint.message.as_bytes());
    let known = match complaint.status {
        Some(401..=403) => Some(Error::Auth(message.clone())),
        Some(404) => Some(Error::Refused(message.clone())),
        _ => None,
    };
    Some(if has(&words, TOO_LONG) {
        Error::Overflow(message)
    } else if let Some(error) = known {
        error
    } else if has(&words, NO_MONEY) || has(&words, BAD_KEY) {
        Error::Auth(message)
    } else if complaint.status == Some(429) || has(&words, TOO_FAST) {
        Error::RateLimited { message, retry_after: None }
    } else if complaint.status == Some(400) || has(&words, BAD_REQUEST) {
        Error::Refused(message)
    } else {
        // Overloaded, out of memory, lost a worker: a server that began to answer can be asked again.
        Error::Network(format!("the model's server failed in mid-answer: {message}"))
    })
}

/// The same for wires whose events may have a `message` that is no complaint.
pub(crate) fn from_event(value: &Value) -> Option<Error> {
    if value["type"] == "error" || !value["error"].is_null() { from_object(value) } else { None }
}

/// An error as one of the shapes servers give it.
struct Complaint {
    status: Option<u64>,
    kind: String,
    message: String,
}

impl Complaint {
    fn of(value: &Value) -> Option<Self> {
        // One vendor wraps its errors in a list.
        let value = value.get(0).unwrap_or(value);
        let error = match &value["error"] {
            Value::Null if value["object"] == "error" || value["type"] == "error" => value,
            Value::Null => return Self::bare(value),
            Value::Bool(false) => return None,
            error => error,
        };
        let message = ["message", "msg", "detail"].iter().find_map(|field| error[*field].as_str());
        let message = message.or(error.as_str()).map_or_else(|| error.to_string(), str::to_owned);
        // Gateways put the text of the server behind them one level deeper.
        let deeper = error["metadata"]["raw"].as_str().map(|raw| format!("{message}: {raw}"));
        Some(Self { status: status(error), kind: kind(error), message: deeper.unwrap_or(message) })
    }

    /// `{"detail": "..."}` or `{"message": "..."}`, with nothing of an answer around it.
    fn bare(value: &Value) -> Option<Self> {
        if !value["choices"].is_null() || !value["usage"].is_null() {
            return None;
        }
        let said = [&value["detail"], &value["message"]].into_iter().find(|said| !said.is_null())?;
        let message = said.as_str().map_or_else(|| said.to_string(), str::to_owned);
        Some(Self { status: status(value), kind: kind(value), message })
    }

    fn words(&self) -> String {
        format!("{} {}", self.kind, self.message).to_lowercase()
    }
}

fn status(error: &Value) -> Option<u64> {
    let code = |field: &Value| field.as_u64().or_else(|| field.as_str()?.parse().ok());
    code(&error["code"]).or_else(|| code(&error["status"]))
}

fn kind(error: &Value) -> String {
    let words = ["type", "code", "status"].iter().filter_map(|field| error[*field].as_str());
    words.collect::<Vec<_>>().join(" ")
}

fn has(words: &str, any: &[&str]) -> bool {
    any.iter().any(|word| words.contains(word))
}

/// In milliseconds, in seconds, or as a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1000.0).or_else(|| number("retry-after"));
    let wait = match seconds {
        Some(seconds) => Duration::try_from_secs_f64(seconds.max(0.0)).ok()?,
        // A moment that has passed means now.
        None => httpdate::parse_http_date(text("retry-after")?).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    /// The variant's name and what it says.
    fn shown(error: &Error) -> String {
        let kind = format!("{error:?}");
        let end = kind.find(['(', ' ']).unwrap_or(kind.len());
        format!("{} | {error}", &kind[..end])
    }

    #[track_caller]
    fn check(status: u16, body: &str, expected: &str) {
        let error = from_status(status, &HeaderMap::new(), body.as_bytes(), SystemTime::UNIX_EPOCH);
        assert!(shown(&error).starts_with(expected), "{status} {body}: {}", shown(&error));
    }

    #[test]
    fn a_status_says_what_can_be_done() {
        check(401, r#"{"error":{"message":"no key"}}"#, "Auth | the model's server refused the key: HTTP 401: no key");
        check(403, "", "Auth | the model's server refused the key: HTTP 403");
        check(402, "pay first", "Auth");
        check(404, r#"{"error":{"message":"model `x` not found","type":"not_found_error"}}"#, "Refused");
        check(400, r#"{"error":{"message":"bad temperature","code":null}}"#, "Refused");
        check(429, r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#, "RateLimited");
        check(429, r#"{"error":{"message":"You ran out","code":"insufficient_quota"}}"#, "Auth");
        check(500, "<html>oops</html>", "Network | the model's server failed: HTTP 500: <html>oops</html>");
        check(529, "", "Network");
        check(
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}"#,
            "Auth",
        );
        check(529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, "Network");
        check(408, "", "Network");
        check(307, "", "Refused");
    }

    #[test]
    fn a_conversation_that_is_too_long_is_told_in_many_ways() {
        check(400, r#"{"error":{"message":"too big","code":"context_length_exceeded"}}"#, "Overflow");
        check(400, r#"{"object":"error","message":"This model's maximum context length is 4096 tokens"}"#, "Overflow");
        check(
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
            "Overflow",
        );
        check(
            400,
            r#"[{"error":{"message":"The input token count (9) exceeds the maximum","status":"INVALID_ARGUMENT"}}]"#,
            "Overflow",
        );
        check(
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            "Overflow",
        );
        check(
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"}}"#,
            "Overflow",
        );
        check(
            400,
            r#"{"error":{"message":"Your input exceeds the context window of this model.","code":"context_length_exceeded"}}"#,
            "Overflow",
        );
        check(
            400,
            r#"{"message":"Prompt contains 40000 tokens, too large for model with 32768 maximum context length"}"#,
            "Overflow",
        );
        check(422, r#"{"detail":"prompt is too long"}"#, "Overflow");
        check(413, "", "Overflow");
        // A limit on speed that speaks of tokens is still a limit on speed.
        check(429, r#"{"error":{"message":"too many tokens per minute"}}"#, "RateLimited");
    }

    #[test]
    fn a_wait_is_honoured_in_both_units_and_as_a_date_and_capped() {
        let wait = |pairs: &[(&'static str, &str)]| match from_status(429, &headers(pairs), b"", SystemTime::UNIX_EPOCH)
        {
            Error::RateLimited { retry_after, .. } => retry_after,
            other => panic!("{other:?}"),
        };
        assert_eq!(wait(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(wait(&[("retry-after", "1"), ("retry-after-ms", "250")]), Some(Duration::from_millis(250)));
        assert_eq!(wait(&[("retry-after", "999999999")]), Some(LONGEST_WAIT));
        assert_eq!(wait(&[("retry-after", "-5")]), Some(Duration::ZERO));
        assert_eq!(wait(&[("retry-after", "Thu, 01 Jan 1970 00:01:30 GMT")]), Some(Duration::from_secs(90)));
        assert_eq!(wait(&[("retry-after", "Wed, 31 Dec 1969 23:59:59 GMT")]), None);
        assert_eq!(wait(&[("retry-after", "soon")]), None);
        assert_eq!(wait(&[("retry-after", "NaN")]), Some(Duration::ZERO));
    }

    #[test]
    fn a_busy_server_that_names_a_time_is_waited_for() {
        let error = from_status(503, &headers(&[("retry-after", "3")]), b"busy", SystemTime::UNIX_EPOCH);
        assert!(matches!(error, Error::RateLimited { retry_after: Some(wait), .. } if wait.as_secs() == 3));
        assert!(matches!(from_status(503, &HeaderMap::new(), b"busy", SystemTime::UNIX_EPOCH), Error::Network(_)));
    }

    #[track_caller]
    fn check_object(json: &str, expected: &str) {
        let error = from_object(&serde_json::from_str(json).unwrap()).expect("an error");
        assert!(shown(&error).starts_with(expected), "{json}: {}", shown(&error));
    }

    #[test]
    fn an_error_inside_a_stream_is_sorted_by_its_words() {
        check_object(r#"{"error":{"message":"maximum context length exceeded","code":400}}"#, "Overflow");
        check_object(r#"{"error":{"message":"Rate limit reached","type":"rate_limit_error"}}"#, "RateLimited");
        check_object(r#"{"error":{"message":"no","code":"invalid_api_key"}}"#, "Auth");
        check_object(r#"{"error":{"message":"no such tool","type":"invalid_request_error"}}"#, "Refused");
        check_object(r#"{"error":"out of memory"}"#, "Network");
        check_object(r#"{"error":{"code":502,"message":"upstream gone"}}"#, "Network");
        check_object(r#"{"object":"error","message":"bad","code":400}"#, "Refused");
        check_object(r#"{"message":"overloaded"}"#, "Network");
        assert!(from_object(&serde_json::json!({ "choices": [], "error": null })).is_none());
        assert!(from_object(&serde_json::json!({ "message": "x", "choices": [] })).is_none());
    }

    #[test]
    fn a_long_complaint_is_cut() {
        let error = from_status(400, &HeaderMap::new(), "x".repeat(100_000).as_bytes(), SystemTime::UNIX_EPOCH);
        assert!(error.to_string().chars().count() < 600);
    }
}
