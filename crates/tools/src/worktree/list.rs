//! The worktrees of a repository, and how things stand with each.

use super::name::Name;
use super::record::Record;
use super::repository::{Repository, Tree};
use super::snapshot::{self, Snapshot};
use proto::Error;
use std::path::PathBuf;

/// A worktree, as far as git and its own record know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub name: String,
    pub path: PathBuf,
    /// Without `refs/heads/`.
    pub branch: Option<String>,
    pub head: String,
    pub base: Option<String>,
    pub state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing is wrong with it. Whether somebody is in it, only sessions know.
    There,
    /// Somebody left it on purpose.
    Kept,
    /// Its directory is gone.
    Missing,
    /// Git was ended while it made it.
    Unfinished,
}

/// All worktrees and snapshots. Lets go of snapshots whose time is over.
pub async fn list(repo: &Repository) -> Result<(Vec<Listed>, Vec<Snapshot>), Error> {
    snapshot::prune(repo).await;
    let (trees, snapshots) = (repo.trees().await?, snapshot::all(repo).await?);
    Ok((trees.into_iter().map(listed).collect(), snapshots))
}

fn listed(tree: Tree) -> Listed {
    let record = tree.record();
    let state = match () {
        () if tree.is_unfinished() => State::Unfinished,
        () if tree.is_missing() => State::Missing,
        () if record.kept => State::Kept,
        () => State::There,
    };
    let branch = tree.branch.map(|branch| branch.trim_start_matches("refs/heads/").to_owned());
    Listed { name: tree.name, path: tree.path, branch, head: tree.head, base: record.base, state }
}

/// Writes down that a worktree is left on purpose.
pub async fn set_kept(repo: &Repository, name: &Name) -> Result<(), Error> {
    let tree = repo.tree(name).await?;
    if tree.git_dir.as_os_str().is_empty() {
        return Ok(());
    }
    Record { kept: true, ..tree.record() }.write(&tree.git_dir)
}
