//! The spawner: one way to make a child session, whoever asks for it.

use super::Doors;
use super::mail::agent_name;
use crate::agents::Profile;
use crate::budget::{self, Budget};
use crate::grant::{Apart, Grant};
use crate::now;
use crate::runtime::{Inner, directory};
use crate::settings::{Here, Place};
use async_trait::async_trait;
use proto::letter::{Allotment, Prompt, Provenance, Purse, Report, Sender};
use proto::{Action, AgentId, Body, CallId, Class, Code, Error, Key, Letter, LetterId, RunId, SessionId, Status};
use rules::Policy;
use rules::mode::{MODES, Mode};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use store::{Post, Session};
use tokio_util::sync::CancellationToken;
use tools::doors::Attachment;
use tools::sandbox::Reach;
use tools::{Spawn, Spawned, Spawner};

/// A child that was asked for, and by whom.
pub(crate) struct Order<'a> {
    pub(crate) parent: &'a Session,
    pub(crate) policy: &'a Policy,
    /// The model of the session above.
    pub(crate) model: &'a str,
    /// The permission mode of the session above.
    pub(crate) mode: Mode,
    /// How far commands of the session above reach.
    pub(crate) reach: Reach,
    pub(crate) letter: LetterId,
    /// The call that waits for the end; without one a letter tells of it.
    pub(crate) call: Option<&'a CallId>,
    pub(crate) from: Sender,
    /// How many sessions came before in a chain of messages: a child does not begin a new one.
    pub(crate) hops: u32,
    /// The run whose purse pays for it; a person's wish pays for itself.
    pub(crate) purse: Option<&'a RunId>,
    /// Children prepared and not yet committed.
    pub(crate) planned: &'a AtomicU64,
}

/// What commands of a child with a required sandbox are kept in: where that cannot be enforced, none is run.
const REQUIRED: Reach = Reach { asked: true, ..Reach::USUAL };

/// A child made ready: its row, unless it exists, and its first letter.
pub(crate) struct Child {
    pub(crate) open: Option<Session>,
    pub(crate) post: Post,
    pub(crate) spawned: Spawned,
}

#[async_trait]
impl Spawner for Doors {
    async fn spawn(&self, request: Spawn) -> Result<Spawned, Error> {
        let order = Order {
            parent: &self.caller.row,
            policy: &self.caller.policy,
            model: &self.caller.model,
            mode: self.caller.mode,
            reach: self.caller.reach,
            // From the call's id, so that the same call can never start a second run.
            letter: LetterId::derived("run_", self.call.as_str()),
            call: request.waits.then_some(&self.call),
            from: Sender::Session { id: self.caller.row.id.clone() },
            hops: self.caller.chain.hops,
            purse: self.caller.purse.as_ref(),
            planned: &self.planned,
        };
        let child = self.rt.plan(order, request).await?;
        self.prepare(|effects| {
            effects.open.extend(child.open);
            effects.post.push(child.post);
        });
        Ok(child.spawned)
    }
}

