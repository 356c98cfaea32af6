//! Undo, as far as it is deciding: what is taken back, what of a log counts no more, and what a model is told of it.
//!
//! A log only grows. An undo is an entry behind it that names what is set aside, and everybody who folds a log leaves that
//! out first ([`standing`]). A redo is another such entry, with less set aside. Each names all there is, so that the newest
//! one is enough.

mod asked;

pub(crate) use asked::at;

use proto::entry::{Compaction, CompactionState, Entry, Input, State, Stored, Undone};
use proto::letter::{Switch, Undo};
use proto::{CallId, Code, Error, FileUndone, LetterId, NotUndone, message};
use std::collections::HashSet;

/// What a model reads as the result of a call that was under way where an undo went back to.
pub(crate) const TAKEN_BACK: &str = "The person took this call back, with all that came after it.";

/// A longer input of a call is named by its beginning: the call itself stands in the log.
const LONG: usize = 4000;

/// First and last entry.
pub(crate) type Stretch = (u64, u64);

/// The entries that count.
pub(crate) fn standing(mut entries: Vec<Stored>) -> Vec<Stored> {
    if let Some(newest) = newest(&entries).cloned() {
        entries.retain(|stored| !newest.sets_aside(stored.seq));
    }
    entries
}

/// The undo or redo that says what is set aside.
fn newest(entries: &[Stored]) -> Option<&Undone> {
    entries.iter().rev().find_map(|stored| match &stored.entry {
        Entry::Undo(undone) => Some(undone),
        _ => None,
    })
}

/// What a model is told when files changed under it and the conversation goes on.
pub(crate) fn notice(undone: &Undone) -> Option<String> {
    let changed = |file: &&FileUndone| file.state.is_changed();
    let files: Vec<String> = undone.changed.iter().filter(changed).map(|file| format!("`{}`", file.path)).collect();
    if undone.conversation || files.is_empty() {
        return None;
    }
    let what = if undone.redoes.is_some() { "took the undo of your changes back" } else { "undid your changes" };
    Some(format!(
        "[notice from the runtime, not from a person] The person {what} in {}: read a file again before you rely on it.",
        files.join(", ")
    ))
}

/// What an undo or a redo comes to.
pub(crate) struct Plan {
    /// What is kept of it, but for what became of the files.
    pub(crate) entry: Undone,
    /// Whose changes of files are taken back: calls, or an undo.
    pub(crate) by: HashSet<String>,
    /// The permission mode the session is in then, if it is another.
    pub(crate) mode: Option<String>,
}

/// The end of a log, and what is set aside in all of it: the undo that says so may be older than what was read.
pub(crate) struct Past<'a> {
    pub(crate) log: &'a [Stored],
    /// The newest entry.
    pub(crate) last: u64,
    pub(crate) aside: Vec<Stretch>,
}

/// Decides what `wish` means for a session.
pub(crate) fn plan(past: &Past<'_>, letter: &LetterId, wish: &Undo) -> Result<Plan, Error> {
    if wish.redo { forth(past, letter, wish) } else { back(past, letter, wish) }
}

/// An entry that changes nothing and says why.
pub(crate) fn refusal(past: &Past<'_>, letter: &LetterId, why: Error) -> Undone {
    Undone { aside: past.aside.clone(), refused: Some(why), ..blank(letter, 0) }
}

fn blank(letter: &LetterId, to: u64) -> Undone {
    Undone {
        letter: letter.clone(),
        to,
        redoes: None,
        files: false,
        conversation: false,
        changed: Vec::new(),
        messages: 0,
        not_undone: Vec::new(),
        aside: Vec::new(),
        held: Vec::new(),
        previous: 0,
        refused: None,
    }
}

