//! What a session asks for when it starts another one, and how it looks after it (S8, S11–S13).

use crate::turns::step;
use crate::world::World;
use convoke_session::{NewSession, Posted, Target};
use proto::entry::Entry;
use serde_json::{Value, json};
use testkit::{Gate, Received, Reply};

fn is_child(received: &Received) -> bool {
    received.body()["messages"].to_string().contains("You were started by")
}

/// Every JSON result of a session's calls.
async fn results(world: &World, session: &proto::SessionId) -> Vec<Value> {
    let json = |entry: Entry| match entry {
        Entry::Result(result) => serde_json::from_str(&result.output).ok(),
        _ => None,
    };
    world.log(session).await.into_iter().filter_map(json).collect()
}

/// A root that makes these calls, each in a step of its own, and whose children say `fine`.
async fn calls(calls: Vec<(&'static str, Value)>) -> (World, Posted, Vec<Value>) {
    let world = World::new(move |received| match (is_child(received), step(received)) {
        (false, n) if received.last("user").unwrap() == "go" && n < calls.len() => Reply::calls([calls[n].clone()]),
        _ => Reply::text("fine"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let results = results(&world, &posted.session.id).await;
    (world, posted, results)
}

#[tokio::test]
async fn a_child_with_a_required_sandbox_is_held_to_what_it_starts() {
    let world = World::new(|received| match (received.last("user").unwrap().as_str(), step(received)) {
        ("go", 0) => Reply::calls([(
            "sessions_spawn",
            json!({ "task": "look", "agentId": "general", "sandbox": "require", "background": false,
                "tools": ["sessions_list", "sessions_history", "sessions_spawn"] }),
        )]),
        ("look", 0) => Reply::calls([
            ("sessions_list", json!({})),
            ("sessions_history", json!({ "sessionKey": "hidden" })),
            ("sessions_spawn", json!({ "task": "sit", "background": false })),
        ]),
        _ => Reply::text("fine"),
    })
    .await;
    let cwd = world.repo.path().to_str().unwrap().to_owned();
    let other = NewSession { cwd, label: Some("hidden".into()), ..NewSession::default() };
    world.end(&world.send(Target::New(other), "hi").await.run).await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let above = results(&world, &posted.session.id).await;
    assert_eq!((&above[0]["status"], &above[0]["outcome"]), (&json!("ok"), &json!("ok")), "{above:?}");
    let tree = world.children(&posted.session.id).await;
    let below = results(&world, &tree[0].id).await;
    assert_eq!(below[0]["count"], json!(1), "it sees itself and nothing else: {}", below[0]);
    assert_eq!(below[1]["code"], json!("forbidden_sandbox"), "{}", below[1]);
    assert_eq!(tree.len(), 2);
    for session in &tree {
        let grant: Value = serde_json::from_str(&session.policy).unwrap();
        assert_eq!(grant["sandboxed"], json!(true), "{grant}");
        assert_eq!(grant["reach"]["asked"], json!(true), "commands run in the sandbox or not at all: {grant}");
    }
}

#[tokio::test]
async fn a_thread_is_refused_after_the_agent_is_known_and_before_the_budget() {
    let spawn = |input: Value| ("sessions_spawn", input);
    let (_, _, results) = calls(vec![
        spawn(json!({ "task": "t", "thread": true, "agentId": "stranger" })),
        spawn(json!({ "task": "t", "thread": true, "agentId": "general", "budget": { "agents": 1_000_000 } })),
    ])
    .await;
    let codes: Vec<&Value> = results.iter().map(|result| &result["code"]).collect();
    assert_eq!(codes, ["not_found", "unavailable"], "{results:?}");
}

#[tokio::test]
async fn a_tool_that_does_not_exist_is_named_in_the_note() {
    let spawn = |background: bool| {
        let tools = json!(["read", "group:fs", "teleport", "Grep"]);
        ("sessions_spawn", json!({ "task": "t", "agentId": "general", "tools": tools, "background": background }))
    };
    let (_, _, results) = calls(vec![spawn(false), spawn(true)]).await;
    for result in &results {
        let note = result["note"].as_str().unwrap();
        assert!(note.contains("`teleport`") && !note.contains("read") && !note.contains("Grep"), "{note}");
    }
    assert_eq!(results.len(), 2);
}

#[tokio::test]
async fn an_over_long_label_is_an_input_error() {
    let long = "x".repeat(513);
    let world = World::new(move |received| match (received.last("user").unwrap().as_str(), step(received)) {
        ("go", 0) => Reply::calls([
            ("sessions_spawn", json!({ "task": "t", "label": long })),
            ("sessions_send", json!({ "label": long, "message": "m" })),
            ("sessions_list", json!({ "label": long })),
        ]),
        _ => Reply::text("fine"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let told = world.log(&posted.session.id).await.into_iter().filter_map(|entry| match entry {
        Entry::Result(result) => Some(result.output),
        _ => None,
    });
    let told: Vec<String> = told.collect();
    assert_eq!(told.len(), 3);
    for text in told {
        assert!(text.starts_with("`label` has 513 characters, and 512 is the most"), "{text}");
    }
}

#[tokio::test]
async fn a_child_that_was_given_sessions_spawn_alone_can_use_it() {
    let world = World::new(|received| match (received.last("user").unwrap().as_str(), step(received)) {
        ("go", 0) => Reply::calls([(
            "sessions_spawn",
            json!({ "task": "hand on", "agentId": "general", "tools": ["sessions_spawn"], "background": false }),
        )]),
        ("hand on", 0) => {
            assert_eq!(received.tools(), ["sessions_spawn"]);
            Reply::calls([("sessions_spawn", json!({ "task": "count", "background": false })), ("task", json!({}))])
        }
        ("count", _) => Reply::text("42"),
        _ => Reply::text("fine"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let tree = world.children(&posted.session.id).await;
    let below = results(&world, &tree[0].id).await;
    assert_eq!((&below[0]["status"], &below[0]["reply"]), (&json!("ok"), &json!("42")), "{below:?}");
    let seen = world.transcript(&tree[0].id).await;
    assert!(seen.contains("task    {} -> denied"), "`task` was not given: {seen}");
    assert_eq!(tree.len(), 2, "and what it starts starts nothing itself");
}

#[tokio::test]
async fn agents_are_listed_briefly() {
    let (_, _, results) = calls(vec![("agents_list", json!({}))]).await;
    let agents = results[0]["agents"].as_array().unwrap();
    assert!(agents.iter().any(|agent| agent["name"] == "explore"), "{agents:?}");
    for agent in agents {
        let fields: Vec<&str> = agent.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = ["description", "mode", "model", "name"];
        assert!(fields.iter().all(|field| expected.contains(field)) && fields.len() >= 3, "{fields:?}");
    }
}

#[tokio::test]
async fn waiting_for_any_child_ends_with_the_first_of_them() {
    let (quick, slow) = (Gate::new(), Gate::new());
    let (opens, holds) = (quick.clone(), slow.clone());
    let world = World::new(move |received| {
        let user = received.last("user").unwrap();
        match (user.as_str(), step(received)) {
            ("go", 0) => Reply::calls([
                ("sessions_spawn", json!({ "task": "quick", "label": "hare" })),
                ("sessions_spawn", json!({ "task": "slow", "label": "snail" })),
            ]),
            ("go", 1) => {
                opens.open();
                Reply::calls([("subagents", json!({ "action": "wait", "target": "any", "timeout": 600 }))])
            }
            ("quick", _) => Reply::text("done").gated(quick.clone()),
            ("slow", _) => Reply::text("done").gated(slow.clone()),
            _ => Reply::text("fine"),
        }
    })
    .await;
    let posted = world.prompt("go").await;
    world.end_of(&posted.run).await;
    let results = results(&world, &posted.session.id).await;
    let waited = results.iter().find(|result| result["children"].is_array()).unwrap();
    assert_eq!((&waited["status"], &waited["busy"]), (&json!("ok"), &json!(1)), "{waited}");
    holds.open();
}
