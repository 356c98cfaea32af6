use super::*;
use serde_json::{Value, json};

fn input(run: &str, by: &str) -> Value {
    json!({"type": "input", "letter": run, "run": run, "parts": [{"type": "text", "text": "do"}], "agent": "build",
        "model": "p/m", "provenance": {"kind": by}})
}

fn says() -> Value {
    reply(&json!({"type": "text", "text": "done"}))
}

fn calls(call: &str, tool: &str) -> Value {
    reply(&json!({"type": "call", "id": call, "tool": tool, "input": {"command": "ls"}, "decision": "run"}))
}

fn reply(part: &Value) -> Value {
    json!({"type": "reply", "step": 1, "finish": "stop", "model": "p/m", "parts": [part],
        "usage": {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "costUsd": 0.0}})
}

fn result(call: &str, state: &str) -> Value {
    json!({"type": "result", "call": call, "state": state, "output": "ok"})
}

fn ended(run: &str) -> Value {
    json!({"type": "ended", "run": run, "outcome": "ok"})
}

/// Two turns of a person: entries 1 to 5 and 6 to 10.
fn turns() -> Log {
    Log::of(&[
        input("run_1", "external_user"),
        calls("call_1", "write"),
        result("call_1", "ok"),
        says(),
        ended("run_1"),
        input("run_2", "external_user"),
        calls("call_2", "bash"),
        result("call_2", "ok"),
        says(),
        ended("run_2"),
    ])
}

#[derive(Default)]
struct Log(Vec<Stored>);

impl Log {
    fn of(entries: &[Value]) -> Self {
        let mut log = Self::default();
        entries.iter().for_each(|entry| log.add(serde_json::from_str(&entry.to_string()).unwrap()));
        log
    }

    fn add(&mut self, entry: Entry) {
        self.0.push(Stored { seq: self.last() + 1, at: 0, entry });
    }

    fn turn(&mut self, run: &str) {
        for entry in [input(run, "external_user"), says(), ended(run)] {
            self.add(serde_json::from_str(&entry.to_string()).unwrap());
        }
    }

    fn last(&self) -> u64 {
        self.0.last().map_or(0, |stored| stored.seq)
    }

    fn plan(&self, wish: Undo) -> Result<Plan, Error> {
        plan(&self.past(), &LetterId::derived("undo_", &(self.last() + 1).to_string()), &wish)
    }

    fn past(&self) -> Past<'_> {
        let aside = newest(&self.0).map(|newest| newest.aside.clone()).unwrap_or_default();
        Past { log: &self.0, last: self.last(), aside }
    }

    /// Plans and keeps it.
    #[track_caller]
    fn take(&mut self, wish: Undo) -> Undone {
        let entry = self.plan(wish).unwrap_or_else(|error| panic!("{error}")).entry;
        self.add(Entry::Undo(entry.clone()));
        entry
    }

    /// The numbers of what stands, undos and redos apart.
    fn stands(&self) -> Vec<u64> {
        let said = |stored: &Stored| !matches!(stored.entry, Entry::Undo(_));
        standing(self.0.clone()).iter().filter(|stored| said(stored)).map(|stored| stored.seq).collect()
    }
}

const BOTH: Undo = Undo { redo: false, to: None, files: true, conversation: true, keep_mode: false };
const FILES: Undo = Undo { conversation: false, ..BOTH };
const TALK: Undo = Undo { files: false, ..BOTH };
const REDO: Undo = Undo { redo: true, ..BOTH };

fn to(seq: u64) -> Undo {
    Undo { to: Some(seq), ..BOTH }
}

fn names(plan: &Plan) -> Vec<&str> {
    let mut names: Vec<&str> = plan.by.iter().map(String::as_str).collect();
    names.sort_unstable();
    names
}

#[test]
fn turn_by_turn_back_and_forth() {
    let mut log = turns();
    assert_eq!((log.take(BOTH).to, log.stands()), (5, vec![1, 2, 3, 4, 5]));
    assert_eq!((log.take(BOTH).to, log.stands()), (0, vec![]));
    assert_eq!(log.plan(BOTH).err().unwrap().message, "there is nothing to undo");
    assert_eq!((log.take(REDO).messages, log.stands()), (3, vec![1, 2, 3, 4, 5]));
    assert_eq!((log.take(REDO).messages, log.stands()), (3, (1..=10).collect::<Vec<_>>()));
    assert_eq!(log.plan(REDO).err().unwrap().message, "there is nothing to redo");
    assert_eq!((log.take(BOTH).to, log.stands()), (5, vec![1, 2, 3, 4, 5]));
}

#[test]
fn what_was_set_aside_inside_of_what_is_stays_aside_when_that_is_back() {
    let mut log = turns();
    log.take(BOTH);
    log.turn("run_3");
    assert_eq!(log.stands(), [1, 2, 3, 4, 5, 12, 13, 14]);
    log.take(to(3));
    assert_eq!(log.stands(), [1, 2, 3]);
    log.take(REDO);
    assert_eq!(log.stands(), [1, 2, 3, 4, 5, 12, 13, 14]);
    let why = log.plan(REDO).err().unwrap();
    assert!(why.message.contains("something was said since"), "{why}");
}

