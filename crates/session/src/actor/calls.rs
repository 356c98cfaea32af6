//! Calls: judged before they are stored, stored before they run, settled when their outcome is known.

use super::attempts::Step;
use super::hooked::Remark;
use super::leave::{Leave, was_allowed};
use super::role::Role;
use super::stage::Stage;
use super::think::Asked;
use super::{Actor, GRACE, Outcome, Stop};
use crate::asked::{self, Made};
use crate::doors::{Caller, Doors, Effects, mail};
use crate::grant::Grant;
use crate::runtime::Inner;
use crate::view::OpenState;
use crate::{now, steady};
use futures_util::future::BoxFuture;
use proto::entry::{Call, CallResult, Decision, On, State, TodoList, ToolsLoaded, Waiting};
use proto::letter::{Provenance, Sender, Settled, Switch};
use proto::methods::AskAbout;
use proto::{Action, AskId, Body, CallId, Class, Entry, Letter, LetterId, Question, Rule};
use rules::mode::Mode;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use store::{Ask, AskChange, Batch, Post, WaitChange};
use tokio::task::JoinError;
use tools::door::Becomes;
use tools::process::Live;
use tools::worktree::Here;
use tools::{Access, AnyTool, Error, Output, ToolCx, Waited};

/// A call with what the rules said about it.
pub(super) struct Judged {
    pub(super) call: Call,
    verdict: Verdict,
}

impl Judged {
    /// The tool, when it is about to be used: one that is deferred is loaded with that.
    pub(super) fn loads(&self) -> Option<&str> {
        (self.call.decision != Decision::Deny).then_some(self.call.tool.as_str())
    }
}

enum Verdict {
    Run(&'static dyn AnyTool),
    Ask(Box<Ask>),
    Refuse(State, String),
}

/// What a call came back with.
pub(super) struct Called {
    pub(super) call: CallId,
    pub(super) result: Result<Output, Error>,
    pub(super) effects: Effects,
    pub(super) ms: u64,
}

/// Characters of what was denied that are told.
const SHOWN: usize = 1000;

/// Those of them that have to be asked for; or the first that is denied.
fn sort(accesses: Vec<Access>, asked: Asked, rt: &Inner, role: &Role) -> Result<Vec<Access>, Access> {
    let mut asks = Vec::new();
    for access in accesses {
        match role.judge(&access.permission, &access.pattern) {
            Action::Allow => {}
            Action::Ask if asked == Asked::ByThePerson && access.permission == "task" => {}
            Action::Ask if was_allowed(rt, role, &access) => {}
            Action::Ask => asks.push(access),
            Action::Deny => return Err(access),
        }
    }
    Ok(asks)
}

impl Actor {
    /// Finds the tool, reads the arguments, and asks the rules.
    pub(super) async fn judge(
        &self,
        wire_id: Option<String>,
        name: &str,
        input: Box<RawValue>,
        asked: Asked,
        remark: Option<Remark>,
    ) -> Judged {
        let Remark { call: id, stopped, changed } = remark.unwrap_or_default();
        let given = changed.as_ref().unwrap_or(&input);
        let (tool, verdict) = match tools::find(name) {
            Some(tool) if let Some(why) = stopped => {
                let refusal = Verdict::Refuse(State::Denied, format!("a hook of the user said no: {why}"));
                (tool.spec().name.to_owned(), in_json(tool, refusal))
            }
            Some(tool) => (tool.spec().name.to_owned(), in_json(tool, self.verdict(&id, tool, given, asked).await)),
            None => (name.to_owned(), Verdict::Refuse(State::Error, unknown(name))),
        };
        let decision = match verdict {
            Verdict::Run(_) => Decision::Run,
            Verdict::Ask(_) => Decision::Ask,
            Verdict::Refuse(..) => Decision::Deny,
        };
        Judged { call: Call { id, tool, input, changed, decision, wire_id }, verdict }
    }

