//! What `convoke run` promises when all is well.

use crate::{Done, World};
use proto::Status;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use testkit::{FakeModel, Gate, Reply};

#[test]
fn a_fresh_home_answers_without_any_setting() {
    let world = World::bare();
    let done = world.convoke(["run", "read README.md"]).code(0).says("no model is configured");
    assert!(done.stdout.contains("A small project that tests work in."), "{done:#?}");
    assert!(done.stderr.contains("• read"), "{done:#?}");
}

#[test]
fn the_answer_alone_is_on_stdout() {
    let world = World::with(FakeModel::scripted(|received| match received.last("tool") {
        None => Reply::text("Let me look.").and_calls([("read", json!({ "filePath": "README.md" }))]),
        Some(read) => Reply::text(format!("It has {} lines.", read.lines().count())),
    }));
    let done = world.convoke(["run", "how", "long", "is", "README.md?"]).code(0);
    assert!(done.stdout.starts_with("It has ") && done.stdout.lines().count() == 1, "{done:#?}");
    let request = &world.model.requests()[0];
    assert_eq!(request.last("user").as_deref(), Some("how long is README.md?"));
}

#[test]
fn json_lines_begin_with_the_session_and_end_with_the_run() {
    let world = World::new();
    world.model.push(Reply::text("Hello, you.").usage(10, 3));
    let done = world.convoke(["run", "--format", "json", "hello"]).code(0);
    let lines = done.lines();
    let (first, last) = (&lines[0], &lines[lines.len() - 1]);
    assert_eq!(first["type"], "session");
    for field in ["sessionId", "sessionKey", "agent", "model"] {
        assert!(first[field].is_string(), "{field} of {first}");
    }
    assert_eq!((&first["agent"], &first["model"]), (&json!("build"), &json!("fake/test")));
    assert_eq!(of_type(&lines, "run").len(), 1);
    assert_eq!(last["type"], "run");
    assert_eq!((&last["status"], &last["text"]), (&json!("ok"), &json!("Hello, you.")));
    assert_eq!((&last["sessionId"], &last["sessionKey"]), (&first["sessionId"], &first["sessionKey"]));
    assert_eq!((&last["usage"]["input"], &last["usage"]["output"]), (&json!(10), &json!(3)));
    for field in ["cacheRead", "cacheWrite", "costUsd"] {
        assert!(last["usage"][field].is_number(), "{field} of {last}");
    }
    let said: String = of_type(&lines, "delta").iter().filter_map(|line| line["text"].as_str()).collect();
    // Live only: whoever begins to listen after the model began to speak misses the beginning.
    assert!("Hello, you.".ends_with(&said), "{said}");
    let entries = of_type(&lines, "entry");
    let seqs: Vec<_> = entries.iter().filter_map(|line| line["seq"].as_u64()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "each entry once, in order");
    assert_eq!(entries.last().unwrap()["entry"]["run"], last["runId"]);
    assert!(!done.stdout.contains("\": "), "compact JSON");
}

pub(crate) fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

#[test]
fn the_session_line_comes_before_the_model_has_answered() {
    let world = World::new();
    let gate = Gate::new();
    world.model.push(Reply::text("late").gated(gate.clone()));
    let mut child = world.start(["run", "--json", "hello"]);
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["type"], "session");
    gate.open();
    Done::of(child.wait_with_output().unwrap()).code(0);
}

