//! The same conversation on every wire, and what happens when a model's server fails for the moment.

use crate::world::World;
use convoke_session::hub::{Seen, Watching, What};
use convoke_session::{NewPrompt, NewSession, Target};
use proto::letter::{InputPart, Switch};
use proto::{Outcome, Status};
use serde_json::json;
use std::sync::Arc;
use testkit::{Gate, Received, Reply, Wire};

const STEPS: usize = 50;

/// Fifty steps: a thought and three calls each, then an answer.
fn loops(received: &Received) -> Reply {
    match received.step() {
        step if step < STEPS => Reply::text(format!("step {step}"))
            .thinking(format!("thought number {step}"))
            .and_calls([
                ("read", json!({ "filePath": "README.md", "limit": 100 + step })),
                ("glob", json!({ "pattern": format!("{{*.toml,{step}}}") })),
                ("read", json!({ "filePath": format!("{step}-missing.txt") })),
            ])
            .usage(1_000, 10),
        _ => Reply::text("done").usage(1_000, 10),
    }
}

async fn prompt(world: &World, wire: Wire, text: &str, files: Vec<InputPart>) -> convoke_session::Posted {
    prompt_on(world, wire.as_str(), text, files).await
}

async fn prompt_on(world: &World, provider: &str, text: &str, files: Vec<InputPart>) -> convoke_session::Posted {
    let cwd = world.repo.path().to_str().unwrap().to_owned();
    let target = Target::New(NewSession { cwd, ..NewSession::default() });
    let model = Some(format!("{provider}/m1"));
    let prompt = NewPrompt { target, text: text.to_owned(), agent: None, model, run: None, steer: true };
    world.rt.prompt_with(prompt, files).await.unwrap()
}

#[tokio::test]
async fn a_loop_of_fifty_steps_with_thoughts_and_parallel_calls_runs_on_every_wire() {
    for wire in Wire::ALL {
        let world = World::new(loops).await;
        let posted = prompt(&world, wire, "go on", Vec::new()).await;
        let run = world.end(&posted.run).await;
        assert_eq!((run.outcome, world.fake.count()), (Some(Outcome::Ok), STEPS + 1), "{wire:?}");
        assert_eq!(run.usage.input, 1_000 * (STEPS as u64 + 1), "{wire:?}");
        let requests = world.fake.requests();
        assert!(requests.iter().all(|received| received.wire() == wire), "{wire:?}");
        let last = requests.last().unwrap();
        let results: Vec<String> =
            last.lines().into_iter().filter(|line| line.role == "tool").map(|line| line.text).collect();
        assert_eq!(results.len(), 3 * STEPS, "{wire:?}");
        for three in results.chunks(3) {
            assert!(three[0].contains("# Sample") && three[1].contains("Cargo.toml"), "{wire:?}: {three:?}");
            assert!(three[2].contains("missing.txt"), "{wire:?}: {three:?}");
        }
        check_thoughts(wire, last);
        check_prefix(wire, &requests);
    }
}

/// Thoughts go back as they came where a wire has a way for it.
fn check_thoughts(wire: Wire, last: &Received) {
    let body = last.body();
    let sealed = |n: usize| format!("Seal+/{}==", format!("thought number {n}").len());
    match wire {
        Wire::OpenAiChat => assert!(!body.to_string().contains("thought number")),
        Wire::Anthropic => {
            let blocks: Vec<&serde_json::Value> = body["messages"]
                .as_array()
                .unwrap()
                .iter()
                .flat_map(|message| message["content"].as_array().unwrap())
                .filter(|block| block["type"] == "thinking")
                .collect();
            let expected =
                |n| json!({ "type": "thinking", "thinking": format!("thought number {n}"), "signature": sealed(n) });
            assert!(blocks.len() == STEPS && (0..STEPS).all(|n| *blocks[n] == expected(n)), "{blocks:?}");
        }
        Wire::OpenAiResponses => {
            let items: Vec<&serde_json::Value> =
                body["input"].as_array().unwrap().iter().filter(|item| item["type"] == "reasoning").collect();
            assert_eq!(items.len(), STEPS);
            assert!((0..STEPS).all(|n| items[n]["encrypted_content"] == sealed(n).as_str()), "{items:?}");
        }
    }
}

