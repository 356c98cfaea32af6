//! Sessions of the real binary that write to each other, and what a kill in the middle costs them: nothing.

use crate::World;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use testkit::{FakeModel, Gate, Reply, RepoDir, TempHome};

/// Whoever plays a part in one of these tests; the prompt chooses the section.
const SCRIPT: &str = r#"
say: hello

when: start talking
call sessions_send {"label": "peer", "message": "shall we?", "timeoutSeconds": 0, "delivery": "announce"}
---
say: sent

when: is over
say: we talked

when: answered you
wait: 300ms
say: tick

when: shall we?
say: word

when: begin the circle
call sessions_send {"label": "b", "message": "now b"}
---
say: {{last.reply}}

when: now b
call sessions_send {"label": "c", "message": "now c"}
---
say: {{last.reply}}

when: now c
call sessions_send {"label": "a", "message": "now a"}
---
say: {{last.status}} {{last.code}}

when: ask the slow one
call sessions_send {"label": "slow", "message": "think hard", "timeoutSeconds": 1}
---
say: it is a {{last.status}}

when: think hard
wait: 2s
say: done thinking

when: done thinking
say: late news
"#;

/// A home where sessions of one agent see each other, and everybody plays the script.
fn world() -> World {
    let model = FakeModel::start();
    let home = TempHome::bare().config_json(json!({
        "model": "offline/play",
        "tools": { "sessions": { "visibility": "agent" } },
    }));
    home.script("play.script", SCRIPT);
    World { model, home, repo: RepoDir::new() }
}

fn labelled(world: &World, label: &str) {
    world.convoke(["run", "--label", label, "hi"]).code(0);
}

/// What a session has said, oldest first.
fn words(world: &World, session: &str) -> Vec<String> {
    let page = world.convoke(["history", session, "--json"]).code(0).json();
    let said =
        |message: &Value| (message["role"] == "assistant").then(|| message["content"].as_str().map(str::to_owned));
    page["messages"].as_array().unwrap().iter().filter_map(said).flatten().collect()
}

/// Waits until a session has said something, the count-th time.
#[track_caller]
fn until(world: &World, session: &str, word: &str, count: usize) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let said = words(world, session);
        if said.iter().filter(|said| said.as_str() == word).count() >= count {
            return;
        }
        assert!(Instant::now() < end, "`{word}` was not said {count} times: {said:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn five_turns_and_an_announcement_survive_a_kill_in_the_middle() {
    let world = world();
    labelled(&world, "peer");
    world.convoke(["run", "--label", "asker", "start talking"]).code(0);
    until(&world, "asker", "tick", 1);
    kill_process(world.gateway_pid(), Signal::KILL).unwrap();
    // Whoever comes next starts the next gateway, which goes on with what was under way.
    world.convoke(["run", "hi"]).code(0);
    until(&world, "peer", "we talked", 1);
    assert_eq!(words(&world, "peer"), ["hello", "word", "tick", "tick", "we talked"]);
    assert_eq!(words(&world, "asker"), ["sent", "tick", "tick", "tick"]);
    world.convoke(["stop"]).code(0);
    assert_eq!(world.convoke(["db", "check", "--json"]).code(0).json()["ok"], true);
}

#[test]
fn a_circle_of_three_is_refused_at_once() {
    let world = world();
    for label in ["a", "b", "c"] {
        labelled(&world, label);
    }
    let answer = world.convoke(["send", "a", "begin the circle", "--wait", "25", "--json"]).code(0).json();
    // Within the wait of the first: nobody sat out a timeout.
    assert_eq!((&answer["status"], &answer["reply"]), (&json!("ok"), &json!("error cycle")), "{answer}");
}

#[test]
fn a_late_reply_reaches_the_sender_across_a_kill() {
    let world = world();
    labelled(&world, "slow");
    let done = world.convoke(["run", "--label", "asker", "ask the slow one"]).code(0);
    assert!(done.stdout.contains("it is a timeout"), "{done:#?}");
    kill_process(world.gateway_pid(), Signal::KILL).unwrap();
    world.convoke(["run", "hi"]).code(0);
    until(&world, "asker", "late news", 1);
    assert_eq!(words(&world, "slow"), ["hello", "done thinking"]);
}

/// Any command that needs a gateway starts one.
fn start_next(world: &World) {
    world.convoke(["kill", "nobody-is-called-so"]);
}

