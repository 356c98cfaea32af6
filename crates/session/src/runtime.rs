//! The runtime: how the rest of the program reaches sessions. It posts letters, wakes actors, and answers questions from
//! the store; it never touches a log.

use crate::actor::{Actor, Leave};
use crate::agents::{Agents, Profile};
use crate::board::Board;
use crate::brake::Brake;
use crate::chain::Chain;
use crate::command;
use crate::courier::{Courier, Policy};
use crate::directory::{Directory, Guard};
use crate::doors::mail::Author;
use crate::doors::{Order, conversation, new_row};
use crate::grant::Grant;
use crate::hooks::Racks;
use crate::hub::Hub;
use crate::jobs::Jobs;
use crate::mention;
use crate::now;
use crate::registry::{Handle, Registry};
use crate::settings::{Here, Place, Settings};
use crate::slots::Slots;
use crate::waiters::Waiters;
use futures_util::FutureExt;
use proto::letter::{Answer, AskReply, InputPart, Prompt, Provenance, Purse, Sender, Switch};
use proto::methods::MailReceipt;
use proto::{AgentId, AskId, Body, Class, Code, Error, Key, Letter, LetterId, Reference, Rule, RunId, SessionId};
use rules::access::Act;
use rules::mode::Mode;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use store::{Find, Fork, Mail, Once, Post, Run, Session, Store};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tools::doors::Mailed;

/// What a runtime is built from.
pub struct Deps {
    pub store: Arc<dyn Store>,
    pub hub: Hub,
    pub settings: Arc<dyn Settings>,
    pub limits: config::Limits,
    pub processes: Arc<dyn tools::process::Processes>,
    /// Where tool output too long for a model is saved.
    pub outputs: PathBuf,
    /// Directories of this program: settings, keys, the store. No tool reads or writes there.
    pub private: Vec<PathBuf>,
    /// Where it is kept what files were before sessions changed them.
    pub journal: PathBuf,
    /// When models are told tools by name only.
    pub search: config::Search,
    pub between: Between,
    /// How worktrees are made and removed.
    pub worktrees: tools::worktree::Settings,
    /// Takes mail to other gateways.
    pub courier: Arc<dyn Courier>,
}

/// A message from a session of another gateway.
pub struct Arriving {
    pub message: proto::methods::DeliverInput,
    /// The address that answers it, as the door that let it in knows it.
    pub from: String,
    pub policy: Inbound,
}

/// What the settings say of mail from where a message came.
#[derive(Debug, Clone, Copy)]
pub enum Inbound {
    /// Another gateway of this user on this machine; without a word, visibility decides.
    Near(Option<Policy>),
    Far(Policy),
}

/// What holds between sessions.
pub struct Between {
    /// Who may see and reach whom.
    pub access: rules::access::Settings,
    /// Sessions reach nothing but what they start, unless their agent says otherwise (`sandbox.isolated`).
    pub isolated: bool,
    /// Tools that children get though they are closed to children (`tools.subagents.allow`).
    pub child_tools: Vec<String>,
    /// Turns two sessions take after a message that is announced.
    pub ping_pong: u32,
    /// Blanks secrets where transcripts are read.
    pub redactor: rules::redact::Redactor,
}

impl Default for Between {
    fn default() -> Self {
        let redactor = rules::redact::Redactor::new([]);
        let access = rules::access::Settings::default();
        Self { access, isolated: false, child_tools: Vec::new(), ping_pong: 5, redactor }
    }
}

/// A handle to everything that runs; cloning shares it.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) worktrees: Arc<tools::worktree::Settings>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) hub: Hub,
    pub(crate) settings: Arc<dyn Settings>,
    pub(crate) limits: Arc<config::Limits>,
    pub(crate) processes: Arc<dyn tools::process::Processes>,
    pub(crate) outputs: PathBuf,
    pub(crate) private: Vec<PathBuf>,
    journal: PathBuf,
    pub(crate) slots: Arc<Slots>,
    /// Who works on files, for all sessions.
    pub(crate) hands: tools::files::Hands,
    pub(crate) registry: Registry,
    pub(crate) waiters: Waiters,
    pub(crate) brake: Brake,
    pub(crate) access: Arc<rules::access::Settings>,
    isolated: bool,
    pub(crate) child_tools: Vec<String>,
    pub(crate) ping_pong: u32,
    pub(crate) search: config::Search,
    pub(crate) hooks: Racks,
    redactor: rules::redact::Redactor,
    actors: TaskTracker,
    stop: CancellationToken,
    pub(crate) courier: Arc<dyn Courier>,
    pub(crate) outbox: crate::courier::Outbox,
    pub(crate) jobs: Jobs,
}

/// A session to be made.
#[derive(Debug, Clone, Default)]
pub struct NewSession {
    pub agent: Option<String>,
    pub model: Option<String>,
    pub cwd: String,
    pub label: Option<String>,
    pub title: Option<String>,
    /// Rules on top of the agent's.
    pub permission: Vec<Rule>,
    /// The permission mode; that of the settings without one.
    pub mode: Option<String>,
    /// In the place of the agent's prompt.
    pub system: Option<String>,
    /// Behind it.
    pub append: Option<String>,
    /// The caller's idempotency key: the same one again names the same session.
    pub once: Option<String>,
}

/// What one run may do, where settings allow more.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bounds {
    pub steps: Option<u32>,
    pub cost_usd: Option<f64>,
}

