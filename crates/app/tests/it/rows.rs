//! Rows of the contract as a person meets them: agents in the settings, mentions, `why`.

use crate::World;
use crate::rules::permit;
use crate::worktrees::git;
use serde_json::{Value, json};
use testkit::{FakeModel, Reply};

/// Sets more than the model.
fn set(world: &World, name: &str, value: &Value) {
    let text = std::fs::read_to_string(world.home.config_file()).unwrap();
    let at = text.find('{').unwrap() + 1;
    // Written by hand, so that the order of the keys is kept.
    let text = format!("{}\n  \"{name}\": {value},{}", &text[..at], &text[at..]);
    std::fs::write(world.home.config_file(), text).unwrap();
}

#[test]
fn without_build_the_first_primary_agent_of_the_settings_answers() {
    let world = World::new();
    let agents = json!({
        "build": { "disable": true },
        "helper": { "mode": "subagent" },
        "zoe": { "mode": "primary", "welcome_message": "Hello, I am Zoe.", "options": { "seed": 7 } },
        "adam": { "mode": "primary" },
    });
    set(&world, "agent", &agents);
    world.convoke(["run", "hi"]).code(0);
    let list = world.convoke(["ps", "--json"]).code(0).json();
    assert_eq!(list["sessions"][0]["agent"], "zoe", "{list}");
    assert_eq!(world.model.requests()[0].body()["seed"], 7);
    let agents = world.convoke(["agents", "--json"]).code(0).json();
    let zoe = agents["agents"].as_array().unwrap().iter().find(|agent| agent["name"] == "zoe").unwrap();
    assert_eq!(zoe["welcomeMessage"], "Hello, I am Zoe.");
    assert_eq!(zoe["options"], json!({ "seed": 7 }), "and it is no option for the provider");
}

#[test]
fn a_mention_without_words_is_asked_what_for() {
    let world = World::new();
    for prompt in ["@explore", " @explore @general ", "@explore."] {
        let done = world.convoke(["run", prompt]).code(2);
        assert!(done.stderr.contains("does not say what the agent is to do"), "{prompt}: {done:#?}");
        assert!(done.stderr.contains("say what for, as in `@explore find the tests`"), "{prompt}: {done:#?}");
    }
    assert_eq!(world.model.count(), 0, "and nothing is started");
}

#[test]
fn turns_out_of_range_are_a_warning_with_their_place() {
    let world = World::new();
    set(&world, "session", &json!({ "agentToAgent": { "maxPingPongTurns": 9 } }));
    let done = world.convoke(["agents"]).code(0);
    assert!(done.stderr.contains("convoke.jsonc:2:"), "{done:#?}");
    assert!(done.stderr.contains("`session.agentToAgent.maxPingPongTurns` is 9, so 5 is used"), "{done:#?}");
}

#[test]
fn why_knows_groups_of_tools() {
    let world = World::new();
    permit(&world, json!({ "*": "allow", "edit": { "src/*": "deny" } }));
    let said = world.convoke(["why", "group:fs", "src/claims.rs", "--json"]).code(0).json();
    assert_eq!((&said["action"], &said["permission"]), (&json!("deny"), &json!("group:fs")), "{said}");
    assert_eq!(said["rule"]["permission"], "edit");
    let parts: Vec<&str> =
        said["parts"].as_array().unwrap().iter().filter_map(|part| part["permission"].as_str()).collect();
    assert_eq!(parts, ["read", "list", "glob", "grep", "edit"]);
    world.convoke(["why", "group:fss", "x"]).code(2).says("did you mean `group:fs`");
}

#[test]
fn why_explains_what_a_session_may_do() {
    let world = World::with(FakeModel::scripted(|received| {
        match (received.last("user").unwrap_or_default().as_str(), received.step()) {
            ("go", 0) => Reply::calls([(
                "sessions_spawn",
                json!({ "task": "read only", "agentId": "general", "tools": ["read"], "label": "reader",
                    "background": false }),
            )]),
            _ => Reply::text("done"),
        }
    }));
    permit(&world, json!({ "read": { "*": "allow", "secret/*": "deny" } }));
    world.convoke(["run", "go"]).code(0);
    for stopped in [false, true] {
        if stopped {
            world.convoke(["stop"]).code(0);
        }
        let said = world.convoke(["why", "bash", "ls", "--session", "reader", "--json"]).code(0).json();
        assert_eq!((&said["action"], &said["origin"]["layer"]), (&json!("deny"), &json!("session")), "{said}");
        let said = world.convoke(["why", "read", "src/claims.rs", "--session", "reader", "--json"]).code(0).json();
        assert_eq!((&said["action"], &said["agent"]), (&json!("allow"), &json!("general")), "{said}");
        let words = world.convoke(["why", "bash", "ls", "--session", "reader"]).code(0).stdout;
        assert!(words.contains("a rule of the session"), "{words}");
    }
    world.convoke(["why", "bash", "ls", "--session", "nowhere"]).code(2);
    world.convoke(["why", "bash", "ls", "--session", "reader", "--agent", "plan"]).code(2);
}

#[test]
fn the_offline_model_starts_agents_writes_to_them_and_enters_worktrees() {
    let world = World::bare();
    world.convoke(["run", "spawn general named scout to list src"]).code(0);
    let list = world.convoke(["ps", "--json"]).code(0).json();
    let scout = list["sessions"].as_array().unwrap().iter().find(|row| row["label"] == "scout");
    assert_eq!(scout.unwrap()["agent"], "general", "{list}");
    let sent = world.convoke(["run", "-c", "send scout: read README.md"]).code(0);
    assert!(sent.stderr.contains("send_message scout") && !sent.stdout.contains("could not follow"), "{sent:#?}");
    let said = world.convoke(["history", "scout", "--json"]).code(0).stdout;
    assert!(said.contains("# Sample"), "{said}");
    for words in ["init --quiet --initial-branch main", "add --all", "commit --quiet --message first"] {
        git(world.repo.path(), words);
    }
    world.convoke(["run", "enter a worktree named w1 then write new.txt: hello"]).code(0);
    assert!(world.repo.path().join(".convoke/worktrees/w1/new.txt").exists());
}
