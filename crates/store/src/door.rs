//! The door itself: what a backend is asked, and the words for it.

use crate::purse::Purse;
use crate::{
    BoardChange, BoardQuery, Fate, Held, HeldQuery, HeldState, Hold, OutboxQuery, Parcel, Refused, Release, Sent,
    SentQuery,
};
use async_trait::async_trait;
use proto::entry::Stored;
use proto::letter::{AskReply, Report, Sender};
use proto::{
    AskId, BoardTask, Body, CallId, Class, Code, Entry, Letter, LetterId, Millis, Outcome, RunId, SessionId, Status,
    Usage, Worktree,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Keeps sessions. Every method may be called from many tasks at once.
///
/// A backend must apply a commit or a delivery whole or not at all, and must not answer `Ok` before it would survive a
/// power cut. Commits of one session are refused unless their fence holds. Readers must never block the writer.
#[async_trait]
pub trait Store: Send + Sync {
    /// The only write to a session by its owner.
    async fn commit(&self, session: &SessionId, fence: Fence, batch: Batch) -> Result<Committed, Error>;

    /// The only write from outside: new sessions, and letters to any.
    async fn deliver(&self, mail: Mail) -> Result<Vec<Receipt>, Error>;

    /// The only write to a tree's board, but for claims that end with their holder: those are part of the commit in which
    /// a session ends or is archived.
    async fn change_board(&self, change: BoardChange) -> Result<BoardTask, Error>;

    /// Tasks of a tree, by number.
    async fn board(&self, root: &SessionId, query: &BoardQuery) -> Result<Vec<BoardTask>, Error>;

    /// All that an actor needs to go on: the row, the log since the last compaction (a fork's prefix included), the
    /// inbox in order, and the open asks.
    async fn wake(&self, session: &SessionId) -> Result<Awake, Error>;

    /// Unread letters in order, after the given inbox position. What they say stays where it is, but for control letters.
    async fn inbox(&self, session: &SessionId, after: u64) -> Result<Vec<(u64, Unread)>, Error>;

    /// Unread letters of a session, whole, in the order they are named in. One that was taken is left out.
    async fn letters(&self, session: &SessionId, ids: &[LetterId]) -> Result<Vec<Letter>, Error>;

    async fn session(&self, session: &SessionId) -> Result<Option<Session>, Error>;

    /// Sessions that one selector names (live ones for a label), at most 10.
    async fn find(&self, what: &Find) -> Result<Vec<Session>, Error>;

    /// A page, newest activity first. Cost is that of the page, whatever is stored.
    async fn list(&self, query: &Query) -> Result<Page, Error>;

    /// A root and its descendants, in order of birth, at most `limit`.
    async fn tree(&self, root: &SessionId, limit: usize) -> Result<Vec<Session>, Error>;

    /// Busy descendants of a session, nearest first; for cancelling and for knowing when a tree is quiet.
    async fn busy_below(&self, session: &SessionId, limit: usize) -> Result<Vec<SessionId>, Error>;

    /// Whether neither a session nor anything below it is busy, seen at one moment: a child that ends and the parent that
    /// its end wakes are never both seen at rest.
    async fn is_quiet(&self, session: &SessionId) -> Result<bool, Error>;

    /// Sessions that are busy in a directory or below it, and those that entered it as their worktree, at most `limit`.
    /// Archived ones never.
    async fn inside(&self, dir: &str, limit: usize) -> Result<Vec<Session>, Error>;

    /// How many direct children are live: neither ended nor archived.
    async fn live_children(&self, session: &SessionId) -> Result<u64, Error>;

    /// The next entry that `kept_since` would return, without its body.
    async fn kept_next(&self, root: Option<&SessionId>, cursor: u64) -> Result<Option<Ahead>, Error>;

    /// Entries of one session (a fork's prefix included), by position. A page with a limit ends after [`PAGE_BYTES`] as
    /// well, but has at least one entry where there is one.
    async fn entries(&self, session: &SessionId, span: Span) -> Result<Vec<Stored>, Error>;

    /// Letters kept back for a person, newest first.
    async fn held(&self, query: &HeldQuery) -> Result<Vec<Held>, Error>;

    /// The addresses on other gateways that mail waits for, the one with the oldest first.
    async fn outbox_addresses(&self, limit: usize) -> Result<Vec<String>, Error>;

    /// Mail that waits for one address, oldest first.
    async fn outbox(&self, address: &str, limit: usize) -> Result<Vec<Parcel>, Error>;

    /// Mail to other gateways, settled or not, newest first.
    async fn outgoing(&self, query: &OutboxQuery) -> Result<Vec<Parcel>, Error>;

    /// Mail to other gateways that was settled before a moment, oldest first.
    async fn settled_before(&self, moment: Millis, limit: usize) -> Result<Vec<LetterId>, Error>;

    /// Letters from session to session, newest first.
    async fn sent(&self, query: &SentQuery) -> Result<Vec<Sent>, Error>;

    /// A run; an alias leads to the run it joined.
    async fn run(&self, run: &RunId) -> Result<Option<Run>, Error>;

    /// Open asks of a tree, or of all, oldest first.
    async fn asks(&self, root: Option<&SessionId>) -> Result<Vec<Ask>, Error>;

    /// One ask, open or answered.
    async fn ask(&self, ask: &AskId) -> Result<Option<Ask>, Error>;

    /// Sessions that a restart must wake: busy ones, and those with unread letters. By id, after the given one.
    async fn unfinished(&self, after: Option<&SessionId>, limit: usize) -> Result<Vec<SessionId>, Error>;

    /// Whether the stored waits lead from one session to another; from a session to itself, they are a circle.
    async fn waits_for(&self, from: &SessionId, to: &SessionId) -> Result<bool, Error>;

    /// Whether a run is under way whose end this session will be told of.
    async fn awaits_news(&self, session: &SessionId) -> Result<bool, Error>;

    /// Whether any session will be told of the end of a run that is under way or waits to begin.
    async fn owes_news(&self) -> Result<bool, Error>;

    /// A run's purse, and those above it that it was taken from, nearest first. Empty when there is no such run.
    async fn purses(&self, run: &RunId) -> Result<Vec<Purse>, Error>;

    /// Kept entries of a tree (or of all) after a cursor, oldest first.
    ///
    /// A page ends after [`PAGE_BYTES`] as well, but has at least one entry where there is one.
    async fn kept_since(&self, root: Option<&SessionId>, cursor: u64, limit: usize) -> Result<Vec<Kept>, Error>;

    /// The newest cursor.
    async fn cursor(&self) -> Result<u64, Error>;

    /// The cursor just before the entry a letter became: whoever watches from there misses nothing that came of it. The
    /// newest one while the letter is unread, or when there is none of that id.
    async fn cursor_before(&self, letter: &LetterId) -> Result<u64, Error>;

    /// Looks for damage; an empty list means none was found.
    async fn check(&self) -> Result<Vec<String>, Error>;

    /// How the writing goes. A store without a disk has nothing to tell.
    fn commits(&self) -> crate::Commits {
        crate::Commits::default()
    }

    /// Waits until everything accepted so far is on disk, and closes. Later calls answer `Closed`.
    async fn close(&self);
}

/// Called by a backend after each commit, in cursor order, with what was kept: first kept, then seen.
pub type OnKept = Arc<dyn Fn(&[Kept]) + Send + Sync>;

/// Why a store did not do it. The variants are the branches callers take.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Another owner has the session now: drop everything that belongs to it.
    #[error("session `{0}` is owned by somebody else now")]
    Fenced(SessionId),
    /// Letters arrived that the commit did not know of: read the inbox and decide again.
    #[error("session `{0}` has unread letters")]
    Unread(SessionId),
    #[error("no session `{0}`")]
    NoSession(SessionId),
    /// The receiver of a message was hidden meanwhile.
    #[error("session `{0}` was archived or deleted, so it gets no messages")]
    Gone(SessionId),
    /// It works, or has letters to read.
    #[error("session `{0}` is busy")]
    Busy(SessionId),
    /// A key, label or letter id is taken.
    #[error("{what} is taken by `{holder}`")]
    Taken { what: String, holder: String },
    /// The same call was made before; this is what it was answered.
    #[error("this call was made before")]
    Repeated { answer: String },
    #[error("no held message `{0}`")]
    NoLetter(LetterId),
    /// A held letter was decided before, or nobody decided in time.
    #[error("the message `{letter}` is no longer held: it {}", match state {
        HeldState::Accepted => "was accepted",
        HeldState::Refused => "was refused",
        HeldState::Expired | HeldState::Held => "has expired",
    })]
    Released { letter: LetterId, state: HeldState },
    /// The board stays as it is, and this is why.
    #[error("{0}")]
    Board(Box<Refused>),
    /// More was to be taken out of a purse than is left in it.
    #[error("the budget does not reach: {0}")]
    Overdrawn(String),
    /// The receiver's inbox is full.
    #[error("the inbox of `{0}` is full")]
    QueueFull(SessionId),
    /// Too many messages wait for other gateways, or too much text.
    #[error("{count} messages with {} KiB wait for {to}, which is the most that may wait", bytes >> 10)]
    OutboxFull { to: String, count: u64, bytes: u64 },
    /// The receiver's inbox holds too much text.
    #[error("the unread messages of `{0}` are too large together")]
    InboxTooLarge(SessionId),
    /// No room, no permission, an I/O error: nothing was changed.
    #[error("cannot write to the store: {message}")]
    Disk { message: String, hint: String },
    /// The file is not what it should be. It is left as it is.
    #[error("the database `{path}` is damaged: {message}")]
    Damaged { path: String, message: String },
    /// Written by a newer Convoke.
    #[error("the database `{path}` has schema {found}, this convoke knows up to {known}")]
    Newer { path: String, found: u32, known: u32 },
    /// Written by an older Convoke, or not yet written to the end.
    #[error("the database has schema {found}, older than this convoke's")]
    Outdated { found: u32 },
    /// Another process owns the data directory.
    #[error("the data directory `{path}` is in use by another convoke{}", holder.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Locked { path: String, holder: Option<u32> },
    #[error("the store is closed")]
    Closed,
    #[error("{0}")]
    Internal(String),
}

