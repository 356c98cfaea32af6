//! Deferred tools: named at first, loaded when searched for or called, and kept in the order they were loaded.

use crate::turns::step;
use crate::world::World;
use convoke_session::Target;
use proto::entry::Entry;
use proto::{Outcome, SessionId};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use testkit::{Received, Reply};

/// The names in the tool list of a request.
fn listed(received: &Received) -> Vec<String> {
    let body = received.body();
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

fn system(received: &Received) -> String {
    received.body()["messages"][0]["content"].as_str().unwrap().to_owned()
}

const SHOWN: [&str; 17] = [
    "read",
    "list",
    "glob",
    "grep",
    "bash",
    "write",
    "edit",
    "apply_patch",
    "webfetch",
    "task",
    "agent",
    "send_message",
    "plan_enter",
    "question",
    "todowrite",
    "sessions_send",
    "tool_search",
];

async fn loaded(world: &World, session: &SessionId) -> Vec<Vec<String>> {
    let names = |entry: Entry| match entry {
        Entry::ToolsLoaded(tools) => Some(tools.names),
        _ => None,
    };
    world.log(session).await.into_iter().filter_map(names).collect()
}

#[tokio::test]
async fn deferred_tools_are_named_until_they_are_searched_for() {
    let world = World::new(|received| match step(received) {
        0 => Reply::calls([("ToolSearch", json!({"query": "select:subagents,sessions_list,read,subagent"}))]),
        1 => Reply::calls([("tool_search", json!({"query": "+history session"}))]),
        2 => Reply::calls([("tool_search", json!({"query": "select:subagents"}))]),
        _ => Reply::text("found"),
    })
    .await;
    let posted = world.prompt("which tools are there?").await;
    world.end(&posted.run).await;
    let requests = world.fake.requests();
    assert_eq!(listed(&requests[0]), SHOWN);
    assert!(system(&requests[0]).ends_with(
        "before you call it: jobs, todoread, sessions_list, sessions_history, sessions_spawn, sessions_yield, session_status, subagents, \
         agents_list, list_peers, board_add, board_list, board_claim, board_update, \
         enter_worktree, exit_worktree."
    ));
    assert_eq!(listed(&requests[1]), [&SHOWN[..], &["subagents", "sessions_list"]].concat());
    assert_eq!(listed(&requests[2]), [&SHOWN[..], &["subagents", "sessions_list", "sessions_history"]].concat());
    assert_eq!(listed(&requests[3]), listed(&requests[2]), "what is loaded is not loaded again");
    let told = requests[1].last("tool").unwrap();
    assert!(told.starts_with("<functions>\n<function>{\"description\":\""), "{told}");
    assert!(told.contains("\"name\":\"read\",\"parameters\":{"), "{told}");
    assert!(told.contains("There is no tool `subagent`; the nearest are: subagents, "), "{told}");
    assert_eq!(
        loaded(&world, &posted.session.id).await,
        [vec!["subagents".to_owned(), "sessions_list".into()], vec!["sessions_history".into()]]
    );
}

#[tokio::test]
async fn what_was_sent_stays_the_same_but_for_the_end_of_the_tool_list() {
    let world = World::new(|received| match step(received) {
        0 => Reply::calls([("read", json!({"filePath": "README.md"}))]),
        1 => Reply::calls([("tool_search", json!({"query": "select:agents_list"}))]),
        2 => Reply::calls([("agents_list", json!({}))]),
        _ => Reply::text("done"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let requests = world.fake.requests();
    assert_eq!(requests.len(), 4);
    for pair in requests.windows(2) {
        let (before, after) = (pair[0].body(), pair[1].body());
        assert_eq!(before["messages"][0], after["messages"][0], "the system part");
        for part in ["messages", "tools"] {
            let (before, after) = (before[part].as_array().unwrap(), after[part].as_array().unwrap());
            assert_eq!(before[..], after[..before.len()], "{part}");
        }
    }
    let tools = |n: usize| requests[n].body()["tools"].to_string();
    assert_eq!(tools(0), tools(1));
    assert_ne!(tools(1), tools(2));
    assert_eq!(tools(2), tools(3));
}

#[tokio::test]
async fn a_direct_call_of_a_deferred_tool_loads_it_and_runs() {
    let world = World::new(|received| match step(received) {
        0 => Reply::calls([
            ("agents_list", json!({})),
            ("session_status", json!({})),
            ("agents_list", json!({})),
            ("sessions_history", json!({"nothing": true})),
            ("subagents", json!("no object")),
        ]),
        _ => Reply::text("done"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let log = world.transcript(&posted.session.id).await;
    assert!(log.contains("agents_list{} -> ok: {\"requester\":\"build\""), "{log}");
    let sent = world.fake.requests()[1].body();
    let result = |nth: usize| {
        let tools: Vec<Value> =
            sent["messages"].as_array().unwrap().iter().filter(|m| m["role"] == "tool").cloned().collect();
        tools[nth]["content"].as_str().unwrap().to_owned()
    };
    assert!(result(3).contains("schema") && result(3).contains("\"sessionKey\""), "{}", result(3));
    assert!(result(4).contains("schema") && result(4).contains("\"action\""), "{}", result(4));
    assert_eq!(loaded(&world, &posted.session.id).await, [["agents_list", "session_status"]]);
    assert_eq!(listed(&world.fake.requests()[1]), [&SHOWN[..], &["agents_list", "session_status"]].concat());
}

#[tokio::test]
async fn loaded_tools_and_the_list_of_names_survive_a_restart() {
    let mut world = World::new(|received| match (received.n, step(received)) {
        (0, _) => Reply::calls([("tool_search", json!({"query": "select:subagents"}))]),
        _ => Reply::text("done"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let before = world.fake.last().unwrap();
    world.restart().await;
    let again = world.send(Target::Session(posted.session.id.clone()), "and now?").await;
    world.end(&again.run).await;
    let after = world.fake.last().unwrap();
    assert_eq!(listed(&after), [&SHOWN[..], &["subagents"]].concat());
    assert_eq!(before.body()["tools"], after.body()["tools"]);
    assert_eq!(system(&before), system(&after));
}

#[tokio::test]
async fn tools_that_come_and_go_are_told_at_the_end_and_once() {
    let mut world = World::new(|_| Reply::text("ok")).await;
    let posted = world.prompt("one").await;
    world.end(&posted.run).await;
    let first = system(&world.fake.last().unwrap());
    // A rule of the settings takes a tool away, and later gives it back.
    let hidden = config::Agent { tools: vec![("subagents".into(), false)], ..config::Agent::default() };
    for (agents, notice) in [
        (BTreeMap::from([("build".to_owned(), hidden)]), "These tools can no longer be used: subagents."),
        (BTreeMap::new(), "More tools can be fetched with `tool_search` now: subagents."),
    ] {
        world.agents = agents;
        for told in [true, false] {
            world.restart().await;
            let posted = world.send(Target::Session(posted.session.id.clone()), "next").await;
            world.end(&posted.run).await;
            let sent = world.fake.last().unwrap();
            assert_eq!(system(&sent), first, "the system part is as of the session's start");
            let newest = sent.last("user").unwrap();
            assert_eq!(newest.contains(notice), told, "{newest}");
        }
    }
}

#[tokio::test]
async fn a_tool_that_is_denied_is_neither_named_nor_found_nor_run() {
    let denied = config::Agent {
        permission: vec![proto::Rule::new("subagents", "*", proto::Action::Deny)],
        ..config::Agent::default()
    };
    let agents = BTreeMap::from([("build".to_owned(), denied)]);
    let world = World::with(config::Limits::default(), agents, |received| match step(received) {
        0 => Reply::calls([
            ("tool_search", json!({"query": "select:subagents"})),
            ("subagents", json!({"action": "list"})),
        ]),
        _ => Reply::text("done"),
    })
    .await;
    let posted = world.prompt("go").await;
    assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Ok));
    let log = world.transcript(&posted.session.id).await;
    assert!(log.contains("error: There is no tool `subagents`"), "{log}");
    assert!(log.contains("denied: {\"status\":\"forbidden\""), "{log}");
    assert!(!system(&world.fake.requests()[0]).contains("subagents"));
    assert!(loaded(&world, &posted.session.id).await.is_empty());
}

/// A server that describes tools by itself: the list says everything from the start, and a result points at what it found.
#[tokio::test]
async fn where_the_server_can_defer_loading_a_tool_changes_nothing_that_was_sent() {
    let mut world = World::new(|received| match received.step() {
        0 => Reply::calls([("tool_search", json!({"query": "select:subagents,nothing"}))]),
        1 => Reply::calls([("subagents", json!({"action": "list"}))]),
        2 => Reply::calls([("tool_search", json!({"query": "select:sessions_list"}))]),
        _ => Reply::text("done"),
    })
    .await;
    let cwd = world.repo.path().to_str().unwrap().to_owned();
    let model = Some("deferring/m1".to_owned());
    let target = Target::New(convoke_session::NewSession { cwd, model, ..Default::default() });
    let posted = world.send(target, "look around").await;
    assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Ok));
    let requests = world.fake.requests();
    let tools = |received: &Received| received.body()["tools"].clone();
    assert!(requests.iter().all(|received| tools(received) == tools(&requests[0])), "the list stays as it was");
    let list = tools(&requests[0]);
    let (near, far): (Vec<&Value>, Vec<&Value>) =
        list.as_array().unwrap().iter().partition(|tool| tool["defer_loading"].is_null());
    assert!(near.iter().any(|tool| tool["name"] == "tool_search") && near.len() == SHOWN.len(), "{near:?}");
    assert!(far.iter().any(|tool| tool["name"] == "subagents"), "{far:?}");
    for pair in requests.windows(2) {
        let shared = pair[0].raw.iter().zip(&pair[1].raw).take_while(|(a, b)| a == b).count();
        assert!(shared * 100 >= pair[0].raw.len() * 99, "{shared} of {} bytes", pair[0].raw.len());
    }
    let said = requests[3].body()["messages"].to_string();
    for name in ["subagents", "sessions_list"] {
        assert!(said.contains(&json!([{ "type": "tool_reference", "tool_name": name }]).to_string()), "{said}");
    }
    assert!(said.contains("There is no tool `nothing`") && !said.contains("<functions>"), "{said}");
    // The next gateway sends the same.
    world.restart().await;
    let next = world.send(Target::Session(posted.session.id), "and on").await;
    world.end(&next.run).await;
    let last = world.fake.last().unwrap();
    let shared = requests[3].raw.iter().zip(&last.raw).take_while(|(a, b)| a == b).count();
    assert!(shared * 100 >= requests[3].raw.len() * 99, "{shared} of {} bytes", requests[3].raw.len());
}