    async fn verdict(&self, id: &CallId, tool: &'static dyn AnyTool, input: &RawValue, asked: Asked) -> Verdict {
        let name = tool.spec().name;
        let last = |steps: u32| self.view.answering().is_some_and(|now| now.steps + 1 >= steps);
        if asked == Asked::ByTheModel && self.limits().steps.is_some_and(last) {
            return Verdict::Refuse(State::Denied, "this was the last step: no tools are left".into());
        }
        if !self.role.toolbox.has(name) && asked == Asked::ByTheModel {
            let agent = &self.role.profile.name;
            return Verdict::Refuse(
                State::Denied,
                format!("the agent `{agent}` may not use `{name}` here: do without it"),
            );
        }
        if input.get().starts_with('"') {
            let why = format!("the arguments of `{name}` are not valid JSON: send one JSON object");
            return Verdict::Refuse(State::Error, self.with_schema(tool, why));
        }
        let questions = match tool.asks(input) {
            Ok(questions) => questions,
            Err(error) => return Verdict::Refuse(State::Error, error.to_string()),
        };
        let circle =
            asked == Asked::ByTheModel && self.view.answering().is_some_and(|now| now.repeats(name, input.get()));
        let (given, cx) = (input.to_owned(), self.context(id));
        let (rt, role) = (Arc::clone(&self.rt), Arc::clone(&self.role));
        // Names of files are followed for this, and whoever keeps them may not answer.
        let judged = self.hands.work(name, &self.work, move |_| {
            let mut accesses = tool.access(&given, &cx)?;
            accesses.extend(circle.then(|| Access::new(CIRCLE, name).always(name)));
            let asks = sort(accesses, asked, &rt, &role);
            let shows = asks.as_ref().is_ok_and(|asks| !asks.is_empty());
            let diff = if shows { tool.preview(&given, &cx) } else { None };
            Ok(asks.map(|asks| (asks, diff)))
        });
        let (asks, diff) = match judged.await {
            Ok(Ok(found)) => found,
            Ok(Err(denied)) if denied.permission == CIRCLE => {
                return Verdict::Refuse(State::Denied, in_circles(name));
            }
            Ok(Err(Access { permission, pattern, .. })) => {
                let pattern = tools::output::cut_line(&pattern, SHOWN);
                let why = format!("the rules deny `{permission}` for `{pattern}`: find another way, or ask the person");
                return Verdict::Refuse(State::Denied, why);
            }
            Err(error) => return Verdict::Refuse(State::Error, error.to_string()),
        };
        if !questions.is_empty() {
            // Whoever is asked sees the question itself, so there is nothing else to allow.
            return match asks.iter().any(|access| access.permission == CIRCLE) {
                true => Verdict::Refuse(State::Denied, in_circles(name)),
                false => Verdict::Ask(Box::new(self.question(id, tool, questions).await)),
            };
        }
        if asks.is_empty() {
            return Verdict::Run(tool);
        }
        let path = self.rt.place_of(&self.row).await;
        let about = asked::about(&self.rt, &self.role, &self.row, &asks, Made { input, diff, path });
        Verdict::Ask(Box::new(Ask { about, ..self.ask(id, name, &asks) }))
    }

    /// What a call wants to know from a person.
    async fn question(&self, call: &CallId, tool: &'static dyn AnyTool, questions: Vec<Question>) -> Ask {
        let spec = tool.spec();
        let accesses: Vec<Access> =
            questions.iter().map(|question| Access::new(spec.permission, &question.question)).collect();
        let (always, rules, keeps) = (Vec::new(), Vec::new(), Vec::new());
        let (path, name) = (self.rt.place_of(&self.row).await, self.row.name.clone());
        let about = AskAbout { path, name, seq: Some(self.row.seq + 1), ..AskAbout::default() };
        Ask { questions, always, rules, keeps, about, ..self.ask(call, spec.name, &accesses) }
    }

    /// A tool that was never described to the model is, when it is called wrongly.
    fn with_schema(&self, tool: &'static dyn AnyTool, why: String) -> String {
        let spec = tool.spec();
        if self.is_loaded(spec.name) { why } else { format!("{why} of this schema: {}", (spec.schema)().get()) }
    }

    fn is_loaded(&self, tool: &str) -> bool {
        !self.role.toolbox.is_deferred(tool) || self.view.loaded().iter().any(|loaded| loaded == tool)
    }

