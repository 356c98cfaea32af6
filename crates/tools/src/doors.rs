//! The doors tools may knock at: how they start children, read other sessions and write to them.
//!
//! Declared here and implemented by `session`, so that a tool never sees a session, a store or a rule. Every refusal is a
//! `proto::Error` with its code; what is posted or started exists once the call's commit does.

use crate::process::Command;
use crate::tool_search::ToolCard;
use async_trait::async_trait;
use proto::letter::Allotment;
use proto::message::History;
pub use proto::methods::Delivery;
use proto::methods::{
    AgentRow, BoardAddInput, BoardClaimInput, BoardListInput, BoardPage, BoardUpdateInput, HistoryInput, ListInput,
    ListOutput, MailReceipt, MailState, PeerRow, SessionInfo, StatusReport,
};
use proto::{BoardTask, Error, Job, RunId, SessionId};
use std::time::Duration;

/// Starts child sessions: one spawner under every tool and method that makes one.
#[async_trait]
pub trait Spawner: Send + Sync {
    async fn spawn(&self, request: Spawn) -> Result<Spawned, Error>;
}

/// A child to be started.
#[derive(Debug, Clone, Default)]
pub struct Spawn {
    /// The caller's owner agent without one.
    pub agent: Option<String>,
    pub prompt: String,
    pub title: Option<String>,
    pub label: Option<String>,
    pub model: Option<String>,
    pub cwd: Option<String>,
    /// Go on with this child instead of a new one.
    pub resume: Option<SessionId>,
    /// The run may take no longer.
    pub timeout: Option<Duration>,
    /// The child answers in a thread of a channel.
    pub thread: bool,
    /// The child is held to what it starts, and its commands to the sandbox, wherever its caller is.
    pub sandboxed: bool,
    /// The child stays open after its first run.
    pub stays: bool,
    /// The child is hidden once its end is told.
    pub cleanup: bool,
    /// The caller waits in the call; otherwise a letter tells it of the end.
    pub waits: bool,
    /// Only these tools, of those it would have.
    pub tools: Vec<String>,
    /// As the caller is now, with all it knows; `agent` is not read then.
    pub fork: bool,
    /// What other agents of the tree call it.
    pub name: Option<String>,
    /// Its permission mode.
    pub mode: Option<String>,
    /// In a worktree of its own.
    pub isolated: bool,
    /// Only agents that are made to be children (`task`).
    pub subagents_only: bool,
    pub attachments: Vec<Attachment>,
    /// What it gets for itself out of the caller's budget; nothing is moved without one.
    pub budget: Option<Allotment>,
    /// Where the attachments are wanted, as the child is told.
    pub mount: Option<String>,
    /// Which tool asks, for the child's provenance.
    pub tool: &'static str,
}

#[derive(Debug, Clone)]
pub struct Attachment {
    pub name: String,
    pub bytes: Vec<u8>,
    pub mime: Option<String>,
}

#[derive(Debug, Clone)]
pub struct Spawned {
    pub run: RunId,
    pub session: SessionId,
    /// As models are shown it.
    pub key: String,
    pub label: Option<String>,
    /// The profile it runs as.
    pub agent: String,
    pub name: Option<String>,
    /// What of the wish could not be done as it was put.
    pub note: Option<String>,
    /// Where its final words will be.
    pub output_file: String,
    /// The directory of its own that it works in.
    pub worktree: Option<String>,
    /// Where the attachments were put: name, path, sha256.
    pub attachments: Vec<(String, String, String)>,
}

/// Reads other sessions, under the guard.
#[async_trait]
pub trait Directory: Send + Sync {
    async fn list(&self, input: ListInput) -> Result<ListOutput, Error>;
    async fn history(&self, input: HistoryInput) -> Result<History, Error>;
    async fn status(&self, session: Option<&str>) -> Result<StatusReport, Error>;
    /// Agents this caller may start.
    fn agents(&self) -> Vec<AgentRow>;
    /// The caller's own children, newest first.
    async fn children(&self) -> Result<Vec<SessionInfo>, Error>;
    /// The owner agent of the caller.
    fn owner(&self) -> String;
    /// Live sessions this caller may write to.
    async fn peers(&self) -> Result<Vec<PeerRow>, Error>;
}

