//! `sessions_list`: the sessions this one may see (S4).

use crate::{Access, Error, Output, Spec, Tool, ToolCx, answer, label_is_too_long, tolerant};
use async_trait::async_trait;
use proto::methods::ListInput;
use schemars::JsonSchema;
use serde::Deserialize;

pub struct SessionsList;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// Only these kinds: main, group, cron, hook, node, other.
    #[serde(default, deserialize_with = "tolerant::or_default")]
    kinds: Vec<String>,
    /// Rows of the page: 50 unless given, 200 at most.
    #[serde(default, deserialize_with = "tolerant::number")]
    #[schemars(with = "Option<u64>")]
    limit: Option<u64>,
    /// Only sessions that were active in the last so many minutes.
    #[serde(default, deserialize_with = "tolerant::number", alias = "active_minutes")]
    #[schemars(with = "Option<u64>")]
    active_minutes: Option<u64>,
    /// The last so many messages with each row: none unless given, 20 at most.
    #[serde(default, deserialize_with = "tolerant::number", alias = "message_limit")]
    #[schemars(with = "Option<u64>")]
    message_limit: Option<u64>,
    /// `nextCursor` of the page before.
    #[serde(default, deserialize_with = "tolerant::text")]
    cursor: Option<String>,
    /// Only sessions of this agent.
    #[serde(default, deserialize_with = "tolerant::text", alias = "agent_id")]
    agent_id: Option<String>,
    /// Only the session with this label.
    #[serde(default, deserialize_with = "tolerant::text")]
    label: Option<String>,
    /// Only children of this session.
    #[serde(default, deserialize_with = "tolerant::text", alias = "spawned_by")]
    spawned_by: Option<String>,
}

#[async_trait]
impl Tool for SessionsList {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("sessions_list", include_str!("prompt.md")).again().json().defer()
    }

    fn access(&self, _: &Args, _: &ToolCx) -> Vec<Access> {
        vec![Access::new("sessions_list", "*")]
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        if let Some(why) = args.label.as_deref().and_then(label_is_too_long) {
            return Err(Error::Tell(why));
        }
        let small = |number: Option<u64>| number.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let input = ListInput {
            kinds: args.kinds,
            limit: small(args.limit).map(|limit| limit.max(1)),
            active_minutes: small(args.active_minutes).map(|minutes| minutes.max(1)),
            message_limit: small(args.message_limit),
            cursor: args.cursor,
            agent_id: args.agent_id,
            label: args.label,
            spawned_by: args.spawned_by,
            ..ListInput::default()
        };
        Ok(answer::either(cx.directory.list(input).await))
    }
}
