//! Commands that look and change nothing.

use crate::World;
use serde_json::{Value, json};
use testkit::{FakeModel, Reply};

#[test]
fn an_empty_home_is_empty_and_stays_so() {
    let world = World::new();
    assert_eq!(world.convoke(["ps", "--json"]).code(0).json(), json!({ "count": 0, "sessions": [] }));
    assert_eq!(world.convoke(["tree", "--json"]).code(0).json(), json!({ "root": null, "sessions": [] }));
    world.convoke(["history", "main"]).code(2).says("there is no session `main`");
    world.convoke(["db", "check"]).code(0);
    assert!(!world.home.path().join("state/convoke.db").exists());
}

fn with_tools() -> World {
    let world = World::with(FakeModel::scripted(|received| match received.last("tool") {
        None => Reply::calls([("read", json!({ "filePath": "README.md" }))]),
        Some(_) => Reply::text("I have read it."),
    }));
    world.convoke(["run", "--label", "reader", "read it"]).code(0);
    world
}

#[test]
fn reading_is_the_same_with_and_without_a_gateway() {
    let world = with_tools();
    let ask = |args: &[&str]| world.convoke(args.iter().copied()).code(0).json();
    let look = || (ask(&["ps", "--json"]), ask(&["tree", "--json"]), ask(&["history", "reader", "--json"]));
    let running = look();
    world.convoke(["stop"]).code(0);
    assert_eq!(look(), running);
    let (ps, _, history) = running;
    let row = &ps["sessions"][0];
    assert_eq!((&row["label"], &row["status"], &row["agent"]), (&json!("reader"), &json!("idle"), &json!("build")));
    assert_eq!(row["model"], "fake/test");
    let messages = history["messages"].as_array().unwrap();
    let said: Vec<_> = messages.iter().map(|m| (m["role"].as_str().unwrap(), m["content"].as_str().unwrap())).collect();
    assert_eq!(said, [("user", "read it"), ("assistant", "I have read it.")]);
    for field in ["hardCapped", "truncated", "contentTruncated", "contentRedacted"] {
        assert_eq!(history[field], false, "{field}");
    }
    assert_eq!(history["droppedMessages"], 0);
    assert_eq!(history["totalBytes"], serde_json::to_vec(messages).unwrap().len());
}

#[test]
fn tools_are_shown_on_request_and_pages_meet() {
    let world = with_tools();
    let page = |args: &[&str]| {
        let args = ["history", "reader", "--json"].into_iter().chain(args.iter().copied());
        world.convoke(args).code(0).json()
    };
    let whole = page(&["--include-tools"]);
    let messages = whole["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3, "{whole}");
    let tool = &messages[1]["parts"][0];
    assert_eq!((&tool["type"], &tool["tool"], &tool["state"]), (&json!("tool"), &json!("read"), &json!("completed")));
    assert!(tool["output"].as_str().unwrap().contains("A small project"), "{tool}");
    // Backwards, one at a time, every message once.
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let from: Vec<String> = before.iter().flat_map(|seq: &u64| ["--before".to_owned(), seq.to_string()]).collect();
        let mut args = vec!["--include-tools", "--limit", "1"];
        args.extend(from.iter().map(String::as_str));
        let one = page(&args);
        seen.extend(one["messages"].as_array().unwrap().iter().map(|message| message["seq"].clone()));
        before = one["nextBefore"].as_u64();
        if before.is_none() {
            break;
        }
    }
    let expected: Vec<_> = messages.iter().rev().map(|message| message["seq"].clone()).collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_list_is_paged_by_cursor() {
    let world = World::new();
    for n in 0..3 {
        world.convoke(["run".to_owned(), format!("hello {n}")]).code(0);
    }
    let first = world.convoke(["ps", "--json", "--limit", "2"]).code(0).json();
    assert_eq!(first["count"], 2);
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = world.convoke(["ps", "--json", "--limit", "2", "--cursor", cursor]).code(0).json();
    assert_eq!(second["count"], 1, "{second}");
    assert!(second.get("nextCursor").is_none());
    world.convoke(["ps", "--cursor", "nonsense"]).code(2).says("cursor");
}

#[test]
fn the_binary_introduces_itself() {
    let world = World::new();
    assert_eq!(world.convoke(["--version"]).code(0).stdout, "convoke 0.1.0\n");
    assert!(world.convoke(["completions", "bash"]).code(0).stdout.contains("convoke"));
    let agents = world.convoke(["agents", "--json"]).code(0).json();
    assert!(agents["agents"].as_array().unwrap().iter().any(|agent| agent["name"] == "explore"));
    assert_eq!(world.convoke(["models", "--json"]).code(0).json()["default"], "fake/test");
}

#[test]
fn a_reader_that_leaves_early_hears_no_complaint() {
    let world = World::new();
    for command in [&["completions", "bash"][..], &["config", "schema"], &["doctor"], &["models"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let done = world.command(command).stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && !said.contains("panicked"), "{command:?}: {said}");
    }
}

#[test]
fn agents_are_listed_with_all_that_is_set_about_them() {
    let world = World::new();
    world.repo.write(
        ".convoke/agents/reader.md",
        "---\ndescription: reads\nsteps: 4\ntemperature: 0.5\ncolor: blue\npermission:\n  edit: deny\n---\nRead it.",
    );
    let text = r#"{"agent": {"build": {"top_p": 0.5, "variant": "high", "tools": {"bash": false}, "seed": 1}}}"#;
    let mut command = world.command(["agents", "--json"]);
    let list = crate::Done::of(command.env("CONVOKE_CONFIG_CONTENT", text).output().unwrap()).code(0).json();
    let agent = |name: &str| list["agents"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
    let reader = agent("reader");
    assert_eq!((&reader["steps"], &reader["temperature"], &reader["color"]), (&json!(4), &json!(0.5), &json!("blue")));
    assert!(reader["file"].as_str().unwrap().ends_with(".convoke/agents/reader.md"), "{reader}");
    let build = agent("build");
    assert_eq!((&build["topP"], &build["variant"], &build["native"]), (&json!(0.5), &json!("high"), &json!(true)));
    assert_eq!((&build["tools"], &build["options"]), (&json!({ "bash": false }), &json!({ "seed": 1 })));
    assert_eq!(build["file"], "CONVOKE_CONFIG_CONTENT");
    let rule = json!({ "permission": "question", "pattern": "*", "action": "allow" });
    assert!(build["permission"].as_array().unwrap().contains(&rule), "{build}");
    assert_eq!((&agent("plan")["file"], &agent("plan")["steps"]), (&Value::Null, &Value::Null));
}
