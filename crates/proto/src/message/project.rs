//! Turns entries into messages: one per input and one per reply, each call with what became of it.

use super::{FilePart, Message, Part, Role, ToolState};
use crate::entry::{CallResult, Compaction, CompactionState, Decision, Finish, Input, On, Reply, ReplyPart, State};
use crate::letter::InputPart;
use crate::{CallId, Entry, Stored};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The messages of a stretch of a log, oldest first. A call whose result lies outside the stretch is shown under way.
pub fn project(entries: &[Stored]) -> Vec<Message> {
    project_after(&Before::default(), entries)
}

/// Who was at work where a stretch begins: the agent, and the name it has in its tree.
#[derive(Debug, Clone, Default)]
pub struct Before {
    pub agent: String,
    pub name: Option<String>,
}

/// The same for a stretch that somebody was at work before.
pub fn project_after(before: &Before, entries: &[Stored]) -> Vec<Message> {
    let Before { agent, name } = before.clone();
    let mut projection = Projection { agent, name, ..Projection::default() };
    for stored in entries {
        projection.apply(stored);
    }
    for message in &mut projection.messages {
        message.content = content(&message.parts);
    }
    projection.messages
}

/// Whether an entry becomes a message of its own; without tools only if text is left.
pub fn is_message(entry: &Entry, include_tools: bool) -> bool {
    match entry {
        Entry::Input(input) => !input.parts.is_empty(),
        Entry::Reply(reply) => include_tools || !reply.text().trim().is_empty(),
        Entry::Compaction(compaction) => is_summary(compaction),
        Entry::Started(_)
        | Entry::Waiting(_)
        | Entry::Result(_)
        | Entry::Ended(_)
        | Entry::Switch(_)
        | Entry::Notice(_)
        | Entry::ToolsLoaded(_)
        | Entry::Todo(_)
        | Entry::Undo(_) => false,
    }
}

/// Output that is merely left out of requests is nothing to a reader, who still sees it.
fn is_summary(compaction: &Compaction) -> bool {
    compaction.state == CompactionState::Done && compaction.summary.is_some()
}

#[derive(Default)]
struct Projection {
    messages: Vec<Message>,
    /// Where each call stands: message and part.
    calls: HashMap<CallId, (usize, usize)>,
    agent: String,
    /// What the session is called, once an input said so.
    name: Option<String>,
}

impl Projection {
    fn apply(&mut self, stored: &Stored) {
        match &stored.entry {
            // One without words only says who put the reply behind it into the session's mouth.
            Entry::Input(input) if input.parts.is_empty() => self.runs_as(input),
            Entry::Input(input) => self.input(stored, input),
            Entry::Reply(reply) => self.reply(stored, reply),
            Entry::Started(started) => self.state(&started.call, ToolState::Running),
            Entry::Waiting(waiting) => {
                let asked = matches!(waiting.on, On::Ask { .. });
                self.state(&waiting.call, if asked { ToolState::Pending } else { ToolState::Running });
            }
            Entry::Result(result) => self.result(result),
            Entry::Compaction(compaction) => self.compaction(stored, compaction),
            Entry::Switch(switch) => {
                if let Some(agent) = &switch.agent {
                    self.agent.clone_from(agent);
                }
            }
            // The runtime speaking to the model: no reader wrote or asked for it.
            Entry::Notice(_) | Entry::Ended(_) | Entry::ToolsLoaded(_) => {}
            // Readers see the call that wrote it.
            Entry::Todo(_) => {}
            // What is set aside is left out by whoever reads the log.
            Entry::Undo(_) => {}
        }
    }

    fn push(&mut self, stored: &Stored, role: Role, parts: Vec<Part>) -> &mut Message {
        self.messages.push(Message {
            id: format!("msg_{}", stored.seq),
            seq: stored.seq,
            role,
            sender: self.name.as_ref().unwrap_or(&self.agent).clone(),
            agent: self.agent.clone(),
            mode: (role == Role::Assistant && !self.agent.is_empty()).then(|| self.agent.clone()),
            model: String::new(),
            finish: None,
            timestamp: stored.at,
            content: Value::Null,
            parts,
        });
        self.messages.last_mut().expect("one was just pushed")
    }

    fn runs_as(&mut self, input: &Input) {
        self.agent.clone_from(&input.agent);
        self.name.clone_from(&input.name);
    }