impl Bounds {
    fn narrow(self, body: &mut Body) {
        let Body::Prompt(Prompt { purse: Some(purse), .. }) = body else { return };
        purse.steps = self.steps;
        if let (Some(allotted), Some(cost)) = (&mut purse.allotted, self.cost_usd) {
            allotted.cost_usd = Some(allotted.cost_usd.map_or(cost, |usual| usual.min(cost)));
        }
    }
}

/// Where a prompt goes.
#[derive(Debug, Clone)]
pub enum Target {
    New(NewSession),
    Session(SessionId),
    /// One that the caller has just read.
    Found(Box<Session>),
    /// An agent's main session, made on first use.
    Main {
        agent: String,
        cwd: String,
    },
}

#[derive(Debug, Clone)]
pub struct NewPrompt {
    pub target: Target,
    pub text: String,
    /// The agent to switch to.
    pub agent: Option<String>,
    /// The model for this run only.
    pub model: Option<String>,
    /// The caller's own id for the run.
    pub run: Option<RunId>,
    /// A person's text: joins a run under way. Otherwise it always gets a run of its own.
    pub steer: bool,
}

#[derive(Debug, Clone)]
pub struct Posted {
    pub run: RunId,
    pub session: Session,
    /// Watch from here to see all that follows.
    pub cursor: u64,
    /// The same id was posted before; nothing changed.
    pub duplicate: bool,
}

/// What becomes of a prompt besides its answer.
pub(crate) enum Then {
    /// The run that answers it is bound by these.
    Within(Bounds),
    Nothing,
    /// The session tells its channel of the answer, unless that takes longer than this.
    Announced(Duration),
    /// It is the answer itself.
    Said,
}

