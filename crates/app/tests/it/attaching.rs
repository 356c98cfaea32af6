//! Clients that look on: what waits for an answer reaches all of them, and nothing is missed when the gateway changes.

use crate::World;
use crate::rules::permit;
use crate::screen::Screen;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout};
use testkit::{FakeModel, Gate, Reply};

/// A model that runs a command in every turn, and says what came of it.
fn runs(command: &'static str, gate: &Gate) -> World {
    let gate = gate.clone();
    let world = World::with(FakeModel::scripted(move |received| {
        let asked = received.lines().iter().rposition(|line| line.role == "user");
        let told = received.lines().iter().rposition(|line| line.role == "tool");
        match told < asked {
            true => Reply::calls([("bash", json!({ "command": command }))]).gated(gate.clone()),
            false => Reply::text(received.last("tool").unwrap_or_default()),
        }
    }));
    permit(&world, json!({ "bash": "ask" }));
    world
}

/// A session that does nothing yet: the model holds its reply back.
fn waiting(world: &World) -> String {
    let spawned = world.convoke(["spawn", "make it", "--label", "desk", "--json"]).code(0).json();
    world.model.wait_for_blocking(1);
    spawned["runId"].as_str().unwrap_or_else(|| panic!("a run: {spawned}")).to_owned()
}

/// `attach --json`, line by line.
struct Attached {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Attached {
    fn start(world: &World) -> Self {
        let mut child = world.start(["attach", "desk", "--json"]);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line of this type.
    fn next(&mut self, what: &str) -> Value {
        let read = |line: std::io::Result<String>| serde_json::from_str::<Value>(&line.unwrap()).unwrap();
        let found = self.lines.by_ref().map(read).find(|line| line["type"] == what);
        found.unwrap_or_else(|| panic!("it ends without `{what}`"))
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_request_and_its_answer_reach_everybody_who_is_attached() {
    let gate = Gate::new();
    let world = runs("echo made > made.txt", &gate);
    let run = waiting(&world);
    let mut program = Attached::start(&world);
    program.next("message");
    gate.open();
    let ask = program.next("ask");
    assert_eq!((&ask["tool"], &ask["path"]), (&json!("bash"), &json!("desk")), "{ask}");
    // One that comes later is told what waits, and takes the answer.
    let mut late = Attached::start(&world);
    assert_eq!(late.next("ask")["askId"], ask["askId"]);
    let mut terminal = Screen::start(&world, "attach desk");
    let shown = terminal.shows(1, "allow it?");
    assert!(shown.contains("? desk (build) asks for `bash`") && shown.contains("echo made > made.txt"), "{shown}");
    terminal.types("y\n");
    for attached in [&mut program, &mut late] {
        let settled = attached.next("settled");
        assert_eq!(settled["askId"], ask["askId"], "{settled}");
        assert_eq!((&settled["by"], &settled["reply"]), (&json!("person"), &json!("once")), "{settled}");
    }
    world.convoke(["wait", &run]).code(0);
    assert!(world.repo.path().join("made.txt").exists());
    // The next one is answered elsewhere, and leaves the screen.
    world.convoke(["send", "desk", "once more"]).code(0);
    terminal.shows(2, "allow it?");
    world.convoke(["approve", "reject"]).code(0);
    terminal.shows(1, "answered: rejected");
    terminal.types("\x03");
    terminal.closes();
}

#[test]
fn one_who_looks_on_may_leave_it_to_somebody_else() {
    let gate = Gate::new();
    let world = runs("echo made > made.txt", &gate);
    let run = waiting(&world);
    let mut terminal = Screen::start(&world, "attach desk");
    gate.open();
    terminal.shows(1, "allow it?");
    terminal.types("l\n");
    world.convoke(["approve", "once"]).code(0);
    world.convoke(["wait", &run]).code(0);
    assert!(world.repo.path().join("made.txt").exists());
    terminal.shows(1, "exit code 0");
    terminal.types("\x03");
    terminal.closes();
}

#[test]
fn nothing_is_missed_when_the_gateway_changes_before_the_first_event() {
    let gate = Gate::new();
    let world = World::with(FakeModel::scripted({
        let gate = gate.clone();
        move |_| Reply::text("the answer").gated(gate.clone())
    }));
    let run = waiting(&world);
    let mut attached = Attached::start(&world);
    attached.next("message");
    // It sees nothing until the next gateway has done everything.
    kill_process(attached.pid(), Signal::STOP).unwrap();
    kill_process(world.gateway_pid(), Signal::KILL).unwrap();
    gate.open();
    world.convoke(["wait", &run]).code(0);
    kill_process(attached.pid(), Signal::CONT).unwrap();
    let reply = loop {
        let entry = attached.next("entry")["entry"].clone();
        if entry["type"] == "reply" {
            break entry;
        }
    };
    assert!(reply.to_string().contains("the answer"), "{reply}");
}
