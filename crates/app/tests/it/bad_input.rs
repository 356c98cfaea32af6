//! What can be wrong, and what a person is told then.

use crate::contract::of_type;
use crate::{Done, World};
use serde_json::{Value, json};
use testkit::{FakeModel, Reply, RepoDir, TempHome};

/// Fails before a run exists: exit code 2, a message, a hint, and one error line for programs.
#[track_caller]
fn unusable(world: &World, args: &[&str], words: &str) {
    let done = world.convoke(args.iter().copied()).code(2).says(words).says("hint: ");
    assert_eq!(done.stdout, "", "{args:?}");
    let mut json = vec!["run", "--json"];
    json.extend(&args[1..]);
    let lines = world.convoke(json).code(2).lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["type"], "error");
    assert!(lines[0]["code"].is_string() && lines[0]["hint"].is_string(), "{lines:?}");
    assert!(lines[0]["message"].as_str().unwrap().contains(words), "{lines:?}");
}

#[test]
fn whatever_is_wrong_before_a_run_is_exit_code_2() {
    let world = World::new();
    unusable(&world, &["run", "--agent", "nobody", "x"], "there is no agent `nobody`");
    unusable(&world, &["run", "--model", "nobody/x", "x"], "there is no provider `nobody`");
    unusable(&world, &["run", "--model", "fake/other", "x"], "no model `other`");
    unusable(&world, &["run", "--session", "ses_0", "x"], "there is no session `ses_0`");
    unusable(&world, &["run", "--session", "no such label", "x"], "no such label");
    unusable(&world, &["run", "-C", "does/not/exist", "x"], "does/not/exist");
    unusable(&world, &["run", "-C", "README.md", "x"], "README.md");
    unusable(&world, &["run"], "there is no prompt");
    world.convoke(["run", "--no-such-flag"]).code(2);
    world.convoke(["no-such-command"]).code(2);
    assert_eq!(world.model.count(), 0);
}

#[test]
fn broken_settings_name_the_place_and_unknown_ones_only_warn() {
    let world = World::new();
    let good = std::fs::read_to_string(world.home.config_file()).unwrap();
    std::fs::write(world.home.config_file(), "{ \"model\": ").unwrap();
    unusable(&world, &["run", "x"], "convoke.jsonc:1:");
    world.convoke(["ps"]).code(2);
    world.convoke(["stop"]).code(0);
    let mut config: Value = serde_json::from_str(&good).unwrap();
    config["modle"] = json!("typo");
    std::fs::write(world.home.config_file(), config.to_string()).unwrap();
    world.convoke(["run", "x"]).code(0).says("warning: ").says("modle");
}

#[test]
fn a_database_of_a_newer_version_is_refused_and_kept() {
    let world = World::new();
    world.convoke(["run", "x"]).code(0);
    world.convoke(["stop"]).code(0);
    drop(lock(&world));
    let database = world.home.path().join("state/convoke.db");
    raise_schema_version(&database);
    let before = std::fs::read(&database).unwrap();
    unusable(&world, &["run", "x"], "schema");
    world.convoke(["ps"]).code(2).says("schema");
    world.convoke(["db", "check"]).code(2).says("schema");
    assert_eq!(std::fs::read(&database).unwrap(), before);
}

/// The `user_version` of a SQLite file is the big-endian number at byte 60 (and read at open).
fn raise_schema_version(database: &std::path::Path) {
    let mut bytes = std::fs::read(database).unwrap();
    bytes[60..64].copy_from_slice(&999_u32.to_be_bytes());
    std::fs::write(database, bytes).unwrap();
}

/// A stopped gateway gives its home back in a moment.
fn lock(world: &World) -> std::fs::File {
    let lock = std::fs::File::open(world.home.path().join("state/lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    lock
}

#[test]
fn a_home_somebody_else_holds_is_refused_with_their_name() {
    let world = World::new();
    world.convoke(["run", "x"]).code(0);
    world.convoke(["stop"]).code(0);
    let _held = lock(&world);
    let done = world.convoke(["run", "x"]).code(2).says("in use by another convoke").says("hint: ");
    assert_eq!(done.stdout, "");
}

#[test]
fn a_read_only_home_is_said_to_be_one() {
    use std::os::unix::fs::PermissionsExt;
    if rustix::process::geteuid().is_root() {
        // Nothing is read-only to root: a file in the way takes its place.
        let world = World::bare();
        std::fs::write(world.home.path().join("state"), "").unwrap();
        return unusable(&world, &["run", "x"], "a file is in the way");
    }
    let world = World::bare();
    std::fs::set_permissions(world.home.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
    unusable(&world, &["run", "x"], "cannot use the directory");
    std::fs::set_permissions(world.home.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
}

/// The model's server fails for good: exit code 1, an error line, and still exactly one run line.
#[track_caller]
fn fails(reply: impl Fn() -> Reply + Send + Sync + 'static, words: &str) {
    let model = FakeModel::scripted(move |_| reply());
    let home = TempHome::new(&model).config_json(json!({ "provider": { "fake": { "retries": 0 } } }));
    let world = World { model, home, repo: RepoDir::new() };
    let done = world.convoke(["run", "--json", "x"]).code(1);
    let lines = done.lines();
    assert_eq!(of_type(&lines, "run").len(), 1, "{done:#?}");
    let last = lines.last().unwrap();
    assert_eq!((&last["type"], &last["status"]), (&json!("run"), &json!("error")));
    assert!(last["error"]["message"].as_str().unwrap().contains(words), "{last}");
    let errors = of_type(&lines, "error");
    assert_eq!(errors.len(), 1, "{done:#?}");
    assert!(errors[0]["hint"].is_string() && errors[0]["code"].is_string(), "{errors:?}");
    let text = world.convoke(["run", "x"]).code(1).says("error: ").says("hint: ");
    assert_eq!(text.stdout, "");
}

#[test]
fn a_server_that_refuses_fails_the_run() {
    fails(|| Reply::raw(401, r#"{"error":{"message":"bad key"}}"#), "key");
    fails(|| Reply::raw(400, r#"{"error":{"message":"no such model"}}"#), "no such model");
}

#[test]
fn a_server_that_sends_garbage_or_an_endless_line_fails_the_run() {
    fails(Reply::garbage, "");
    fails(Reply::endless_line, "");
}

#[test]
fn a_server_that_always_dies_in_mid_answer_fails_the_run() {
    fails(|| Reply::deltas(["half ", "an ", "answer"]).dies_after(2), "broke off");
}

#[test]
fn a_call_nobody_understands_is_told_to_the_model() {
    let world = World::with(FakeModel::scripted(|received| match received.last("tool") {
        None => Reply::calls([("no_such_tool", json!({})), ("read", json!({ "wrong": true }))]),
        Some(_) => Reply::text("I see."),
    }));
    let done = world.convoke(["run", "x"]).code(0);
    assert_eq!(done.stdout, "I see.\n");
    assert!(done.stderr.contains("✗"), "{done:#?}");
}

#[test]
fn nothing_is_printed_to_stdout_when_a_run_fails() {
    let world = World::with(FakeModel::scripted(|_| Reply::raw(400, "{}")));
    let Done { stdout, .. } = world.convoke(["run", "x"]).code(1);
    assert_eq!(stdout, "");
}