impl Runtime {
    pub fn new(deps: Deps) -> Self {
        let slots = Slots::new(deps.limits.gateway as usize, deps.limits.running as usize);
        let hooks = Racks::new(deps.processes.clone(), deps.hub.clone());
        let inner = Inner {
            store: deps.store,
            hub: deps.hub,
            settings: deps.settings,
            limits: Arc::new(deps.limits),
            processes: deps.processes,
            outputs: deps.outputs,
            private: deps.private.into_iter().map(|dir| dir.canonicalize().unwrap_or(dir)).collect(),
            journal: deps.journal,
            slots: Arc::new(slots),
            hands: tools::files::Hands::default(),
            registry: Registry::default(),
            waiters: Waiters::default(),
            brake: Brake::default(),
            access: Arc::new(deps.between.access),
            isolated: deps.between.isolated,
            worktrees: Arc::new(deps.worktrees),
            child_tools: deps.between.child_tools,
            ping_pong: deps.between.ping_pong,
            search: deps.search,
            hooks,
            redactor: deps.between.redactor,
            actors: TaskTracker::new(),
            stop: CancellationToken::new(),
            courier: deps.courier,
            outbox: crate::courier::Outbox::default(),
            jobs: Jobs::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Wakes what a crash or a stop left unfinished. Returns how many sessions go on.
    pub async fn resume(&self) -> Result<usize, Error> {
        self.inner.actors.spawn(self.inner.clone().carry_mail());
        self.inner.actors.spawn(self.inner.clone().tidy_up());
        self.inner.actors.spawn(self.inner.clone().keep_time());
        let mut after: Option<SessionId> = None;
        let mut woken = 0;
        loop {
            let page = self.inner.store.unfinished(after.as_ref(), 500).await?;
            let Some(last) = page.last().cloned() else { return Ok(woken) };
            woken += page.len();
            page.iter().for_each(|session| self.inner.wake(session));
            after = Some(last);
        }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    pub fn hub(&self) -> &Hub {
        &self.inner.hub
    }

    /// Who knows what holds where.
    pub fn settings(&self) -> &Arc<dyn Settings> {
        &self.inner.settings
    }

    /// Agents that can be used in every directory.
    pub fn agents(&self) -> Arc<Agents> {
        self.inner.settings.global().agents.clone()
    }

    /// Posts a prompt, into a new session if need be: one transaction, acknowledged when it is on disk.
    pub async fn prompt(&self, prompt: NewPrompt) -> Result<Posted, Error> {
        self.prompt_with(prompt, Vec::new()).await
    }

    /// The same with files to look at.
    pub async fn prompt_with(&self, prompt: NewPrompt, files: Vec<InputPart>) -> Result<Posted, Error> {
        self.prompt_after(Vec::new(), prompt, files, Then::Nothing).await
    }

    /// The same with bounds on what comes of it.
    pub async fn prompt_within(
        &self,
        prompt: NewPrompt,
        files: Vec<InputPart>,
        bounds: Bounds,
    ) -> Result<Posted, Error> {
        self.prompt_after(Vec::new(), prompt, files, Then::Within(bounds)).await
    }

    /// The same, after which the session tells its channel of the answer, unless that takes longer than `wait`.
    pub async fn prompt_announced(&self, prompt: NewPrompt, wait: Duration) -> Result<Posted, Error> {
        self.prompt_after(Vec::new(), prompt, Vec::new(), Then::Announced(wait)).await
    }

    /// Writes a text into a log as the session's own answer. No model is asked.
    pub async fn say_for(&self, prompt: NewPrompt) -> Result<Posted, Error> {
        self.prompt_after(Vec::new(), prompt, Vec::new(), Then::Said).await
    }

    /// The same, with another letter in front of it.
    pub(crate) async fn prompt_after(
        &self,
        mut letters: Vec<Post>,
        prompt: NewPrompt,
        files: Vec<InputPart>,
        then: Then,
    ) -> Result<Posted, Error> {
        if prompt.text.trim().is_empty() {
            return Err(Error::invalid("the prompt is empty").hint("say what is to be done"));
        }
        let run = prompt.run.clone().unwrap_or_else(RunId::new);
        if prompt.run.is_some()
            && let Some(posted) = self.posted_before(&run, &prompt.target).await?
        {
            return Ok(posted);
        }
        let cursor = self.inner.store.cursor().await?;
        let (row, new) = self.receiver(&prompt.target).await?;
        let mut body = match then {
            Then::Said => Body::Prompt(Prompt { spoken: true, ..Prompt::text(&prompt.text) }),
            Then::Nothing | Then::Within(_) | Then::Announced(_) => self.body(&prompt, files, &run, &row)?,
        };
        if let Then::Within(bounds) = then {
            bounds.narrow(&mut body);
        }
        let mut letter = person(&run, &row.id, body);
        if let Then::Announced(wait) = then {
            letter.conversation = Some(conversation::announced(&run, &row, &prompt.text, wait));
        }
        letters.push(Post { letter, person: prompt.steer, queue: Some(self.inner.limits.queue) });
        let open = if new { vec![row.clone()] } else { Vec::new() };
        let receipts = self.inner.store.deliver(Mail { at: now(), open, post: letters, ..Mail::default() }).await?;
        if !receipts.iter().any(|receipt| receipt.paused) {
            self.inner.wake(&row.id);
        }
        let duplicate = receipts.last().is_some_and(|receipt| receipt.duplicate);
        Ok(Posted { run, session: row, cursor, duplicate })
    }

    /// Sums a session up: in a run of its own, or at the next step of the one under way.
    pub async fn compact(&self, of: Session, wish: Option<&str>, run: Option<RunId>) -> Result<Posted, Error> {
        let text = format!("/compact {}", wish.unwrap_or_default());
        let target = Target::Found(Box::new(of));
        self.prompt(NewPrompt { target, text: text.trim().to_owned(), agent: None, model: None, run, steer: true })
            .await
    }

    /// A run id that was used before: the same call again, or somebody else's.
    async fn posted_before(&self, run: &RunId, target: &Target) -> Result<Option<Posted>, Error> {
        let Some(found) = self.inner.store.run(run).await? else { return Ok(None) };
        let same = match target {
            Target::Session(session) => session == &found.session,
            Target::Found(row) => row.id == found.session,
            Target::New(_) | Target::Main { .. } => true,
        };
        if !same {
            return Err(Error::new(
                Code::Conflict,
                format!("`{run}` is already the id of a run of `{}`", found.session),
            ));
        }
        let session = self.session(&found.session).await?;
        let cursor = self.inner.store.cursor_before(&run.letter()).await?;
        Ok(Some(Posted { run: run.clone(), session, cursor, duplicate: true }))
    }

    /// The row a prompt goes to, and whether it is yet to be stored.
    async fn receiver(&self, target: &Target) -> Result<(Session, bool), Error> {
        match target {
            Target::New(new) => Ok((self.row(new)?, true)),
            Target::Session(session) => Ok((self.session(session).await?, false)),
            Target::Found(row) => Ok((Session::clone(row), false)),
            Target::Main { agent, cwd } => {
                let key = Key::main(&AgentId::parse(agent)?);
                if let Some(found) = self.by_key(&key).await? {
                    return Ok((found, false));
                }
                let cwd = directory(cwd)?;
                let place = Place::found(Path::new(&cwd));
                let here = self.inner.settings.fresh(&place)?;
                let profile = here.agents.get(agent)?;
                let grant = Grant { mode: mode(None, &here)?, ..Grant::default() };
                let (id, grant) = (SessionId::new(), grant.beginning(place));
                Ok((new_row(id, &key, &profile.name, cwd, &grant), true))
            }
        }
    }

    /// The text with its mentions: subagents become subtasks, a primary agent takes the session over.
    fn body(&self, prompt: &NewPrompt, files: Vec<InputPart>, run: &RunId, row: &Session) -> Result<Body, Error> {
        let dir = Path::new(&row.cwd);
        let here = self.inner.settings.fresh(&Place::of(row))?;
        let agents = &here.agents;
        if let Some(compact) = crate::compaction::asked(&prompt.text) {
            let allotted = Some(crate::budget::limits(&self.inner.limits));
            let purse = Some(Purse { of: run.clone(), allotted, fresh: false, steps: None });
            return Ok(Body::Prompt(Prompt { compact: Some(compact), purse, ..Prompt::text(&prompt.text) }));
        }
        let command = command::find(&prompt.text, &here.loaded.commands);
        let agent = prompt.agent.as_ref().or(command.and_then(|(command, _)| command.agent.as_ref()));
        let model = prompt.model.as_ref().or(command.and_then(|(command, _)| command.model.as_ref()));
        let model = model.map(|model| here.full(model));
        if let Some(agent) = agent {
            agents.get(agent)?;
        }
        if let Some(model) = &model {
            let runs_as = agent.unwrap_or(&row.agent);
            here.model(&proto::model::chosen(Some(model), || self.inner.model_for(row, runs_as)))?;
        }
        let agent = agent.cloned();
        // A person's word brings money of its own.
        let allotted = Some(crate::budget::limits(&self.inner.limits));
        let purse = Purse { of: run.clone(), allotted, fresh: false, steps: None };
        if let Some((command, arguments)) = command.filter(|(command, _)| command.subtask) {
            let child = agent.as_deref().unwrap_or("general");
            let mut parts = command::subtask(&prompt.text, command.prompt(arguments), command, agents.child(child)?);
            parts.extend(files);
            let model = prompt.model.clone();
            return Ok(Body::Prompt(Prompt { parts, model, purse: Some(purse), ..Prompt::default() }));
        }
        let text = command.map_or_else(|| prompt.text.clone(), |(command, arguments)| command.prompt(arguments));
        let found = mention::find(&text, &agents.mentionable(), |path| dir.join(path).exists());
        let (subagents, primaries): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|m| agents.get(&m.agent).is_ok_and(Profile::can_be_child));
        let agent = agent.or(primaries.first().map(|mention| mention.agent.clone()));
        let mut parts = mention::parts(&text, &subagents);
        if let Some(agent) = parts.iter().find_map(called_for_nothing) {
            let why = format!("`@{agent}` does not say what the agent is to do");
            return Err(Error::invalid(why).hint(format!("say what for, as in `@{agent} find the tests`")));
        }
        parts.extend(files);
        Ok(Body::Prompt(Prompt {
            parts,
            agent: agent.map(|a| a.trim().to_ascii_lowercase()),
            model,
            purse: Some(purse),
            ..Prompt::default()
        }))
    }

    /// A session without a run.
    pub async fn create(&self, new: NewSession) -> Result<Session, Error> {
        let row = self.row(&new)?;
        self.open(row, new.once).await
    }

    async fn open(&self, row: Session, key: Option<String>) -> Result<Session, Error> {
        let once = key.map(|key| Once { key, answer: row.id.to_string() });
        let mail = Mail { at: now(), open: vec![row.clone()], once, ..Mail::default() };
        match self.inner.store.deliver(mail).await {
            Ok(_) => Ok(row),
            Err(store::Error::Repeated { answer }) => {
                self.session(&SessionId::parse(&answer).map_err(|error| Error::internal(error.to_string()))?).await
            }
            Err(error) => Err(error.into()),
        }
    }

    fn row(&self, new: &NewSession) -> Result<Session, Error> {
        let cwd = directory(&new.cwd)?;
        let place = Place::found(Path::new(&cwd));
        let here = self.inner.settings.fresh(&place)?;
        let agents = &here.agents;
        let profile = visible(agents, new.agent.as_deref().unwrap_or(agents.default_agent()))?;
        let usual = || profile.model_or(|| here.default_model.clone());
        let model = new.model.as_deref().map(|model| here.full(model));
        here.model(&proto::model::chosen(model.as_deref(), usual))?;
        let id = SessionId::new();
        let key = Key::chat(&AgentId::parse(&profile.name)?, &id);
        let mode = mode(new.mode.as_deref(), &here)?;
        let (system, append) = (new.system.clone(), new.append.clone().unwrap_or_default());
        let rules = new.permission.clone();
        let grant = Grant { rules, mode, system, append, ..Grant::default() }.beginning(place);
        let mut row = new_row(id, &key, &profile.name, cwd, &grant);
        row.label = new.label.as_deref().map(proto::key::label).transpose()?;
        row.title.clone_from(&new.title);
        row.model = model;
        Ok(row)
    }

    /// A session that shares the log of another up to an entry, by reference.
    pub async fn fork(&self, session: &SessionId, seq: Option<u64>, once: Option<String>) -> Result<Session, Error> {
        let of = self.session(session).await?;
        let seq = seq.unwrap_or(of.seq);
        if seq > of.seq {
            return Err(Error::invalid(format!("`{session}` has {} entries, so it cannot be forked at {seq}", of.seq)));
        }
        let id = SessionId::new();
        let key = Key::chat(&AgentId::parse(&of.owner)?, &id);
        let row = Session {
            root: of.root.clone(),
            parent: of.parent.clone(),
            depth: of.depth,
            path: match of.path.trim_end_matches('/').rsplit_once('/') {
                Some((above, _)) => format!("{above}/{id}/"),
                None => format!("{}{id}/", of.path),
            },
            model: of.model.clone(),
            title: of.title.clone(),
            fork: Some(Fork { of: of.id.clone(), seq }),
            seq,
            base: self.base_at(&of, seq).await?,
            undone: self.undone_at(&of, seq).await?,
            context_tokens: of.context_tokens,
            ..new_row(id, &key, &of.agent, of.cwd.clone(), &Grant::read(&of.policy))
        };
        self.open(row, once).await
    }

    /// Where a log is to be read from that ends at an entry: room that was made later was not made there.
    async fn base_at(&self, of: &Session, seq: u64) -> Result<u64, Error> {
        if of.base == 0 || seq == of.seq {
            return Ok(of.base);
        }
        let since = self.inner.store.entries(&of.id, store::Span::After { seq, limit: usize::MAX }).await?;
        let later =
            since.iter().any(|stored| matches!(&stored.entry, proto::Entry::Compaction(c) if c.keeps_from.is_some()));
        Ok(if later { 0 } else { of.base })
    }

    /// The newest undo or redo of a log that ends at an entry.
    async fn undone_at(&self, of: &Session, seq: u64) -> Result<u64, Error> {
        let mut newest = of.undone;
        while newest > seq {
            let undone = crate::undo::at(self.store().as_ref(), &of.id, newest).await?;
            newest = undone.map_or(0, |undone| undone.previous);
        }
        Ok(newest)
    }

    /// The session a reference names. An agent's main session that was never used is `not_found` here.
    pub async fn resolve(&self, reference: &Reference) -> Result<Session, Error> {
        self.inner.resolve(reference, &Guard::Person, Act::Status).await
    }

    /// The session that a label or a name means, of one owner agent or of any.
    pub async fn labelled(&self, label: &str, owner: Option<&str>) -> Result<Session, Error> {
        let inner = &self.inner;
        let mut found = inner.labelled(label, owner).await?;
        found.extend(inner.named(None, label).await?.into_iter().filter(|row| owner.is_none_or(|o| row.owner == o)));
        inner.one_of(label, found, &Guard::Person, Act::Status)?.ok_or_else(|| {
            Error::not_found(format!("no session has the label or the name `{label}`"))
                .hint("`convoke ps` lists the sessions")
        })
    }

    async fn by_key(&self, key: &Key) -> Result<Option<Session>, Error> {
        self.inner.by_key(key).await
    }

    async fn session(&self, id: &SessionId) -> Result<Session, Error> {
        self.inner.session(id).await
    }

    /// The sessions as a person is shown them.
    pub fn directory(&self) -> Directory<'_> {
        Directory { rt: &self.inner, guard: Guard::Person }
    }

    /// The board of the tree a session is of, for a person; of the newest tree without one.
    pub async fn board(&self, session: Option<&str>) -> Result<Board<'_>, Error> {
        let root = match session {
            Some(reference) => self.inner.find(reference).await?.root,
            None => {
                let newest = self.inner.store.find(&Find::Newest).await?.pop().map(|session| session.id);
                newest
                    .ok_or_else(|| Error::not_found("there is no session yet").hint("start one with `convoke run`"))?
            }
        };
        Ok(Board { rt: &self.inner, root, by: None })
    }

