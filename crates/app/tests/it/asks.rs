//! A child's question: it reaches whoever watches its root, however that is answered.

use crate::rules::{at_a_terminal, permit};
use crate::{Done, World};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use testkit::{FakeModel, Received, Reply};

/// A parent that gives its work to a child, which runs a command that has to be asked about.
fn company() -> World {
    let script = |received: &Received| {
        let is_child =
            received.lines().iter().any(|line| line.role == "user" && line.text.contains("the child's part"));
        match (is_child, received.step()) {
            (false, 0) => {
                let task =
                    json!({ "description": "its part", "prompt": "the child's part", "subagent_type": "general" });
                Reply::calls([("task", task)])
            }
            (true, 0) => Reply::calls([("bash", json!({ "command": "echo made > made.txt" }))]),
            _ => Reply::text(received.last("tool").unwrap_or_default()),
        }
    };
    let world = World::with(FakeModel::scripted(script));
    permit(&world, json!({ "bash": "ask" }));
    world
}

fn made(world: &World) -> bool {
    world.repo.path().join("made.txt").exists()
}

/// Starts a run that nobody sits in front of and waits until its child asks. Returns the run and the question.
fn asking(world: &World) -> (String, Value) {
    let spawned = world.convoke(["spawn", "list them", "--json"]).code(0).json();
    let run = spawned["runId"].as_str().expect("a run").to_owned();
    for _ in 0..500 {
        let asks = world.convoke(["approve", "--json"]).code(0).json();
        if let Some(ask) = asks["asks"].as_array().and_then(|asks| asks.first()) {
            return (run, ask.clone());
        }
    }
    panic!("nothing is asked: {spawned}");
}

fn ends_well(world: &World, run: &str) -> Done {
    world.convoke(["wait", run, "--json"]).code(0)
}

#[test]
fn a_childs_question_is_answered_at_its_parents_terminal() {
    let world = company();
    let shown = at_a_terminal(&world, "y\n");
    assert!(made(&world), "{shown}");
    assert!(shown.contains("general"), "the agent that asks is named: {shown}");
}

#[test]
fn a_childs_question_is_answered_from_another_terminal() {
    let world = company();
    let (run, ask) = asking(&world);
    assert_eq!((&ask["agent"], &ask["permission"]), (&json!("general"), &json!("bash")), "{ask}");
    assert!(!made(&world));
    world.convoke(["approve", ask["askId"].as_str().expect("an id"), "once"]).code(0);
    ends_well(&world, &run);
    assert!(made(&world));
}

#[test]
fn a_childs_question_is_answered_by_the_policy_where_nobody_is() {
    let world = company();
    let done = world.convoke(["run", "list them"]).code(0);
    assert!(!made(&world) && done.stdout.contains("no"), "{done:#?}");
    world.convoke(["run", "--ask", "allow", "list them"]).code(0);
    assert!(made(&world));
}

#[test]
fn a_childs_question_outlives_the_gateway() {
    for stop in ["gently", "killed"] {
        let world = company();
        let (run, ask) = asking(&world);
        if stop == "killed" {
            kill_process(world.gateway_pid(), Signal::KILL).unwrap();
        } else {
            world.convoke(["stop", "--force"]).code(0);
        }
        let after = world.convoke(["approve", "--json"]).code(0).json();
        assert_eq!(after["asks"][0]["askId"], ask["askId"], "{stop}: {after}");
        world.convoke(["approve", "once"]).code(0);
        ends_well(&world, &run);
        assert!(made(&world), "{stop}");
    }
}