/// Of all bytes of a request, nearly all are those of the request after it.
fn check_prefix(wire: Wire, requests: &[Arc<Received>]) {
    let (mut shared, mut sent) = (0, 0);
    for pair in requests.windows(2) {
        shared += pair[0].raw.iter().zip(&pair[1].raw).take_while(|(a, b)| a == b).count();
        sent += pair[0].raw.len();
    }
    assert!(shared * 1000 > sent * 995, "{wire:?}: {shared} of {sent} bytes");
}

#[tokio::test]
async fn an_image_and_a_text_are_shown_on_every_wire_and_their_bytes_not_to_readers() {
    for wire in Wire::ALL {
        let world = World::new(|_| Reply::text("a small picture")).await;
        let file = |name: &str, mime: &str, data: &str| InputPart::File {
            name: name.to_owned(),
            mime: mime.to_owned(),
            data: data.to_owned(),
        };
        let files = vec![file("shot.png", "image/png", "iVBORw0KGgo="), file("a.txt", "text/plain", "bm90ZXM=")];
        let posted = prompt(&world, wire, "what is this?", files).await;
        world.end(&posted.run).await;
        let received = world.fake.last().unwrap();
        let lines = received.lines();
        let line = lines.iter().find(|line| line.role == "user").unwrap();
        assert_eq!(line.files, 1, "{wire:?}");
        assert!(line.text.contains("what is this?") && line.text.contains("notes"), "{wire:?}: {}", line.text);
        assert!(String::from_utf8_lossy(&received.raw).contains("iVBORw0KGgo="), "{wire:?}");
        let stored = world.store.entries(&posted.session.id, store::Span::After { seq: 0, limit: 10 }).await.unwrap();
        let shown = serde_json::to_string(&proto::message::project(&stored)).unwrap();
        assert!(shown.contains("shot.png") && !shown.contains("iVBORw0KGgo="), "{shown}");
    }
}

#[tokio::test]
async fn an_image_that_is_read_is_looked_at_on_every_wire() {
    for wire in Wire::ALL {
        let world = World::new(|received| match received.last("tool") {
            None => Reply::calls([
                ("read", json!({ "filePath": "shot.png" })),
                ("read", json!({ "filePath": "README.md" })),
            ]),
            Some(_) => Reply::text("a small picture"),
        })
        .await;
        std::fs::write(world.repo.path().join("shot.png"), b"\x89PNG\r\n\x1a\n").unwrap();
        let posted = prompt(&world, wire, "what is this?", Vec::new()).await;
        world.end(&posted.run).await;
        let raw = world.fake.last().unwrap().raw.clone();
        let sent = String::from_utf8_lossy(&raw);
        assert!(sent.contains("iVBORw0KGgo=") && sent.contains("`shot.png`: image/png"), "{wire:?}: {sent}");
        let stored = world.store.entries(&posted.session.id, store::Span::After { seq: 0, limit: 10 }).await.unwrap();
        let shown = serde_json::to_string(&proto::message::project(&stored)).unwrap();
        assert!(shown.contains("shot.png") && !shown.contains("iVBORw0KGgo="), "{shown}");
    }
}

#[tokio::test]
async fn a_session_that_changes_wires_takes_its_history_along_and_leaves_foreign_thoughts_behind() {
    let world = World::new(|received| match received.step() {
        0 => Reply::calls([("read", json!({ "filePath": "README.md" }))]).thinking("private"),
        _ => Reply::text("seen"),
    })
    .await;
    let posted = prompt(&world, Wire::Anthropic, "look", Vec::new()).await;
    world.end(&posted.run).await;
    for wire in [Wire::OpenAiResponses, Wire::OpenAiChat, Wire::Anthropic] {
        let target = Target::Session(posted.session.id.clone());
        let model = Some(format!("{}/m1", wire.as_str()));
        let next = NewPrompt { target, text: "again".into(), agent: None, model, run: None, steer: false };
        let next = world.rt.prompt(next).await.unwrap();
        assert_eq!(world.end(&next.run).await.outcome, Some(Outcome::Ok), "{wire:?}");
        let received = world.fake.last().unwrap();
        assert_eq!(received.wire(), wire);
        let sealed = String::from_utf8_lossy(&received.raw).matches("Seal+/").count();
        let own = [Wire::OpenAiResponses, Wire::OpenAiChat, Wire::Anthropic].iter().position(|w| *w == wire).unwrap();
        // Its own thought of this run, and for the first wire also the one it had in the beginning.
        assert_eq!(sealed, [1, 0, 2][own], "{wire:?}");
    }
}

