//! The spawner: how a call makes a child session.
//!
//! Nothing is written here. A child is prepared as rows and a letter; the commit that marks the call as waiting makes it
//! exist, so a crash leaves either both or neither.

use crate::agents::Agents;
use crate::grant::Grant;
use crate::now;
use async_trait::async_trait;
use proto::letter::{Prompt, Provenance, Report, Sender};
use proto::{AgentId, Body, CallId, Class, Key, Letter, LetterId, SessionId, Status};
use rules::Policy;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use store::{Mode, Post, Session, Store};
use tools::{Error, Spawn, Spawned, Spawner};

/// What a call wants committed together with its outcome.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub open: Vec<Session>,
    pub post: Vec<Post>,
}

/// The spawner of one call.
pub(crate) struct CallSpawner {
    pub store: Arc<dyn Store>,
    pub agents: Arc<Agents>,
    pub limits: Arc<config::Limits>,
    pub parent: Arc<Session>,
    /// The model the caller runs on; a child whose agent has none of its own takes it.
    pub model: String,
    pub policy: Arc<Policy>,
    pub call: CallId,
    /// Children of this session that are prepared and not yet committed.
    pub planned: Arc<AtomicU64>,
    pub effects: Mutex<Effects>,
}

impl CallSpawner {
    pub(crate) fn effects(&self) -> Effects {
        std::mem::take(&mut self.effects.lock().expect("no holder of this lock panics"))
    }

    fn letter(&self, to: &SessionId, prompt: String) -> Post {
        let body = Prompt { model: Some(self.model.clone()), ..Prompt::text(prompt) };
        let letter = Letter {
            // From the call's id, so that the same call can never start a second run.
            id: LetterId::derived("run_", self.call.as_str()),
            to: to.clone(),
            from: Sender::Session { id: self.parent.id.clone() },
            class: Class::Request,
            body: Body::Prompt(body),
            provenance: Some(Provenance {
                kind: "inter_session".into(),
                source_session_key: Some(self.parent.key.clone()),
                source_tool: Some("task".into()),
                hops: 0,
            }),
            report: Some(Report { session: self.parent.id.clone(), call: Some(self.call.clone()) }),
            expires: None,
        };
        Post { letter, person: false, queue: Some(self.limits.queue) }
    }

    async fn check_room(&self) -> Result<(), Error> {
        if self.parent.depth >= self.limits.depth {
            let depth = self.limits.depth;
            return Err(Error::tell(format!(
                "this session is already {depth} levels deep, which is the limit (`limits.depth`): do the work yourself"
            )));
        }
        let live = self.store.live_children(&self.parent.id).await.map_err(broken)?;
        if live + self.planned.fetch_add(1, Ordering::SeqCst) >= u64::from(self.limits.children) {
            self.planned.fetch_sub(1, Ordering::SeqCst);
            let most = self.limits.children;
            return Err(Error::tell(format!(
                "{most} children of this session are under way, which is the limit (`limits.children`): wait for some to end"
            )));
        }
        Ok(())
    }

    async fn resume(&self, child: &SessionId, request: &Spawn) -> Result<SessionId, Error> {
        let row = self.store.session(child).await.map_err(broken)?;
        match row {
            Some(row) if row.parent.as_ref() == Some(&self.parent.id) && row.agent == request.agent => Ok(row.id),
            Some(row) if row.parent.as_ref() == Some(&self.parent.id) => {
                let agent = row.agent;
                Err(Error::tell(format!("`{child}` runs as `{agent}`: pass that as subagent_type to go on with it")))
            }
            _ => Err(Error::tell(format!(
                "`{child}` is not a child of this session: leave session_id out for a new one"
            ))),
        }
    }
}

#[async_trait]
impl Spawner for CallSpawner {
    async fn spawn(&self, request: Spawn) -> Result<Spawned, Error> {
        let profile = match self.agents.get(&request.agent) {
            Ok(profile) if profile.can_be_child() => profile,
            _ => {
                let can: Vec<&str> = self.agents.list().filter(|p| p.can_be_child()).map(|p| p.name.as_str()).collect();
                let (agent, can) = (&request.agent, can.join(", "));
                return Err(Error::tell(format!("there is no agent `{agent}` to hand work to; there is: {can}")));
            }
        };
        let session = match &request.resume {
            Some(child) => self.resume(child, &request).await?,
            None => {
                self.check_room().await?;
                let grant = Grant::child(&self.policy, profile);
                let mut row = child_row(&self.parent, &profile.name, &grant);
                row.model.clone_from(&profile.model);
                row.title = Some(request.title.clone());
                let id = row.id.clone();
                self.effects.lock().expect("no holder of this lock panics").open.push(row);
                id
            }
        };
        let mut post = self.letter(&session, request.prompt);
        if let (Body::Prompt(prompt), Some(model)) = (&mut post.letter.body, &profile.model) {
            prompt.model = Some(model.clone());
        }
        let run = post.letter.id.run();
        self.effects.lock().expect("no holder of this lock panics").post.push(post);
        Ok(Spawned { run, session })
    }
}

fn broken(error: store::Error) -> Error {
    Error::Broken { tool: "spawner", source: Box::new(error) }
}

/// The row of a new child.
fn child_row(parent: &Session, agent: &str, grant: &Grant) -> Session {
    let id = SessionId::new();
    let owner = AgentId::repair(agent);
    let key = Key::subagent(&owner, &parent.id, &id);
    Session {
        parent: Some(parent.id.clone()),
        root: parent.root.clone(),
        depth: parent.depth + 1,
        path: format!("{}{id}/", parent.path),
        mode: Mode::Run,
        ..new_row(id, &key, agent, parent.cwd.clone(), grant)
    }
}

/// The row of a new root session.
pub(crate) fn new_row(id: SessionId, key: &Key, agent: &str, cwd: String, grant: &Grant) -> Session {
    let at = now();
    Session {
        path: format!("{id}/"),
        key: key.to_string(),
        owner: key.agent().to_string(),
        agent: agent.into(),
        model: None,
        parent: None,
        root: id.clone(),
        depth: 0,
        kind: key.kind().as_str().into(),
        driver: "loop".into(),
        mode: Mode::Session,
        title: None,
        label: None,
        cwd,
        policy: grant.write(),
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
        usage: proto::Usage::default(),
        context_tokens: 0,
        attempts: 0,
        attempt_seq: 0,
        id,
    }
}
