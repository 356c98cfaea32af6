//! A store that forgets: the same rules under one lock, for tests. Nothing here is fast or survives its process.

mod board;
mod messages;
mod purses;
mod state;
mod table;

use crate::ready::{Done, Ready};
use crate::{
    Ahead, Ask, Awake, Batch, BoardChange, BoardQuery, Committed, Error, Fence, Find, Held, HeldQuery, Kept,
    MIN_ENDING, Mail, OnKept, OutboxQuery, PAGE_BYTES, Page, PageKey, Parcel, Purse, Query, Receipt, Run, Scope, Sent,
    SentQuery, Session, Span, Store, Unread,
};
use async_trait::async_trait;
use proto::entry::Stored;
use proto::{AskId, BoardTask, Entry, Letter, LetterId, Millis, RunId, SessionId};
use state::{Row, State, is_live};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The longest page anyone gets.
const PAGE: usize = 1000;

pub struct Memory {
    /// `None` once closed.
    state: Mutex<Option<State>>,
    on_kept: OnKept,
}

impl Memory {
    pub fn new(on_kept: OnKept) -> Self {
        Self { state: Mutex::new(Some(State::default())), on_kept }
    }

    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, read: impl FnOnce(&State) -> Result<T, Error>) -> Result<T, Error> {
        read(self.lock().as_ref().ok_or(Error::Closed)?)
    }

    fn write(&self, work: &Ready) -> Result<Done, Error> {
        let mut guard = self.lock();
        let state = guard.as_mut().ok_or(Error::Closed)?;
        let (done, before) = state.apply(work)?;
        let kept: Vec<Kept> = state.kept.rows().range(before + 1..).map(|(_, kept)| kept.clone()).collect();
        if !kept.is_empty() {
            // Under the lock, so that watchers are told in cursor order.
            (self.on_kept)(&kept);
        }
        Ok(done)
    }
}

#[async_trait]
impl Store for Memory {
    async fn commit(&self, session: &SessionId, fence: Fence, batch: Batch) -> Result<Committed, Error> {
        Ok(self.write(&Ready::commit(session, fence, batch)?)?.committed())
    }

    async fn deliver(&self, mail: Mail) -> Result<Vec<Receipt>, Error> {
        Ok(self.write(&Ready::mail(mail)?)?.receipts)
    }

    async fn change_board(&self, change: BoardChange) -> Result<BoardTask, Error> {
        self.write(&Ready::board(change)?)?.changed()
    }

    async fn board(&self, root: &SessionId, query: &BoardQuery) -> Result<Vec<BoardTask>, Error> {
        self.read(|state| Ok(state.tasks(root, query)))
    }

    async fn wake(&self, session: &SessionId) -> Result<Awake, Error> {
        self.read(|state| {
            let row = state.known(session)?.clone();
            let mut entries = log(state, session)?;
            entries.retain(|kept| kept.seq >= row.base);
            let asks = open_asks(state, |ask| ask.session == *session);
            Ok(Awake {
                entries: entries.into_iter().map(entry).collect::<Result<_, _>>()?,
                inbox: unread(state, session, 0)?,
                asks,
                row,
            })
        })
    }

    async fn letters(&self, session: &SessionId, ids: &[LetterId]) -> Result<Vec<Letter>, Error> {
        self.read(|state| {
            state.known(session)?;
            let own = ids.iter().filter_map(|id| state.letters.get(id)).filter(|stored| stored.to == *session);
            own.filter_map(|stored| stored.letter().transpose()).collect()
        })
    }

    async fn inbox(&self, session: &SessionId, after: u64) -> Result<Vec<(u64, Unread)>, Error> {
        self.read(|state| {
            state.known(session)?;
            unread(state, session, after)
        })
    }

    async fn session(&self, session: &SessionId) -> Result<Option<Session>, Error> {
        self.read(|state| Ok(state.sessions.get(session).map(|row| row.session.clone())))
    }