    /// Starts a child of a session at a person's wish: the same child its own call would make.
    pub async fn spawn(
        &self,
        parent: &SessionId,
        run: Option<RunId>,
        request: tools::Spawn,
    ) -> Result<tools::Spawned, Error> {
        let parent = self.session(parent).await?;
        let run = run.unwrap_or_else(RunId::new);
        if let Some(found) = self.inner.store.run(&run).await? {
            let session = self.session(&found.session).await?;
            if session.parent.as_ref() != Some(&parent.id) {
                return Err(Error::new(
                    Code::Conflict,
                    format!("`{run}` is already the id of a run of `{}`", session.id),
                ));
            }
            let key = self.inner.display_key(&session.key);
            let output_file = self.inner.final_words(&session).to_string_lossy().into_owned();
            return Ok(tools::Spawned {
                run,
                session: session.id,
                key,
                label: session.label,
                agent: session.agent,
                name: session.name,
                note: None,
                output_file,
                worktree: None,
                attachments: Vec::new(),
            });
        }
        let role = crate::actor::Role::new(&self.inner, &parent, &parent.agent);
        let order = Order {
            parent: &parent,
            policy: &role.policy,
            model: &self.inner.model_of(&parent),
            mode: Grant::read(&parent.policy).mode,
            reach: role.reach,
            letter: run.letter(),
            call: None,
            from: Sender::Person,
            hops: 0,
            purse: None,
            planned: &AtomicU64::new(0),
        };
        let child = self.inner.plan(order, request).await?;
        let mail =
            Mail { at: now(), open: child.open.into_iter().collect(), post: vec![child.post], ..Mail::default() };
        self.inner.store.deliver(mail).await?;
        self.inner.wake(&child.spawned.session);
        Ok(child.spawned)
    }

