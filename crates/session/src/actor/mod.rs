//! The actor: the sole owner of one session's log while it is awake.
//!
//! It wakes, drains its inbox, asks [`decide`] what comes next, does that, and commits. Everything it learns comes from
//! its own tasks (a model's reply, a call's outcome) or from its stored inbox. It never waits for a model, a tool or a
//! person while it could be reading letters.

mod again;
mod attempts;
mod calls;
mod compact;
mod control;
mod hooked;
mod housing;
mod jobs;
mod leave;
mod money;
mod names;
mod role;
mod runs;
mod stage;
#[cfg(test)]
mod tests;
mod think;
mod title;
mod undo;

use crate::decide::{Inbox, Limits, Next, decide};
use crate::hub::Hub;
use crate::registry::Handle;
use crate::runtime::Inner;
use crate::slots::SessionSlot;
use crate::transcript::Transcript;
use crate::view::View;
use crate::{fork, now, registry::Registry, steady};
use attempts::Admitted;
use calls::Called;
use compact::Summing;
use hooked::Weighed;
pub use names::may_read;
use proto::entry::Stored;
use proto::letter::Report;
use proto::{CallId, Entry, Event, RunId, SessionId, Status};
pub(crate) use role::Role;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::{AskChange, Batch, Fence, RunChange, Session};
use think::Mind;
use tokio::task::{Id, JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
pub(crate) use undo::busy;

/// How long an idle session stays in memory, so that a person's next prompt finds it warm.
const LINGER: Duration = Duration::from_secs(10);
/// How long work may take to stop once it is told to.
const GRACE: Duration = Duration::from_secs(5);

/// Why an actor ends.
#[derive(Debug)]
pub(crate) enum Leave {
    /// Nothing is left to do; it was removed from the registry.
    Asleep,
    /// The gateway is stopping.
    Stopped,
    /// Somebody else owns the session now.
    Fenced,
    /// The store cannot be written or read at the moment.
    Trouble(store::Error),
}

/// Why a step did not come to its end.
#[derive(Debug)]
enum Stop {
    /// Letters came in that the commit did not know of: look again.
    Unread,
    /// Something that was to be started or sent cannot be: its call is told so.
    Refused(store::Error),
    Leave(Leave),
}

impl From<store::Error> for Stop {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Unread(_) => Self::Unread,
            refused @ (store::Error::QueueFull(_)
            | store::Error::InboxTooLarge(_)
            | store::Error::OutboxFull { .. }
            | store::Error::Taken { .. }
            | store::Error::Overdrawn(_)
            | store::Error::Gone(_)) => Self::Refused(refused),
            store::Error::Fenced(_) | store::Error::NoSession(_) => Self::Leave(Leave::Fenced),
            store::Error::Closed => Self::Leave(Leave::Stopped),
            other => Self::Leave(Leave::Trouble(other)),
        }
    }
}

/// What a task of this actor came back with.
enum Outcome {
    /// The hooks of a run's beginning, and why it must not be.
    Greeted(Option<String>),
    Said(Option<Result<llm::Reply, llm::Error>>),
    /// A summary of the conversation.
    Summed(Option<Result<llm::Reply, llm::Error>>),
    Weighed(Box<Weighed>),
    Called(Box<Called>),
    /// A step that a crash cut off before has its room.
    Admitted(Admitted),
}

