//! What a commit and a delivery do to the tables. Runs inside the writer's transaction and never ends it.
//!
//! An `Err` may leave rows half changed: the writer takes the operation back (see [`super::writer`]).

use super::fault::{Fault, Result};
use super::purses;
use super::read::below;
use super::value::{halt_number, int, json, session_id, status, text, word};
use crate::outbox::{Load, check_room};
use crate::purse::check_purses;
use crate::ready::{Asking, Consume, Done, Posting, Ready, rests};
use crate::{
    Error, Fence, INBOX_BYTES, Kept, LARGE_LETTER, Once, Parcel, Receipt, Retire, RowChange, RunChange, RunEnd,
    Session, WaitChange,
};
use proto::letter::Purse;
use proto::{Class, Millis, RunId, SessionId, Status, Usage};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, ToSql, params, params_from_iter};
use std::collections::HashMap;
use std::sync::Arc;

/// Sessions whose numbers are remembered; past it, all are forgotten and read again.
const REMEMBERED: usize = 4096;

/// What never changes about a session that is in the file.
#[derive(Clone)]
struct Place {
    n: i64,
    tree: i64,
    root: SessionId,
}

/// Applies operations one after the other.
#[derive(Default)]
pub(super) struct Hand {
    places: HashMap<SessionId, Place>,
}

impl Hand {
    /// After a transaction that came to nothing: a session it opened is not there.
    pub(super) fn forget(&mut self) {
        self.places.clear();
    }

    /// Appends what was kept to `kept`, in cursor order.
    pub(super) fn apply(&mut self, connection: &Connection, work: &Ready, kept: &mut Vec<Kept>) -> Result<Done> {
        let desk = Desk { connection, at: work.at };
        if let Some(once) = &work.once {
            desk.first_time(once)?;
        }
        if let Some(change) = &work.board {
            return Ok(Done { task: Some(desk.change_board(change)?), ..Done::default() });
        }
        let Some((session, fence)) = &work.by else {
            return Ok(Done { receipts: desk.open_and_post(work)?, ..Done::default() });
        };
        let place = self.place(connection, session)?;
        let (epoch, seq) = desk.write_log(session, &place, *fence, work, kept)?;
        // Only now: a letter to oneself finds the status this commit leaves, and a fork the entries it appends.
        let receipts = desk.open_and_post(work)?;
        desk.change_runs(&place, &work.runs)?;
        desk.change_asks(&place, &work.asks)?;
        desk.change_waits(&place, &work.waits)?;
        let mut returned = Vec::new();
        if work.row.status.is_some_and(Status::is_ended) {
            returned.extend(desk.return_tasks(session, place.tree)?);
        }
        for session in &work.archive {
            desk.run("UPDATE sessions SET archived = 1 WHERE id = ?1", [session.as_str()])?;
            returned.extend(desk.return_tasks(session, place.tree)?);
        }
        Ok(Done { epoch, seq, receipts, returned, task: None })
    }

    fn place(&mut self, connection: &Connection, session: &SessionId) -> Result<Place> {
        if let Some(place) = self.places.get(session) {
            return Ok(place.clone());
        }
        let mut statement = connection.prepare_cached("SELECT n, tree, root FROM sessions WHERE id = ?1")?;
        let mut rows = statement.query([session.as_str()])?;
        let Some(row) = rows.next()? else { return Err(Error::NoSession(session.clone()).into()) };
        let place = Place { n: row.get(0)?, tree: row.get(1)?, root: session_id(text(row, 2)?)? };
        if self.places.len() >= REMEMBERED {
            self.places.clear();
        }
        self.places.insert(session.clone(), place.clone());
        Ok(place)
    }
}

/// One operation at work.
pub(super) struct Desk<'c> {
    pub(super) connection: &'c Connection,
    pub(super) at: Millis,
}

/// A receiver as a posting finds it.
pub(super) struct Receiver {
    pub(super) n: i64,
    pub(super) tree: i64,
    status: Status,
}

