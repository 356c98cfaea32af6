//! Worktrees as people and sessions see them together: git knows the trees, the store knows who is in them.

use crate::now;
use crate::runtime::{Inner, Runtime};
use async_trait::async_trait;
use proto::letter::Switch;
use proto::methods::{
    SnapshotRow, WorktreeInput, WorktreeRemoval, WorktreeRemoved, WorktreeRestored, WorktreeRow, WorktreesOutput,
};
use proto::{Body, Error, LetterId, SessionId};
use std::path::Path;
use store::{Mail, Session};
use tokio_util::sync::CancellationToken;
use tools::worktree::{self, Listed, Name, Repository, Snapshot, State, Tenants};

/// Sessions in one worktree that are named; more are not needed to say no.
const NAMED: usize = 50;

impl Runtime {
    /// The worktrees of the repository that holds a directory.
    pub async fn worktrees(&self, dir: &str) -> Result<WorktreesOutput, Error> {
        let repo = self.repository(dir).await?;
        let (trees, snapshots) = worktree::list(&repo).await?;
        let mut worktrees = Vec::with_capacity(trees.len());
        for tree in trees {
            let inside = self.inner().inside(&tree.path).await?;
            worktrees.push(row(tree, &inside));
        }
        let snapshots = snapshots.iter().map(snapshot_row).collect();
        Ok(WorktreesOutput { count: worktrees.len(), worktrees, snapshots })
    }

    /// Brings one back from a snapshot.
    pub async fn restore_worktree(&self, dir: &str, input: &WorktreeInput) -> Result<WorktreeRestored, Error> {
        let repo = self.repository(dir).await?;
        let (made, snapshot) = worktree::restore(&repo, &input.name).await?;
        let path = made.path.display().to_string();
        Ok(WorktreeRestored { name: made.name, path, branch: made.branch, snapshot: snapshot_row(&snapshot) })
    }

    /// Removes one at a person's wish. Sessions that rest in it go back to where they came from.
    pub async fn remove_worktree(&self, dir: &str, input: &WorktreeRemoval) -> Result<WorktreeRemoved, Error> {
        let (repo, name) = (self.repository(dir).await?, Name::parse(&input.name)?);
        let tenants = Anybody { rt: self.inner() };
        let processes = self.inner().processes.as_ref();
        let removed = worktree::remove(&repo, &name, input.discard_changes.into(), &tenants, processes).await?;
        self.send_home(&removed.path).await?;
        Ok(WorktreeRemoved {
            name: name.as_str().into(),
            snapshot: snapshot_row(&removed.snapshot),
            discarded_files: removed.changes.file_count,
            discarded_commits: removed.changes.commit_count,
            tmux_sessions: removed.tmux,
        })
    }

    async fn send_home(&self, path: &Path) -> Result<(), Error> {
        let inside = self.inner().inside(path).await?;
        let homeless = |session: &Session| {
            // Whoever was put into one gets it again when it goes on.
            let worktree = session.worktree.as_ref().filter(|w| Path::new(&w.path) == path && !w.isolated)?;
            let switch = Switch { cwd: Some(worktree.original_cwd.clone()), ..Switch::default() };
            Some(crate::runtime::control(LetterId::new(), &session.id, Body::Switch(switch)))
        };
        let post: Vec<_> = inside.iter().filter_map(homeless).collect();
        if post.is_empty() {
            return Ok(());
        }
        let mail = Mail { at: now(), post, ..Mail::default() };
        let receipts = self.store().deliver(mail).await?;
        receipts.iter().for_each(|receipt| self.inner().wake(&receipt.to));
        Ok(())
    }

    async fn repository(&self, dir: &str) -> Result<Repository, Error> {
        self.inner().repository(Path::new(dir)).await
    }
}

impl Inner {
    pub(crate) async fn repository(&self, dir: &Path) -> Result<Repository, Error> {
        Repository::open(self.processes.clone(), CancellationToken::new(), dir).await
    }

    /// Who is busy in a directory, or has entered it.
    pub(crate) async fn inside(&self, dir: &Path) -> Result<Vec<Session>, Error> {
        Ok(self.store.inside(&dir.to_string_lossy(), NAMED).await?)
    }
}

fn row(tree: Listed, inside: &[Session]) -> WorktreeRow {
    let busy = inside.iter().any(|session| session.status.is_busy());
    let name = &tree.name;
    let again = || format!("enter it again with `enter_worktree`, or remove it: `convoke worktrees remove {name}`");
    let (state, hint) = match tree.state {
        State::Unfinished => ("unfinished", format!("entering `{name}` finishes it")),
        State::Missing => ("missing", format!("entering `{name}` makes it again from its branch")),
        _ if busy => ("busy", "wait until they are done".to_owned()),
        _ if !inside.is_empty() => ("open", "a session is in it, and leaves it with `exit_worktree`".to_owned()),
        State::Kept => ("kept", again()),
        State::There => ("orphan", format!("nobody is in it: {}", again())),
    };
    WorktreeRow {
        path: tree.path.display().to_string(),
        branch: tree.branch,
        head: tree.head,
        base: tree.base,
        state: state.into(),
        sessions: inside.iter().map(|session| session.key.clone()).collect(),
        hint,
        name: tree.name,
    }
}

fn snapshot_row(snapshot: &Snapshot) -> SnapshotRow {
    SnapshotRow {
        name: snapshot.name.clone(),
        reference: snapshot.reference(),
        commit: snapshot.commit.clone(),
        worktree: snapshot.worktree.clone(),
        taken_at: snapshot.taken_ms(),
        expires_at: snapshot.expires_ms(),
    }
}

/// For a person: everybody counts.
pub(crate) struct Anybody<'a> {
    pub(crate) rt: &'a Inner,
}

#[async_trait]
impl Tenants for Anybody<'_> {
    async fn busy_in(&self, dir: &Path) -> Result<Vec<String>, Error> {
        let inside = self.rt.inside(dir).await?;
        Ok(busy(&inside, None).map(|session| session.key.clone()).collect())
    }
}

pub(crate) fn busy<'a>(inside: &'a [Session], but: Option<&'a SessionId>) -> impl Iterator<Item = &'a Session> {
    inside.iter().filter(move |session| session.status.is_busy() && Some(&session.id) != but)
}
