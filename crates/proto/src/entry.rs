//! Entries: what a session's log is made of. State is what they say.

use crate::letter::{Compact, Conversation, InputPart, Provenance, Purse, Shutdown, Switch};
use crate::tagged::tagged;
use crate::{
    AskId, CallId, Code, FileUndone, Job, LetterId, Millis, NotUndone, Outcome, RunId, SessionId, Todo, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// An entry with its place in the log.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Stored {
    pub seq: u64,
    pub at: Millis,
    pub entry: Entry,
}

tagged! {
    /// One line of a session's log.
    pub enum Entry {
        /// A letter that was taken.
        Input(Input) = "input",
        /// What the model said in one step, with the calls it makes: stored before any of them runs.
        Reply(Reply) = "reply",
        /// A call that was asked about starts now.
        Started(Started) = "started",
        /// A call that waits for something outside.
        Waiting(Waiting) = "waiting",
        /// What became of a call.
        Result(CallResult) = "result",
        /// The context was, or is about to be, made shorter.
        Compaction(Compaction) = "compaction",
        /// A run is over; in the commit that ends it.
        Ended(Ended) = "ended",
        /// The session runs as another agent, model or directory from here on.
        Switch(Switch) = "switch",
        /// The runtime speaking. Never answered by itself.
        Notice(Notice) = "notice",
        /// Deferred tools the model may call from here on, or knows of.
        ToolsLoaded(ToolsLoaded) = "tools_loaded",
        /// The session's list of what is left to do, whole, from here on.
        Todo(TodoList) = "todo",
        /// A person took something back, or took that back.
        Undo(Undone) = "undo",
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Input {
    pub letter: LetterId,
    /// The run that answers it: its own, or the one it joined.
    pub run: RunId,
    pub parts: Vec<InputPart>,
    pub agent: String,
    /// What the session is called that takes it, if it was given a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// The leg of a conversation this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Conversation>,
    /// When the run is out of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
    /// Whose money the run spends; its own without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purse: Option<Purse>,
    /// It asks whether the session may be shut down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shutdown: Option<Shutdown>,
    /// It asks for room in the context, and no model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compact: Option<Compact>,
}

impl Input {
    /// Who speaks: `person`, `parent`, `notice`, or how an agent is addressed.
    pub fn speaker(&self) -> &str {
        let Some(from) = &self.provenance else { return "person" };
        let sender = || from.source_name.as_deref().or(from.source_session_key.as_deref());
        match (&from.speaker, from.kind.as_str()) {
            (Some(speaker), _) => speaker,
            // From before this was written down.
            (None, "inter_session") => sender().unwrap_or("notice"),
            (None, "internal_system") => "notice",
            (None, _) => "person",
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reply {
    pub step: u32,
    pub parts: Vec<ReplyPart>,
    pub usage: Usage,
    pub finish: Finish,
    /// `provider/model`; empty for a reply the runtime made up to dispatch a mention.
    pub model: String,
    /// Tools the model was told by name only, in the first reply it gave to that list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deferred: Vec<String>,
}

impl Reply {
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.parts.iter().filter_map(|part| match part {
            ReplyPart::Call(call) => Some(call),
            ReplyPart::Text(_) | ReplyPart::Reasoning(_) | ReplyPart::Block(_) => None,
        })
    }

    /// What was said, without thoughts and calls.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for part in &self.parts {
            if let ReplyPart::Text(text) = part {
                out.push_str(&text.text);
            }
        }
        out
    }
}

tagged! {
    /// A piece of a reply, in the order it arrived.
    pub enum ReplyPart {
        Text(Text) = "text",
        Reasoning(Thought) = "reasoning",
        Call(Call) = "call",
        /// Something of the provider's that nobody here knows.
        Block(Block) = "block",
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Text {
    pub text: String,
}

/// What the model thought, as far as it can be read.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Thought {
    pub text: String,
    /// The same as its provider wrote it, signatures included: sent back byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<Block>,
}

impl Thought {
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), block: None }
    }
}

/// A piece of a reply in its provider's own format.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Block {
    /// Wire and origin: who alone can read it.
    pub from: String,
    pub raw: Box<RawValue>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    pub id: CallId,
    pub tool: String,
    /// The bytes the provider sent when they are JSON; else a JSON string of them, which no tool accepts.
    pub input: Box<RawValue>,
    /// What a hook made of the input: this is what runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Box<RawValue>>,
    pub decision: Decision,
    /// The provider's own id, for the wire only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire_id: Option<String>,
}

impl Call {
    /// The input it runs with.
    pub fn given(&self) -> &RawValue {
        self.changed.as_ref().unwrap_or(&self.input)
    }
}

/// What the rules said when the call was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    Run,
    Ask,
    Deny,
}