/// Writes to other sessions, under the guard.
#[async_trait]
pub trait Office: Send + Sync {
    async fn send(&self, message: Message) -> Result<Sent, Unsent>;
    /// Mail to one agent or to all of a tree.
    async fn mail(&self, mail: Mail) -> Result<Mailed, Error>;
    /// A steer letter to a child.
    async fn steer(&self, child: &SessionId, text: &str) -> Result<(), Error>;
    /// Ends a child's run and everything below it. False when nothing was under way.
    async fn kill(&self, child: &SessionId) -> Result<bool, Error>;
    /// Whether anything is under way that would wake this session again.
    async fn could_be_woken(&self) -> Result<bool, Error>;
}

/// The board of the caller's tree. A change is stored when it is answered, not with the call's result.
#[async_trait]
pub trait Board: Send + Sync {
    async fn list(&self, input: BoardListInput) -> Result<BoardPage, Error>;
    async fn add(&self, input: BoardAddInput) -> Result<BoardTask, Error>;
    async fn update(&self, input: BoardUpdateInput) -> Result<BoardTask, Error>;
    async fn claim(&self, input: BoardClaimInput) -> Result<BoardTask, Error>;
}

/// Commands of the caller that go on after the call that started them. They end with the session.
#[async_trait]
pub trait Background: Send + Sync {
    /// Starts one; all it prints goes to the file of the job.
    async fn start(&self, command: Command, words: &str) -> Result<Job, Error>;
    /// Those this gateway knows of, oldest first.
    fn jobs(&self) -> Vec<JobInfo>;
    /// Ends one with everything it started. `None`: there is none of that name.
    async fn stop(&self, id: &str) -> Option<JobInfo>;
}

/// A job as it is now.
#[derive(Debug, Clone)]
pub struct JobInfo {
    pub job: Job,
    pub state: JobState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// Since so many milliseconds.
    Running {
        ms: u64,
    },
    Ended(JobEnd),
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobEnd {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub timed_out: bool,
    /// Somebody ended it.
    pub stopped: bool,
    /// Bytes it printed.
    pub bytes: u64,
    pub ms: u64,
}

impl JobEnd {
    /// The words for it, as in "the job …".
    pub fn words(&self) -> String {
        let after = Duration::from_millis(self.ms).as_secs_f64();
        match (self.timed_out, self.stopped, self.code, self.signal) {
            (true, ..) => format!("was ended after {after:.1} s, its time limit"),
            (_, true, ..) => format!("was stopped after {after:.1} s"),
            (.., Some(code), _) => format!("ended with exit code {code} after {after:.1} s"),
            (.., Some(signal)) => format!("was killed by signal {signal} after {after:.1} s"),
            (.., None) => format!("ended after {after:.1} s, but how is not known"),
        }
    }
}

/// The tools the caller may use, for whoever looks for one.
pub trait Catalogue: Send + Sync {
    /// In the order of the tool list.
    fn cards(&self) -> &[ToolCard];
}

/// A message to another session.
#[derive(Debug, Clone)]
pub struct Message {
    pub key: Option<String>,
    pub label: Option<String>,
    pub agent: Option<String>,
    pub text: String,
    pub wait: Duration,
    pub delivery: Delivery,
    /// Words for the receiver's own mouth: they become its answer. Takes the right to control it.
    pub spoken: bool,
}

/// Mail as a tool or a person hands it in.
#[derive(Debug, Clone)]
pub struct Mail {
    pub to: String,
    pub say: Say,
    /// For people who watch.
    pub summary: Option<String>,
    pub notify_when_idle: bool,
}

/// What mail says: text, or one of the formal questions and answers (C6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Say {
    Text(String),
    Shutdown { reason: Option<String>, force: bool },
    ShutdownAnswer { request: String, approve: bool, reason: Option<String> },
    PlanAnswer { request: String, approve: bool, feedback: Option<String> },
}

