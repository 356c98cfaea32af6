//! Worktrees: a second checkout of a repository for a session or an agent, that never takes work away with it.
//!
//! - [`create`](create()) makes one below `.convoke/worktrees`, on a branch of its own; [`remove`](remove()) takes it away
//!   when nothing would be lost, or on purpose, and never without a [`Snapshot`]; [`restore`] brings it back.
//! - [`finish`] is for whoever made one for an agent: gone when unchanged, else kept and told.
//!
//! This is the side of git: it knows no session. Who works where is asked through [`Tenants`]; the session that moves is
//! told by [`crate::Move`]. Every step leaves something that the next call, or `worktrees.list`, recognises: a tree that
//! nobody is in, a half-made one, a snapshot beside a tree that is still there.

mod create;
mod files;
mod inspect;
mod list;
mod lock;
mod name;
mod record;
mod remove;
mod repository;
mod snapshot;
#[cfg(test)]
mod tests;
mod tmux;

pub use create::{Made, create};
pub use inspect::Changes;
pub use list::{Listed, State, list, set_kept};
pub use name::Name;
pub use remove::{Discard, Removed, remove};
pub use repository::Repository;
pub use snapshot::{Snapshot, restore};

use crate::hook::Hook;
use crate::process::Processes;
use async_trait::async_trait;
use inspect::Index;
use proto::{Error, Worktree};
use record::Record;
use std::path::Path;
use std::sync::Arc;

/// What a user sets about worktrees.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub base: Base,
    /// Makes one instead of git (`hooks.worktree_create`).
    pub create: Option<Hook>,
    /// Takes one away instead of git (`hooks.worktree_remove`).
    pub remove: Option<Hook>,
}

/// What a new worktree starts from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Base {
    /// What is checked out.
    #[default]
    Head,
    /// The remote's main branch, where there is one.
    Fresh,
}

/// Who works where.
#[async_trait]
pub trait Tenants: Send + Sync {
    /// Names of the sessions that are at work in a directory or below it, other than the one that asks.
    async fn busy_in(&self, dir: &Path) -> Result<Vec<String>, Error>;
}

/// What a call knows of worktrees.
#[derive(Clone)]
pub struct Here {
    pub settings: Arc<Settings>,
    /// The one its session has entered.
    pub entered: Option<Worktree>,
    pub tenants: Arc<dyn Tenants>,
}

fn branch_ref(name: &str) -> String {
    format!("refs/heads/convoke/{name}")
}

/// Writes down what a hook's worktree has checked out at first, where git knows it.
pub(crate) fn note_base(repo: &Repository) -> Result<(), Error> {
    let tree = repo.own_tree("")?;
    Record { base: Some(tree.head.clone()), ..Record::default() }.write(&tree.git_dir)
}

/// Looks at a worktree that a hook is about to remove: refused like any other, and kept as a snapshot in its repository.
pub(crate) async fn set_aside(
    repo: &Repository,
    inside: &Worktree,
    discard: Discard,
) -> Result<(Changes, Snapshot), Error> {
    let tree = repo.own_tree(&inside.name)?;
    inspect::check_unlocked(&tree)?;
    let index = Index::of(repo, &tree).await?;
    let changes = inspect::changes(repo, &tree, &index).await?;
    remove::check_changes(&tree, &changes, discard)?;
    Ok((changes, snapshot::take(repo, &tree, &index).await?))
}

/// What became of a worktree that was made for an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finished {
    /// It held nothing but what it was made from.
    Removed,
    /// It holds work, or somebody works in it.
    Kept { why: String },
}

/// Ends a worktree that was made for an agent: removed when it is exactly what it was made from, else kept.
pub async fn finish(
    repo: &Repository,
    name: &Name,
    tenants: &dyn Tenants,
    processes: &dyn Processes,
) -> Result<Finished, Error> {
    let tree = repo.tree(name).await?;
    let changes = match tree.is_missing() {
        true => inspect::commits(repo, &tree).await?,
        false => inspect::changes(repo, &tree, &Index::of(repo, &tree).await?).await?,
    };
    // More than `remove` asks for: a commit that was merged is still work somebody may want to look at.
    let base = tree.record().base;
    let moved = base.as_ref() != Some(&tree.head);
    if !changes.is_none() || moved {
        set_kept(repo, name).await?;
        let why = if changes.is_none() { "commits that are merged".to_owned() } else { changes.words() };
        return Ok(Finished::Kept { why });
    }
    match remove(repo, name, Discard::Nothing, tenants, processes).await {
        Ok(removed) => {
            // It holds nothing but its parent: a thousand agents need not leave a thousand of them.
            snapshot::let_go(repo, &removed.snapshot).await;
            Ok(Finished::Removed)
        }
        Err(error) => {
            set_kept(repo, name).await?;
            Ok(Finished::Kept { why: error.message })
        }
    }
}
