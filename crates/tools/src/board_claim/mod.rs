//! `board_claim`: take a task of this tree's board (C7).

use crate::{Access, Error, Output, Spec, Tool, ToolCx, answer, tolerant};
use async_trait::async_trait;
use proto::methods::BoardClaimInput;
use schemars::JsonSchema;
use serde::Deserialize;

pub struct BoardClaim;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The task's number; the first one that is free, without it.
    #[serde(default, alias = "taskId", alias = "task_id", deserialize_with = "tolerant::number")]
    #[schemars(with = "Option<u64>")]
    number: Option<u64>,
}

#[async_trait]
impl Tool for BoardClaim {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("board_claim", include_str!("prompt.md")).again().json().defer()
    }

    fn access(&self, args: &Args, _: &ToolCx) -> Vec<Access> {
        vec![Access::new("board_claim", args.number.map_or("*".into(), |number| number.to_string()))]
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let input = BoardClaimInput { number: args.number, ..BoardClaimInput::default() };
        Ok(answer::either(cx.board.claim(input).await))
    }
}