impl Desk<'_> {
    pub(super) fn run(&self, sql: &str, params: impl Params) -> Result<usize> {
        Ok(self.connection.prepare_cached(sql)?.execute(params)?)
    }

    pub(super) fn one<T: rusqlite::types::FromSql>(&self, sql: &str, params: impl Params) -> Result<Option<T>> {
        Ok(self.connection.prepare_cached(sql)?.query_row(params, |row| row.get(0)).optional()?)
    }

    fn first_time(&self, once: &Once) -> Result<()> {
        match self.one::<String>("SELECT answer FROM calls WHERE key = ?1", [&once.key])? {
            Some(answer) => Err(Error::Repeated { answer }.into()),
            None => {
                self.run(
                    "INSERT INTO calls (key, answer, at) VALUES (?1, ?2, ?3)",
                    params![once.key, once.answer, self.at],
                )?;
                Ok(())
            }
        }
    }

    /// Fence, inbox, entries and the session's own row. Answers the epoch and `seq` after it.
    fn write_log(
        &self,
        session: &SessionId,
        place: &Place,
        fence: Fence,
        work: &Ready,
        kept: &mut Vec<Kept>,
    ) -> Result<(u64, u64)> {
        let (epoch, seq, pending): (i64, i64, u32) = self
            .connection
            .prepare_cached("SELECT epoch, seq, pending FROM heads WHERE n = ?1")?
            .query_row([place.n], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let epoch = match fence {
            Fence::Claim => epoch + 1,
            Fence::Epoch(held) if int(held) == epoch => epoch,
            Fence::Epoch(_) => return Err(Error::Fenced(session.clone()).into()),
        };
        for letter in &work.consume {
            self.consume(session, place, letter, seq)?;
        }
        let unread = pending.saturating_sub(work.consume.len() as u32);
        if unread != pending {
            self.run("UPDATE heads SET pending = ?2 WHERE n = ?1", params![place.n, unread])?;
        }
        if work.expect_unread.is_some_and(|expected| expected != unread) {
            return Err(Error::Unread(session.clone()).into());
        }
        for (offset, body) in (1..).zip(&work.entries) {
            kept.push(self.append(session, place, seq + offset, body)?);
        }
        let seq = seq + work.entries.len() as i64;
        self.change_head(place, epoch, seq, &work.row)?;
        self.change_row(place, &work.row)?;
        Ok((epoch as u64, seq as u64))
    }

    fn consume(&self, session: &SessionId, place: &Place, letter: &Consume, seq: i64) -> Result<()> {
        let input = letter.entry.map(|offset| seq + 1 + offset as i64);
        let taken = self.run(
            "UPDATE letters SET body = NULL, consumed = ?3, consumed_seq = ?4
             WHERE id = ?1 AND session = ?2 AND body IS NOT NULL",
            params![letter.letter.as_str(), place.n, self.at, input],
        )?;
        if taken == 1 { Ok(()) } else { Err(Error::Fenced(session.clone()).into()) }
    }

    fn append(&self, session: &SessionId, place: &Place, seq: i64, body: &Arc<str>) -> Result<Kept> {
        let cursor = self
            .connection
            .prepare_cached("INSERT INTO entries (session, tree, seq, at, body) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .insert(params![place.n, place.tree, seq, self.at, &**body])?;
        Ok(Kept {
            cursor: cursor as u64,
            session: session.clone(),
            root: place.root.clone(),
            seq: seq as u64,
            at: self.at,
            body: body.clone(),
        })
    }

    fn change_head(&self, place: &Place, epoch: i64, seq: i64, row: &RowChange) -> Result<()> {
        let counts_nothing =
            row.base.is_none() && row.spent.is_none() && row.context_tokens.is_none() && row.attempts.is_none();
        if counts_nothing {
            self.run("UPDATE heads SET epoch = ?2, seq = ?3 WHERE n = ?1", params![place.n, epoch, seq])?;
            return Ok(());
        }
        let spent = row.spent.unwrap_or_default();
        self.run(
            "UPDATE heads SET epoch = ?2, seq = ?3, base = coalesce(?4, base),
                 context_tokens = coalesce(?5, context_tokens), attempts = coalesce(?6, attempts),
                 attempt_seq = coalesce(?7, attempt_seq), input = input + ?8, output = output + ?9,
                 cache_read = cache_read + ?10, cache_write = cache_write + ?11, cost = cost + ?12
             WHERE n = ?1",
            params![
                place.n,
                epoch,
                seq,
                row.base.map(int),
                row.context_tokens.map(int),
                row.attempts.map(|(attempts, _)| attempts),
                row.attempts.map(|(_, seq)| int(seq)),
                int(spent.input),
                int(spent.output),
                int(spent.cache_read),
                int(spent.cache_write),
                spent.cost_usd,
            ],
        )?;
        Ok(())
    }

    /// Names only the columns that change: one that is merely written again would still be taken out of its indexes and
    /// put back.
    fn change_row(&self, place: &Place, row: &RowChange) -> Result<()> {
        let words = |text: &Option<String>| text.clone().map(Value::Text);
        let worktree = match &row.worktree {
            Some(Some(worktree)) => Some(Value::Text(json(worktree)?)),
            Some(None) => Some(Value::Null),
            None => None,
        };
        let changes = [
            ("status", row.status.map(|status| Value::Text(status.as_str().into()))),
            ("run", row.run.as_ref().map(|run| or_null(run.as_ref().map(|run| Value::Text(run.to_string()))))),
            ("agent", words(&row.agent)),
            ("model", words(&row.model)),
            ("cwd", words(&row.cwd)),
            ("worktree", worktree),
            ("title", words(&row.title)),
            ("policy", words(&row.policy)),
            ("undone", row.undone.map(|seq| Value::Integer(int(seq)))),
            ("stopped", row.halt.map(|halt| Value::Integer(halt_number(halt)))),
            ("activity", row.activity.map(Value::Integer)),
            ("started", row.started.map(Value::Integer)),
            ("ended", row.ended.map(|ended| or_null(ended.map(Value::Integer)))),
        ];
        let (mut set, mut values) = (String::new(), Vec::new());
        for (column, value) in changes {
            let Some(value) = value else { continue };
            set.push_str(if set.is_empty() { "" } else { ", " });
            set.push_str(column);
            set.push_str(" = ?");
            values.push(value);
        }
        if values.is_empty() {
            return Ok(());
        }
        values.push(Value::Integer(place.n));
        self.run(&format!("UPDATE sessions SET {set} WHERE n = ?"), params_from_iter(values))?;
        Ok(())
    }

    fn open_and_post(&self, work: &Ready) -> Result<Vec<Receipt>> {
        for retire in &work.retire {
            self.retire(retire)?;
        }
        for (session, label) in &work.label {
            self.relabel(session, label.as_deref())?;
        }
        for session in &work.open {
            self.open(session)?;
        }
        let mut receipts = work.post.iter().map(|posting| self.post(posting)).collect::<Result<Vec<_>>>()?;
        for holding in &work.hold {
            receipts.push(self.hold(holding)?);
        }
        for release in &work.release {
            receipts.extend(self.release(release)?);
        }
        for parcel in &work.send {
            self.send(parcel)?;
        }
        for (id, fate) in &work.sent {
            self.run(
                "UPDATE outbox SET state = ?2, reason = ?3, settled = ?4 WHERE id = ?1 AND state IS NULL",
                params![id.as_str(), word(&fate.state)?, fate.reason, fate.at],
            )?;
        }
        for id in &work.forget {
            self.run("DELETE FROM outbox WHERE id = ?1 AND state IS NOT NULL", [id.as_str()])?;
        }
        Ok(receipts)
    }

    /// One that was sent before changes nothing.
    fn send(&self, parcel: &Parcel) -> Result<()> {
        if self.one::<i64>("SELECT n FROM outbox WHERE id = ?1", [parcel.id.as_str()])?.is_some() {
            return Ok(());
        }
        if parcel.fate.is_none() {
            let waits = |sql: &str, params: &[&dyn ToSql]| {
                let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
                let (count, bytes) = self.connection.prepare_cached(sql)?.query_row(params, read)?;
                Ok::<_, Fault>(Load { count: count as u64, bytes: bytes as u64 })
            };
            let all =
                "SELECT count(*), coalesce(sum(bytes), 0) FROM outbox INDEXED BY outbox_waiting WHERE state IS NULL";
            check_room(parcel, waits(&format!("{all} AND address = ?1"), &[&parcel.address])?, waits(all, &[])?)?;
        }
        self.run(
            "INSERT INTO outbox (id, sender, address, posted, body, bytes, state, reason, settled)
             VALUES (?1, ?2, ?3, ?4, ?5, octet_length(?5), ?6, ?7, ?8)",
            params![
                parcel.id.as_str(),
                parcel.sender.as_ref().map(SessionId::as_str),
                parcel.address,
                parcel.posted,
                parcel.body,
                parcel.fate.as_ref().map(|fate| word(&fate.state)).transpose()?,
                parcel.fate.as_ref().and_then(|fate| fate.reason.as_deref()),
                parcel.fate.as_ref().map(|fate| fate.at),
            ],
        )?;
        Ok(())
    }

    fn relabel(&self, session: &SessionId, label: Option<&str>) -> Result<()> {
        let owner = self.one::<String>("SELECT owner FROM sessions WHERE id = ?1", [session.as_str()])?;
        let Some(owner) = owner else { return Err(Error::NoSession(session.clone()).into()) };
        // Given back first: whoever has it already may keep it.
        self.run("UPDATE sessions SET label = NULL WHERE id = ?1", [session.as_str()])?;
        if let Some(label) = label {
            self.check_label(label, &owner)?;
            self.run("UPDATE sessions SET label = ?2 WHERE id = ?1", [session.as_str(), label])?;
        }
        Ok(())
    }

    fn retire(&self, retire: &Retire) -> Result<()> {
        let top = self
            .connection
            .prepare_cached("SELECT tree, path FROM sessions WHERE id = ?1")?
            .query_row([retire.session.as_str()], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)));
        let Some((tree, path)) = top.optional()? else { return Err(Error::NoSession(retire.session.clone()).into()) };
        let [from, to] = below(&path);
        let mut statement = self.connection.prepare_cached(
            "SELECT s.id, s.status, h.pending FROM sessions s CROSS JOIN heads h ON h.n = s.n
             WHERE s.tree = ?1 AND s.path >= ?2 AND s.path < ?3",
        )?;
        let mut rows = statement.query(params![tree, from, to])?;
        while let Some(row) = rows.next()? {
            let session = session_id(text(row, 0)?)?;
            if status(text(row, 1)?)?.is_busy() || row.get::<_, u32>(2)? > 0 {
                return Err(Error::Busy(session).into());
            }
            self.run("UPDATE sessions SET archived = 1 WHERE id = ?1", [session.as_str()])?;
            self.return_tasks(&session, tree)?;
        }
        if retire.free {
            let give_back = "UPDATE sessions SET key = key || ':was:' || id, label = NULL WHERE id = ?1";
            self.run(give_back, [retire.session.as_str()])?;
        }
        Ok(())
    }

    fn open(&self, session: &Session) -> Result<()> {
        self.check_names(session)?;
        if let Some(label) = &session.label {
            self.check_label(label, &session.owner)?;
        }
        self.check_name(session)?;
        self.check_fork(session)?;
        if let Some(parent) = &session.parent {
            self.number(parent)?;
        }
        let n: i64 = self.one("SELECT coalesce(max(n), 0) + 1 FROM sessions", [])?.unwrap_or(1);
        let tree = if session.root == session.id { n } else { self.number(&session.root)? };
        self.insert_row(n, tree, session)?;
        self.insert_head(n, session)
    }

    pub(super) fn number(&self, session: &SessionId) -> Result<i64> {
        let n = self.one("SELECT n FROM sessions WHERE id = ?1", [session.as_str()])?;
        n.ok_or_else(|| Error::NoSession(session.clone()).into())
    }

    fn check_names(&self, session: &Session) -> Result<()> {
        if let Some(holder) = self.one("SELECT id FROM sessions WHERE key = ?1", [&session.key])? {
            return Err(Error::Taken { what: format!("key `{}`", session.key), holder }.into());
        }
        if let Some(holder) = self.one("SELECT key FROM sessions WHERE id = ?1", [session.id.as_str()])? {
            return Err(Error::Taken { what: format!("session id `{}`", session.id), holder }.into());
        }
        Ok(())
    }

    /// A live holder keeps its label; one that ended or was archived loses it to the newcomer.
    fn check_label(&self, label: &str, owner: &str) -> Result<()> {
        let holder = self
            .connection
            .prepare_cached("SELECT n, key, status, archived FROM sessions WHERE label = ?1 AND owner = ?2")?
            .query_row([label, owner], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?, row.get::<_, bool>(3)?))
            })
            .optional()?;
        let Some((n, holder, holder_status, archived)) = holder else { return Ok(()) };
        if !archived && !status(&holder_status)?.is_ended() {
            return Err(Error::Taken { what: format!("label `{label}`"), holder }.into());
        }
        self.run("UPDATE sessions SET label = NULL WHERE n = ?1", [n])?;
        Ok(())
    }

    /// Of the live agents of a tree, one has a name.
    fn check_name(&self, session: &Session) -> Result<()> {
        let Some(name) = &session.name else { return Ok(()) };
        let holder: Option<String> = self.one(
            "SELECT id FROM sessions WHERE tree = (SELECT n FROM sessions WHERE id = ?1) AND name = ?2 AND archived = 0
                 AND status NOT IN ('done', 'failed', 'killed', 'timeout', 'interrupted')",
            [session.root.as_str(), name],
        )?;
        match holder {
            Some(holder) => Err(Error::Taken { what: format!("name `{name}`"), holder }.into()),
            None => Ok(()),
        }
    }

    fn check_fork(&self, session: &Session) -> Result<()> {
        let Some(fork) = &session.fork else { return Ok(()) };
        let of = self.number(&fork.of)?;
        let seq: Option<i64> = self.one("SELECT seq FROM heads WHERE n = ?1", [of])?;
        if seq.is_none_or(|seq| int(fork.seq) > seq) {
            return Err(crate::ready::fork_from_nowhere(fork).into());
        }
        Ok(())
    }

    fn insert_row(&self, n: i64, tree: i64, session: &Session) -> Result<()> {
        self.run(
            "INSERT INTO sessions (n, id, key, owner, agent, model, parent, root, tree, depth, path, kind, driver, mode,
                 title, label, cwd, policy, fork_of, fork_seq, archived, status, run, created, activity, started, ended,
                 cleanup, name, stopped, worktree, undone)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
                 ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32)",
            params![
                n,
                session.id.as_str(),
                session.key,
                session.owner,
                session.agent,
                session.model,
                session.parent.as_ref().map(SessionId::as_str),
                session.root.as_str(),
                tree,
                session.depth,
                session.path,
                session.kind,
                session.driver,
                word(&session.mode)?,
                session.title,
                session.label,
                session.cwd,
                session.policy,
                session.fork.as_ref().map(|fork| fork.of.as_str()),
                session.fork.as_ref().map(|fork| int(fork.seq)),
                session.archived,
                session.status.as_str(),
                session.run.as_ref().map(RunId::as_str),
                session.created,
                session.activity,
                session.started,
                session.ended,
                session.cleanup,
                session.name,
                halt_number(session.halt),
                session.worktree.as_ref().map(json).transpose()?,
                int(session.undone),
            ],
        )?;
        Ok(())
    }

    fn insert_head(&self, n: i64, session: &Session) -> Result<()> {
        self.run(
            "INSERT INTO heads (n, seq, base, pending, epoch, input, output, cache_read, cache_write, cost,
                 context_tokens, attempts, attempt_seq)
             VALUES (?1, ?2, ?3, 0, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            params![
                n,
                int(session.fork.as_ref().map_or(0, |fork| fork.seq)),
                int(session.base),
                int(session.epoch),
                int(session.usage.input),
                int(session.usage.output),
                int(session.usage.cache_read),
                int(session.usage.cache_write),
                session.usage.cost_usd,
                int(session.context_tokens),
                session.attempts,
                int(session.attempt_seq),
            ],
        )?;
        Ok(())
    }

    pub(super) fn post(&self, posting: &Posting) -> Result<Receipt> {
        let receiver = self.receiver(&posting.to, posting.queue);
        let receiver = match receiver.and_then(|receiver| self.check_size(&receiver, posting).map(|()| receiver)) {
            Ok(receiver) => receiver,
            // Nobody could take it now; but if it was taken once, that stands.
            Err(refused) => return self.posted_before(posting)?.ok_or(refused),
        };
        if !posting.is_plain() {
            if let Some(receipt) = self.posted_before(posting)? {
                return Ok(receipt);
            }
            self.check_purse(posting)?;
        }
        let class = posting.class_for(receiver.status.is_busy());
        let posted = self.run(
            "INSERT INTO letters (id, session, tree, class, posted, sender, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (id) DO NOTHING",
            params![
                posting.id.as_str(),
                receiver.n,
                receiver.tree,
                word(&class)?,
                self.at,
                posting.sender,
                posting.body
            ],
        )?;
        if posted == 0 {
            let before = self.posted_before(posting)?;
            return before
                .ok_or_else(|| Error::Internal(format!("letter `{}` was and was not there", posting.id)).into());
        }
        self.run("UPDATE heads SET pending = pending + 1 WHERE n = ?1", [receiver.n])?;
        if class != Class::Control && rests(receiver.status) {
            self.run("UPDATE sessions SET status = 'queued', ended = NULL WHERE n = ?1", [receiver.n])?;
        }
        if let Some(opens) = &posting.run {
            let place = Place { n: receiver.n, tree: receiver.tree, root: posting.to.clone() };
            self.queue_run(&place, &posting.id.run(), opens.report.as_ref(), opens.purse.as_ref())?;
        }
        let (letter, to) = (posting.id.clone(), posting.to.clone());
        Ok(Receipt { letter, to, class, duplicate: false, paused: receiver.status == Status::Paused })
    }

    /// An id is good for one letter, also long after that letter was read.
    pub(super) fn posted_before(&self, posting: &Posting) -> Result<Option<Receipt>> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT s.id, l.class FROM letters l JOIN sessions s ON s.n = l.session WHERE l.id = ?1")?;
        let mut rows = statement.query([posting.id.as_str()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let to = text(row, 0)?;
        if to != posting.to.as_str() {
            return Err(Error::Taken { what: format!("letter id `{}`", posting.id), holder: to.into() }.into());
        }
        let class = super::value::from_word(text(row, 1)?)?;
        let (letter, to) = (posting.id.clone(), posting.to.clone());
        Ok(Some(Receipt { letter, to, class, duplicate: true, paused: false }))
    }

    /// Who gets it, if they can take it.
    pub(super) fn receiver(&self, to: &SessionId, queue: Option<u32>) -> Result<Receiver> {
        let mut statement = self.connection.prepare_cached(
            "SELECT s.n, s.tree, s.status, h.pending FROM sessions s CROSS JOIN heads h ON h.n = s.n
             WHERE s.id = ?1 AND s.archived = 0",
        )?;
        let mut rows = statement.query([to.as_str()])?;
        let Some(row) = rows.next()? else { return Err(Error::NoSession(to.clone()).into()) };
        let (status, pending) = (status(text(row, 2)?)?, row.get::<_, u32>(3)?);
        if queue.is_some_and(|queue| pending >= queue) {
            return Err(Error::QueueFull(to.clone()).into());
        }
        Ok(Receiver { n: row.get(0)?, tree: row.get(1)?, status })
    }

    /// Small letters are bounded by their number, large ones together: whoever reads an inbox holds all of it.
    fn check_size(&self, receiver: &Receiver, posting: &Posting) -> Result<()> {
        if posting.queue.is_none() || posting.body.len() < LARGE_LETTER {
            return Ok(());
        }
        let sql = "SELECT sum(octet_length(body)) FROM letters WHERE session = ?1 AND n > 0 AND body IS NOT NULL";
        let unread = self.one::<Option<i64>>(sql, [receiver.n])?.flatten().unwrap_or(0) as u64;
        if unread > 0 && unread + posting.body.len() as u64 > INBOX_BYTES {
            return Err(Error::InboxTooLarge(posting.to.clone()).into());
        }
        Ok(())
    }

    /// What a run gets for itself has to be there at this moment: two that ask at once cannot both have the last of it.
    fn check_purse(&self, posting: &Posting) -> Result<()> {
        let run = posting.id.run();
        if let Some((above, asked)) = posting.run.as_ref().and_then(|opens| opens.taken(&run)) {
            check_purses(&purses::chain(self.connection, above)?, asked)?;
        }
        Ok(())
    }

    /// Makes the run's row if there is none.
    fn queue_run(
        &self,
        place: &Place,
        run: &RunId,
        report: Option<&proto::letter::Report>,
        purse: Option<&Purse>,
    ) -> Result<()> {
        let allotted = purse.and_then(|purse| purse.allotted);
        let above = purse.filter(|purse| allotted.is_some() && purse.of != *run).map(|purse| purse.of.as_str());
        let allotted = allotted.unwrap_or_default();
        self.run(
            "INSERT OR IGNORE INTO runs (id, session, tree, report, report_to, created, purse, above, allotted_cost,
                 allotted_tokens, allotted_agents, fresh)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            params![
                run.as_str(),
                place.n,
                place.tree,
                report.map(json).transpose()?,
                report.map(|report| report.session.as_str()),
                self.at,
                purse.map_or(run, |purse| purse.for_run(run)).as_str(),
                above,
                allotted.cost_usd,
                allotted.tokens.map(int),
                allotted.agents.map(int),
                purse.is_some_and(|purse| purse.fresh),
            ],
        )?;
        Ok(())
    }

    fn change_runs(&self, place: &Place, changes: &[RunChange]) -> Result<()> {
        for change in changes {
            match change {
                RunChange::Start { run, report, purse } => {
                    self.queue_run(place, run, report.as_ref(), purse.as_ref())?;
                    self.run("UPDATE runs SET started = ?2 WHERE id = ?1", params![run.as_str(), self.at])?;
                }
                RunChange::Alias { run, of } => {
                    self.queue_run(place, run, None, None)?;
                    // An alias of an alias would need a second hop to read, so it is resolved when it is written.
                    self.run(
                        "UPDATE runs SET alias_of = coalesce((SELECT alias_of FROM runs WHERE id = ?2), ?2)
                         WHERE id = ?1 AND ?1 <> ?2",
                        params![run.as_str(), of.as_str()],
                    )?;
                }
                RunChange::Spend { run, usage } => self.spend(run, usage)?,
                RunChange::End(end) => self.end_run(place, end)?,
            }
        }
        Ok(())
    }

    fn spend(&self, run: &RunId, usage: &Usage) -> Result<()> {
        self.run(
            "UPDATE runs SET input = input + ?2, output = output + ?3, cache_read = cache_read + ?4,
                 cache_write = cache_write + ?5, cost = cost + ?6
             WHERE id = ?1",
            params![
                run.as_str(),
                int(usage.input),
                int(usage.output),
                int(usage.cache_read),
                int(usage.cache_write),
                usage.cost_usd
            ],
        )?;
        Ok(())
    }

    fn end_run(&self, place: &Place, end: &RunEnd) -> Result<()> {
        self.queue_run(place, &end.run, None, None)?;
        self.run(
            "UPDATE runs SET ended = ?2, outcome = ?3, code = ?4, message = ?5, hint = ?6, answer = ?7, input = ?8,
                 output = ?9, cache_read = ?10, cache_write = ?11, cost = ?12
             WHERE id = ?1",
            params![
                end.run.as_str(),
                self.at,
                word(&end.outcome)?,
                end.code.as_ref().map(word).transpose()?,
                end.message,
                end.hint,
                end.answer.map(int),
                int(end.usage.input),
                int(end.usage.output),
                int(end.usage.cache_read),
                int(end.usage.cache_write),
                end.usage.cost_usd,
            ],
        )?;
        Ok(())
    }

    fn change_asks(&self, place: &Place, changes: &[Asking]) -> Result<()> {
        for change in changes {
            match change {
                Asking::Open { ask, body } => self.run(
                    "INSERT OR IGNORE INTO asks (id, session, tree, created, body) VALUES (?1, ?2, ?3, ?4, ?5)",
                    params![ask.id.as_str(), place.n, place.tree, ask.created, body],
                )?,
                Asking::Close { ask, reply: Some(reply) } => self.run(
                    "UPDATE asks SET reply = ?3 WHERE id = ?1 AND session = ?2 AND reply IS NULL",
                    params![ask.as_str(), place.n, word(reply)?],
                )?,
                Asking::Close { ask, reply: None } => self.run(
                    "DELETE FROM asks WHERE id = ?1 AND session = ?2 AND reply IS NULL",
                    params![ask.as_str(), place.n],
                )?,
            };
        }
        Ok(())
    }

    fn change_waits(&self, place: &Place, changes: &[WaitChange]) -> Result<()> {
        for change in changes {
            match change {
                WaitChange::Add { call, on } => self.run(
                    "INSERT OR REPLACE INTO waits (call, session, on_session, tree) VALUES (?1, ?2, ?3, ?4)",
                    params![call.as_str(), place.n, self.number(on)?, place.tree],
                )?,
                WaitChange::Remove { call } => {
                    self.run("DELETE FROM waits WHERE call = ?1 AND session = ?2", params![call.as_str(), place.n])?
                }
            };
        }
        Ok(())
    }
}

fn or_null(value: Option<Value>) -> Value {
    value.unwrap_or(Value::Null)
}