fn back(past: &Past<'_>, letter: &LetterId, wish: &Undo) -> Result<Plan, Error> {
    let Past { log, last, aside } = past;
    let stands = |stored: &&Stored| !within(aside, stored.seq);
    let to = match wish.to {
        Some(to) => to,
        None => before_newest(log.iter().filter(stands)).ok_or_else(|| {
            Error::new(Code::Conflict, "there is nothing to undo").hint("name an entry with `--to` to go back further")
        })?,
    };
    if to > *last {
        return Err(Error::invalid(format!("the log ends with entry {last}, so nothing comes after {to}")));
    }
    if within(aside, to) {
        return Err(Error::invalid(format!("entry {to} was undone before"))
            .hint("take that back with `convoke redo` first, or name an entry that `convoke history` shows"));
    }
    let after = || log.iter().filter(|stored| stored.seq > to);
    if wish.conversation
        && let Some(summed) = after().filter(stands).find(|stored| is_summary(&stored.entry))
    {
        let why =
            format!("the conversation was summed up since (entry {}), and cannot go back behind that", summed.seq);
        return Err(Error::new(Code::Conflict, why).hint("files can: `--files`"));
    }
    let own = (to + 1, *last);
    let mut entry = Undone { files: wish.files, conversation: wish.conversation, ..blank(letter, to) };
    entry.held = inside(aside, own);
    entry.aside = if wish.conversation { joined(outside(aside, own), [own]) } else { aside.clone() };
    entry.not_undone = lasting(after().filter(stands));
    if wish.conversation {
        entry.messages = messages(after().filter(stands));
    }
    let by = if wish.files { calls(after()) } else { HashSet::new() };
    // As it was before the first switch that is undone.
    let mode = after().filter(stands).filter_map(|stored| switch(stored)?.mode_before.clone()).next();
    Ok(Plan { entry, by, mode: mode.filter(|_| wish.conversation && !wish.keep_mode) })
}

fn forth(past: &Past<'_>, letter: &LetterId, wish: &Undo) -> Result<Plan, Error> {
    let Past { log, aside, .. } = past;
    let stands = |stored: &&Stored| !within(aside, stored.seq);
    let undo = |stored: &Stored| match &stored.entry {
        Entry::Undo(undone) if undone.redoes.is_none() && undone.refused.is_none() => {
            Some((stored.seq, undone.clone()))
        }
        _ => None,
    };
    let nothing = || Error::new(Code::Conflict, "there is nothing to redo").hint("`convoke undo` comes first");
    let (seq, undone) = log.iter().rev().filter(stands).find_map(undo).ok_or_else(nothing)?;
    let said = |stored: &&Stored| matches!(stored.entry, Entry::Input(_) | Entry::Reply(_));
    if log.iter().filter(stands).any(|stored| stored.seq > seq && said(&stored)) {
        let why = "something was said since the undo, so it cannot be taken back any more";
        return Err(Error::new(Code::Conflict, why).hint("undo what was said since first"));
    }
    let (files, conversation) = (wish.files && undone.files, wish.conversation && undone.conversation);
    if !files && !conversation {
        let what = if wish.files { "files" } else { "the conversation" };
        return Err(Error::new(Code::Conflict, format!("the newest undo did not touch {what}")));
    }
    let own = (undone.to + 1, seq - 1);
    let mut entry = Undone { redoes: Some(seq), files, conversation, ..blank(letter, undone.to) };
    entry.aside = if conversation { joined(outside(aside, own), undone.held.clone()) } else { aside.clone() };
    // An undo whose conversation is still set aside is not over.
    if conversation == undone.conversation {
        entry.aside = joined(entry.aside, [(seq, seq)]);
    }
    let again =
        || log.iter().filter(|stored| (own.0..=own.1).contains(&stored.seq) && !within(&undone.held, stored.seq));
    if conversation {
        entry.messages = messages(again());
    }
    let by = if files { HashSet::from([undone.letter.to_string()]) } else { HashSet::new() };
    let mode = again().filter_map(|stored| switch(stored)?.mode.clone()).next_back();
    Ok(Plan { entry, by, mode: mode.filter(|_| conversation && !wish.keep_mode) })
}

/// The entry before the newest word of a person, or of whoever writes to a session that no person writes to.
fn before_newest<'a>(entries: impl DoubleEndedIterator<Item = &'a Stored> + Clone) -> Option<u64> {
    let input = |stored: &'a Stored| match &stored.entry {
        Entry::Input(input) if input.compact.is_none() => Some((stored.seq, input)),
        _ => None,
    };
    let inputs = entries.filter_map(input);
    let by_person = inputs.clone().rfind(|(_, input)| is_by_person(input));
    by_person.or_else(|| inputs.clone().next_back()).map(|(seq, _)| seq - 1)
}

