//! The doors of one call: what a tool reaches other sessions through.
//!
//! Nothing is written here. Children and letters are prepared, and the commit of the call makes them exist: a crash leaves
//! either the call's outcome with all that follows from it, or neither.

mod background;
mod board;
pub(crate) mod conversation;
pub(crate) mod mail;
mod office;
mod spawner;
mod tenants;

pub(crate) use spawner::{Order, new_row};

use crate::chain::Chain;
use crate::directory::{Directory, Guard};
use crate::runtime::Inner;
use async_trait::async_trait;
use proto::letter::Purse;
use proto::letter::Shutdown;
use proto::message::History;
use proto::methods::{AgentRow, HistoryInput, ListInput, ListOutput, PeerRow, SessionInfo, StatusReport};
use proto::{Action, Body, CallId, Class, Error, Letter, RunId, SessionId};
use rules::Policy;
use rules::mode::Mode;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use store::{Hold, Parcel, Post, Session};

/// The session that makes a call, as it was when it made it.
pub(crate) struct Caller {
    pub(crate) row: Arc<Session>,
    /// The model it runs on; a child whose agent has none of its own takes it.
    pub(crate) model: String,
    pub(crate) policy: Arc<Policy>,
    /// Held to what it starts (S3).
    pub(crate) sandboxed: bool,
    /// How far its commands reach.
    pub(crate) reach: tools::sandbox::Reach,
    /// Where it stands in a chain of messages.
    pub(crate) chain: Chain,
    /// The run whose purse pays for what it causes.
    pub(crate) purse: Option<RunId>,
    pub(crate) mode: Mode,
    /// Whom names meant when it last heard of them.
    pub(crate) known: Arc<BTreeMap<String, SessionId>>,
    /// The open question whether it may be shut down.
    pub(crate) asked: Option<Arc<Shutdown>>,
}

/// What a call wants committed together with its outcome.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) open: Vec<Session>,
    pub(crate) post: Vec<Post>,
    pub(crate) hold: Vec<Hold>,
    pub(crate) send: Vec<Parcel>,
}

impl Effects {
    /// The sessions that get a message.
    pub(crate) fn written_to(&self) -> Vec<SessionId> {
        let message = |post: &&Post| post.letter.class != Class::Control && matches!(post.letter.body, Body::Prompt(_));
        self.post.iter().filter(message).map(|post| post.letter.to.clone()).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.post.is_empty() && self.hold.is_empty() && self.send.is_empty()
    }
}

/// Whoever causes a run pays for it, unless the letter says who does.
pub(crate) fn charge(letter: &mut Letter, of: &RunId) {
    if let Body::Prompt(prompt) = &mut letter.body {
        prompt.purse.get_or_insert_with(|| Purse { of: of.clone(), allotted: None, fresh: false, steps: None });
    }
}

pub(crate) struct Doors {
    rt: Arc<Inner>,
    caller: Caller,
    call: CallId,
    /// Children of this session that are prepared and not yet committed.
    planned: Arc<AtomicU64>,
    effects: Mutex<Effects>,
}

impl Doors {
    pub(crate) fn new(rt: Arc<Inner>, caller: Caller, call: CallId, planned: Arc<AtomicU64>) -> Self {
        Self { rt, caller, call, planned, effects: Mutex::default() }
    }

    /// What has been prepared; the next look finds nothing.
    pub(crate) fn effects(&self) -> Effects {
        let mut effects = std::mem::take(&mut *self.effects.lock().expect("no holder of this lock panics"));
        if let Some(purse) = &self.caller.purse {
            effects.post.iter_mut().for_each(|post| charge(&mut post.letter, purse));
            effects.hold.iter_mut().for_each(|hold| charge(&mut hold.letter, purse));
        }
        effects
    }

    fn prepare(&self, change: impl FnOnce(&mut Effects)) {
        change(&mut self.effects.lock().expect("no holder of this lock panics"));
    }

    fn view(&self) -> Directory<'_> {
        let (caller, settings) = (self.caller.row.clone(), self.rt.access.clone());
        Directory { rt: &self.rt, guard: Guard::Session { caller, sandboxed: self.caller.sandboxed, settings } }
    }
}

#[async_trait]
impl tools::Directory for Doors {
    async fn list(&self, input: ListInput) -> Result<ListOutput, Error> {
        self.view().list(&input).await
    }

    async fn history(&self, input: HistoryInput) -> Result<History, Error> {
        self.view().history(&input).await
    }

    async fn status(&self, session: Option<&str>) -> Result<StatusReport, Error> {
        self.view().status(session.unwrap_or("current")).await
    }

    fn agents(&self) -> Vec<AgentRow> {
        let allowed = |name: &str| self.caller.policy.judge("task", name).action != Action::Deny;
        let here = self.rt.here(&self.caller.row);
        let agents = here.agents.list().filter(|agent| !agent.hidden && allowed(&agent.name));
        agents.map(crate::agents::Profile::row).collect()
    }

    async fn children(&self) -> Result<Vec<SessionInfo>, Error> {
        self.view().children(&self.caller.row.id).await
    }

    fn owner(&self) -> String {
        self.caller.row.owner.clone()
    }

    async fn peers(&self) -> Result<Vec<PeerRow>, Error> {
        self.rt.peers(Some(&self.caller.row), false).await
    }
}

/// An id made from two others must stay within the length of an id.
pub(crate) fn short(session: &SessionId) -> &str {
    session.as_str().strip_prefix(SessionId::PREFIX).unwrap_or(session.as_str())
}