#[test]
fn a_prompt_that_waits_for_a_slot_survives_any_number_of_kills() {
    let gate = Gate::new();
    let held = gate.clone();
    let model = FakeModel::scripted(move |_| Reply::text("fine").gated(held.clone()));
    let home = TempHome::new(&model).config_json(json!({ "limits": { "gateway": 1 } }));
    let world = World { model, home, repo: RepoDir::new() };
    let runs: Vec<String> = (0..7)
        .map(|n| {
            let spawned = world.convoke(["spawn", "--json", &format!("prompt-{n}.")]).code(0).json();
            spawned["runId"].as_str().unwrap().to_owned()
        })
        .collect();
    for n in 1..=6 {
        world.model.wait_for_blocking(n);
        kill_process(world.gateway_pid(), Signal::KILL).unwrap();
        start_next(&world);
    }
    world.model.wait_for_blocking(7);
    gate.open();
    let mut given_up = 0;
    for (n, run) in runs.iter().enumerate() {
        let waited = world.convoke(["wait", run, "--json"]).json();
        let said = format!("prompt-{n}.");
        let asked = world.model.requests().iter().filter(|request| request.body().to_string().contains(&said)).count();
        match waited["status"].as_str() {
            Some("ok") => assert_eq!(waited["text"], "fine", "{waited}"),
            _ => {
                assert!(asked >= 3, "given up after {asked} requests: {waited}");
                given_up += 1;
            }
        }
    }
    assert!(given_up <= 2, "six kills are two times three attempts: {given_up}");
}

#[test]
fn what_runs_beside_a_step_that_kills_the_gateway_is_not_given_up_with_it() {
    let gate = Gate::new();
    let held = gate.clone();
    let model = FakeModel::scripted(move |_| Reply::text("fine").gated(held.clone()));
    let world = World { home: TempHome::new(&model), model, repo: RepoDir::new() };
    let spawn = |n| world.convoke(["spawn", "--json", &format!("prompt-{n}.")]).code(0).json()["runId"].clone();
    let runs: Vec<_> = (0..3).map(spawn).collect();
    world.model.wait_for_blocking(3);
    // All of them run whenever the gateway dies, until each has one attempt left. From then on one runs at a time.
    for requests in [6, 9, 10, 11] {
        kill_process(world.gateway_pid(), Signal::KILL).unwrap();
        start_next(&world);
        world.model.wait_for_blocking(requests);
    }
    gate.open();
    let ended = |run: &Value| world.convoke(["wait", run.as_str().unwrap(), "--json"]).json();
    let ends: Vec<_> = runs.iter().map(ended).collect();
    let fine = ends.iter().filter(|end| end["status"] == "ok" && end["text"] == "fine").count();
    assert_eq!(fine, 2, "only the one that ran when the gateway died for the fourth time: {ends:#?}");
    assert_eq!(world.model.count(), 12);
}

#[test]
fn a_budget_is_not_filled_up_by_a_kill() {
    let model = FakeModel::start();
    let home = TempHome::new(&model).config_json(json!({ "limits": { "costUsd": 1 } }));
    let world = World { model, home, repo: RepoDir::new() };
    let list = |path: &str| Reply::calls([("list", json!({ "path": path }))]).cost(0.4);
    world.model.push(list("."));
    world.model.push(list("src"));
    world.model.push(list("docs").gated(Gate::new()));
    world.model.push(list("tests"));
    world.model.push(Reply::text("must not be asked"));
    let child = world.start(["run", "--json", "--label", "spender", "spend"]);
    world.model.wait_for_blocking(3);
    kill_process(world.gateway_pid(), Signal::KILL).unwrap();
    let done = crate::Done::of(child.wait_with_output().unwrap()).code(1);
    let lines = done.lines();
    let last = lines.last().unwrap();
    assert_eq!((&last["status"], &last["error"]["code"]), (&json!("error"), &json!("limit_budget")), "{done:#?}");
    assert!(done.stdout.contains("$1.20 of $1.00 (`limits.costUsd`)"), "{done:#?}");
    let ps = world.convoke(["ps", "--json"]).json();
    assert!((ps["sessions"][0]["estimatedCostUsd"].as_f64().unwrap() - 1.2).abs() < 1e-9, "{ps}");
    world.convoke(["send", "spender", "and now?", "--wait", "20"]).code(0);
}
