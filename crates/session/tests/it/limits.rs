//! How far sessions may go: chains of messages, bursts, full inboxes, and money.

use crate::turns::step;
use crate::world::World;
use convoke_session::{NewSession, Posted, Target};
use proto::entry::Entry;
use proto::letter::{Prompt, Sender};
use proto::{Body, Class, Code, Letter, LetterId, Outcome, SessionId, Status};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use store::{Mail, Post};
use testkit::{Received, Reply};

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
    let limits = config::Limits { exchanges: 20, ..config::Limits::default() };
    let world = World::with(limits, BTreeMap::new(), |received| {
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
            assert_eq!(told.len(), 11, "ten messages with their answers, and one that is refused");
            assert!(told[..10].iter().all(|result| result["status"] == "sent"), "{told:?}");
            assert!(told[10]["runId"].is_string() && told[10]["sessionKey"].is_string());
            assert!(told[10]["error"].as_str().is_some_and(|why| why.contains("limits.exchanges")), "{told:?}");
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

/// A call that was not made before.
fn look(received: &Received) -> (&'static str, Value) {
    ("glob", json!({ "pattern": format!("{}*", received.n) }))
}

fn dollars(cost_usd: f64) -> config::Limits {
    config::Limits { cost_usd, ..config::Limits::default() }
}

#[tokio::test]
async fn a_run_that_has_spent_its_budget_ends_and_the_next_prompt_brings_money() {
    let world = World::with(dollars(1.0), BTreeMap::new(), |received| match received.last("user").unwrap().as_str() {
        "again" => Reply::text("fine").cost(0.4),
        _ => Reply::calls([look(received)]).cost(0.4),
    })
    .await;
    let posted = world.prompt("go on for ever").await;
    let run = world.end(&posted.run).await;
    assert_eq!((run.outcome, run.code), (Some(Outcome::Error), Some(Code::LimitBudget)));
    assert_eq!(run.message.as_deref(), Some("the budget is spent: $1.20 of $1.00 (`limits.costUsd`)"));
    assert!(run.hint.is_some());
    assert_eq!(world.fake.count(), 3);
    let row = world.store.session(&posted.session.id).await.unwrap().unwrap();
    assert_eq!(row.status, Status::Idle);
    let again = world.send(Target::Session(posted.session.id.clone()), "again").await;
    assert_eq!(world.end(&again.run).await.outcome, Some(Outcome::Ok));
}

#[tokio::test]
async fn tokens_are_counted_too_and_survive_a_restart() {
    let gate = testkit::Gate::new();
    let held = gate.clone();
    let limits = config::Limits { tokens: Some(250), ..config::Limits::default() };
    let mut world = World::with(limits, BTreeMap::new(), move |received| {
        let reply = Reply::calls([look(received)]).usage(80, 20);
        if received.n == 1 { reply.gated(held.clone()) } else { reply }
    })
    .await;
    let posted = world.prompt("go on for ever").await;
    world.fake.wait_for(2).await;
    world.restart().await;
    let run = world.end(&posted.run).await;
    assert_eq!(run.code, Some(Code::LimitBudget));
    assert_eq!(run.message.as_deref(), Some("the budget is spent: 300 of 250 tokens (`limits.tokens`)"));
    gate.open();
}

#[tokio::test]
async fn children_spend_from_the_same_purse_and_both_end_with_it() {
    let world = World::with(dollars(1.0), BTreeMap::new(), |received| {
        let child = received.last("user").unwrap() == "dig";
        match (child, step(received)) {
            (true, _) => Reply::calls([look(received)]).cost(0.3),
            (false, 0) => Reply::calls([("sessions_spawn", json!({ "task": "dig", "background": false }))]).cost(0.1),
            (false, _) => Reply::text("must not be asked").cost(0.1),
        }
    })
    .await;
    let posted = world.prompt("go").await;
    let run = world.end(&posted.run).await;
    assert_eq!(run.code, Some(Code::LimitBudget), "{}", world.transcript(&posted.session.id).await);
    let told = &results(&world, &posted.session.id).await[0];
    assert_eq!(told["outcome"], json!("error"));
    assert!(told["reply"].as_str().unwrap().contains("$1.00 of $1.00"), "{told}");
    assert_eq!(world.children(&posted.session.id).await[0].status, Status::Failed);
}

#[tokio::test]
async fn a_child_with_a_budget_of_its_own_ends_alone_and_gives_back_the_rest() {
    let world = World::with(dollars(1.0), BTreeMap::new(), |received| {
        let spawn = |task: &str, usd: f64| {
            ("sessions_spawn", json!({ "task": task, "background": false, "budget": { "costUsd": usd, "agents": 0 } }))
        };
        match (received.last("user").unwrap().as_str(), step(received)) {
            ("dig", _) => Reply::calls([look(received)]).cost(0.1),
            ("look", _) => Reply::text("seen").cost(0.05),
            ("go", 0) => Reply::calls([spawn("dig", 0.3), spawn("dig", 0.8)]).cost(0.1),
            ("go", 1) => Reply::calls([spawn("look", 0.5)]).cost(0.1),
            ("go", 2) => Reply::calls([("session_status", json!({}))]).cost(0.1),
            _ => Reply::text("done"),
        }
    })
    .await;
    let posted = world.prompt("go").await;
    let run = world.end(&posted.run).await;
    assert_eq!(run.outcome, Some(Outcome::Ok), "{}", world.transcript(&posted.session.id).await);
    let told = results(&world, &posted.session.id).await;
    let refused = told.iter().find(|result| result["status"] == "error").unwrap();
    assert_eq!(refused["code"], json!("limit_budget"), "{refused}");
    let dug = told.iter().find(|result| result["outcome"] == "error").unwrap();
    assert!(dug["reply"].as_str().unwrap().contains("$0.30 of $0.30 (the `budget` it was started with)"), "{dug}");
    let status = told.iter().find(|result| result["budget"].is_object()).unwrap();
    // 0.1 + 0.3 for the first child, 0.1 + 0.05 for the second, 0.1: the half dollar came back.
    assert!((status["budget"]["costUsd"].as_f64().unwrap() - 0.35).abs() < 1e-9, "{}", status["budget"]);
    assert_eq!(status["budget"]["limits"]["costUsd"], json!(1.0));
    assert_eq!(status["budget"]["agents"], json!(498));
}

#[tokio::test]
async fn a_tree_starts_no_more_sessions_than_its_run_may() {
    let limits = config::Limits { agents: 2, ..config::Limits::default() };
    let world = World::with(limits, BTreeMap::new(), |received| match received.last("user").unwrap().as_str() {
        "go" if step(received) == 0 => {
            Reply::calls((0..3).map(|_| ("sessions_spawn", json!({ "task": "sit", "background": false }))))
        }
        _ => Reply::text("fine"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let told = results(&world, &posted.session.id).await;
    let refused: Vec<&Value> = told.iter().filter(|result| result["code"] == "limit_budget").collect();
    assert_eq!((told.len(), refused.len()), (3, 1), "{told:?}");
    assert!(refused[0]["error"].as_str().unwrap().contains("2 sessions (`limits.agents`)"), "{}", refused[0]);
    let again = world.send(Target::Session(posted.session.id.clone()), "go").await;
    world.end(&again.run).await;
    assert_eq!(world.children(&posted.session.id).await.len(), 4, "the next run may start two more");
}

#[tokio::test]
async fn whoever_causes_a_run_pays_for_it() {
    let world = World::with(dollars(0.5), BTreeMap::new(), |received| {
        match (received.last("user").unwrap().as_str(), step(received)) {
            ("go", 0) => Reply::calls([("sessions_send", json!({ "label": "b", "message": "dig" }))]).cost(0.1),
            ("dig", _) => Reply::calls([look(received)]).cost(0.2),
            _ => Reply::text("fine").cost(0.1),
        }
    })
    .await;
    let b = labelled(&world, "b").await;
    let posted = world.prompt("go").await;
    assert_eq!(world.end(&posted.run).await.code, Some(Code::LimitBudget));
    let told = &results(&world, &posted.session.id).await[0];
    assert_eq!(told["code"], json!("limit_budget"), "{told}");
    let again = world.send(Target::Session(b.session.id.clone()), "hi").await;
    assert_eq!(world.end(&again.run).await.outcome, Some(Outcome::Ok), "it still has its own");
}
