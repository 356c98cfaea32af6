//! `sessions_history`: what was said in another session (S5).

use crate::{Access, Error, Output, Spec, Tool, ToolCx, answer, tolerant};
use async_trait::async_trait;
use proto::methods::HistoryInput;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub struct SessionsHistory;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// The session: its key, id or label.
    #[serde(deserialize_with = "tolerant::required", alias = "session_key")]
    session_key: String,
    /// Messages of the page: 50 unless given.
    #[serde(default, deserialize_with = "tolerant::number")]
    #[schemars(with = "Option<u64>")]
    limit: Option<u64>,
    /// Tool calls and their results too.
    #[serde(default, deserialize_with = "tolerant::truth", alias = "include_tools")]
    include_tools: bool,
    /// Only what is older than this message: its `seq` or `id`.
    #[serde(default, deserialize_with = "place")]
    #[schemars(with = "Option<u64>")]
    before: Option<u64>,
    /// Only what is newer than this message: its `seq` or `id`.
    #[serde(default, deserialize_with = "place")]
    #[schemars(with = "Option<u64>")]
    after: Option<u64>,
}

/// A message's `seq`, or its `id`, which holds it.
fn place<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let value = Value::deserialize(from)?;
    let bare = match value.as_str().and_then(|text| text.trim().strip_prefix("msg_")) {
        Some(seq) => Value::String(seq.to_owned()),
        None => value,
    };
    tolerant::number(bare).map_err(|_| D::Error::custom("expected a message's `seq` or `id`"))
}

#[async_trait]
impl Tool for SessionsHistory {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("sessions_history", include_str!("prompt.md")).again().json().defer()
    }

    fn access(&self, args: &Args, _: &ToolCx) -> Vec<Access> {
        vec![Access::new("sessions_history", &args.session_key)]
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let input = HistoryInput {
            session_key: args.session_key,
            limit: args.limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX).max(1)),
            include_tools: args.include_tools,
            before: args.before,
            after: args.after,
        };
        Ok(answer::either(cx.directory.history(input).await))
    }
}

#[cfg(test)]
mod tests {
    use super::Args;

    #[test]
    fn a_place_is_a_number_or_a_message() {
        let read = |json: &str| serde_json::from_str::<Args>(json).map(|args| args.before);
        assert_eq!(read(r#"{"sessionKey": " main ", "before": 7}"#).unwrap(), Some(7));
        assert_eq!(read(r#"{"sessionKey": "x", "before": " msg_7 "}"#).unwrap(), Some(7));
        assert_eq!(read(r#"{"sessionKey": "x", "before": null}"#).unwrap(), None);
        assert!(read(r#"{"sessionKey": "x", "before": "msg_x"}"#).unwrap_err().to_string().contains("`seq` or `id`"));
    }
}