    /// The entry that adds tools to the list the model is sent, without those it has.
    pub(super) fn tools_loaded<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Option<Entry> {
        let mut new: Vec<String> = Vec::new();
        for name in names {
            if !self.is_loaded(name) && !new.iter().any(|known| known == name) {
                new.push(name.to_owned());
            }
        }
        (!new.is_empty()).then(|| Entry::ToolsLoaded(ToolsLoaded { names: new, ..ToolsLoaded::default() }))
    }

    /// One question for all that a call wants: the strongest permission first.
    fn ask(&self, call: &CallId, tool: &str, asks: &[Access]) -> Ask {
        let permission = asks[0].permission.clone();
        let keeps = asked::choices(asks);
        let first = |access: &Access| access.always.first().cloned().unwrap_or_default();
        Ask {
            id: AskId::new(),
            session: self.row.id.clone(),
            root: self.row.root.clone(),
            call: call.clone(),
            agent: self.role.profile.name.clone(),
            tool: tool.to_owned(),
            patterns: asks.iter().map(|access| access.pattern.clone()).collect(),
            always: keeps.iter().map(|choice| asked::told(&permission, choice)).collect(),
            rules: asks.iter().map(|access| Rule::new(&access.permission, first(access), Action::Allow)).collect(),
            keeps,
            about: AskAbout::default(),
            permission: permission.clone(),
            created: now(),
            until: steady() + i64::try_from(self.rt.limits.ask_ms).unwrap_or(i64::MAX / 2),
            reply: None,
            // A plan is put to whoever started the agent; a person may answer as well.
            to: self.row.parent.clone().filter(|_| permission == "plan_exit"),
            questions: Vec::new(),
        }
    }

    /// What is stored with the reply beside the call itself.
    pub(super) fn add_verdict(&self, batch: &mut Batch, judged: &Judged) {
        match &judged.verdict {
            Verdict::Run(_) => {}
            Verdict::Ask(ask) => {
                let on = On::Ask { ask: ask.id.clone() };
                batch.entries.push(Entry::Waiting(Waiting {
                    call: judged.call.id.clone(),
                    on,
                    until: Some(ask.until),
                    note: None,
                }));
                batch.asks.push(AskChange::Open(ask.clone()));
                batch.post.extend(self.plan_letter(ask));
            }
            Verdict::Refuse(state, why) => batch.entries.push(result(&judged.call.id, *state, why.clone())),
        }
    }

    /// The plan, as mail to the lead it is put to.
    fn plan_letter(&self, ask: &Ask) -> Option<Post> {
        let to = ask.to.as_ref()?;
        let from = self.row.name.as_deref().unwrap_or(self.row.id.as_str());
        let text = mail::plan_text(from, &ask.id, &ask.patterns.join("\n"));
        let mut post = mail::runtime_letter(&format!("plan_{}", ask.id), to, text);
        post.letter.from = Sender::Session { id: self.row.id.clone() };
        post.letter.provenance = Some(Provenance {
            kind: "inter_session".into(),
            source_session_key: Some(self.row.key.clone()),
            source_session_id: Some(self.row.id.clone()),
            source_name: self.row.name.clone(),
            source_tool: Some("plan_exit".into()),
            ..Provenance::default()
        });
        Some(post)
    }

    /// Starts what may run and tells people what is asked; all of it is stored by now.
    pub(super) fn begin(&mut self, calls: Vec<Judged>) {
        for judged in calls {
            match judged.verdict {
                Verdict::Run(tool) => {
                    let input = judged.call.given().to_owned();
                    self.start(tool, judged.call.id, input, None);
                }
                Verdict::Ask(ask) => self.hub().publish(&self.row.root, &asked::event(&ask)),
                Verdict::Refuse(..) => {}
            }
        }
    }

