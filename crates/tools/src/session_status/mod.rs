//! `session_status`: what a session is, does and may do (S10).

use crate::{Access, Error, Output, Spec, Tool, ToolCx, answer, tolerant};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

pub struct SessionStatus;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Args {
    /// The session: its key, id or label. Your own without it.
    #[serde(default, deserialize_with = "tolerant::text", alias = "session_key")]
    session_key: Option<String>,
}

#[async_trait]
impl Tool for SessionStatus {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("session_status", include_str!("prompt.md")).again().json().defer()
    }

    fn access(&self, args: &Args, _: &ToolCx) -> Vec<Access> {
        vec![Access::new("session_status", args.session_key.as_deref().unwrap_or("current"))]
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        Ok(answer::either(cx.directory.status(args.session_key.as_deref()).await))
    }
}
