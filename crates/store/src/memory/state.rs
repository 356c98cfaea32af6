//! The tables in memory, and what a commit and a delivery do to them.

use super::messages::HeldRow;
use super::purses;
use super::table::Table;
use crate::outbox::{Load, check_room};
use crate::purse::check_purses;
use crate::ready::{Asking, Consume, Done, Posting, Ready, fork_from_nowhere, rests};
use crate::{Ask, Error, Fence, Kept, Parcel, Receipt, Retire, RowChange, Run, RunChange, RunEnd, Session, WaitChange};
use crate::{INBOX_BYTES, LARGE_LETTER};
use proto::letter::{Purse, Report};
use proto::{AskId, BoardTask, CallId, Class, Letter, LetterId, Millis, RunId, SessionId, Status, Usage};
use std::sync::Arc;

#[derive(Default)]
pub(super) struct State {
    pub(super) sessions: Table<SessionId, Row>,
    /// By cursor.
    pub(super) kept: Table<u64, Kept>,
    /// A session's own entries, as cursors.
    pub(super) logs: Table<(SessionId, u64), u64>,
    pub(super) letters: Table<LetterId, Stored>,
    pub(super) unread: Table<(SessionId, u64), LetterId>,
    pub(super) held: Table<LetterId, HeldRow>,
    pub(super) runs: Table<RunId, RunRow>,
    pub(super) asks: Table<AskId, Ask>,
    pub(super) waits: Table<CallId, (SessionId, SessionId)>,
    pub(super) board: Table<(SessionId, u64), BoardTask>,
    /// In the order they came in.
    pub(super) outbox: Table<u64, Parcel>,
    /// Answers by idempotency key.
    pub(super) calls: Table<String, String>,
}

/// A session with its place in the order of births.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) born: u64,
    pub(super) session: Session,
}

/// A letter that was posted once; the body goes when it is consumed.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) place: u64,
    pub(super) to: SessionId,
    pub(super) class: Class,
    pub(super) sender: Option<String>,
    pub(super) posted: Millis,
    pub(super) consumed: Option<Millis>,
    pub(super) body: Option<Arc<str>>,
    /// Where in the log it became input.
    pub(super) input: Option<u64>,
}

impl Stored {
    pub(super) fn letter(&self) -> Result<Option<Letter>, Error> {
        let Some(body) = &self.body else { return Ok(None) };
        let mut letter: Letter = serde_json::from_str(body)
            .map_err(|error| Error::Internal(format!("a stored letter does not read back: {error}")))?;
        letter.class = self.class;
        Ok(Some(letter))
    }
}

#[derive(Clone)]
pub(super) struct RunRow {
    pub(super) run: Run,
    pub(super) alias_of: Option<RunId>,
    pub(super) purse: Option<Purse>,
}

impl State {
    /// Whole or not at all. Answers with the cursor before it.
    pub(super) fn apply(&mut self, work: &Ready) -> Result<(Done, u64), Error> {
        let before = self.cursor();
        let outcome = self.try_apply(work);
        match &outcome {
            Ok(_) => self.settle(),
            Err(_) => self.take_back(),
        }
        outcome.map(|done| (done, before))
    }

    fn settle(&mut self) {
        let Self { sessions, kept, logs, letters, unread, held, runs, asks, waits, board, outbox, calls } = self;
        outbox.settle();
        sessions.settle();
        kept.settle();
        logs.settle();
        letters.settle();
        unread.settle();
        held.settle();
        runs.settle();
        asks.settle();
        waits.settle();
        board.settle();
        calls.settle();
    }

    fn take_back(&mut self) {
        let Self { sessions, kept, logs, letters, unread, held, runs, asks, waits, board, outbox, calls } = self;
        outbox.take_back();
        sessions.take_back();
        kept.take_back();
        logs.take_back();
        letters.take_back();
        unread.take_back();
        held.take_back();
        runs.take_back();
        asks.take_back();
        waits.take_back();
        board.take_back();
        calls.take_back();
    }

    pub(super) fn cursor(&self) -> u64 {
        self.kept.rows().last_key_value().map_or(0, |(cursor, _)| *cursor)
    }