    /// Runs a stored call as a task of this actor. `answered` is the question about it that was answered with yes.
    pub(super) fn start(
        &mut self,
        tool: &'static dyn AnyTool,
        call: CallId,
        input: Box<RawValue>,
        answered: Option<Ask>,
    ) {
        let doors = Arc::new(self.doors(&call));
        let cx = self.context_with(&call, &doors, answered);
        let (slot, gate, waits) = (self.slot.clone(), self.gate.clone(), tool.spec().waits);
        let (cancel, id, after) = (self.work.clone(), call.clone(), self.after_call(&call));
        let stage = Stage::new(&self.rt, &self.row, &call, &cx.live);
        let dropped = Called { call: call.clone(), result: Err(Error::Cancelled), effects: Effects::default(), ms: 0 };
        // Calls that only wait take no slot and no place among those that run at once.
        let room = async move { if waits { None } else { Some((gate.acquire_owned().await, slot.acquire().await)) } };
        let work = async move |room: BoxFuture<'static, _>| {
            let begun = Instant::now();
            let run = async {
                let _room = room.await;
                tool.run(&input, &cx).await
            };
            let late = async {
                cancel.cancelled().await;
                tokio::time::sleep(GRACE).await;
            };
            let result = tokio::select! {
                result = run => result,
                () = late => Err(Error::Cancelled),
                never = stage.show() => match never {},
            };
            stage.close();
            let ms = begun.elapsed().as_millis() as u64;
            let result = match after {
                Some(after) => after.run(result, ms, &cancel).await,
                None => result,
            };
            Outcome::Called(Box::new(Called { call, result, effects: doors.effects(), ms }))
        };
        let dropped = Outcome::Called(Box::new(dropped));
        self.run_step(Step { call: Some(id), room: Box::pin(room), work, dropped });
    }

    /// Calls came back: results, or waits, with whatever they start or send, in one commit. When one of them cannot have
    /// what it prepared, each is committed alone, and that one is told.
    pub(super) async fn called(&mut self, mut calls: Vec<Called>) -> Result<(), Stop> {
        calls.retain(|called| self.view.find(&called.call).is_some());
        match self.commit_calls(&calls).await {
            Err(Stop::Refused(_)) => {}
            done => return done,
        }
        for mut called in calls {
            match self.commit_calls(std::slice::from_ref(&called)).await {
                Err(Stop::Refused(why)) => {
                    self.planned.fetch_sub(called.effects.open.len() as u64, Ordering::SeqCst);
                    called.effects = Effects::default();
                    called.result = Ok(self.refused(&called.call, why.into()));
                    self.commit_calls(&[called]).await?;
                }
                done => done?,
            }
        }
        Ok(())
    }

    async fn commit_calls(&mut self, calls: &[Called]) -> Result<(), Stop> {
        let mut batch = Batch::default();
        let (mut to_check, mut loads, mut known) = (Vec::new(), Vec::new(), Vec::new());
        for called in calls {
            if let Ok(output) = &called.result {
                loads.extend(output.loads.iter().map(String::as_str));
            }
            match &called.result {
                Ok(Output { wait: Some(wait), .. }) => {
                    if let On::Run { session, .. } = &wait.on {
                        batch.waits.push(WaitChange::Add { call: called.call.clone(), on: session.clone() });
                        // A child that was just made waits for nobody: no circle can go through it.
                        if called.effects.open.iter().all(|opened| &opened.id != session) {
                            to_check.push(called.call.clone());
                        }
                    }
                    let until =
                        wait.limit.map(|limit| steady() + i64::try_from(limit.as_millis()).unwrap_or(i64::MAX / 2));
                    let (call, on, note) = (called.call.clone(), wait.on.clone(), wait.note.clone());
                    batch.entries.push(Entry::Waiting(Waiting { call, on, until, note }));
                }
                done => {
                    if let Some((becomes, output)) =
                        done.as_ref().ok().and_then(|output| Some((output.becomes?, output)))
                    {
                        self.becomes(&mut batch, becomes, output.plan.clone());
                    }
                    let mut entry = match self.moves(&mut batch, done) {
                        Ok(()) => {
                            let todo = done.as_ref().ok().and_then(|output| output.todo.clone());
                            batch.entries.extend(todo.map(|items| Entry::Todo(TodoList { items })));
                            self.outcome(&called.call, done, called.ms)
                        }
                        Err(why) => self.outcome(&called.call, &Ok(self.refused(&called.call, why)), called.ms),
                    };
                    if let Entry::Result(result) = &mut entry {
                        result.wrote = called.effects.written_to();
                    }
                    batch.entries.push(entry);
                }
            }
            known.extend(called.effects.open.iter().filter_map(|row| Some((row.name.clone()?, row.id.clone()))));
            batch.open.extend(called.effects.open.iter().cloned());
            batch.post.extend(called.effects.post.iter().cloned());
            batch.hold.extend(called.effects.hold.iter().cloned());
            batch.send.extend(called.effects.send.iter().cloned());
        }
        batch.entries.extend(self.tools_loaded(loads));
        let new_role = batch.row.policy.is_some() || batch.row.agent.is_some() || batch.row.cwd.is_some();
        self.commit(batch).await?;
        // Whoever starts an agent knows whom its name means.
        known.iter().for_each(|(name, id)| self.view.knows(name, id));
        if new_role {
            self.take_role();
        }
        self.withdraw_circles(to_check).await
    }

