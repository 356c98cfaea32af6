//! Who sees whom when sessions look for each other: sandboxed ones, and what they start.

use crate::turns::step;
use crate::world::World;
use convoke_session::{NewSession, Target};
use proto::entry::Entry;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use testkit::Reply;

fn isolated(name: &str) -> BTreeMap<String, config::Agent> {
    let agent = config::Agent { isolated: Some(true), mode: Some(config::Mode::All), ..config::Agent::default() };
    BTreeMap::from([(name.to_owned(), agent)])
}

/// Each call a session makes that looks for somebody, with the same name in another form.
fn looks(name: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("sessions_history", json!({ "sessionKey": name })),
        ("session_status", json!({ "sessionKey": name })),
        ("sessions_send", json!({ "sessionKey": name, "message": "m" })),
        ("sessions_list", json!({ "spawnedBy": name })),
    ]
}

async fn results(world: &World, session: &proto::SessionId) -> Vec<Value> {
    let json = |entry: Entry| match entry {
        Entry::Result(result) => serde_json::from_str(&result.output).ok(),
        _ => None,
    };
    world.log(session).await.into_iter().filter_map(json).collect()
}

/// Without what differs anyhow.
fn plain(mut result: Value, name: &str) -> Value {
    result.as_object_mut().unwrap().remove("runId");
    serde_json::from_str(&result.to_string().replace(name, "NAME")).unwrap()
}

#[tokio::test]
async fn a_sandboxed_session_cannot_tell_what_is_hidden_from_what_is_not_there() {
    let world = World::with(config::Limits::default(), isolated("lab"), |received| {
        let user = received.last("user").unwrap();
        match (user.strip_prefix("look for "), step(received)) {
            (Some(name), 0) => Reply::calls(looks(name)),
            _ => Reply::text("fine"),
        }
    })
    .await;
    let cwd = world.repo.path().to_str().unwrap().to_owned();
    let other = NewSession { cwd: cwd.clone(), label: Some("hidden".into()), ..NewSession::default() };
    let other = world.send(Target::New(other), "hi").await;
    world.end(&other.run).await;
    let own = NewSession { cwd, agent: Some("lab".into()), ..NewSession::default() };
    let own = world.rt.create(own).await.unwrap();
    let mut seen = Vec::new();
    for name in ["hidden", "absent", other.session.key.as_str(), "agent:build:chat:none"] {
        let posted = world.send(Target::Session(own.id.clone()), &format!("look for {name}")).await;
        world.end(&posted.run).await;
        let all = results(&world, &own.id).await;
        let last: Vec<Value> = all[all.len() - 4..].iter().map(|result| plain(result.clone(), name)).collect();
        assert!(last.iter().all(|r| r["status"] == "forbidden" && r["code"] == "forbidden_sandbox"), "{last:?}");
        seen.push(last);
    }
    assert!(seen.windows(2).all(|two| two[0] == two[1]), "{seen:#?}");
}

#[tokio::test]
async fn what_a_sandboxed_session_starts_is_sandboxed_and_can_be_reached() {
    let world = World::with(config::Limits::default(), isolated("lab"), |received| {
        let user = received.last("user").unwrap();
        match (user.as_str(), step(received)) {
            ("start", 0) => Reply::calls([(
                "sessions_spawn",
                json!({ "task": "look around", "agentId": "general", "label": "kid", "mode": "session",
                    "background": false, "tools": ["sessions_list", "sessions_history"] }),
            )]),
            ("start", 1) => Reply::calls([("sessions_history", json!({ "sessionKey": "kid" }))]),
            ("look around", 0) => {
                Reply::calls([("sessions_list", json!({})), ("sessions_history", json!({ "sessionKey": "hidden" }))])
            }
            _ => Reply::text("fine"),
        }
    })
    .await;
    let cwd = world.repo.path().to_str().unwrap().to_owned();
    let other = NewSession { cwd: cwd.clone(), label: Some("hidden".into()), ..NewSession::default() };
    let other = world.send(Target::New(other), "hi").await;
    world.end(&other.run).await;
    let own = NewSession { cwd, agent: Some("lab".into()), ..NewSession::default() };
    let own = world.rt.create(own).await.unwrap();
    let posted = world.send(Target::Session(own.id.clone()), "start").await;
    world.end(&posted.run).await;
    let above = results(&world, &own.id).await;
    assert!(above[1]["messages"].is_array(), "{}", above[1]);
    let child = &world.children(&own.id).await[0];
    let below = results(&world, &child.id).await;
    assert_eq!(below[0]["count"], json!(1), "it sees itself and nobody else: {}", below[0]);
    assert_eq!(below[1]["code"], json!("forbidden_sandbox"), "{}", below[1]);
}
