//! Letters: everything that reaches a session, with who sent it and when it is taken.

use crate::tagged::tagged;
use crate::{AskId, CallId, LetterId, Millis, Outcome, RunId, SessionId, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When a letter is taken (DESIGN "Letters").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// At once; only the runtime posts it.
    Control,
    /// At the next step boundary; opens a run of its own when the session is idle.
    Steer,
    /// A run of its own, one at a time, in order.
    Request,
}

/// Whether a text has words in it, or signs, or anything but blanks.
pub fn says_something(text: &str) -> bool {
    text.chars().any(|c| !c.is_whitespace() && !c.is_control())
}

/// Input with a sender, kept in the receiver's inbox until a commit moves it into the log.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Letter {
    pub id: LetterId,
    pub to: SessionId,
    pub from: Sender,
    pub class: Class,
    pub body: Body,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// The conversation this letter is a leg of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Conversation>,
    /// Who hears of the end of the run this letter opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Millis>,
}

/// Stamped by the runtime, never taken from text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Sender {
    Person,
    Session {
        id: SessionId,
    },
    /// A session of another gateway, by the address that answers it.
    Peer {
        address: String,
    },
    Runtime,
}

/// How a text came here, for the receiver's system part and for readers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    /// `external_user`, `inter_session` or `internal_system`.
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_session_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_tool: Option<String>,
    /// The session that sent it, which no later holder of its name is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_session_id: Option<SessionId>,
    /// The name the sender goes by in its tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_name: Option<String>,
    /// Who speaks, as readers are told: `person`, `parent`, `notice`, or how an agent is addressed. Written when the text is
    /// taken into the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaker: Option<String>,
    /// The sender wants to hear when the receiver has nothing left to do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notify_when_idle: bool,
    /// How many sessions this has passed through; a limit on it ends circles.
    #[serde(default)]
    pub hops: u32,
    /// The sender's own count, which an answer brings back. Answers have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asker_hops: Option<u32>,
    /// Messages between sender and receiver so far, this one included, for one prompt of a person.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub exchanges: u32,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Two sessions that talk a message over after it was sent (S7): carried by its letters, so that the commit that ends one
/// leg posts the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Conversation {
    /// The first message's run.
    pub id: RunId,
    pub requester: SessionId,
    pub target: SessionId,
    /// Legs so far after the first answer.
    pub turn: u32,
    pub max: u32,
    pub leg: Leg,
    /// What was sent first.
    pub request: String,
    /// The first answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// A leg that takes longer ends the conversation.
    pub limit_ms: u64,
    /// When this leg was posted.
    pub posted: Millis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Leg {
    /// The message itself.
    Message,
    /// One of the turns after it.
    Turn,
    /// The receiver tells its channel.
    Announce,
}

/// Where the end of a run is told: to a waiting call, or as a completion letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub session: SessionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// When the call no longer waits, the outcome still comes, as a letter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

tagged! {
    /// What a letter says.
    pub enum Body {
        /// Text to answer.
        Prompt(Prompt) = "prompt",
        /// A child ended and nobody was waiting in a call.
        Completion(Finished) = "completion",
        /// The outcome that a waiting call waits for.
        Settled(Settled) = "settled",
        /// The answer to an ask.
        Answer(Answer) = "answer",
        /// Stop the run under way.
        Abort(Abort) = "abort",
        /// Change what the session runs as from here on.
        Switch(Switch) = "switch",
        /// Make room in the context.
        Compact(Compact) = "compact",
        /// Take back what was done, or take that back.
        Undo(Undo) = "undo",
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Prompt {
    pub parts: Vec<InputPart>,
    /// The agent this prompt asks for; the session stays with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model for this run only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The run may take no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Words put into the receiver's mouth: they stand in its log as its own answer, and no model is asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spoken: bool,
    /// Whose money the run spends that this opens; its own without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purse: Option<Purse>,
    /// Asks for room in the context, and for nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact: Option<Compact>,
    /// Asks the session whether it may be shut down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shutdown: Option<Shutdown>,
}

/// The question whether a session may be shut down, and who asks it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shutdown {
    /// What an answer has to repeat.
    pub request: String,
    /// Without one, a person asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<SessionId>,
}

/// Whose money a run spends. Whoever causes a run pays for it: a purse goes from run to run, until one gets a part of it
/// for itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Purse {
    /// The run that has it.
    pub of: RunId,
    /// What the new run gets out of it for itself and what it starts. Its own limits, when the purse is its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allotted: Option<Allotment>,
    /// A session was made for the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
    /// Model calls that the new run may make, where its agent may make more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
}