    /// A call changes what the session is: kept with the call's result.
    fn becomes(&self, batch: &mut Batch, becomes: Becomes, plan: Option<String>) {
        let mut grant = Grant::read(batch.row.policy.as_deref().unwrap_or(&self.row.policy));
        let mut switch = Switch { plan, mode_before: Some(grant.mode.as_str().into()), ..Switch::default() };
        match becomes {
            Becomes::Planning => grant.mode = Mode::Plan,
            Becomes::Working if grant.mode == Mode::Plan => grant.mode = Mode::Ask,
            // The agent `plan` hands over to the one that does the work.
            Becomes::Working => {
                let agent = self.role.here.agents.default_agent().to_owned();
                batch.row.agent = Some(agent.clone());
                switch.agent = Some(agent);
            }
        }
        switch.mode = Some(grant.mode.as_str().into());
        batch.row.policy = Some(grant.write());
        batch.entries.push(Entry::Switch(switch));
    }

    /// A call moves the session: kept with its result. Of two that move it in the same step the second is too late.
    fn moves(&self, batch: &mut Batch, done: &Result<Output, Error>) -> Result<(), proto::Error> {
        let Some(to) = done.as_ref().ok().and_then(|output| output.moves.as_ref()) else { return Ok(()) };
        let before = batch.row.worktree.as_ref().unwrap_or(&self.row.worktree);
        if let (Some(entered), Some(before)) = (&to.worktree, before) {
            let why = format!("another call moved this session into the worktree `{}` first", before.name);
            let hint = format!("`{}` is there, and nobody is in it", entered.path);
            return Err(proto::Error::new(proto::Code::Conflict, why).hint(hint));
        }
        let cwd = to.cwd.to_string_lossy().into_owned();
        batch.row.cwd = Some(cwd.clone());
        batch.row.worktree = Some(to.worktree.clone());
        let (worktree, removed) = (to.worktree.clone(), to.removed.clone());
        batch.entries.push(Entry::Switch(Switch { cwd: Some(cwd), worktree, removed, ..Switch::default() }));
        Ok(())
    }

    /// What a call is told whose effects the store refused.
    fn refused(&self, call: &CallId, why: proto::Error) -> Output {
        let tool = self.view.find(call).and_then(|open| tools::find(&open.call.tool));
        match tool {
            Some(tool) if tool.spec().json => tools::answer::refused(&why),
            _ => Output::text(why.message).failed(),
        }
    }

    /// A wait is stored first and checked then: of two that would close a circle, the later sees both.
    pub(super) async fn withdraw_circles(&mut self, calls: Vec<CallId>) -> Result<(), Stop> {
        if calls.is_empty() || !self.rt.store.waits_for(&self.row.id, &self.row.id).await? {
            return Ok(());
        }
        let mut batch = Batch::default();
        for call in calls {
            let why = "the wait was withdrawn: the other session waits, through others, for this one";
            let refusal = serde_json::json!({ "status": "error", "error": why, "code": proto::Code::Cycle });
            batch.entries.push(result(&call, State::Error, refusal.to_string()));
            batch.waits.push(WaitChange::Remove { call });
        }
        self.commit(batch).await
    }

