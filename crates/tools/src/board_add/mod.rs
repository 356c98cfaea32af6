//! `board_add`: a new task on the board of this tree (C7).

use crate::{Access, Error, Output, Spec, Tool, ToolCx, answer, tolerant};
use async_trait::async_trait;
use proto::methods::BoardAddInput;
use schemars::JsonSchema;
use serde::Deserialize;

pub struct BoardAdd;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// What is to be done, in one line.
    #[serde(alias = "subject")]
    title: String,
    /// All that whoever takes it needs to know.
    #[serde(default, deserialize_with = "tolerant::or_default")]
    description: String,
    /// Numbers of tasks that must be done first.
    #[serde(default, alias = "blockedBy", deserialize_with = "tolerant::numbers")]
    #[schemars(with = "Option<Vec<u64>>")]
    blocked_by: Option<Vec<u64>>,
}

#[async_trait]
impl Tool for BoardAdd {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("board_add", include_str!("prompt.md")).again().aliases(&["TaskCreate"]).json().defer()
    }

    fn access(&self, args: &Args, _: &ToolCx) -> Vec<Access> {
        vec![Access::new("board_add", args.title.trim())]
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let Args { title, description, blocked_by } = args;
        let blocked_by = blocked_by.unwrap_or_default();
        let input = BoardAddInput { title, description, blocked_by, ..BoardAddInput::default() };
        Ok(answer::either(cx.board.add(input).await))
    }
}
