//! What a log says, folded entry by entry: no clock, no I/O, no `await`.
//!
//! A session's state is nothing but this fold, so waking after a restart, taking over and replaying are one and the same
//! thing: apply the entries, then [`decide`](crate::decide::decide).

use crate::chain::Chain;
use crate::doom::Made;
use proto::entry::{
    Call, CallResult, Carried, Compaction, CompactionState, Decision, Entry, Input, On, Reply, ToolsLoaded, Waiting,
};
use proto::letter::{Conversation, InputPart, Provenance, Purse, Report, Shutdown};
use proto::{AskId, CallId, Job, JobId, JobNews, Millis, RunId, SessionId, Status, Todo, Usage};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The state of a session, as its log tells it.
#[derive(Debug, Clone, Default)]
pub struct View {
    phase: Phase,
    /// Calls without a result, in the order they were made.
    open: Vec<Open>,
    subtasks: Vec<Subtask>,
    /// Room that is to be made and is not made yet.
    pending: Option<Arc<Compaction>>,
    /// The first entry that a model is sent as it is: what came before is summed up.
    kept: u64,
    room: Room,
    /// Nothing is started until a person resumes it.
    paused: bool,
    /// What the last request filled of the context.
    context: u64,
    /// What came since, in tokens, roughly.
    came: u64,
    /// What the session runs as, by its newest input or switch.
    agent: Option<String>,
    model: Option<String>,
    /// Somebody asked whether this session may be shut down, and it has not said.
    shutdown: Option<Arc<Shutdown>>,
    /// It said yes.
    closing: bool,
    /// Who is meant by a name: whoever had it when this session last heard from them.
    known: Arc<BTreeMap<String, SessionId>>,
    /// Deferred tools that were loaded, in that order.
    loaded: Arc<Vec<String>>,
    /// Those that a result describes which is still sent, with its place.
    described: Arc<Vec<(u64, String)>>,
    told: Option<Told>,
    /// What the session wrote down as left to do.
    todo: Arc<Vec<Todo>>,
    /// The plan that was approved last.
    plan: Option<Arc<str>>,
    /// Commands in the background whose end was not told, with the entry that says so.
    jobs: Arc<BTreeMap<JobId, (u64, Job)>>,
}

/// What making room last brought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Room {
    /// It was not made, or a reply came since.
    #[default]
    Usual,
    /// Old output was left out, and nothing was said since.
    Pruned,
    /// The conversation was summed up, and nothing was said since.
    Summed,
    /// The first request after that filled so much.
    Refilled(u64),
}

/// The deferred tools a model was told by name.
#[derive(Debug, Clone)]
struct Told {
    /// In the system part, which stays as it was first sent.
    first: Arc<Vec<String>>,
    /// With what was told since.
    now: Arc<Vec<String>>,
}

#[derive(Debug, Clone, Default)]
enum Phase {
    #[default]
    Idle,
    Answering(Answering),
}

/// A run under way.
#[derive(Debug, Clone)]
pub struct Answering {
    pub run: RunId,
    /// Model calls so far.
    pub steps: u32,
    /// The last reply ended the turn, and nothing has come in since.
    pub answered: bool,
    /// The last words of the model, and the entry that holds them.
    pub said: Option<(u64, Arc<str>)>,
    pub used: Usage,
    /// Whose money it spends; its own without one.
    pub purse: Option<Arc<Purse>>,
    /// When it is out of time.
    pub until: Option<Millis>,
    /// The leg of a conversation it answers.
    pub conversation: Option<Arc<Conversation>>,
    /// Where it stands in the chain of messages that led to it.
    pub chain: Chain,
    /// A message of another session opened it.
    pub by_mail: bool,
    /// The session whose message it answers.
    pub sender: Option<String>,
    /// Sessions that want to hear when nothing is left to do here.
    pub notify: Vec<SessionId>,
    /// The entry that opened it.
    pub began: u64,
    /// What it has called.
    made: Arc<Made>,
    /// It was opened for nothing but room in the context.
    compacts: bool,
    /// A call ended the turn.
    yielded: bool,
}

/// A call that has no result yet.
#[derive(Debug, Clone)]
pub struct Open {
    pub call: Arc<Call>,
    pub state: OpenState,
    /// The question whether it may start.
    pub asked: Option<AskId>,
}