    /// Mail from a person: to one session, or to all of a tree.
    pub async fn mail(
        &self,
        tree: Option<&str>,
        id: Option<String>,
        mail: tools::doors::Mail,
    ) -> Result<Mailed, Error> {
        let tree = match tree {
            Some(reference) => Some(self.inner.find(reference).await?),
            None => None,
        };
        let id = id.unwrap_or_else(|| LetterId::new().to_string());
        let author = Author {
            session: None,
            tree: tree.as_ref(),
            id: &id,
            chain: &Chain::default(),
            known: &BTreeMap::new(),
            asked: None,
        };
        let out = self.inner.write_mail(&author, &mail).await?;
        let leaves = out.send.iter().any(|parcel| parcel.fate.is_none());
        let mail = Mail { at: now(), post: out.post, hold: out.hold, send: out.send, ..Mail::default() };
        let receipts = self.inner.store.deliver(mail).await?;
        receipts.iter().for_each(|receipt| self.inner.wake(&receipt.to));
        if leaves {
            self.inner.outbox.posted();
        }
        Ok(out.mailed)
    }

    /// Mail from a session of another gateway. On disk when this returns.
    pub async fn arrive(&self, arriving: Arriving) -> Result<MailReceipt, Error> {
        let (mut receipt, mail) = self.inner.arrive(arriving).await?;
        let posted = self.inner.store.deliver(mail).await?;
        posted.iter().for_each(|receipt| self.inner.wake(&receipt.to));
        // Sent again, because the answer was lost: what became of it since is the answer now.
        if let Some(before) = posted.first().filter(|posted| posted.duplicate) {
            let message = self.inner.message(&before.letter, 0).await?;
            (receipt.state, receipt.reason) = (message.state, message.reason);
        }
        Ok(receipt)
    }

    /// Live sessions: those a session may write to, or all.
    pub async fn peers(&self, of: Option<&str>, local: bool) -> Result<Vec<proto::methods::PeerRow>, Error> {
        match of {
            None => self.inner.peers(None, local).await,
            Some(reference) => {
                let own = Arc::new(self.inner.find(reference).await?);
                self.inner.peers(Some(&own), local).await
            }
        }
    }

    /// The final words of a run.
    pub async fn answer_of(&self, run: &Run) -> Result<String, Error> {
        let Some(seq) = run.answer else { return Ok(String::new()) };
        let span = store::Span::Before { seq: seq + 1, limit: 1 };
        let entries = self.inner.store.entries(&run.session, span).await?;
        Ok(match entries.first().map(|stored| &stored.entry) {
            Some(proto::Entry::Reply(reply)) => reply.text(),
            _ => String::new(),
        })
    }