    async fn find(&self, what: &Find) -> Result<Vec<Session>, Error> {
        let is_root = |s: &Session| s.parent.is_none() && !s.archived;
        let (limit, fits): (usize, Box<dyn Fn(&Session) -> bool + Send + '_>) = match what {
            Find::Key(key) => (1, Box::new(move |s| s.key == *key)),
            Find::Label { label, owner } => (
                10,
                Box::new(move |s| {
                    !s.archived && s.label.as_ref() == Some(label) && owner.as_ref().is_none_or(|o| s.owner == *o)
                }),
            ),
            Find::Named { root, name } => {
                (10, Box::new(move |s| s.root == *root && s.name.as_ref() == Some(name) && !s.archived))
            }
            Find::Called { name } => (10, Box::new(move |s| s.name.as_ref() == Some(name) && !s.archived)),
            Find::Ending(end) => {
                (10, Box::new(move |s| end.len() >= MIN_ENDING && s.id.as_str().ends_with(end) && !s.archived))
            }
            Find::Members { root, limit } => {
                (*limit, Box::new(move |s| s.root == *root && s.name.is_some() && !s.archived))
            }
            Find::NewestIn(cwd) => (1, Box::new(move |s| is_root(s) && belongs_to(s, cwd))),
            Find::Newest => (1, Box::new(is_root)),
        };
        self.read(|state| {
            if let Find::Named { .. } | Find::Ending(_) = what {
                return Ok(by_birth(state, fits).into_iter().rev().take(limit).collect());
            }
            if let Find::Called { .. } = what {
                return Ok(newest_of_trees(state, by_birth(state, fits), limit));
            }
            if let Find::Members { .. } = what {
                let mut found: Vec<Session> = by_birth(state, fits).into_iter().rev().collect();
                found.sort_by(|a, b| a.name.cmp(&b.name));
                found.truncate(limit);
                return Ok(found);
            }
            let mut found = newest_first(state, fits);
            found.truncate(limit);
            Ok(found)
        })
    }

    async fn list(&self, query: &Query) -> Result<Page, Error> {
        let limit = query.limit.clamp(1, PAGE);
        self.read(|state| {
            let mut sessions = newest_first(state, |session| !session.archived && matches(state, query, session));
            let more = sessions.len() > limit;
            sessions.truncate(limit);
            let last = sessions.last().filter(|_| more);
            let next = last.map(|last| PageKey { activity: last.activity, id: last.id.clone() });
            let keys = |parent: &Session| {
                let is_child = |s: &Session| !s.archived && s.parent.as_ref() == Some(&parent.id);
                newest_first(state, is_child).into_iter().take(100).map(|child| child.key).collect()
            };
            let children = sessions.iter().map(keys).collect();
            Ok(Page { sessions, next, children })
        })
    }

    async fn tree(&self, root: &SessionId, limit: usize) -> Result<Vec<Session>, Error> {
        self.read(|state| {
            let mut rows: Vec<&Row> = state.sessions.rows().values().filter(|row| row.session.root == *root).collect();
            rows.sort_by_key(|row| row.born);
            Ok(rows.into_iter().take(limit).map(|row| row.session.clone()).collect())
        })
    }

    async fn busy_below(&self, session: &SessionId, limit: usize) -> Result<Vec<SessionId>, Error> {
        self.read(|state| {
            let Some(top) = state.sessions.get(session) else { return Ok(Vec::new()) };
            let is_below = |row: &&Row| {
                row.session.path.starts_with(&top.session.path)
                    && row.session.id != *session
                    && row.session.status.is_busy()
            };
            let mut rows: Vec<&Row> = state.sessions.rows().values().filter(is_below).collect();
            rows.sort_by_key(|row| (row.session.depth, row.born));
            Ok(rows.into_iter().take(limit).map(|row| row.session.id.clone()).collect())
        })
    }

    async fn is_quiet(&self, session: &SessionId) -> Result<bool, Error> {
        self.read(|state| {
            let Some(top) = state.sessions.get(session) else { return Ok(true) };
            let busy = |row: &Row| row.session.path.starts_with(&top.session.path) && row.session.status.is_busy();
            Ok(!state.sessions.rows().values().any(busy))
        })
    }

