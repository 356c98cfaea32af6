//! `sessions_yield`: end the turn and wait to be woken (S9).

use crate::{Access, Error, Output, Spec, Tool, ToolCx, answer, tolerant};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

pub struct SessionsYield;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// What you wait for, for whoever reads this session meanwhile.
    #[serde(default, deserialize_with = "tolerant::text")]
    message: Option<String>,
}

#[async_trait]
impl Tool for SessionsYield {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("sessions_yield", include_str!("prompt.md")).again().json().defer()
    }

    fn access(&self, _: &Args, _: &ToolCx) -> Vec<Access> {
        vec![Access::new("sessions_yield", "*")]
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        match cx.office.could_be_woken().await {
            Ok(true) => {
                let said = args.message.as_deref().map(str::trim).filter(|message| !message.is_empty());
                let message = said.unwrap_or("Turn yielded.");
                Ok(Output { ends_turn: true, ..Output::json(&json!({ "status": "yielded", "message": message })) })
            }
            Ok(false) => {
                let why = "nothing is under way that would wake this session: no child works and no answer is awaited";
                Ok(answer::refused(&proto::Error::invalid(why).hint("go on with the work, or answer now")))
            }
            Err(error) => Ok(answer::refused(&error)),
        }
    }
}
