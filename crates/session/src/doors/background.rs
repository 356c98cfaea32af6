//! Commands in the background, as a call starts, sees and stops them.

use super::Doors;
use async_trait::async_trait;
use proto::{Error, Job};
use tools::Background;
use tools::doors::JobInfo;
use tools::process::Command;

#[async_trait]
impl Background for Doors {
    async fn start(&self, command: Command, words: &str) -> Result<Job, Error> {
        let row = &self.caller.row;
        self.rt.start_job((&row.id, &row.root), self.caller.purse.as_ref(), command, words).await
    }

    fn jobs(&self) -> Vec<JobInfo> {
        self.rt.jobs.of(&self.caller.row.id)
    }

    async fn stop(&self, id: &str) -> Option<JobInfo> {
        self.rt.jobs.stop(&self.caller.row.id, id).await
    }
}