impl Inner {
    /// Checks a request in the order of the contract (S8) and prepares the child.
    pub(crate) async fn plan(&self, order: Order<'_>, mut request: Spawn) -> Result<Child, Error> {
        let here = self.settings.at(&Place::of(order.parent))?;
        let note = whole_model(&mut request, &here);
        let profile = if request.fork { fork_as(&order, &here)? } else { agent_for(&order, &request, &here)? };
        if request.thread {
            let why = "`thread` needs a channel with threads, and none is connected";
            return Err(Error::new(Code::Unavailable, why).hint("leave `thread` out"));
        }
        if request.model.is_some() {
            here.model(&model_of(&order, &request, profile))?;
        }
        let label = request.label.as_deref().map(proto::key::label).transpose()?;
        let name = request.name.as_deref().map(agent_name).transpose()?;
        let mode = mode_of(&order, request.mode.as_deref(), profile)?;
        let mut identity = String::new();
        let (session, open) = match &request.resume {
            Some(child) => {
                let child = self.child_of(order.parent, child, &profile.name).await?;
                self.check_budget(&order, request.budget, None).await?;
                (child, None)
            }
            None => {
                if let Some(name) = &name {
                    self.check_name(&order, name).await?;
                }
                self.check_room(&order, request.budget).await?;
                let mut row = self.child_row(&order, &request, profile, mode)?;
                (row.label, row.name) = (label.clone(), name.clone());
                identity = self.identity(&row, Some(order.parent)).await?;
                if !request.fork {
                    row.policy = Grant { identity: identity.clone(), ..Grant::read(&row.policy) }.write();
                }
                if (request.isolated || (profile.worktree && !request.fork))
                    && let Err(error) = self.isolate(&mut row, order.policy).await
                {
                    order.planned.fetch_sub(1, Ordering::SeqCst);
                    return Err(error);
                }
                (row.clone(), Some(row))
            }
        };
        let attachments = keep(&self.attachments(&session.root, &session.id), &request.attachments)?;
        let body = Prompt {
            model: Some(model_of(&order, &request, profile)),
            timeout_ms: request.timeout.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
            purse: Some(self.purse(&order, request.budget, open.is_some())),
            ..Prompt::text(with_attachments(&brief(&request, &identity), &attachments, request.mount.as_deref()))
        };
        let letter = Letter {
            id: order.letter.clone(),
            to: session.id.clone(),
            from: order.from.clone(),
            class: Class::Request,
            body: Body::Prompt(body),
            provenance: Some(Provenance {
                kind: "inter_session".into(),
                source_session_key: Some(order.parent.key.clone()),
                source_session_id: Some(order.parent.id.clone()),
                source_tool: Some(request.tool.to_owned()).filter(|tool| !tool.is_empty()),
                hops: order.hops,
                asker_hops: Some(order.hops),
                ..Provenance::default()
            }),
            conversation: None,
            report: Some(Report { session: order.parent.id.clone(), call: order.call.cloned(), late: false }),
            expires: None,
        };
        let spawned = Spawned {
            run: letter.id.run(),
            key: self.display_key(&session.key),
            output_file: self.final_words(&session).to_string_lossy().into_owned(),
            session: session.id,
            label,
            agent: profile.name.clone(),
            name: session.name,
            note,
            worktree: session.worktree.filter(|worktree| worktree.isolated).map(|worktree| worktree.path),
            attachments,
        };
        Ok(Child { open, post: Post { letter, person: false, queue: Some(self.limits.queue) }, spawned })
    }

    /// The commit would refuse it as well; here the caller can still be told what to do.
    async fn check_name(&self, order: &Order<'_>, name: &str) -> Result<(), Error> {
        let find = store::Find::Named { root: order.parent.root.clone(), name: name.to_owned() };
        let held = self.store.find(&find).await?;
        match held.iter().find(|row| !row.status.is_ended()) {
            None => Ok(()),
            Some(holder) => {
                Err(Error::new(Code::Conflict, format!("`{name}` is the name of a live agent ({})", holder.id))
                    .hint("write to it with send_message, or choose another name"))
            }
        }
    }

    async fn check_room(&self, order: &Order<'_>, budget: Option<Allotment>) -> Result<(), Error> {
        let limits = &self.limits;
        if order.parent.depth >= limits.depth {
            let why =
                format!("this session is already {} levels deep, which is the limit (`limits.depth`)", limits.depth);
            return Err(Error::new(Code::ForbiddenDepth, format!("{why}: do the work yourself")));
        }
        let live = self.store.live_children(&order.parent.id).await?;
        if live + order.planned.fetch_add(1, Ordering::SeqCst) >= u64::from(limits.children) {
            order.planned.fetch_sub(1, Ordering::SeqCst);
            let why = format!(
                "{} children of this session are under way, which is the limit (`limits.children`)",
                limits.children
            );
            return Err(Error::new(Code::LimitChildren, format!("{why}: wait for some to end")));
        }
        let planned = order.planned.load(Ordering::SeqCst) - 1;
        let checked = self.check_budget(order, budget, Some(planned)).await;
        if checked.is_err() {
            order.planned.fetch_sub(1, Ordering::SeqCst);
        }
        checked
    }

    /// Whether the purse reaches for one more run, and for what it is to get for itself. `planned` sessions are on their
    /// way, when a new one is to be made.
    async fn check_budget(
        &self,
        order: &Order<'_>,
        asked: Option<Allotment>,
        planned: Option<u64>,
    ) -> Result<(), Error> {
        let Some(purse) = order.purse else { return Ok(()) };
        let budget = Budget::of(&self.store.purses(purse).await?, &self.limits);
        let broke = |why: String, hint: &str| Err(Error::new(Code::LimitBudget, why).hint(hint));
        if let Some(spent) = budget.spent() {
            return broke(format!("the budget is spent: {spent}"), "say what was done and what is left to do");
        }
        if let Some(most) = planned.and_then(|planned| budget.no_agents(planned)) {
            return broke(format!("this run has started all it may: {most}"), "do the rest yourself");
        }
        match asked.and_then(|asked| budget.lacks(asked)) {
            Some(why) => broke(format!("the budget does not reach: {why}"), "ask for less, or leave `budget` out"),
            None => Ok(()),
        }
    }