    fn input(&mut self, stored: &Stored, input: &Input) {
        self.runs_as(input);
        let command = command(input);
        let mut parts: Vec<Part> = Vec::with_capacity(input.parts.len() + 1);
        for part in input.parts.iter().cloned() {
            parts.push(match part {
                InputPart::Text { text } => Part::Text { text },
                InputPart::File { name, mime, data } => Part::File(file(name, mime, data.len())),
                InputPart::Subtask { agent, prompt, description } => {
                    Part::Subtask { agent, prompt, description, command: command.clone() }
                }
            });
        }
        parts.extend(mentioned(input).map(|name| Part::Agent { name }));
        let message = self.push(stored, Role::User, parts);
        message.model.clone_from(&input.model);
        message.sender = input.speaker().to_owned();
    }

    fn reply(&mut self, stored: &Stored, reply: &Reply) {
        let mut parts = Vec::with_capacity(reply.parts.len() + 1);
        for part in &reply.parts {
            if let ReplyPart::Call(call) = part {
                self.calls.insert(call.id.clone(), (self.messages.len(), parts.len()));
            }
            parts.extend(reply_part(part));
        }
        parts.push(Part::Step { usage: reply.usage, cost: reply.usage.cost_usd });
        let message = self.push(stored, Role::Assistant, parts);
        message.model.clone_from(&reply.model);
        message.finish = Some(finish(reply.finish).into());
    }

    fn compaction(&mut self, stored: &Stored, compaction: &Compaction) {
        if is_summary(compaction) {
            let mut parts = vec![Part::Compaction { auto: compaction.auto }];
            parts.extend(compaction.summary.clone().map(|text| Part::Text { text }));
            self.push(stored, Role::Assistant, parts);
        }
    }

    fn state(&mut self, call: &CallId, to: ToolState) {
        if let Some(Part::Tool { state, .. }) = self.part(call) {
            *state = to;
        }
    }

    fn result(&mut self, result: &CallResult) {
        if let Some(Part::Tool { state, output, files, .. }) = self.part(&result.call) {
            *files = result.files.iter().map(|it| file(it.name.clone(), it.mime.clone(), it.data.len())).collect();
            *state = if result.state == State::Ok { ToolState::Completed } else { ToolState::Error };
            *output = Some(result.output.clone());
        }
    }

    fn part(&mut self, call: &CallId) -> Option<&mut Part> {
        let (message, part) = self.calls.get(call)?;
        self.messages.get_mut(*message)?.parts.get_mut(*part)
    }
}

/// What a reader is shown of it; nothing of what only its provider can read.
fn reply_part(part: &ReplyPart) -> Option<Part> {
    Some(match part {
        ReplyPart::Text(text) => Part::Text { text: text.text.clone() },
        ReplyPart::Reasoning(thought) if thought.text.is_empty() => return None,
        ReplyPart::Reasoning(thought) => Part::Reasoning { text: thought.text.clone() },
        ReplyPart::Block(_) => return None,
        ReplyPart::Call(call) => {
            let input = serde_json::from_str(call.given().get()).unwrap_or_default();
            Part::Tool {
                call_id: call.id.clone(),
                tool: call.tool.clone(),
                state: if call.decision == Decision::Run { ToolState::Running } else { ToolState::Pending },
                title: title(&input),
                input,
                output: None,
                files: Vec::new(),
            }
        }
    })
}

fn file(filename: String, mime: String, bytes: usize) -> FilePart {
    FilePart { filename, mime, omitted: true, bytes }
}

fn said(input: &Input) -> impl Iterator<Item = &str> {
    input.parts.iter().filter_map(|part| if let InputPart::Text { text } = part { Some(text.as_str()) } else { None })
}

/// The user's own command that an input was typed as.
fn command(input: &Input) -> Option<String> {
    let typed = said(input).next()?.trim_start().strip_prefix('/')?;
    typed.split_whitespace().next().map(str::to_owned)
}

/// Agents that the text of an input calls: those that work on it, and the one that took over for it.
fn mentioned(input: &Input) -> impl Iterator<Item = String> {
    let subtasks = input.parts.iter().filter_map(|part| match part {
        InputPart::Subtask { agent, .. } => Some(agent),
        InputPart::Text { .. } | InputPart::File { .. } => None,
    });
    let calls = |agent: &&String| said(input).any(|text| mentions(text, agent));
    subtasks.chain(std::iter::once(&input.agent)).filter(calls).cloned()
}

