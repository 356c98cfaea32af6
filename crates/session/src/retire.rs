//! Sessions that are put away: hidden, deleted, or begun anew. Nothing is purged: a log stays readable by its id.

use crate::now;
use crate::runtime::Runtime;
use proto::{Error, SessionId, Status, Usage};
use std::time::Duration;
use store::{Mail, Once, Retire, Session};
use tokio::time::Instant;

/// How long a session may take to stop.
const WAIT: Duration = Duration::from_secs(10);

/// Between two tries.
const GLANCE: Duration = Duration::from_millis(5);

impl Runtime {
    /// Gives a session another label, or takes it away.
    pub async fn relabel(&self, session: &SessionId, label: Option<String>) -> Result<(), Error> {
        let mail = Mail { at: now(), label: vec![(session.clone(), label)], ..Mail::default() };
        self.store().deliver(mail).await?;
        Ok(())
    }

    /// Hides a session that does nothing, with all below it.
    pub async fn archive(&self, session: &SessionId, once: Option<String>) -> Result<(), Error> {
        Ok(self.retire(session, false, None, once).await.map(drop)?)
    }

    /// Stops a session with all below it, hides them, and gives its key and label back.
    pub async fn delete(&self, session: &SessionId, once: Option<String>) -> Result<(), Error> {
        self.stopped(session, once, |_| None).await?;
        self.forget_files(session).await;
        Ok(())
    }

    /// Stops a session with all below it, and puts one with an empty log in its place.
    pub async fn reset(&self, session: &SessionId, once: Option<String>) -> Result<Session, Error> {
        let heir = self.stopped(session, once, |old| Some(anew(old))).await?;
        self.inner.session(&heir).await
    }

    /// What comes in while it stops makes it busy again, so it is stopped again, for a while.
    async fn stopped(
        &self,
        session: &SessionId,
        once: Option<String>,
        heir: impl Fn(&Session) -> Option<Session>,
    ) -> Result<SessionId, Error> {
        let end = Instant::now() + WAIT;
        let heir = heir(&self.inner.session(session).await?);
        loop {
            match self.retire(session, true, heir.clone(), once.clone()).await {
                Err(store::Error::Busy(busy)) if Instant::now() < end => {
                    self.abort(&busy, None).await?;
                }
                done => return Ok(done?),
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// The session that has the key now: its heir, or nobody new.
    async fn retire(
        &self,
        session: &SessionId,
        free: bool,
        heir: Option<Session>,
        once: Option<String>,
    ) -> Result<SessionId, store::Error> {
        let answer = heir.as_ref().map_or(session, |heir| &heir.id).clone();
        let mail = Mail {
            at: now(),
            once: once.map(|key| Once { key, answer: answer.to_string() }),
            retire: vec![Retire { session: session.clone(), free }],
            open: heir.into_iter().collect(),
            ..Mail::default()
        };
        match self.store().deliver(mail).await {
            Ok(_) => {
                self.inner.jobs.end(session).await;
                Ok(answer)
            }
            Err(store::Error::Repeated { answer }) => {
                SessionId::parse(&answer).map_err(|error| store::Error::Internal(error.to_string()))
            }
            Err(error) => Err(error),
        }
    }
}

/// The same session with nothing behind it.
fn anew(old: &Session) -> Session {
    let (id, at) = (SessionId::new(), now());
    let above = old.path.strip_suffix(&format!("{}/", old.id)).unwrap_or_default();
    Session {
        root: if old.root == old.id { id.clone() } else { old.root.clone() },
        path: format!("{above}{id}/"),
        id,
        halt: store::Halt::No,
        fork: None,
        archived: false,
        status: Status::Idle,
        run: None,
        created: at,
        activity: at,
        started: None,
        ended: None,
        seq: 0,
        base: 0,
        pending: 0,
        epoch: 0,
        usage: Usage::default(),
        context_tokens: 0,
        attempts: 0,
        attempt_seq: 0,
        undone: 0,
        ..old.clone()
    }
}
