//! Trying a model call again (A8): after a while, without a slot, and from scratch.
//!
//! Nothing of the broken answer is kept, so there is nothing to undo; whoever watched its deltas is told to forget them by
//! the event. The wait is the actor's own task: an abort or a deadline ends it like any other. A crash in it forgets how
//! often was tried, but restarts have a budget of their own.

use super::think::Mind;
use super::{Actor, Outcome, Stop};
use llm::Wait;
use proto::{Event, Status};
use std::time::Duration;
use store::{Batch, RowChange};

/// Over so long those are spread who look again at the same time.
const LOOKS: Duration = Duration::from_millis(100);

impl Actor {
    /// Waits for a further try if the policy allows one; false: the error is final.
    pub(super) async fn try_again(&mut self, error: &llm::Error) -> Result<bool, Stop> {
        let most = self.mind.as_ref().map_or(0, Mind::retries);
        let Some(wait) = llm::retry::after(error, self.tried, most, dice()) else {
            self.tried = 0;
            return Ok(false);
        };
        self.tried += 1;
        tracing::info!(session = %self.row.id, %error, tried = self.tried, ?wait, "asks the model again");
        let row = RowChange { status: Some(Status::Retrying), attempts: self.uncounted(), ..RowChange::default() };
        self.commit(Batch { row, ..Batch::default() }).await?;
        let event = Event::Retry {
            session_id: self.row.id.clone(),
            attempt: self.tried,
            after_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            message: error.to_string(),
        };
        self.hub().publish(&self.row.root, &event);
        self.wait_before_next(wait);
        Ok(true)
    }

    /// The server is not to be asked yet: looks again after a while, and holds nothing until then.
    pub(super) async fn wait_in_line(&mut self, wait: Wait) -> Result<(), Stop> {
        if self.row.status != Status::Queued {
            tracing::info!(session = %self.row.id, why = wait.why, time = ?wait.time, "waits to ask the model");
            let row = RowChange { status: Some(Status::Queued), ..RowChange::default() };
            self.commit(Batch { row, ..Batch::default() }).await?;
            let (session_id, attempt) = (self.row.id.clone(), self.tried);
            let after_ms = u64::try_from(wait.time.as_millis()).unwrap_or(u64::MAX);
            self.hub().publish(&self.row.root, &Event::Retry { session_id, attempt, after_ms, message: wait.why });
        }
        // Those who wait for the same do not all look in the same moment.
        self.wait_before_next(wait.time + LOOKS.mul_f64(dice()));
        Ok(())
    }

    fn wait_before_next(&mut self, wait: Duration) {
        let cancel = self.work.clone();
        // A step is under way: letters wait for it as they do for a reply.
        self.thinking = true;
        self.tasks.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = cancel.cancelled() => {}
            }
            Outcome::Said(None)
        });
    }

    /// The wait is over: the session is at work again, also for those who look at its row.
    pub(super) async fn no_longer_retrying(&mut self) -> Result<(), Stop> {
        if matches!(self.row.status, Status::Retrying | Status::Queued) {
            self.commit(Batch::default()).await
        } else {
            Ok(())
        }
    }
}

/// Between 0 and 1. Children that failed together must not all come back in the same moment.
fn dice() -> f64 {
    let mut bytes = [0; 4];
    // Without randomness they come back together, which is no reason to fail.
    getrandom::fill(&mut bytes).ok();
    f64::from(u32::from_ne_bytes(bytes)) / f64::from(u32::MAX)
}
