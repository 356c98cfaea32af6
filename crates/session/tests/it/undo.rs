//! What a session did is taken back, and that is taken back: files, conversation, and what both lead to.

use crate::turns::step;
use crate::world::World;
use convoke_session::Target;
use proto::entry::Undone;
use proto::letter::{Sender, Undo};
use proto::methods::HistoryInput;
use proto::{Body, Class, Code, Error, FileState, Letter, LetterId, SessionId};
use serde_json::json;
use std::collections::HashSet;
use store::{Mail, Post};
use testkit::{Gate, Received, Reply};
use tools::files::Seen;
use tools::journal::Journal;

const BOTH: Undo = Undo { redo: false, to: None, files: true, conversation: true, keep_mode: false };
const FILES: Undo = Undo { conversation: false, ..BOTH };
const REDO: Undo = Undo { redo: true, ..BOTH };

/// Does what a prompt names: `make`, `change`, `list`, `plan`, or just an answer.
fn worker(received: &Received) -> Reply {
    let prompt = received.last("user").unwrap_or_default();
    match (prompt.as_str(), step(received)) {
        ("make", 0) => Reply::calls([("write", json!({"filePath": "made.txt", "content": "one\n"}))]),
        ("change", 0) => Reply::calls([("read", json!({"filePath": "README.md"}))]),
        ("change", 1) => {
            Reply::calls([("edit", json!({"filePath": "README.md", "oldString": "Sample", "newString": "Example"}))])
        }
        ("list", 0) => Reply::calls([("todowrite", json!({"todos": [{"content": "mend"}]}))]),
        ("plan", 0) => Reply::calls([("plan_enter", json!({}))]),
        ("left?", 0) => Reply::calls([("todoread", json!({}))]),
        _ => Reply::text(format!("done: {prompt}")),
    }
}

impl World {
    async fn say(&self, session: &SessionId, text: &str) {
        let posted = self.send(Target::Session(session.clone()), text).await;
        self.end(&posted.run).await;
    }

    /// A session that has done these things, one turn each.
    async fn after(&self, prompts: &[&str]) -> SessionId {
        let first = self.prompt(prompts[0]).await;
        self.end(&first.run).await;
        for prompt in &prompts[1..] {
            self.say(&first.session.id, prompt).await;
        }
        first.session.id
    }

    async fn undo(&self, session: &SessionId, wish: Undo) -> Result<Undone, Error> {
        self.rt.undo(session, wish, None).await
    }

    /// What a reader sees of a session.
    async fn shown(&self, session: &SessionId) -> Vec<String> {
        let input = HistoryInput {
            session_key: session.to_string(),
            limit: None,
            include_tools: false,
            before: None,
            after: None,
        };
        let page = self.rt.directory().history(&input).await.unwrap();
        page.messages.iter().map(|message| message.content.as_str().unwrap_or_default().to_owned()).collect()
    }

