//! Sessions that outgrow their model's context, as a user has them.

use crate::{Done, World};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::{FakeModel, Gate, Received, Reply, RepoDir, TempHome};

/// A model that holds little.
fn small(model: FakeModel) -> World {
    let home = TempHome::new(&model).config_json(json!({
        "provider": { "fake": { "models": { "test": { "context": 30_000, "output": 2_000 } } } },
    }));
    World { model, home, repo: RepoDir::new() }
}

fn is_summary(received: &Received) -> bool {
    String::from_utf8_lossy(&received.raw).contains("You sum up a conversation")
}

fn long(what: &str) -> String {
    format!("{what} {}", "word ".repeat(3_200))
}

fn entries(done: &Done, kind: &str) -> Vec<Value> {
    let lines = done.lines().into_iter().filter(|line| line["type"] == "entry" && line["entry"]["type"] == kind);
    lines.map(|line| line["entry"].clone()).collect()
}

#[test]
fn a_session_goes_on_past_its_window_even_when_the_gateway_is_killed_while_it_is_summed_up() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = small(FakeModel::scripted(move |received| {
        let tokens = received.raw.len() as u64 / 4;
        match is_summary(received) {
            true => Reply::text("## Goal\nto go on").usage(tokens, 5).gated(held.clone()),
            false => Reply::text("noted").usage(tokens, 5),
        }
    }));
    world.convoke(["run", "--label", "long", "begin"]).code(0);
    let child = loop {
        let before = world.model.count();
        let mut child = world.start(["run", "-s", "long", "--json", &long("more")]);
        world.model.wait_for_blocking(before + 1);
        if world.model.last().is_some_and(|received| is_summary(&received)) {
            break child;
        }
        assert!(child.wait().unwrap().success());
    };
    let asked = world.model.count();
    kill_process(world.gateway_pid(), Signal::KILL).unwrap();
    world.model.wait_for_blocking(asked + 1);
    assert!(is_summary(&world.model.last().unwrap()), "it is written again");
    gate.open();
    let done = Done::of(child.wait_with_output().unwrap()).code(0);
    let states: Vec<Value> =
        entries(&done, "compaction").iter().map(|compaction| compaction["state"].clone()).collect();
    assert_eq!(states, [json!("pending"), json!("done")], "{done:#?}");
    assert_eq!(done.lines().last().unwrap()["text"], "noted");
    let last = world.model.last().unwrap().body();
    assert!(last["messages"][1]["content"].as_str().unwrap().contains("to go on"), "{last}");
    let history = world.convoke(["history", "long", "--json", "--limit", "100"]).code(0).json();
    let first = history["messages"][0]["content"].clone();
    assert_eq!(first, "begin", "the history keeps everything");
}

#[test]
fn a_person_sums_a_session_up() {
    let world = World::new();
    world.model.push(Reply::text("noted"));
    world.model.push(Reply::text("## Goal\nthe number is 7"));
    world.convoke(["run", "--label", "numbers", "the number is 7"]).code(0);
    let done = world.convoke(["compact", "numbers", "--json", "keep", "the", "number"]).code(0).json();
    assert_eq!(done["status"], "ok", "{done}");
    assert!(done["contextTokens"].as_u64().unwrap() > 0, "{done}");
    assert!(String::from_utf8_lossy(&world.model.last().unwrap().raw).contains("keep the number"));
    world.convoke(["compact", "nobody"]).code(2).says("there is no session `nobody`");
}

#[test]
fn the_offline_model_sums_up_and_goes_on_too() {
    let world = World::bare();
    world.convoke(["run", "--label", "off", "read README.md"]).code(0);
    world.convoke(["run", "-s", "off", "/compact"]).code(0);
    let done = world.convoke(["run", "-s", "off", "read Cargo.toml"]).code(0);
    assert!(done.stdout.contains("`Cargo.toml` reads"), "{done:#?}");
    let history = world.convoke(["history", "off"]).code(0);
    assert!(history.stdout.contains("## Goal\nread README.md"), "{history:#?}");
}

#[test]
fn a_session_whose_settings_say_so_is_not_summed_up_by_itself() {
    let model = FakeModel::start();
    let home = TempHome::new(&model).config_json(json!({ "compaction": { "auto": false } }));
    let world = World { model, home, repo: RepoDir::new() };
    world.model.push(Reply::text("hello"));
    world.model.push(Reply::raw(400, r#"{"error":{"message":"too big","code":"context_length_exceeded"}}"#));
    world.convoke(["run", "--label", "full", "begin"]).code(0);
    world.convoke(["run", "-s", "full", "go on"]).code(1).says("make room with `/compact`");
    assert_eq!(world.model.count(), 2);
    world.model.push(Reply::text("## Goal\nshort"));
    world.convoke(["run", "-s", "full", "/compact"]).code(0);
    world.model.push(Reply::text("it fits now"));
    let done = world.convoke(["run", "-s", "full", "and now?"]).code(0);
    assert_eq!(done.stdout, "it fits now\n", "{done:#?}");
}

#[test]
fn a_busy_session_is_summed_up_at_its_next_step_and_goes_on() {
    let gate = Gate::new();
    let (held, summed) = (gate.clone(), AtomicBool::new(false));
    let world = World::with(FakeModel::scripted(move |received| {
        if is_summary(received) {
            summed.store(true, Ordering::SeqCst);
            return Reply::text("## Goal\nread on");
        }
        match summed.load(Ordering::SeqCst) {
            // It reads and reads until somebody asks for room.
            false => Reply::calls([("read", json!({ "filePath": "README.md", "limit": 10 + received.n }))]),
            true => Reply::text("enough").gated(held.clone()),
        }
    }));
    let mut run = world.start(["run", "--label", "reader", "read on"]);
    world.model.wait_for_blocking(1);
    let done = world.convoke(["compact", "reader", "--json"]).code(0).json();
    assert_eq!((&done["status"], &done["error"]), (&json!("ok"), &json!(null)), "{done}");
    assert!(run.try_wait().unwrap().is_none(), "the run goes on");
    gate.open();
    assert_eq!(Done::of(run.wait_with_output().unwrap()).code(0).stdout, "enough\n");
}
