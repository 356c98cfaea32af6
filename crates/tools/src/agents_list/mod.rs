//! `agents_list`: the agents this session may start (S12).

use crate::{Access, Error, Output, Spec, Tool, ToolCx};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

pub struct AgentsList;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {}

#[async_trait]
impl Tool for AgentsList {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("agents_list", include_str!("prompt.md")).again().json().defer()
    }

    fn access(&self, _: &Args, _: &ToolCx) -> Vec<Access> {
        vec![Access::new("agents_list", "*")]
    }

    async fn run(&self, _: Args, cx: &ToolCx) -> Result<Output, Error> {
        Ok(Output::json(&json!({ "requester": cx.directory.owner(), "agents": cx.directory.agents() })))
    }
}