#[derive(Debug, Clone)]
pub enum OpenState {
    /// Started, and not known to have ended: after a crash, nobody can tell how far it came.
    Running,
    /// Waits for something that is stored elsewhere and will come by letter.
    Waiting(Arc<Waiting>),
}

/// A mention that is to be dispatched before the model is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subtask {
    pub agent: String,
    pub prompt: String,
    pub description: String,
}

impl View {
    pub fn of<'a>(entries: impl IntoIterator<Item = (u64, &'a Entry)>) -> Self {
        let mut view = Self::default();
        for (seq, entry) in entries {
            view.apply(seq, entry);
        }
        view
    }

    pub fn apply(&mut self, seq: u64, entry: &Entry) {
        match entry {
            Entry::Input(input) => self.took(seq, input),
            Entry::Reply(reply) => self.replied(seq, reply),
            Entry::Started(started) => self.set(&started.call, OpenState::Running),
            Entry::Waiting(waiting) => self.waits(waiting),
            Entry::Result(result) => self.settled(seq, result),
            Entry::Compaction(compaction) => self.compacted(seq, compaction),
            Entry::Ended(ended) if self.answering().is_some_and(|now| now.run != ended.run) => {}
            Entry::Ended(_) => {
                self.phase = Phase::Idle;
                self.subtasks.clear();
                self.pending = None;
                (self.shutdown, self.closing) = (None, false);
            }
            Entry::Switch(switch) => {
                if let Some(agent) = &switch.agent {
                    self.runs_as(agent);
                }
                if let Some(choice) = &switch.model {
                    let before = self.model.take().unwrap_or_default();
                    self.model = Some(proto::model::chosen(Some(choice), || before));
                }
                self.paused = switch.paused.unwrap_or(self.paused);
                self.plan = switch.plan.as_deref().map(Arc::from).or(self.plan.take());
            }
            Entry::ToolsLoaded(tools) => self.tools_changed(tools),
            Entry::Todo(list) => self.todo = Arc::new(list.items.clone()),
            Entry::Undo(undone) if undone.goes_back() => self.rests(),
            Entry::Notice(_) | Entry::Undo(_) => {}
        }
        // What a model said is counted in what it used.
        if !matches!(entry, Entry::Reply(reply) if !reply.model.is_empty()) {
            self.came += crate::compaction::weight(entry);
        }
    }

    /// The place it went back to may have been in the middle of something, which does not go on.
    fn rests(&mut self) {
        (self.phase, self.pending) = (Phase::Idle, None);
        self.open.clear();
        self.subtasks.clear();
        (self.shutdown, self.closing) = (None, false);
    }

    fn compacted(&mut self, seq: u64, compaction: &Compaction) {
        if compaction.state == CompactionState::Pending {
            self.pending = Some(Arc::new(compaction.clone()));
            return;
        }
        self.pending = None;
        if let Phase::Answering(now) = &mut self.phase {
            now.used += compaction.usage;
            now.answered |= now.compacts;
        }
        if compaction.prunes_before.is_some() {
            self.room = Room::Pruned;
            (self.context, self.came) = (compaction.tokens, 0);
        }
        if let Some(from) = compaction.keeps_from {
            self.room = Room::Summed;
            (self.context, self.came) = (compaction.tokens, 0);
            self.kept = from;
            Arc::make_mut(&mut self.described).retain(|(seq, _)| *seq >= from);
            // Everything is sent anew, so the list can be as well.
            self.told = None;
        }
        if let Some(Carried { known, loaded, todo, plan, jobs }) = compaction.carried.clone() {
            self.jobs = Arc::new(jobs.into_iter().map(|job| (job.id.clone(), (seq, job))).collect());
            (self.known, self.loaded, self.todo) = (Arc::new(known), Arc::new(loaded), Arc::new(todo));
            self.plan = plan.map(Arc::from);
        }
    }

    /// Another agent is sent another system part, with a list of its own.
    fn runs_as(&mut self, agent: &str) {
        if self.agent.as_deref() != Some(agent) {
            self.agent = Some(agent.to_owned());
            self.told = None;
        }
    }

    fn tools_changed(&mut self, tools: &ToolsLoaded) {
        let new: Vec<String> = tools.names.iter().filter(|name| !self.loaded.contains(name)).cloned().collect();
        Arc::make_mut(&mut self.loaded).extend(new);
        if let Some(told) = &mut self.told {
            let now = Arc::make_mut(&mut told.now);
            now.retain(|name| !tools.gone.contains(name));
            now.extend(tools.added.iter().cloned());
        }
    }

    fn took(&mut self, seq: u64, input: &Input) {
        if let Some(job) = JobId::ended_by(&input.letter)
            && self.jobs.contains_key(&job)
        {
            Arc::make_mut(&mut self.jobs).remove(&job);
        }
        // A request is only taken when idle: one that stands in another run was withdrawn, and ends at once.
        if self.answering().is_some_and(|now| now.run != input.run) {
            return;
        }
        // Who asks for room while something is under way asks for nothing else.
        if input.compact.is_some() && self.answering().is_some() {
            return;
        }
        for part in &input.parts {
            if let InputPart::Subtask { agent, prompt, description } = part {
                let (agent, prompt, description) = (agent.clone(), prompt.clone(), description.clone());
                self.subtasks.push(Subtask { agent, prompt, description });
            }
        }
        self.runs_as(&input.agent);
        self.model = Some(input.model.clone());
        if let Some(shutdown) = &input.shutdown {
            self.shutdown = Some(Arc::new(shutdown.clone()));
        }
        self.met(input);
        match &mut self.phase {
            Phase::Answering(now) => {
                (now.answered, now.yielded, now.compacts) = (false, false, false);
                // With something new to go by, the same call may be right.
                now.made = Arc::default();
                // What joins a run has its say in what the run sends on.
                now.chain.join(input.provenance.as_ref());
            }
            Phase::Idle => self.phase = Phase::Answering(Answering::of(seq, input)),
        }
        self.promise(input);
    }

    /// Mail from a named agent: from here on its name means that agent and no later one.
    fn met(&mut self, input: &Input) {
        let from =
            input.provenance.as_ref().and_then(|from| from.source_name.as_ref().zip(from.source_session_id.as_ref()));
        if let Some((name, id)) = from {
            self.knows(name, id);
        }
    }

    /// Remembers who a name means.
    pub fn knows(&mut self, name: &str, id: &SessionId) {
        if self.known.get(name) != Some(id) {
            Arc::make_mut(&mut self.known).insert(name.to_owned(), id.clone());
        }
    }

    fn promise(&mut self, input: &Input) {
        let from = input.provenance.as_ref().filter(|from| from.notify_when_idle);
        let Phase::Answering(now) = &mut self.phase else { return };
        if let Some(id) = from.and_then(|from| from.source_session_id.as_ref())
            && !now.notify.contains(id)
        {
            now.notify.push(id.clone());
        }
    }

    fn replied(&mut self, seq: u64, reply: &Reply) {
        // A reply without a model is the runtime's own, and dispatches the mentions that were waiting.
        let dispatch = reply.model.is_empty();
        if dispatch {
            self.subtasks.clear();
        } else {
            self.context = reply.usage.context();
            // What the reply itself adds is counted in there.
            self.came = 0;
            self.room = match self.room {
                Room::Summed => Room::Refilled(reply.usage.context().saturating_sub(reply.usage.output)),
                Room::Pruned => Room::Usual,
                usual => usual,
            };
        }
        for call in reply.calls() {
            // An asked call gets its `waiting` entry in the same commit, a denied one its result.
            debug_assert!(matches!(call.decision, Decision::Run | Decision::Ask | Decision::Deny));
            self.open.push(Open { call: Arc::new(call.clone()), state: OpenState::Running, asked: None });
        }
        if !reply.deferred.is_empty() {
            let first = Arc::new(reply.deferred.clone());
            self.told = Some(Told { now: first.clone(), first });
        }
        let Phase::Answering(now) = &mut self.phase else { return };
        now.steps += u32::from(!dispatch);
        now.used += reply.usage;
        if reply.calls().next().is_some() {
            let made = Arc::make_mut(&mut now.made);
            reply.calls().for_each(|call| made.called(now.steps, call));
        }
        now.answered = reply.calls().next().is_none();
        let text = reply.text();
        if !text.is_empty() || now.answered {
            now.said = Some((seq, text.into()));
        }
    }

    fn waits(&mut self, waiting: &Waiting) {
        if let (On::Ask { ask }, Some(open)) =
            (&waiting.on, self.open.iter_mut().find(|open| open.call.id == waiting.call))
        {
            open.asked = Some(ask.clone());
        }
        self.set(&waiting.call, OpenState::Waiting(Arc::new(waiting.clone())));
    }

    fn settled(&mut self, seq: u64, result: &CallResult) {
        if !result.loads.is_empty() {
            Arc::make_mut(&mut self.described).extend(result.loads.iter().map(|name| (seq, name.clone())));
        }
        match JobNews::of(result) {
            Some(JobNews { job, over: true }) => drop(Arc::make_mut(&mut self.jobs).remove(&job.id)),
            Some(JobNews { job, over: false }) => {
                Arc::make_mut(&mut self.jobs).insert(job.id.clone(), (seq, job));
            }
            None => {}
        }
        self.open.retain(|open| open.call.id != result.call);
        match result.shutdown {
            Some(true) => self.closing = true,
            Some(false) => self.shutdown = None,
            None => {}
        }
        let Phase::Answering(now) = &mut self.phase else { return };
        Arc::make_mut(&mut now.made).settled(result);
        now.chain.wrote(&result.wrote);
        now.yielded |= result.ends_turn;
        // Whoever yields is not asked again before something comes in; other calls of the same reply come to their end.
        now.answered |= now.yielded && self.open.is_empty();
    }

    fn set(&mut self, call: &CallId, state: OpenState) {
        if let Some(open) = self.open.iter_mut().find(|open| &open.call.id == call) {
            open.state = state;
        }
    }

    pub fn answering(&self) -> Option<&Answering> {
        match &self.phase {
            Phase::Idle => None,
            Phase::Answering(now) => Some(now),
        }
    }

    pub fn open(&self) -> &[Open] {
        &self.open
    }

    pub fn find(&self, call: &CallId) -> Option<&Open> {
        self.open.iter().find(|open| &open.call.id == call)
    }

    pub fn subtasks(&self) -> &[Subtask] {
        &self.subtasks
    }

    /// Room that is to be made.
    pub fn pending(&self) -> Option<&Arc<Compaction>> {
        self.pending.as_ref()
    }

    /// The first entry that a model is sent as it is.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// Old output was left out, and that was not enough.
    pub fn is_pruned(&self) -> bool {
        self.room == Room::Pruned
    }

    /// Whether making room within `limit` tokens can help: not when it was just made and nothing came since, nor when
    /// what cannot be summed up fills too much already.
    pub fn can_make_room(&self, limit: u64) -> bool {
        match self.room {
            Room::Usual | Room::Pruned => true,
            Room::Summed => self.came >= crate::compaction::LEAST,
            Room::Refilled(filled) => limit == 0 || filled < limit,
        }
    }

    /// Names that are known, tools that were loaded, the list and the plan: what a summary carries on.
    pub fn carried(&self) -> Carried {
        Carried {
            known: self.known.as_ref().clone(),
            loaded: self.loaded.as_ref().clone(),
            todo: self.todo.as_ref().clone(),
            plan: self.plan.as_deref().map(str::to_owned),
            jobs: self.jobs().cloned().collect(),
        }
    }

    /// Commands in the background whose end was not told.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values().map(|(_, job)| job)
    }

    /// Up to this entry the log is another session's, and so are its jobs.
    pub fn disown_jobs(&mut self, up_to: u64) {
        Arc::make_mut(&mut self.jobs).retain(|_, (seq, _)| *seq > up_to);
    }

    /// The plan that was approved last.
    pub fn plan(&self) -> Option<&str> {
        self.plan.as_deref()
    }

    pub fn paused(&self) -> bool {
        self.paused
    }

    /// As the session's row has it: the entry that says so may be older than what was read, or another session's that
    /// this one was forked from.
    pub fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Tokens the next request fills, as far as is known: those of the last one, and what came since.
    pub fn context(&self) -> u64 {
        self.context + self.came
    }

    /// The open question whether this session may be shut down.
    pub fn shutdown(&self) -> Option<&Arc<Shutdown>> {
        self.shutdown.as_ref()
    }

    /// The session agreed to be shut down.
    pub fn closing(&self) -> bool {
        self.closing
    }

    /// Whom a name meant when this session last heard from its holder.
    pub fn known(&self) -> &Arc<BTreeMap<String, SessionId>> {
        &self.known
    }

    pub fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Deferred tools that were loaded, in that order.
    pub fn loaded(&self) -> &[String] {
        &self.loaded
    }

    /// Those of them that no result describes which is still sent.
    pub fn loaded_unseen(&self) -> Vec<String> {
        let seen = |name: &&String| self.described.iter().any(|(_, described)| described == *name);
        self.loaded.iter().filter(|name| !seen(name)).cloned().collect()
    }

    /// What the session wrote down as left to do.
    pub fn todo(&self) -> &Arc<Vec<Todo>> {
        &self.todo
    }

    /// The deferred tools in the system part the model was first sent, if it was sent one.
    pub fn told_first(&self) -> Option<&[String]> {
        self.told.as_ref().map(|told| told.first.as_slice())
    }

    /// The deferred tools the model knows by name now.
    pub fn told(&self) -> Option<&[String]> {
        self.told.as_ref().map(|told| told.now.as_slice())
    }

    /// The word for what is under way, or `None` when nothing is.
    pub fn busy_status(&self) -> Option<Status> {
        let now = self.answering()?;
        if now.answered && self.open.is_empty() && self.shutdown.is_some() {
            return Some(Status::Waiting);
        }
        if self.open.is_empty() || self.open.iter().any(Open::is_running) {
            return Some(Status::Running);
        }
        let asks = self.open.iter().any(|open| matches!(open.waits_for(), Some(On::Ask { .. })));
        Some(if asks { Status::Asking } else { Status::Waiting })
    }

    /// When the next wait gives up.
    pub fn next_deadline(&self) -> Option<Millis> {
        let until = |open: &Open| match &open.state {
            OpenState::Waiting(waiting) => waiting.until,
            OpenState::Running => None,
        };
        let run = self.answering().and_then(|now| now.until);
        self.open.iter().filter_map(until).chain(run).min()
    }
}

