//! `sessions_history`: what was said in another session (S5).

use crate::{Access, Error, Output, Spec, Tool, ToolCx, answer, tolerant};
use async_trait::async_trait;
use proto::methods::HistoryInput;
use schemars::JsonSchema;
use serde::Deserialize;

pub struct SessionsHistory;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// The session: its key, id or label.
    #[serde(alias = "session_key")]
    session_key: String,
    /// Messages of the page: 50 unless given.
    #[serde(default, deserialize_with = "tolerant::number")]
    #[schemars(with = "Option<u64>")]
    limit: Option<u64>,
    /// Tool calls and their results too.
    #[serde(default, deserialize_with = "tolerant::truth", alias = "include_tools")]
    include_tools: bool,
    /// Only what is older than this message's `seq`.
    #[serde(default, deserialize_with = "tolerant::number")]
    #[schemars(with = "Option<u64>")]
    before: Option<u64>,
    /// Only what is newer than this message's `seq`.
    #[serde(default, deserialize_with = "tolerant::number")]
    #[schemars(with = "Option<u64>")]
    after: Option<u64>,
}

#[async_trait]
impl Tool for SessionsHistory {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("sessions_history", include_str!("prompt.md")).json().defer()
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
