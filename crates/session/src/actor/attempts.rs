//! Attempts: how often the gateway died while the same step ran, so that what kills it is given up, and nothing else (P5).
//!
//! A step that no crash cut off costs nothing here. One that is made again after a crash first waits for its room (a
//! provider's turn, a slot); then the attempt is stored, and only then it runs. So a run that was waiting when the gateway
//! died has used up nothing. The last attempt runs beside no other last attempt: when the one that kills the gateway does
//! so again, the others have not begun.

use super::runs::Ending;
use super::{Actor, Outcome, Stop};
use futures_util::future::{BoxFuture, ready};
use proto::entry::Notice;
use proto::{CallId, Code, Entry};
use std::time::Duration;
use store::{Batch, RowChange};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::{Id, JoinSet};

/// Times a step may be made again without its log growing in between; then something in it is the cause.
pub(super) const ATTEMPTS: u32 = 3;

/// How long a last attempt keeps others waiting; what takes longer to kill the gateway is not told apart.
const ALONE: Duration = Duration::from_secs(30);

/// A step that is made again, with the room it needs.
pub(super) struct Admitted {
    call: Option<CallId>,
    begin: Box<Begin>,
}

/// Starts it among the actor's tasks.
type Begin = dyn FnOnce(&mut JoinSet<Outcome>) -> Id + Send;

/// What a step needs before it runs, and what it is.
pub(super) struct Step<R, W> {
    /// The call it is; a model is asked otherwise.
    pub(super) call: Option<CallId>,
    pub(super) room: BoxFuture<'static, R>,
    pub(super) work: W,
    /// What comes of it if it is cancelled before it has its room.
    pub(super) dropped: Outcome,
}

impl Actor {
    /// Runs a step as a task of this actor.
    pub(super) fn run_step<R, W, F>(&mut self, step: Step<R, W>)
    where
        R: Send + 'static,
        W: FnOnce(BoxFuture<'static, R>) -> F + Send + 'static,
        F: Future<Output = Outcome> + Send + 'static,
    {
        let Step { call, room, work, dropped } = step;
        let id = match self.is_repeated() {
            false => self.tasks.spawn(work(room)).id(),
            true => self.admit(call.clone(), room, work, dropped),
        };
        if let Some(call) = call {
            self.running.insert(id, call);
        }
    }

    fn admit<R, W, F>(&mut self, call: Option<CallId>, room: BoxFuture<'static, R>, work: W, dropped: Outcome) -> Id
    where
        R: Send + 'static,
        W: FnOnce(BoxFuture<'static, R>) -> F + Send + 'static,
        F: Future<Output = Outcome> + Send + 'static,
    {
        let alone = (self.attempts() + 1 >= ATTEMPTS).then(|| self.rt.slots.last_attempt());
        let cancel = self.work.clone();
        let task = self.tasks.spawn(async move {
            let admitted = async {
                // Before the slot: nobody waits while holding one.
                let alone = match alone {
                    Some(alone) => Some(alone.await),
                    None => None,
                };
                (room.await, alone)
            };
            tokio::select! {
                (room, alone) = admitted => {
                    let begin = |tasks: &mut JoinSet<Outcome>| tasks.spawn(hold(alone, work(Box::pin(ready(room))))).id();
                    Outcome::Admitted(Admitted { call, begin: Box::new(begin) })
                }
                () = cancel.cancelled() => dropped,
            }
        });
        task.id()
    }

    /// A step that is made again has its room: the attempt counts from here on.
    pub(super) async fn admitted(&mut self, admitted: Admitted) -> Result<(), Stop> {
        if self.counted_at != Some(self.row.seq) {
            let attempts = Some((self.attempts() + 1, self.row.seq));
            self.commit(Batch { row: RowChange { attempts, ..RowChange::default() }, ..Batch::default() }).await?;
            self.counted_at = Some(self.row.seq);
        }
        let id = (admitted.begin)(&mut self.tasks);
        if let Some(call) = admitted.call {
            self.running.insert(id, call);
        }
        Ok(())
    }

    /// The step waits once more, for a further try: what was counted when it ran is taken back with the commit that says so.
    pub(super) fn uncounted(&mut self) -> Option<(u32, u64)> {
        let counted = self.counted_at.take().is_some_and(|seq| seq == self.row.seq);
        counted.then(|| (self.attempts().saturating_sub(1), self.row.seq))
    }

    /// How often the gateway died while the step under way ran.
    pub(super) fn attempts(&self) -> u32 {
        if self.row.attempt_seq == self.row.seq { self.row.attempts } else { 0 }
    }

    /// Whether what is under way was so before the gateway started.
    fn is_repeated(&self) -> bool {
        self.cut_off_at == Some(self.row.seq)
    }

    /// Ends a run whose step has used up its attempts.
    pub(super) async fn give_up(&mut self) -> Result<(), Stop> {
        self.before_the_end().await;
        let text = format!("This run was given up: the gateway died {} times in the same step.", self.attempts());
        let mut batch = Batch { entries: vec![Entry::Notice(Notice { text: text.clone() })], ..Batch::default() };
        let hint = Some("send the prompt again, or look into the gateway's log");
        let ending = Ending::error(Code::Interrupted, &text, hint);
        self.add_ending(&mut batch, &ending);
        self.commit_end(batch, &ending).await
    }
}

/// Others make their last attempt after this one, or when it has gone well for a while.
async fn hold(alone: Option<OwnedSemaphorePermit>, work: impl Future<Output = Outcome>) -> Outcome {
    let mut work = std::pin::pin!(work);
    if let Some(alone) = alone {
        tokio::select! {
            outcome = &mut work => return outcome,
            () = tokio::time::sleep(ALONE) => drop(alone),
        }
    }
    work.await
}
