//! `question`: what only a person can say (A11). The call waits for their answer as it would for leave, and their words
//! are its result.

use crate::{Access, Error, Output, Spec, Tool, ToolCx};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct Question;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// What you want to know: 1 to 4 questions that are answered together.
    questions: Vec<proto::Question>,
}

/// What was asked, and what was said.
#[derive(Debug, Serialize)]
struct Said<'a> {
    answers: &'a [Vec<String>],
}

#[async_trait]
impl Tool for Question {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("question", include_str!("prompt.md")).waits().aliases(&["AskUserQuestion"])
    }

    fn access(&self, args: &Args, _: &ToolCx) -> Vec<Access> {
        args.questions.iter().map(|question| Access::new("question", question.question.trim())).collect()
    }

    fn asks(&self, args: Args) -> Result<Vec<proto::Question>, Error> {
        proto::question::checked(args.questions).map_err(Error::Tell)
    }

    fn answered(&self, args: Args, answers: &[Vec<String>]) -> Output {
        let mut text = String::from("The person answered:");
        for (question, answer) in args.questions.iter().zip(answers) {
            text.push_str(&format!("\n- {}\n  {}", question.question.trim(), answer.join("; ").replace('\n', "\n  ")));
        }
        Output::text(text).with(&Said { answers })
    }

    async fn run(&self, _: Args, _: &ToolCx) -> Result<Output, Error> {
        Err(Error::tell("nobody can be asked here: decide by yourself, or say what you would need to know"))
    }
}

#[cfg(test)]
mod tests;