    pub(super) fn known(&self, id: &SessionId) -> Result<&Session, Error> {
        self.sessions.get(id).map(|row| &row.session).ok_or_else(|| Error::NoSession(id.clone()))
    }

    /// Bytes of what a session has not read.
    fn unread_bytes(&self, session: &SessionId) -> u64 {
        let places = (session.clone(), 0)..=(session.clone(), u64::MAX);
        let bodies = self.unread.rows().range(places).filter_map(|(_, id)| self.letters.get(id)?.body.as_ref());
        bodies.map(|body| body.len() as u64).sum()
    }

    fn try_apply(&mut self, work: &Ready) -> Result<Done, Error> {
        if let Some(change) = &work.board {
            return Ok(Done { task: Some(self.change_board(change)?), ..Done::default() });
        }
        if let Some(once) = &work.once {
            if let Some(answer) = self.calls.get(&once.key) {
                return Err(Error::Repeated { answer: answer.clone() });
            }
            self.calls.put(once.key.clone(), once.answer.clone());
        }
        let (mut epoch, mut seq, mut returned) = (0, 0, Vec::new());
        if let Some((session, fence)) = &work.by {
            (epoch, seq) = self.write_log(session, *fence, work)?;
        }
        for retire in &work.retire {
            self.retire(retire, work.at)?;
        }
        for (session, label) in &work.label {
            self.relabel(session, label.as_deref())?;
        }
        for session in &work.open {
            self.open(session)?;
        }
        let mut receipts =
            work.post.iter().map(|posting| self.post(posting, work.at)).collect::<Result<Vec<_>, Error>>()?;
        for holding in &work.hold {
            receipts.push(self.hold(holding, work.at)?);
        }
        for release in &work.release {
            receipts.extend(self.release(release, work.at)?);
        }
        for parcel in &work.send {
            self.send(parcel)?;
        }
        for (id, fate) in &work.sent {
            if let Some(place) = self.place(id, false) {
                self.outbox.change(&place, |parcel| parcel.fate = Some(fate.clone()));
            }
        }
        for id in &work.forget {
            if let Some(place) = self.place(id, true) {
                self.outbox.remove(&place);
            }
        }
        if let Some((session, _)) = &work.by {
            self.change_runs(session, work)?;
            self.change_asks(session, &work.asks);
            self.change_waits(session, &work.waits)?;
            if work.row.status.is_some_and(Status::is_ended) {
                returned.extend(self.return_tasks(session, work.at));
            }
            for hidden in &work.archive {
                self.sessions.change(hidden, |row| row.session.archived = true);
                returned.extend(self.return_tasks(hidden, work.at));
            }
        }
        Ok(Done { epoch, seq, receipts, returned, task: None })
    }

    fn relabel(&mut self, session: &SessionId, label: Option<&str>) -> Result<(), Error> {
        let owner = self.known(session)?.owner.clone();
        self.sessions.change(session, |row| row.session.label = None);
        if let Some(label) = label {
            self.check_label(label, &owner)?;
            self.sessions.change(session, |row| row.session.label = Some(label.to_owned()));
        }
        Ok(())
    }

    fn retire(&mut self, retire: &Retire, at: Millis) -> Result<(), Error> {
        let path = self.known(&retire.session)?.path.clone();
        let below = self.sessions.rows().values().map(|row| &row.session).filter(|row| row.path.starts_with(&path));
        let below: Vec<Session> = below.cloned().collect();
        if let Some(busy) = below.iter().find(|row| row.status.is_busy() || row.pending > 0) {
            return Err(Error::Busy(busy.id.clone()));
        }
        for row in &below {
            self.sessions.change(&row.id, |row| row.session.archived = true);
            self.return_tasks(&row.id, at);
        }
        if retire.free {
            self.sessions.change(&retire.session, |row| {
                row.session.key = format!("{}:was:{}", row.session.key, row.session.id);
                row.session.label = None;
            });
        }
        Ok(())
    }

