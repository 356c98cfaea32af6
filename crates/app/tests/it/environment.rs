//! The environment of commands: what reaches them, who says so, and what replaces a gateway.

use crate::World;
use serde_json::{Value, json};
use std::fs;
use testkit::{FakeModel, Reply, RepoDir, TempHome};

const SECRET: &str = concat!("sk-", "AbCdEfGh12345678IjKl");

/// A model that has the environment printed, and repeats what it was told.
fn world(settings: Value) -> World {
    let model = FakeModel::scripted(|received| match received.step() {
        0 => Reply::calls([("bash", json!({ "command": "env" }))]),
        _ => Reply::text(received.last("tool").unwrap_or_default()),
    });
    let home = TempHome::new(&model).config_json(settings);
    World { model, home, repo: RepoDir::new() }
}

fn printed(world: &World, env: &[(&str, &str)]) -> (String, String) {
    let output = world.command(["run", "print it"]).envs(env.iter().copied()).output().unwrap();
    let done = crate::Done::of(output).code(0);
    (done.stdout, done.stderr)
}

#[test]
fn commands_get_a_list_of_variables_and_what_settings_add_but_no_secrets() {
    let env =
        [("APP_MODE", "fast"), ("APP_TOKEN", SECRET), ("ACME_API_KEY", SECRET), ("OTHER", "one"), ("LC_ALL", "C")];
    let (plain, _) = printed(&world(json!({})), &env);
    for (name, there) in [("PATH=", true), ("LC_ALL=C", true), ("TERM=dumb", true), ("APP_", false), ("OTHER", false)] {
        assert_eq!(plain.contains(name), there, "{name}: {plain}");
    }
    let set = json!({ "GREETING": "hello" });
    let added = world(json!({ "sandbox": { "env": { "pass": ["APP_*", "OTHER"], "set": set } } }));
    let (added, warned) = printed(&added, &env);
    assert!(["APP_MODE=fast", "OTHER=one", "GREETING=hello"].iter().all(|line| added.contains(line)), "{added}");
    assert!(!added.contains("TOKEN") && !added.contains("API_KEY") && !warned.contains("secret"), "{added}{warned}");
}

#[test]
fn a_secret_that_is_passed_by_name_is_warned_about() {
    let world = world(json!({ "sandbox": { "env": { "pass": ["ACME_API_KEY"] } } }));
    let (printed, warned) = printed(&world, &[("ACME_API_KEY", "not-a-shape")]);
    assert!(printed.contains("ACME_API_KEY="), "{printed}");
    assert!(warned.contains("`ACME_API_KEY` looks like a secret"), "{warned}");
    let wrong = TempHome::new(&world.model).config_json(json!({ "sandbox": { "env": { "pass": ["A=B"] } } }));
    let wrong = World { model: FakeModel::start(), home: wrong, repo: RepoDir::new() };
    wrong.convoke(["run", "x"]).code(2).says("not the name of a variable");
}

#[test]
fn doctor_and_why_say_what_a_command_gets() {
    let world = world(json!({ "sandbox": { "env": { "pass": ["APP_MODE", "GONE"], "set": { "CI": "1" } } } }));
    let ask = |args: &[&str]| {
        let output = world.command(args).env("APP_MODE", "x").env("OPENAI_API_KEY", SECRET).output().unwrap();
        crate::Done::of(output).code(0)
    };
    let names = |list: &Value| list.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    let said = ask(&["doctor", "--json"]).json()["environment"].clone();
    let doctor: Vec<String> = names(&said["variables"]);
    let why: Vec<String> = names(&ask(&["why", "bash", "ls", "--json"]).json()["environment"]);
    for list in [&doctor, &why] {
        let has = |name: &str| list.iter().any(|known| known == name);
        assert!(has("PATH") && has("APP_MODE") && has("CI") && !has("OPENAI_API_KEY") && !has("GONE"), "{list:?}");
    }
    assert_eq!((&said["pass"], &said["set"]), (&json!(["APP_MODE", "GONE"]), &json!(["CI"])));
    let words = ask(&["doctor"]).stdout;
    assert!(
        words.contains("commands get APP_MODE, CI, ") && words.contains("`GONE`, which is not set here"),
        "{words}"
    );
    assert!(ask(&["why", "bash", "ls"]).stdout.contains("the command gets: APP_MODE, CI, "));
    assert!(!ask(&["why", "read", "x"]).stdout.contains("the command gets"));
}

#[test]
fn a_repository_that_is_not_trusted_lets_nothing_through() {
    let world = world(json!({}));
    let own = json!({ "sandbox": { "env": { "pass": ["OTHER"], "set": { "LD_PRELOAD": "x" } } } });
    fs::write(world.repo.path().join("convoke.jsonc"), own.to_string()).unwrap();
    let (before, _) = printed(&world, &[("OTHER", "one")]);
    assert!(!before.contains("OTHER=") && !before.contains("LD_PRELOAD"), "{before}");
}

#[test]
fn only_variables_that_matter_replace_a_gateway() {
    let world = world(json!({ "sandbox": { "env": { "pass": ["APP_*"] } }, "small_model": "{env:SMALL}" }));
    let gateway = |env: &[(&str, &str)]| {
        let all = [("SMALL", "offline/plain"), ("APP_MODE", "1")].iter().chain(env).copied().collect::<Vec<_>>();
        printed(&world, &all);
        world.gateway_pid()
    };
    let first = gateway(&[]);
    for (name, value) in [("LS_COLORS", "a"), ("DIRENV_DIFF", "b"), ("EDITOR", "vi"), ("FZF_OPTS", "c"), ("TERM", "x")]
    {
        assert_eq!(gateway(&[(name, value)]), first, "{name} does not matter");
    }
    let mut last = first;
    for (name, value) in [
        ("APP_MODE", "2"),
        ("LANG", "C.UTF-8x"),
        ("SMALL", "offline/echo"),
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:1"),
        ("X_API_KEY", "k"),
    ] {
        let next = gateway(&[(name, value)]);
        assert_ne!(next, last, "{name} matters");
        last = next;
    }
}
