//! A person who looks after the worktrees that sessions left, and now and then wants one back.

use super::load::Load;
use super::random::Random;
use anyhow::bail;
use proto::Code;
use proto::methods::{
    WorktreeInput, WorktreeRemoval, WorktreesInput, WorktreesList, WorktreesRemove, WorktreesRestore,
};

impl Load {
    /// Removes a worktree or restores one, whichever it finds: with somebody in it that is refused.
    pub(super) async fn tidy(&self, random: &mut Random) -> anyhow::Result<()> {
        let cwd = Some(self.directory.clone());
        let listed = match self.call::<WorktreesList>(|| WorktreesInput { cwd: cwd.clone() }).await? {
            Ok(listed) => listed,
            Err(error) => bail!("`worktrees.list` was refused: {error}"),
        };
        let (discard_changes, restores) = (random.percent(70), random.percent(40));
        self.posted.notify_waiters();
        let told = if restores && !listed.snapshots.is_empty() {
            let name = random.pick(&listed.snapshots).name.clone();
            self.call::<WorktreesRestore>(|| WorktreeInput { name: name.clone(), cwd: cwd.clone() }).await?.map(drop)
        } else if !listed.worktrees.is_empty() {
            let name = random.pick(&listed.worktrees).name.clone();
            let removal = || WorktreeRemoval { name: name.clone(), cwd: cwd.clone(), discard_changes };
            self.call::<WorktreesRemove>(removal).await?.map(drop)
        } else {
            Ok(())
        };
        match told {
            Ok(()) => Ok(()),
            // It holds work, somebody is in it, or it is there or gone already: before the crash, perhaps.
            Err(error) if matches!(error.code, Code::Conflict | Code::NotFound) => Ok(()),
            Err(error) => bail!("`worktrees.remove` or `restore` was refused: {error}"),
        }
    }
}