impl Error {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Disk { hint, .. } => hint.clone(),
            Self::Damaged { .. } => {
                "nothing was changed; copy the file away, then run `convoke db check` for the details".into()
            }
            Self::Newer { .. } => "use the newer convoke that wrote it, or another CONVOKE_HOME".into(),
            Self::Busy(_) => "wait for it, or stop it: `convoke kill`".into(),
            Self::Outdated { .. } => "start the gateway once to bring it up to date: `convoke serve`".into(),
            Self::Board(refused) => refused.hint()?.into(),
            Self::NoLetter(_) => "`convoke mail list` shows what is held".into(),
            Self::Released { .. } => "nothing was changed; ask the sender to write again if it is still wanted".into(),
            Self::Locked { .. } => "stop that process, or use another CONVOKE_HOME".into(),
            Self::InboxTooLarge(_) => {
                format!(
                    "try again once it has read some; large messages have at most {} MiB together",
                    INBOX_BYTES >> 20
                )
            }
            Self::OutboxFull { .. } => {
                "try again when the other gateway answers; `convoke mail list --state queued` shows what waits".into()
            }
            Self::QueueFull(_) => "try again once it has read some; `limits.queue` says how many it holds".into(),
            _ => return None,
        })
    }
}

/// What a refusal means to a caller of the gateway.
impl From<Error> for proto::Error {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::NoSession(_) | Error::Gone(_) | Error::NoLetter(_) => Code::NotFound,
            Error::Taken { .. }
            | Error::Unread(_)
            | Error::Fenced(_)
            | Error::Busy(_)
            | Error::Repeated { .. }
            | Error::Released { .. } => Code::Conflict,
            Error::Board(refused) => refused.code(),
            Error::QueueFull(_) | Error::InboxTooLarge(_) | Error::OutboxFull { .. } => Code::LimitRate,
            Error::Overdrawn(_) => Code::LimitBudget,
            Error::Disk { .. } | Error::Locked { .. } | Error::Closed => Code::Unavailable,
            Error::Damaged { .. } | Error::Newer { .. } | Error::Outdated { .. } | Error::Internal(_) => Code::Internal,
        };
        let details = match &error {
            Error::Board(refused) => refused.task().map(|task| serde_json::json!({ "task": task })),
            _ => None,
        };
        // Full inboxes empty as they are read; anything else has to change first.
        let retry_after_ms =
            matches!(error, Error::QueueFull(_) | Error::InboxTooLarge(_) | Error::OutboxFull { .. }).then_some(1_000);
        let retryable = retry_after_ms.is_some();
        Self { hint: error.hint(), details, retryable, retry_after_ms, ..Self::new(code, error.to_string()) }
    }
}

