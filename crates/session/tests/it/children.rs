//! Sessions below sessions: mentions, tasks, what children may do, and how a stop reaches them.

use crate::turns::step;
use crate::world::World;
use proto::{Outcome, Status};
use serde_json::json;
use testkit::{Gate, Reply};

fn is_child(received: &testkit::Received) -> bool {
    received.body()["messages"].to_string().contains("You were started by")
}

#[tokio::test]
async fn a_mention_goes_through_a_child_and_the_parent_answers_once() {
    let world =
        World::new(
            |received| {
                if is_child(received) { Reply::text("It is in src/claims.rs.") } else { Reply::text("Found it.") }
            },
        )
        .await;
    let posted = world.prompt("@explore find where sessions are claimed").await;
    world.end(&posted.run).await;
    let seen = world.transcript(&posted.session.id).await;
    assert!(seen.starts_with("user    @explore find where sessions are claimed\ntask    {"), "{seen}");
    assert!(seen.contains("-> ok: It is in src/claims.rs.\nmodel   Found it.\nrun     ended: ok\n"), "{seen}");
    let children = world.children(&posted.session.id).await;
    assert_eq!(children.len(), 1);
    let child = &children[0];
    assert_eq!((child.agent.as_str(), child.status, child.depth), ("explore", Status::Done, 1));
    assert_eq!(child.parent.as_ref(), Some(&posted.session.id));
    assert_eq!(child.title.as_deref(), Some("find where sessions are claimed (@explore subagent)"));
    insta::assert_snapshot!(world.transcript(&child.id).await, @r"
    user    find where sessions are claimed
    model   It is in src/claims.rs.
    run     ended: ok
    ");
    assert_eq!(world.fake.count(), 2, "one request of the child, one of the parent");
}

#[tokio::test]
async fn a_child_that_tries_to_spawn_is_refused() {
    let task = json!({"description": "more", "prompt": "go", "subagent_type": "general"});
    let world = World::new(move |received| match (is_child(received), step(received)) {
        (false, 0) => {
            Reply::calls([("task", json!({"description": "try", "prompt": "go", "subagent_type": "general"}))])
        }
        (true, 0) => Reply::calls([("task", task.clone())]),
        _ => Reply::text("ok"),
    })
    .await;
    let posted = world.prompt("delegate").await;
    world.end(&posted.run).await;
    let children = world.children(&posted.session.id).await;
    assert_eq!(children.len(), 1, "nothing was spawned below the child");
    let seen = world.transcript(&children[0].id).await;
    assert!(seen.contains("-> denied: the agent `general` may not use `task` here"), "{seen}");
    let child = world.fake.requests().into_iter().find(|r| is_child(r)).unwrap();
    assert!(!child.tools().contains(&"task".to_owned()), "it is not shown the tool either");
}

#[tokio::test]
async fn a_child_can_be_asked_again_and_knows_what_it_said() {
    let world = World::new(|received| {
        let last = received.body()["messages"].as_array().unwrap().iter().rev().find(|m| m["role"] == "tool").cloned();
        let earlier = last.and_then(|m| {
            let text = m["content"].as_str()?.to_owned();
            Some(text.rsplit_once("session_id: ")?.1.trim().to_owned())
        });
        match (is_child(received), step(received), earlier) {
            (true, ..) => {
                Reply::text(format!("seen {} messages", received.body()["messages"].as_array().unwrap().len()))
            }
            (false, 0, _) => {
                Reply::calls([("task", json!({"description": "a", "prompt": "one", "subagent_type": "explore"}))])
            }
            (false, 1, Some(id)) => Reply::calls([(
                "task",
                json!({"description": "b", "prompt": "two", "subagent_type": "explore", "session_id": id}),
            )]),
            _ => Reply::text("done"),
        }
    })
    .await;
    let posted = world.prompt("ask twice").await;
    world.end(&posted.run).await;
    let children = world.children(&posted.session.id).await;
    assert_eq!(children.len(), 1);
    insta::assert_snapshot!(world.transcript(&children[0].id).await, @r"
    user    one
    model   seen 2 messages
    run     ended: ok
    user    two
    model   seen 4 messages
    run     ended: ok
    ");
}

#[tokio::test]
async fn stopping_the_parent_stops_the_child() {
    let gate = Gate::new();
    let world = World::new(move |received| match is_child(received) {
        true => Reply::text("never").gated(gate.clone()),
        false => Reply::calls([("task", json!({"description": "a", "prompt": "one", "subagent_type": "general"}))]),
    })
    .await;
    let posted = world.prompt("delegate").await;
    world.fake.wait_for(2).await;
    assert!(!world.rt.abort(&posted.session.id, None).await.unwrap().is_empty());
    let run = world.end(&posted.run).await;
    assert_eq!(run.outcome, Some(Outcome::Cancelled));
    let children = world.children(&posted.session.id).await;
    assert_eq!(children[0].status, Status::Killed);
}

#[tokio::test]
async fn more_children_than_slots_all_finish() {
    let limits = config::Limits { running: 2, ..Default::default() };
    let world = World::with(limits, Default::default(), |received| match (is_child(received), step(received)) {
        (false, 0) => Reply::calls((0..20).map(|n| {
            ("task", json!({"description": format!("n{n}"), "prompt": format!("p{n}"), "subagent_type": "explore"}))
        })),
        (true, 0) => Reply::calls([("list", json!({}))]),
        _ => Reply::text("ok"),
    })
    .await;
    let posted = world.prompt("fan out").await;
    let run = world.end(&posted.run).await;
    assert_eq!(run.outcome, Some(Outcome::Ok));
    let seen = world.transcript(&posted.session.id).await;
    assert_eq!(seen.matches("-> ok: ok").count(), 20, "{seen}");
}

#[tokio::test]
async fn the_limit_of_children_and_of_depth_are_told_to_the_model() {
    let limits = config::Limits { children: 2, depth: 1, ..Default::default() };
    let world = World::with(limits, Default::default(), |received| match (is_child(received), step(received)) {
        (false, 0) => Reply::calls(
            (0..3)
                .map(|n| ("task", json!({"description": format!("n{n}"), "prompt": "p", "subagent_type": "explore"}))),
        ),
        _ => Reply::text("ok"),
    })
    .await;
    let posted = world.prompt("fan out").await;
    world.end(&posted.run).await;
    let seen = world.transcript(&posted.session.id).await;
    assert_eq!(seen.matches("-> ok: ok").count(), 2, "{seen}");
    assert_eq!(seen.matches("which is the limit (`limits.children`)").count(), 1, "{seen}");
}

#[tokio::test]
async fn t51_a_child_never_may_more_than_its_parent() {
    let world = World::new(|received| match (is_child(received), step(received)) {
        (false, 0) => {
            Reply::calls([("task", json!({"description": "a", "prompt": "one", "subagent_type": "general"}))])
        }
        (true, 0) => Reply::calls([("write", json!({"filePath": "src/new.rs", "content": "x"}))]),
        _ => Reply::text("ok"),
    })
    .await;
    let cwd = world.repo.path().to_str().unwrap().to_owned();
    let new = convoke_session::NewSession { agent: Some("plan".into()), cwd, ..Default::default() };
    let posted = world.send(convoke_session::Target::New(new), "plan it").await;
    world.end(&posted.run).await;
    let children = world.children(&posted.session.id).await;
    let seen = world.transcript(&children[0].id).await;
    assert!(seen.contains("-> denied: the rules deny `edit`"), "{seen}");
}