    /// Where a message is in the outbox, settled or waiting.
    fn place(&self, id: &LetterId, settled: bool) -> Option<u64> {
        let meant = |parcel: &Parcel| parcel.id == *id && parcel.fate.is_some() == settled;
        self.outbox.rows().iter().find(|(_, parcel)| meant(parcel)).map(|(place, _)| *place)
    }

    fn send(&mut self, parcel: &Parcel) -> Result<(), Error> {
        if self.outbox.rows().values().any(|known| known.id == parcel.id) {
            return Ok(());
        }
        if parcel.fate.is_none() {
            let waiting = || self.outbox.rows().values().filter(|known| known.fate.is_none());
            let add = |load: Load, known: &Parcel| Load {
                count: load.count + 1,
                bytes: load.bytes + known.body.len() as u64,
            };
            let there = waiting().filter(|known| known.address == parcel.address).fold(Load::default(), add);
            check_room(parcel, there, waiting().fold(Load::default(), add))?;
        }
        let place = self.outbox.rows().last_key_value().map_or(0, |(place, _)| place + 1);
        self.outbox.put(place, parcel.clone());
        Ok(())
    }

    fn write_log(&mut self, id: &SessionId, fence: Fence, work: &Ready) -> Result<(u64, u64), Error> {
        let session = self.known(id)?.clone();
        let epoch = match fence {
            Fence::Claim => session.epoch + 1,
            Fence::Epoch(held) if held == session.epoch => held,
            Fence::Epoch(_) => return Err(Error::Fenced(id.clone())),
        };
        for letter in &work.consume {
            self.consume(id, letter, session.seq, work.at)?;
        }
        let unread = session.pending.saturating_sub(work.consume.len() as u32);
        if work.expect_unread.is_some_and(|expected| expected != unread) {
            return Err(Error::Unread(id.clone()));
        }
        for (seq, body) in (session.seq + 1..).zip(&work.entries) {
            self.append(&session, seq, work.at, body);
        }
        let seq = session.seq + work.entries.len() as u64;
        self.sessions.change(id, |row| {
            (row.session.epoch, row.session.seq, row.session.pending) = (epoch, seq, unread);
            change_row(&mut row.session, &work.row);
        });
        Ok((epoch, seq))
    }

    fn consume(&mut self, id: &SessionId, consume: &Consume, seq: u64, at: Millis) -> Result<(), Error> {
        let unread = self.letters.get(&consume.letter).filter(|letter| letter.to == *id && letter.body.is_some());
        let Some(place) = unread.map(|letter| letter.place) else { return Err(Error::Fenced(id.clone())) };
        self.unread.remove(&(id.clone(), place));
        self.letters.change(&consume.letter, |letter| {
            letter.body = None;
            letter.consumed = Some(at);
            letter.input = consume.entry.map(|offset| seq + 1 + offset as u64);
        });
        Ok(())
    }

    fn append(&mut self, session: &Session, seq: u64, at: Millis, body: &Arc<str>) {
        let cursor = self.cursor() + 1;
        let (id, root) = (session.id.clone(), session.root.clone());
        self.logs.put((id.clone(), seq), cursor);
        self.kept.put(cursor, Kept { cursor, session: id, root, seq, at, body: body.clone() });
    }

    fn open(&mut self, session: &Session) -> Result<(), Error> {
        self.check_names(session)?;
        if let Some(label) = &session.label {
            self.check_label(label, &session.owner)?;
        }
        self.check_name(session)?;
        let mut session = session.clone();
        (session.pending, session.seq) = (0, 0);
        if let Some(fork) = &session.fork {
            if fork.seq > self.known(&fork.of)?.seq {
                return Err(fork_from_nowhere(fork));
            }
            session.seq = fork.seq;
        }
        if let Some(parent) = &session.parent {
            self.known(parent)?;
        }
        if session.root != session.id {
            self.known(&session.root)?;
        }
        let born = self.sessions.rows().len() as u64;
        self.sessions.put(session.id.clone(), Row { born, session });
        Ok(())
    }