/// What became of mail.
#[derive(Debug, Clone, Default)]
pub struct Mailed {
    pub receipts: Vec<MailReceipt>,
    /// The question's id, which its answer repeats.
    pub request: Option<String>,
    /// The sender's own answer to the question whether it may be shut down.
    pub shutdown: Option<bool>,
}

impl Mailed {
    /// `ok` when somebody gets it.
    pub fn status(&self) -> &'static str {
        let arrives = |receipt: &MailReceipt| !matches!(receipt.state, MailState::Refused | MailState::Unreachable);
        if self.receipts.is_empty() || self.receipts.iter().any(arrives) { "ok" } else { "error" }
    }
}

#[derive(Debug, Clone)]
pub struct Sent {
    pub run: RunId,
    pub session: SessionId,
    /// As models are shown it.
    pub key: String,
}

/// A message that was not sent: why, and to whom as far as that was clear.
#[derive(Debug, Clone)]
pub struct Unsent {
    pub run: RunId,
    pub key: Option<String>,
    pub error: Error,
}

/// Doors that are closed: for a tool that is run without a session around it.
pub struct Closed;

fn closed() -> Error {
    Error::new(proto::Code::Unavailable, "No session context")
}

#[async_trait]
impl Spawner for Closed {
    async fn spawn(&self, _: Spawn) -> Result<Spawned, Error> {
        Err(closed())
    }
}

#[async_trait]
impl Directory for Closed {
    async fn list(&self, _: ListInput) -> Result<ListOutput, Error> {
        Err(closed())
    }

    async fn history(&self, _: HistoryInput) -> Result<History, Error> {
        Err(closed())
    }

    async fn status(&self, _: Option<&str>) -> Result<StatusReport, Error> {
        Err(closed())
    }

    fn agents(&self) -> Vec<AgentRow> {
        Vec::new()
    }

    async fn children(&self) -> Result<Vec<SessionInfo>, Error> {
        Err(closed())
    }

    fn owner(&self) -> String {
        String::new()
    }

    async fn peers(&self) -> Result<Vec<PeerRow>, Error> {
        Err(closed())
    }
}

#[async_trait]
impl crate::worktree::Tenants for Closed {
    async fn busy_in(&self, _: &std::path::Path) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl Board for Closed {
    async fn list(&self, _: BoardListInput) -> Result<BoardPage, Error> {
        Err(closed())
    }

    async fn add(&self, _: BoardAddInput) -> Result<BoardTask, Error> {
        Err(closed())
    }

    async fn update(&self, _: BoardUpdateInput) -> Result<BoardTask, Error> {
        Err(closed())
    }

    async fn claim(&self, _: BoardClaimInput) -> Result<BoardTask, Error> {
        Err(closed())
    }
}

#[async_trait]
impl Background for Closed {
    async fn start(&self, _: Command, _: &str) -> Result<Job, Error> {
        Err(closed())
    }

    fn jobs(&self) -> Vec<JobInfo> {
        Vec::new()
    }

    async fn stop(&self, _: &str) -> Option<JobInfo> {
        None
    }
}

#[async_trait]
impl Office for Closed {
    async fn send(&self, _: Message) -> Result<Sent, Unsent> {
        Err(Unsent { run: RunId::new(), key: None, error: closed() })
    }

    async fn mail(&self, _: Mail) -> Result<Mailed, Error> {
        Err(closed())
    }

    async fn steer(&self, _: &SessionId, _: &str) -> Result<(), Error> {
        Err(closed())
    }

    async fn kill(&self, _: &SessionId) -> Result<bool, Error> {
        Err(closed())
    }

    async fn could_be_woken(&self) -> Result<bool, Error> {
        Err(closed())
    }
}

impl Catalogue for Closed {
    fn cards(&self) -> &[ToolCard] {
        &[]
    }
}
