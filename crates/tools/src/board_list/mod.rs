//! `board_list`: the tasks of this tree (C7).

use crate::{Access, Error, Output, Spec, Tool, ToolCx, answer, tolerant};
use async_trait::async_trait;
use proto::TaskState;
use proto::methods::BoardListInput;
use schemars::JsonSchema;
use serde::Deserialize;

pub struct BoardList;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// Only tasks in these states: pending, in_progress, done, failed, cancelled.
    #[serde(default)]
    states: Option<Vec<TaskState>>,
    /// Only tasks of this owner: a session's id, `me` or `person`.
    #[serde(default)]
    owner: Option<String>,
    /// Only this task, with its description.
    #[serde(default, alias = "taskId", alias = "task_id", deserialize_with = "tolerant::number")]
    #[schemars(with = "Option<u64>")]
    number: Option<u64>,
    /// Tasks of the page: 100 unless given, 200 at most.
    #[serde(default, deserialize_with = "tolerant::number")]
    #[schemars(with = "Option<u64>")]
    limit: Option<u64>,
    /// `nextCursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
}

#[async_trait]
impl Tool for BoardList {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("board_list", include_str!("prompt.md"))
            .again()
            .aliases(&["TaskList", "TaskGet"])
            .json()
            .defer()
    }

    fn access(&self, _: &Args, _: &ToolCx) -> Vec<Access> {
        vec![Access::new("board_list", "*")]
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let whole = args.number.is_some();
        let input = BoardListInput {
            states: args.states.unwrap_or_default(),
            owner: args.owner.filter(|owner| !owner.trim().is_empty()),
            number: args.number,
            limit: args.limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX)),
            cursor: args.cursor.filter(|cursor| !cursor.is_empty()),
            ..BoardListInput::default()
        };
        let mut page = cx.board.list(input).await;
        // A hundred descriptions would fill a context with what nobody asked for.
        if let (Ok(page), false) = (&mut page, whole) {
            page.tasks.iter_mut().for_each(|task| task.description.clear());
        }
        Ok(answer::either(page))
    }
}