/// Why a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finish {
    Stop,
    ToolCalls,
    Length,
    ContentFilter,
    Unknown,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Started {
    pub call: CallId,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Waiting {
    pub call: CallId,
    pub on: On,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
    /// What the tool wants to know again when the wait is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What a call waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum On {
    Run { run: RunId, session: SessionId },
    Ask { ask: AskId },
    Letter { letter: LetterId },
    Timer,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CallResult {
    pub call: CallId,
    pub state: State,
    pub output: String,
    /// Structured facts beside the text, for readers and later calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
    /// What it brought to look at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<File>,
    #[serde(default)]
    pub ms: u64,
    /// The call ends the turn: the model is not asked again before something new comes in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends_turn: bool,
    /// The session's answer to the question whether it may be shut down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shutdown: Option<bool>,
    /// Deferred tools that `output` describes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<String>,
    /// Sessions that the call has written to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrote: Vec<SessionId>,
}

/// Something to look at: an image, a PDF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    pub name: String,
    pub mime: String,
    /// In base64.
    pub data: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Ok,
    Error,
    Denied,
    Interrupted,
}

/// Room is made: by a summary, or by leaving old output of tools out. One that is done and has neither found nothing to
/// do.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Compaction {
    pub state: CompactionState,
    pub auto: bool,
    /// What the summary is to look after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The first entry that stays verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keeps_from: Option<u64>,
    /// The prompt under way, when it stands before that entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// Replies to that prompt that stand before that entry.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steps: u32,
    /// What the model is told beside the summary: children, questions, the list, the plan, as they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<String>,
    /// What later entries build on, so that nobody has to read those before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<Carried>,
    /// Long results of calls before this entry are no longer sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prunes_before: Option<u64>,
    /// What is left of the conversation, in tokens, roughly.
    #[serde(default, skip_serializing_if = "is_zero64")]
    pub tokens: u64,
    /// What the summary cost.
    #[serde(default)]
    pub usage: Usage,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CompactionState {
    #[default]
    Pending,
    Done,
}

/// What a session knows from entries that are summed up.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Carried {
    /// Who is meant by a name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub known: BTreeMap<String, SessionId>,
    /// Deferred tools that were loaded, in that order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub loaded: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub todo: Vec<Todo>,
    /// The plan that was approved last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Commands in the background whose end was not told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<Job>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_zero64(number: &u64) -> bool {
    *number == 0
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Ended {
    pub run: RunId,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Notice {
    pub text: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ToolsLoaded {
    /// Described to the model from here on.
    pub names: Vec<String>,
    /// Can be loaded from here on, and could not before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// Can no longer be called.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TodoList {
    pub items: Vec<Todo>,
}

/// What was undone or redone, and what of the log is set aside from here on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Undone {
    /// Whoever asked for it finds the answer by this.
    pub letter: LetterId,
    /// Everything after this entry was undone.
    pub to: u64,
    /// The undo that this takes back; without one, this is an undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redoes: Option<u64>,
    /// Files were put back, as far as that could be.
    pub files: bool,
    /// The conversation was set back, or forth.
    pub conversation: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<FileUndone>,
    /// Messages that were set aside, or that are back.
    #[serde(default, skip_serializing_if = "is_zero64")]
    pub messages: u64,
    /// Calls whose effects stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_undone: Vec<NotUndone>,
    /// All of the log that counts no more, first and last entry of each stretch, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aside: Vec<(u64, u64)>,
    /// What of its own stretch was set aside before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<(u64, u64)>,
    /// The entry of this kind before.
    #[serde(default, skip_serializing_if = "is_zero64")]
    pub previous: u64,
    /// Nothing was done, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<crate::Error>,
}

impl Undone {
    /// Whether an entry counts no more.
    pub fn sets_aside(&self, seq: u64) -> bool {
        self.aside.iter().any(|(first, last)| (*first..=*last).contains(&seq))
    }

    /// Whether the conversation ends here and goes on from an earlier place.
    pub fn goes_back(&self) -> bool {
        self.conversation && self.redoes.is_none() && self.refused.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_keeps_the_bytes_the_provider_sent() {
        let text = r#"{"type":"reply","step":1,"parts":[{"type":"call","id":"call_1","tool":"read","input":{"b": 1.50,  "a":[ ]},"decision":"run"}],"usage":{"input":1,"output":2,"cacheRead":0,"cacheWrite":0,"costUsd":0.0},"finish":"tool-calls","model":"p/m"}"#;
        let entry: Entry = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&entry).unwrap(), text);
        let Entry::Reply(reply) = entry else { panic!("a reply") };
        assert_eq!(reply.calls().next().unwrap().input.get(), r#"{"b": 1.50,  "a":[ ]}"#);
    }

    #[test]
    fn a_thought_keeps_the_block_it_came_as_and_an_old_one_has_none() {
        let text = r#"{"type":"reasoning","text":"hm","block":{"from":"w o","raw":{"signature":"A+/=",  "n":1.0}}}"#;
        let part: ReplyPart = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&part).unwrap(), text);
        let old: ReplyPart = serde_json::from_str(r#"{"type":"reasoning","text":"hm"}"#).unwrap();
        assert!(matches!(old, ReplyPart::Reasoning(Thought { block: None, .. })));
    }

    #[test]
    fn the_type_is_found_wherever_it_stands() {
        for text in [
            r#"{"type":"notice","text":"a"}"#,
            r#"{ "type": "notice", "text": "a" }"#,
            r#"{"text":"a","type":"notice"}"#,
        ] {
            let entry: Entry = serde_json::from_str(text).unwrap();
            assert!(matches!(entry, Entry::Notice(notice) if notice.text == "a"), "{text}");
        }
    }

    #[test]
    fn an_unknown_entry_names_the_known_ones() {
        let error = serde_json::from_str::<Entry>(r#"{"type":"riddle"}"#).unwrap_err().to_string();
        assert!(error.contains("riddle") && error.contains("input"), "{error}");
    }
}
