//! A conversation as text, for whoever sums it up: plain on every wire, and always short enough.
//!
//! What does not fit is shortened where it is longest, so that a single large file does not cost the rest of the
//! conversation its words. When even that is not enough, the oldest goes.

use proto::entry::{Entry, Input, ReplyPart, Stored};
use proto::letter::InputPart;

/// Bytes a token is taken to have here: fewer than elsewhere, since a request that is too long is of no use.
const BYTES: u64 = 3;

/// Nothing is shortened to less.
const FEWEST: usize = 80;

/// What is taken to be left for a conversation where nobody knows a model's context, in tokens.
const UNKNOWN: u64 = 32_000;

/// Bytes of conversation that fit a request within `usable` tokens.
pub(crate) fn most_bytes(usable: u64) -> usize {
    let tokens = if usable == 0 { UNKNOWN } else { usable / 10 * 8 };
    usize::try_from(tokens * BYTES).unwrap_or(usize::MAX)
}

/// The entries in words, with what was summed up before them, in at most about `most` bytes.
pub(crate) fn text(before: Option<&str>, entries: &[Stored], most: usize) -> String {
    let mut pieces: Vec<(&'static str, String)> = Vec::new();
    pieces.extend(before.map(|summary| ("summary of what came before", summary.to_owned())));
    for stored in entries {
        add(&mut pieces, &stored.entry);
    }
    let longest = longest(&pieces, most);
    let written: Vec<String> =
        pieces.iter().map(|(who, said)| format!("[{who}]\n{}\n", shortened(said, longest))).collect();
    // The summary of what came before is never what goes.
    let first = usize::from(before.is_some());
    let mut size: usize = written.iter().map(String::len).sum();
    let mut from = first;
    while size > most && from + 1 < written.len() {
        size -= written[from].len();
        from += 1;
    }
    let gone = from - first;
    let note = (gone > 0).then(|| format!("[{gone} older pieces are left out here]\n"));
    written[..first].iter().cloned().chain(note).chain(written[from..].iter().cloned()).collect()
}

fn add(pieces: &mut Vec<(&'static str, String)>, entry: &Entry) {
    match entry {
        Entry::Input(input) if input.compact.is_some() || input.parts.is_empty() => {}
        Entry::Input(input) => pieces.push(("user", words_of(input))),
        Entry::Reply(reply) => {
            for part in &reply.parts {
                match part {
                    ReplyPart::Text(text) => pieces.push(("assistant", text.text.clone())),
                    ReplyPart::Call(call) => pieces.push(("call", format!("{} {}", call.tool, call.given().get()))),
                    ReplyPart::Reasoning(_) | ReplyPart::Block(_) => {}
                }
            }
        }
        Entry::Result(result) => pieces.push(("result", result.output.clone())),
        Entry::Notice(notice) => pieces.push(("runtime", notice.text.clone())),
        Entry::Undo(undone) => pieces.extend(crate::undo::notice(undone).map(|text| ("runtime", text))),
        Entry::Started(_)
        | Entry::Waiting(_)
        | Entry::Compaction(_)
        | Entry::Ended(_)
        | Entry::Switch(_)
        | Entry::ToolsLoaded(_)
        | Entry::Todo(_) => {}
    }
}

/// The words of an input, and the names of its files.
pub(super) fn words_of(input: &Input) -> String {
    let words = input.parts.iter().map(|part| match part {
        InputPart::Text { text } => text.clone(),
        InputPart::File { name, .. } => format!("[the file `{name}`]"),
        InputPart::Subtask { agent, prompt, .. } => format!("@{agent} {prompt}"),
    });
    words.collect::<Vec<_>>().join("\n")
}

/// The length that all pieces together fit with when no piece is longer.
fn longest(pieces: &[(&'static str, String)], most: usize) -> usize {
    let mut sizes: Vec<usize> = pieces.iter().map(|(_, said)| said.len()).collect();
    sizes.sort_unstable();
    // Brackets, names and marks.
    let mut left = most.saturating_sub(pieces.len() * 32);
    for (at, size) in sizes.iter().enumerate() {
        let share = left / (sizes.len() - at);
        if *size > share {
            return share.max(FEWEST);
        }
        left -= size;
    }
    usize::MAX
}

/// Its beginning and its end.
pub(super) fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let (head, tail) = (most / 3 * 2, most / 3);
    let (head, tail) = (text.floor_char_boundary(head), text.ceil_char_boundary(text.len() - tail));
    format!("{}\n…({} bytes are left out)…\n{}", &text[..head], tail - head, &text[tail..])
}