/// A session's row.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Session {
    pub id: SessionId,
    /// Canonical key; unique.
    pub key: String,
    /// The key's agent; never changes.
    pub owner: String,
    /// What it runs as now.
    pub agent: String,
    /// The session's own choice; `None` follows the agent and the config.
    pub model: Option<String>,
    pub parent: Option<SessionId>,
    pub root: SessionId,
    pub depth: u32,
    /// Ids from the root down to this one, each followed by `/`: descendants are a range.
    pub path: String,
    /// `main`, `group`, `cron`, `hook`, `node` or `other`.
    pub kind: String,
    /// `loop`; `acp` and `outside` come later.
    pub driver: String,
    pub mode: Mode,
    pub title: Option<String>,
    pub label: Option<String>,
    /// What the agents of its tree call it. Of the live ones of a tree, one has it; those that ended keep it as well.
    pub name: Option<String>,
    /// Whether it was ended for good, until somebody starts it again.
    #[serde(default)]
    pub halt: Halt,
    pub cwd: String,
    /// The worktree it entered; `cwd` is in it then.
    pub worktree: Option<Worktree>,
    /// What the session may do, as `rules` wrote it; opaque here.
    pub policy: String,
    /// The session this one shares a prefix with, and up to where.
    pub fork: Option<Fork>,
    pub archived: bool,
    /// To be archived once its end was told to whoever started it.
    pub cleanup: bool,
    pub status: Status,
    /// The run under way.
    pub run: Option<RunId>,
    pub created: Millis,
    /// Bumped once per run.
    pub activity: Millis,
    pub started: Option<Millis>,
    pub ended: Option<Millis>,
    /// The newest entry; a fork goes on counting where its prefix ends.
    pub seq: u64,
    /// The first entry that waking reads.
    pub base: u64,
    /// The newest entry that undid something or took that back; 0 without one.
    pub undone: u64,
    /// Unread letters.
    pub pending: u32,
    /// Grows with each change of owner.
    pub epoch: u64,
    pub usage: Usage,
    pub context_tokens: u64,
    /// Restarts since the log last grew, and where it stood.
    pub attempts: u32,
    pub attempt_seq: u64,
}