pub(crate) struct Actor {
    rt: Arc<Inner>,
    handle: Arc<Handle>,
    row: Session,
    fence: Fence,
    view: View,
    inbox: Inbox,
    talk: Talk,
    role: Arc<Role>,
    mind: Option<Mind>,
    tasks: JoinSet<Outcome>,
    /// Which call a task runs, for one that panics.
    running: HashMap<Id, CallId>,
    thinking: bool,
    /// How often the model call under way was made again.
    tried: u32,
    /// The entry behind which a crash cut off what is made again now.
    cut_off_at: Option<u64>,
    /// The entry behind which an attempt was counted by this gateway.
    counted_at: Option<u64>,
    /// A summary that is being written.
    summing: Option<Summing>,
    /// How often what is to be summed up was halved because it did not fit.
    squeezed: u32,
    /// Cancels all that is under way.
    work: CancellationToken,
    slot: Arc<SessionSlot>,
    gate: Arc<tokio::sync::Semaphore>,
    files: Arc<tools::files::Seen>,
    /// Who works on files for its calls.
    hands: tools::files::Hands,
    /// Who hears of the end of the run under way.
    report: Option<Report>,
    /// Children that calls have prepared and no commit has made yet.
    planned: Arc<AtomicU64>,
    /// The run whose beginning hooks were told.
    greeted: Option<RunId>,
    /// It has answered nothing yet.
    new: bool,
    /// Nobody has named it, and its first run is not over.
    unnamed: bool,
    /// What hooks are being told; the next news waits for it.
    telling: Option<JoinHandle<()>>,
    /// Since when the open question whether it may be shut down has been awake here.
    asked_to_end: Option<proto::Millis>,
    /// What was left to spend at the last look.
    look: Option<money::Look>,
    /// What the report of an end says of the session's own worktree.
    weighed: Option<proto::letter::WorktreeEnd>,
    /// That worktree was seen to after the last end.
    left: bool,
}

/// The conversation for the model: entries until a model is asked, fragments from then on.
enum Talk {
    Loaded(Vec<Stored>),
    Ready(Transcript),
    /// Room was made: to be written anew from the store.
    Stale,
}

impl Actor {
    /// Reads the session and works until there is nothing left to do.
    pub(crate) async fn live(
        rt: Arc<Inner>,
        session: SessionId,
        handle: Arc<Handle>,
        stop: CancellationToken,
    ) -> Leave {
        handle.take_dirty();
        let mut actor = match rt.store.wake(&session).await {
            // Other drivers have owners of their own.
            Ok(awake) if awake.row.driver != "loop" => return Leave::Fenced,
            Ok(awake) => Self::of(rt, handle, awake),
            Err(store::Error::NoSession(_)) => return Leave::Fenced,
            Err(error) => return Leave::Trouble(error),
        };
        let leave = match actor.recover().await {
            Ok(()) | Err(Stop::Unread) => actor.work_until(stop).await,
            Err(Stop::Refused(error)) => Leave::Trouble(error),
            Err(Stop::Leave(leave)) => leave,
        };
        actor.wind_down(&leave).await;
        leave
    }

    fn of(rt: Arc<Inner>, handle: Arc<Handle>, awake: store::Awake) -> Self {
        let entries = fork::standing(&awake.row, awake.entries);
        let mut view = View::of(entries.iter().map(|stored| (stored.seq, &stored.entry)));
        view.set_paused(awake.row.status == Status::Paused);
        view.disown_jobs(awake.row.fork.as_ref().map_or(0, |fork| fork.seq));
        let new = is_new(&awake.row, &entries);
        let unnamed = new && awake.row.title.is_none() && awake.row.parent.is_none();
        let mut inbox = Inbox::default();
        inbox.extend(awake.inbox);
        let role = Role::new(&rt, &awake.row, view.agent().unwrap_or(&awake.row.agent));
        Self {
            slot: Arc::new(SessionSlot::new(&rt.slots, &awake.row.root)),
            hands: rt.hands.of_another(),
            gate: Arc::new(tokio::sync::Semaphore::new(rt.limits.calls.max(1) as usize)),
            talk: Talk::Loaded(entries),
            row: awake.row,
            fence: Fence::Claim,
            mind: None,
            tasks: JoinSet::new(),
            running: HashMap::new(),
            thinking: false,
            tried: 0,
            cut_off_at: None,
            counted_at: None,
            summing: None,
            squeezed: 0,
            work: CancellationToken::new(),
            files: Arc::default(),
            report: None,
            planned: Arc::default(),
            look: None,
            greeted: None,
            new,
            unnamed,
            telling: None,
            asked_to_end: None,
            weighed: None,
            left: false,
            rt,
            handle,
            view,
            inbox,
            role: Arc::new(role),
        }
    }