impl Open {
    pub fn is_running(&self) -> bool {
        matches!(self.state, OpenState::Running)
    }

    pub fn waits_for(&self) -> Option<&On> {
        match &self.state {
            OpenState::Waiting(waiting) => Some(&waiting.on),
            OpenState::Running => None,
        }
    }
}

fn is_mail(from: &Provenance) -> bool {
    from.source_tool.as_deref() == Some("send_message") && from.source_session_id.is_some()
}

impl Answering {
    /// Whether one more call of this would run in a circle.
    pub fn repeats(&self, tool: &str, input: &str) -> bool {
        self.made.repeats(tool, input)
    }

    /// Whether all it did of late was refused for going in circles.
    pub fn is_hopeless(&self) -> bool {
        self.made.is_hopeless()
    }

    /// Whether it has told the session that hears of its end already, in words of its own.
    pub fn told_already(&self, report: &Report) -> bool {
        self.by_mail && self.chain.peer(&report.session).written
    }

    /// The run whose purse it spends from.
    pub fn pays_from(&self) -> &RunId {
        self.purse.as_ref().map_or(&self.run, |purse| purse.for_run(&self.run))
    }

    /// Model calls it may make, where its agent may make more.
    pub fn most_steps(&self) -> Option<u32> {
        self.purse.as_ref()?.steps
    }

    /// The run whose purse pays for what comes of its end: what it had for itself is given back by then.
    pub fn returns_to(&self) -> &RunId {
        self.purse.as_ref().map_or(&self.run, |purse| &purse.of)
    }

    fn of(seq: u64, input: &Input) -> Self {
        Self {
            run: input.run.clone(),
            began: seq,
            compacts: input.compact.is_some(),
            made: Arc::default(),
            steps: 0,
            answered: false,
            said: None,
            used: Usage::default(),
            purse: input.purse.clone().map(Arc::new),
            until: input.until,
            conversation: input.conversation.clone().map(Arc::new),
            chain: Chain::of(input.provenance.as_ref()),
            by_mail: input.provenance.as_ref().is_some_and(is_mail),
            sender: input
                .provenance
                .as_ref()
                .filter(|from| from.source_tool.as_deref() == Some("sessions_send"))
                .and_then(|from| from.source_session_key.clone()),
            notify: Vec::new(),
            yielded: false,
        }
    }
}
