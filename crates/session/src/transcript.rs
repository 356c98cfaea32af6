//! The conversation as a model is sent it: one fragment per entry, written once and sent again with every later request.
//!
//! Work per step is proportional to what is new. The bytes of what was sent before never change, which is also what a
//! provider's prompt cache asks for.

use crate::compaction::{PRUNED, done, is_long, opening};
use crate::undo;
use bytes::Bytes;
use llm::{CallRef, FileRef, Message, Model, Provider, ResultRef, Said};
use proto::entry::{CallResult, Entry, File, Input, Reply, ReplyPart, State, Stored, ToolsLoaded};
use proto::letter::InputPart;
use proto::{Call, CallId};
use std::sync::Arc;

/// So many bytes of messages become one piece: what a step pays for the older ones is then next to nothing.
const BLOCK: usize = 32 * 1024;

pub(crate) struct Transcript {
    provider: Arc<dyn Provider>,
    /// Blocks first, then single messages.
    fragments: Vec<Bytes>,
    blocks: usize,
    /// Bytes of the single messages.
    loose: usize,
    /// The calls of the newest reply, and their results as they come in: sent together, in the order of the calls.
    calls: Vec<(Call, Option<Settled>)>,
    /// What was said while calls were open: wires want results right behind the reply.
    held: Vec<Bytes>,
    /// Long output before this entry is not sent any more.
    prunes_before: u64,
    takes: Takes,
}

/// What is kept of a result until all of them are there.
/// What a model takes beside words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Takes {
    /// Images and documents.
    images: bool,
    /// References to tools, in place of their descriptions.
    references: bool,
}

impl Takes {
    pub(crate) fn of(model: &Model) -> Self {
        Self { images: model.images, references: model.defers }
    }
}

/// For a model that cannot look at what a call brought.
const UNSEEN: &str = " (you cannot look at it)";

struct Settled {
    output: String,
    failed: bool,
    files: Vec<File>,
    shows: Vec<String>,
}

impl Transcript {
    pub(crate) fn new(provider: Arc<dyn Provider>, takes: Takes) -> Self {
        let (fragments, calls, held) = (Vec::new(), Vec::new(), Vec::new());
        Self { provider, fragments, blocks: 0, loose: 0, calls, held, prunes_before: 0, takes }
    }

    /// What a log says to a model: the newest summary, and what came since.
    pub(crate) fn of(provider: Arc<dyn Provider>, takes: Takes, entries: &[Stored]) -> Self {
        let mut transcript = Self::new(provider, takes);
        let compactions = || entries.iter().filter_map(done);
        transcript.prunes_before = compactions().filter_map(|done| done.prunes_before).max().unwrap_or(0);
        let summed = compactions().rfind(|done| done.keeps_from.is_some());
        let from = summed.and_then(|done| done.keeps_from).unwrap_or(0);
        if let Some(done) = summed {
            transcript.user(&opening(done));
            done.asked.iter().for_each(|prompt| transcript.user(prompt));
        }
        let kept = entries.iter().filter(|stored| stored.seq >= from);
        kept.for_each(|stored| transcript.apply(stored.seq, &stored.entry));
        transcript
    }

    pub(crate) fn is_for(&self, provider: &Arc<dyn Provider>, takes: Takes) -> bool {
        Arc::ptr_eq(&self.provider, provider) && self.takes == takes
    }

    pub(crate) fn apply(&mut self, seq: u64, entry: &Entry) {
        match entry {
            Entry::Input(input) if input.parts.is_empty() || input.compact.is_some() => {}
            Entry::Input(input) => self.took(input),
            Entry::Reply(reply) => self.replied(reply),
            Entry::Result(result) => self.settled(seq, result),
            Entry::Notice(notice) => {
                self.user(&format!("[notice from the runtime, not from a person] {}", notice.text));
            }
            Entry::ToolsLoaded(tools) => {
                if let Some(text) = changed(tools) {
                    self.user(&format!("[notice from the runtime, not from a person] {text}"));
                }
            }
            Entry::Undo(undone) => {
                if undone.goes_back() {
                    self.break_off();
                }
                if let Some(text) = undo::notice(undone) {
                    self.user(&text);
                }
            }
            Entry::Started(_)
            | Entry::Waiting(_)
            | Entry::Compaction(_)
            | Entry::Ended(_)
            | Entry::Switch(_)
            | Entry::Todo(_) => {}
        }
    }

    /// The messages of the next request, oldest first.
    pub(crate) fn messages(&self) -> Vec<Bytes> {
        self.fragments.clone()
    }

    /// One more message at the end of a request, and not of the log.
    pub(crate) fn with(&self, text: &str) -> Vec<Bytes> {
        let mut messages = self.messages();
        messages.push(self.provider.encode(&Message::user(text)));
        messages
    }

    fn took(&mut self, input: &Input) {
        let (text, files) = (text_of(input), files_of(input));
        self.hear(self.provider.encode(&Message::User { text: &text, files }));
    }