    async fn work_until(&mut self, stop: CancellationToken) -> Leave {
        loop {
            match self.advance().await {
                Ok(()) => {}
                Err(Stop::Unread) => continue,
                Err(Stop::Refused(error)) => return Leave::Trouble(error),
                Err(Stop::Leave(leave)) => return leave,
            }
            let idle = self.view.answering().is_none() && (self.inbox.is_empty() || self.view.paused());
            self.handle.set_busy(!idle);
            if idle {
                self.leave_worktree().await;
            }
            let deadline = self.next_deadline();
            let outcome = tokio::select! {
                () = stop.cancelled() => return Leave::Stopped,
                () = self.handle.hinted() => None,
                Some(outcome) = self.tasks.join_next_with_id() => Some(outcome),
                () = until(deadline) => None,
                () = tokio::time::sleep(LINGER), if idle => {
                    if self.registry().sleep(&self.row.id, &self.handle) { return Leave::Asleep }
                    None
                }
            };
            let Some(outcome) = outcome else { continue };
            match self.outcomes(outcome).await {
                Ok(()) | Err(Stop::Unread) => {}
                Err(Stop::Refused(error)) => return Leave::Trouble(error),
                Err(Stop::Leave(leave)) => return leave,
            }
        }
    }

    /// Does what comes next until something has to be waited for.
    async fn advance(&mut self) -> Result<(), Stop> {
        self.give_up_late_waits().await?;
        loop {
            self.read_inbox().await?;
            self.look_at_budget().await?;
            let next = decide(&self.view, &self.inbox, &self.limits());
            // A reply under way is a step: only control letters are taken before it ends.
            if self.thinking && next != Next::Obey {
                return Ok(());
            }
            match next {
                Next::RunSubtask | Next::Conclude | Next::CallModel if self.come_home().await? => {}
                Next::RunSubtask | Next::Conclude | Next::CallModel if self.greet() => return Ok(()),
                Next::Obey => self.obey().await?,
                Next::Settle | Next::Rest => return Ok(()),
                Next::Take(count) => self.take(count).await?,
                Next::Shelve => self.shelve().await?,
                Next::End => self.end_answered().await?,
                Next::Close => self.close().await?,
                Next::RunSubtask => self.dispatch_mentions().await?,
                Next::Spent => self.end_broke().await?,
                Next::Exhausted => self.end_exhausted().await?,
                Next::Hopeless => self.end_hopeless().await?,
                Next::Full => self.out_of_room().await?,
                Next::Compact if self.compact().await? => return Ok(()),
                Next::Conclude if self.think(think::Tools::Withheld).await? => return Ok(()),
                Next::CallModel if self.think(think::Tools::Offered).await? => return Ok(()),
                Next::Compact | Next::Conclude | Next::CallModel => {}
            }
        }
    }

    async fn read_inbox(&mut self) -> Result<(), Stop> {
        if self.handle.take_dirty() {
            let letters = self.rt.store.inbox(&self.row.id, self.inbox.read_up_to()).await?;
            self.inbox.extend(letters);
        }
        self.note_question();
        Ok(())
    }

    /// The clock of the question whether it may be shut down runs from when that came in: whoever is deep in a call does
    /// not read it, and is ended all the same.
    fn note_question(&mut self) {
        let open = self.view.shutdown().is_some() || self.inbox.asks_to_end();
        self.asked_to_end = open.then(|| self.asked_to_end.unwrap_or_else(steady));
    }

