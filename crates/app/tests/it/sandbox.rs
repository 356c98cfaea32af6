//! The sandbox as a person meets it: agents that only look, settings, what is left in a directory, and `doctor`.

use crate::World;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use testkit::{FakeModel, Received, Reply};

/// Whether commands can be held here in full; that they cannot is said, and CI does not let it pass.
fn held(world: &World) -> bool {
    let said = world.convoke(["doctor", "--json"]).code(0).json();
    let held = said["sandbox"]["backend"] == "bubblewrap";
    if !held {
        eprintln!("CANNOT RUN THIS TEST: {}", said["sandbox"]);
        assert!(std::env::var_os("CI").is_none(), "CI has to have bubblewrap: {said}");
    }
    held
}

fn set(world: &World, key: &str, value: Value) {
    let text = std::fs::read_to_string(world.home.config_file()).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config[key] = value;
    std::fs::write(world.home.config_file(), serde_json::to_string_pretty(&config).unwrap()).unwrap();
}

fn runs_as(received: &Received, agent: &str) -> bool {
    received.lines().iter().any(|line| line.role == "system" && line.text.contains(&format!("the agent `{agent}`")))
}

/// A model that runs what it is told, and says what came of it.
fn obedient(received: &Received) -> Reply {
    match (received.step(), received.last("user").unwrap_or_default().strip_prefix("run: ")) {
        (0, Some(command)) => Reply::calls([("bash", json!({ "command": command }))]),
        (0, None) => Reply::text("fine"),
        _ => Reply::text(received.last("tool").unwrap_or_default()),
    }
}

/// What there is at the top of the project.
fn listed(world: &World) -> Vec<String> {
    let entries = std::fs::read_dir(world.repo.path()).unwrap().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn whatever_is_allowed_plan_does_not_write() {
    let world = World::with(FakeModel::scripted(obedient));
    if !held(&world) {
        return;
    }
    set(&world, "permission", json!("allow"));
    for command in
        ["touch made", "python3 -c 'open(\"made\", \"w\")' || cp Cargo.toml made", "git commit --allow-empty -m x"]
    {
        let said = world.convoke(["run", "--agent", "plan", &format!("run: {command}")]).code(0).stdout;
        assert!(said.contains("Read-only file system") || said.contains("not a git repository"), "{command}: {said}");
    }
    assert!(!world.repo.path().join("made").exists());
    // A redirection is a change, which the rules already refuse.
    let said = world.convoke(["run", "--agent", "plan", "run: echo x > made"]).code(0).stdout;
    assert!(said.contains("the rules deny `edit`"), "{said}");
    assert!(!world.repo.path().join("made").exists());
    let said = world.convoke(["run", "--agent", "plan", "run: ls && touch /tmp/mine && echo done"]).code(0).stdout;
    assert!(said.contains("done"), "{said}");
    // The same words from whoever builds.
    world.convoke(["run", "run: touch made"]).code(0);
    assert!(world.repo.path().join("made").exists());
}

#[test]
fn whatever_is_allowed_explore_does_not_reach_the_network() {
    let world = World::with(FakeModel::scripted(|received| {
        if runs_as(received, "explore") {
            obedient(received)
        } else {
            Reply::text(received.last("user").unwrap_or_default())
        }
    }));
    if !held(&world) {
        return;
    }
    set(&world, "permission", json!("allow"));
    // Something that listens: the model itself.
    let address = world.model.address();
    let reach = format!("exec 3<>/dev/tcp/{}/{} && echo rea''ched", address.ip(), address.port());
    world.convoke(["run", &format!("@explore run: {reach}")]).code(0);
    let session = world.convoke(["ps", "--json"]).code(0).json();
    let explorer =
        session["sessions"].as_array().unwrap().iter().find(|row| row["agent"] == "explore").unwrap().clone();
    let key = explorer["key"].as_str().unwrap();
    let said = world.convoke(["history", key, "--include-tools"]).code(0).stdout;
    assert!(!said.contains("reached"), "{said}");
    assert!(
        said.contains("Operation not permitted") || said.contains("unreachable") || said.contains("refused"),
        "{said}"
    );
}

#[test]
fn a_child_is_held_no_less_than_its_parent() {
    let world = World::with(FakeModel::scripted(|received| {
        if runs_as(received, "general") {
            return obedient(received);
        }
        match received.step() {
            0 => Reply::calls([(
                "task",
                json!({ "description": "write it", "prompt": "run: touch made", "subagent_type": "general" }),
            )]),
            _ => Reply::text(received.last("tool").unwrap_or_default()),
        }
    }));
    if !held(&world) {
        return;
    }
    set(&world, "permission", json!("allow"));
    set(&world, "agent", json!({ "general": { "sandbox": { "mode": "off", "network": true } } }));
    let said = world.convoke(["run", "--agent", "plan", "go on"]).code(0).stdout;
    assert!(said.contains("Read-only file system"), "{said}");
    assert!(!world.repo.path().join("made").exists());
    world.convoke(["run", "go on"]).code(0);
    assert!(world.repo.path().join("made").exists());
}

#[test]
fn t52_a_command_that_would_leave_the_repository_is_stopped_by_the_kernel() {
    let world = World::with(FakeModel::scripted(obedient));
    if !held(&world) {
        return;
    }
    set(&world, "permission", json!("allow"));
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("precious"), "x").unwrap();
    let attack = format!("run: D={}; rm -rf $D/*; echo over > $D/new", outside.path().display());
    world.convoke(["run", &attack]).code(0);
    assert!(outside.path().join("precious").exists() && !outside.path().join("new").exists());
    set(&world, "sandbox", json!({ "mode": "off" }));
    world.convoke(["run", &attack]).code(0);
    assert!(!outside.path().join("precious").exists() && outside.path().join("new").exists());
}