#[test]
fn standard_input_is_added_to_the_words() {
    let world = World::new();
    let mut child = world.command(["run", "sum", "up"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"line one\nline two\n").unwrap();
    Done::of(child.wait_with_output().unwrap()).code(0);
    assert_eq!(world.model.last().unwrap().last("user").unwrap(), "sum up\n\nline one\nline two");
    let mut child = world.command(["run"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"only this").unwrap();
    Done::of(child.wait_with_output().unwrap()).code(0);
    assert_eq!(world.model.last().unwrap().last("user").unwrap(), "only this");
}

#[test]
fn a_prompt_of_twelve_megabytes_is_watched_to_its_end() {
    let world = World::new();
    let mut child = world.command(["run"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all("word\n".repeat(12 << 18).as_bytes()).unwrap();
    // No model reads as much, and the run says so: what it is told of comes through whole.
    Done::of(child.wait_with_output().unwrap()).code(1).says("no longer fits the model's context");
}

#[test]
fn the_newest_session_of_this_directory_goes_on() {
    let world = World::new();
    world.convoke(["run", "my number is 17"]).code(0);
    let elsewhere = world.repo.path().join("docs");
    world.convoke(["run", "-C", elsewhere.to_str().unwrap(), "an unrelated matter"]).code(0);
    world.convoke(["run", "-c", "which number?"]).code(0);
    let body = world.model.last().unwrap().body().to_string();
    assert!(body.contains("my number is 17") && !body.contains("an unrelated matter"), "{body}");
    world.convoke(["run", "-C", world.home.path().to_str().unwrap(), "-c", "x"]).code(2).says("no session was started");
}

#[test]
fn sessions_are_reached_by_id_key_and_label() {
    let world = World::new();
    let lines = world.convoke(["run", "--json", "--label", "the writer", "one"]).code(0).lines();
    let (id, key) = (lines[0]["sessionId"].as_str().unwrap(), lines[0]["sessionKey"].as_str().unwrap());
    for reference in [id, key, "the writer"] {
        let lines = world.convoke(["run", "--json", "--session", reference, "more"]).code(0).lines();
        assert_eq!(lines[0]["sessionId"], id, "{reference}");
    }
    // An agent's main session is made on first use, and only that.
    let lines = world.convoke(["run", "--json", "--session", "main", "hello"]).code(0).lines();
    assert_eq!(lines[0]["sessionKey"], "agent:build:main");
    world.convoke(["run", "--session", "agent:build:chat:nobody", "hello"]).code(2).says("there is no session");
}

#[test]
fn two_commands_at_once_share_one_gateway() {
    let world = World::new();
    let children: Vec<_> = (0..4).map(|n| world.start(["run".to_owned(), format!("hello {n}")])).collect();
    for child in children {
        let done = Done::of(child.wait_with_output().unwrap()).code(0);
        assert_eq!(done.stdout, "ok\n", "{done:#?}");
    }
    assert_eq!(world.model.count(), 4);
    assert_eq!(world.convoke(["ps", "--json"]).code(0).json()["count"], 4);
}

#[test]
fn asks_are_answered_by_flag() {
    let world = World::with(FakeModel::scripted(|received| match received.last("tool") {
        None => Reply::calls([("bash", json!({ "command": "echo hello > made.txt" }))]),
        Some(result) => Reply::text(result),
    }));
    std::fs::write(world.home.config_file(), {
        let text = std::fs::read_to_string(world.home.config_file()).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        config["permission"] = json!({ "bash": "ask" });
        config.to_string()
    })
    .unwrap();
    let denied = world.convoke(["run", "--json", "make it"]).code(0);
    let asks = denied.lines().into_iter().filter(|line| line["type"] == "ask").collect::<Vec<_>>();
    assert_eq!(asks.len(), 1, "{denied:#?}");
    assert_eq!((&asks[0]["agent"], &asks[0]["permission"]), (&json!("build"), &json!("bash")));
    assert!(asks[0]["askId"].is_string() && asks[0]["patterns"].is_array());
    assert!(!world.repo.path().join("made.txt").exists());
    world.convoke(["run", "--ask", "allow", "make it"]).code(0);
    assert_eq!(world.repo.read("made.txt"), "hello\n");
}

#[test]
fn a_mention_runs_in_a_child_session_and_run_waits_for_it() {
    let world = World::with(FakeModel::scripted(|received| {
        if received.body().to_string().contains("count the files") && received.last("tool").is_none() {
            return Reply::text("There are six.");
        }
        Reply::text("My explorer says six.")
    }));
    let done = world.convoke(["run", "--json", "@explore count the files"]).code(0);
    assert_eq!(done.lines().last().unwrap()["text"], "My explorer says six.", "{done:#?}");
    let tree = world.convoke(["tree", "--json"]).code(0).json();
    let sessions = tree["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 2, "{tree}");
    assert_eq!((&sessions[0]["sessionId"], &sessions[0]["agent"]), (&tree["root"], &json!("build")));
    assert_eq!((&sessions[1]["parentId"], &sessions[1]["agent"]), (&tree["root"], &json!("explore")));
    assert!(sessions.iter().all(|s| Status::parse(s["status"].as_str().unwrap()).is_some_and(|s| !s.is_busy())));
}

#[test]
fn a_gateway_that_knows_older_settings_is_replaced_when_idle() {
    let world = World::new();
    world.convoke(["run", "hello"]).code(0);
    let first = world.gateway_pid();
    world.convoke(["run", "hello"]).code(0);
    assert_eq!(world.gateway_pid(), first, "the same settings, the same gateway");
    let text = std::fs::read_to_string(world.home.config_file()).unwrap();
    std::fs::write(world.home.config_file(), format!("// a comment\n{text}")).unwrap();
    world.convoke(["run", "hello"]).code(0);
    assert_ne!(world.gateway_pid(), first);
}

#[test]
fn the_demo_plays_to_its_end() {
    let world = World::bare();
    let done = world.convoke(["demo"]).code(0).says("[explore] • grep").says("[general] ✗ task denied");
    for words in ["1. One agent", "2. A mention", "3. A child may not", "└─ explore", "└─ general", "My child reports"]
    {
        assert!(done.stdout.contains(words), "{words}: {done:#?}");
    }
}
