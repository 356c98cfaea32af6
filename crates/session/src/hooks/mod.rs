//! Hooks: commands of the user's own that run when something happens (C10).
//!
//! Each gets the event as JSON on its standard input. Where something can still be stopped, exit code 2 stops it, with
//! what was printed to standard error as the reason; where something can still be changed, JSON on standard output
//! changes it. A hook that fails is shown and counted, and holds nothing up beyond its time limit.

mod answer;
#[cfg(test)]
mod tests;

use crate::Hub;
use answer::{Answer, answer};
use proto::methods::HookRow;
use proto::{Event, SessionId};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::Session;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tools::process::{Command, Processes, shell};

/// Hooks that run at once in one gateway: a thousand children must not start a thousand processes.
const AT_ONCE: usize = 16;
/// The most of what a hook prints that is read: room for a changed message of the longest kind.
const LONGEST: usize = 4 << 20;

/// What a hook can be hung on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    ToolBefore,
    ToolAfter,
    MessageSent,
    MessageReceived,
    AgentStart,
    AgentStop,
    SessionStart,
    SessionEnd,
    PermissionAsked,
    CompactBefore,
    CompactAfter,
    WorktreeCreate,
    WorktreeRemove,
}

impl On {
    fn name(self) -> &'static str {
        match self {
            Self::ToolBefore => "tool.before",
            Self::ToolAfter => "tool.after",
            Self::MessageSent => "message.sent",
            Self::MessageReceived => "message.received",
            Self::AgentStart => "agent.start",
            Self::AgentStop => "agent.stop",
            Self::SessionStart => "session.start",
            Self::SessionEnd => "session.end",
            Self::PermissionAsked => "permission.asked",
            Self::CompactBefore => "compact.before",
            Self::CompactAfter => "compact.after",
            Self::WorktreeCreate => "worktree.create",
            Self::WorktreeRemove => "worktree.remove",
        }
    }

    /// The field that JSON on standard output may change.
    fn changes(self) -> Option<&'static str> {
        match self {
            Self::ToolBefore => Some("input"),
            Self::MessageSent => Some("message"),
            _ => None,
        }
    }

    /// Whether exit code 2 means anything: what has happened cannot be stopped.
    fn can_be_stopped(self) -> bool {
        matches!(
            self,
            Self::ToolBefore
                | Self::ToolAfter
                | Self::MessageSent
                | Self::AgentStart
                | Self::SessionStart
                | Self::PermissionAsked
        )
    }
}

/// Where it happens.
#[derive(Debug, Clone)]
pub(crate) struct Scene {
    session: SessionId,
    root: SessionId,
    parent: Option<SessionId>,
    key: String,
    agent: String,
    dir: PathBuf,
}

impl Scene {
    pub(crate) fn of(row: &Session) -> Self {
        Self {
            session: row.id.clone(),
            root: row.root.clone(),
            parent: row.parent.clone(),
            key: row.key.clone(),
            agent: row.agent.clone(),
            dir: row.cwd.clone().into(),
        }
    }
}

/// Something that happens: what `match` of a hook is held against, and what hooks are told.
#[derive(Debug)]
pub(crate) struct Happening {
    pub(crate) on: On,
    pub(crate) about: String,
    pub(crate) fields: Value,
}

/// What all hooks together said.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Said {
    /// Why it must not be.
    pub(crate) stopped: Option<String>,
    /// What is to take the place of the field that may be changed.
    pub(crate) changed: Option<Value>,
}

/// The hooks of a gateway: what hangs in one directory need not hang in another.
pub(crate) struct Racks {
    processes: Arc<dyn Processes>,
    hub: Hub,
    room: Arc<Semaphore>,
    /// The newest last.
    known: Mutex<Vec<Arc<Hooks>>>,
}

/// Sets of hooks that are kept in mind with how they fared.
const MOST_SETS: usize = 64;

impl Racks {
    pub(crate) fn new(processes: Arc<dyn Processes>, hub: Hub) -> Self {
        Self { processes, hub, room: Arc::new(Semaphore::new(AT_ONCE)), known: Mutex::default() }
    }

    /// Those that settings name: the same for the same settings, so that they are counted together.
    pub(crate) fn of(&self, settings: &config::Hooks) -> Arc<Hooks> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hooks) = known.iter().find(|hooks| hooks.settings == *settings) {
            return Arc::clone(hooks);
        }
        let hooks = Arc::new(Hooks::new(settings, self));
        if known.len() == MOST_SETS {
            known.remove(0);
        }
        known.push(Arc::clone(&hooks));
        hooks
    }

    /// As lists show them: those that hang everywhere, and then those that were met in a directory.
    pub(crate) fn rows(&self, everywhere: &config::Hooks) -> Vec<HookRow> {
        let first = self.of(everywhere);
        let mut rows = first.rows();
        for hooks in self.known.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if !Arc::ptr_eq(hooks, &first) {
                rows.extend(hooks.rows());
            }
        }
        rows
    }
}

/// What hooks find in their environment. Python would take modules out of the directory it is started in, and that is the
/// session's: what an agent writes there must not become a part of the user's hook.
fn environment(env: &[(String, String)]) -> Vec<(String, String)> {
    const SAFE: &str = "PYTHONSAFEPATH";
    let missing = env.iter().all(|(name, _)| name != SAFE);
    env.iter().cloned().chain(missing.then(|| (SAFE.into(), "1".into()))).collect()
}