/// Whether a text has `@name` as a word.
fn mentions(text: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.match_indices('@').any(|(at, _)| {
        let word = text[at + 1..].split(|c: char| !is_word(c)).next().unwrap_or_default();
        word.eq_ignore_ascii_case(name) && !text[..at].ends_with(|c: char| c.is_alphanumeric())
    })
}

/// What of a call's input tells most: the first of these that it has.
const TITLES: [&str; 12] = [
    "description",
    "title",
    "command",
    "filePath",
    "file_path",
    "path",
    "pattern",
    "url",
    "query",
    "to",
    "label",
    "sessionKey",
];

/// Characters of a title.
const LONGEST_TITLE: usize = 80;

pub(super) fn title(input: &Value) -> Option<String> {
    let text = TITLES.iter().find_map(|name| input.get(name)?.as_str().filter(|text| !text.trim().is_empty()))?;
    let line = text.trim().lines().next().unwrap_or_default();
    Some(line.chars().take(LONGEST_TITLE).collect())
}

fn finish(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool-calls",
        Finish::Length => "length",
        Finish::ContentFilter => "content-filter",
        Finish::Unknown => "unknown",
    }
}

/// The text alone, or blocks when there is more. A tool's block names the part that has its input and output.
pub(super) fn content(parts: &[Part]) -> Value {
    if parts.iter().all(|part| matches!(part, Part::Text { .. } | Part::Agent { .. } | Part::Step { .. })) {
        return Value::String(text(parts));
    }
    parts.iter().flat_map(blocks).collect()
}

fn blocks(part: &Part) -> Vec<Value> {
    match part {
        Part::Step { .. } | Part::Agent { .. } => Vec::new(),
        Part::File(file) => vec![shown(file)],
        Part::Tool { call_id, tool, state, files, .. } => {
            let call = json!({"type": "tool", "callId": call_id, "tool": tool, "state": state});
            std::iter::once(call).chain(files.iter().map(shown)).collect()
        }
        other => serde_json::to_value(other).into_iter().collect(),
    }
}

/// A file as a block: an image says that it is one.
pub(super) fn shown(file: &FilePart) -> Value {
    let mut block = json!(file);
    block["type"] = json!(if file.mime.starts_with("image/") { "image" } else { "file" });
    block
}