    /// Who pays for a child's run.
    fn purse(&self, order: &Order<'_>, asked: Option<Allotment>, fresh: bool) -> Purse {
        match order.purse {
            Some(of) => Purse { of: of.clone(), allotted: asked, fresh, steps: None },
            None => {
                let (limits, asked) = (budget::limits(&self.limits), asked.unwrap_or_default());
                let allotted = Allotment {
                    cost_usd: asked.cost_usd.or(limits.cost_usd),
                    tokens: asked.tokens.or(limits.tokens),
                    agents: asked.agents.or(limits.agents),
                };
                Purse { of: order.letter.run(), allotted: Some(allotted), fresh: false, steps: None }
            }
        }
    }

    async fn child_of(&self, parent: &Session, child: &SessionId, agent: &str) -> Result<Session, Error> {
        match self.store.session(child).await? {
            Some(row) if row.parent.as_ref() == Some(&parent.id) && row.agent == agent => Ok(row),
            Some(row) if row.parent.as_ref() == Some(&parent.id) => {
                Err(Error::invalid(format!("`{child}` runs as `{}`: name that agent to go on with it", row.agent)))
            }
            _ => Err(Error::not_found(format!("`{child}` is not a child of this session: leave it out for a new one"))),
        }
    }

    fn child_row(&self, order: &Order<'_>, request: &Spawn, profile: &Profile, mode: Mode) -> Result<Session, Error> {
        let parent = order.parent;
        let id = SessionId::new();
        let key = Key::subagent(&AgentId::repair(&profile.name), &parent.id, &id);
        let mut grant = if request.fork {
            // The same tools as its parent, so that the prompt is the same to the byte.
            Grant { mode, ..Grant::read(&parent.policy) }
        } else {
            Grant { mode, ..Grant::child(order.policy, profile, &request.tools, &self.child_tools) }
        };
        let fork = request.fork.then(|| store::Fork { of: parent.id.clone(), seq: parent.seq });
        // Nobody gets out of a sandbox by starting somebody outside of it.
        grant.sandboxed = request.sandboxed || self.is_sandboxed(parent);
        grant.reach = Some(if request.sandboxed { order.reach.within(REQUIRED) } else { order.reach });
        grant.apart = Grant::read(&parent.policy).apart;
        let cwd = match &request.cwd {
            Some(cwd) => directory(&PathBuf::from(&parent.cwd).join(cwd).to_string_lossy())?,
            None => parent.cwd.clone(),
        };
        if grant.apart.as_ref().is_some_and(|apart| apart.holds(Path::new(&cwd), order.policy)) {
            let why = format!("this session is isolated in a worktree, so nothing it starts works in `{cwd}`");
            return Err(Error::new(Code::Denied, why).hint("leave `cwd` out"));
        }
        if order.reach.mode != tools::sandbox::Mode::Off {
            check_named(parent, &cwd, order.policy)?;
        }
        // Whoever works in the same project goes on in it; elsewhere, what is there decides, below the rules of this one.
        let above = Place::of(parent);
        let place = if cwd == parent.cwd {
            above
        } else {
            Some(Place::found(Path::new(&cwd))).filter(|found| found.project != above.project).unwrap_or(above)
        };
        let grant = grant.beginning(place);
        Ok(Session {
            parent: Some(parent.id.clone()),
            root: parent.root.clone(),
            depth: parent.depth + 1,
            path: format!("{}{id}/", parent.path),
            mode: if request.stays { store::Mode::Session } else { store::Mode::Run },
            cleanup: request.cleanup,
            seq: fork.as_ref().map_or(0, |fork| fork.seq),
            base: if request.fork { parent.base } else { 0 },
            context_tokens: if request.fork { parent.context_tokens } else { 0 },
            fork,
            // Kept, so that what wakes the child later finds it on the same model.
            model: Some(model_of(order, request, profile)),
            title: request.title.clone().or_else(|| Some(request.prompt.chars().take(80).collect())),
            ..new_row(id, &key, &profile.name, cwd, &grant)
        })
    }

