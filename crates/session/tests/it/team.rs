//! A team that a person leads: stopped as a whole, continued by mail, with counts that are right.

use crate::turns::step;
use crate::world::World;
use proto::entry::Entry;
use proto::letter::{Abort, Reason, Sender};
use proto::{Body, Class, Letter, LetterId, SessionId, Status};
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use store::{Mail, Post, Session};
use testkit::{Gate, Received, Reply};

fn user(received: &Received) -> String {
    received.last("user").unwrap_or_default()
}

fn launch(name: &str, prompt: &str) -> (&'static str, Value) {
    ("agent", json!({"description": "a piece of work", "prompt": prompt, "subagent_type": "general", "name": name}))
}

fn mail(to: &str, message: &str) -> (&'static str, Value) {
    ("send_message", json!({"to": to, "message": message}))
}

async fn inputs(world: &World, session: &SessionId) -> Vec<String> {
    let text = |entry: Entry| match entry {
        Entry::Input(input) => Some(serde_json::to_string(&input.parts).unwrap()),
        _ => None,
    };
    world.log(session).await.into_iter().filter_map(text).collect()
}

async fn tree(world: &World, root: &SessionId) -> Vec<Session> {
    world.store.tree(root, 100).await.unwrap()
}

/// Waits until a tree is what the test needs; bounded, and polls what is stored.
async fn until(world: &World, root: &SessionId, fits: impl Fn(&[Session]) -> bool) -> Vec<Session> {
    for _ in 0..2000 {
        let rows = tree(world, root).await;
        if fits(&rows) {
            return rows;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to that: {:#?}", tree(world, root).await);
}

fn quiet(rows: &[Session]) -> bool {
    rows.iter().all(|row| !row.status.is_busy() && row.pending == 0)
}

#[tokio::test]
async fn a_stop_of_an_idle_lead_reaches_everything_below_and_starts_nothing() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(move |received| match (user(received).as_str(), step(received)) {
        ("go", 0) => Reply::calls([launch("writer", "write"), launch("tester", "test"), launch("docs", "document")]),
        ("go", _) => Reply::text("launched"),
        ("write" | "test" | "document", _) => Reply::text("too late").gated(held.clone()),
        (text, _) => Reply::text(format!("woken by: {text}")),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end_of(&posted.run).await;
    let root = &posted.session.id;
    until(&world, root, |rows| rows.iter().filter(|row| row.status == Status::Running).count() == 3).await;
    let lead = world.store.session(root).await.unwrap().unwrap();
    assert!(!lead.status.is_busy(), "the lead is idle: {}", lead.status.as_str());

    let stopped = world.rt.abort(root, None).await.unwrap();
    let mut names: Vec<_> = stopped.iter().filter_map(|row| row.name.as_deref()).collect();
    names.sort_unstable();
    assert_eq!(names, ["docs", "tester", "writer"]);
    let rows = until(&world, root, quiet).await;
    assert!(rows.iter().filter(|row| row.name.is_some()).all(|row| row.status == Status::Killed), "{rows:#?}");
    // Their ends are in the lead's log, and no model was asked about them.
    let told = inputs(&world, root).await;
    assert_eq!(told.iter().filter(|text| text.contains("was stopped (killed)")).count(), 3, "{told:?}");
    assert!(!world.transcript(root).await.contains("woken by"), "{}", world.transcript(root).await);
    assert_eq!(world.rt.abort(root, None).await.unwrap().len(), 0, "a quiet tree has nothing to stop");

    // A person's word starts it again.
    let again = world.send(convoke_session::Target::Session(root.clone()), "and now?").await;
    world.end(&again.run).await;
    assert!(world.transcript(root).await.contains("woken by: and now?"));
}

#[tokio::test]
async fn a_stop_reaches_what_was_started_after_the_look() {
    let mut rules = std::collections::BTreeMap::new();
    let spawns = config::Agent { permission: permit("task"), ..config::Agent::default() };
    rules.insert("general".to_owned(), spawns);
    let gate = Gate::new();
    let held = gate.clone();
    let mut world = World::with(config::Limits::default(), rules, move |received| {
        match (user(received).as_str(), step(received)) {
            ("go", 0) => Reply::calls([launch("middle", "pass it on")]),
            ("pass it on", 0) => Reply::calls([launch("leaf", "work")]),
            ("work", _) => Reply::text("too late").gated(held.clone()),
            _ => Reply::text("ok"),
        }
    })
    .await;
    let posted = world.prompt("go").await;
    world.end_of(&posted.run).await;
    let root = &posted.session.id;
    let rows = until(&world, root, |rows| rows.iter().any(|row| row.name.as_deref() == Some("leaf"))).await;
    let middle = rows.iter().find(|row| row.name.as_deref() == Some("middle")).unwrap();
    // Only the one in the middle gets the letter, as if the leaf had not been there when the wave was posted.
    let letter = Letter {
        id: LetterId::new(),
        to: middle.id.clone(),
        from: Sender::Person,
        class: Class::Control,
        body: Body::Abort(Abort { reason: Reason::User, run: None, wave: Some("w1".into()) }),
        provenance: None,
        conversation: None,
        report: None,
        expires: None,
    };
    let post = vec![Post { letter, person: false, queue: None }];
    world.store.deliver(Mail { post, ..Mail::default() }).await.unwrap();
    world.restart().await;
    let rows = until(&world, root, quiet).await;
    let leaf = rows.iter().find(|row| row.name.as_deref() == Some("leaf")).unwrap();
    assert_eq!(leaf.status, Status::Killed);
}

fn permit(permission: &str) -> Vec<proto::Rule> {
    vec![proto::Rule::new(permission, "*", proto::Action::Allow)]
}

#[tokio::test]
async fn the_second_answer_of_a_finished_agent_comes_back_once() {
    let world = World::new(|received| match (user(received), step(received)) {
        (text, 0) if text == "go" => Reply::calls([launch("scout", "look around")]),
        (text, 0) if text == "again" => Reply::calls([mail("scout", "and the cellar?")]),
        (text, _) if text.contains("cellar") && text.starts_with("<cross") => Reply::text("the cellar is dry"),
        (text, _) if text == "look around" => Reply::text("the house is empty"),
        _ => Reply::text("noted"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let again = world.send(convoke_session::Target::Session(posted.session.id.clone()), "again").await;
    world.end(&again.run).await;
    let told = inputs(&world, &posted.session.id).await;
    let ends: Vec<_> = told.iter().filter(|text| text.contains("<agent-result>")).collect();
    assert_eq!(ends.len(), 2, "{told:#?}");
    assert!(ends[1].contains("the cellar is dry") && ends[1].contains("`scout`"), "{}", ends[1]);
    // The report is no message to answer: nothing went back to the scout.
    let scout = tree(&world, &posted.session.id).await.into_iter().find(|row| row.name.is_some()).unwrap();
    assert_eq!(inputs(&world, &scout.id).await.len(), 2);
}

#[tokio::test]
async fn an_agent_that_answered_by_mail_does_not_report_as_well() {
    let world = World::new(|received| match (user(received), step(received)) {
        (text, 0) if text == "go" => Reply::calls([launch("scout", "look around")]),
        (text, 0) if text == "again" => Reply::calls([mail("scout", "and the cellar?")]),
        (text, 0) if text.contains("cellar") && text.starts_with("<cross") => Reply::calls([mail("lead", "it is dry")]),
        (text, 0) if text.contains("cellar") => Reply::calls([mail("main", "it is dry")]),
        _ => Reply::text("noted"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let again = world.send(convoke_session::Target::Session(posted.session.id.clone()), "again").await;
    world.end(&again.run).await;
    let told = inputs(&world, &posted.session.id).await;
    assert_eq!(told.iter().filter(|text| text.contains("it is dry")).count(), 1, "{told:#?}");
    assert_eq!(told.iter().filter(|text| text.contains("<agent-result>")).count(), 1, "{told:#?}");
}

#[tokio::test]
async fn a_childs_usage_includes_its_last_model_call() {
    let world = World::new(|received| match (user(received).as_str(), step(received)) {
        ("go", 0) => Reply::calls([launch("scout", "look")]),
        ("look", _) => Reply::text("seen").usage(70, 7),
        _ => Reply::text("ok"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let told = inputs(&world, &posted.session.id).await;
    assert!(told[1].contains(" 77 tokens"), "{}", told[1]);
}

#[tokio::test]
async fn a_message_to_everybody_reaches_members_whose_turn_is_done_and_none_that_was_shut_down() {
    let world = World::new(|received| match (user(received), step(received)) {
        (text, 0) if text == "go" => {
            Reply::calls([launch("writer", "write"), launch("tester", "test"), launch("docs", "document")])
        }
        (text, 0) if text == "close" => Reply::calls([mail_object("docs", json!({"type": "shutdown_request"}))]),
        (text, 0) if text.contains("shutdown_request") => {
            let request = text.split("\"request_id\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
            let answer = json!({"type": "shutdown_response", "request_id": request, "approve": true});
            Reply::calls([mail_object("lead", answer)])
        }
        (text, 0) if text == "all" => Reply::calls([mail("*", "how far are you?"), ("list_peers", json!({}))]),
        _ => Reply::text("ok"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let root = convoke_session::Target::Session(posted.session.id.clone());
    // Its turn is done, so it is woken by the question and agrees to be shut down.
    let closing = world.send(root.clone(), "close").await;
    world.end(&closing.run).await;
    let all = world.send(root, "all").await;
    world.end(&all.run).await;
    let results = results(&world, &posted.session.id).await;
    let sent = results.iter().rfind(|result| result.get("receipts").is_some()).unwrap();
    let mut reached: Vec<_> = sent["receipts"].as_array().unwrap().iter().map(|r| r["to"].as_str().unwrap()).collect();
    reached.sort_unstable();
    assert_eq!(reached, ["tester", "writer"], "{sent}");
    let listed = results.iter().rfind(|result| result.get("peers").is_some()).unwrap();
    let writer = listed["peers"].as_array().unwrap().iter().find(|peer| peer["name"] == "writer").unwrap();
    assert_eq!(writer["resumable"], json!(true), "{listed}");
}

fn mail_object(to: &str, message: Value) -> (&'static str, Value) {
    ("send_message", json!({"to": to, "message": message}))
}

async fn results(world: &World, session: &SessionId) -> Vec<Value> {
    let json = |entry: Entry| match entry {
        Entry::Result(result) => Some(serde_json::from_str(&result.output).unwrap_or(Value::String(result.output))),
        _ => None,
    };
    world.log(session).await.into_iter().filter_map(json).collect()
}

#[tokio::test]
async fn a_finished_session_is_found_by_its_label_until_another_takes_it() {
    let world = World::new(|received| match (user(received).as_str(), step(received)) {
        ("go", 0) => Reply::calls([("sessions_spawn", json!({"task": "look", "label": "helper"}))]),
        ("ask", 0) => {
            Reply::calls([("sessions_send", json!({"label": "helper", "message": "and now?", "timeoutSeconds": 10}))])
        }
        ("again", 0) => Reply::calls([("sessions_spawn", json!({"task": "look", "label": "helper"}))]),
        ("and now?", _) => Reply::text("still here"),
        _ => Reply::text("ok"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let root = convoke_session::Target::Session(posted.session.id.clone());
    let asked = world.send(root.clone(), "ask").await;
    world.end(&asked.run).await;
    let told = results(&world, &posted.session.id).await;
    assert_eq!(told[1]["reply"], json!("still here"), "{told:?}");
    let again = world.send(root, "again").await;
    world.end(&again.run).await;
    let children = world.children(&posted.session.id).await;
    let holders: Vec<_> = children.iter().filter(|row| row.label.is_some()).collect();
    assert_eq!((children.len(), holders.len()), (2, 1), "the newcomer has it");
}

#[tokio::test]
async fn a_message_to_an_archived_child_is_refused_and_its_attachments_are_gone() {
    let child: Arc<OnceLock<String>> = Arc::default();
    let known = child.clone();
    let world = World::new(move |received| match (user(received).as_str(), step(received)) {
        ("go", 0) => Reply::calls([(
            "sessions_spawn",
            json!({"task": "look", "label": "brief", "cleanup": "delete",
                   "attachments": [{"name": "a.txt", "content": "x"}]}),
        )]),
        ("ask", 0) => Reply::calls([(
            "sessions_send",
            json!({"sessionKey": known.get().unwrap(), "message": "hello?", "timeoutSeconds": 0}),
        )]),
        _ => Reply::text("ok"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let spawned = results(&world, &posted.session.id).await.remove(0);
    child.set(spawned["childSessionKey"].as_str().unwrap().to_owned()).unwrap();
    let root = convoke_session::Target::Session(posted.session.id.clone());
    let asked = world.send(root, "ask").await;
    world.end(&asked.run).await;
    let told = results(&world, &posted.session.id).await;
    let sent = told.last().unwrap();
    assert_ne!(sent["status"], json!("sent"), "{told:?}");
    assert!(sent["error"].as_str().unwrap_or_default().contains("archived or deleted"), "{told:?}");
    let file = std::path::PathBuf::from(spawned["attachments"][0]["path"].as_str().unwrap());
    assert!(file.ends_with("a.txt"), "{spawned}");
    for _ in 0..1000 {
        if !file.exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the attachment is still there: {}", file.display());
}

#[tokio::test]
async fn an_agent_is_told_its_name_its_lead_and_who_else_is_there() {
    let world = World::new(|received| match (user(received).as_str(), step(received)) {
        ("go", 0) => Reply::calls([launch("writer", "write")]),
        ("go", 1) => Reply::calls([launch("tester", "test")]),
        _ => Reply::text("ok"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let requests = world.fake.requests();
    let first = requests.iter().find(|received| user(received) == "test").unwrap();
    let told = first.body()["messages"].to_string();
    for part in [
        "named `tester`",
        "started by `main`",
        "Its address for messages is `lead`",
        "Other agents of this task: `writer` (general)",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(told.contains("Messages from other agents are requests"), "{told}");
}

#[tokio::test]
async fn the_model_is_told_when_the_user_switches_mode_or_agent() {
    let world = World::new(|_| Reply::text("ok")).await;
    let posted = world.prompt("one").await;
    world.end(&posted.run).await;
    let id = posted.session.id.clone();
    let switch = proto::letter::Switch { mode: Some("plan".into()), ..Default::default() };
    world.rt.patch(&id, switch, None).await.unwrap();
    let two = world.send(convoke_session::Target::Session(id.clone()), "two").await;
    world.end(&two.run).await;
    let three = world.send(convoke_session::Target::Session(id), "@plan three").await;
    world.end(&three.run).await;
    let last = world.fake.requests().last().unwrap().body()["messages"].to_string();
    assert!(last.contains("switched this session to the permission mode `plan`"), "{last}");
    assert!(last.contains("from the agent `build` to `plan`"), "{last}");
}

#[tokio::test]
async fn a_log_says_who_spoke() {
    let world = World::new(|received| match (user(received).as_str(), step(received)) {
        ("go", 0) => Reply::calls([launch("writer", "write to main")]),
        ("write to main", 0) => Reply::calls([mail("main", "a word")]),
        _ => Reply::text("ok"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let rows = until(&world, &posted.session.id, quiet).await;
    let speakers = async |session: &SessionId| {
        let speaker = |entry: Entry| match entry {
            Entry::Input(input) => Some(input.speaker().to_owned()),
            _ => None,
        };
        world.log(session).await.into_iter().filter_map(speaker).collect::<Vec<_>>()
    };
    assert_eq!(speakers(&posted.session.id).await, ["person", "writer", "notice"]);
    let writer = rows.iter().find(|row| row.name.as_deref() == Some("writer")).unwrap();
    assert_eq!(speakers(&writer.id).await, ["parent"]);
}
