//! Models from the outside: which one answers, on which wire, and what is told about it.

use crate::{Done, World};
use serde_json::json;
use testkit::{FakeModel, Reply, RepoDir, TempHome};

const KEY: &str = "sk-do-not-show-me-0123456789";

fn bare(model: FakeModel) -> World {
    World { model, home: TempHome::bare(), repo: RepoDir::new() }
}

/// Runs with these variables.
fn with_env(world: &World, args: &[&str], env: &[(&str, &str)]) -> Done {
    Done::of(world.command(args.iter().copied()).envs(env.iter().copied()).output().unwrap())
}

#[test]
fn a_key_and_an_address_in_the_environment_are_enough() {
    let world = bare(FakeModel::start());
    let origin = world.model.origin();
    let env = [("ANTHROPIC_API_KEY", KEY), ("ANTHROPIC_BASE_URL", origin.as_str())];
    assert_eq!(with_env(&world, &["run", "hello"], &env).code(0).stdout, "ok\n");
    let received = world.model.last().unwrap();
    assert_eq!(received.path, "/v1/messages");
    assert_eq!(received.headers["x-api-key"], KEY);
    world.convoke(["stop"]).code(0);

    let base = world.model.base_url();
    let env = [("OPENAI_API_KEY", KEY), ("OPENAI_BASE_URL", base.as_str())];
    assert_eq!(with_env(&world, &["run", "hello"], &env).code(0).stdout, "ok\n");
    let received = world.model.last().unwrap();
    assert_eq!(received.path, "/v1/chat/completions");
    assert_eq!(received.headers["authorization"], format!("Bearer {KEY}"));
}

#[test]
fn a_provider_speaks_the_wire_that_is_set_and_models_say_so_without_the_key() {
    for (wire, path) in
        [("anthropic", "/v1/messages"), ("openai-responses", "/v1/responses"), ("openai-chat", "/v1/chat/completions")]
    {
        let model = FakeModel::scripted(|received| match received.step() {
            0 => Reply::calls([("read", json!({ "filePath": "README.md" }))]).thinking("hm"),
            _ => Reply::text("read it").usage(1_000, 100),
        });
        let base_url = if wire == "anthropic" { model.origin() } else { model.base_url() };
        let cost = json!({ "input": 1.0, "output": 10.0 });
        let home = TempHome::bare().config_json(json!({
            "model": "acme/small",
            "provider": { "acme": {
                "wire": wire, "base_url": base_url, "api_key": KEY,
                "models": { "small": { "context": 50_000, "output": 1_000, "cost": cost } },
            } },
        }));
        let world = World { model, home, repo: RepoDir::new() };
        let done = world.convoke(["run", "--json", "read it"]).code(0);
        let run = done.lines().pop().unwrap();
        assert_eq!((&run["text"], &run["status"]), (&json!("read it"), &json!("ok")), "{wire}");
        // The first step was not counted by the server; of the second the price is known.
        assert!(run["usage"]["costUsd"].as_f64().unwrap() >= 0.002, "{wire}: {run}");
        assert_eq!(world.model.last().unwrap().path, path);
        let models = world.convoke(["models", "--json"]).code(0);
        assert!(!models.stdout.contains(KEY));
        let listed = models.json();
        assert_eq!(listed["default"], "acme/small");
        assert_eq!(
            listed["models"][0],
            json!({
                "name": "acme/small", "provider": "acme", "model": "small", "wire": wire, "context": 50_000,
                "output": 1_000, "cost": cost, "reasoning": false, "variants": [], "images": false, "key": "config",
            })
        );
        let text = world.convoke(["models"]).code(0).stdout;
        assert!(text.contains("acme/small") && text.contains("(default)") && !text.contains(KEY), "{text}");
    }
}

#[test]
fn models_of_a_vendor_with_a_key_are_known_and_a_file_may_know_better() {
    let world = bare(FakeModel::start());
    let env = [("ANTHROPIC_API_KEY", KEY)];
    let find = |name: &str| {
        let listed = with_env(&world, &["models", "--json"], &env).code(0).json();
        let models = listed["models"].as_array().unwrap().clone();
        models.into_iter().find(|model| model["name"] == name).unwrap_or_else(|| panic!("{listed}"))
    };
    let sonnet = find("anthropic/claude-sonnet-4-5");
    assert_eq!((&sonnet["wire"], &sonnet["key"]), (&json!("anthropic"), &json!("env:ANTHROPIC_API_KEY")));
    assert_eq!((&sonnet["cost"]["cacheRead"], &sonnet["images"]), (&json!(0.3), &json!(true)));
    let file = world.home.path().join("config/models.json");
    std::fs::write(&file, r#"{ "anthropic": { "claude-sonnet-4-5": { "context": 1000000 } } }"#).unwrap();
    assert_eq!(find("anthropic/claude-sonnet-4-5")["context"], 1_000_000);
    std::fs::write(&file, r#"{ "anthropic": { "x": { "contxt": 1 } } }"#).unwrap();
    with_env(&world, &["models"], &env).code(2).says("models.json").says("contxt").says("hint: ");
}

#[test]
fn a_vendor_without_its_key_is_told_with_what_is_missing() {
    let world = bare(FakeModel::start());
    world.convoke(["run", "-m", "anthropic/claude-sonnet-4-5", "x"]).code(2).says("ANTHROPIC_API_KEY");
}

#[test]
fn a_busy_server_is_tried_again_and_whoever_waits_is_told() {
    let model = FakeModel::scripted(|received| match received.n {
        0 => Reply::deltas(["half an ", "answer"]).dies_after(1),
        1 => Reply::raw(429, r#"{"error":{"message":"slow down"}}"#).header("retry-after-ms", "5"),
        _ => Reply::text("whole"),
    });
    let world = World::with(model);
    let done = world.convoke(["run", "x"]).code(0).says("trying again in").says("slow down");
    assert_eq!(done.stdout, "whole\n");
}

#[test]
fn a_file_goes_along_with_the_prompt_and_one_that_cannot_be_read_is_named() {
    let world = World::new();
    std::fs::write(world.repo.path().join("shot.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    world.convoke(["run", "-f", "shot.png", "--file", "README.md", "what is this?"]).code(0);
    let lines = world.model.last().unwrap().lines();
    let line = lines.iter().find(|line| line.role == "user").unwrap();
    assert_eq!(line.files, 1);
    assert!(line.text.contains("what is this?") && line.text.contains("# Sample"), "{}", line.text);
    world.convoke(["run", "-f", "missing.png", "x"]).code(2).says("missing.png");
}

#[test]
fn a_key_that_was_logged_in_with_is_used_and_its_place_told() {
    let model = FakeModel::start();
    let home = TempHome::bare().config_json(json!({ "provider": { "anthropic": { "base_url": model.origin() } } }));
    let world = World { model, home, repo: RepoDir::new() };
    let mut login = world.command(["auth", "login", "anthropic"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut login.stdin.take().unwrap(), KEY.as_bytes()).unwrap();
    Done::of(login.wait_with_output().unwrap()).code(0);
    let listed = world.convoke(["models", "--json"]).code(0);
    assert!(!listed.stdout.contains(KEY));
    assert_eq!(listed.json()["models"][0]["key"], "file", "{}", listed.stdout);
    world.convoke(["run", "hello"]).code(0);
    assert_eq!(world.model.last().unwrap().headers["x-api-key"], KEY);
}
