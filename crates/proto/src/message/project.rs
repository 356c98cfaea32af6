//! Turns entries into messages: one per input and one per reply, each call with what became of it.

use super::{Message, Part, Role, ToolState};
use crate::entry::{CallResult, Compaction, CompactionState, Decision, Finish, Input, On, Reply, ReplyPart, State};
use crate::letter::InputPart;
use crate::{CallId, Entry, Stored};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The messages of a stretch of a log, oldest first. A call whose result lies outside the stretch is shown under way.
pub fn project(entries: &[Stored]) -> Vec<Message> {
    let mut projection = Projection::default();
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
        let parts = input.parts.iter().cloned().map(|part| match part {
            InputPart::Text { text } => Part::Text { text },
            InputPart::File { name, mime, data } => Part::File { name, mime, omitted: true, bytes: data.len() },
            InputPart::Subtask { agent, prompt, description } => Part::Subtask { agent, prompt, description },
        });
        let parts = parts.collect();
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
        parts.push(Part::Step { usage: reply.usage });
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
        if let Some(Part::Tool { state, output, .. }) = self.part(&result.call) {
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
        ReplyPart::Call(call) => Part::Tool {
            call_id: call.id.clone(),
            tool: call.tool.clone(),
            state: if call.decision == Decision::Run { ToolState::Running } else { ToolState::Pending },
            input: serde_json::from_str(call.given().get()).unwrap_or_default(),
            output: None,
        },
    })
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
    if parts.iter().all(|part| matches!(part, Part::Text { .. } | Part::Step { .. })) {
        return Value::String(text(parts));
    }
    parts.iter().filter_map(block).collect()
}

fn block(part: &Part) -> Option<Value> {
    match part {
        Part::Step { .. } => None,
        Part::Tool { call_id, tool, state, .. } => {
            Some(json!({"type": "tool", "callId": call_id, "tool": tool, "state": state}))
        }
        other => serde_json::to_value(other).ok(),
    }
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
    fn entries_are_counted_as_they_are_projected() {
        let entries = a_turn_with_tools();
        let counted = entries.iter().filter(|stored| is_message(&stored.entry, true)).count();
        assert_eq!(counted, project(&entries).len());
    }
}