    /// Handles an outcome, and every other one that is ready: their entries share a commit.
    async fn outcomes(&mut self, first: Result<(Id, Outcome), tokio::task::JoinError>) -> Result<(), Stop> {
        let mut called = Vec::new();
        let mut next = Some(first);
        while let Some(outcome) = next {
            match outcome {
                Ok((id, Outcome::Called(outcome))) => {
                    self.running.remove(&id);
                    called.push(*outcome);
                }
                Ok((_, Outcome::Greeted(stopped))) => self.greeted(stopped).await?,
                Ok((_, Outcome::Said(said))) => self.said(said).await?,
                Ok((_, Outcome::Summed(said))) => self.summed(said).await?,
                Ok((id, Outcome::Admitted(admitted))) => {
                    self.running.remove(&id);
                    self.admitted(admitted).await?;
                }
                Ok((_, Outcome::Weighed(weighed))) => self.weighed(*weighed).await?,
                Err(error) => called.extend(self.panicked(&error)),
            }
            next = self.tasks.try_join_next_with_id();
        }
        if called.is_empty() { Ok(()) } else { self.called(called).await }
    }

    /// What those who watch are told of asks that a commit closes.
    fn settled(&self, batch: &Batch) -> Vec<Event> {
        let event = |change: &AskChange| match change {
            AskChange::Close { ask, reply, by } => {
                let (ask_id, session_id) = (ask.clone(), self.row.id.clone());
                Some(Event::Settled { ask_id, session_id, by: *by, reply: *reply })
            }
            AskChange::Open(_) => None,
        };
        batch.asks.iter().filter_map(event).collect()
    }

    /// The one way to write: to the store, then into the view, then to whoever is concerned.
    async fn commit(&mut self, mut batch: Batch) -> Result<(), Stop> {
        let view = self.preview(&batch);
        batch.at = now();
        if view.paused() {
            batch.row.status = Some(Status::Paused);
        } else if batch.row.status.is_none() {
            batch.row.status = view.busy_status();
        }
        let archived = batch.archive.clone();
        let (entries, consumed, row) = (batch.entries.clone(), batch.consume.clone(), batch.row.clone());
        let (opened, moved, leaves) =
            (batch.open.len() as u64, moved_runs(&batch), batch.send.iter().any(|parcel| parcel.fate.is_none()));
        let (news, settled) = (self.news(&batch), self.settled(&batch));
        let committed = match self.store(batch).await {
            Ok(committed) => committed,
            Err(store::Error::Unread(_)) => {
                // Whoever posted it may not have come to the hint yet.
                self.handle.mark_dirty();
                return Err(Stop::Unread);
            }
            Err(error) => return Err(error.into()),
        };
        self.handle.set_trouble(None);
        self.planned.fetch_sub(opened, Ordering::SeqCst);
        self.fence = Fence::Epoch(committed.epoch);
        let exchange = self.first_exchange(&entries);
        let over = self.view.answering().is_some() && view.answering().is_none();
        self.view = view;
        self.inbox.consumed(&consumed);
        self.note_question();
        self.talk.extend(self.row.seq, entries);
        self.changed(row, committed.seq);
        if let Some((run, answer)) = exchange {
            self.name_after(&run, &answer);
        }
        self.tell_waiters(&moved);
        archived.iter().for_each(|gone| self.rt.drop_attachments(&self.row.root, gone));
        committed.returned.iter().for_each(|task| self.rt.tell_board(&self.row.root, task));
        if leaves {
            self.rt.outbox.posted();
        }
        settled.iter().for_each(|event| self.hub().publish(&self.row.root, event));
        news.into_iter().for_each(|news| self.tell_hooks(news));
        for receipt in committed.receipts.iter().filter(|receipt| !receipt.duplicate) {
            self.rt.wake(&receipt.to);
        }
        // A child is there for its run: what it left running goes with it.
        if over && self.row.parent.is_some() {
            self.rt.jobs.end(&self.row.id).await;
        }
        Ok(())
    }