#[tokio::test]
async fn results_come_right_behind_their_calls_though_something_was_said_in_between() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(move |received| match received.n {
        0 => Reply::calls([("read", json!({ "filePath": "README.md" })), ("list", json!({}))]).gated(held.clone()),
        _ => Reply::text("fine"),
    })
    .await;
    let posted = prompt(&world, Wire::Anthropic, "first", Vec::new()).await;
    world.fake.wait_for(1).await;
    let more = world.send(Target::Session(posted.session.id.clone()), "and second").await;
    gate.open();
    world.end(&more.run).await;
    let roles: Vec<&str> = world.fake.last().unwrap().lines().iter().map(|line| line.role).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "user"]);
}

/// A model that fails twice, in mid-answer and at the door, and then answers.
fn fails_twice(received: &Received) -> Reply {
    match received.n {
        0 => Reply::deltas(["half an ", "answer"]).dies_after(1),
        1 => Reply::raw(429, r#"{"error":{"message":"slow down"}}"#).header("retry-after-ms", "20"),
        _ => Reply::text("whole"),
    }
}

#[tokio::test]
async fn a_server_that_fails_for_the_moment_is_asked_again_and_leaves_no_half_answer() {
    for wire in Wire::ALL {
        let world = World::new(fails_twice).await;
        let events = world.hub.watch(What::Everything);
        let posted = prompt(&world, wire, "one", Vec::new()).await;
        assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Ok), "{wire:?}");
        assert_eq!(world.transcript(&posted.session.id).await, "user    one\nmodel   whole\nrun     ended: ok\n");
        let mut seen = Vec::new();
        while let Ok(Some(event)) = events.take() {
            seen.extend(told(&event));
        }
        assert_eq!(
            seen,
            ["running", "retrying", "retry 1", "running", "retrying", "retry 2", "running", "idle"],
            "{wire:?}"
        );
    }
}

/// Reads on until something is told.
async fn until_told(events: &Watching, words: &str) {
    while told(&events.next().await.expect("a quick reader is never behind")).as_deref() != Some(words) {}
}

/// A status or a retry, in short.
fn told(seen: &Seen) -> Option<String> {
    let event: serde_json::Value = serde_json::from_str(&seen.json).unwrap();
    match event["type"].as_str().unwrap() {
        "status" => event["status"].as_str().map(str::to_owned),
        "retry" => {
            assert!(event["message"].is_string() && event["afterMs"].is_u64(), "{event}");
            Some(format!("retry {}", event["attempt"]))
        }
        _ => None,
    }
}

#[tokio::test]
async fn a_server_that_stays_busy_is_given_up_after_five_further_tries() {
    let world = World::new(|_| Reply::raw(503, r#"{"error":{"message":"busy"}}"#).header("retry-after-ms", "1")).await;
    let posted = prompt(&world, Wire::Anthropic, "one", Vec::new()).await;
    let run = world.end(&posted.run).await;
    assert_eq!((run.outcome, run.code, world.fake.count()), (Some(Outcome::Error), Some(proto::Code::Provider), 6));
    let row = world.store.session(&posted.session.id).await.unwrap().unwrap();
    assert!(!row.status.is_busy(), "{:?}", row.status);
}

/// One slot for all: whoever waits for a server that asks for patience does not hold it, and can be stopped.
#[tokio::test]
async fn a_session_that_waits_to_try_again_holds_no_slot_and_obeys() {
    let limits = config::Limits { gateway: 1, running: 1, ..config::Limits::default() };
    let world =
        World::with(limits, std::collections::BTreeMap::new(), |received| match received.last("user").as_deref() {
            Some("patient") => Reply::raw(429, "{}").header("retry-after", "3000"),
            _ => Reply::text("served"),
        })
        .await;
    let events = world.hub.watch(What::Everything);
    let patient = prompt(&world, Wire::Anthropic, "patient", Vec::new()).await;
    until_told(&events, "retry 1").await;
    let row = world.store.session(&patient.session.id).await.unwrap().unwrap();
    assert_eq!(row.status, Status::Retrying, "also for those who look at its row");
    let other = prompt(&world, Wire::OpenAiChat, "other", Vec::new()).await;
    assert_eq!(world.end(&other.run).await.outcome, Some(Outcome::Ok));
    world.rt.abort(&patient.session.id, None).await.unwrap();
    assert_eq!(world.end(&patient.run).await.outcome, Some(Outcome::Cancelled));
}

/// Two gateways in a row: what the first waited for, the second does at once.
#[tokio::test]
async fn a_restart_in_the_wait_asks_at_once() {
    let mut world = World::new(|received| match received.n {
        0 => Reply::raw(429, "{}").header("retry-after", "3000"),
        _ => Reply::text("whole"),
    })
    .await;
    let events = world.hub.watch(What::Everything);
    let posted = prompt(&world, Wire::OpenAiResponses, "one", Vec::new()).await;
    until_told(&events, "retry 1").await;
    world.restart().await;
    assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Ok));
}

