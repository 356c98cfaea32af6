//! Forks: a session that stands on another one's log up to an entry, by reference.
//!
//! The other one was in the middle of something there. A fork is not: what was open is closed for it, in memory and always
//! in the same words, so that the two conversations stay the same bytes up to that point.

use crate::undo;
use crate::view::View;
use proto::entry::{CallResult, Ended, State, Stored, TodoList};
use proto::{Entry, Outcome};
use store::Session;

/// What a fork reads as the result of every call that was open where it stands.
const ELSEWHERE: &str =
    "This call belongs to the session you were forked from, which goes on without you: its outcome stays there.";

/// A session's entries as it reads them itself: with the borrowed ones brought to an end, and without those that were
/// undone.
pub(crate) fn standing(row: &Session, mut entries: Vec<Stored>) -> Vec<Stored> {
    let Some(fork) = &row.fork else { return undo::standing(entries) };
    let end = entries.partition_point(|stored| stored.seq <= fork.seq);
    let borrowed = undo::standing(entries[..end].to_vec());
    let view = View::of(borrowed.iter().map(|stored| (stored.seq, &stored.entry)));
    let at = entries[..end].last().map_or(row.created, |stored| stored.at);
    let closed = view.open().iter().map(|open| {
        Entry::Result(CallResult {
            call: open.call.id.clone(),
            state: State::Ok,
            output: ELSEWHERE.into(),
            data: None,
            files: Vec::new(),
            ms: 0,
            ends_turn: false,
            shutdown: None,
            loads: Vec::new(),
            wrote: Vec::new(),
        })
    });
    let over = view.answering().map(|now| {
        let run = now.run.clone();
        Entry::Ended(Ended { run, outcome: Outcome::Ok, code: None, message: None, hint: None })
    });
    // A child has work of its own, and so a list of its own.
    let is_child = row.parent.as_ref() == Some(&fork.of);
    let forgotten = (is_child && !view.todo().is_empty()).then(|| Entry::Todo(TodoList::default()));
    let made: Vec<Stored> =
        closed.chain(over).chain(forgotten).map(|entry| Stored { seq: fork.seq, at, entry }).collect();
    entries.splice(end..end, made);
    undo::standing(entries)
}
