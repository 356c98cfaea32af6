//! Rust values as SQLite columns, and back.

use super::fault::{Fault, Result};
use crate::{Fork, Halt, Mode, Run, Session};
use proto::{SessionId, Status, Usage};
use rusqlite::Row;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// SQLite's numbers have a sign; none of ours ever comes near it.
pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(row: &Row<'_>, column: usize) -> Result<u64> {
    Ok(row.get::<_, i64>(column)?.max(0) as u64)
}

/// The word that an enum is on the wire, so that a person with a database shell reads the same.
pub(super) fn word<T: Serialize>(value: &T) -> Result<String> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Ok(word),
        other => Err(Fault::Unreadable(format!("not a word: {other:?}"))),
    }
}

pub(super) fn from_word<T: DeserializeOwned>(word: &str) -> Result<T> {
    serde_json::from_value(word.into()).map_err(|error| Fault::Unreadable(error.to_string()))
}

pub(super) fn json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Fault::Unreadable(error.to_string()))
}

pub(super) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Fault::Unreadable(error.to_string()))
}

pub(super) fn session_id(text: &str) -> Result<SessionId> {
    SessionId::parse(text).map_err(|error| Fault::Unreadable(error.to_string()))
}

pub(super) fn status(text: &str) -> Result<Status> {
    Status::parse(text).ok_or_else(|| Fault::Unreadable(format!("no status `{text}`")))
}

/// A column's text where it lies, without a copy.
pub(super) fn text<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r str> {
    row.get_ref(column)?.as_str().map_err(|error| Fault::Unreadable(error.to_string()))
}

pub(super) fn text_or_null<'r>(row: &'r Row<'_>, column: usize) -> Result<Option<&'r str>> {
    row.get_ref(column)?.as_str_or_null().map_err(|error| Fault::Unreadable(error.to_string()))
}

/// What [`session`] reads, in its order.
pub(super) const SESSION: &str = "SELECT s.id, s.key, s.owner, s.agent, s.model, s.parent, s.root, s.depth, s.path, s.kind, s.driver, s.mode, \
     s.title, s.label, s.cwd, s.policy, s.fork_of, s.fork_seq, s.archived, s.status, s.run, s.created, s.activity, \
     s.started, s.ended, h.seq, h.base, h.pending, h.epoch, h.context_tokens, h.attempts, h.attempt_seq, \
     h.input, h.output, h.cache_read, h.cache_write, h.cost, s.cleanup, s.name, s.stopped, s.worktree, s.undone \
     FROM sessions s JOIN heads h ON h.n = s.n ";

pub(super) fn session(row: &Row<'_>) -> Result<Session> {
    Ok(Session {
        id: session_id(text(row, 0)?)?,
        key: row.get(1)?,
        owner: row.get(2)?,
        agent: row.get(3)?,
        model: row.get(4)?,
        parent: text_or_null(row, 5)?.map(session_id).transpose()?,
        root: session_id(text(row, 6)?)?,
        depth: row.get(7)?,
        path: row.get(8)?,
        kind: row.get(9)?,
        driver: row.get(10)?,
        mode: from_word::<Mode>(text(row, 11)?)?,
        title: row.get(12)?,
        label: row.get(13)?,
        cwd: row.get(14)?,
        policy: row.get(15)?,
        fork: match text_or_null(row, 16)? {
            Some(of) => Some(Fork { of: session_id(of)?, seq: unsigned(row, 17)? }),
            None => None,
        },
        archived: row.get(18)?,
        status: status(text(row, 19)?)?,
        run: text_or_null(row, 20)?.map(from_word).transpose()?,
        created: row.get(21)?,
        activity: row.get(22)?,
        started: row.get(23)?,
        ended: row.get(24)?,
        seq: unsigned(row, 25)?,
        base: unsigned(row, 26)?,
        pending: row.get(27)?,
        epoch: unsigned(row, 28)?,
        context_tokens: unsigned(row, 29)?,
        attempts: row.get(30)?,
        attempt_seq: unsigned(row, 31)?,
        usage: usage(row, 32)?,
        cleanup: row.get(37)?,
        name: row.get(38)?,
        halt: halt(row.get(39)?),
        worktree: text_or_null(row, 40)?.map(from_json).transpose()?,
        undone: unsigned(row, 41)?,
    })
}

/// What [`run`] reads, in its order.
pub(super) const RUN: &str = "SELECT r.id, s.id, s.root, r.report, r.created, r.started, r.ended, r.outcome, r.code, r.message, r.hint, \
     r.answer, r.input, r.output, r.cache_read, r.cache_write, r.cost \
     FROM runs r JOIN sessions s ON s.n = r.session ";

pub(super) fn run(row: &Row<'_>) -> Result<Run> {
    Ok(Run {
        id: from_word(text(row, 0)?)?,
        session: session_id(text(row, 1)?)?,
        root: session_id(text(row, 2)?)?,
        report: text_or_null(row, 3)?.map(from_json).transpose()?,
        created: row.get(4)?,
        started: row.get(5)?,
        ended: row.get(6)?,
        outcome: text_or_null(row, 7)?.map(from_word).transpose()?,
        code: text_or_null(row, 8)?.map(from_word).transpose()?,
        message: row.get(9)?,
        hint: row.get(10)?,
        answer: row.get::<_, Option<i64>>(11)?.map(|seq| seq.max(0) as u64),
        usage: usage(row, 12)?,
    })
}

/// Five columns from `first` on.
fn usage(row: &Row<'_>, first: usize) -> Result<Usage> {
    Ok(Usage {
        input: unsigned(row, first)?,
        output: unsigned(row, first + 1)?,
        cache_read: unsigned(row, first + 2)?,
        cache_write: unsigned(row, first + 3)?,
        cost_usd: row.get(first + 4)?,
    })
}

/// As the column `stopped` has it, which was a yes or no at first.
pub(super) fn halt_number(halt: Halt) -> i64 {
    match halt {
        Halt::No => 0,
        Halt::Stopped => 1,
        Halt::Closed => 2,
    }
}

fn halt(number: i64) -> Halt {
    match number {
        0 => Halt::No,
        2 => Halt::Closed,
        _ => Halt::Stopped,
    }
}
