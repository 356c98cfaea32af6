//! Events in, what a person sees out.

use super::*;
use serde_json::{Value, json};

struct Watched {
    progress: Progress,
    root: SessionId,
    child: SessionId,
    seen: String,
}

impl Watched {
    fn new(look: Look) -> Self {
        let [root, child] = [(); 2].map(|()| SessionId::new());
        let mut progress = Progress::new(look, "/p");
        progress.watch(&root);
        progress.introduce(&child, Some("writer"), "general");
        Self { progress, root, child, seen: String::new() }
    }

    fn see(&mut self, seen: Seen) {
        for shown in self.progress.see(&seen, Instant::now()) {
            match shown {
                Shown::Line(line) => {
                    assert!(self.seen.is_empty() || self.seen.ends_with('\n'), "a line within a line: {}", self.seen);
                    line.pieces().for_each(|(_, text)| self.seen.push_str(text));
                    self.seen.push('\n');
                }
                Shown::Piece(_, text) => self.seen.push_str(&text),
                Shown::Break => self.seen.push('\n'),
            }
        }
    }

    fn delta(&mut self, text: &str) {
        self.see(Seen::Delta { session_id: self.root.clone(), text: text.into() });
    }

    fn entry(&mut self, session: &SessionId, seq: u64, entry: Value) {
        self.see(Seen::Entry { session_id: session.clone(), seq, at: 1, entry });
    }

    fn reply(&mut self, session: &SessionId, parts: Value) {
        let usage = json!({ "input": 10, "output": 1, "cacheRead": 0, "cacheWrite": 0, "costUsd": 0.5 });
        let reply =
            json!({ "type": "reply", "step": 1, "parts": parts, "usage": usage, "finish": "stop", "model": "p/m" });
        self.entry(session, 2, reply);
    }
}

fn call(id: &str, tool: &str, input: Value) -> Value {
    json!({ "type": "call", "id": id, "tool": tool, "input": input, "decision": "run" })
}

#[test]
fn text_and_thoughts_are_shown_as_they_come_and_once() {
    let mut watched = Watched::new(Look::Live);
    let root = watched.root.clone();
    watched.see(Seen::Reasoning { session_id: root.clone(), text: "\n\nhm".into() });
    watched.delta("\n\nI look\r");
    watched.delta("\naround");
    assert_eq!(watched.seen, "hm\nI look\r\naround");
    watched.see(Seen::Call { session_id: root.clone(), tool: "bash".into() });
    watched.reply(
        &root,
        json!([{ "type": "text", "text": "\n\nI look\r\naround" }, call("call_1", "bash", json!({ "command": "ls" }))]),
    );
    assert_eq!(watched.seen, "hm\nI look\r\naround\n• bash ls\n");
    assert!(watched.progress.has_said("\n\nI look\r\naround"));
    assert_eq!(watched.progress.used().input, 10);
}

#[test]
fn what_was_missed_of_a_stream_is_shown_with_its_reply() {
    let mut watched = Watched::new(Look::Live);
    let root = watched.root.clone();
    watched.delta("The be");
    watched.reply(&root, json!([{ "type": "text", "text": "The beginning and the end." }]));
    assert_eq!(watched.seen, "The beginning and the end.\n");
    watched.delta("end.");
    watched.reply(&root, json!([{ "type": "text", "text": "The beginning and the end." }]));
    assert_eq!(watched.seen, "The beginning and the end.\nend.\nThe beginning and the end.\n");
}

#[test]
fn others_say_who_they_are_and_break_into_no_line() {
    let mut watched = Watched::new(Look::Live);
    let (root, child) = (watched.root.clone(), watched.child.clone());
    watched.delta("I wait");
    let letter = json!({ "type": "input", "letter": "x", "run": "run_1", "agent": "general", "model": "p/m",
        "parts": [{ "type": "text", "text": "go on" }],
        "provenance": { "kind": "inter_session", "sourceSessionId": root } });
    watched.entry(&child, 5, letter);
    watched.reply(&child, json!([{ "type": "text", "text": "I write\nit" }, call("call_2", "write", json!({ "filePath": "/p/a.md", "content": "x" }))]));
    watched.delta(" for them.\nAll");
    watched.entry(&child, 7, json!({ "type": "ended", "run": "run_1", "outcome": "ok" }));
    watched.see(Seen::Delta { session_id: child.clone(), text: "never alone".into() });
    watched.reply(&root, json!([{ "type": "text", "text": "I wait for them.\nAll is well." }]));
    assert_eq!(
        watched.seen,
        "I wait for them.\n  [writer] ← lead: go on\n  [writer] I write it\n  [writer] • write a.md (1 line)\nAll is well.\n  [writer] ✓ done\n"
    );
}

#[test]
fn a_change_is_told_with_its_size_when_it_is_made() {
    let mut watched = Watched::new(Look::Brief);
    let root = watched.root.clone();
    let edit = |id| call(id, "edit", json!({ "filePath": "src/main.rs", "oldString": "a", "newString": "b" }));
    watched.reply(&root, json!([{ "type": "text", "text": "not here" }, edit("call_1"), edit("call_2")]));
    assert_eq!(watched.seen, "");
    let data = json!({ "path": "/p/src/main.rs", "added": 2, "removed": 1 });
    watched.entry(&root, 3, json!({ "type": "result", "call": "call_1", "state": "ok", "output": "", "data": data }));
    watched.entry(&root, 4, json!({ "type": "result", "call": "call_2", "state": "error", "output": "no such text" }));
    assert_eq!(watched.seen, "• edit src/main.rs +2 −1\n✗ edit src/main.rs failed: no such text\n");
}

#[test]
fn two_without_a_name_are_told_apart() {
    let mut watched = Watched::new(Look::Brief);
    let [one, two] = [(); 2].map(|()| SessionId::new());
    watched.progress.introduce(&one, None, "explore");
    watched.progress.introduce(&two, None, "explore");
    let end = &two.as_str()[two.as_str().len() - 6..];
    assert_eq!(watched.progress.called(&one), Some("explore"));
    assert_eq!(watched.progress.called(&two), Some(format!("explore …{end}").as_str()));
}
