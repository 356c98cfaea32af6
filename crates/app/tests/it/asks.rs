//! A child's question: it reaches whoever watches its root, however that is answered.

use crate::rules::{at_a_terminal, permit};
use crate::screen::Screen;
use crate::{Done, World};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use testkit::{FakeModel, Gate, Received, Reply};

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

/// A model that makes one call and says what came of it.
fn calls(tool: &'static str, input: Value) -> World {
    World::with(FakeModel::scripted(move |received| match received.step() {
        0 => Reply::calls([(tool, input.clone())]),
        _ => Reply::text(received.last("tool").unwrap_or_default()),
    }))
}

fn edits() -> World {
    let input = json!({ "filePath": "src/claims.rs", "oldString": "Who holds what.", "newString": "Who owns what." });
    let world = calls("edit", input);
    permit(&world, json!({ "edit": { "*": "allow", "src/*": "ask" } }));
    world
}

#[test]
fn a_request_carries_its_call_the_rule_behind_it_and_what_it_would_change() {
    let world = edits();
    let (run, ask) = asking(&world);
    let config = std::fs::read_to_string(world.home.config_file()).unwrap();
    let line = config.lines().position(|line| line.contains("src/*")).unwrap() + 1;
    assert!(ask["callId"].as_str().unwrap().starts_with("call_"), "{ask}");
    assert_eq!((&ask["tool"], &ask["input"]["newString"]), (&json!("edit"), &json!("Who owns what.")), "{ask}");
    assert_eq!((&ask["path"], &ask["mayBeDenied"]), (&json!("build"), &json!(false)), "{ask}");
    let history =
        world.convoke(["history", ask["sessionId"].as_str().unwrap(), "--include-tools", "--json"]).code(0).json();
    assert_eq!(ask["seq"], history["messages"][1]["seq"], "the entry that has the call: {ask}");
    let reason = &ask["reason"];
    assert_eq!(reason["rule"], json!({ "permission": "edit", "pattern": "src/*", "action": "ask" }), "{ask}");
    assert_eq!(
        (&reason["file"], &reason["line"]),
        (&json!(world.home.config_file().display().to_string()), &json!(line)),
        "{ask}"
    );
    let diff = ask["diff"].as_str().unwrap();
    assert!(diff.contains("--- a/src/claims.rs\n") && diff.contains("\n+//! Who owns what.\n"), "{diff}");
    assert_eq!(ask["always"], json!(["src/claims.rs", "src/*"]), "{ask}");
    // The same by its id, and in words.
    let id = ask["askId"].as_str().unwrap();
    assert_eq!(world.convoke(["approve", id, "--json"]).code(0).json(), ask);
    let words = world.convoke(["approve"]).code(0).stdout;
    for part in [
        "build (build) asks for `edit`",
        "-//! Who holds what.",
        &format!(":{line})"),
        "--keep 1, in its project: `src/*`",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    // Which of the choices is kept is said by its index.
    world.convoke(["approve", id, "always", "--keep", "2"]).code(2).says("2 choices");
    world.convoke(["approve", id, "once", "--keep", "1"]).code(2).says("`--keep` goes with `always`");
    world.convoke(["approve", id, "always", "--keep", "1"]).code(0);
    ends_well(&world, &run);
    assert!(world.repo.read("src/claims.rs").contains("Who owns what."));
    let saved = world.convoke(["permissions", "list", "--json"]).code(0).json();
    let saved: Vec<&Value> = saved["saved"].as_array().unwrap().iter().map(|one| &one["pattern"]).collect();
    assert_eq!(saved, [&json!("src/*")]);
    assert_eq!(world.convoke(["approve", id, "--json"]).code(0).json()["reply"], "always");
}

#[test]
fn the_whole_of_a_long_call_can_be_fetched() {
    let command = format!("echo {} > made.txt", "x".repeat(60_000));
    let world = calls("bash", json!({ "command": command }));
    permit(&world, json!({ "bash": "ask" }));
    let (_, ask) = asking(&world);
    assert_eq!(ask["inputCut"], true);
    assert!(ask.to_string().len() < 100_000 + 3 * command.len(), "it is bounded");
    assert!(ask["input"]["command"].as_str().unwrap().len() < 20_000);
    let whole = world.convoke(["approve", ask["askId"].as_str().unwrap(), "--json"]).code(0).json();
    assert_eq!((&whole["input"]["command"], &whole["inputCut"]), (&json!(command), &json!(false)));
    assert!(world.convoke(["approve"]).code(0).stdout.contains("NOT ALL IS SHOWN"));
}

#[test]
fn a_request_for_a_directory_outside_shows_the_command() {
    let world = calls("bash", json!({ "command": "cat /etc/hostname | wc -c" }));
    permit(&world, json!({ "*": "allow", "external_directory": "ask" }));
    let mut terminal = Screen::start(&world, "run 'list them'");
    let shown = terminal.shows(1, "allow it?");
    assert!(
        shown.contains("cat /etc/hostname | wc -c") && shown.contains("`external_directory` of `/etc/*`"),
        "{shown}"
    );
    terminal.types("n\n");
    terminal.ends();
}

#[test]
fn a_change_is_shown_as_a_coloured_diff_and_all_of_it_in_the_pager() {
    let world = edits();
    let mut terminal = Screen::with(&world, "run 'change it'", &[("PAGER", "cat"), ("TERM", "xterm")]);
    let shown = terminal.shows(1, "allow it?");
    assert!(shown.contains("\x1b[32m    +//! Who owns what.\x1b[0m"), "{shown}");
    assert!(shown.contains("\x1b[31m    -//! Who holds what.\x1b[0m"), "{shown}");
    assert!(shown.contains("a  always, in this project: `src/claims.rs`"), "{shown}");
    terminal.types("v\n");
    let shown = terminal.shows(2, "allow it?");
    assert!(shown.contains("newString: Who owns what."), "{shown}");
    terminal.types("a2\n");
    terminal.ends();
    let saved = world.convoke(["permissions", "list", "--json"]).code(0).json();
    assert_eq!(saved["saved"][0]["pattern"], "src/*", "{saved}");
}

/// A parent that gives work to two agents, each with a command that has to be asked about. The second one waits until the
/// gate is open, and then also does something that nobody has to be asked about.
fn pair(gate: &Gate) -> World {
    let gate = gate.clone();
    let script = move |received: &Received| {
        let mine = |part: &str| received.lines().iter().any(|line| line.role == "user" && line.text.contains(part));
        let agent = |name: &str| {
            let prompt = format!("do {name}");
            ("agent", json!({ "description": name, "prompt": prompt, "name": name, "subagent_type": "general" }))
        };
        let bash = |name: &str| ("bash", json!({ "command": format!("echo {name} > {name}.txt") }));
        match ["one", "two"].into_iter().find(|name| mine(&format!("do {name}"))) {
            // What they report back starts no others.
            None if received.last("tool").is_none() => Reply::calls([agent("one"), agent("two")]),
            Some("one") if received.step() == 0 => Reply::calls([bash("one")]),
            Some("two") if received.step() == 0 => {
                Reply::calls([("read", json!({ "filePath": "README.md" })), bash("two")]).gated(gate.clone())
            }
            _ => Reply::text("done"),
        }
    };
    let world = World::with(FakeModel::scripted(script));
    permit(&world, json!({ "bash": "ask" }));
    world
}

/// Waits until so many requests are open.
fn open_asks(world: &World, count: usize) -> Vec<Value> {
    for _ in 0..500 {
        let asks = world.convoke(["approve", "--json"]).code(0).json()["asks"].as_array().unwrap().clone();
        if asks.len() == count {
            return asks;
        }
    }
    panic!("there are not {count} requests");
}

#[test]
fn two_requests_at_once_are_shown_and_answered_one_after_the_other() {
    let gate = Gate::new();
    let world = pair(&gate);
    let mut terminal = Screen::start(&world, "run 'share it'");
    let shown = terminal.shows(1, "allow it?");
    assert!(shown.contains("? build/one (general) asks for `bash`") && shown.contains("echo one > one.txt"), "{shown}");
    gate.open();
    open_asks(&world, 2);
    terminal.types("y\n");
    let shown = terminal.shows(2, "allow it?");
    terminal.types("n\n");
    let screen: Vec<&str> = shown.split("allow it? ").collect();
    assert!(
        screen[1].trim_start_matches("\x1b[0m").starts_with("y\r\n"),
        "nothing was written behind the first one: {shown}"
    );
    assert!(screen[1].contains("read") && screen[1].contains("? build/two (general) asks for `bash`"), "{shown}");
    assert!(!screen[0].contains("two.txt") && screen[1].contains("echo two > two.txt"), "{shown}");
    terminal.ends();
    let made = |name: &str| world.repo.path().join(name).exists();
    assert!(made("one.txt") && !made("two.txt"));
}

#[test]
fn what_was_typed_before_a_request_appeared_is_no_answer_to_it() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::with(FakeModel::scripted(move |received| match received.step() {
        0 => Reply::calls([("bash", json!({ "command": "echo made > made.txt" }))]).gated(held.clone()),
        _ => Reply::text("done"),
    }));
    permit(&world, json!({ "bash": "ask" }));
    let mut terminal = Screen::start(&world, "run 'make it'");
    world.model.wait_for_blocking(1);
    // A whole line, and the half of one.
    terminal.types("y\ny");
    terminal.shows(1, "y\r\ny");
    gate.open();
    terminal.shows(1, "allow it?");
    terminal.types("\n");
    terminal.shows(2, "allow it?");
    assert!(!made(&world));
    terminal.types("n\n");
    let shown = terminal.ends();
    assert!(!made(&world) && shown.contains("denied"), "{shown}");
}

#[test]
fn a_request_that_is_answered_elsewhere_leaves_the_screen() {
    let gate = Gate::new();
    let world = pair(&gate);
    let mut terminal = Screen::start(&world, "run 'share it'");
    terminal.shows(1, "allow it?");
    gate.open();
    let asks = open_asks(&world, 2);
    let id = |name: &str| {
        let ask = asks.iter().find(|ask| ask["name"] == name).unwrap_or_else(|| panic!("{asks:?}"));
        ask["askId"].as_str().unwrap().to_owned()
    };
    // The one that waits behind it, then the one on the screen.
    world.convoke(["approve", &id("two"), "reject"]).code(0);
    world.convoke(["approve", &id("one"), "once"]).code(0);
    let shown = terminal.ends();
    assert!(shown.contains("build/one (general): answered: allowed once"), "{shown}");
    assert_eq!(shown.matches("allow it?").count(), 1, "{shown}");
    assert!(world.repo.path().join("one.txt").exists() && !world.repo.path().join("two.txt").exists());
}
