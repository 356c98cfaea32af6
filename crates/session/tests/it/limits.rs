//! How far sessions may go: chains of messages, bursts, full inboxes, and money.

use crate::turns::step;
use crate::world::World;
use convoke_session::{NewSession, Posted, Target};
use proto::entry::Entry;
use proto::letter::{Prompt, Sender};
use proto::{Body, Class, Letter, LetterId, SessionId};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use store::{Mail, Post};
use testkit::Reply;

async fn labelled(world: &World, label: &str) -> Posted {
    let cwd = world.repo.path().to_str().unwrap().to_owned();
    let new = NewSession { cwd, label: Some(label.into()), ..NewSession::default() };
    let posted = world.send(Target::New(new), "hi").await;
    world.end(&posted.run).await;
    posted
}

pub(crate) async fn results(world: &World, session: &SessionId) -> Vec<Value> {
    let json = |entry: Entry| match entry {
        Entry::Result(result) => serde_json::from_str(&result.output).ok(),
        _ => None,
    };
    world.log(session).await.into_iter().filter_map(json).collect()
}

#[tokio::test]
async fn two_sessions_that_answer_each_other_come_to_an_end() {
    let world = World::new(|received| {
        let user = received.last("user").unwrap();
        let again = user == "start" || user.contains("pong");
        match (again, step(received)) {
            (true, 0) => {
                Reply::calls([("sessions_send", json!({ "label": "b", "message": "ping", "timeoutSeconds": 0 }))])
            }
            (true, _) => Reply::text("sent"),
            _ => Reply::text(if user == "ping" { "pong" } else { "hello" }),
        }
    })
    .await;
    let b = labelled(&world, "b").await;
    let a = world.prompt("start").await;
    world.end(&a.run).await;
    for _ in 0..1_000 {
        let told = results(&world, &a.session.id).await;
        if told.last().is_some_and(|last| last["code"] == "limit_hops") {
            assert_eq!(told.len(), 9, "eight messages, and one that is refused");
            assert!(told[..8].iter().all(|result| result["status"] == "sent"), "{told:?}");
            assert!(told[8]["runId"].is_string() && told[8]["sessionKey"].is_string());
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{}\n{}", world.transcript(&a.session.id).await, world.transcript(&b.session.id).await);
}

#[tokio::test]
async fn the_thirty_first_message_at_once_is_refused_and_says_when_to_come_again() {
    let world = World::new(|received| match (received.last("user").unwrap().as_str(), step(received)) {
        ("go", 0) => Reply::calls(
            (0..31).map(|_| ("sessions_send", json!({ "label": "b", "message": "ping", "timeoutSeconds": 0 }))),
        ),
        _ => Reply::text("fine"),
    })
    .await;
    labelled(&world, "b").await;
    let posted = world.prompt("go").await;
    world.end_of(&posted.run).await;
    let told = results(&world, &posted.session.id).await;
    let refused: Vec<&Value> = told.iter().filter(|result| result["code"] == "limit_rate").collect();
    assert_eq!((told.len(), refused.len()), (31, 1), "{told:?}");
    assert!(refused[0]["retryAfterMs"].as_u64().is_some_and(|ms| (1..=1_000).contains(&ms)), "{}", refused[0]);
    assert_eq!(refused[0]["status"], "error");
}

#[tokio::test]
async fn a_child_is_steered_once_in_two_seconds() {
    let gate = testkit::Gate::new();
    let held = gate.clone();
    let world = World::new(move |received| match (received.last("user").unwrap().as_str(), step(received)) {
        ("go", 0) => Reply::calls([("sessions_spawn", json!({ "task": "slow" }))]),
        ("go", 1) => Reply::calls(
            ["one", "two"].map(|word| ("subagents", json!({ "action": "steer", "target": "last", "message": word }))),
        ),
        ("slow", _) => Reply::text("never").gated(held.clone()),
        _ => Reply::text("fine"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end_of(&posted.run).await;
    let told = results(&world, &posted.session.id).await;
    let codes: Vec<&Value> = told[1..].iter().map(|result| &result["code"]).collect();
    assert!(codes.contains(&&json!("limit_rate")) && codes.contains(&&Value::Null), "{told:?}");
    gate.open();
}

/// As many unread letters as the inbox holds, without anybody being told.
async fn fill(world: &World, to: &SessionId, count: u32) {
    let post = |_| {
        let letter = Letter {
            id: LetterId::new(),
            to: to.clone(),
            from: Sender::Person,
            class: Class::Request,
            body: Body::Prompt(Prompt::text("later")),
            provenance: None,
            conversation: None,
            report: None,
            expires: None,
        };
        Post { letter, person: false, queue: None }
    };
    let mail = Mail { post: (0..count).map(post).collect(), ..Mail::default() };
    world.store.deliver(mail).await.unwrap();
}

#[tokio::test]
async fn a_full_inbox_refuses_a_message_and_the_sender_goes_on() {
    let limits = config::Limits { queue: 3, ..config::Limits::default() };
    let world = World::with(limits, BTreeMap::new(), |received| match step(received) {
        0 if received.last("user").unwrap() == "go" => {
            Reply::calls([("sessions_send", json!({ "label": "b", "message": "ping", "timeoutSeconds": 0 }))])
        }
        _ => Reply::text("fine"),
    })
    .await;
    let cwd = world.repo.path().to_str().unwrap().to_owned();
    let new = NewSession { cwd, label: Some("b".into()), ..NewSession::default() };
    let full = world.rt.create(new).await.unwrap();
    fill(&world, &full.id, 3).await;
    let posted = world.prompt("go").await;
    world.end_of(&posted.run).await;
    let told = &results(&world, &posted.session.id).await[0];
    assert_eq!((&told["code"], &told["retryAfterMs"]), (&json!("limit_rate"), &json!(1_000)), "{told}");
    assert!(told["runId"].is_string() && told["sessionKey"].is_string());
}

#[tokio::test]
async fn of_two_calls_that_only_one_can_have_the_other_is_told() {
    let world = World::new(|received| match (received.last("user").unwrap().as_str(), step(received)) {
        ("go", 0) => Reply::calls(
            ["one", "two"].map(|task| ("sessions_spawn", json!({ "task": task, "label": "kid", "mode": "session" }))),
        ),
        _ => Reply::text("fine"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let told = results(&world, &posted.session.id).await;
    let statuses: Vec<&Value> = told.iter().map(|result| &result["status"]).collect();
    assert_eq!(statuses.iter().filter(|status| ***status == json!("ok")).count(), 1, "{told:?}");
    let refused = told.iter().find(|result| result["status"] == "error").unwrap();
    assert_eq!(refused["code"], json!("conflict"), "{refused}");
    assert_eq!(world.children(&posted.session.id).await.len(), 1);
}
