//! `enter_worktree`: a checkout of its own for the session, which moves into it.

#[cfg(test)]
mod tests;

use crate::worktree::{self, Name};
use crate::{Access, Error, Move, Output, Spec, Tool, ToolCx, answer};
use async_trait::async_trait;
use proto::{Code, Worktree};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::path::{Path, PathBuf};

pub struct EnterWorktree;

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct Args {
    /// A name for it: segments of letters, digits, dots, underscores and dashes with `/` between them, 64 characters at
    /// most. One is made up without it.
    #[serde(default)]
    name: Option<String>,
}

#[async_trait]
impl Tool for EnterWorktree {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("enter_worktree", include_str!("prompt.md"))
            .lasting()
            .aliases(&["EnterWorktree"])
            .json()
            .defer()
    }

    fn access(&self, args: &Args, _: &ToolCx) -> Vec<Access> {
        vec![Access::new("enter_worktree", args.name.as_deref().unwrap_or("*"))]
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        match enter(&args, cx).await {
            Ok((worktree, note)) => Ok(entered(worktree, note)),
            Err(error) if error.code == Code::Cancelled => Err(Error::Cancelled),
            Err(error) => Ok(answer::refused(&error)),
        }
    }
}

async fn enter(args: &Args, cx: &ToolCx) -> Result<(Worktree, Option<String>), proto::Error> {
    if let Some(inside) = &cx.worktrees.entered {
        let why = format!("this session is in the worktree `{}` already", inside.name);
        return Err(proto::Error::new(Code::Conflict, why).hint("leave it first, with `exit_worktree`"));
    }
    cx.rules().map_or(Ok(()), worktree::check_allowed)?;
    let name = match args.name.as_deref().map(str::trim).filter(|name| !name.is_empty()) {
        Some(name) => Name::parse(name)?,
        None => Name::random(),
    };
    let (worktree, note) = worktree::make(&cx.site(&cx.dir), &cx.worktrees.settings, &name, false).await?;
    check_free(&worktree, cx).await?;
    Ok((worktree, note))
}

/// Two at work in one checkout would write over each other.
async fn check_free(worktree: &Worktree, cx: &ToolCx) -> Result<(), proto::Error> {
    let busy = cx.worktrees.tenants.busy_in(Path::new(&worktree.path)).await?;
    if busy.is_empty() {
        return Ok(());
    }
    let why = format!("in the worktree `{}` somebody is at work: {}", worktree.name, busy.join(", "));
    Err(proto::Error::new(Code::Conflict, why).hint("choose another name, or wait until they are done"))
}

fn entered(worktree: Worktree, note: Option<String>) -> Output {
    let mut message = format!("This session works in the worktree `{}` now, in `{}`", worktree.name, worktree.path);
    if let Some(branch) = &worktree.branch {
        message.push_str(&format!(", on the branch `{branch}`"));
    }
    message.push('.');
    if let Some(note) = note {
        message.push(' ');
        message.push_str(&note);
    }
    message.push_str(" Leave it with `exit_worktree` when the person asks for it.");
    let result = json!({
        "status": "entered",
        "name": worktree.name,
        "worktreePath": worktree.path,
        "worktreeBranch": worktree.branch,
        "base": worktree.base,
        "originalCwd": worktree.original_cwd,
        "message": message,
    });
    Output::json(&result).moving(Move { cwd: PathBuf::from(&worktree.path), worktree: Some(worktree), removed: None })
}
