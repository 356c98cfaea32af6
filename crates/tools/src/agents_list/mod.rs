//! `agents_list`: the agents this session may start (S12).

use crate::{Access, Error, Output, Spec, Tool, ToolCx};
use async_trait::async_trait;
use proto::methods::AgentRow;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

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
        let agents: Vec<Value> = cx.directory.agents().iter().map(row).collect();
        Ok(Output::json(&json!({ "requester": cx.directory.owner(), "agents": agents })))
    }
}

/// What one chooses an agent by. Its rules and settings are for people (`agents.list`) and would fill a context.
fn row(agent: &AgentRow) -> Value {
    let mut row = json!({ "name": agent.name, "description": agent.description, "mode": agent.mode });
    let model = proto::model::choice(agent.model.clone(), agent.variant.as_deref());
    if let Some(model) = model {
        row["model"] = json!(model);
    }
    row
}