    /// Waits for a run's end, and with `tree` until its whole tree is quiet. `None` means only that the wait ended.
    pub async fn wait(&self, run: &RunId, tree: bool, timeout: Option<Duration>) -> Result<Option<Run>, Error> {
        let ended = async {
            let run = self.ended(run).await?;
            if tree {
                self.quiet(&run).await?;
            }
            Ok(run)
        };
        match timeout {
            None => ended.await.map(Some),
            Some(limit) => tokio::time::timeout(limit, ended).await.map_or(Ok(None), |run| run.map(Some)),
        }
    }

    async fn ended(&self, id: &RunId) -> Result<Run, Error> {
        let mut name = id.clone();
        loop {
            let waiter = self.inner.waiters.join(name.as_str());
            let mut changed = std::pin::pin!(waiter.changed());
            changed.as_mut().enable();
            let found = self.inner.store.run(id).await?;
            let run = found.ok_or_else(|| Error::not_found(format!("there is no run `{id}`")))?;
            if run.outcome.is_some() {
                return Ok(run);
            }
            self.check_trouble(&run.session)?;
            if run.id != name {
                // It joined another run: that one's end is its own.
                name = run.id;
                continue;
            }
            tokio::select! {
                () = changed => {}
                // The hint is this process's; the slow look covers what it cannot know, such as a store in trouble.
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
        }
    }

    async fn quiet(&self, run: &Run) -> Result<(), Error> {
        loop {
            let waiter = self.inner.waiters.join(run.root.as_str());
            let mut changed = std::pin::pin!(waiter.changed());
            changed.as_mut().enable();
            if self.inner.store.is_quiet(&run.session).await? {
                return Ok(());
            }
            self.check_trouble(&run.session)?;
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
        }
    }

    fn check_trouble(&self, session: &SessionId) -> Result<(), Error> {
        let trouble = self.inner.registry.get(session).and_then(|handle| handle.trouble());
        trouble.map_or(Ok(()), Err)
    }

    /// Lets a session take letters and start nothing, or go on with what came in. A reply under way still comes to its
    /// end, and so do its calls. On disk when this returns; the session obeys before it takes any later letter.
    pub async fn pause(&self, session: &SessionId, paused: bool) -> Result<(), Error> {
        let row = self.session(session).await?;
        if row.status.is_ended() {
            return Err(Error::invalid(format!("`{session}` has ended, so there is nothing to pause"))
                .hint("a message to it starts it again"));
        }
        let switch = Switch { paused: Some(paused), ..Switch::default() };
        self.post(vec![control(LetterId::new(), session, Body::Switch(switch))]).await?;
        Ok(())
    }

    /// Answers an ask. The first answer counts; a second one is a conflict.
    pub async fn answer(&self, ask: &AskId, reply: AskReply, message: Option<String>) -> Result<(), Error> {
        self.inner.answer(ask, reply, message).await
    }

    /// The same with a choice of what `always` keeps: an index of [`store::Ask::choices`].
    pub async fn answer_always(&self, ask: &AskId, keep: u32) -> Result<(), Error> {
        let (ask, reply, keep) = (ask.clone(), AskReply::Always, Some(keep));
        self.inner.take_answer(Answer { ask, reply, keep, message: None, answers: Vec::new() }).await
    }

    /// Answers what a model wants to know: a list for each of its questions.
    pub async fn answer_questions(&self, ask: &AskId, answers: Vec<Vec<String>>) -> Result<(), Error> {
        let (ask, reply) = (ask.clone(), AskReply::Once);
        self.inner.take_answer(Answer { ask, reply, keep: None, message: None, answers }).await
    }

    pub(crate) async fn post(&self, post: Vec<Post>) -> Result<Vec<store::Receipt>, Error> {
        self.inner.post(post).await
    }

    /// The hooks there are, and how they have fared.
    pub fn hooks(&self) -> Vec<proto::methods::HookRow> {
        self.inner.hooks.rows(&self.inner.settings.global().loaded.config.hooks)
    }

    /// The model of a session's next run.
    pub fn model_of(&self, session: &Session) -> String {
        self.inner.model_of(session)
    }

    /// Sessions with something under way, and commands in the background.
    pub fn busy(&self) -> usize {
        self.inner.registry.counts().1 + self.inner.jobs.running()
    }

    /// Mail to other gateways may have to be delivered still.
    pub fn has_mail(&self) -> bool {
        self.inner.outbox.has_mail()
    }

    /// Whether a session was promised the end of a run, which may be long after whoever asked has stopped waiting.
    pub async fn owes_news(&self) -> Result<bool, Error> {
        Ok(self.inner.store.owes_news().await?)
    }

    /// Masks the events of one watcher that may not see secrets.
    pub fn shown(&self) -> crate::shown::Shown {
        crate::shown::Shown::new(self.inner.redactor.clone())
    }

    /// An answer without secrets, for a caller that may not see them.
    pub fn masked(&self, json: Vec<u8>) -> Vec<u8> {
        let text = String::from_utf8_lossy(&json);
        crate::shown::mask(&self.inner.redactor, &text).into_bytes()
    }

    /// The same for a refusal.
    pub fn masked_error(&self, error: Error) -> Error {
        let text = |text: &str| self.inner.blanked(text);
        let details = error.details.map(|mut details| {
            self.inner.redactor.redact_json(&mut details);
            details
        });
        Error { message: text(&error.message), hint: error.hint.as_deref().map(text), details, ..error }
    }

    /// Sessions in memory.
    pub fn awake(&self) -> usize {
        self.inner.registry.counts().0
    }

    /// Stops all work without ending any run: the next start goes on with them, and counts no attempt.
    pub async fn stop(&self) {
        self.inner.stop.cancel();
        self.inner.actors.close();
        if tokio::time::timeout(Duration::from_secs(15), self.inner.actors.wait()).await.is_err() {
            tracing::warn!("some sessions did not stop in time");
        }
    }
}

impl Inner {
    /// What files were before a session changed them.
    /// The folder of all journals.
    pub(crate) fn journals(&self) -> &Path {
        &self.journal
    }