/// What a session is after a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Ended; mail can resume it.
    Run,
    /// Idle and open.
    Session,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    pub of: SessionId,
    pub seq: u64,
}

/// Proof of ownership that a commit carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// Take the session over: the epoch grows and the old owner's commits fail from here on.
    Claim,
    /// Go on as its owner.
    Epoch(u64),
}

/// One commit. Empty parts change nothing.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    pub at: Millis,
    /// Appended in order at the next `seq`.
    pub entries: Vec<Entry>,
    /// Letters moved out of the inbox. Their ids stay, their bodies go. One that is not unread is `Fenced`.
    pub consume: Vec<LetterId>,
    /// Fails with `Unread` unless exactly this many letters stay unread after `consume`.
    pub expect_unread: Option<u32>,
    pub open: Vec<Session>,
    pub post: Vec<Post>,
    /// Letters to keep back until a person lets them in.
    pub hold: Vec<Hold>,
    pub runs: Vec<RunChange>,
    pub asks: Vec<AskChange>,
    pub waits: Vec<WaitChange>,
    /// Mail to other gateways, to be kept until they have it.
    pub send: Vec<Parcel>,
    /// Sessions to hide: children whose end this commit takes in.
    pub archive: Vec<SessionId>,
    pub row: RowChange,
}

