//! Taking a worktree away: refused while something would be lost or somebody works in it, and never without a snapshot.

use super::inspect::{self, Changes, Index};
use super::name::Name;
use super::repository::{Repository, Tree};
use super::snapshot::{self, Snapshot};
use super::{Tenants, create, files, lock, tmux};
use crate::process::Processes;
use proto::{Code, Error};
use std::path::{Path, PathBuf};

/// What became of a worktree that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// Where it was.
    pub path: PathBuf,
    pub snapshot: Snapshot,
    /// What was in it and nowhere else.
    pub changes: Changes,
    /// Names of the tmux sessions that ended with it.
    pub tmux: Vec<String>,
    /// The directory was gone before.
    pub was_missing: bool,
}

/// How much may be discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discard {
    Nothing,
    /// Uncommitted files and commits that are on no other branch; the snapshot still has them.
    Changes,
}

impl From<bool> for Discard {
    fn from(discard: bool) -> Self {
        if discard { Self::Changes } else { Self::Nothing }
    }
}

/// Removes a worktree with its branch.
pub async fn remove(
    repo: &Repository,
    name: &Name,
    discard: Discard,
    tenants: &dyn Tenants,
    processes: &dyn Processes,
) -> Result<Removed, Error> {
    let _lock = lock::take(&repo.common).await?;
    let mut tree = repo.tree(name).await?;
    tree.check_connected()?;
    check_free(&tree, tenants).await?;
    if tree.is_unfinished() && !tree.is_missing() {
        create::complete(repo, &tree).await?;
        tree = repo.tree(name).await?;
    }
    check_unpinned(&tree)?;
    if tree.is_missing() {
        return forget(repo, &tree, discard).await;
    }
    inspect::check_unlocked(&tree)?;
    let index = Index::of(repo, &tree).await?;
    let changes = inspect::changes(repo, &tree, &index).await?;
    check_changes(&tree, &changes, discard)?;
    let tmux = tmux::end(processes, &tree.path).await;
    let snapshot = snapshot::take(repo, &tree, &index).await?;
    drop(index);
    // Somebody may have moved in meanwhile.
    check_free(&tree, tenants).await?;
    delete(repo, &tree).await.map_err(|error| half_done(&tree, &snapshot, error))?;
    Ok(Removed { path: tree.path, snapshot, changes, tmux, was_missing: false })
}

/// A worktree whose directory somebody deleted: what is left are its commits.
async fn forget(repo: &Repository, tree: &Tree, discard: Discard) -> Result<Removed, Error> {
    let changes = inspect::commits(repo, tree).await?;
    check_changes(tree, &changes, discard)?;
    let snapshot = snapshot::take_commits(repo, tree).await?;
    delete(repo, tree).await.map_err(|error| half_done(tree, &snapshot, error))?;
    Ok(Removed { path: tree.path.clone(), snapshot, changes, tmux: Vec::new(), was_missing: true })
}

async fn delete(repo: &Repository, tree: &Tree) -> Result<(), Error> {
    // From here on a cancelled call would only leave half of it.
    let git = repo.git.at(&repo.main).steadfast();
    // Git deletes file by file: cut off in the middle it would leave a directory that no longer says whose it is.
    let aside = files::set_aside(&repo.main, &tree.path);
    let removed = git.work(&["worktree", "remove", "--force", &tree.path.display().to_string()]).await;
    if let (Err(_), Some(aside)) = (&removed, &aside) {
        let _ = std::fs::rename(aside, &tree.path);
    }
    removed?;
    // The worktree is gone by now, whatever else is in the way: a branch too many does no harm.
    if let Err(error) = drop_branch(repo, tree).await {
        tracing::warn!(tree = tree.name, %error, "the branch of a removed worktree stays");
    }
    if let Some(aside) = aside {
        // Of a large one that takes a while.
        let _ = tokio::task::spawn_blocking(move || files::clear(&aside)).await;
    }
    files::tidy(&repo.main, &tree.path);
    Ok(())
}

/// The branch goes with it, unless it is checked out elsewhere. Its commits are parents of the snapshot.
async fn drop_branch(repo: &Repository, tree: &Tree) -> Result<(), Error> {
    let branch = super::branch_ref(&tree.name);
    let git = repo.git.at(&repo.main).steadfast();
    let Some(tip) = git.ask(&["rev-parse", "--verify", "--quiet", &branch]).await? else { return Ok(()) };
    let listed = git.read(&["worktree", "list", "--porcelain", "-z"]).await?;
    if listed.split('\0').any(|line| line == format!("branch {branch}")) {
        return Ok(());
    }
    git.work(&["update-ref", "-d", &branch, tip.trim()]).await.map(drop)
}

/// A lease: whoever works in a worktree has it until they are done.
async fn check_free(tree: &Tree, tenants: &dyn Tenants) -> Result<(), Error> {
    let busy = tenants.busy_in(&tree.path).await?;
    if busy.is_empty() {
        return Ok(());
    }
    let why = format!("the worktree `{}` is in use: {} at work in it", tree.name, who(&busy));
    Err(Error::new(Code::Conflict, why).hint("wait until they are done, or stop them with `convoke kill`"))
}

fn who(busy: &[String]) -> String {
    match busy {
        [one] => format!("the session `{one}` is"),
        many => format!("the sessions `{}` are", many.join("`, `")),
    }
}

fn check_unpinned(tree: &Tree) -> Result<(), Error> {
    match &tree.locked {
        Some(reason) => {
            let reason = if reason.is_empty() { "no reason is given" } else { reason };
            let why = format!("somebody locked the worktree `{}`: {reason}", tree.name);
            Err(Error::new(Code::Conflict, why)
                .hint(format!("`git worktree unlock {}` if it may go", tree.path.display())))
        }
        None => Ok(()),
    }
}

pub(super) fn check_changes(tree: &Tree, changes: &Changes, discard: Discard) -> Result<(), Error> {
    if changes.is_none() || discard == Discard::Changes {
        return Ok(());
    }
    let mut why = format!("the worktree `{}` was not removed: it has {}", tree.name, changes.words());
    for line in changes.files.iter().chain(&changes.commits) {
        why.push_str("\n  ");
        why.push_str(line);
    }
    let mut error = Error::new(Code::Conflict, why).hint(
        "commit and merge them, or keep the worktree; to remove it all the same, discard the changes on purpose \
         (`discard_changes`, `--discard-changes`): a snapshot is kept for 30 days",
    );
    error.details = serde_json::to_value(changes).ok();
    Err(error)
}

fn half_done(tree: &Tree, snapshot: &Snapshot, error: Error) -> Error {
    let gone = if Path::new(&tree.path).exists() { "what is left of it is in" } else { "its directory was" };
    let message = format!(
        "{}; {gone} `{}`, and all of it in the snapshot `{}`",
        error.message,
        tree.path.display(),
        snapshot.name
    );
    Error { message, ..error }
}