    /// Letters to a session that was hidden meanwhile reach nobody: the rest is committed without them, or this session
    /// could never end what it is doing.
    async fn store(&self, mut batch: Batch) -> Result<store::Committed, store::Error> {
        loop {
            let spare = (!batch.post.is_empty() || !batch.hold.is_empty()).then(|| batch.clone());
            match (self.rt.store.commit(&self.row.id, self.fence, batch).await, spare) {
                (Err(store::Error::NoSession(gone)), Some(spare)) if is_written_to(&spare, &gone) => {
                    return Err(store::Error::Gone(gone));
                }
                (Err(store::Error::NoSession(gone)), Some(spare)) if spare.post.iter().any(|p| p.letter.to == gone) => {
                    tracing::debug!(session = %self.row.id, %gone, "a letter reaches nobody");
                    batch = spare;
                    batch.post.retain(|post| post.letter.to != gone);
                }
                (committed, _) => return committed,
            }
        }
    }

    /// The view as it will be once `batch` is committed.
    fn preview(&self, batch: &Batch) -> View {
        let mut view = self.view.clone();
        for (entry, seq) in batch.entries.iter().zip(self.row.seq + 1..) {
            view.apply(seq, entry);
        }
        view
    }

    /// Keeps the row in step with what was stored, and tells watchers.
    fn changed(&mut self, change: store::RowChange, seq: u64) {
        self.row.seq = seq;
        if let Some(status) = change.status
            && status != self.row.status
        {
            self.row.status = status;
            let session_id = self.row.id.clone();
            self.hub().publish(&self.row.root, &Event::Status { session_id, status });
        }
        self.row.agent = change.agent.unwrap_or_else(|| self.row.agent.clone());
        self.row.model = change.model.or(self.row.model.take());
        self.row.cwd = change.cwd.unwrap_or_else(|| self.row.cwd.clone());
        self.row.worktree = change.worktree.unwrap_or_else(|| self.row.worktree.take());
        self.row.title = change.title.or(self.row.title.take());
        self.row.policy = change.policy.unwrap_or_else(|| self.row.policy.clone());
        self.row.halt = change.halt.unwrap_or(self.row.halt);
        self.row.started = change.started.or(self.row.started);
        self.row.base = change.base.unwrap_or(self.row.base);
        self.row.undone = change.undone.unwrap_or(self.row.undone);
        if let Some((attempts, seq)) = change.attempts {
            (self.row.attempts, self.row.attempt_seq) = (attempts, seq);
        }
    }

    /// Whoever waits for a run that ended, or that joined another, looks again.
    fn tell_waiters(&mut self, moved: &[String]) {
        if self.view.answering().is_none() {
            self.report = None;
            self.rt.waiters.tell(self.row.root.as_str());
        }
        moved.iter().for_each(|run| self.rt.waiters.tell(run));
    }

    /// When the next wait gives up, this session's own end included.
    fn next_deadline(&self) -> Option<proto::Millis> {
        self.view.next_deadline().into_iter().chain(self.end_deadline()).min()
    }

    /// When the patience of whoever asked this session to end is over.
    fn end_deadline(&self) -> Option<proto::Millis> {
        let grace = i64::try_from(self.rt.limits.shutdown_ms).unwrap_or(i64::MAX / 2);
        self.asked_to_end.map(|asked| asked.saturating_add(grace))
    }

    fn limits(&self) -> Limits {
        let auto = self.role.here.loaded.config.compaction.auto;
        let context = if auto { self.room() } else { 0 };
        Limits {
            steps: [self.role.profile.steps, self.view.answering().and_then(crate::view::Answering::most_steps)]
                .into_iter()
                .flatten()
                .min(),
            context,
            spent: self.spent().is_some(),
            stopped: self.row.halt == store::Halt::Stopped,
        }
    }