/// Changes to the session's own row; `None` leaves a column alone.
#[derive(Debug, Default, Clone)]
pub struct RowChange {
    pub status: Option<Status>,
    /// `Some(None)` clears it.
    pub run: Option<Option<RunId>>,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub cwd: Option<String>,
    /// `Some(None)` clears it.
    pub worktree: Option<Option<Worktree>>,
    pub title: Option<String>,
    pub policy: Option<String>,
    pub halt: Option<Halt>,
    pub base: Option<u64>,
    pub undone: Option<u64>,
    pub activity: Option<Millis>,
    pub started: Option<Millis>,
    pub ended: Option<Option<Millis>>,
    /// Added to what was used.
    pub spent: Option<Usage>,
    pub context_tokens: Option<u64>,
    pub attempts: Option<(u32, u64)>,
}

/// Letters and sessions from outside.
///
/// Receipts come in the order `post`, `hold`, and then what `release` let in.
#[derive(Debug, Default)]
pub struct Mail {
    pub at: Millis,
    /// The caller's idempotency key: a second delivery with it changes nothing and is `Repeated`.
    pub once: Option<Once>,
    /// Sessions to put away, before any are opened.
    pub retire: Vec<Retire>,
    /// Sessions that get another label, or none.
    pub label: Vec<(SessionId, Option<String>)>,
    pub open: Vec<Session>,
    pub post: Vec<Post>,
    /// Letters to keep back until a person lets them in.
    pub hold: Vec<Hold>,
    /// What a person decided about held letters.
    pub release: Vec<Release>,
    /// Mail to other gateways, to be kept until they have it.
    pub send: Vec<Parcel>,
    /// What became of such mail, so that it waits no longer.
    pub sent: Vec<(LetterId, Fate)>,
    /// Settled mail to other gateways to be removed.
    pub forget: Vec<LetterId>,
}

/// A session to put away with all below it: they stay readable by their ids, are listed no more, and no letter reaches
/// them. `Busy` while one of them works or has unread letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retire {
    pub session: SessionId,
    /// Its key and its label are given back, for another to take.
    pub free: bool,
}

/// A call that counts once, and what its caller is told however often it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    pub key: String,
    pub answer: String,
}

#[derive(Debug, Clone)]
pub struct Post {
    pub letter: Letter,
    /// A person's text: a request when the receiver is idle, a steer when it is busy, decided in the transaction.
    pub person: bool,
    /// The most unread letters the receiver may hold: with that many it is full. `None` for control letters and completions.
    pub queue: Option<u32>,
}

/// What became of a posted letter.
#[derive(Debug, Clone)]
pub struct Receipt {
    pub letter: LetterId,
    pub to: SessionId,
    pub class: Class,
    /// It was there already; nothing changed.
    pub duplicate: bool,
    /// The receiver is paused: it reads this when it is resumed, and need not be woken.
    pub paused: bool,
}

#[derive(Debug, Clone)]
pub struct Committed {
    pub epoch: u64,
    /// The `seq` of the session after the commit.
    pub seq: u64,
    pub receipts: Vec<Receipt>,
    /// Tasks of the board that are free again, because who held them has ended.
    pub returned: Vec<BoardTask>,
}

/// The handling of one request letter.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    pub id: RunId,
    pub session: SessionId,
    pub root: SessionId,
    pub report: Option<Report>,
    pub created: Millis,
    pub started: Option<Millis>,
    pub ended: Option<Millis>,
    pub outcome: Option<Outcome>,
    pub code: Option<Code>,
    pub message: Option<String>,
    pub hint: Option<String>,
    /// The entry that holds the final answer.
    pub answer: Option<u64>,
    pub usage: Usage,
}