/// Bounds on what a run and all it starts may spend. What is not said is bounded by the purse above.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Allotment {
    /// In US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Read and written, by all models together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Sessions that may be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<u64>,
}

impl Purse {
    /// The purse that `run` spends from.
    pub fn for_run<'a>(&'a self, run: &'a RunId) -> &'a RunId {
        if self.allotted.is_some() { run } else { &self.of }
    }
}

impl Prompt {
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![InputPart::Text { text: text.into() }], ..Self::default() }
    }
}

/// A piece of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum InputPart {
    Text {
        text: String,
    },
    /// Something to look at: an image, a PDF, a text.
    File {
        name: String,
        mime: String,
        /// In base64.
        data: String,
    },
    /// A mention of a subagent: dispatched before the model is called.
    Subtask {
        agent: String,
        prompt: String,
        description: String,
    },
}

/// How a run ended, as told to whoever hears of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finished {
    pub run: RunId,
    pub session: SessionId,
    pub agent: String,
    pub model: String,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<crate::Code>,
    /// The final answer, or why there is none.
    pub text: String,
    pub usage: Usage,
    pub ms: u64,
    /// The name it went by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is now, in a word: `done`, `failed`, `killed`, `timeout`, `interrupted`, `idle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<crate::Status>,
    /// Where the whole text is, when `text` is only its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The session is to be hidden once this was delivered.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cleanup: bool,
    /// The run whose purse pays for what comes of this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purse: Option<RunId>,
    /// What becomes of the worktree that was made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeEnd>,
}

/// The end of a worktree that was made for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeEnd {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Why it stays; without a reason it holds nothing of its own and goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

impl WorktreeEnd {
    /// As a sentence.
    pub fn words(&self) -> String {
        let branch = self.branch.as_ref().map(|branch| format!(", on the branch `{branch}`")).unwrap_or_default();
        match &self.kept {
            Some(why) => format!("Its worktree is kept in `{}`{branch}: it has {why}.", self.path),
            None => "Its worktree held no changes and is removed.".into(),
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settled {
    pub call: CallId,
    pub finished: Finished,
    /// See [`Report::late`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answer {
    pub ask: AskId,
    pub reply: AskReply,
    /// With `always`: which choice is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<u32>,
    /// Told to the model with a rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What a person said to each question of the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AskReply {
    Once,
    Always,
    Reject,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Abort {
    pub reason: Reason,
    /// Only this run; without it whatever is under way and queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// What everything below is stopped under as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wave: Option<String>,
}

/// Why something was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    User,
    Parent,
    Timeout,
    Shutdown,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Switch {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The worktree that `cwd` is; a `cwd` without one is outside of any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<crate::Worktree>,
    /// The worktree it was in, when that was removed with the move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<crate::Worktree>,
    /// A permission mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The permission mode before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode_before: Option<String>,
    /// The plan that was approved with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Starts nothing from here on, or goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// What it cost to find the title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Usage>,
}

/// What is to be taken back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    /// Take back the newest undo instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redo: bool,
    /// Everything after this entry; without one, from the newest word of a person on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// Files that the session changed.
    pub files: bool,
    /// What was said.
    pub conversation: bool,
    /// The permission mode stays as it is: the caller may not widen permissions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_mode: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Compact {
    /// What the summary is to look after, in the words of whoever asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
}