/// What was said. A mention that stands alone reads as it was typed.
pub(super) fn text(parts: &[Part]) -> String {
    let said: Vec<&str> = parts
        .iter()
        .filter_map(|part| if let Part::Text { text } = part { Some(text.as_str()) } else { None })
        .collect();
    if !said.is_empty() {
        return said.concat();
    }
    let mentions = parts.iter().filter_map(|part| match part {
        Part::Subtask { agent, prompt, .. } => Some(format!("@{agent} {prompt}")),
        _ => None,
    });
    mentions.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(entries: &[Value]) -> Vec<Stored> {
        let stored = entries.iter().zip(1..).map(|(entry, seq)| Stored {
            seq,
            at: 1000 + i64::try_from(seq).unwrap(),
            entry: serde_json::from_str(&entry.to_string()).unwrap(),
        });
        stored.collect()
    }

    fn usage() -> Value {
        json!({"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0, "costUsd": 0.0})
    }

    fn a_turn_with_tools() -> Vec<Stored> {
        log(&[
            json!({"type": "input", "letter": "run_1", "run": "run_1", "parts": [{"type": "text", "text": "look"}],
                "agent": "build", "model": "p/m"}),
            json!({"type": "reply", "step": 1, "finish": "tool-calls", "model": "p/m", "usage": usage(), "parts": [
                {"type": "text", "text": "I look. "},
                {"type": "call", "id": "call_1", "tool": "read", "input": {"filePath": "a"}, "decision": "run"},
                {"type": "call", "id": "call_2", "tool": "bash", "input": {"command": "ls"}, "decision": "ask"},
                {"type": "call", "id": "call_3", "tool": "task", "input": {}, "decision": "run"}]}),
            json!({"type": "waiting", "call": "call_2", "on": {"kind": "ask", "ask": "ask_1"}}),
            json!({"type": "result", "call": "call_1", "state": "ok", "output": "text of a", "ms": 1}),
            json!({"type": "notice", "text": "the runtime speaks"}),
            json!({"type": "result", "call": "call_3", "state": "denied", "output": "no", "ms": 0}),
        ])
    }

    #[test]
    fn calls_show_what_became_of_them() {
        let messages = project(&a_turn_with_tools());
        assert_eq!(messages.len(), 2);
        assert_eq!((messages[0].role, messages[0].content.clone()), (Role::User, json!("look")));
        assert_eq!((messages[1].seq, messages[1].agent.as_str()), (2, "build"));
        assert_eq!(messages[1].finish.as_deref(), Some("tool-calls"));
        let states = messages[1].parts.iter().filter_map(|part| match part {
            Part::Tool { tool, state, output, .. } => Some((tool.as_str(), *state, output.as_deref())),
            _ => None,
        });
        assert_eq!(
            states.collect::<Vec<_>>(),
            [
                ("read", ToolState::Completed, Some("text of a")),
                ("bash", ToolState::Pending, None),
                ("task", ToolState::Error, Some("no"))
            ]
        );
        assert_eq!(messages[1].content[0], json!({"type": "text", "text": "I look. "}));
        assert_eq!(messages[1].content[1]["callId"], "call_1");
    }

    #[test]
    fn a_mention_that_stands_alone_reads_as_typed() {
        let messages = project(&log(&[json!({"type": "input", "letter": "l", "run": "l", "agent": "build",
            "model": "p/m", "parts": [{"type": "subtask", "agent": "explore", "prompt": "the tests",
            "description": "the tests"}]})]));
        assert_eq!(text(&messages[0].parts), "@explore the tests");
        assert_eq!(messages[0].content[0]["type"], "subtask");
    }

    #[test]
    fn messages_have_the_fields_of_the_contract() {
        let entries = log(&[
            json!({"type": "input", "letter": "l", "run": "l", "agent": "build", "model": "p/m", "parts": [
                {"type": "text", "text": "ask @Explore, not me@general"},
                {"type": "file", "name": "a.png", "mime": "image/png", "data": "aaaa"},
                {"type": "subtask", "agent": "explore", "prompt": "ask", "description": "ask"}]}),
            json!({"type": "input", "letter": "m", "run": "m", "agent": "plan", "model": "p/m", "parts": [
                {"type": "text", "text": " /tidy src"},
                {"type": "subtask", "agent": "general", "prompt": "tidy src", "description": "tidy"}]}),
            json!({"type": "reply", "step": 1, "finish": "tool-calls", "model": "p/m",
                "usage": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0, "costUsd": 0.5}, "parts": [
                {"type": "call", "id": "call_1", "tool": "read", "input": {"filePath": "a.png"}, "decision": "run"}]}),
            json!({"type": "result", "call": "call_1", "state": "ok", "output": "", "ms": 1,
                "files": [{"name": "a.png", "mime": "image/png", "data": "aaaa"}]}),
        ]);
        let messages = json!(project(&entries));
        let parts = |n: usize| messages[n]["parts"].as_array().unwrap().clone();
        let file = json!({"filename": "a.png", "mime": "image/png", "omitted": true, "bytes": 4});
        let mut part = file.clone();
        part["type"] = json!("file");
        assert_eq!(parts(0)[1], part);
        assert_eq!(parts(0)[3], json!({"type": "agent", "name": "explore"}));
        assert_eq!((parts(0).len(), &messages[0]["mode"]), (4, &Value::Null));
        assert_eq!(messages[0]["content"][1]["type"], "image");
        assert_eq!((&parts(1)[1]["command"], parts(1).len()), (&json!("tidy"), 2));
        assert_eq!((&messages[2]["mode"], &messages[2]["agent"]), (&json!("plan"), &json!("plan")));
        assert_eq!((&parts(2)[0]["title"], &parts(2)[0]["files"][0]), (&json!("a.png"), &file));
        assert_eq!(parts(2)[1]["cost"], json!(0.5));
        let later = project_after(&Before { agent: "plan".into(), name: None }, &entries[2..]);
        assert_eq!((later[0].agent.as_str(), later[0].mode.as_deref()), ("plan", Some("plan")));
    }

    #[test]
    fn entries_are_counted_as_they_are_projected() {
        let entries = a_turn_with_tools();
        let counted = entries.iter().filter(|stored| is_message(&stored.entry, true)).count();
        assert_eq!(counted, project(&entries).len());
    }
}
