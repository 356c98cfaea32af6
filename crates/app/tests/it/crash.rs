//! Signals and kills in the middle of a run.

use crate::{Done, World};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use testkit::{FakeModel, Gate, Reply};

#[test]
fn a_killed_gateway_costs_a_run_nothing_but_time() {
    let world = World::new();
    let gate = Gate::new();
    world.model.push(Reply::calls([("read", json!({ "filePath": "README.md" }))]));
    world.model.push(Reply::text("never finished").gated(gate.clone()));
    world.model.push(Reply::text("finished by the next one"));
    let child = world.start(["run", "--json", "go on whatever happens"]);
    world.model.wait_for_blocking(2);
    kill_process(world.gateway_pid(), Signal::KILL).unwrap();
    let done = Done::of(child.wait_with_output().unwrap()).code(0).says("going on with the next one");
    let lines = done.lines();
    let last = lines.last().unwrap();
    assert_eq!((&last["status"], &last["text"]), (&json!("ok"), &json!("finished by the next one")), "{done:#?}");
    let seqs: Vec<_> = lines.iter().filter(|line| line["type"] == "entry").map(|line| line["seq"].as_u64()).collect();
    let expected: Vec<_> = (1..=seqs.len() as u64).map(Some).collect();
    assert_eq!(seqs, expected, "nothing missed and nothing twice: {done:#?}");
    assert_eq!(lines.iter().filter(|line| line["type"] == "session").count(), 1);
}

#[test]
fn an_interrupt_stops_the_run_and_is_exit_code_130() {
    let world = World::new();
    world.model.push(Reply::text("too slow").gated(Gate::new()));
    let child = world.start(["run", "--json", "take your time"]);
    world.model.wait_for_blocking(1);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let done = Done::of(child.wait_with_output().unwrap()).code(130);
    let lines = done.lines();
    let last = lines.last().unwrap();
    assert_eq!((&last["type"], &last["status"]), (&json!("run"), &json!("cancelled")), "{done:#?}");
    let ps = world.convoke(["ps", "--json"]).json();
    assert_ne!(ps["sessions"][0]["status"], "running", "{ps}");
}

#[test]
fn a_terminated_gateway_leaves_its_runs_to_the_next_one() {
    let world = World::with(FakeModel::start());
    world.model.push(Reply::text("cut off").gated(Gate::new()));
    world.model.push(Reply::text("done by the next one"));
    let child = world.start(["run", "stay with it"]);
    world.model.wait_for_blocking(1);
    kill_process(world.gateway_pid(), Signal::TERM).unwrap();
    let done = Done::of(child.wait_with_output().unwrap()).code(0);
    assert_eq!(done.stdout, "done by the next one\n", "{done:#?}");
}

#[test]
fn an_idle_gateway_ends_by_itself_and_leaves_no_socket() {
    let world = World::new();
    let done = world.convoke(["serve", "--no-tcp", "--json", "--idle-exit", "100ms"]).code(0);
    let ready = done.json();
    assert_eq!(ready["type"], "ready");
    assert!(!std::path::Path::new(ready["socket"].as_str().unwrap()).exists());
}
