//! The worktree a session is in: told of with the run's end when it was made for this session, gone after it when it holds
//! nothing, and made again when the session goes on.
//!
//! It is looked at before the commit that ends a run and removed after it: a letter that comes in between finds the
//! session with its directory, and a crash leaves a worktree that `worktrees.list` shows.

use super::runs::Ending;
use super::{Actor, Stop};
use proto::entry::Notice;
use proto::letter::{Switch, WorktreeEnd};
use proto::{Code, Entry, Worktree};
use std::path::{Path, PathBuf};
use store::Batch;
use tokio_util::sync::CancellationToken;
use tools::worktree::{self, Finished, Name, Site};

impl Actor {
    /// The worktree that was made for this session.
    fn own_worktree(&self) -> Option<&Worktree> {
        self.row.worktree.as_ref().filter(|worktree| worktree.isolated)
    }

    /// What comes before the commit that ends a run.
    pub(super) async fn before_the_end(&mut self) {
        // Whoever hears of the end finds the directory without what a sandbox put there.
        self.rt.processes.rest(&self.row.id);
        self.weigh_worktree().await;
    }

    /// Looks what the report of an end has to say of it. Changes nothing.
    async fn weigh_worktree(&mut self) {
        let Some(own) = self.own_worktree().cloned() else { return };
        let kept = match worktree::weigh(&self.site(&own), &own).await {
            Ok(kept) => kept,
            Err(error) if error.code == Code::NotFound => None,
            Err(error) => Some(error.message),
        };
        self.weighed = Some(WorktreeEnd { path: own.path, branch: own.branch, kept });
    }

    /// Takes it away once the session has ended, if it holds nothing but what it was made from.
    pub(super) async fn leave_worktree(&mut self) {
        let Some(own) = self.own_worktree().cloned() else { return };
        if self.left || !self.row.status.is_ended() {
            return;
        }
        self.left = true;
        let anybody = crate::worktrees::Anybody { rt: &self.rt };
        match worktree::finish(&self.site(&own), &self.rt.worktrees, &own, &anybody).await {
            Ok(Finished::Removed) => {}
            Ok(Finished::Kept { why }) => {
                tracing::debug!(session = %self.row.id, path = own.path, why, "kept a worktree");
            }
            Err(error) => tracing::warn!(session = %self.row.id, path = own.path, %error, "a worktree stays"),
        }
    }

    /// A run begins: whoever has a worktree of its own works in it, or not at all.
    pub(super) async fn rehouse(&mut self) -> Result<(), Stop> {
        self.left = false;
        let Some(own) = self.own_worktree().cloned().filter(|own| !Path::new(&own.path).is_dir()) else {
            return Ok(());
        };
        let made = match Name::parse(&own.name) {
            Ok(name) => worktree::make(&self.site(&own), &self.rt.worktrees, &name, true).await,
            Err(error) => Err(error),
        };
        match made {
            Ok((made, _)) if made.path == own.path => Ok(()),
            Ok((made, _)) => self.settle_in(Worktree { isolated: true, ..made }).await,
            Err(error) => {
                let why = format!("the worktree of this agent could not be made again: {}", error.message);
                self.end(Ending::error(Code::Unavailable, &why, error.hint.as_deref())).await
            }
        }
    }

    async fn settle_in(&mut self, worktree: Worktree) -> Result<(), Stop> {
        let mut batch = Batch::default();
        let cwd = Some(worktree.path.clone());
        (batch.row.cwd, batch.row.worktree) = (cwd.clone(), Some(Some(worktree.clone())));
        batch.entries.push(Entry::Switch(Switch { cwd, worktree: Some(worktree), ..Switch::default() }));
        self.commit(batch).await?;
        self.take_role();
        Ok(())
    }

    /// Before a step: whoever went into a worktree that is gone since, by somebody's hand or by a call that a crash cut off,
    /// goes back to where it came from and is told. True when it did.
    pub(super) async fn come_home(&mut self) -> Result<bool, Stop> {
        let entered = self.row.worktree.as_ref().filter(|worktree| !worktree.isolated);
        let Some(gone) = entered.filter(|worktree| !Path::new(&worktree.path).is_dir()) else { return Ok(false) };
        let home = worktree::home(gone).display().to_string();
        let text = format!(
            "The worktree `{}` is gone: its folder `{}` does not exist any more. This session is back in `{home}`; \
             `convoke worktrees list` shows whether there is a snapshot.",
            gone.name, gone.path
        );
        let switch = Switch { cwd: Some(home.clone()), ..Switch::default() };
        let mut batch =
            Batch { entries: vec![Entry::Switch(switch), Entry::Notice(Notice { text })], ..Batch::default() };
        (batch.row.cwd, batch.row.worktree) = (Some(home), Some(None));
        self.commit(batch).await?;
        self.take_role();
        Ok(true)
    }

    fn site(&self, own: &Worktree) -> Site {
        Site {
            processes: self.rt.processes.clone(),
            // Not that of the work: this comes after it was stopped, too.
            cancel: CancellationToken::new(),
            dir: PathBuf::from(&own.original_cwd),
            session: self.row.id.clone(),
            agent: self.row.agent.clone(),
        }
    }
}
