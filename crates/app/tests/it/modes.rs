//! Permission modes and what models are shown, as a person meets them.

use crate::World;
use serde_json::{Value, json};
use testkit::{FakeModel, Reply};

/// A model that writes a file, runs a command, and says what came of both.
fn works() -> World {
    let world = World::with(FakeModel::scripted(|received| match received.step() {
        0 => Reply::calls([
            ("write", json!({ "filePath": "made.txt", "content": "x" })),
            ("bash", json!({ "command": "touch run.txt" })),
            ("bash", json!({ "command": "rm -f made.txt" })),
        ]),
        _ => Reply::text("done"),
    }));
    let text = std::fs::read_to_string(world.home.config_file()).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["permission"] = json!({ "edit": "ask", "bash": { "*": "ask", "rm *": "deny" } });
    std::fs::write(world.home.config_file(), config.to_string()).unwrap();
    world
}

fn is_there(world: &World, name: &str) -> bool {
    let path = world.repo.path().join(name);
    let there = path.exists();
    let _ = std::fs::remove_file(path);
    there
}

#[test]
fn a_mode_decides_what_would_be_asked_and_lifts_no_deny() {
    let world = works();
    for (mode, written, run) in
        [("ask", false, false), ("accept-edits", true, false), ("plan", false, false), ("auto", true, true)]
    {
        world.convoke(["run", "--permission-mode", mode, "go"]).code(0);
        // What removes it is denied in every mode.
        assert_eq!((is_there(&world, "made.txt"), is_there(&world, "run.txt")), (written, run), "{mode}");
    }
    world.convoke(["run", "--permission-mode", "yolo", "go"]).code(2).says("yolo");
}

#[test]
fn a_session_that_is_there_changes_its_mode_and_new_ones_take_it_from_the_settings() {
    let world = works();
    let first = world.convoke(["run", "--json", "go"]).code(0).lines()[0]["sessionId"].clone();
    let session = first.as_str().unwrap();
    assert!(!is_there(&world, "made.txt"));
    world.convoke(["run", "--session", session, "--permission-mode", "accept-edits", "go"]).code(0);
    assert!(is_there(&world, "made.txt"));
    world.convoke(["run", "--session", session, "go"]).code(0);
    assert!(is_there(&world, "made.txt"), "it stays in it");
    world.convoke(["stop"]).code(0);
    let text = std::fs::read_to_string(world.home.config_file()).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["permission_mode"] = json!("accept-edits");
    std::fs::write(world.home.config_file(), config.to_string()).unwrap();
    world.convoke(["run", "go"]).code(0);
    assert!(is_there(&world, "made.txt"));
    let said = world.convoke(["why", "edit", "a.txt", "--json"]).code(0).json();
    assert_eq!(said["action"], "allow", "{said}");
    assert!(said["reason"].as_str().unwrap().contains("accept-edits"), "{said}");
}

#[test]
fn the_tools_of_an_agent_are_listed_with_why_others_are_hidden() {
    let world = World::new();
    let list = world.convoke(["tools", "--agent", "explore", "--json"]).code(0).json();
    assert_eq!(list["agent"], "explore");
    let tool = |name: &str| {
        let tools = list["tools"].as_array().unwrap();
        tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name}: {list}")).clone()
    };
    assert_eq!((&tool("grep")["hidden"], tool("grep").get("why")), (&json!(false), None));
    assert_eq!((&tool("write")["hidden"], &tool("write")["permission"]), (&json!(true), &json!("edit")));
    assert!(tool("write")["why"].as_str().unwrap().contains("rules"));
    assert!(!tool("bash")["description"].as_str().unwrap().contains('\n'));
    let build = world.convoke(["tools", "--json"]).code(0).json();
    let jobs = build["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "jobs").unwrap().clone();
    assert_eq!((&jobs["deferred"], &jobs["hidden"]), (&json!(true), &json!(false)));
    let words = world.convoke(["tools", "--agent", "plan"]).code(0).stdout;
    assert!(words.contains("plan_exit") && words.contains("hidden: "), "{words}");
    world.convoke(["tools", "--agent", "nobody"]).code(2).says("no agent");
}
