//! Worktrees that a hook of the user's made: a hook takes them away, and git only helps where it happens to be there.

use super::{home, left};
use crate::ToolCx;
use crate::enter_worktree::told;
use crate::hook::Stage;
use crate::worktree::{self, Changes, Discard, Repository, Snapshot};
use proto::{Code, Error, Worktree};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

pub(super) async fn remove(inside: &Worktree, discard: Discard, cx: &ToolCx) -> Result<Value, Error> {
    let Some(hook) = &cx.worktrees.settings.remove else {
        let why = "a hook made this worktree, and there is none to take it away";
        return Err(Error::new(Code::Conflict, why).hint("set `hooks.worktree_remove`, or leave it with `keep`"));
    };
    let path = Path::new(&inside.path);
    let busy = cx.worktrees.tenants.busy_in(path).await?;
    if !busy.is_empty() {
        let why = format!("the worktree `{}` is in use: {}", inside.name, busy.join(", "));
        return Err(Error::new(Code::Conflict, why).hint("wait until they are done"));
    }
    let (changes, snapshot) = looked_at(inside, discard, cx).await?;
    let input = json!({
        "event": "worktree_remove", "name": inside.name, "path": inside.path, "worktreePath": inside.path,
        "cwd": home(inside).cwd, "sessionId": cx.session, "agent": cx.agent,
    });
    let dir = home(inside).cwd;
    let stage = Stage { processes: cx.processes.as_ref(), cancel: &cx.cancel, dir: &dir, scratch: &cx.outputs };
    hook.run(&input, &stage).await.map_err(|error| told(&error))?;
    let kept = match &snapshot {
        Some(snapshot) => format!(" Its snapshot `{}` is kept for 30 days.", snapshot.name),
        None => String::new(),
    };
    let message = format!("The hook removed the worktree `{}`. Back in `{}`.{kept}", inside.name, dir.display());
    let mut result = left("remove", inside, message);
    if let Some(snapshot) = snapshot {
        result["snapshot"] = json!(snapshot.reference());
    }
    result["discardedFiles"] = json!(changes.file_count);
    result["discardedCommits"] = json!(changes.commit_count);
    Ok(result)
}

/// What would be lost, as far as git knows. What cannot be looked at is only removed on purpose.
async fn looked_at(inside: &Worktree, discard: Discard, cx: &ToolCx) -> Result<(Changes, Option<Snapshot>), Error> {
    let path = Path::new(&inside.path);
    let repo = Repository::open(Arc::clone(&cx.processes), cx.cancel.clone(), path).await.ok();
    if let Some(repo) = repo.filter(|repo| repo.top() == path) {
        let (changes, snapshot) = worktree::set_aside(&repo, inside, discard).await?;
        return Ok((changes, Some(snapshot)));
    }
    if discard == Discard::Nothing && path.is_dir() {
        let why = format!("git does not know `{}`, so nobody can tell what would be lost", inside.path);
        return Err(Error::new(Code::Conflict, why)
            .hint("keep it, or remove it with `discard_changes` when the person says that it may go"));
    }
    Ok((Changes::default(), None))
}
