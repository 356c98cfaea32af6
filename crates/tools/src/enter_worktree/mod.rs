//! `enter_worktree`: a checkout of its own for the session, which moves into it.

#[cfg(test)]
mod tests;

use crate::hook::{self, Hook, Stage};
use crate::worktree::{self, Made, Name, Repository};
use crate::{Access, Error, Move, Output, Spec, Tool, ToolCx, answer};
use async_trait::async_trait;
use proto::{Code, Worktree};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
        Spec::of::<Args>("enter_worktree", include_str!("prompt.md")).aliases(&["EnterWorktree"]).json()
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
    let name = match args.name.as_deref().map(str::trim).filter(|name| !name.is_empty()) {
        Some(name) => Name::parse(name)?,
        None => Name::random(),
    };
    if let Some(hook) = &cx.worktrees.settings.create {
        return Ok((by_hook(hook, &name, cx).await?, None));
    }
    let repo = Repository::open(Arc::clone(&cx.processes), cx.cancel.clone(), &cx.dir).await?;
    if repo.is_linked() {
        let why = format!("`{}` is a worktree itself", repo.top().display());
        return Err(proto::Error::new(Code::Conflict, why)
            .hint("start a session in the repository's own working tree to enter another"));
    }
    let made = worktree::create(&repo, &name, cx.worktrees.settings.base).await?;
    check_free(&made.path, &name, cx).await?;
    let note = made.found.clone();
    Ok((of(made, cx), note))
}

/// Two at work in one checkout would write over each other.
async fn check_free(path: &Path, name: &Name, cx: &ToolCx) -> Result<(), proto::Error> {
    let busy = cx.worktrees.tenants.busy_in(path).await?;
    if busy.is_empty() {
        return Ok(());
    }
    let why = format!("in the worktree `{}` somebody is at work: {}", name.as_str(), busy.join(", "));
    Err(proto::Error::new(Code::Conflict, why).hint("choose another name, or wait until they are done"))
}

fn of(made: Made, cx: &ToolCx) -> Worktree {
    Worktree {
        name: made.name,
        path: made.path.display().to_string(),
        branch: made.branch,
        base: made.base,
        original_branch: made.from,
        original_cwd: cx.dir.display().to_string(),
        by_hook: false,
        isolated: false,
    }
}

/// The user's own way of making one: the last line it prints is the path.
async fn by_hook(hook: &Hook, name: &Name, cx: &ToolCx) -> Result<Worktree, proto::Error> {
    let input = json!({
        "event": "worktree_create", "name": name.as_str(), "cwd": cx.dir, "sessionId": cx.session, "agent": cx.agent,
    });
    let stage = Stage { processes: cx.processes.as_ref(), cancel: &cx.cancel, dir: &cx.dir, scratch: &cx.outputs };
    let printed = hook.run(&input, &stage).await.map_err(|error| told(&error))?;
    let line = printed.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let path = cx.dir.join(line).canonicalize().ok().filter(|path| path.is_dir() && !line.is_empty());
    let path: PathBuf = path.ok_or_else(|| {
        let shown: String = line.chars().take(200).collect();
        proto::Error::new(Code::Conflict, format!("the hook `worktree_create` printed no directory but `{shown}`"))
            .hint("its last line has to be the path of the worktree it made")
    })?;
    if cx.dir.starts_with(&path) {
        let why = format!("the hook `worktree_create` printed `{}`, where this session is already", path.display());
        return Err(proto::Error::new(Code::Conflict, why));
    }
    // Where git happens to know it, commits can be told from what was there.
    let repo = Repository::open(Arc::clone(&cx.processes), cx.cancel.clone(), &path).await.ok();
    let repo = repo.filter(|repo| repo.top() == path);
    let base = repo.as_ref().and_then(|repo| repo.head().map(str::to_owned));
    if let Some(repo) = repo.filter(|_| base.is_some()) {
        worktree::note_base(&repo)?;
    }
    Ok(Worktree {
        name: name.as_str().into(),
        path: path.display().to_string(),
        branch: None,
        base,
        original_branch: None,
        original_cwd: cx.dir.display().to_string(),
        by_hook: true,
        isolated: false,
    })
}

pub(crate) fn told(error: &hook::Error) -> proto::Error {
    match error {
        hook::Error::Blocked(why) => proto::Error::new(Code::Denied, format!("a hook said no: {why}")),
        hook::Error::Failed(why) => proto::Error::new(Code::Unavailable, why.clone()),
        hook::Error::Cancelled => proto::Error::new(Code::Cancelled, "cancelled"),
    }
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
    Output::json(&result).moving(Move { cwd: PathBuf::from(&worktree.path), worktree: Some(worktree) })
}
