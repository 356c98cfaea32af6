//! `todoread`: the list that `todowrite` wrote (A11).

use crate::{Access, Error, Output, Spec, Tool, ToolCx};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

pub struct TodoRead;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {}

#[async_trait]
impl Tool for TodoRead {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("todoread", include_str!("prompt.md")).again().aliases(&["TodoRead"]).defer()
    }

    fn access(&self, _: &Args, _: &ToolCx) -> Vec<Access> {
        vec![Access::new("todoread", "*")]
    }

    async fn run(&self, _: Args, cx: &ToolCx) -> Result<Output, Error> {
        if cx.todo.is_empty() {
            return Ok(Output::text("There is nothing on the list of this session.").with(&cx.todo));
        }
        let lines: Vec<String> = cx.todo.iter().map(ToString::to_string).collect();
        Ok(Output::text(lines.join("\n")).with(&cx.todo))
    }
}