    /// The entry for a call that is over.
    pub(super) fn outcome(&self, call: &CallId, result: &Result<Output, Error>, ms: u64) -> Entry {
        let (mut ends_turn, mut shutdown, mut loads) = (false, None, Vec::new());
        let (state, output, data) = match result {
            Ok(output) => {
                (ends_turn, shutdown, loads) = (output.ends_turn, output.shutdown, output.loads.clone());
                let state = if output.failed { State::Error } else { State::Ok };
                (state, output.text.clone(), output.data.clone())
            }
            Err(Error::Cancelled) => (State::Interrupted, "the call was cancelled before it finished".into(), None),
            Err(error @ Error::Broken { .. }) => {
                tracing::error!(session = %self.row.id, %call, %error, "a tool broke");
                (State::Error, error.to_string(), None)
            }
            Err(Error::Tell(why)) => (State::Error, why.clone(), None),
        };
        let (output, data) = (self.rt.conceal(output), data.map(|data| self.rt.conceal_json(data)));
        let files = result.as_ref().map_or_else(|_| Vec::new(), |output| output.files.clone());
        let (call, wrote) = (call.clone(), Vec::new());
        Entry::Result(CallResult { call, state, output, data, files, ms, ends_turn, shutdown, loads, wrote })
    }

    /// What a waiting call waited for has come: its tool finds the words. One that waits no longer gets it as a letter,
    /// if it was promised.
    pub(super) fn settle(&self, batch: &mut Batch, settled: &Settled, from: Option<Provenance>) {
        let finished = &settled.finished;
        if finished.cleanup {
            batch.archive.push(finished.session.clone());
        }
        let waiting = self.view.find(&settled.call).map(|open| (open.call.clone(), open.state.clone()));
        let Some((call, OpenState::Waiting(waiting))) = waiting else {
            if settled.late {
                batch.post.push(self.late_reply(settled, from));
            }
            return;
        };
        let result = match tools::find(&call.tool) {
            Some(tool) => tool.settle(call.given(), &Waited { waiting: &waiting, finished }),
            None => Ok(Output::text(finished.text.clone())),
        };
        let mut entry = self.outcome(&settled.call, &result, finished.ms);
        if let Entry::Result(result) = &mut entry {
            result.wrote = vec![finished.session.clone()];
            if finished.outcome != proto::Outcome::Ok {
                result.state = State::Error;
            }
        }
        batch.entries.push(entry);
        batch.waits.push(WaitChange::Remove { call: settled.call.clone() });
    }

    /// The same news as a steer letter to oneself: it is answered like any other mail.
    fn late_reply(&self, settled: &Settled, provenance: Option<Provenance>) -> Post {
        let letter = Letter {
            id: LetterId::derived("late_", settled.call.as_str()),
            to: self.row.id.clone(),
            from: Sender::Session { id: settled.finished.session.clone() },
            class: Class::Steer,
            body: Body::Completion(settled.finished.clone()),
            provenance,
            conversation: None,
            report: None,
            expires: None,
        };
        Post { letter, person: false, queue: None }
    }

    /// A tool panicked: that ends its call, and nothing else.
    pub(super) fn panicked(&mut self, error: &JoinError) -> Option<Called> {
        let call = self.running.remove(&error.id())?;
        tracing::error!(session = %self.row.id, %call, %error, "a tool panicked");
        let result = Err(Error::Tell("the tool broke down inside; the operator can find out why in the log".into()));
        Some(Called { call, result, effects: Effects::default(), ms: 0 })
    }

