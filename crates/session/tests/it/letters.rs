//! Sessions that start, read and write to each other with the session tools.

use crate::turns::step;
use crate::world::World;
use convoke_session::{NewPrompt, NewSession, Posted, Target};
use proto::entry::Entry;
use proto::{Outcome, RunId, Status};
use serde_json::{Value, json};
use std::time::Duration;
use testkit::{Gate, Received, Reply};

fn system(received: &Received) -> String {
    received.body()["messages"][0]["content"].as_str().unwrap_or_default().to_owned()
}

fn is_child(received: &Received) -> bool {
    received.body()["messages"].to_string().contains("You were started by")
}

/// The last tool result, as JSON.
fn last_result(received: &Received) -> Value {
    serde_json::from_str(&received.last("tool").unwrap_or_default()).unwrap_or(Value::Null)
}

async fn labelled(world: &World, label: &str, text: &str) -> Posted {
    let cwd = world.repo.path().to_str().unwrap().to_owned();
    let target = Target::New(NewSession { cwd, label: Some(label.into()), ..NewSession::default() });
    world.send(target, text).await
}

/// Every JSON result of a session's calls.
async fn results(world: &World, posted: &Posted) -> Vec<Value> {
    let log = world.log(&posted.session.id).await;
    let json = |entry: Entry| match entry {
        Entry::Result(result) => serde_json::from_str(&result.output).ok(),
        _ => None,
    };
    log.into_iter().filter_map(json).collect()
}

