//! `todowrite`: the session's own list of what is left to do (A11). Each call writes it whole.

use crate::{Access, Error, Output, Spec, Tool, ToolCx};
use async_trait::async_trait;
use proto::{Todo, TodoStatus};
use schemars::JsonSchema;
use serde::Deserialize;

pub struct TodoWrite;

/// A list is read again with every summary: a longer one belongs on the board.
const MOST: usize = 100;
const LONGEST: usize = 500;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The whole list, in the order of the work. What is left out is gone.
    todos: Vec<Todo>,
}

#[async_trait]
impl Tool for TodoWrite {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("todowrite", include_str!("prompt.md")).again().aliases(&["TodoWrite"])
    }

    fn access(&self, _: &Args, _: &ToolCx) -> Vec<Access> {
        vec![Access::new("todowrite", "*")]
    }

    async fn run(&self, args: Args, _: &ToolCx) -> Result<Output, Error> {
        let todos = checked(args.todos)?;
        let left = todos.iter().filter(|todo| todo.is_open()).count();
        let mut text = format!("The list is kept: {left} of {} left.", todos.len());
        let under_way = todos.iter().filter(|todo| todo.status == TodoStatus::InProgress).count();
        if under_way > 1 {
            text.push_str(&format!(" {under_way} points are in progress: work on one at a time."));
        }
        Ok(Output { todo: Some(todos.clone()), ..Output::text(text).with(&todos) })
    }
}

fn checked(mut todos: Vec<Todo>) -> Result<Vec<Todo>, Error> {
    if todos.len() > MOST {
        return Err(Error::tell(format!("the list holds {MOST} points at most: keep to what is left to do")));
    }
    for (todo, at) in todos.iter_mut().zip(1..) {
        todo.content = todo.content.split_whitespace().collect::<Vec<_>>().join(" ");
        if todo.content.is_empty() {
            return Err(Error::tell(format!("point {at} says nothing: give it a `content`")));
        }
        if todo.content.chars().count() > LONGEST {
            return Err(Error::tell(format!("point {at} is longer than {LONGEST} characters: say it in one line")));
        }
    }
    Ok(todos)
}

#[cfg(test)]
mod tests;
