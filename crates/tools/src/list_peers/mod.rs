//! `list_peers`: whom this session can write to (C4).

use crate::{Access, Error, Output, Spec, Tool, ToolCx, answer};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

pub struct ListPeers;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {}

#[async_trait]
impl Tool for ListPeers {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>(
            "list_peers",
            "List the live sessions you can write to with send_message: name, the address to use as `to`, agent, state, \
             directory, where it is (this task's tree, this machine, or another one) and when it last did something.",
        ).again()
        .aliases(&["ListPeers"])
        .defer()
        .json()
    }

    fn access(&self, _: &Args, _: &ToolCx) -> Vec<Access> {
        vec![Access::new("list_peers", "*")]
    }

    async fn run(&self, _: Args, cx: &ToolCx) -> Result<Output, Error> {
        let peers = cx.directory.peers().await.map(|peers| serde_json::json!({ "peers": peers }));
        Ok(answer::either(peers))
    }
}
