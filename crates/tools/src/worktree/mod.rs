//! Worktrees: a second checkout of a repository for a session or an agent, that never takes work away with it.
//!
//! - [`create`](create()) makes one below `.convoke/worktrees`, on a branch of its own; [`remove`](remove()) takes it away
//!   when nothing would be lost, or on purpose, and never without a [`Snapshot`]; [`restore`] brings it back.
//! - [`make`] does the same in the way that is set, by git or by a hook. [`weigh`] and [`finish`] are for whoever made one
//!   for an agent: gone when unchanged, else kept and told.
//!
//! This is the side of git: it knows no session. Who works where is asked through [`Tenants`]; the session that moves is
//! told by [`crate::Move`]. Every step leaves something that the next call, or `worktrees.list`, recognises: a tree that
//! nobody is in, a half-made one, a snapshot beside a tree that is still there.

mod create;
mod files;
pub(crate) mod hooked;
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

use crate::hook::{Hook, Stage};
use crate::process::Processes;
use async_trait::async_trait;
use inspect::Index;
use proto::{Code, Error, SessionId, Worktree};
use repository::Tree;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

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

/// Whether somebody may have one made or removed: it is full of files, so whoever may change none gets none.
pub fn check_allowed(policy: &rules::Policy) -> Result<(), Error> {
    if policy.judge("edit", &format!("{}/x/x", files::FOLDER.join("/"))).action != proto::Action::Deny {
        return Ok(());
    }
    let why = "a worktree is full of files, and the rules of this session deny it to change any";
    Err(Error::new(Code::Denied, why).hint("plan without one; whoever carries the plan out can have one"))
}

/// Where the session came from; the nearest folder above that is left of it.
pub fn home(inside: &Worktree) -> PathBuf {
    let original = Path::new(&inside.original_cwd);
    original.ancestors().find(|dir| dir.is_dir()).unwrap_or(Path::new("/")).to_owned()
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

/// Where a worktree is made from, and for whom.
pub struct Site {
    pub processes: Arc<dyn Processes>,
    pub cancel: CancellationToken,
    /// The session's directory; for a removal the one it goes back to.
    pub dir: PathBuf,
    pub session: SessionId,
    pub agent: String,
}

impl Site {
    fn stage<'a>(&'a self, dir: &'a Path) -> Stage<'a> {
        Stage { processes: self.processes.as_ref(), cancel: &self.cancel, dir }
    }

    async fn repository(&self) -> Result<Repository, Error> {
        Repository::open(Arc::clone(&self.processes), self.cancel.clone(), &self.dir).await
    }
}

/// Makes one in the way that is set, and tells what was found instead of nothing. `from_linked` allows it from inside
/// of another worktree: they are all made below the repository's own working tree.
pub async fn make(
    site: &Site,
    settings: &Settings,
    name: &Name,
    from_linked: bool,
) -> Result<(Worktree, Option<String>), Error> {
    if let Some(hook) = &settings.create {
        return Ok((hooked::create(hook, name, site).await?, None));
    }
    let repo = site.repository().await?;
    if repo.is_linked() && !from_linked {
        let why = format!("`{}` is a worktree itself", repo.top().display());
        return Err(Error::new(Code::Conflict, why)
            .hint("start a session in the repository's own working tree to enter another"));
    }
    let made = create(&repo, name, settings.base).await?;
    let worktree = Worktree {
        name: made.name,
        path: made.path.display().to_string(),
        branch: made.branch,
        base: made.base,
        original_branch: made.from,
        original_cwd: site.dir.display().to_string(),
        by_hook: false,
        isolated: false,
    };
    Ok((worktree, made.found))
}

/// Why a worktree that was made for an agent has to stay, or `None` when it is exactly what it was made from. Changes
/// nothing.
pub async fn weigh(site: &Site, inside: &Worktree) -> Result<Option<String>, Error> {
    if inside.by_hook {
        return hooked::weigh(inside, site).await;
    }
    let repo = site.repository().await?;
    let tree = repo.tree(&Name::parse(&inside.name)?).await?;
    tree.check_connected()?;
    let changes = match tree.is_missing() {
        true => inspect::commits(&repo, &tree).await?,
        false => inspect::changes(&repo, &tree, &Index::of(&repo, &tree).await?).await?,
    };
    Ok(reason(&tree, &changes))
}

/// More than a removal asks for: a commit that was merged is still work somebody may want to look at.
fn reason(tree: &Tree, changes: &Changes) -> Option<String> {
    match (changes.is_none(), tree.record().base.as_ref() == Some(&tree.head)) {
        (true, true) => None,
        (true, false) => Some("commits that are merged".into()),
        (false, _) => Some(changes.words()),
    }
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
    site: &Site,
    settings: &Settings,
    inside: &Worktree,
    tenants: &dyn Tenants,
) -> Result<Finished, Error> {
    let removed = match weigh(site, inside).await? {
        Some(why) => Err(why),
        None => take_away(site, settings, inside, tenants).await.map_err(|error| error.message),
    };
    let Err(why) = removed else { return Ok(Finished::Removed) };
    if !inside.by_hook {
        set_kept(&site.repository().await?, &Name::parse(&inside.name)?).await?;
    }
    Ok(Finished::Kept { why })
}

async fn take_away(site: &Site, settings: &Settings, inside: &Worktree, tenants: &dyn Tenants) -> Result<(), Error> {
    if inside.by_hook {
        return hooked::remove(settings.remove.as_ref(), inside, Discard::Nothing, tenants, site).await.map(drop);
    }
    let (repo, name) = (site.repository().await?, Name::parse(&inside.name)?);
    let removed = remove(&repo, &name, Discard::Nothing, tenants, site.processes.as_ref()).await?;
    // It holds nothing but its parent: a thousand agents need not leave a thousand of them.
    snapshot::let_go(&repo, &removed.snapshot).await;
    Ok(())
}