#[test]
fn a_stretch_names_whose_changes_it_takes_back() {
    let log = turns();
    assert_eq!(names(&log.plan(BOTH).unwrap()), ["call_2"]);
    assert_eq!(names(&log.plan(to(0)).unwrap()), ["call_1", "call_2"]);
    assert_eq!(names(&log.plan(to(2)).unwrap()), ["call_1", "call_2"], "it ended after that");
    assert_eq!(names(&log.plan(to(3)).unwrap()), ["call_2"]);
    assert_eq!(names(&log.plan(TALK).unwrap()), [] as [&str; 0]);
    let mut log = log;
    log.take(BOTH);
    assert_eq!(names(&log.plan(REDO).unwrap()), ["undo_11"]);
}

#[test]
fn commands_that_ran_are_told_and_those_that_were_denied_are_not() {
    let told = |log: &Log| log.plan(BOTH).unwrap().entry.not_undone;
    let found = told(&turns());
    assert_eq!((found.len(), found[0].seq, found[0].tool.as_str()), (1, 7, "bash"));
    assert_eq!(found[0].input, json!({"command": "ls"}));
    let denied = Log::of(&[input("run_1", "external_user"), calls("call_1", "bash"), result("call_1", "denied")]);
    assert!(told(&denied).is_empty());
}

#[test]
fn files_alone_leave_the_conversation_and_tell_the_model() {
    let mut log = turns();
    let file = FileUndone { path: "/a".into(), state: proto::FileState::Restored, reason: None };
    let undone = Undone { changed: vec![file], ..log.take(FILES) };
    assert_eq!(log.stands(), (1..=10).collect::<Vec<_>>());
    assert!(notice(&undone).unwrap().contains("undid your changes in `/a`"));
    let redone = log.take(REDO);
    assert_eq!((redone.files, redone.conversation, redone.redoes), (true, false, Some(11)));
    assert_eq!(notice(&Undone { conversation: true, ..undone }), None, "what is said of it is gone");
}

#[test]
fn a_part_of_an_undo_can_be_taken_back_and_then_the_rest() {
    let mut log = turns();
    log.take(BOTH);
    log.take(Undo { redo: true, ..FILES });
    assert_eq!(log.stands(), [1, 2, 3, 4, 5]);
    log.take(REDO);
    assert_eq!(log.stands(), (1..=10).collect::<Vec<_>>());
    log.take(TALK);
    let why = log.plan(Undo { redo: true, ..FILES }).err().unwrap();
    assert_eq!(why.message, "the newest undo did not touch files");
}

#[test]
fn some_places_cannot_be_gone_back_to() {
    let refused = |log: &Log, wish: Undo| log.plan(wish).err().unwrap().message;
    let mut log = turns();
    assert!(refused(&log, to(11)).contains("ends with entry 10"));
    log.take(BOTH);
    assert_eq!(refused(&log, to(7)), "entry 7 was undone before");
    let summed = json!({"type": "compaction", "state": "done", "auto": true, "summary": "s", "keepsFrom": 6});
    log.add(serde_json::from_str(&summed.to_string()).unwrap());
    assert!(refused(&log, to(3)).contains("summed up since (entry 12)"));
    assert!(log.plan(Undo { conversation: false, ..to(3) }).is_ok());
    log.turn("run_3");
    assert_eq!(log.plan(BOTH).unwrap().entry.to, 12, "what came after it can");
}

#[test]
fn a_persons_word_is_looked_for_first() {
    let log = Log::of(&[
        input("run_1", "external_user"),
        says(),
        ended("run_1"),
        input("run_2", "inter_session"),
        says(),
        ended("run_2"),
    ]);
    assert_eq!(log.plan(BOTH).unwrap().entry.to, 0);
    let child = Log::of(&[input("run_1", "inter_session"), says(), ended("run_1")]);
    assert_eq!(child.plan(BOTH).unwrap().entry.to, 0);
}

#[test]
fn a_permission_mode_comes_back_with_what_was_said_in_it() {
    let mut log = turns();
    let switch = json!({"type": "switch", "mode": "plan", "mode_before": "ask"});
    log.add(serde_json::from_str(&switch.to_string()).unwrap());
    assert_eq!(log.plan(BOTH).unwrap().mode.as_deref(), Some("ask"));
    assert_eq!(log.plan(FILES).unwrap().mode, None);
    log.take(BOTH);
    assert_eq!(log.plan(REDO).unwrap().mode.as_deref(), Some("plan"));
}

#[test]
fn a_refusal_changes_nothing() {
    let mut log = turns();
    log.take(BOTH);
    let entry = refusal(&log.past(), &LetterId::new(), Error::invalid("no"));
    assert!(!entry.goes_back());
    log.add(Entry::Undo(entry));
    assert_eq!(log.stands(), [1, 2, 3, 4, 5]);
    log.take(REDO);
    assert_eq!(log.stands(), (1..=10).collect::<Vec<_>>());
}

#[test]
fn what_was_set_aside_before_what_is_read_stays_aside() {
    let mut log = turns();
    log.take(BOTH);
    log.turn("run_3");
    let past = Past { log: &log.0[11..], ..log.past() };
    assert_eq!(plan(&past, &LetterId::new(), &BOTH).unwrap().entry.aside, [(6, 10), (12, 14)]);
}

#[test]
fn stretches_are_cut_and_joined() {
    let all = [(2, 4), (8, 9)];
    assert_eq!(inside(&all, (3, 8)), [(3, 4), (8, 8)]);
    assert_eq!(outside(&all, (3, 8)), [(2, 2), (9, 9)]);
    assert_eq!(outside(&all, (5, 4)), all);
    assert_eq!(joined(all.to_vec(), [(5, 6), (11, 10)]), [(2, 6), (8, 9)]);
    assert_eq!(joined(all.to_vec(), [(1, 20)]), [(1, 20)]);
}
