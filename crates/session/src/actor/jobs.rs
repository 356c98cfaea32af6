//! Commands in the background, as the log knows them: those that are gone are told of.

use super::Actor;
use crate::jobs::gone;
use proto::Job;
use store::Post;

impl Actor {
    /// Letters about jobs that ended without a word: with the gateway that ran them, or with a run that was their last.
    pub(super) fn lost_jobs(&self) -> Vec<Post> {
        let told = |job: &Job| self.inbox.queued().any(|letter| letter.id == job.id.end());
        let known = |job: &Job| self.rt.jobs.knows(&self.row.id, &job.id);
        let lost = self.view.jobs().filter(|job| !known(job) && !told(job));
        lost.map(|job| gone(&self.row.id, job)).collect()
    }
}
