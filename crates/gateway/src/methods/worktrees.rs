//! `worktrees.*`: separate checkouts of a repository, and what removed ones held.

use crate::{Gateway, reference};
use proto::Error;
use proto::methods::{
    Handle, WorktreeInput, WorktreeRemoval, WorktreeRemoved, WorktreeRestored, WorktreesInput, WorktreesList,
    WorktreesOutput, WorktreesRemove, WorktreesRestore,
};

impl Handle<WorktreesList> for Gateway {
    async fn handle(&self, input: WorktreesInput) -> Result<WorktreesOutput, Error> {
        self.runtime.worktrees(&self.place(input.cwd.as_deref())?).await
    }
}

impl Handle<WorktreesRestore> for Gateway {
    async fn handle(&self, input: WorktreeInput) -> Result<WorktreeRestored, Error> {
        self.runtime.restore_worktree(&self.place(input.cwd.as_deref())?, &input).await
    }
}

impl Handle<WorktreesRemove> for Gateway {
    async fn handle(&self, input: WorktreeRemoval) -> Result<WorktreeRemoved, Error> {
        self.runtime.remove_worktree(&self.place(input.cwd.as_deref())?, &input).await
    }
}

impl Gateway {
    fn place(&self, cwd: Option<&str>) -> Result<String, Error> {
        reference::directory(cwd.unwrap_or(&self.home))
    }
}