    /// Puts a child that is yet to be made into a worktree of its own. Without one there is no child.
    async fn isolate(&self, row: &mut Session, policy: &Policy) -> Result<(), Error> {
        tools::worktree::check_allowed(policy)?;
        let site = tools::worktree::Site {
            processes: self.processes.clone(),
            cancel: CancellationToken::new(),
            dir: PathBuf::from(&row.cwd),
            session: row.id.clone(),
            agent: row.agent.clone(),
        };
        // The tail of an id is what differs.
        let tail = &row.id.as_str()[row.id.as_str().len().saturating_sub(12)..];
        let name = tools::worktree::Name::parse(&format!("agent-{tail}"))?;
        let (made, _) = tools::worktree::make(&site, &self.worktrees, &name, true).await.map_err(|mut error| {
            error.message = format!("the agent was not started, for it has no worktree of its own: {}", error.message);
            error
        })?;
        let mut grant = Grant::read(&row.policy);
        grant.apart = Some(Apart::of(&made, grant.apart));
        row.policy = grant.write();
        row.cwd.clone_from(&made.path);
        row.worktree = Some(proto::Worktree { isolated: true, ..made });
        Ok(())
    }

    /// Where it is saved what is too long for a model: one place for a whole tree, whose sessions tell each other of
    /// files, and closed to others.
    pub(crate) fn outputs_of(&self, root: &SessionId) -> PathBuf {
        self.outputs.join(root.as_str())
    }

    /// Where the final words of a background agent are kept whole.
    pub(crate) fn final_words(&self, row: &Session) -> PathBuf {
        self.outputs_of(&row.root).join("agents").join(format!("{}.md", row.id))
    }

    pub(crate) fn attachments(&self, root: &SessionId, session: &SessionId) -> PathBuf {
        self.outputs_of(root).join("attachments").join(session.as_str())
    }

    /// A session is hidden for good: what came with its task goes too.
    pub(crate) fn drop_attachments(&self, root: &SessionId, session: &SessionId) {
        let folder = self.attachments(root, session);
        drop(tokio::task::spawn_blocking(move || match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(folder = %folder.display(), %error, "cannot remove the attachments of an archived session");
            }
            _ => {}
        }));
    }
}

fn agent_for<'h>(order: &Order<'_>, request: &Spawn, here: &'h Here) -> Result<&'h Profile, Error> {
    let name = request.agent.as_deref().unwrap_or(&order.parent.owner);
    let usable = |profile: &&Profile| !profile.hidden && (!request.subagents_only || profile.can_be_child());
    let Some(profile) = here.agents.get(name).ok().filter(usable) else {
        let can: Vec<&str> = here.agents.list().filter(usable).map(|profile| profile.name.as_str()).collect();
        let name: String = name.chars().take(64).collect();
        let why = format!("there is no agent `{name}` to hand work to; there is: {}", can.join(", "));
        return Err(Error::not_found(why));
    };
    if order.policy.judge("task", &profile.name).action == Action::Deny {
        let why = format!("this session may not start the agent `{}`", profile.name);
        return Err(Error::new(Code::ForbiddenAgent, why));
    }
    Ok(profile)
}

/// A fork goes on as what its parent is, and never forks itself: nobody would know which of them is meant.
fn fork_as<'h>(order: &Order<'_>, here: &'h Here) -> Result<&'h Profile, Error> {
    let parent = order.parent;
    if parent.fork.as_ref().is_some_and(|fork| parent.parent.as_ref() == Some(&fork.of)) {
        let why = "a fork cannot fork: start a fresh agent with `subagent_type`, or do it yourself";
        return Err(Error::new(Code::ForbiddenDepth, why));
    }
    if order.policy.judge("task", tools::agent::FORK).action == Action::Deny {
        return Err(Error::new(Code::ForbiddenAgent, "this session may not fork itself"));
    }
    here.agents.get(&parent.agent)
}

/// Writes a short name of a model out. One that fits nothing here is left out, and the caller is told.
fn whole_model(request: &mut Spawn, here: &Here) -> Option<String> {
    let asked = request.model.take()?;
    request.model = here.models.full(&asked);
    if request.model.is_some() {
        return None;
    }
    let (short, variant) = proto::model::split(&asked);
    request.model = variant.map(|variant| format!("#{variant}"));
    Some(format!("No configured model fits `{short}`, so the agent runs on the model it has without that."))
}