    fn check_names(&self, session: &Session) -> Result<(), Error> {
        let mut rows = self.sessions.rows().values();
        if let Some(holder) = rows.find(|row| row.session.key == session.key) {
            let holder = holder.session.id.to_string();
            return Err(Error::Taken { what: format!("key `{}`", session.key), holder });
        }
        if let Some(holder) = self.sessions.get(&session.id) {
            let holder = holder.session.key.clone();
            return Err(Error::Taken { what: format!("session id `{}`", session.id), holder });
        }
        Ok(())
    }

    fn check_label(&mut self, label: &str, owner: &str) -> Result<(), Error> {
        let holds = |row: &&Row| row.session.owner == owner && row.session.label.as_deref() == Some(label);
        let Some(holder) = self.sessions.rows().values().find(holds) else { return Ok(()) };
        let holder = holder.session.clone();
        if is_live(&holder) {
            return Err(Error::Taken { what: format!("label `{label}`"), holder: holder.key });
        }
        self.sessions.change(&holder.id, |row| row.session.label = None);
        Ok(())
    }

    fn check_name(&self, session: &Session) -> Result<(), Error> {
        let Some(name) = &session.name else { return Ok(()) };
        let holds = |row: &&Row| {
            row.session.root == session.root && row.session.name.as_ref() == Some(name) && is_live(&row.session)
        };
        match self.sessions.rows().values().find(holds) {
            Some(row) => Err(Error::Taken { what: format!("name `{name}`"), holder: row.session.id.to_string() }),
            None => Ok(()),
        }
    }

    pub(super) fn post(&mut self, posting: &Posting, at: Millis) -> Result<Receipt, Error> {
        let receipt = |class, duplicate, paused| {
            let (letter, to) = (posting.id.clone(), posting.to.clone());
            Receipt { letter, to, class, duplicate, paused }
        };
        if let Some(before) = self.letters.get(&posting.id) {
            if before.to != posting.to {
                let holder = before.to.to_string();
                return Err(Error::Taken { what: format!("letter id `{}`", posting.id), holder });
            }
            return Ok(receipt(before.class, true, false));
        }
        let receiver = self.known(&posting.to)?.clone();
        if receiver.archived {
            return Err(Error::NoSession(posting.to.clone()));
        }
        if posting.queue.is_some_and(|queue| receiver.pending >= queue) {
            return Err(Error::QueueFull(posting.to.clone()));
        }
        if posting.queue.is_some() && posting.body.len() >= LARGE_LETTER {
            let unread: u64 = self.unread_bytes(&posting.to);
            if unread > 0 && unread + posting.body.len() as u64 > INBOX_BYTES {
                return Err(Error::InboxTooLarge(posting.to.clone()));
            }
        }
        let run = posting.id.run();
        if let Some((above, asked)) = posting.run.as_ref().and_then(|opens| opens.taken(&run)) {
            check_purses(&purses::chain(self, above), asked)?;
        }
        let class = posting.class_for(receiver.status.is_busy());
        self.insert_letter(posting, class, at);
        self.sessions.change(&posting.to, |row| {
            row.session.pending += 1;
            if class != Class::Control && rests(row.session.status) {
                (row.session.status, row.session.ended) = (Status::Queued, None);
            }
        });
        if let Some(opens) = &posting.run {
            self.queue_run(&receiver, &posting.id.run(), opens.report.clone(), opens.purse.as_ref(), at);
        }
        Ok(receipt(class, false, receiver.status == Status::Paused))
    }

    fn insert_letter(&mut self, posting: &Posting, class: Class, at: Millis) {
        let place = self.letters.rows().len() as u64 + 1;
        let body = Some(posting.body.as_str().into());
        self.unread.put((posting.to.clone(), place), posting.id.clone());
        let letter = Stored {
            place,
            to: posting.to.clone(),
            class,
            sender: posting.sender.clone(),
            posted: at,
            consumed: None,
            body,
            input: None,
        };
        self.letters.put(posting.id.clone(), letter);
    }

    fn queue_run(&mut self, session: &Session, id: &RunId, report: Option<Report>, purse: Option<&Purse>, at: Millis) {
        if self.runs.get(id).is_some() {
            return;
        }
        let run = Run {
            id: id.clone(),
            session: session.id.clone(),
            root: session.root.clone(),
            report,
            created: at,
            started: None,
            ended: None,
            outcome: None,
            code: None,
            message: None,
            hint: None,
            answer: None,
            usage: Usage::default(),
        };
        self.runs.put(id.clone(), RunRow { run, alias_of: None, purse: purse.cloned() });
    }

