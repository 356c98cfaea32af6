//! Saying something to a session, waiting for it, stopping it and watching it: one command each.

use crate::World;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use testkit::{FakeModel, Gate, Reply};

/// A world with one idle session that is called `desk`.
fn with_desk() -> World {
    let world = World::with(FakeModel::start());
    world.model.push(Reply::text("Hello."));
    world.convoke(["run", "--label", "desk", "hi"]).code(0);
    world
}

#[test]
fn a_message_is_sent_waited_for_and_read() {
    let world = with_desk();
    world.model.push(Reply::text("All is well."));
    let sent = world.convoke(["send", "desk", "how", "are things?", "--json"]).code(0).json();
    assert_eq!(sent["status"], "sent");
    let run = sent["runId"].as_str().unwrap();
    let waited = world.convoke(["wait", run, "--json"]).code(0).json();
    assert_eq!(
        (&waited["status"], &waited["text"], &waited["runId"]),
        (&json!("ok"), &json!("All is well."), &json!(run))
    );
    assert_eq!(world.convoke(["wait", run]).code(0).stdout, "All is well.\n");
    // One that has ended is told without a gateway, and none is started for it.
    world.convoke(["stop"]).code(0);
    assert_eq!(world.convoke(["wait", run, "--timeout", "5"]).code(0).stdout, "All is well.\n");
    assert_eq!(world.convoke(["stop", "--json"]).code(0).json(), json!({ "stopped": false }));

    world.model.push(Reply::text("Still well."));
    let answer = world.convoke(["send", "desk", "and now?", "--wait", "20", "--json"]).code(0).json();
    assert_eq!((&answer["status"], &answer["reply"]), (&json!("ok"), &json!("Still well.")));
    assert!(answer["sessionKey"].is_string());
}

#[test]
fn a_wait_ends_in_time_and_a_kill_ends_the_run() {
    let world = with_desk();
    world.model.push(Reply::text("too late").gated(Gate::new()));
    let late = world.convoke(["send", "desk", "take your time", "--wait", "0.2", "--json"]).code(1).json();
    assert_eq!(late["status"], "timeout");
    let run = late["runId"].as_str().unwrap();
    world.convoke(["wait", run, "--timeout", "0.1"]).code(1).says("is not over yet");
    let killed = world.convoke(["kill", run, "--json"]).code(0).json();
    assert_eq!((&killed["aborted"], &killed["runId"]), (&json!(true), &json!(run)));
    assert_eq!(world.convoke(["wait", run, "--json"]).code(1).json()["status"], "cancelled");
    let idle = world.convoke(["kill", "desk", "--json"]).code(0).json();
    assert_eq!(idle["aborted"], false);
    world.convoke(["kill", "desk"]).code(0).says("descendants are idle");
}

#[test]
fn a_session_is_killed_by_its_label() {
    let world = with_desk();
    world.model.push(Reply::text("too late").gated(Gate::new()));
    let sent = world.convoke(["send", "desk", "work"]).code(0).says("`convoke wait`");
    world.model.wait_for_blocking(2);
    world.convoke(["kill", "desk"]).code(0);
    let waited = world.convoke(["wait", sent.stdout.trim(), "--json"]).code(1).json();
    assert_eq!(waited["status"], "cancelled");
}

#[test]
fn what_does_not_exist_is_said_so() {
    let world = World::new();
    world.convoke(["wait", "run_none"]).code(2).says("there is no run `run_none`");
    world.convoke(["wait", "a b"]).code(2).says("that is no run");
    world.convoke(["kill", "nobody"]).code(2).says("there is no session `nobody`");
    world.convoke(["kill", "run_none"]).code(2).says("there is no run `run_none`");
    world.convoke(["send", "nobody", "x"]).code(2).says("there is no session `nobody`");
    world.convoke(["send", "nobody", " "]).code(2).says("the message is empty");
    world.convoke(["attach", "nobody"]).code(2).says("there is no session `nobody`");
    world.convoke(["wait", "x", "--timeout", "-1"]).code(2);
}

#[test]
fn attaching_shows_what_was_said_and_what_happens() {
    let world = with_desk();
    world.model.push(Reply::text("Live words."));
    let mut child = world.start(["attach", "desk", "--json"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(next()["type"], "session");
    let said: Vec<Value> = [next(), next()].iter().map(|line| line["message"]["content"].clone()).collect();
    assert!(said[1].to_string().contains("Hello."), "{said:?}");
    world.convoke(["send", "desk", "go on"]).code(0);
    let mut entries = Vec::new();
    loop {
        let line = next();
        if line["type"] == "entry" {
            let entry = line["entry"].clone();
            entries.push(line["seq"].as_u64().unwrap());
            if entry["type"] == "ended" {
                break;
            }
        }
    }
    assert!(entries.windows(2).all(|two| two[0] + 1 == two[1]), "{entries:?}");
    // Leaving is no failure, and the session is not touched.
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let ps = world.convoke(["ps", "--json"]).json();
    assert_eq!(ps["sessions"][0]["status"], "idle", "{ps}");

    let mut child = world.start(["attach", "desk", "--tail", "2"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut until = |words: &str| while lines.next().expect("it goes on").unwrap() != words {};
    until("Live words.");
    world.model.push(Reply::text("More."));
    world.convoke(["send", "desk", "more?", "--wait", "20"]).code(0);
    for words in ["you", "more?", "build", "More."] {
        until(words);
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_message_to_a_busy_session_steers_it_unless_it_is_to_wait() {
    let world = with_desk();
    let (gate, before) = (Gate::new(), world.model.count());
    world.model.push(Reply::calls([("list", json!({ "path": "." }))]).gated(gate.clone()));
    for answer in ["With tabs.", "Then nothing."] {
        world.model.push(Reply::text(answer));
    }
    let send = |args: &[&str]| {
        let sent = world.convoke([&["send", "desk", "--json"], args].concat()).code(0).json();
        sent["runId"].as_str().expect("a run").to_owned()
    };
    let first = send(&["indent it"]);
    world.model.wait_for_blocking(before + 1);
    let steered = send(&["use tabs"]);
    let followed = send(&["--queue", "followup", "and then?"]);
    gate.open();
    let answer = |run: &str| world.convoke(["wait", run]).code(0).stdout;
    assert_eq!((answer(&first), answer(&steered)), ("With tabs.\n".into(), "With tabs.\n".into()));
    assert_eq!(answer(&followed), "Then nothing.\n");
    let second = world.model.requests()[before + 1].body().to_string();
    assert!(second.contains("use tabs") && !second.contains("and then?"), "{second}");

    let held = Gate::new();
    world.model.push(Reply::text("never").gated(held));
    let stopped = send(&["take your time"]);
    world.model.wait_for_blocking(before + 4);
    world.model.push(Reply::text("At once."));
    assert_eq!(answer(&send(&["--queue", "interrupt", "stop, do this"])), "At once.\n");
    assert_eq!(world.convoke(["wait", &stopped, "--json"]).code(1).json()["status"], "cancelled");
    world.convoke(["send", "desk", "--queue", "later", "x"]).code(2);
}

#[test]
fn a_summary_goes_to_stdout() {
    let world = with_desk();
    world.model.push(Reply::text("It was greeted, and answered."));
    let done = world.convoke(["summary", "desk"]).code(0);
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("It was greeted, and answered.\n", ""));
}