    /// The end of calls that were stopped: what finished all the same keeps its result, unless it is to start, send or
    /// load something. That is not done any more, so nobody may read that it was.
    pub(super) fn stopped_entries(
        &self,
        batch: &mut Batch,
        called: Vec<Called>,
        skip: &[CallId],
        why: &str,
    ) -> Vec<Entry> {
        let over = |called: &Called| {
            let plain = |output: &Output| output.wait.is_none() && output.loads.is_empty() && output.todo.is_none();
            called.result.as_ref().is_ok_and(plain)
        };
        let mut finished: Vec<Called> = called.into_iter().filter(|c| over(c) && c.effects.is_empty()).collect();
        // What was done to the disk is done: the session goes where it would have gone.
        finished.retain(|called| self.moves(batch, &called.result).is_ok());
        let open = self.view.open().iter().filter(|open| !skip.contains(&open.call.id));
        open.map(|open| match finished.iter().position(|called| called.call == open.call.id) {
            Some(at) => {
                let called = finished.swap_remove(at);
                self.outcome(&called.call, &called.result, called.ms)
            }
            None => result(&open.call.id, State::Interrupted, why.to_owned()),
        })
        .collect()
    }

    fn context(&self, call: &CallId) -> ToolCx {
        self.context_with(call, &Arc::new(self.doors(call)), None)
    }

    fn context_with(&self, call: &CallId, doors: &Arc<Doors>, answered: Option<Ask>) -> ToolCx {
        ToolCx {
            session: self.row.id.clone(),
            call: call.clone(),
            agent: self.role.profile.name.clone(),
            dir: self.role.dir.clone(),
            worktree: self.role.worktree.clone(),
            outputs: self.rt.outputs_of(&self.row.root),
            cancel: self.work.clone(),
            leave: Arc::new(Leave { rt: self.rt.clone(), role: self.role.clone(), answered }),
            processes: self.role.processes.clone(),
            spawner: doors.clone(),
            directory: doors.clone(),
            office: doors.clone(),
            board: doors.clone(),
            background: doors.clone(),
            catalogue: self.role.toolbox.clone(),
            hands: self.hands.clone(),
            files: self.files.clone(),
            journal: self.rt.journal(&self.row.id),
            worktrees: Here {
                settings: self.rt.worktrees.clone(),
                // Whoever was put into one cannot leave it.
                entered: self.row.worktree.clone().filter(|worktree| !worktree.isolated),
                tenants: doors.clone(),
            },
            confine: Some(Arc::new(self.role.confine(&self.row))),
            todo: self.view.todo().clone(),
            live: Live::default(),
        }
    }

    fn doors(&self, call: &CallId) -> Doors {
        let model = self.model_name();
        let caller = Caller {
            row: Arc::new(self.row.clone()),
            model,
            policy: self.role.policy.clone(),
            sandboxed: self.role.sandboxed,
            reach: self.role.reach,
            chain: self.view.answering().map(|now| now.chain.clone()).unwrap_or_default(),
            purse: self.view.answering().map(|now| now.pays_from().clone()),
            mode: self.role.mode,
            known: self.view.known().clone(),
            asked: self.view.shutdown().cloned(),
        };
        Doors::new(self.rt.clone(), caller, call.clone(), self.planned.clone())
    }
}

/// A tool that answers in JSON refuses in JSON.
fn in_json(tool: &'static dyn AnyTool, verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Refuse(State::Denied, why) if tool.spec().json => {
            let refusal = serde_json::json!({ "status": "forbidden", "error": why, "code": proto::Code::Denied });
            Verdict::Refuse(State::Denied, refusal.to_string())
        }
        verdict => verdict,
    }
}

/// The entry for a call that ended without running to its end.
pub(super) fn result(call: &CallId, state: State, output: String) -> Entry {
    let (data, files, ms, ends_turn, shutdown) = (None, Vec::new(), 0, false, None);
    let (call, loads, wrote) = (call.clone(), Vec::new(), Vec::new());
    Entry::Result(CallResult { call, state, output, data, files, ms, ends_turn, shutdown, loads, wrote })
}

/// The permission to go on with what looks like a circle.
pub(super) const CIRCLE: &str = "doom_loop";

/// What a model reads whose circle was broken.
pub(super) fn in_circles(tool: &str) -> String {
    format!(
        "this call of `{tool}` repeats what was done before and was not made: go another way, or say what keeps you from it"
    )
}

fn unknown(name: &str) -> String {
    let shown: String = name.chars().take(64).collect();
    format!("there is no tool `{shown}`; the nearest are: {}", tools::nearest(name, 3).join(", "))
}