    pub(crate) fn journal(&self, session: &SessionId) -> tools::journal::Journal {
        tools::journal::Journal::of(&self.journal, session)
    }

    pub(crate) fn stop_token(&self) -> &CancellationToken {
        &self.stop
    }

    pub(crate) async fn answer(
        self: &Arc<Self>,
        ask: &AskId,
        reply: AskReply,
        message: Option<String>,
    ) -> Result<(), Error> {
        self.take_answer(Answer { ask: ask.clone(), reply, keep: None, message, answers: Vec::new() }).await
    }

    async fn take_answer(self: &Arc<Self>, answer: Answer) -> Result<(), Error> {
        let ask = &answer.ask.clone();
        let found = self.store.ask(ask).await?;
        let found = found.ok_or_else(|| Error::not_found(format!("there is no question `{ask}`")))?;
        if answer.reply != AskReply::Reject || !answer.answers.is_empty() {
            fitting(&found, &answer.answers)?;
        }
        if answer.reply == AskReply::Always && found.questions.is_empty() {
            check_choice(&found, answer.keep.unwrap_or_default())?;
        }
        let body = Body::Answer(answer);
        let letter = control(LetterId::derived("answer_", ask.as_str()), &found.session, body);
        let receipts = self.post(vec![letter]).await?;
        if found.reply.is_some() || receipts.iter().any(|receipt| receipt.duplicate) {
            return Err(Error::new(Code::Conflict, format!("the question `{ask}` was answered already")));
        }
        Ok(())
    }

    pub(crate) async fn post(self: &Arc<Self>, post: Vec<Post>) -> Result<Vec<store::Receipt>, Error> {
        let receipts = self.store.deliver(Mail { at: now(), open: Vec::new(), post, ..Mail::default() }).await?;
        receipts.iter().for_each(|receipt| self.wake(&receipt.to));
        Ok(receipts)
    }

    /// Work that belongs to no actor; a gateway that stops waits for it.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.actors.spawn(work)
    }

    /// Resolves so long after the gateway was told to stop.
    pub(crate) async fn stopping(&self, grace: Duration) {
        self.stop.cancelled().await;
        tokio::time::sleep(grace).await;
    }

    /// A hint that a session's inbox has something. An actor is started if there is none.
    pub(crate) fn wake(self: &Arc<Self>, session: &SessionId) {
        if self.stop.is_cancelled() {
            return;
        }
        if let Some(handle) = self.registry.wake(session) {
            self.actors.spawn(self.clone().attend(session.clone(), handle));
        }
    }

    /// Keeps an actor going until there is nothing left to do, whatever happens inside it.
    async fn attend(self: Arc<Self>, session: SessionId, handle: Arc<Handle>) {
        let mut pause = Duration::from_millis(500);
        loop {
            let live = Actor::live(self.clone(), session.clone(), handle.clone(), self.stop.clone());
            let trouble = match AssertUnwindSafe(live).catch_unwind().await {
                Ok(Leave::Asleep) => return,
                Ok(Leave::Stopped | Leave::Fenced) => return self.registry.remove(&session),
                Ok(Leave::Trouble(error)) => error.into(),
                Err(_) => Error::internal("the session's actor broke down").hint("look into the gateway's log"),
            };
            tracing::error!(%session, error = %trouble, "the session pauses");
            handle.set_trouble(Some(trouble));
            self.waiters.tell(session.as_str());
            tokio::select! {
                () = self.stop.cancelled() => return self.registry.remove(&session),
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_secs(10)),
            }
        }
    }

    pub(crate) fn blanked(&self, text: &str) -> String {
        self.redactor.redact(text).into_owned()
    }

    /// What a tool brought, without the keys this gateway holds: neither the log nor a model has any use for them.
    pub(crate) fn conceal(&self, text: String) -> String {
        match self.redactor.conceal(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(concealed) => concealed,
        }
    }

    pub(crate) fn conceal_json(&self, json: Box<RawValue>) -> Box<RawValue> {
        match self.redactor.conceal(json.get()) {
            Cow::Borrowed(_) => json,
            // A mask has nothing that JSON escapes, so what was JSON still is; else there is no data rather than a key.
            Cow::Owned(concealed) => RawValue::from_string(concealed).unwrap_or_default(),
        }
    }

    /// Blanks secrets in the input of a call.
    pub(crate) fn redact_input(&self, input: &mut serde_json::Value) {
        self.redactor.redact_json(input);
    }

    /// Blanks secrets in a message; true when there were some.
    pub(crate) fn redact(&self, message: &mut proto::message::Message) -> bool {
        message.redact(&|text| self.redactor.redact(text), &|value| self.redactor.redact_json(value))
    }

    /// Whether a session is held to what it starts (S3): it was started so, or its agent is. Its owner counts as well as
    /// what it runs as now, since switching must not widen anything.
    pub(crate) fn is_sandboxed(&self, session: &Session) -> bool {
        let here = self.here(session);
        let isolated =
            |agent: &str| here.agents.get(agent).ok().and_then(|profile| profile.isolated).unwrap_or(self.isolated);
        isolated(&session.owner) || isolated(&session.agent) || Grant::read(&session.policy).sandboxed
    }

    pub(crate) fn model_of(&self, session: &Session) -> String {
        self.model_for(session, &session.agent)
    }

    /// The session's own choice, then the agent's, then the configured one.
    pub(crate) fn model_for(&self, session: &Session, agent: &str) -> String {
        proto::model::chosen(session.model.as_deref(), || {
            let here = self.here(session);
            let usual = || here.default_model.clone();
            here.agents.get(agent).map_or_else(|_| usual(), |profile| profile.model_or(usual))
        })
    }

    /// What holds where a session works. Where it cannot be known any more, nothing is allowed.
    pub(crate) fn here(&self, session: &Session) -> Arc<Here> {
        self.here_at(&Place::of(session))
    }

    pub(crate) fn here_at(&self, place: &Place) -> Arc<Here> {
        self.settings.at(place).unwrap_or_else(|error| self.closed(&error))
    }

    /// The same after a look whether a file has changed.
    pub(crate) fn fresh(&self, session: &Session) -> Arc<Here> {
        self.settings.fresh(&Place::of(session)).unwrap_or_else(|error| self.closed(&error))
    }

    fn closed(&self, error: &Error) -> Arc<Here> {
        tracing::warn!("settings cannot be read, so nothing is allowed there: {}", error.message);
        Arc::new(self.settings.global().closed())
    }
}

