//! A person who looks after the worktrees that sessions left, and now and then wants one back.

use super::ledger::HALF_GONE;
use super::load::Load;
use crate::random::Random;
use anyhow::bail;
use proto::Code;
use proto::methods::{
    WorktreeInput, WorktreeRemoval, WorktreesInput, WorktreesList, WorktreesRemove, WorktreesRestore,
};
use std::time::Duration;

/// How often something is tried that another git stands in the way of.
const TRIES: u32 = 40;

impl Load {
    /// Removes a worktree or restores one, whichever it finds: with somebody in it that is refused.
    pub(super) async fn tidy(&self, random: &mut Random) -> anyhow::Result<()> {
        let cwd = Some(self.directory.clone());
        let mut looked = 0;
        let listed = loop {
            looked += 1;
            match self.call::<WorktreesList>(|| WorktreesInput { cwd: cwd.clone() }).await? {
                Ok(listed) => break listed,
                // Git cannot read a worktree that another git is just making.
                Err(error) if error.code == Code::Unavailable && looked < TRIES => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => bail!("`worktrees.list` was refused {looked} times: {error}"),
            }
        };
        let (discard_changes, restores) = (random.percent(70), random.percent(40));
        let snapshot = random.among(&listed.snapshots).filter(|_| restores).map(|one| one.name.clone());
        let worktree = random.among(&listed.worktrees).map(|one| one.name.clone());
        for tried in 1.. {
            self.posted.notify_waiters();
            let told = match (&snapshot, &worktree) {
                (Some(name), _) => {
                    let input = || WorktreeInput { name: name.clone(), cwd: cwd.clone() };
                    self.call::<WorktreesRestore>(input).await?.map(drop)
                }
                (None, Some(name)) => {
                    let input = || WorktreeRemoval { name: name.clone(), cwd: cwd.clone(), discard_changes };
                    self.call::<WorktreesRemove>(input).await?.map(drop)
                }
                (None, None) => Ok(()),
            };
            match told {
                Ok(()) => break,
                Err(error) if error.message.contains(HALF_GONE) => bail!("a worktree is half gone: {error}"),
                // It holds work, somebody is in it, or it is there or gone already: before the crash, perhaps.
                Err(error) if matches!(error.code, Code::Conflict | Code::NotFound) => break,
                // The git of a gateway that was killed just now has not ended yet.
                Err(error) if error.code == Code::Unavailable && tried < TRIES => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => bail!("`worktrees.remove` or `restore` was refused {tried} times: {error}"),
            }
        }
        Ok(())
    }
}
