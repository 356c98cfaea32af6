//! Making room in a context (A9), as far as it is deciding: what is kept, what is summed up, and in which words.
//!
//! A compaction is one entry behind the conversation: a summary, and the first entry that is still sent verbatim. The log
//! keeps everything. A call and its results are never on two sides of the cut.

mod standing;
mod writing;

pub(crate) use standing::{Child, Question, Standing, opening};
pub(crate) use writing::{most_bytes, text};

use proto::entry::{Compaction, CompactionState, Entry, File, Input, Reply, ReplyPart, Stored};
use proto::letter::{Compact, InputPart};
use proto::{CallId, RunId};
use std::collections::HashSet;

/// The least that is kept verbatim, in tokens, and the most (A9).
pub(crate) const LEAST: u64 = 2_000;
const MOST: u64 = 15_000;

/// What an image or another file is taken to fill: nobody here can count it.
const FILE: u64 = 1_500;

/// Shorter output is not worth leaving out.
const SHORT: usize = 400;

/// What a model reads in place of output that was left out.
pub(crate) const PRUNED: &str =
    "[this output was left out to make room in the context: make the call again if you need it]";

/// How a text begins and ends, in about `most` bytes, with a word about what is left out between.
pub(crate) fn shortened(text: &str, most: usize, where_it_is: &str) -> String {
    let (head, tail) = (text.floor_char_boundary(most / 2), text.ceil_char_boundary(text.len() - most / 2));
    let left_out = tail - head;
    format!(
        "{}\n\n[… {left_out} bytes are left out here to make room; {where_it_is} …]\n\n{}",
        &text[..head],
        &text[tail..]
    )
}

/// Room that was made.
pub(crate) fn done(stored: &Stored) -> Option<&Compaction> {
    match &stored.entry {
        Entry::Compaction(done) if done.state == CompactionState::Done => Some(done),
        _ => None,
    }
}

/// Tokens that stay verbatim: a quarter of what there is.
pub(crate) fn tail(usable: u64) -> u64 {
    (usable / 4).clamp(LEAST, MOST)
}

/// `/compact`, and what the summary is to look after.
pub(crate) fn asked(prompt: &str) -> Option<Compact> {
    let rest = prompt.trim().strip_prefix("/compact")?;
    let separate = rest.is_empty() || rest.starts_with(char::is_whitespace);
    let words = rest.trim();
    separate.then(|| Compact { instructions: (!words.is_empty()).then(|| words.to_owned()) })
}

/// Tokens an entry fills of a request, roughly.
pub(crate) fn weight(entry: &Entry) -> u64 {
    match entry {
        Entry::Input(input) if input.compact.is_some() => 0,
        Entry::Input(input) => input.parts.iter().map(part_weight).sum(),
        Entry::Reply(reply) => llm::estimate(reply.parts.iter().map(reply_size).sum()),
        Entry::Result(result) => llm::estimate(result.output.len()),
        Entry::Notice(notice) => llm::estimate(notice.text.len()),
        Entry::Undo(undone) => crate::undo::notice(undone).map_or(0, |text| llm::estimate(text.len())),
        Entry::Started(_)
        | Entry::Waiting(_)
        | Entry::Compaction(_)
        | Entry::Ended(_)
        | Entry::Switch(_)
        | Entry::ToolsLoaded(_)
        | Entry::Todo(_) => 0,
    }
}

fn part_weight(part: &InputPart) -> u64 {
    match part {
        InputPart::Text { text } => llm::estimate(text.len()),
        InputPart::File { .. } => FILE,
        InputPart::Subtask { .. } => 0,
    }
}

fn reply_size(part: &ReplyPart) -> usize {
    match part {
        ReplyPart::Text(text) => text.text.len(),
        ReplyPart::Reasoning(thought) => thought.block.as_ref().map_or(thought.text.len(), |b| b.raw.get().len()),
        ReplyPart::Call(call) => call.tool.len() + call.input.get().len(),
        ReplyPart::Block(block) => block.raw.get().len(),
    }
}

