//! `exit_worktree`: back to where the session came from, with the worktree kept or removed.

#[cfg(test)]
mod tests;

use crate::git::Git;
use crate::sandbox;
use crate::worktree::hooked::{self, Gone};
use crate::worktree::{self, Discard, Name, Removed, Repository, home};
use crate::{Access, Error, Move, Output, Spec, Tool, ToolCx, answer, tolerant};
use async_trait::async_trait;
use proto::{Code, Worktree};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub struct ExitWorktree;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// `keep` leaves it as it is, `remove` deletes it with its branch.
    action: Action,
    /// With `remove`: also when there are uncommitted files, or commits that are not on the original branch.
    #[serde(default, deserialize_with = "tolerant::truth", alias = "discardChanges")]
    discard_changes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    Keep,
    Remove,
}

impl Args {
    /// What a rule can tell apart.
    fn pattern(&self) -> &'static str {
        match (self.action, self.discard_changes) {
            (Action::Keep, _) => "keep",
            (Action::Remove, false) => "remove",
            (Action::Remove, true) => "remove discard_changes",
        }
    }
}

#[async_trait]
impl Tool for ExitWorktree {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("exit_worktree", include_str!("prompt.md"))
            .lasting()
            .again()
            .aliases(&["ExitWorktree"])
            .json()
            .defer()
    }

    fn access(&self, args: &Args, _: &ToolCx) -> Vec<Access> {
        vec![Access::new("exit_worktree", args.pattern()).always(args.pattern())]
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let Some(inside) = cx.worktrees.entered.clone() else { return Ok(nothing(cx)) };
        let left = match args.action {
            Action::Keep => keep(&inside, cx).await,
            Action::Remove => remove(&inside, args.discard_changes.into(), cx).await,
        };
        match left {
            Ok(result) => {
                let removed = (args.action == Action::Remove).then(|| inside.clone());
                Ok(Output::json(&result).moving(Move { cwd: home(&inside), worktree: None, removed }))
            }
            Err(error) if error.code == Code::Cancelled => Err(Error::Cancelled),
            Err(error) => Ok(answer::refused(&error)),
        }
    }
}

fn nothing(cx: &ToolCx) -> Output {
    let message = format!(
        "This session has entered no worktree, so there is nothing to leave: it stays in `{}`, and nothing was changed.",
        cx.dir.display()
    );
    Output::json(&json!({ "status": "nothing", "message": message }))
}

fn left(action: &str, inside: &Worktree, message: String) -> Value {
    json!({
        "status": "left",
        "action": action,
        "originalCwd": home(inside),
        "worktreePath": inside.path,
        "worktreeBranch": inside.branch,
        "message": message,
    })
}

async fn keep(inside: &Worktree, cx: &ToolCx) -> Result<Value, proto::Error> {
    let there = Path::new(&inside.path).is_dir();
    if !inside.by_hook
        && let Ok(repo) = repository(inside, cx).await
    {
        worktree::set_kept(&repo, &Name::parse(&inside.name)?).await.ok();
    }
    let mut message = format!("Back in `{}`. ", home(inside).display());
    message.push_str(&match (there, &inside.branch) {
        (true, Some(branch)) => format!("The worktree stays in `{}`, on the branch `{branch}`.", inside.path),
        (true, None) => format!("The worktree stays in `{}`.", inside.path),
        (false, Some(branch)) => format!("The worktree's folder is gone; its branch `{branch}` is left."),
        (false, None) => "The worktree's folder is gone.".into(),
    });
    Ok(left("keep", inside, message))
}

async fn remove(inside: &Worktree, discard: Discard, cx: &ToolCx) -> Result<Value, proto::Error> {
    cx.rules().map_or(Ok(()), worktree::check_allowed)?;
    if inside.by_hook {
        let (settings, tenants) = (&cx.worktrees.settings, cx.worktrees.tenants.as_ref());
        let site = cx.site(&home(inside));
        let gone = hooked::remove(settings.remove.as_ref(), inside, discard, tenants, &site).await?;
        return Ok(told_by_hook(inside, &gone));
    }
    check_hidden(inside, cx).await?;
    let (repo, name) = (repository(inside, cx).await?, Name::parse(&inside.name)?);
    let tenants = cx.worktrees.tenants.as_ref();
    match worktree::remove(&repo, &name, discard, tenants, cx.processes.as_ref()).await {
        Ok(removed) => Ok(told(inside, &removed)),
        // Somebody else removed it. Staying in what is not there helps nobody.
        Err(error) if error.code == Code::NotFound && !Path::new(&inside.path).exists() => {
            let message = format!(
                "The worktree `{}` was gone already; back in `{}`. `convoke worktrees list` shows its snapshots.",
                inside.name,
                home(inside).display()
            );
            Ok(left("remove", inside, message))
        }
        Err(error) => Err(error),
    }
}