    /// What the model was last sent, without the system part.
    fn sent(&self) -> Vec<String> {
        let body = self.fake.last().unwrap().body();
        let messages = body["messages"].as_array().unwrap()[1..].iter();
        messages.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

fn files(undone: &Undone) -> Vec<(FileState, &str)> {
    let name = |path: &'_ str| path.rfind('/').map_or(0, |at| at + 1);
    undone.changed.iter().map(|file| (file.state, &file.path[name(&file.path)..])).collect()
}

#[tokio::test]
async fn turns_are_taken_back_one_by_one_and_come_back_even_after_a_restart() {
    let mut world = World::new(worker).await;
    let session = world.after(&["make", "change", "list"]).await;
    let readme = world.repo.read("README.md");
    let list = world.undo(&session, BOTH).await.unwrap();
    assert_eq!((files(&list), list.messages), (vec![], 3));
    let change = world.undo(&session, BOTH).await.unwrap();
    assert_eq!(files(&change), [(FileState::Restored, "README.md")]);
    assert!(world.repo.read("README.md").contains("Sample"));
    world.restart().await;
    assert_eq!(world.shown(&session).await, ["make", "done: make"]);
    let make = world.undo(&session, BOTH).await.unwrap();
    assert_eq!((files(&make), make.to), (vec![(FileState::Removed, "made.txt")], 0));
    assert!(!world.repo.path().join("made.txt").exists());
    assert_eq!(world.undo(&session, BOTH).await.unwrap_err().code, Code::Conflict);
    world.restart().await;
    for _ in 0..3 {
        world.undo(&session, REDO).await.unwrap();
    }
    assert_eq!((world.repo.read("made.txt").as_str(), world.repo.read("README.md")), ("one\n", readme));
    assert_eq!(world.shown(&session).await, ["make", "done: make", "change", "done: change", "list", "done: list"]);
    assert_eq!(world.undo(&session, REDO).await.unwrap_err().message, "there is nothing to redo");
    world.say(&session, "left?").await;
    assert!(world.sent().iter().any(|text| text.contains("mend")), "{:?}", world.sent());
}

#[tokio::test]
async fn the_model_reads_the_conversation_as_it_was_then_and_goes_on_from_there() {
    let mut world = World::new(worker).await;
    let session = world.after(&["hello", "list"]).await;
    world.undo(&session, BOTH).await.unwrap();
    world.say(&session, "left?").await;
    let sent = world.sent();
    assert!(!sent.iter().any(|text| text == "list"), "{sent:?}");
    assert!(sent.iter().any(|text| text.contains("nothing on the list")), "{sent:?}");
    assert_eq!(world.undo(&session, REDO).await.unwrap_err().code, Code::Conflict, "something was said since");
    let before = world.sent();
    world.restart().await;
    world.say(&session, "again").await;
    assert_eq!(world.sent()[..before.len()], before, "what was sent is sent again");
}

#[tokio::test]
async fn files_alone_are_put_back_and_the_model_is_told() {
    let world = World::new(worker).await;
    let session = world.after(&["change"]).await;
    let undone = world.undo(&session, FILES).await.unwrap();
    assert_eq!(files(&undone), [(FileState::Restored, "README.md")]);
    assert!(world.undo(&session, FILES).await.unwrap().changed.is_empty(), "it is as it was");
    assert_eq!(world.shown(&session).await, ["change", "done: change"]);
    world.say(&session, "and?").await;
    let told: Vec<String> = world.sent().into_iter().filter(|text| text.contains("undid your changes")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("README.md"), "{told:?}");
}

#[tokio::test]
async fn going_back_into_the_middle_of_a_turn_ends_it_there() {
    let mut world = World::new(worker).await;
    let session = world.after(&["hello", "change"]).await;
    // The reply that makes the call of `edit`, and not its result.
    let undone = world.undo(&session, Undo { to: Some(7), ..BOTH }).await.unwrap();
    assert_eq!(files(&undone), [(FileState::Restored, "README.md")]);
    world.restart().await;
    world.say(&session, "and?").await;
    let sent = world.sent();
    assert_eq!(sent[sent.len() - 2], "The person took this call back, with all that came after it.", "{sent:?}");
    assert_eq!(world.shown(&session).await, ["hello", "done: hello", "change", "and?", "done: and?"]);
}

#[tokio::test]
async fn a_busy_session_is_not_touched() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(move |received| match received.last("user").as_deref() {
        Some("wait") => Reply::text("waited").gated(held.clone()),
        _ => worker(received),
    })
    .await;
    let session = world.after(&["make"]).await;
    let posted = world.send(Target::Session(session.clone()), "wait").await;
    world.fake.wait_for(3).await;
    let refused = world.undo(&session, BOTH).await.unwrap_err();
    assert_eq!(refused.code, Code::Conflict);
    assert!(refused.hint.unwrap().contains("convoke kill"));
    // Whoever asked a moment before that finds it busy as well.
    let late = wish(&session, "undo_late", BOTH);
    world.store.deliver(mail(late)).await.unwrap();
    gate.open();
    world.end(&posted.run).await;
    let refused = world.rt.undo(&session, BOTH, Some("late")).await.unwrap_err();
    assert_eq!(refused.code, Code::Conflict);
    assert_eq!(world.repo.read("made.txt"), "one\n");
    assert_eq!(world.shown(&session).await, ["make", "done: make", "wait", "waited"]);
}

#[tokio::test]
async fn the_same_wish_twice_is_one_undo() {
    let world = World::new(worker).await;
    let session = world.after(&["make", "list"]).await;
    let first = world.rt.undo(&session, BOTH, Some("once")).await.unwrap();
    let again = world.rt.undo(&session, BOTH, Some("once")).await.unwrap();
    assert_eq!((first.to, first.messages), (again.to, again.messages));
    assert_eq!(world.shown(&session).await, ["make", "done: make"]);
    assert_eq!(world.repo.read("made.txt"), "one\n");
}

fn wish(to: &SessionId, id: &str, wish: Undo) -> Letter {
    Letter {
        id: LetterId::parse(id).unwrap(),
        to: to.clone(),
        from: Sender::Person,
        class: Class::Control,
        body: Body::Undo(wish),
        provenance: None,
        conversation: None,
        report: None,
        expires: None,
    }
}

fn mail(letter: Letter) -> Mail {
    Mail { at: 1, post: vec![Post { letter, person: false, queue: None }], ..Mail::default() }
}

/// A crash after the files were put back and before anybody wrote that down.
#[tokio::test]
async fn an_undo_that_was_cut_off_comes_to_its_end() {
    let mut world = World::new(worker).await;
    let session = world.after(&["make", "change"]).await;
    world.rt.stop().await;
    world.store.deliver(mail(wish(&session, "undo_cut", Undo { to: Some(0), ..BOTH }))).await.unwrap();
    let journal = Journal::of(&crate::world::journal(), &session);
    let log = world.store.entries(&session, store::Span::After { seq: 0, limit: 100 }).await.unwrap();
    let calls: Vec<String> = log
        .iter()
        .filter_map(|stored| match &stored.entry {
            proto::Entry::Result(result) => Some(result.call.to_string()),
            _ => None,
        })
        .collect();
    let by: HashSet<&str> = calls.iter().map(String::as_str).collect();
    assert_eq!(journal.take_back(&by, "undo_cut", &Seen::default()).unwrap().len(), 2);
    world.take_over().await;
    let undone = world.rt.undo(&session, Undo { to: Some(0), ..BOTH }, Some("cut")).await.unwrap();
    assert_eq!(files(&undone), [(FileState::Restored, "README.md"), (FileState::Removed, "made.txt")]);
    assert!(world.shown(&session).await.is_empty());
    world.undo(&session, REDO).await.unwrap();
    assert_eq!(world.repo.read("made.txt"), "one\n");
    assert!(world.repo.read("README.md").contains("Example"));
}

#[tokio::test]
async fn a_fork_stands_on_what_counted_there_and_takes_back_only_what_it_did_itself() {
    let world = World::new(worker).await;
    let session = world.after(&["make", "change"]).await;
    let whole = world.rt.fork(&session, None, None).await.unwrap();
    world.undo(&session, BOTH).await.unwrap();
    let now = world.rt.fork(&session, None, None).await.unwrap();
    assert_eq!(world.shown(&now.id).await, ["make", "done: make"]);
    assert_eq!(world.shown(&whole.id).await, ["make", "done: make", "change", "done: change"]);
    let then = world.rt.fork(&session, Some(10), None).await.unwrap();
    assert_eq!(world.shown(&then.id).await.len(), 3, "before the answer");
    let undone = world.undo(&now.id, BOTH).await.unwrap();
    assert!(undone.changed.is_empty());
    assert_eq!(world.repo.read("made.txt"), "one\n", "that is another session's");
    world.say(&now.id, "hello").await;
    assert_eq!(world.sent(), ["hello"]);
}

#[tokio::test]
async fn a_summary_is_a_wall_and_what_was_undone_before_it_stays_undone() {
    let mut world = World::new(worker).await;
    let session = world.after(&["hello", "list"]).await;
    world.undo(&session, BOTH).await.unwrap();
    world.say(&session, "more").await;
    let row = world.store.session(&session).await.unwrap().unwrap();
    let run = world.rt.compact(row, None, None).await.unwrap().run;
    world.end(&run).await;
    let refused = world.undo(&session, BOTH).await.unwrap_err();
    assert!(refused.message.contains("summed up since"), "{refused}");
    world.restart().await;
    world.say(&session, "later").await;
    assert_eq!(world.undo(&session, BOTH).await.unwrap().messages, 2);
    let shown = world.shown(&session).await;
    assert!(shown.iter().any(|text| text == "more") && !shown.iter().any(|text| text == "list"), "{shown:?}");
    world.say(&session, "and?").await;
    let sent = world.sent();
    assert!(!sent.iter().any(|text| text == "later" || text == "list"), "{sent:?}");
}

#[tokio::test]
async fn commands_that_ran_are_named_without_the_secrets_in_them() {
    let world = World::new(|received| match step(received) {
        0 => Reply::calls([("send_message", json!({"to": "nobody", "message": "hunter2-hunter2"}))]),
        _ => Reply::text("done"),
    })
    .await;
    let session = world.after(&["go"]).await;
    let named = world.undo(&session, BOTH).await.unwrap().not_undone;
    assert_eq!((named.len(), named[0].seq, named[0].tool.as_str()), (1, 2, "send_message"));
    assert!(!named[0].input.to_string().contains("hunter2"), "{}", named[0].input);
}

#[tokio::test]
async fn a_permission_mode_comes_back_too() {
    let world = World::new(worker).await;
    let session = world.after(&["hello", "plan"]).await;
    let mode = async || {
        let row = world.store.session(&session).await.unwrap().unwrap();
        serde_json::from_str::<serde_json::Value>(&row.policy).unwrap()["mode"].as_str().unwrap_or("ask").to_owned()
    };
    assert_eq!(mode().await, "plan");
    world.undo(&session, BOTH).await.unwrap();
    assert_eq!(mode().await, "ask");
    world.undo(&session, REDO).await.unwrap();
    assert_eq!(mode().await, "plan");
    world.undo(&session, Undo { keep_mode: true, ..BOTH }).await.unwrap();
    assert_eq!(mode().await, "plan", "a caller that may not approve does not lead out of it");
}

#[tokio::test]
async fn children_and_their_work_are_named_and_not_touched() {
    let world = World::new(|received| {
        let child = received.body()["messages"].to_string().contains("You were started by");
        match (child, step(received)) {
            (true, 0) => Reply::calls([("write", json!({"filePath": "child.txt", "content": "mine\n"}))]),
            (false, 0) => {
                Reply::calls([("task", json!({"description": "a", "prompt": "p", "subagent_type": "general"}))])
            }
            _ => Reply::text("done"),
        }
    })
    .await;
    let session = world.after(&["go"]).await;
    let undone = world.undo(&session, BOTH).await.unwrap();
    assert_eq!(undone.not_undone.iter().map(|call| call.tool.as_str()).collect::<Vec<_>>(), ["task"]);
    assert_eq!(world.repo.read("child.txt"), "mine\n");
    let child = world.children(&session).await.remove(0);
    let undone = world.undo(&child.id, BOTH).await.unwrap();
    assert_eq!(files(&undone), [(FileState::Removed, "child.txt")], "whoever wants that undoes it there");
}