/// How many entries go into the summary: those before the newest turns that fill no more than `tail` tokens. Where not
/// even one turn is that short, the cut is inside it, before a reply; where not even one reply is, all is summed up.
pub(crate) fn cut(entries: &[Stored], tail: u64) -> usize {
    let whole = whole_before(entries);
    let (mut turn, mut step, mut filled) = (None, None, 0);
    for at in (0..entries.len()).rev() {
        filled += weight(&entries[at].entry);
        if filled > tail {
            break;
        }
        match &entries[at].entry {
            Entry::Input(input) if whole[at] && input.compact.is_none() => turn = Some(at),
            Entry::Reply(_) if whole[at] => step = Some(at),
            _ => {}
        }
    }
    turn.or(step).unwrap_or(entries.len())
}

/// For each entry, whether every call before it has its result before it.
fn whole_before(entries: &[Stored]) -> Vec<bool> {
    let mut open: HashSet<&CallId> = HashSet::new();
    let mut whole = Vec::with_capacity(entries.len());
    for stored in entries {
        whole.push(open.is_empty());
        match &stored.entry {
            Entry::Reply(reply) => open.extend(reply.calls().map(|call| &call.id)),
            Entry::Result(result) => {
                open.remove(&result.call);
            }
            _ => {}
        }
    }
    whole
}

/// Whether there is anything to sum up.
pub(crate) fn says_something(entries: &[Stored]) -> bool {
    entries.iter().any(|stored| matches!(&stored.entry, Entry::Reply(reply) if is_said(reply)))
}

fn is_said(reply: &Reply) -> bool {
    !reply.text().is_empty() || reply.calls().next().is_some()
}

/// The entry before which output can be left out, and how many tokens that saves. What was left out before saves
/// nothing.
pub(crate) fn prune(entries: &[Stored], tail: u64, already: u64) -> Option<(u64, u64)> {
    // What the newest reply asked for is about to be read.
    let newest = entries.iter().rposition(|stored| matches!(stored.entry, Entry::Reply(_)))?;
    let end = cut(entries, tail).min(newest);
    let before = entries[end].seq;
    let saved = entries[..end].iter().filter(|stored| stored.seq >= already).map(saves).sum();
    (saved > 0).then_some((before, saved))
}

fn saves(stored: &Stored) -> u64 {
    match &stored.entry {
        Entry::Result(result) if is_long(&result.output, &result.files) => {
            let shown: usize = result.files.iter().map(|file| file.data.len()).sum();
            llm::estimate((result.output.len() + shown).saturating_sub(PRUNED.len()))
        }
        _ => 0,
    }
}

/// Output that is left out when room is short.
pub(crate) fn is_long(output: &str, files: &[File]) -> bool {
    output.len() > SHORT || !files.is_empty()
}

/// The newest prompt of a run that is summed up, unless a newer one is not; and the replies to it that are. `before` are
/// those of the summary before.
pub(crate) fn under_way(
    head: &[Stored],
    rest: &[Stored],
    run: &RunId,
    before: Option<(String, u32)>,
) -> Option<(String, u32)> {
    let of_run = |stored: &Stored| matches!(&stored.entry, Entry::Input(input) if is_prompt(input, run));
    if rest.iter().any(of_run) {
        return None;
    }
    let replied = |stored: &&Stored| matches!(&stored.entry, Entry::Reply(reply) if is_said(reply));
    let replies = |entries: &[Stored]| u32::try_from(entries.iter().filter(replied).count()).unwrap_or(u32::MAX);
    match head.iter().rposition(of_run).map(|at| (at, &head[at].entry)) {
        Some((at, Entry::Input(input))) => Some((writing::words_of(input), replies(&head[at..]))),
        _ => before.map(|(asked, steps)| (asked, steps.saturating_add(replies(head)))),
    }
}

fn is_prompt(input: &Input, run: &RunId) -> bool {
    &input.run == run && input.compact.is_none() && !input.parts.is_empty()
}

#[cfg(test)]
mod tests;