    fn user(&mut self, text: &str) {
        self.hear(self.provider.encode(&Message::user(text)));
    }

    fn hear(&mut self, fragment: Bytes) {
        if self.calls.is_empty() { self.push(fragment) } else { self.held.push(fragment) }
    }

    /// Joining costs each message once: the bytes sent stay the same.
    fn push(&mut self, fragment: Bytes) {
        self.loose += fragment.len();
        self.fragments.push(fragment);
        if self.loose < BLOCK {
            return;
        }
        if let Some(block) = self.provider.join(&self.fragments[self.blocks..]) {
            self.fragments.truncate(self.blocks);
            self.fragments.push(block);
            self.blocks += 1;
        }
        self.loose = 0;
    }

    fn replied(&mut self, reply: &Reply) {
        let said: Vec<Said<'_>> = reply.parts.iter().map(said).collect();
        // Some wires refuse an assistant message without content.
        if reply.text().is_empty() && reply.calls().next().is_none() {
            return;
        }
        self.push(self.provider.encode(&Message::Assistant(said)));
        self.calls = reply.calls().map(|call| (call.clone(), None)).collect();
    }

    fn settled(&mut self, seq: u64, result: &CallResult) {
        let shows = if self.takes.references { result.loads.clone() } else { Vec::new() };
        let said = if shows.is_empty() { &result.output } else { tools::tool_search::beside(&result.output) };
        let pruned = seq < self.prunes_before && is_long(said, &result.files);
        let Some((_, slot)) = self.calls.iter_mut().find(|(call, _)| call.id == result.call) else { return };
        let mut output = if pruned { PRUNED.to_owned() } else { said.to_owned() };
        let files = if pruned || !self.takes.images { Vec::new() } else { result.files.clone() };
        if !pruned && files.len() < result.files.len() {
            output.push_str(UNSEEN);
        }
        *slot = Some(Settled { output, failed: result.state != State::Ok, files, shows });
        if self.calls.iter().all(|(_, slot)| slot.is_some()) {
            self.tell_results();
        }
    }

    fn tell_results(&mut self) {
        let calls = std::mem::take(&mut self.calls);
        let results = calls.iter().filter_map(|(call, settled)| {
            let Settled { output, failed, files, shows } = settled.as_ref()?;
            let files = files.iter().map(shown).collect();
            Some(ResultRef { call: wire_id(call), tool: &call.tool, output, failed: *failed, files, shows })
        });
        self.push(self.provider.encode(&Message::Results(results.collect())));
        std::mem::take(&mut self.held).into_iter().for_each(|fragment| self.push(fragment));
    }

    /// Calls whose results were undone: wires want one for each.
    fn break_off(&mut self) {
        if self.calls.is_empty() {
            return;
        }
        for (_, slot) in &mut self.calls {
            let (output, files, shows) = (undo::TAKEN_BACK.into(), Vec::new(), Vec::new());
            slot.get_or_insert_with(|| Settled { output, failed: true, files, shows });
        }
        self.tell_results();
    }
}

fn said(part: &ReplyPart) -> Said<'_> {
    match part {
        ReplyPart::Text(text) => Said::Text(&text.text),
        ReplyPart::Reasoning(thought) => Said::Thought(thought),
        ReplyPart::Call(call) => Said::Call(as_wire(call)),
        ReplyPart::Block(block) => Said::Block(block),
    }
}

/// What a model is told of tools that came or went. That one was loaded it sees in the tool list.
fn changed(tools: &ToolsLoaded) -> Option<String> {
    let told = |names: &[String], what: &str| (!names.is_empty()).then(|| format!("{what}: {}.", names.join(", ")));
    let added = told(&tools.added, "More tools can be fetched with `tool_search` now");
    let gone = told(&tools.gone, "These tools can no longer be used");
    let parts: Vec<String> = added.into_iter().chain(gone).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

fn as_wire(call: &Call) -> CallRef<'_> {
    CallRef { id: wire_id(call), tool: &call.tool, input: &call.input }
}

fn wire_id(call: &Call) -> &str {
    call.wire_id.as_deref().unwrap_or_else(|| CallId::as_str(&call.id))
}

/// What a model reads of an input. A mention stays in the text; its subtask is shown as the call it became.
fn text_of(input: &Input) -> String {
    let text = |part: &InputPart| match part {
        InputPart::Text { text } => Some(text.clone()),
        InputPart::File { .. } | InputPart::Subtask { .. } => None,
    };
    input.parts.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

fn shown(file: &File) -> FileRef<'_> {
    FileRef { name: &file.name, mime: &file.mime, data: &file.data }
}

fn files_of(input: &Input) -> Vec<FileRef<'_>> {
    input.parts.iter().filter_map(file).collect()
}

fn file(part: &InputPart) -> Option<FileRef<'_>> {
    match part {
        InputPart::File { name, mime, data } => Some(FileRef { name, mime, data }),
        InputPart::Text { .. } | InputPart::Subtask { .. } => None,
    }
}