/// A posted prompt makes its run `queued` by itself; these move it on.
#[derive(Debug, Clone)]
pub enum RunChange {
    /// Makes the row if there is none (mail that opens a run).
    Start {
        run: RunId,
        report: Option<Report>,
        purse: Option<proto::letter::Purse>,
    },
    /// Added to what the run has used; its end says the whole.
    Spend {
        run: RunId,
        usage: Usage,
    },
    /// A steered prompt joined the run under way.
    Alias {
        run: RunId,
        of: RunId,
    },
    End(RunEnd),
}

#[derive(Debug, Clone)]
pub struct RunEnd {
    pub run: RunId,
    pub outcome: Outcome,
    pub code: Option<Code>,
    pub message: Option<String>,
    pub hint: Option<String>,
    pub answer: Option<u64>,
    pub usage: Usage,
}

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    pub id: AskId,
    pub session: SessionId,
    pub root: SessionId,
    pub call: CallId,
    pub agent: String,
    pub tool: String,
    pub permission: String,
    pub patterns: Vec<String>,
    /// What "always" could keep: a text for each choice. In asks of older programs, patterns of this permission.
    pub always: Vec<String>,
    /// What the first choice would keep, one for each pattern; empty in asks of older programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<proto::Rule>,
    /// All choices; empty in asks of older programs, and where nothing can be kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keeps: Vec<Vec<proto::Rule>>,
    /// What is known about the call; nothing in asks of older programs.
    #[serde(default)]
    pub about: proto::methods::AskAbout,
    pub created: Millis,
    pub until: Millis,
    pub reply: Option<AskReply>,
    /// The session that is asked, beside the person: the lead whose plan it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<SessionId>,
    /// What the model wants to know; without any, it wants to be allowed something.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<proto::Question>,
}

impl Ask {
    /// What "always" could keep, the narrowest first.
    pub fn choices(&self) -> Vec<Vec<proto::Rule>> {
        let kept = |pattern: &String| proto::Rule::new(&self.permission, pattern, proto::Action::Allow);
        match (self.keeps.is_empty(), self.rules.is_empty()) {
            (false, _) => self.keeps.clone(),
            (true, true) if self.always.is_empty() => Vec::new(),
            (true, true) => vec![self.always.iter().map(kept).collect()],
            (true, false) if self.rules.iter().any(|rule| rule.pattern.is_empty()) => Vec::new(),
            (true, false) => vec![self.rules.clone()],
        }
    }
}

#[derive(Debug, Clone)]
pub enum AskChange {
    Open(Box<Ask>),
    /// Without a reply: withdrawn.
    Close {
        ask: AskId,
        reply: Option<AskReply>,
        /// For those who watch; it is not kept.
        by: proto::event::SettledBy,
    },
}

#[derive(Debug, Clone)]
pub enum WaitChange {
    Add { call: CallId, on: SessionId },
    Remove { call: CallId },
}

#[derive(Debug, Clone)]
pub struct Awake {
    pub row: Session,
    pub entries: Vec<Stored>,
    pub inbox: Vec<(u64, Unread)>,
    pub asks: Vec<Ask>,
}

/// An unread letter as its session knows it until it takes it.
#[derive(Debug, Clone)]
pub struct Unread {
    pub id: LetterId,
    pub class: Class,
    pub from: Sender,
    /// It asks whether the session may be shut down.
    pub asks_to_end: bool,
    pub bytes: usize,
    /// All of a control letter, which is obeyed at once.
    pub control: Option<Box<Letter>>,
}

impl Unread {
    /// Of a letter with so many bytes.
    pub fn of(letter: Letter, bytes: usize) -> Self {
        let asks_to_end = matches!(&letter.body, Body::Prompt(prompt) if prompt.shutdown.is_some());
        let (id, class, from) = (letter.id.clone(), letter.class, letter.from.clone());
        let control = (class == Class::Control).then(|| Box::new(letter));
        Self { id, class, from, asks_to_end, bytes, control }
    }
}