fn is_by_person(input: &Input) -> bool {
    input.provenance.as_ref().is_none_or(|from| from.kind == "external_user")
}

fn is_summary(entry: &Entry) -> bool {
    let done = |c: &Compaction| c.state == CompactionState::Done && c.keeps_from.is_some();
    matches!(entry, Entry::Compaction(compaction) if done(compaction))
}

fn switch(stored: &Stored) -> Option<&Switch> {
    match &stored.entry {
        Entry::Switch(switch) => Some(switch),
        _ => None,
    }
}

fn messages<'a>(entries: impl Iterator<Item = &'a Stored>) -> u64 {
    entries.filter(|stored| message::is_message(&stored.entry, true)).count() as u64
}

/// Calls that were made or came to their end here: what changed files may have done it at any time in between.
fn calls<'a>(entries: impl Iterator<Item = &'a Stored>) -> HashSet<String> {
    let ids = |stored: &'a Stored| -> Vec<&'a CallId> {
        match &stored.entry {
            Entry::Reply(reply) => reply.calls().map(|call| &call.id).collect(),
            Entry::Result(result) => vec![&result.call],
            _ => Vec::new(),
        }
    };
    entries.flat_map(ids).map(ToString::to_string).collect()
}

/// Calls that ran and whose effects nobody takes back.
fn lasting<'a>(entries: impl Iterator<Item = &'a Stored> + Clone) -> Vec<NotUndone> {
    let denied = |stored: &'a Stored| match &stored.entry {
        Entry::Result(result) if result.state == State::Denied => Some(&result.call),
        _ => None,
    };
    let denied: HashSet<&CallId> = entries.clone().filter_map(denied).collect();
    let mut found = Vec::new();
    for stored in entries {
        let Entry::Reply(reply) = &stored.entry else { continue };
        for call in reply.calls().filter(|call| !denied.contains(&call.id)) {
            if tools::find(&call.tool).is_some_and(|tool| tool.spec().lasting) {
                found.push(NotUndone { seq: stored.seq, tool: call.tool.clone(), input: shown(call.given().get()) });
            }
        }
    }
    found
}

/// The input of a call, or the beginning of a long one.
fn shown(input: &str) -> serde_json::Value {
    match input.len() {
        0..=LONG => serde_json::from_str(input).unwrap_or_default(),
        _ => format!("{}…", &input[..input.floor_char_boundary(LONG)]).into(),
    }
}

fn within(stretches: &[Stretch], seq: u64) -> bool {
    stretches.iter().any(|(first, last)| (*first..=*last).contains(&seq))
}

/// What of some stretches lies in another.
fn inside(stretches: &[Stretch], of: Stretch) -> Vec<Stretch> {
    let cut = stretches.iter().map(|(first, last)| (*first.max(&of.0), *last.min(&of.1)));
    cut.filter(|(first, last)| first <= last).collect()
}

/// What of some stretches lies outside of another.
fn outside(stretches: &[Stretch], of: Stretch) -> Vec<Stretch> {
    if of.0 > of.1 {
        return stretches.to_vec();
    }
    let before = inside(stretches, (0, of.0 - 1));
    before.into_iter().chain(inside(stretches, (of.1 + 1, u64::MAX))).collect()
}

/// All of them in order, those that meet as one.
fn joined(stretches: Vec<Stretch>, more: impl IntoIterator<Item = Stretch>) -> Vec<Stretch> {
    let mut all: Vec<Stretch> = stretches.into_iter().chain(more).filter(|(first, last)| first <= last).collect();
    all.sort_unstable();
    let mut joined: Vec<Stretch> = Vec::with_capacity(all.len());
    for (first, last) in all {
        match joined.last_mut() {
            Some(before) if first <= before.1 + 1 => before.1 = before.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    joined
}

#[cfg(test)]
mod tests;