/// Two slots, and a server that takes one request at a time: who waits for it leaves the other slot to others.
#[tokio::test]
async fn a_crowd_before_one_server_does_not_sit_on_the_slots_of_others() {
    let gate = Gate::new();
    let held = gate.clone();
    let limits = config::Limits { gateway: 2, ..config::Limits::default() };
    let world = World::with(limits, std::collections::BTreeMap::new(), move |received| {
        let reply = Reply::text("served");
        if received.last("user").as_deref() == Some("crowd") { reply.gated(held.clone()) } else { reply }
    })
    .await;
    let mut crowd = vec![prompt_on(&world, "narrow", "crowd", Vec::new()).await];
    world.fake.wait_for(1).await;
    for _ in 0..3 {
        crowd.push(prompt_on(&world, "narrow", "crowd", Vec::new()).await);
    }
    let other = prompt_on(&world, "fake", "other", Vec::new()).await;
    assert_eq!(world.end(&other.run).await.outcome, Some(Outcome::Ok));
    assert_eq!(world.fake.count(), 2, "the crowd is served one by one");
    gate.open();
    for posted in crowd {
        assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Ok));
    }
}

#[tokio::test]
async fn how_hard_a_session_thinks_is_changed_kept_over_a_restart_and_taken_back() {
    let mut world = World::new(|_| Reply::text("ok")).await;
    let posted = prompt_on(&world, "thinker", "one", Vec::new()).await;
    world.end(&posted.run).await;
    let session = posted.session.id.clone();
    let effort = |world: &World| world.fake.last().unwrap().body()["reasoning_effort"].clone();
    assert_eq!(effort(&world), json!(null));
    let patch = |choice: &str| Switch { model: Some(choice.to_owned()), ..Switch::default() };
    world.rt.patch(&session, patch("thinker/m1"), None).await.unwrap();
    for (choice, expected) in [("#high", json!("high")), ("#low", json!("low")), ("#", json!(null))] {
        world.rt.patch(&session, patch(choice), None).await.unwrap();
        world.restart().await;
        let next = world.send(Target::Session(session.clone()), "go on").await;
        assert_eq!(world.end(&next.run).await.outcome, Some(Outcome::Ok), "{choice}");
        assert_eq!(effort(&world), expected, "{choice}");
    }
    let refused = world.rt.patch(&session, patch("#huge"), None).await.unwrap_err();
    assert!(refused.message.contains("has no variant `huge`"), "{refused}");
}

#[tokio::test]
async fn a_child_thinks_as_hard_as_its_parent_says() {
    let world = World::new(|received| match (received.last("user").as_deref(), received.step()) {
        (Some("one"), 0) => Reply::calls([
            ("sessions_spawn", json!({ "task": "two", "thinking": "high", "background": false })),
            ("sessions_spawn", json!({ "task": "three", "thinking": "huge", "background": false })),
        ]),
        _ => Reply::text("ok"),
    })
    .await;
    let posted = prompt_on(&world, "thinker", "one", Vec::new()).await;
    assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Ok));
    let asked = world.fake.requests();
    let efforts: Vec<serde_json::Value> = asked.iter().map(|asked| asked.body()["reasoning_effort"].clone()).collect();
    assert_eq!(efforts, [json!(null), json!("high"), json!(null)]);
    let told = asked.last().unwrap().lines();
    assert!(told.iter().any(|line| line.role == "tool" && line.text.contains("has no variant `huge`")), "{told:?}");
}