/// Why a session is no longer a member of its tree, though it could go on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Halt {
    #[default]
    No,
    /// A person stopped it: mail does not wake it again, a person's prompt does.
    Stopped,
    /// It was shut down: a message to everybody does not reach it, a message to it does.
    Closed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Find {
    Key(String),
    /// The label of a session, finished or not, of one owner agent or of any.
    Label {
        label: String,
        owner: Option<String>,
    },
    /// Whoever has or had this name in a tree, newest first.
    Named {
        root: SessionId,
        name: String,
    },
    /// The sessions with this name in any tree: the newest holder of each of the newest trees, newest first.
    Called {
        name: String,
    },
    /// Sessions whose id ends so, newest first. Fewer than [`MIN_ENDING`] characters find nothing.
    Ending(String),
    /// Sessions of a tree that have a name, by name, at most so many.
    Members {
        root: SessionId,
        limit: usize,
    },
    /// The newest root session of this directory: one that went into a worktree still belongs to where it came from.
    NewestIn(String),
    /// The newest root session.
    Newest,
}

/// The shortest end of an id that finds a session.
pub const MIN_ENDING: usize = 4;

/// Which sessions a page shows. Archived ones never.
#[derive(Debug, Clone, Default)]
pub struct Query {
    pub limit: usize,
    /// From the page before.
    pub after: Option<PageKey>,
    pub scope: Scope,
    pub kinds: Vec<String>,
    pub active_since: Option<Millis>,
    pub label: Option<String>,
    pub parent: Option<SessionId>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Scope {
    #[default]
    All,
    /// The sessions of one owner agent.
    Owner(String),
    /// A session and its descendants.
    Below(SessionId),
}

/// Where a page ended: activity and id of its last row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageKey {
    pub activity: Millis,
    pub id: SessionId,
}

#[derive(Debug, Clone, Default)]
pub struct Page {
    pub sessions: Vec<Session>,
    /// There may be more after this.
    pub next: Option<PageKey>,
    /// The keys of each session's children, newest first, at most 100 each.
    pub children: Vec<Vec<String>>,
}

/// Which entries of a session: newest first from `before`, or oldest first from `after`.
#[derive(Debug, Clone, Copy)]
pub enum Span {
    /// Entries with a smaller `seq`, the newest of them, returned in ascending order.
    Before { seq: u64, limit: usize },
    /// Entries with a larger `seq`, ascending.
    After { seq: u64, limit: usize },
}

/// How many bytes of entries a page has, unless a single one has more.
pub const PAGE_BYTES: usize = 1 << 20;

/// The most that unread letters of one session may have together, as far as they are large.
pub const INBOX_BYTES: u64 = 48 << 20;

/// Letters below this are bounded by their number.
pub const LARGE_LETTER: usize = 32 << 10;

/// A kept entry that was not read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    pub cursor: u64,
    pub session: SessionId,
    pub bytes: usize,
}

/// A kept entry, as watchers are told: the stored bytes and their place in the stream of all entries.
#[derive(Debug, Clone)]
pub struct Kept {
    pub cursor: u64,
    pub session: SessionId,
    pub root: SessionId,
    pub seq: u64,
    pub at: Millis,
    pub body: Arc<str>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::{Action, Rule};
    use serde_json::json;

    /// As programs wrote it before an ask carried its call.
    #[test]
    fn an_ask_of_an_older_program_is_read_and_can_be_answered() {
        let mut old = json!({
            "id": "ask_1", "session": SessionId::new(), "root": SessionId::new(), "call": CallId::new(),
            "agent": "build", "tool": "bash", "permission": "bash", "patterns": ["git push"], "always": ["git push *"],
            "created": 1, "until": 2, "reply": null,
        });
        let ask: Ask = serde_json::from_value(old.clone()).unwrap();
        assert_eq!(ask.choices(), [[Rule::new("bash", "git push *", Action::Allow)]]);
        assert_eq!(ask.about, proto::methods::AskAbout::default());
        old["rules"] = json!([{ "permission": "bash", "pattern": "", "action": "allow" }]);
        let ask: Ask = serde_json::from_value(old).unwrap();
        assert!(ask.choices().is_empty(), "wildcards are never kept");
    }
}