#[tokio::test]
async fn a_child_in_the_background_reports_by_letter() {
    let world = World::new(|received| {
        let user = received.last("user").unwrap();
        match (is_child(received), step(received)) {
            (true, _) => Reply::text("42"),
            (false, 0) if user.contains("The agent") => Reply::text(format!("So it is {}", user.contains("\n42\n"))),
            (false, 0) => Reply::calls([("sessions_spawn", json!({"task": "count", "label": "counter"}))]),
            (false, _) => Reply::text("started"),
        }
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let seen = world.transcript(&posted.session.id).await;
    assert!(seen.contains("model   started\n"), "{seen}");
    assert!(seen.contains("model   So it is true\n"), "{seen}");
    let result = &results(&world, &posted).await[0];
    assert_eq!(
        (&result["status"], &result["label"], &result["mode"]),
        (&json!("ok"), &json!("counter"), &json!("run"))
    );
    assert!(result["childSessionKey"].as_str().unwrap().starts_with("subagent:"));
    let child = &world.children(&posted.session.id).await[0];
    assert_eq!(result["sessionId"], json!(child.id));
    assert_eq!(child.status, Status::Done);
}

#[tokio::test]
async fn yielding_ends_the_turn_and_the_answer_is_the_next_message() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(move |received| match (is_child(received), step(received)) {
        (true, _) => Reply::text("found").gated(held.clone()),
        (false, 0) if received.last("user").unwrap().contains("The agent") => Reply::text("thanks"),
        (false, 0) => Reply::calls([("sessions_spawn", json!({"task": "look"}))]),
        (false, 1) => Reply::calls([("sessions_yield", json!({}))]),
        (false, _) => Reply::text("must not be asked"),
    })
    .await;
    let posted = world.prompt("go").await;
    assert_eq!(world.end_of(&posted.run).await.outcome, Some(Outcome::Ok));
    gate.open();
    world.end(&posted.run).await;
    let seen = world.transcript(&posted.session.id).await;
    assert!(!seen.contains("must not be asked") && seen.contains("model   thanks\n"), "{seen}");
    assert_eq!(results(&world, &posted).await[1], json!({"status": "yielded", "message": "Turn yielded."}));
}

#[tokio::test]
async fn yielding_to_nobody_is_refused() {
    let world = World::new(|received| match step(received) {
        0 => Reply::calls([("sessions_yield", json!({"message": "waiting"}))]),
        _ => Reply::text("fine"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let result = &results(&world, &posted).await[0];
    assert_eq!((&result["status"], &result["code"]), (&json!("error"), &json!("invalid_input")));
}

#[tokio::test]
async fn a_message_is_answered_in_its_own_run() {
    let world = World::new(|received| {
        let user = received.last("user").unwrap();
        match (user.as_str(), step(received)) {
            ("ask", 0) => Reply::calls([("sessions_send", json!({"label": "helper", "message": "what is it?"}))]),
            ("ask", _) => Reply::text(format!("told: {}", last_result(received)["reply"].as_str().unwrap())),
            ("what is it?", _) => {
                assert!(system(received).contains("sent by the session"), "{}", system(received));
                Reply::text("a teapot")
            }
            _ => Reply::text("hello"),
        }
    })
    .await;
    let helper = labelled(&world, "helper", "hi").await;
    world.end(&helper.run).await;
    let posted = world.prompt("ask").await;
    world.end(&posted.run).await;
    assert!(world.transcript(&posted.session.id).await.contains("model   told: a teapot\n"));
    let result = &results(&world, &posted).await[0];
    assert_eq!(result["status"], json!("ok"));
    assert_eq!(result["delivery"], json!({"status": "done", "mode": "reply"}));
    assert!(result["runId"].as_str().unwrap().starts_with("run_"));
    assert!(result["sessionKey"].as_str().unwrap().starts_with("agent:build:chat:"));
}

#[tokio::test]
async fn an_answer_that_comes_too_late_comes_as_a_letter() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(move |received| {
        let user = received.last("user").unwrap();
        match (user.as_str(), step(received)) {
            ("ask", 0) => {
                Reply::calls([("sessions_send", json!({"label": "slow", "message": "think", "timeoutSeconds": 1}))])
            }
            ("ask", _) => Reply::text("it takes long"),
            ("think", _) => Reply::text("done thinking").gated(held.clone()),
            ("hi", _) => Reply::text("hello"),
            (other, _) => Reply::text(format!("late news: {}", other.contains("done thinking"))),
        }
    })
    .await;
    let slow = labelled(&world, "slow", "hi").await;
    world.end(&slow.run).await;
    let posted = world.prompt("ask").await;
    assert_eq!(world.end_of(&posted.run).await.outcome, Some(Outcome::Ok));
    let result = &results(&world, &posted).await[0];
    assert_eq!((&result["status"], &result["delivery"]["status"]), (&json!("timeout"), &json!("pending")));
    gate.open();
    for _ in 0..500 {
        if world.transcript(&posted.session.id).await.contains("model   late news: true\n") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{}", world.transcript(&posted.session.id).await);
}

#[tokio::test]
async fn nobody_waits_in_a_circle_of_three() {
    let world = World::new(|received| {
        let user = received.last("user").unwrap();
        let send =
            |to: &str| Reply::calls([("sessions_send", json!({"label": to, "message": format!("pass to {to}")}))]);
        match (user.as_str(), step(received)) {
            ("start", 0) => send("b"),
            ("pass to b", 0) => send("c"),
            ("pass to c", 0) => send("a"),
            ("hi", _) => Reply::text("hello"),
            _ => Reply::text(last_result(received)["code"].as_str().unwrap_or("fine").to_owned()),
        }
    })
    .await;
    let a = labelled(&world, "a", "hi").await;
    let b = labelled(&world, "b", "hi").await;
    let c = labelled(&world, "c", "hi").await;
    for posted in [&a, &b, &c] {
        world.end(&posted.run).await;
    }
    let started = world.send(Target::Session(a.session.id.clone()), "start").await;
    let run = world.end(&started.run).await;
    assert_eq!(run.outcome, Some(Outcome::Ok));
    let result = &results(&world, &c).await[0];
    assert_eq!((&result["status"], &result["code"]), (&json!("error"), &json!("cycle")), "{result}");
    assert!(result["runId"].is_string() && result["sessionKey"].is_string());
}

#[tokio::test]
async fn each_check_of_a_send_has_its_own_answer() {
    let world = World::new(|received| {
        let n = step(received);
        let calls = [
            json!({"sessionKey": "main", "label": "x", "message": "m"}),
            json!({"message": "m"}),
            json!({"label": "nobody", "message": "m"}),
            json!({"sessionKey": "agent:build:chat:none", "message": "m"}),
            json!({"sessionKey": "current", "message": "m"}),
        ];
        calls.get(n).map_or_else(|| Reply::text("done"), |call| Reply::calls([("sessions_send", call.clone())]))
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let found: Vec<(Value, Value)> =
        results(&world, &posted).await.iter().map(|r| (r["error"].clone(), r["code"].clone())).collect();
    assert_eq!(found[0], (json!("Provide either sessionKey or label (not both)."), json!("invalid_input")));
    assert_eq!(found[1], (json!("Either sessionKey or label is required"), json!("invalid_input")));
    assert_eq!(found[2], (json!("No session found with label: nobody"), json!("not_found")));
    assert_eq!(found[3].1, json!("not_found"));
    assert_eq!(found[4].1, json!("cycle"));
    assert!(results(&world, &posted).await.iter().all(|result| result["runId"].is_string()));
}

#[tokio::test]
async fn two_sessions_talk_it_over_and_the_receiver_announces_across_restarts() {
    let mut world = World::new(|received| {
        let user = received.last("user").unwrap();
        match (user.as_str(), step(received)) {
            ("talk", 0) => Reply::calls([(
                "sessions_send",
                json!({"label": "peer", "message": "shall we?", "timeoutSeconds": 0, "delivery": "announce"}),
            )]),
            ("talk", _) => Reply::text("sent"),
            ("hi", _) => Reply::text("hello"),
            ("shall we?", _) => Reply::text("word 0"),
            (other, _) if other.contains("is over") => Reply::text("we talked"),
            (other, _) if other.contains("answered you") => {
                let n: u32 = other.split("word ").nth(1).and_then(|t| t.split('\n').next()).unwrap().parse().unwrap();
                Reply::text(format!("word {}", n + 1))
            }
            _ => Reply::text("?"),
        }
    })
    .await;
    let peer = labelled(&world, "peer", "hi").await;
    world.end(&peer.run).await;
    let posted = world.prompt("talk").await;
    world.end_of(&posted.run).await;
    // In the middle of it, twice, the gateway goes away.
    for _ in 0..2 {
        world.restart().await;
    }
    for _ in 0..500 {
        if world.transcript(&peer.session.id).await.contains("model   we talked\n") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (there, here) = (world.transcript(&peer.session.id).await, world.transcript(&posted.session.id).await);
    let words = |text: &str| -> Vec<String> {
        text.lines().filter_map(|line| line.strip_prefix("model   ")).map(str::to_owned).collect()
    };
    assert_eq!(words(&there), ["hello", "word 0", "word 2", "word 4", "we talked"], "{there}");
    assert_eq!(words(&here), ["sent", "word 1", "word 3", "word 5"], "{here}");
}

#[tokio::test]
async fn lists_and_histories_show_what_may_be_seen_and_no_secrets() {
    let world = World::new(|received| match step(received) {
        0 if received.last("user").unwrap() == "look" => Reply::calls([
            ("sessions_list", json!({"limit": 10, "messageLimit": 2})),
            ("sessions_history", json!({"sessionKey": "keeper", "includeTools": true})),
            ("session_status", json!({})),
            ("agents_list", json!({})),
        ]),
        _ => Reply::text("the password is hunter2-hunter2"),
    })
    .await;
    let keeper = labelled(&world, "keeper", "what is it?").await;
    world.end(&keeper.run).await;
    let posted = world.prompt("look").await;
    world.end(&posted.run).await;
    let results = results(&world, &posted).await;
    assert_eq!(results[0]["count"], json!(2));
    assert_eq!(results[0]["sessions"][1]["label"], json!("keeper"));
    assert_eq!(results[1]["contentRedacted"], json!(true));
    for result in &results {
        assert!(!result.to_string().contains("hunter2-hunter2"), "{result}");
    }
    assert_eq!((&results[2]["status"], &results[2]["owner"]), (&json!("running"), &json!("build")));
    let tools = results[2]["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "bash" && tool["allowed"] == true));
    assert!(results[3]["agents"].as_array().unwrap().iter().any(|agent| agent["name"] == "explore"));
}

#[tokio::test]
async fn children_lack_the_session_tools_unless_the_spawn_grants_them() {
    let world = World::new(|received| match (is_child(received), step(received)) {
        (false, 0) => Reply::calls([
            ("sessions_spawn", json!({"task": "plain", "agentId": "general", "background": false})),
            ("sessions_spawn", json!({"task": "narrow", "agentId": "general", "background": false, "tools": ["read", "sessions_list"]})),
        ]),
        (true, _) => {
            let mut tools = received.tools();
            tools.sort();
            let system = received.last("system").unwrap();
            let named = system.split_once("before you call it: ").map_or("", |(_, names)| names);
            Reply::text(format!("{} {named}", tools.join(" ")).trim())
        }
        _ => Reply::text("done"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let results = results(&world, &posted).await;
    let reply = |n: usize| results[n]["reply"].as_str().unwrap().to_owned();
    let (plain, narrow) = if reply(0).contains("bash") { (reply(0), reply(1)) } else { (reply(1), reply(0)) };
    assert!(!plain.contains("sessions_list") && !plain.contains("task") && plain.contains("subagents"), "{plain}");
    assert_eq!(narrow, "read sessions_list", "without a search nothing is deferred");
    assert!(results.iter().all(|result| result["outcome"] == json!("ok")));
}

#[tokio::test]
async fn a_run_out_of_time_ends_with_a_timeout() {
    let gate = Gate::new();
    let world = World::new(move |received| match (is_child(received), step(received)) {
        (true, _) => Reply::text("never").gated(gate.clone()),
        (false, 0) => {
            Reply::calls([("sessions_spawn", json!({"task": "slow", "background": false, "runTimeoutSeconds": 1}))])
        }
        _ => Reply::text("done"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    assert_eq!(results(&world, &posted).await[0]["outcome"], json!("error"));
    assert_eq!(world.children(&posted.session.id).await[0].status, Status::Timeout);
}

#[tokio::test]
async fn children_are_listed_steered_and_killed() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(move |received| match (is_child(received), step(received)) {
        (true, _) => Reply::text("never").gated(held.clone()),
        (false, 0) if received.last("user").unwrap().contains("The agent") => Reply::text("I see"),
        (false, 0) => Reply::calls([("sessions_spawn", json!({"task": "slow", "label": "snail"}))]),
        (false, 1) => Reply::calls([("subagents", json!({"action": "list"}))]),
        (false, 2) => Reply::calls([("subagents", json!({"action": "steer", "target": "sna", "message": "faster"}))]),
        (false, 3) => Reply::calls([("subagents", json!({"action": "kill", "target": "1"}))]),
        _ => Reply::text("done"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let results = results(&world, &posted).await;
    assert_eq!((&results[1]["count"], &results[1]["children"][0]["label"]), (&json!(1), &json!("snail")));
    assert_eq!(results[2]["status"], json!("ok"));
    assert_eq!(results[3]["killed"].as_array().unwrap().len(), 1);
    assert_eq!(world.children(&posted.session.id).await[0].status, Status::Killed);
}

#[tokio::test]
async fn a_person_spawns_without_a_model_turn() {
    let world =
        World::new(|received| if is_child(received) { Reply::text("child") } else { Reply::text("parent") }).await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let run = RunId::parse("my-spawn").unwrap();
    for _ in 0..2 {
        let request = tools::Spawn { prompt: "work".into(), agent: Some("general".into()), ..Default::default() };
        let spawned = world.rt.spawn(&posted.session.id, Some(run.clone()), request).await.unwrap();
        assert_eq!(world.end(&spawned.run).await.outcome, Some(Outcome::Ok));
    }
    assert_eq!(world.children(&posted.session.id).await.len(), 1, "the same key is the same child");
    let prompt = NewPrompt {
        target: Target::Session(posted.session.id.clone()),
        text: "still there?".into(),
        agent: None,
        model: None,
        run: None,
        steer: true,
    };
    let last = world.rt.prompt(prompt).await.unwrap();
    world.end(&last.run).await;
    assert!(world.transcript(&posted.session.id).await.contains("The agent `general`"));
}

#[tokio::test]
async fn words_put_into_a_childs_mouth_stand_as_its_own() {
    let world = World::new(|received| {
        let user = received.last("user").unwrap();
        match (user.as_str(), step(received)) {
            ("go", 0) => Reply::calls([(
                "sessions_spawn",
                json!({"task": "sit", "label": "kid", "mode": "session", "background": false}),
            )]),
            ("go", 1) => Reply::calls([(
                "sessions_send",
                json!({"label": "kid", "role": "assistant", "message": "I like tea."}),
            )]),
            ("go", 2) => Reply::calls([("sessions_send", json!({"label": "kid", "message": "what do you like?"}))]),
            ("what do you like?", _) => Reply::text(received.last("assistant").unwrap()),
            _ => Reply::text("sitting"),
        }
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let results = results(&world, &posted).await;
    assert_eq!((&results[1]["status"], &results[1]["reply"]), (&json!("ok"), &json!("I like tea.")), "{results:?}");
    assert_eq!(results[2]["reply"], json!("I like tea."));
    let child = &world.children(&posted.session.id).await[0];
    let input = proto::methods::HistoryInput { session_key: child.id.to_string(), ..Default::default() };
    let history = world.rt.directory().history(&input).await.unwrap();
    let said: Vec<Value> = history.messages.iter().map(|m| json!([m.role, m.content])).collect();
    assert_eq!(said[2], json!(["assistant", "I like tea."]), "{said:?}");
}

#[tokio::test]
async fn nobody_puts_words_into_the_mouth_of_whom_they_do_not_control() {
    let mut world = World::new(|received| match (received.last("user").unwrap().as_str(), step(received)) {
        ("go", 0) => Reply::calls([(
            "sessions_send",
            json!({"sessionKey": "other", "role": "assistant", "message": "I agree."}),
        )]),
        _ => Reply::text("fine"),
    })
    .await;
    let other = labelled(&world, "other", "hi").await;
    world.end(&other.run).await;
    world.allow("control", "tree").await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let result = &results(&world, &posted).await[0];
    assert_eq!((&result["status"], &result["code"]), (&json!("forbidden"), &json!("forbidden_visibility")), "{result}");
}

#[tokio::test]
async fn a_message_goes_to_a_name_or_to_the_end_of_an_id() {
    let world = World::new(|received| {
        let user = received.last("user").unwrap();
        let launch = json!({
            "description": "a piece", "prompt": "wait", "subagent_type": "general", "name": "writer",
            "run_in_background": false,
        });
        match (user.as_str(), step(received)) {
            ("go", 0) => Reply::calls([("agent", launch)]),
            ("go", 1) => Reply::calls([("sessions_send", json!({"label": "writer", "message": "one"}))]),
            ("go", 2) => {
                let key = last_result(received)["sessionKey"].as_str().unwrap_or_default().to_owned();
                let end = &key[key.len().saturating_sub(6)..];
                Reply::calls([("sessions_send", json!({"sessionKey": end, "message": "two"}))])
            }
            ("go", 3) => Reply::calls([("sessions_send", json!({"label": "reader", "message": "three"}))]),
            ("go", 4) => Reply::calls([("sessions_history", json!({"sessionKey": "writer"}))]),
            ("go", _) => Reply::text("done"),
            (text, _) => Reply::text(format!("heard {text}")),
        }
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let sent: Vec<Value> = results(&world, &posted).await.into_iter().skip(1).collect();
    let told = |at: usize| (&sent[at]["status"], &sent[at]["reply"]);
    assert_eq!(told(0), (&json!("ok"), &json!("heard one")), "{sent:?}");
    assert_eq!(told(1), (&json!("ok"), &json!("heard two")), "{sent:?}");
    assert_eq!((&sent[2]["status"], &sent[2]["code"]), (&json!("error"), &json!("not_found")), "{sent:?}");
    let messages = sent[3]["messages"].as_array().unwrap();
    let senders: Vec<&str> = messages.iter().filter_map(|message| message["sender"].as_str()).collect();
    assert_eq!(senders, ["parent", "writer", "parent", "writer", "parent", "writer"], "{messages:?}");
}

#[tokio::test]
async fn a_page_that_begins_in_the_middle_of_a_turn_says_which_agent_answered() {
    let world = World::new(|received| match step(received) {
        0 => Reply::calls([("list", json!({}))]),
        _ => Reply::text("done"),
    })
    .await;
    let posted = world.prompt("@plan look around").await;
    world.end(&posted.run).await;
    let page = |after: Option<u64>, before: Option<u64>, limit: u32| {
        let (session_key, limit) = (posted.session.id.to_string(), Some(limit));
        proto::methods::HistoryInput { session_key, limit, include_tools: true, before, after }
    };
    let directory = world.rt.directory();
    let all = directory.history(&page(None, None, 50)).await.unwrap().messages;
    assert_eq!(all.len(), 3);
    for input in [page(Some(all[0].seq), None, 50), page(Some(all[1].seq), None, 1), page(None, None, 1)] {
        let messages = directory.history(&input).await.unwrap().messages;
        assert!(!messages.is_empty());
        assert!(messages.iter().all(|message| message.agent == "plan" && message.mode.as_deref() == Some("plan")));
    }
}
