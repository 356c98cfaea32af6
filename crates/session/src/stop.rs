//! Stopping a session with everything below it: one wave of abort letters.
//!
//! The wave goes to all that are busy when it is posted. Each session that obeys passes it on, in the same commit, to
//! children that are busy then: one that was started between the look and the letter is stopped as well. Ids are made from
//! the wave's, so that no session is stopped twice, and a prompt that comes after the wave is left alone.

use crate::doors::short;
use crate::runtime::{Runtime, control};
use proto::letter::{Abort, Reason, Sender};
use proto::{Body, Class, Error, Letter, LetterId, RunId, SessionId, Status};
use store::{Post, Session};

/// The most sessions that one wave reaches at once; the rest is reached as it is passed on.
const WIDEST: usize = 10_000;

/// What one session of a wave is sent.
pub(crate) fn letter(wave: &str, to: &SessionId, from: Sender, reason: Reason) -> Post {
    let letter = Letter {
        id: LetterId::derived("stop_", &format!("{wave}_{}", short(to))),
        to: to.clone(),
        from,
        class: Class::Control,
        body: Body::Abort(Abort { reason, run: None, wave: Some(wave.to_owned()) }),
        provenance: None,
        conversation: None,
        report: None,
        expires: None,
    };
    Post { letter, person: false, queue: None }
}

impl Runtime {
    /// Stops a session with everything below it, or one run with what that waits for. Returns the sessions that had
    /// something under way.
    pub async fn abort(&self, session: &SessionId, run: Option<RunId>) -> Result<Vec<Session>, Error> {
        let row = self.inner.session(session).await?;
        // A paused one may stand still in the middle of a run.
        let busy = row.status.is_busy() || row.status == Status::Paused;
        if run.is_some() {
            if !busy {
                return Ok(Vec::new());
            }
            let abort = Abort { reason: Reason::User, run, wave: None };
            self.post(vec![control(LetterId::new(), session, Body::Abort(abort))]).await?;
            return Ok(vec![row]);
        }
        let below = self.inner.store.busy_below(session, WIDEST).await?;
        let mut stopped = self.end_jobs(&row).await?;
        if busy || !below.is_empty() {
            let wave = LetterId::new().to_string();
            // Also to one that is idle: what comes back from below must not start it again.
            let mut post = vec![letter(&wave, session, Sender::Person, Reason::User)];
            post.extend(below.iter().map(|id| letter(&wave, id, Sender::Person, Reason::Parent)));
            self.post(post).await?;
        }
        if busy && stopped.iter().all(|known| known.id != row.id) {
            stopped.insert(0, row);
        }
        for id in &below {
            if stopped.iter().all(|known| known.id != *id) {
                stopped.extend(self.inner.store.session(id).await?);
            }
        }
        Ok(stopped)
    }

    /// Ends commands in the background, of a session and of those below it.
    async fn end_jobs(&self, top: &Session) -> Result<Vec<Session>, Error> {
        let mut ended = Vec::new();
        for id in self.inner.jobs.owners() {
            let Some(row) = self.inner.store.session(&id).await? else { continue };
            if row.path.starts_with(&top.path) && self.inner.jobs.end(&id).await {
                ended.push(row);
            }
        }
        Ok(ended)
    }
}