    /// Stops what is under way, and tells a restart that this was no crash.
    async fn wind_down(&mut self, leave: &Leave) {
        if !matches!(leave, Leave::Asleep) {
            self.stop_work().await;
        }
        if matches!(leave, Leave::Stopped) && self.view.answering().is_some() && self.row.attempts > 0 {
            let row = store::RowChange { attempts: Some((0, 0)), ..Default::default() };
            if let Err(stop) = self.commit(Batch { row, ..Batch::default() }).await {
                tracing::debug!(session = %self.row.id, ?stop, "could not note the graceful stop");
            }
        }
    }

    /// Cancels every task and returns what calls came back with.
    async fn stop_work(&mut self) -> Vec<Called> {
        self.work.cancel();
        let mut called = Vec::new();
        let ended = async {
            while let Some(outcome) = self.tasks.join_next().await {
                if let Ok(Outcome::Called(outcome)) = outcome {
                    called.push(*outcome);
                }
            }
        };
        if tokio::time::timeout(GRACE * 2, ended).await.is_err() {
            tracing::warn!(session = %self.row.id, "work did not stop in time and was dropped");
        }
        self.tasks.shutdown().await;
        self.running.clear();
        // Children that those calls prepared are not made any more.
        self.planned.store(0, Ordering::SeqCst);
        (self.thinking, self.tried, self.summing) = (false, 0, None);
        self.work = CancellationToken::new();
        called
    }

    fn registry(&self) -> &Registry {
        &self.rt.registry
    }

    fn hub(&self) -> &Hub {
        &self.rt.hub
    }
}

impl Talk {
    /// Adds entries that were kept behind `seq`.
    fn extend(&mut self, seq: u64, entries: Vec<Entry>) {
        let entries = entries.into_iter().zip(seq + 1..);
        match self {
            Self::Loaded(loaded) => loaded.extend(entries.map(|(entry, seq)| Stored { seq, at: now(), entry })),
            Self::Ready(transcript) => entries.for_each(|(entry, seq)| transcript.apply(seq, &entry)),
            Self::Stale => {}
        }
    }
}

/// Whether a session has answered nothing of its own: what it shares with the one it was forked from does not count.
fn is_new(row: &Session, entries: &[Stored]) -> bool {
    let shared = row.fork.as_ref().map_or(0, |fork| fork.seq);
    let own = |stored: &&Stored| stored.seq > shared;
    row.base <= shared
        && !entries.iter().filter(own).any(|stored| matches!(stored.entry, Entry::Reply(_) | Entry::Ended(_)))
}

/// Whether a call of the batch tells the model that it wrote to a session. That must not be said of one that is gone.
fn is_written_to(batch: &Batch, gone: &SessionId) -> bool {
    let told = batch.entries.iter().any(|entry| match entry {
        Entry::Result(result) => result.wrote.contains(gone),
        Entry::Waiting(waiting) => matches!(&waiting.on, proto::entry::On::Run { session, .. } if session == gone),
        _ => false,
    });
    told || batch.hold.iter().any(|hold| hold.letter.to == *gone)
}

/// Runs that a batch ends or lets join another.
fn moved_runs(batch: &Batch) -> Vec<String> {
    let moved = |change: &RunChange| match change {
        RunChange::Alias { run, .. } => Some(run.to_string()),
        RunChange::End(end) => Some(end.run.to_string()),
        RunChange::Start { .. } | RunChange::Spend { .. } => None,
    };
    batch.runs.iter().filter_map(moved).collect()
}

/// Resolves when a deadline passes, or a little earlier; never without one.
async fn until(deadline: Option<proto::Millis>) {
    /// A sleeping machine does not count what it sleeps through: looked at anew now and then.
    const GLANCE: Duration = Duration::from_secs(30);
    match deadline {
        Some(at) => {
            tokio::time::sleep(Duration::from_millis(u64::try_from(at - steady()).unwrap_or(0)).min(GLANCE)).await;
        }
        None => std::future::pending().await,
    }
}