/// What hangs in one place.
pub(crate) struct Hooks {
    settings: config::Hooks,
    hooks: Vec<Hung>,
    processes: Arc<dyn Processes>,
    hub: Hub,
    room: Arc<Semaphore>,
}

/// A hook, and how it has fared since the gateway started.
struct Hung {
    on: String,
    hook: config::Hook,
    record: Mutex<Record>,
}

#[derive(Debug, Clone, Default)]
struct Record {
    runs: u64,
    failures: u64,
    last_error: Option<String>,
}

impl Hooks {
    fn new(settings: &config::Hooks, racks: &Racks) -> Self {
        let hung =
            |on: &String, hook: &config::Hook| Hung { on: on.clone(), hook: hook.clone(), record: Mutex::default() };
        let hooks = settings.iter().flat_map(|(on, hooks)| hooks.iter().map(move |hook| hung(on, hook))).collect();
        let (processes, hub, room) = (racks.processes.clone(), racks.hub.clone(), racks.room.clone());
        Self { settings: settings.clone(), hooks, processes, hub, room }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    /// Whether any hook wants to hear of this.
    pub(crate) fn hear(&self, on: On, about: &str) -> bool {
        self.hung(on, about).next().is_some()
    }

    fn hung<'a>(&'a self, on: On, about: &'a str) -> impl Iterator<Item = &'a Hung> {
        self.hooks.iter().filter(move |hung| hung.on == on.name() && rules::matches(&hung.hook.only, about))
    }

    /// Runs every hook that wants to hear of it, one after the other: each sees what the one before made of it, and the
    /// first that says no is the last.
    pub(crate) async fn run(&self, scene: &Scene, happening: Happening, cancel: &CancellationToken) -> Said {
        let Happening { on, about, fields } = happening;
        let mut said = Said::default();
        let mut event = told(scene, on, fields);
        for hung in self.hung(on, &about) {
            match self.ask(scene, on, hung, Value::Object(event.clone()).to_string(), cancel).await {
                Answer::Nothing => {}
                Answer::Change(value) => {
                    event.insert(on.changes().unwrap_or_default().into(), value.clone());
                    said.changed = Some(value);
                }
                Answer::Stop(why) => {
                    said.stopped = Some(why);
                    return said;
                }
                Answer::Failed(why) => self.failed(scene, hung, why),
            }
        }
        said
    }

    async fn ask(&self, scene: &Scene, on: On, hung: &Hung, input: String, cancel: &CancellationToken) -> Answer {
        // Nobody closes the semaphore; were it closed, hooks would run all the same.
        let _room = self.room.acquire().await;
        if cancel.is_cancelled() {
            return Answer::Nothing;
        }
        hung.note(|record| record.runs += 1);
        let env = environment(self.processes.env());
        let command = Command {
            program: shell(&env).into(),
            args: vec!["-c".into(), hung.hook.command.clone()],
            dir: scene.dir.clone(),
            env,
            timeout: Duration::from_millis(hung.hook.timeout_ms),
            limit: LONGEST,
            spill: None,
            live: None,
            confine: None,
            input: Some(input),
        };
        match self.processes.run(command, cancel).await {
            Ok(finished) => answer(&finished, on, &hung.hook),
            Err(error) => Answer::Failed(error.to_string()),
        }
    }

    /// Shown to whoever watches, counted for whoever looks later.
    fn failed(&self, scene: &Scene, hung: &Hung, why: String) {
        tracing::warn!(session = %scene.session, hook = %hung.on, command = %hung.hook.command, why, "a hook failed");
        self.hub.publish(
            &scene.root,
            &Event::Hook {
                session_id: scene.session.clone(),
                event: hung.on.clone(),
                command: hung.hook.command.clone(),
                error: why.clone(),
            },
        );
        hung.note(|record| {
            record.failures += 1;
            record.last_error = Some(why);
        });
    }

    fn rows(&self) -> Vec<HookRow> {
        self.hooks.iter().map(Hung::row).collect()
    }
}

impl Hung {
    fn note(&self, change: impl FnOnce(&mut Record)) {
        change(&mut self.record.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn row(&self) -> HookRow {
        let Record { runs, failures, last_error } = self.record.lock().unwrap_or_else(PoisonError::into_inner).clone();
        HookRow {
            event: self.on.clone(),
            only: self.hook.only.clone(),
            command: self.hook.command.clone(),
            timeout_ms: self.hook.timeout_ms,
            runs,
            failures,
            last_error,
        }
    }
}

/// What a hook reads: the event and where it happens, then what is particular to it.
fn told(scene: &Scene, on: On, fields: Value) -> Map<String, Value> {
    let common = serde_json::json!({
        "event": on.name(),
        "sessionId": scene.session,
        "sessionKey": scene.key,
        "parentId": scene.parent,
        "agent": scene.agent,
        "cwd": scene.dir,
    });
    let mut told = Map::new();
    for part in [common, fields] {
        if let Value::Object(part) = part {
            told.extend(part);
        }
    }
    told
}