#[test]
fn nothing_of_a_sandbox_is_left_in_a_directory() {
    let world = World::with(FakeModel::scripted(obedient));
    if !held(&world) {
        return;
    }
    let before = listed(&world);
    world.convoke(["run", "run: true"]).code(0);
    assert_eq!(listed(&world), before, "a run that ended leaves nothing");

    let mut child = world.start(["run", "run: touch started; exec sleep 600"]);
    while !listed(&world).contains(&"started".to_owned()) {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before its command ran");
        std::thread::yield_now();
    }
    assert!(listed(&world).contains(&".convoke".to_owned()), "a command runs");
    // What stands in for settings is no mistake in them.
    let warned = world.convoke(["config", "show"]).code(0).stderr;
    assert!(!warned.contains("convoke.json"), "{warned}");
    kill_process(world.gateway_pid(), Signal::KILL).unwrap();
    let _ = child.kill();
    let _ = child.wait();
    world.convoke(["run", "run: true"]).code(0);
    std::fs::remove_file(world.repo.path().join("started")).unwrap();
    assert_eq!(listed(&world), before, "the next gateway removes what a killed one left");
}

#[test]
fn what_cannot_be_enforced_is_refused_or_said() {
    let world = World::with(FakeModel::scripted(obedient));
    let on = |machine: &str, args: &[&str]| {
        let output = world.command(args).env("CONVOKE_TEST_SANDBOX", machine).output().unwrap();
        crate::Done::of(output).code(0).stdout
    };
    let said = on("none", &["run", "run: touch one"]);
    assert!(said.contains("no sandbox here"), "{said}");
    let said = on("none", &["run", "--agent", "plan", "run: touch two"]);
    assert!(said.contains("install bubblewrap") && said.contains("convoke doctor"), "{said}");
    set(&world, "sandbox", json!({ "mode": "workspace" }));
    let said = on("landlock", &["run", "run: touch three"]);
    assert!(said.contains("cannot be enforced in full"), "{said}");
    let there: Vec<bool> = ["one", "two", "three"].map(|name| world.repo.path().join(name).exists()).to_vec();
    assert_eq!(there, [true, false, false]);
}

#[test]
fn doctor_says_what_can_be_enforced_and_what_is_broken() {
    let world = World::new();
    let said = world.convoke(["doctor", "--json"]).code(0).json();
    assert!(said["version"].is_string() && said["home"]["state"].is_string(), "{said}");
    assert_eq!(
        (&said["config"]["ok"], &said["database"]["ok"], &said["gateway"]["running"]),
        (&json!(true), &json!(true), &json!(false))
    );
    assert!(said["disk"]["freeBytes"].as_u64().unwrap() > 0 && said["git"]["version"].is_string(), "{said}");
    let modes = |machine: &str| {
        let output = world.command(["doctor", "--json"]).env("CONVOKE_TEST_SANDBOX", machine).output().unwrap();
        let said = crate::Done::of(output).code(0).json();
        (said["sandbox"]["backend"].clone(), said["sandbox"]["modes"].clone())
    };
    assert_eq!(modes("landlock"), (json!("landlock"), json!(["off", "read-only"])));
    assert_eq!(modes("none"), (json!("none"), json!(["off"])));
    if held(&world) {
        assert_eq!(said["sandbox"]["modes"], json!(["off", "read-only", "workspace"]));
        assert!(said["sandbox"]["program"]["version"].as_str().unwrap().contains("bubblewrap"), "{said}");
    }
    // Never the key itself.
    let key = "key-that-nobody-shows";
    let output = world.command(["doctor"]).env("ANTHROPIC_API_KEY", key).output().unwrap();
    let words = crate::Done::of(output).code(0).stdout;
    assert!(words.contains("anthropic (env:ANTHROPIC_API_KEY)") && !words.contains(key), "{words}");

    world.convoke(["run", "hello"]).code(0);
    assert_eq!(world.convoke(["doctor", "--json"]).code(0).json()["gateway"]["running"], true);
    std::fs::write(world.home.config_file(), "{ \"sandbox\": { \"mode\": \"on\" } }").unwrap();
    let said = world.convoke(["doctor", "--json"]).code(1).json();
    assert!(said["config"]["errors"][0].as_str().unwrap().contains("`sandbox.mode` cannot be `on`"), "{said}");
}