/// An agent that is called without a word about what for.
fn called_for_nothing(part: &InputPart) -> Option<&str> {
    match part {
        InputPart::Subtask { agent, prompt, .. } if !prompt.contains(char::is_alphanumeric) => Some(agent),
        InputPart::Subtask { .. } | InputPart::Text { .. } | InputPart::File { .. } => None,
    }
}

pub(crate) fn person(run: &RunId, to: &SessionId, body: Body) -> Letter {
    Letter {
        id: run.letter(),
        to: to.clone(),
        from: Sender::Person,
        class: Class::Request,
        body,
        provenance: Some(Provenance {
            kind: "external_user".into(),
            source_session_key: None,
            source_tool: None,
            hops: 0,
            ..Provenance::default()
        }),
        conversation: None,
        report: None,
        expires: None,
    }
}

pub(crate) fn control(id: LetterId, to: &SessionId, body: Body) -> Post {
    let letter = Letter {
        id,
        to: to.clone(),
        from: Sender::Person,
        class: Class::Control,
        body,
        provenance: None,
        conversation: None,
        report: None,
        expires: None,
    };
    Post { letter, person: false, queue: None }
}

/// The permission mode that is meant: as it is named, or as it is set where the session works.
pub(crate) fn mode(named: Option<&str>, here: &Here) -> Result<Mode, Error> {
    let Some(name) = named.or(here.loaded.config.permission_mode) else { return Ok(Mode::default()) };
    Mode::parse(name).ok_or_else(|| {
        let shown: String = name.chars().take(40).collect();
        Error::invalid(format!("there is no permission mode `{shown}`"))
            .hint("there is `ask`, `accept-edits`, `plan` and `auto`")
    })
}

/// Whether `always` can keep this choice.
fn check_choice(ask: &store::Ask, keep: u32) -> Result<(), Error> {
    let choices = ask.choices().len();
    if choices == 0 {
        let why = "this cannot be allowed for good: it has wildcards, which as a rule would allow more than this";
        return Err(Error::invalid(why).hint("answer `once`, or write a rule into the settings"));
    }
    if keep as usize >= choices {
        let what = format!("`keep` is {keep}, and `{}` has {choices} choices", ask.id);
        return Err(Error::invalid(what).hint(format!("use an index of `always`: 0 to {}", choices - 1)));
    }
    Ok(())
}

/// Whether an ask can take these answers: a wish takes none, a question one for each thing it wants to know.
fn fitting(ask: &store::Ask, answers: &[Vec<String>]) -> Result<(), Error> {
    match (ask.questions.is_empty(), answers.is_empty()) {
        (true, true) => Ok(()),
        (true, false) => Err(Error::invalid(format!("`{}` asks for leave, not for an answer", ask.id))
            .hint("answer it with `permissions.reply`")),
        (false, true) => {
            Err(Error::invalid(format!("`{}` wants to know something", ask.id))
                .hint("answer it with `questions.reply`"))
        }
        (false, false) => proto::question::fits(&ask.questions, answers)
            .map_err(|why| Error::invalid(why).hint("`questions.list` shows what is asked")),
    }
}

/// An agent that a person may let a session run as.
pub(crate) fn visible<'a>(agents: &'a Agents, agent: &str) -> Result<&'a Profile, Error> {
    let profile = agents.get(agent)?;
    if profile.hidden {
        return Err(Error::invalid(format!("the agent `{}` answers nobody directly", profile.name))
            .hint("`convoke agents` lists those that do"));
    }
    Ok(profile)
}

/// An existing directory, absolute and free of symlinks.
pub(crate) fn directory(path: &str) -> Result<String, Error> {
    let bad = |why: String| Error::invalid(why).hint("name an existing directory you may read");
    let real =
        Path::new(path).canonicalize().map_err(|error| bad(format!("cannot use the directory `{path}`: {error}")))?;
    std::fs::read_dir(&real).map_err(|error| bad(format!("cannot use the directory `{path}`: {error}")))?;
    real.into_os_string().into_string().map_err(|_| bad(format!("the name of the directory `{path}` is not text")))
}