    fn change_runs(&mut self, session: &SessionId, work: &Ready) -> Result<(), Error> {
        let session = self.known(session)?.clone();
        for change in &work.runs {
            match change {
                RunChange::Start { run, report, purse } => {
                    self.queue_run(&session, run, report.clone(), purse.as_ref(), work.at);
                    self.runs.change(run, |row| row.run.started = Some(work.at));
                }
                RunChange::Alias { run, of } => {
                    self.queue_run(&session, run, None, None, work.at);
                    if run != of {
                        let target = self.runs.get(of).and_then(|row| row.alias_of.clone()).unwrap_or(of.clone());
                        self.runs.change(run, |row| row.alias_of = Some(target));
                    }
                }
                RunChange::Spend { run, usage } => {
                    self.runs.change(run, |row| row.run.usage += *usage);
                }
                RunChange::End(end) => {
                    self.queue_run(&session, &end.run, None, None, work.at);
                    self.runs.change(&end.run, |row| end_run(&mut row.run, end, work.at));
                }
            }
        }
        Ok(())
    }

    fn change_asks(&mut self, session: &SessionId, changes: &[Asking]) {
        for change in changes {
            match change {
                Asking::Open { ask, .. } if self.asks.get(&ask.id).is_none() => {
                    self.asks.put(ask.id.clone(), Ask { reply: None, ..(**ask).clone() });
                }
                Asking::Open { .. } => {}
                Asking::Close { ask, reply } => {
                    let open = self.asks.get(ask).is_some_and(|ask| ask.reply.is_none() && ask.session == *session);
                    match reply {
                        Some(reply) if open => {
                            self.asks.change(ask, |ask| ask.reply = Some(*reply));
                        }
                        None if open => self.asks.remove(ask),
                        _ => {}
                    }
                }
            }
        }
    }

    fn change_waits(&mut self, session: &SessionId, changes: &[WaitChange]) -> Result<(), Error> {
        for change in changes {
            match change {
                WaitChange::Add { call, on } => {
                    self.known(on)?;
                    self.waits.put(call.clone(), (session.clone(), on.clone()));
                }
                WaitChange::Remove { call } => {
                    if self.waits.get(call).is_some_and(|(waiting, _)| waiting == session) {
                        self.waits.remove(call);
                    }
                }
            }
        }
        Ok(())
    }
}

pub(super) fn is_live(session: &Session) -> bool {
    !session.archived && !session.status.is_ended()
}

fn change_row(session: &mut Session, change: &RowChange) {
    fn set<T: Clone>(field: &mut T, value: &Option<T>) {
        if let Some(value) = value {
            field.clone_from(value);
        }
    }
    set(&mut session.status, &change.status);
    set(&mut session.run, &change.run);
    set(&mut session.agent, &change.agent);
    set(&mut session.cwd, &change.cwd);
    set(&mut session.worktree, &change.worktree);
    set(&mut session.policy, &change.policy);
    set(&mut session.halt, &change.halt);
    set(&mut session.base, &change.base);
    set(&mut session.undone, &change.undone);
    set(&mut session.activity, &change.activity);
    set(&mut session.ended, &change.ended);
    set(&mut session.context_tokens, &change.context_tokens);
    set(&mut session.model, &change.model.clone().map(Some));
    set(&mut session.title, &change.title.clone().map(Some));
    set(&mut session.started, &change.started.map(Some));
    if let Some((attempts, seq)) = change.attempts {
        (session.attempts, session.attempt_seq) = (attempts, seq);
    }
    if let Some(spent) = change.spent {
        session.usage += spent;
    }
}

fn end_run(run: &mut Run, end: &RunEnd, at: Millis) {
    run.ended = Some(at);
    run.outcome = Some(end.outcome);
    run.code = end.code;
    run.message.clone_from(&end.message);
    run.hint.clone_from(&end.hint);
    run.answer = end.answer;
    run.usage = end.usage;
}