#[tokio::test]
async fn a_provider_is_asked_no_more_often_than_is_set_and_who_waits_is_queued_and_obeys() {
    let limits = config::Limits { gateway: 1, running: 1, ..config::Limits::default() };
    let world = World::with(limits, std::collections::BTreeMap::new(), |_| Reply::text("served")).await;
    let events = world.hub.watch(What::Everything);
    for _ in 0..2 {
        let posted = prompt_on(&world, "slow", "one", Vec::new()).await;
        assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Ok));
    }
    let third = prompt_on(&world, "slow", "three", Vec::new()).await;
    until_told(&events, "queued").await;
    let row = world.store.session(&third.session.id).await.unwrap().unwrap();
    assert_eq!(row.status, Status::Queued);
    // It sits on no slot, though there is but one.
    let other = prompt_on(&world, "fake", "other", Vec::new()).await;
    assert_eq!(world.end(&other.run).await.outcome, Some(Outcome::Ok));
    assert_eq!(world.fake.count(), 3);
    world.rt.abort(&third.session.id, None).await.unwrap();
    assert_eq!(world.end(&third.run).await.outcome, Some(Outcome::Cancelled));
}

/// One is told to wait: the others do not find that out for themselves.
#[tokio::test]
async fn a_server_that_asks_one_session_for_patience_is_left_alone_by_all() {
    for wire in Wire::ALL {
        let world = World::new(|received| match received.n {
            0 => Reply::raw(429, r#"{"error":{"message":"slow down"}}"#).header("retry-after-ms", "400"),
            _ => Reply::text("served"),
        })
        .await;
        let events = world.hub.watch(What::Everything);
        let first = prompt(&world, wire, "first", Vec::new()).await;
        until_told(&events, "retrying").await;
        let mut crowd = Vec::new();
        for _ in 0..5 {
            crowd.push(prompt(&world, wire, "crowd", Vec::new()).await);
        }
        for posted in crowd.iter().chain([&first]) {
            assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Ok), "{wire:?}");
        }
        // Everybody was served, and nobody but the first was ever refused.
        let asked: Vec<testkit::Timing> = world.fake.timings();
        assert_eq!(asked.len(), 7, "{wire:?}");
        let waited = asked[1].at - asked[0].replied.unwrap();
        assert!(waited >= std::time::Duration::from_millis(399), "{wire:?}: asked again after {waited:?}");
    }
}

#[tokio::test]
async fn a_forks_first_request_begins_with_its_parents_bytes_on_every_wire() {
    for wire in Wire::ALL {
        let world = World::new(|received| {
            let forked = received.last("user").unwrap_or_default().contains("You are a fork");
            match (forked, received.step()) {
                (false, 0) => Reply::calls([(
                    "agent",
                    json!({"description": "aside", "prompt": "look", "run_in_background": false}),
                )]),
                _ => Reply::text("done"),
            }
        })
        .await;
        let posted = prompt(&world, wire, "the word is teapot, and it is a long story", Vec::new()).await;
        world.end(&posted.run).await;
        let requests = world.fake.requests();
        let forked = |received: &&Arc<Received>| received.last("user").unwrap_or_default().contains("You are a fork");
        let fork = requests.iter().find(forked).unwrap().raw.to_vec();
        let parent = requests[0].raw.to_vec();
        let same = parent.iter().zip(&fork).take_while(|(a, b)| a == b).count();
        // Up to the prompt that the fork shares: what follows it is the mark for the cache, or the end of the list.
        let prompt = b"it is a long story";
        let shared = parent.windows(prompt.len()).position(|bytes| bytes == prompt).unwrap() + prompt.len();
        assert!(
            same >= shared,
            "{wire:?}: {same} of {shared} bytes: {}",
            String::from_utf8_lossy(&fork[..same.min(fork.len())])
        );
    }
}

#[tokio::test]
async fn options_of_an_agent_are_fields_of_its_requests_on_every_wire() {
    for wire in Wire::ALL {
        let options = json!({ "seed": 7, "metadata": { "team": "blue" }, "model": "other", "stream": false });
        let options = options.as_object().unwrap().clone();
        let agent = config::Agent { options, ..config::Agent::default() };
        let agents = std::collections::BTreeMap::from([("build".to_owned(), agent)]);
        let world = World::with(config::Limits::default(), agents, |_| Reply::text("done")).await;
        let posted = prompt(&world, wire, "hi", Vec::new()).await;
        assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Ok), "{wire:?}");
        let body = world.fake.requests()[0].body();
        assert_eq!((&body["seed"], &body["metadata"]["team"]), (&json!(7), &json!("blue")), "{wire:?}: {body}");
        assert_eq!((&body["model"], &body["stream"]), (&json!("m1"), &json!(true)), "{wire:?}: {body}");
    }
}
