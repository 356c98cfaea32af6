//! `plan_enter` and `plan_exit`: look and think before changing anything, and have the plan approved (C6, A6).
//!
//! Leaving is a question: to the lead that started the agent, or to the person. The rules ask it; what runs here runs only
//! once the answer is yes.

use crate::door::Becomes;
use crate::{Access, Error, Output, Spec, Tool, ToolCx};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

pub struct PlanEnter;
pub struct PlanExit;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct EnterArgs {}

#[derive(Debug, Deserialize, JsonSchema)]
pub struct ExitArgs {
    /// The plan as it is to be approved: what will be changed, in which order, and how it will be checked.
    #[serde(default)]
    plan: Option<String>,
}

#[async_trait]
impl Tool for PlanEnter {
    type Args = EnterArgs;

    fn spec(&self) -> Spec {
        Spec::of::<EnterArgs>(
            "plan_enter",
            "Switch to planning: from here on nothing but markdown files can be changed, until a plan is approved with \
             plan_exit. Use it before work that is large, risky or unclear.",
        )
        .again()
        .aliases(&["EnterPlanMode"])
    }

    fn access(&self, _: &EnterArgs, _: &ToolCx) -> Vec<Access> {
        vec![Access::new("plan_enter", "*")]
    }

    async fn run(&self, _: EnterArgs, _: &ToolCx) -> Result<Output, Error> {
        let text =
            "You are planning now. Read and search, write the plan (a markdown file is fine), then call plan_exit.";
        Ok(Output { becomes: Some(Becomes::Planning), ..Output::text(text) })
    }
}

#[async_trait]
impl Tool for PlanExit {
    type Args = ExitArgs;

    fn spec(&self) -> Spec {
        Spec::of::<ExitArgs>(
            "plan_exit",
            "Put your plan to whoever decides: the agent that started you, or the user. When it is approved you can change \
             things again; when it is not, you are told why and go on planning.",
        )
        .again()
        .aliases(&["ExitPlanMode"])
    }

    fn access(&self, args: &ExitArgs, _: &ToolCx) -> Vec<Access> {
        // What is asked is the plan itself: whoever answers reads it.
        let plan = args.plan.as_deref().map_or("the plan in the conversation", str::trim);
        vec![Access::new("plan_exit", plan).always("*")]
    }

    async fn run(&self, args: ExitArgs, _: &ToolCx) -> Result<Output, Error> {
        let text = "The plan is approved: carry it out now.";
        let plan = args.plan.filter(|plan| !plan.trim().is_empty());
        Ok(Output { becomes: Some(Becomes::Working), plan, ..Output::text(text) })
    }
}