/// A snapshot holds every file that is not ignored, and an agent can read it. One that a rule hides must not get in.
async fn check_hidden(inside: &Worktree, cx: &ToolCx) -> Result<(), proto::Error> {
    let path = PathBuf::from(&inside.path);
    let Some(policy) = cx.rules().cloned().filter(|_| path.is_dir()) else { return Ok(()) };
    let place = path.clone();
    let look = move |_: &_| Ok(sandbox::hidden_in(&place, &policy));
    let found = cx.hands.work("exit_worktree", &cx.cancel, look).await;
    let hidden = found.map_err(|error| unseen(&error.to_string()))?.map_err(|why| unseen(&why))?;
    if hidden.is_empty() {
        return Ok(());
    }
    let git = Git::open(Arc::clone(&cx.processes), cx.cancel.clone(), &path).await?;
    let names: Vec<String> = hidden.iter().map(|file| file.display().to_string()).collect();
    let listed = ["ls-files", "--others", "--exclude-standard", "-z", "--"];
    let args: Vec<&str> = listed.into_iter().chain(names.iter().map(String::as_str)).collect();
    match git.read(&args).await?.split('\0').find(|name| !name.is_empty()) {
        None => Ok(()),
        Some(name) => Err(proto::Error::new(
            Code::Conflict,
            format!("a rule keeps `{name}` from being read, and the snapshot of this worktree would hold it"),
        )
        .hint("keep the worktree (`action`: `keep`), or ask the person to move the file")),
    }
}

fn unseen(why: &str) -> proto::Error {
    proto::Error::new(Code::Unavailable, format!("cannot tell which files rules keep from being read: {why}"))
        .hint("keep the worktree (`action`: `keep`)")
}

/// The repository, from where the session came or, if that is gone, from the worktree itself.
async fn repository(inside: &Worktree, cx: &ToolCx) -> Result<Repository, proto::Error> {
    let original = PathBuf::from(&inside.original_cwd);
    let dir = if original.is_dir() { original } else { PathBuf::from(&inside.path) };
    Repository::open(Arc::clone(&cx.processes), cx.cancel.clone(), &dir).await
}

fn told_by_hook(inside: &Worktree, gone: &Gone) -> Value {
    let kept = gone.snapshot.as_ref().map(|s| format!(" Its snapshot `{}` is kept for 30 days.", s.name));
    let (kept, back) = (kept.unwrap_or_default(), home(inside));
    let message = format!("The hook removed the worktree `{}`.{kept} Back in `{}`.", inside.name, back.display());
    let mut result = left("remove", inside, message);
    if let Some(snapshot) = &gone.snapshot {
        result["snapshot"] = json!(snapshot.reference());
    }
    result["discardedFiles"] = json!(gone.changes.file_count);
    result["discardedCommits"] = json!(gone.changes.commit_count);
    result
}

fn told(inside: &Worktree, removed: &Removed) -> Value {
    let snapshot = &removed.snapshot;
    let was = match (removed.was_missing, removed.changes.is_none()) {
        (true, _) => "its folder was gone already".to_owned(),
        (false, true) => "nothing was lost".to_owned(),
        (false, false) => format!("it had {}", removed.changes.words()),
    };
    let mut message = format!(
        "Removed the worktree `{}`: {was}. Its snapshot `{}` is kept for 30 days; `convoke worktrees restore {}` brings it \
         back. Back in `{}`.",
        inside.name,
        snapshot.name,
        snapshot.name,
        home(inside).display()
    );
    if !removed.tmux.is_empty() {
        message.push_str(&format!(" Ended in tmux: {}.", removed.tmux.join(", ")));
    }
    let mut result = left("remove", inside, message);
    result["snapshot"] = json!(snapshot.reference());
    result["snapshotCommit"] = json!(snapshot.commit);
    result["discardedFiles"] = json!(removed.changes.file_count);
    result["discardedCommits"] = json!(removed.changes.commit_count);
    if !removed.tmux.is_empty() {
        result["tmuxSessions"] = json!(removed.tmux);
    }
    result
}
