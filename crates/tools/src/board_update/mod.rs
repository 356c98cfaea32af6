//! `board_update`: what became of a task on the board (C7).

use crate::{Access, Error, Output, Spec, Tool, ToolCx, answer, tolerant};
use async_trait::async_trait;
use proto::TaskState;
use proto::methods::BoardUpdateInput;
use schemars::JsonSchema;
use serde::Deserialize;

pub struct BoardUpdate;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The task's number.
    #[serde(alias = "taskId", alias = "task_id", alias = "id", deserialize_with = "tolerant::number")]
    #[schemars(with = "u64")]
    number: Option<u64>,
    /// The version you have seen. If the task has changed since, nothing happens and you are shown what it is now.
    #[serde(default, deserialize_with = "tolerant::number")]
    #[schemars(with = "Option<u64>")]
    version: Option<u64>,
    /// pending (gives it back), in_progress (claims it), done, failed or cancelled.
    #[serde(default, alias = "status")]
    state: Option<TaskState>,
    /// A word on how it stands or how it ended; replaces the one before.
    #[serde(default)]
    note: Option<String>,
    /// A new title.
    #[serde(default, alias = "subject")]
    title: Option<String>,
    /// A new description.
    #[serde(default)]
    description: Option<String>,
    /// All tasks that must be done first, instead of those before.
    #[serde(default, alias = "blockedBy", deserialize_with = "tolerant::numbers")]
    #[schemars(with = "Option<Vec<u64>>")]
    blocked_by: Option<Vec<u64>>,
    /// Tasks that must be done first as well.
    #[serde(default, alias = "addBlockedBy", deserialize_with = "tolerant::numbers")]
    #[schemars(with = "Option<Vec<u64>>")]
    add_blocked_by: Option<Vec<u64>>,
}

#[async_trait]
impl Tool for BoardUpdate {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("board_update", include_str!("prompt.md")).again().aliases(&["TaskUpdate"]).json().defer()
    }

    fn access(&self, args: &Args, _: &ToolCx) -> Vec<Access> {
        vec![Access::new("board_update", args.number.unwrap_or(0).to_string())]
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let number = args.number.ok_or_else(|| Error::tell("`number` is missing: say which task"))?;
        let input = BoardUpdateInput {
            number,
            version: args.version,
            title: args.title,
            description: args.description,
            state: args.state,
            blocked_by: args.blocked_by,
            add_blocked_by: args.add_blocked_by.unwrap_or_default(),
            note: args.note,
            ..BoardUpdateInput::default()
        };
        Ok(answer::either(cx.board.update(input).await))
    }
}