/// The mode that is asked for; without one the agent's own; without that a child plans when its parent does, and else asks.
fn mode_of(order: &Order<'_>, asked: Option<&str>, profile: &Profile) -> Result<Mode, Error> {
    let Some(name) = asked else {
        let own = profile.permission_mode.filter(|own| order.mode != Mode::Plan && order.mode.may_start(*own));
        if let Some(own) = own {
            return Ok(own);
        }
        return Ok(if order.mode == Mode::Plan { Mode::Plan } else { Mode::Ask });
    };
    let Some(mode) = Mode::parse(name) else {
        return Err(Error::invalid(format!("there is no mode `{}`; there is: {}", name.trim(), MODES.join(", "))));
    };
    if !order.mode.may_start(mode) {
        let why = format!("this session asks more than `{}` would, and a child is never asked less", mode.as_str());
        return Err(Error::new(Code::Denied, why).hint("leave `mode` out"));
    }
    Ok(mode)
}

/// What the child reads first.
fn brief(request: &Spawn, identity: &str) -> String {
    if !request.fork {
        return request.prompt.clone();
    }
    format!(
        "{} You are a fork: you know what was said above, and from here on you work on your own on one thing. {identity} Do \
         it yourself, do not fork again, and end with what the session you come from needs to know.\n\n{}",
        super::mail::NOTICE,
        request.prompt
    )
}

/// The one asked for, else the agent's, else the caller's; a fork keeps the caller's.
fn model_of(order: &Order<'_>, request: &Spawn, profile: &Profile) -> String {
    let callers = || order.model.to_owned();
    let usual = || if request.fork { callers() } else { profile.model_or(callers) };
    proto::model::chosen(request.model.as_deref(), usual)
}

/// Puts attachments where only this user can read them. They are there before the letter that speaks of them.
fn keep(dir: &PathBuf, files: &[Attachment]) -> Result<Vec<(String, String, String)>, Error> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let failed = |error: std::io::Error| Error::unavailable(format!("cannot keep the attachments: {error}"), 1000);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    let mut receipts = Vec::with_capacity(files.len());
    for file in files {
        let path = dir.join(&file.name);
        let mut out =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        std::io::Write::write_all(&mut out, &file.bytes).map_err(failed)?;
        let sum = Sha256::digest(&file.bytes).iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        receipts.push((file.name.clone(), path.to_string_lossy().into_owned(), sum));
    }
    Ok(receipts)
}

fn with_attachments(prompt: &str, files: &[(String, String, String)], mount: Option<&str>) -> String {
    let mut text = prompt.to_owned();
    if !files.is_empty() {
        text.push_str("\n\nAttached files:");
    }
    for (_, path, _) in files {
        let _ = write!(text, "\n- {path}");
    }
    if let Some(mount) = mount.filter(|_| !files.is_empty()) {
        let _ = write!(text, "\nWhoever attached them would like them at `{mount}`.");
    }
    text
}

/// The row of a new root session.
/// A child's directory is open to its commands. Where a person was not asked about it, a rule has to name it: one for
/// everything opens no directory to a session's own commands either.
fn check_named(parent: &Session, cwd: &str, policy: &Policy) -> Result<(), Error> {
    let (dir, above) = (Path::new(cwd), Place::of(parent));
    if dir.starts_with(&parent.cwd) || dir.starts_with(&above.project) {
        return Ok(());
    }
    let named = tools::sandbox::named(policy, &above.project);
    let unasked = policy.judge("external_directory", &format!("{cwd}/*")).action == Action::Allow;
    if !unasked || named.iter().any(|named| dir.starts_with(named)) {
        return Ok(());
    }
    let why = format!("no rule names `{cwd}`, so nothing that this session starts works there");
    Err(Error::new(Code::Denied, why).hint(format!("set `\"external_directory\": {{ \"{cwd}/*\": \"allow\" }}`")))
}

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
        mode: store::Mode::Session,
        title: None,
        label: None,
        cwd,
        policy: grant.write(),
        fork: None,
        archived: false,
        cleanup: false,
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
        name: None,
        halt: store::Halt::No,
        worktree: None,
        attempt_seq: 0,
        undone: 0,
        id,
    }
}
