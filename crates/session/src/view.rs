//! What a log says, folded entry by entry: no clock, no I/O, no `await`.
//!
//! A session's state is nothing but this fold, so waking after a restart, taking over and replaying are one and the same
//! thing: apply the entries, then [`decide`](crate::decide::decide).

use proto::entry::{Call, CallResult, CompactionState, Decision, Entry, Input, On, Reply, Waiting};
use proto::letter::{Conversation, InputPart};
use proto::{CallId, Millis, RunId, Status, Usage};
use std::sync::Arc;

/// The state of a session, as its log tells it.
#[derive(Debug, Clone, Default)]
pub struct View {
    phase: Phase,
    /// Calls without a result, in the order they were made.
    open: Vec<Open>,
    subtasks: Vec<Subtask>,
    compaction_pending: bool,
    /// Nothing is started until a person resumes it.
    paused: bool,
    /// What the last request filled of the context.
    context: u64,
    /// What the session runs as, by its newest input or switch.
    agent: Option<String>,
    model: Option<String>,
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
    /// When it is out of time.
    pub until: Option<Millis>,
    /// The leg of a conversation it answers.
    pub conversation: Option<Arc<Conversation>>,
    /// How many sessions what it answers came through.
    pub hops: u32,
    /// The session whose message it answers.
    pub sender: Option<String>,
    /// A call ended the turn.
    yielded: bool,
}

/// A call that has no result yet.
#[derive(Debug, Clone)]
pub struct Open {
    pub call: Arc<Call>,
    pub state: OpenState,
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
            Entry::Input(input) => self.took(input),
            Entry::Reply(reply) => self.replied(seq, reply),
            Entry::Started(started) => self.set(&started.call, OpenState::Running),
            Entry::Waiting(waiting) => self.waits(waiting),
            Entry::Result(result) => self.settled(result),
            Entry::Compaction(compaction) => {
                self.compaction_pending = compaction.state == CompactionState::Pending;
                if compaction.state == CompactionState::Done {
                    self.context = 0;
                }
            }
            Entry::Ended(ended) if self.answering().is_some_and(|now| now.run != ended.run) => {}
            Entry::Ended(_) => {
                self.phase = Phase::Idle;
                self.subtasks.clear();
            }
            Entry::Switch(switch) => {
                self.agent = switch.agent.clone().or(self.agent.take());
                self.model = switch.model.clone().or(self.model.take());
                self.paused = switch.paused.unwrap_or(self.paused);
            }
            Entry::Notice(_) | Entry::ToolsLoaded(_) => {}
        }
    }

    fn took(&mut self, input: &Input) {
        // A request is only taken when idle: one that stands in another run was withdrawn, and ends at once.
        if self.answering().is_some_and(|now| now.run != input.run) {
            return;
        }
        for part in &input.parts {
            if let InputPart::Subtask { agent, prompt, description } = part {
                let (agent, prompt, description) = (agent.clone(), prompt.clone(), description.clone());
                self.subtasks.push(Subtask { agent, prompt, description });
            }
        }
        self.agent = Some(input.agent.clone());
        self.model = Some(input.model.clone());
        match &mut self.phase {
            Phase::Answering(now) => (now.answered, now.yielded) = (false, false),
            Phase::Idle => self.phase = Phase::Answering(Answering::of(input)),
        }
    }

    fn replied(&mut self, seq: u64, reply: &Reply) {
        // A reply without a model is the runtime's own, and dispatches the mentions that were waiting.
        let dispatch = reply.model.is_empty();
        if dispatch {
            self.subtasks.clear();
        } else {
            self.context = reply.usage.context();
        }
        for call in reply.calls() {
            // An asked call gets its `waiting` entry in the same commit, a denied one its result.
            debug_assert!(matches!(call.decision, Decision::Run | Decision::Ask | Decision::Deny));
            self.open.push(Open { call: Arc::new(call.clone()), state: OpenState::Running });
        }
        let Phase::Answering(now) = &mut self.phase else { return };
        now.steps += u32::from(!dispatch);
        now.used += reply.usage;
        now.answered = reply.calls().next().is_none();
        let text = reply.text();
        if !text.is_empty() || now.answered {
            now.said = Some((seq, text.into()));
        }
    }

    fn waits(&mut self, waiting: &Waiting) {
        self.set(&waiting.call, OpenState::Waiting(Arc::new(waiting.clone())));
    }

    fn settled(&mut self, result: &CallResult) {
        self.open.retain(|open| open.call.id != result.call);
        let Phase::Answering(now) = &mut self.phase else { return };
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

    pub fn compaction_pending(&self) -> bool {
        self.compaction_pending
    }

    pub fn paused(&self) -> bool {
        self.paused
    }

    /// As the session's row has it: the entry that says so may be older than what was read, or another session's that
    /// this one was forked from.
    pub fn set_paused(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Tokens the last request filled.
    pub fn context(&self) -> u64 {
        self.context
    }

    pub fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// The word for what is under way, or `None` when nothing is.
    pub fn busy_status(&self) -> Option<Status> {
        self.answering()?;
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

impl Answering {
    fn of(input: &Input) -> Self {
        Self {
            run: input.run.clone(),
            steps: 0,
            answered: false,
            said: None,
            used: Usage::default(),
            until: input.until,
            conversation: input.conversation.clone().map(Arc::new),
            hops: input.provenance.as_ref().map_or(0, |provenance| provenance.hops),
            sender: input
                .provenance
                .as_ref()
                .filter(|from| from.source_tool.as_deref() == Some("sessions_send"))
                .and_then(|from| from.source_session_key.clone()),
            yielded: false,
        }
    }
}
