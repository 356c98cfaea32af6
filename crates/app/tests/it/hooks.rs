//! Hooks as a user sets them: real commands, with JSON on their standard input.

use crate::World;
use serde_json::{Value, json};
use testkit::TempHome;

fn world(hooks: Value) -> World {
    let mut world = World::bare();
    world.home = TempHome::bare().config_json(json!({ "hooks": hooks }));
    world
}

#[test]
fn a_hook_reads_json_and_says_no_on_standard_error() {
    let guard = "grep -q README || exit 0; echo 'not that one' >&2; exit 2";
    let world = world(json!({ "tool.before": { "command": guard, "match": "read" } }));
    let refused = world.convoke(["run", "read README.md"]).code(0).says("read denied");
    assert!(refused.stdout.contains("a hook of the user said no: not that one"), "{refused:?}");
    let allowed = world.convoke(["run", "read Cargo.toml"]).code(0);
    assert!(allowed.stdout.contains("[package]"), "{allowed:?}");
}

#[test]
fn a_hook_changes_what_runs_on_standard_output() {
    let turn = r#"sed -e 's/.*/{"input":{"filePath":"Cargo.toml"}}/'"#;
    let world = world(json!({ "tool.before": [turn] }));
    let done = world.convoke(["run", "read README.md"]).code(0);
    assert!(done.stdout.contains("[package]"), "{done:?}");
}

#[test]
fn a_hook_that_fails_is_shown_and_counted() {
    let world = world(json!({ "tool.before": "echo oops >&2; exit 3", "agent.start": "true" }));
    let done = world.convoke(["run", "read Cargo.toml"]).code(0);
    let done = done.says("! the hook `echo oops >&2; exit 3` on tool.before failed: it ended with exit code 3: oops");
    assert!(done.stdout.contains("[package]"), "{done:?}");
    let hooks = world.convoke(["hooks", "--json"]).code(0).json();
    let row = |n: usize| &hooks["hooks"][n];
    assert_eq!((&row(0)["event"], &row(0)["runs"], &row(0)["failures"]), (&json!("agent.start"), &json!(1), &json!(0)));
    assert_eq!(
        (&row(1)["event"], &row(1)["match"], &row(1)["failures"]),
        (&json!("tool.before"), &json!("*"), &json!(1))
    );
    assert_eq!(row(1)["lastError"], json!("it ended with exit code 3: oops"));
    let lines = world.convoke(["run", "--format", "json", "read Cargo.toml"]).code(0).lines();
    assert!(lines.iter().any(|line| line["type"] == "hook" && line["event"] == "tool.before"), "{lines:?}");
}

#[test]
fn a_run_that_a_hook_stops_fails_with_its_reason() {
    let world = world(json!({ "agent.start": "echo 'closed for today' >&2; exit 2" }));
    world.convoke(["run", "list"]).code(1).says("a hook stopped this run: closed for today");
}

#[test]
fn deferred_tools_are_called_straight_away_and_searched_for() {
    let world = World::bare();
    let done = world.convoke(["run", "call agents_list {}"]).code(0);
    assert!(done.stdout.contains("\"requester\":\"build\""), "{done:?}");
    let done = world.convoke(["run", r#"call ToolSearch {"query": "select:subagents"}"#]).code(0);
    assert!(done.stdout.contains("<function>{\"description\":"), "{done:?}");
    let lines = world.convoke(["run", "--format", "json", "call agents_list {}"]).code(0).lines();
    let loaded = lines.iter().find(|line| line["entry"]["type"] == "tools_loaded").expect("it was loaded");
    assert_eq!(loaded["entry"]["names"], json!(["agents_list"]));
}

#[test]
fn hooks_of_a_repository_run_once_it_is_trusted_and_only_there() {
    let world = world(json!({}));
    world.repo.write("convoke.json", r#"{ "hooks": { "session.start": "touch greeted" } }"#);
    let greeted = world.repo.path().join("greeted");
    world.convoke(["run", "hello"]).code(0);
    assert!(!greeted.exists(), "before it is trusted");
    world.convoke(["trust"]).code(0);
    world.convoke(["run", "hello"]).code(0);
    assert!(greeted.exists());
    let rows = world.convoke(["hooks", "--json"]).code(0).json();
    assert_eq!((&rows["hooks"][0]["event"], &rows["hooks"][0]["runs"]), (&json!("session.start"), &json!(1)), "{rows}");
    let elsewhere = testkit::RepoDir::new();
    world.convoke(["run", "-C", elsewhere.path().to_str().unwrap(), "hello"]).code(0);
    assert!(!elsewhere.path().join("greeted").exists());
}

#[test]
fn a_hook_in_python_takes_no_module_out_of_the_directory_of_the_session() {
    let world = world(json!({ "tool.before": "python3 -c 'import json,sys; json.load(sys.stdin)'" }));
    let mark = world.home.path().join("mark");
    let module = format!("open({:?}, 'w')\ndef load(file): pass\n", mark.display().to_string());
    std::fs::write(world.repo.path().join("json.py"), module).unwrap();
    let done = world.convoke(["run", "read Cargo.toml"]).code(0);
    assert!(done.stdout.contains("[package]") && !done.stderr.contains("failed"), "{done:?}");
    assert!(!mark.exists(), "the hook ran a file of the session's directory");
}