    async fn inside(&self, dir: &str, limit: usize) -> Result<Vec<Session>, Error> {
        let below = |session: &Session| {
            session.cwd.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let entered = |session: &Session| session.worktree.as_ref().is_some_and(|worktree| worktree.path == dir);
        self.read(|state| {
            let rows = state.sessions.rows().values().map(|row| &row.session);
            let inside = rows.filter(|s| !s.archived && (entered(s) || (s.status.is_busy() && below(s))));
            Ok(inside.take(limit).cloned().collect())
        })
    }

    async fn live_children(&self, session: &SessionId) -> Result<u64, Error> {
        self.read(|state| {
            let is_child = |row: &&Row| row.session.parent.as_ref() == Some(session) && is_live(&row.session);
            Ok(state.sessions.rows().values().filter(is_child).count() as u64)
        })
    }

    async fn entries(&self, session: &SessionId, span: Span) -> Result<Vec<Stored>, Error> {
        self.read(|state| {
            let mut log = log(state, session)?;
            match span {
                Span::After { seq, limit } => {
                    log.retain(|kept| kept.seq > seq);
                    log.truncate(limit);
                }
                Span::Before { seq, limit } => {
                    log.retain(|kept| kept.seq < seq);
                    log.drain(..log.len().saturating_sub(limit));
                }
            }
            log.into_iter().map(entry).collect()
        })
    }

    async fn held(&self, query: &HeldQuery) -> Result<Vec<Held>, Error> {
        self.read(|state| state.held_letters(query))
    }

    async fn sent(&self, query: &SentQuery) -> Result<Vec<Sent>, Error> {
        self.read(|state| state.sent_letters(query))
    }

    async fn run(&self, run: &RunId) -> Result<Option<Run>, Error> {
        self.read(|state| {
            let Some(row) = state.runs.get(run) else { return Ok(None) };
            let row = row.alias_of.as_ref().map_or(Some(row), |of| state.runs.get(of));
            Ok(row.map(|row| row.run.clone()))
        })
    }

    async fn asks(&self, root: Option<&SessionId>) -> Result<Vec<Ask>, Error> {
        self.read(|state| Ok(open_asks(state, |ask| root.is_none_or(|root| ask.root == *root))))
    }

    async fn ask(&self, ask: &AskId) -> Result<Option<Ask>, Error> {
        self.read(|state| Ok(state.asks.get(ask).cloned()))
    }

    async fn unfinished(&self, after: Option<&SessionId>, limit: usize) -> Result<Vec<SessionId>, Error> {
        self.read(|state| {
            let is_unfinished = |s: &Session| !s.archived && (s.status.is_busy() || s.pending > 0);
            let rows = state.sessions.rows().iter();
            let rows = rows.filter(|(id, row)| after.is_none_or(|after| *id > after) && is_unfinished(&row.session));
            Ok(rows.take(limit).map(|(id, _)| id.clone()).collect())
        })
    }

    async fn awaits_news(&self, session: &SessionId) -> Result<bool, Error> {
        self.read(|state| {
            let awaited = |row: &state::RunRow| {
                row.run.ended.is_none() && row.run.report.as_ref().is_some_and(|report| report.session == *session)
            };
            Ok(state.runs.rows().values().any(awaited))
        })
    }

    async fn purses(&self, run: &RunId) -> Result<Vec<Purse>, Error> {
        self.read(|state| Ok(purses::chain(state, run)))
    }

    async fn waits_for(&self, from: &SessionId, to: &SessionId) -> Result<bool, Error> {
        self.read(|state| {
            let (mut reached, mut next) = (BTreeSet::new(), vec![from.clone()]);
            while let Some(at) = next.pop() {
                let waits = state.waits.rows().values().filter(|(waiting, _)| *waiting == at);
                next.extend(waits.map(|(_, on)| on).filter(|on| reached.insert((*on).clone())).cloned());
            }
            Ok(reached.contains(to))
        })
    }

    async fn outbox_addresses(&self, limit: usize) -> Result<Vec<String>, Error> {
        self.read(|state| {
            let mut seen = std::collections::HashSet::new();
            let waiting = state.outbox.rows().values().filter(|parcel| parcel.fate.is_none());
            let addresses = waiting.map(|parcel| &parcel.address);
            Ok(addresses.filter(|address| seen.insert(address.as_str())).take(limit).cloned().collect())
        })
    }

    async fn outbox(&self, address: &str, limit: usize) -> Result<Vec<Parcel>, Error> {
        self.read(|state| {
            let there = state.outbox.rows().values().filter(|parcel| parcel.fate.is_none());
            Ok(there.filter(|parcel| parcel.address == address).take(limit).cloned().collect())
        })
    }

    async fn outgoing(&self, query: &OutboxQuery) -> Result<Vec<Parcel>, Error> {
        self.read(|state| {
            let mut found: Vec<Parcel> =
                state.outbox.rows().values().filter(|parcel| query.fits(parcel)).cloned().collect();
            found.sort_by(|a, b| (b.posted, &b.id).cmp(&(a.posted, &a.id)));
            found.truncate(query.limit);
            Ok(found)
        })
    }

    async fn settled_before(&self, moment: Millis, limit: usize) -> Result<Vec<LetterId>, Error> {
        self.read(|state| {
            let settled = |parcel: &Parcel| Some((parcel.fate.as_ref()?.at, parcel.id.clone()));
            let mut found: Vec<_> = state.outbox.rows().values().filter_map(settled).collect();
            found.retain(|(at, _)| *at < moment);
            found.sort_by_key(|(at, _)| *at);
            Ok(found.into_iter().take(limit).map(|(_, id)| id).collect())
        })
    }

    async fn owes_news(&self) -> Result<bool, Error> {
        self.read(|state| {
            let there = |id: &SessionId| state.sessions.get(id).is_some_and(|row| !row.session.archived);
            let open = |row: &state::RunRow| {
                let run = &row.run;
                run.report.is_some() && run.ended.is_none() && row.alias_of.is_none() && there(&run.session)
            };
            Ok(state.runs.rows().values().any(open))
        })
    }

    async fn kept_since(&self, root: Option<&SessionId>, cursor: u64, limit: usize) -> Result<Vec<Kept>, Error> {
        self.read(|state| {
            let kept = state.kept.rows().range(cursor.saturating_add(1)..).map(|(_, kept)| kept);
            let kept = kept.filter(|kept| root.is_none_or(|root| kept.root == *root));
            let mut left = PAGE_BYTES;
            let fits = |kept: &(usize, &Kept)| {
                let fits = kept.0 == 0 || kept.1.body.len() <= left;
                left = left.saturating_sub(kept.1.body.len());
                fits
            };
            Ok(kept.take(limit).enumerate().take_while(fits).map(|(_, kept)| kept.clone()).collect())
        })
    }

    async fn kept_next(&self, root: Option<&SessionId>, cursor: u64) -> Result<Option<Ahead>, Error> {
        self.read(|state| {
            let kept = state.kept.rows().range(cursor.saturating_add(1)..).map(|(_, kept)| kept);
            let next = kept.into_iter().find(|kept| root.is_none_or(|root| kept.root == *root));
            Ok(next.map(|kept| Ahead { cursor: kept.cursor, session: kept.session.clone(), bytes: kept.body.len() }))
        })
    }

    async fn cursor(&self) -> Result<u64, Error> {
        self.read(|state| Ok(state.cursor()))
    }

    async fn cursor_before(&self, letter: &LetterId) -> Result<u64, Error> {
        self.read(|state| {
            let input = state.letters.get(letter).and_then(|letter| Some((letter.to.clone(), letter.input?)));
            let entry = input.and_then(|place| state.logs.get(&place));
            Ok(entry.map_or_else(|| state.cursor(), |entry| entry - 1))
        })
    }

    async fn check(&self) -> Result<Vec<String>, Error> {
        self.read(|state| Ok(check(state)))
    }

    async fn close(&self) {
        self.lock().take();
    }
}

/// All of a session's log, a fork's prefix included.
fn log(state: &State, session: &SessionId) -> Result<Vec<Kept>, Error> {
    let mut out = Vec::new();
    let (mut at, mut to) = (state.known(session)?, u64::MAX);
    loop {
        let own = state.logs.rows().range((at.id.clone(), 0)..=(at.id.clone(), to)).rev();
        out.extend(own.filter_map(|(_, cursor)| state.kept.get(cursor)).cloned());
        let Some(fork) = &at.fork else { break };
        to = to.min(fork.seq);
        at = state.known(&fork.of)?;
    }
    out.reverse();
    Ok(out)
}

fn entry(kept: Kept) -> Result<Stored, Error> {
    let entry: Entry = serde_json::from_str(&kept.body)
        .map_err(|error| Error::Internal(format!("a stored entry does not read back: {error}")))?;
    Ok(Stored { seq: kept.seq, at: kept.at, entry })
}

fn unread(state: &State, session: &SessionId, after: u64) -> Result<Vec<(u64, Unread)>, Error> {
    let places = (session.clone(), after.saturating_add(1))..=(session.clone(), u64::MAX);
    let letters = state.unread.rows().range(places).filter_map(|((_, place), id)| {
        let stored = state.letters.get(id)?;
        let letter = stored.letter().transpose()?;
        let bytes = stored.body.as_ref().map_or(0, |body| body.len());
        Some(letter.map(|letter| (*place, Unread::of(letter, bytes))))
    });
    letters.collect()
}

fn open_asks(state: &State, fits: impl Fn(&Ask) -> bool) -> Vec<Ask> {
    let mut asks: Vec<Ask> =
        state.asks.rows().values().filter(|ask| ask.reply.is_none() && fits(ask)).cloned().collect();
    asks.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
    asks
}

fn by_birth(state: &State, fits: impl Fn(&Session) -> bool) -> Vec<Session> {
    let mut rows: Vec<&Row> = state.sessions.rows().values().filter(|row| fits(&row.session)).collect();
    rows.sort_by_key(|row| row.born);
    rows.into_iter().map(|row| row.session.clone()).collect()
}

/// Of each of the newest trees the session that was born last, newest first.
fn newest_of_trees(state: &State, by_birth: Vec<Session>, limit: usize) -> Vec<Session> {
    let born = |id: &SessionId| state.sessions.get(id).map_or(0, |row| row.born);
    let newest: BTreeMap<u64, Session> = by_birth.into_iter().map(|session| (born(&session.root), session)).collect();
    let mut found: Vec<Session> = newest.into_values().rev().take(limit).collect();
    found.sort_by_key(|session| Reverse(born(&session.id)));
    found
}

fn newest_first(state: &State, fits: impl Fn(&Session) -> bool) -> Vec<Session> {
    let rows = state.sessions.rows().values().map(|row| &row.session);
    let mut sessions: Vec<Session> = rows.filter(|session| fits(session)).cloned().collect();
    sessions.sort_by(|a, b| (b.activity, &b.id).cmp(&(a.activity, &a.id)));
    sessions
}

fn matches(state: &State, query: &Query, session: &Session) -> bool {
    let in_scope = match &query.scope {
        Scope::All => true,
        Scope::Owner(owner) => session.owner == *owner,
        Scope::Below(top) => state.sessions.get(top).is_some_and(|top| session.path.starts_with(&top.session.path)),
    };
    in_scope
        && query.after.as_ref().is_none_or(|after| (session.activity, &session.id) < (after.activity, &after.id))
        && (query.kinds.is_empty() || query.kinds.contains(&session.kind))
        && query.active_since.is_none_or(|since| session.activity >= since)
        && query.label.as_ref().is_none_or(|label| session.label.as_ref() == Some(label))
        && query.parent.as_ref().is_none_or(|parent| session.parent.as_ref() == Some(parent))
}

fn check(state: &State) -> Vec<String> {
    let mut found = Vec::new();
    for Row { session, .. } in state.sessions.rows().values() {
        let own = state.logs.rows().range((session.id.clone(), 0)..=(session.id.clone(), u64::MAX));
        let seqs: Vec<u64> = own.map(|((_, seq), _)| *seq).collect();
        let first = session.fork.as_ref().map_or(0, |fork| fork.seq) + 1;
        if !seqs.iter().copied().eq(first..=session.seq) {
            found.push(format!("session `{}`: its log has gaps", session.id));
        }
        let unread = state.letters.rows().values().filter(|l| l.to == session.id && l.body.is_some()).count();
        if unread != session.pending as usize {
            found.push(format!("session `{}`: says {} unread letters, has {unread}", session.id, session.pending));
        }
    }
    for (id, letter) in state.letters.rows() {
        if letter.body.is_none() && letter.class != proto::Class::Control && letter.input.is_none() {
            found.push(format!("letter `{id}`: was consumed, but is not in the log of `{}`", letter.to));
        }
    }
    for ((_, number), task) in state.board.rows() {
        if let (proto::TaskState::InProgress, Some(proto::Holder::Session(owner))) = (task.state, &task.owner)
            && !state.known(owner).is_ok_and(is_live)
        {
            found.push(format!("task {number}: is in progress, but its owner `{owner}` has ended"));
        }
    }
    for row in state.runs.rows().values().filter(|row| row.run.ended.is_none() && row.alias_of.is_none()) {
        if let Ok(session) = state.known(&row.run.session)
            && session.status.is_ended()
        {
            found.push(format!("run `{}`: is open, but session `{}` is over", row.run.id, session.id));
        }
    }
    found
}

/// A session belongs to its directory, and from a worktree to where it came from.
fn belongs_to(session: &Session, cwd: &str) -> bool {
    session.cwd == cwd || session.worktree.as_ref().is_some_and(|worktree| worktree.original_cwd == cwd)
}
