//! The settings file as a whole: what is read from it, and what is said when something is wrong.

use insta::assert_snapshot;
use proto::Action::{Allow, Ask, Deny};
use serde_json::json;

use super::*;
use crate::read::LARGEST_FILE;
use std::fs;

fn env() -> Environment {
    [("KEY", "hunter2"), ("PORT", "8080")].into_iter().collect()
}

fn read(text: &str) -> Result<Loaded, Error> {
    resolve::parse("convoke.jsonc", text, &env())
}

#[track_caller]
fn good(text: &str) -> Loaded {
    let loaded = read(text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.warnings, Vec::<String>::new());
    loaded
}

/// For each file the message and the hint, as a person sees them.
#[track_caller]
fn bad(texts: &[&str]) -> String {
    let shown = texts.iter().map(|text| {
        let error = read(text).map(|_| ()).expect_err(text);
        assert!(error.message.starts_with("convoke.jsonc:") && !error.hint.is_empty(), "{error:?}");
        format!("{}\n    {}\n", error.message, error.hint)
    });
    shown.collect()
}

#[track_caller]
fn warnings(text: &str) -> String {
    read(text).unwrap_or_else(|error| panic!("{error}")).warnings.join("\n")
}

#[test]
fn no_file_is_no_settings() {
    let home = tempfile::tempdir().unwrap();
    let loaded = load(&Paths::under(home.path()), &env()).unwrap();
    let (other, turns) = (loaded.config.other.clone(), Some(5));
    assert_eq!((loaded.config, loaded.warnings), (Config { other, turns, ..Config::default() }, Vec::new()));
}

#[test]
fn a_file_is_read_from_its_home() {
    let home = tempfile::tempdir().unwrap();
    let paths = Paths::under(home.path());
    paths.ensure().unwrap();
    let empty = load(&paths, &env()).unwrap().text_hash;
    fs::write(paths.config.join("convoke.json"), r#"{"model": "a/b"}"#).unwrap();
    let plain = load(&paths, &env()).unwrap();
    assert_eq!(plain.config.model.as_deref(), Some("a/b"));
    assert_ne!(plain.text_hash, empty);
    fs::write(paths.config.join("convoke.jsonc"), "\u{feff}// mine\n{\"model\": \"c/d\",}").unwrap();
    let commented = load(&paths, &env()).unwrap();
    assert_eq!(commented.config.model.as_deref(), Some("c/d"));
    assert!(commented.warnings[0].ends_with("not read, because `convoke.jsonc` is there as well"));
}

#[test]
fn a_file_that_is_not_text_is_refused_with_its_place() {
    let home = tempfile::tempdir().unwrap();
    let paths = Paths::under(home.path());
    paths.ensure().unwrap();
    fs::write(paths.config_file(), b"{\n \"a\xff\"}").unwrap();
    let error = load(&paths, &env()).unwrap_err();
    assert_eq!(error.message, format!("{}:2:4: not UTF-8", paths.config_file().display()));
}

#[test]
fn a_whole_file_is_read() {
    let loaded = good(
        r#"{
            "$schema": "x", "model": "local/qwen/3", "small_model": "local/tiny", "default_agent": "Build", "permission_mode": "plan",
            "provider": { "local": {
                "wire": "openai-chat", "base_url": "http://localhost:{env:PORT}/v1/", "api_key": "{env:KEY}",
                "headers": { "X-Team": "blue" }, "models": { "qwen/3": { "context": 32768, "output": 4096 } }
            } },
            "limits": { "depth": 5, "costUsd": 2.5, "askMinutes": 0.5 },
            "sandbox": { "mode": "off" },
            "tools": { "sessions": { "visibility": "tree" } }
        }"#,
    );
    let config = loaded.config;
    assert_eq!(config.small_model.as_deref(), Some("local/tiny"));
    assert_eq!((config.model.as_deref(), config.default_agent.as_deref()), (Some("local/qwen/3"), Some("build")));
    assert_eq!(config.permission_mode, Some("plan"));
    let local = &config.provider["local"];
    assert_eq!((local.wire, local.base_url.as_deref()), (Some(Wire::OpenaiChat), Some("http://localhost:8080/v1")));
    assert_eq!(local.api_key.as_ref().map(Secret::expose), Some("hunter2"));
    assert_eq!(local.models["qwen/3"], ModelLimits { context: Some(32768), output: Some(4096), ..Default::default() });
    assert_eq!(config.limits, Limits { depth: 5, cost_usd: 2.5, ask_ms: 30_000, ..Limits::default() });
    assert_eq!(config.sandbox.held.mode, Some(SandboxMode::Off));
    assert_eq!(config.other["tools"], json!({ "sessions": { "visibility": "tree" } }));
}

#[test]
fn the_defaults_are_those_of_the_specification() {
    assert_snapshot!(serde_json::to_string(&Limits::default()).unwrap(), @r#"{"depth":3,"children":100,"running":32,"agents":500,"costUsd":50.0,"calls":8,"queue":1000,"hops":8,"exchanges":200,"gateway":512,"askMs":1800000,"shutdownMs":60000,"idleMs":300000,"outputMs":2592000000,"outputBytes":2147483648,"mailMs":2592000000}"#);
}

#[test]
fn every_known_limit_can_be_set() {
    for key in limits::KEYS {
        let limits = good(&format!(r#"{{"limits": {{"{key}": 7}}}}"#)).config.limits;
        assert_ne!(limits, Limits::default(), "{key}");
    }
}

#[test]
fn every_untyped_section_is_accepted_and_said_to_be_unused_where_it_is() {
    for key in UNTYPED {
        let loaded = read(&format!(r#"{{"{key}": {{"a": [1]}}}}"#)).unwrap();
        assert_eq!(loaded.config.other[*key], json!({"a": [1]}));
        assert_eq!(loaded.warnings.len(), usize::from(UNUSED.contains(key)), "{key}: {:?}", loaded.warnings);
    }
}

#[test]
fn gateways_hooks_and_the_rest_are_read() {
    let config = good(
        r#"{
            "peers": [{ "name": "office", "url": "https://office.example/", "token": "{env:KEY}", "ca": "ca.pem",
                        "inbound": "refuse" }],
            "inbound": "hold",
            "hooks": { "tool.before": ["a", { "command": "b", "match": "bash", "timeoutSeconds": 5 }],
                       "worktree_create": "make" },
            "tools": { "search": "auto:25" }, "worktree": { "base": "fresh" },
            "tls": { "cert": "/c.pem", "key": "k.pem" }, "organisation": { "url": "https://example.org" },
            "instructions": ["docs/house.md"], "sandbox": { "mode": "read-only" }
        }"#,
    )
    .config;
    let office = &config.peers[0];
    assert_eq!((office.name.as_str(), office.url.as_str()), ("office", "https://office.example"));
    assert_eq!((office.token.as_ref().map(Secret::expose), office.inbound), (Some("hunter2"), Some(Inbound::Refuse)));
    assert_eq!((office.ca.as_deref(), config.inbound), (Some(Path::new("ca.pem")), Some(Inbound::Hold)));
    let before = &config.hooks["tool.before"];
    assert_eq!((before[0].command.as_str(), before[0].only.as_str(), before[0].timeout_ms), ("a", "*", 60_000));
    assert_eq!((before[1].command.as_str(), before[1].only.as_str(), before[1].timeout_ms), ("b", "bash", 5_000));
    assert_eq!(config.hooks["worktree_create"].len(), 1);
    assert_eq!((config.search, config.worktree.base), (Search::Auto(25), Base::Fresh));
    assert_eq!(config.tls, Some(Tls { cert: "/c.pem".into(), key: "k.pem".into() }));
    assert_eq!(config.organisation.url.as_deref(), Some("https://example.org"));
    assert_eq!(
        (config.instructions, config.sandbox.held.mode),
        (vec!["docs/house.md".to_owned()], Some(SandboxMode::ReadOnly))
    );
    for (word, search) in [("on", Search::On), ("off", Search::Off), ("auto", Search::Auto(10))] {
        assert_eq!(good(&format!(r#"{{"tools": {{"search": "{word}"}}}}"#)).config.search, search);
    }
}

#[test]
fn what_cannot_work_between_gateways_is_refused() {
    assert_snapshot!(bad(&[
        r#"{ "peers": {} }"#,
        r#"{ "peers": [{ "name": "a" }] }"#,
        r#"{ "peers": [{ "url": "https://h" }] }"#,
        r#"{ "peers": [{ "name": "a b", "url": "https://h" }] }"#,
        r#"{ "peers": [{ "name": "a", "url": "h" }] }"#,
        r#"{ "peers": [{ "name": "a", "url": "https://h" }, { "name": "a", "url": "https://i" }] }"#,
        r#"{ "inbound": "maybe" }"#,
        r#"{ "hooks": { "tool.before": 1 } }"#,
        r#"{ "hooks": { "tool.before": [{ "match": "x" }] } }"#,
        r#"{ "hooks": { "tool.before": "" } }"#,
        r#"{ "tools": { "search": "auto:0" } }"#,
        r#"{ "worktree": { "base": "main" } }"#,
        r#"{ "compaction": { "auto": "no" } }"#,
        r#"{ "tls": { "cert": "a" } }"#,
        r#"{ "tls": { "key": "" } }"#,
        r#"{ "organisation": { "url": "example.org" } }"#,
        r#"{ "instructions": "AGENTS.md" }"#,
        r#"{ "sandbox": { "mode": "on" } }"#,
    ]), @r#"
    convoke.jsonc:1:12: `peers` must be an array, not an object
        write it as `[ … ]`
    convoke.jsonc:1:13: `peers[0]` has no `url`
        write `{ "name": "office", "url": "https://office.example:7077", "token": … }`
    convoke.jsonc:1:13: `peers[0]` has no `name`
        write `{ "name": "office", "url": "https://office.example:7077", "token": … }`
    convoke.jsonc:1:23: `peers[0].name` cannot be `a b`
        use letters, digits, `.`, `_` or `-`, at most 64 in all
    convoke.jsonc:1:35: `peers[0].url` is not a URL
        start it with `https://` or `http://`, and leave no blanks in it
    convoke.jsonc:1:50: `peers[1]` is the second peer called `a`
        give each peer a name of its own
    convoke.jsonc:1:14: `inbound` cannot be `maybe`
        use `accept` or `hold` or `refuse`
    convoke.jsonc:1:29: `hooks.tool.before` must be a command or an object, not a number
        write a command, or a list of `{ "command": …, "match": …, "timeoutSeconds": … }`
    convoke.jsonc:1:30: `hooks.tool.before[0]` has no `command`
        write a command, or a list of `{ "command": …, "match": …, "timeoutSeconds": … }`
    convoke.jsonc:1:29: `hooks.tool.before` is empty
        write the command to run, or leave the hook out
    convoke.jsonc:1:24: `tools.search` cannot be `auto:0`
        use `on`, `off`, `auto`, or `auto:20` for 20 percent of the context
    convoke.jsonc:1:25: `worktree.base` cannot be `main`
        use `head` or `fresh`
    convoke.jsonc:1:27: `compaction.auto` must be a boolean, not a string
        write `true` or `false`, without quotes
    convoke.jsonc:1:10: `tls` has no `key`
        name two PEM files, `cert` and `key`, or leave `tls` out
    convoke.jsonc:1:19: `tls.key` is not a path
        name a file
    convoke.jsonc:1:28: `organisation.url` is not a URL
        start it with `https://` or `http://`, and leave no blanks in it
    convoke.jsonc:1:19: `instructions` must be an array, not a string
        write it as `[ … ]`
    convoke.jsonc:1:24: `sandbox.mode` cannot be `on`
        use `off` or `read-only` or `workspace`
    "#);
}

#[test]
fn permissions_keep_their_order_and_their_place() {
    let loaded = good(
        r#"{ "permission": {
            "edit": "ask",
            "bash": {
                "*": "allow",
                "git push*": "deny",
            },
            "*": "deny",
        } }"#,
    );
    let expected = [
        (Rule::new("edit", "*", Ask), "convoke.jsonc:2".to_owned()),
        (Rule::new("bash", "*", Allow), "convoke.jsonc:4".to_owned()),
        (Rule::new("bash", "git push*", Deny), "convoke.jsonc:5".to_owned()),
        (Rule::new("*", "*", Deny), "convoke.jsonc:7".to_owned()),
    ];
    let places = loaded.rule_places.iter();
    let places: Vec<_> = places.map(|p| (p.rule.clone(), format!("{}:{}", p.origin.file, p.origin.line))).collect();
    assert_eq!(places, expected);
    assert_eq!(loaded.config.permission, expected.map(|(rule, _)| rule));
    assert_eq!(good(r#"{"permission": "allow"}"#).config.permission, [Rule::new("*", "*", Allow)]);
}

#[test]
fn an_agent_is_read_and_its_unknown_keys_are_options() {
    let loaded = good(
        r#"{ "agent": { "Reviewer": {
            "description": "reads", "mode": "subagent", "model": "a/b", "temperature": 0.2, "top_p": 1,
            "prompt": "be kind", "hidden": true, "color": "blue", "steps": 4, "tools": { "bash": false },
            "options": { "seed": 1 }, "reasoningEffort": "low",
            "permission": { "edit": "deny" }
        }, "plan": { "disable": true, "tools": ["read", "grep"] } } }"#,
    );
    let reviewer = &loaded.config.agent["reviewer"];
    assert_eq!((reviewer.mode, reviewer.steps, reviewer.hidden), (Some(Mode::Subagent), Some(4), Some(true)));
    assert_eq!((reviewer.temperature, reviewer.top_p), (Some(0.2), Some(1.0)));
    assert_eq!(Value::Object(reviewer.options.clone()), json!({"seed": 1, "reasoningEffort": "low"}));
    assert_eq!(reviewer.tools, [("bash".to_owned(), false)]);
    assert_eq!(reviewer.permission, [Rule::new("edit", "*", Deny)]);
    assert_eq!(loaded.agent_rule_places["reviewer"][0].origin.line, 5);
    let plan = &loaded.config.agent["plan"];
    assert!(plan.disable && !reviewer.disable);
    assert_eq!(
        plan.tools,
        [("*", false), ("read", true), ("grep", true)].map(|(name, shown)| (name.to_owned(), shown))
    );
}

#[test]
fn secrets_are_not_shown() {
    let loaded = good(
        r#"{"provider": {"p": {"base_url": "http://h", "api_key": "{env:KEY}", "headers": {"X-Key": "{env:KEY}"}}}}"#,
    );
    let shown = format!("{loaded:?} {}", serde_json::to_string(&loaded.config).unwrap());
    assert!(!shown.contains("hunter2") && shown.contains("X-Key"), "{shown}");
}

#[test]
fn odd_things_are_warnings() {
    assert_snapshot!(warnings(r#"{
        "permision": "allow",
        "limits": { "dept": 1, "cost_usd": 3, "depth": 1, "depth": 2 },
        "sandbox": { "mod": "off" },
        "provider": { "p": { "base_url": "http://h/{env:NONE}", "apiKey": "x", "models": { "m": { "contxt": 1 } } } },
        "model": "a/b",
        "model": "c/d"
    }"#), @"
    convoke.jsonc:3: `limits.depth` is set twice; the later one counts
    convoke.jsonc:7: `model` is set twice; the later one counts
    convoke.jsonc:5: the variable `NONE` of `provider.p.base_url` is not set; nothing is put in its place
    convoke.jsonc:2: unknown key `permision` is ignored; the nearest known key is `permission`
    convoke.jsonc:3: unknown key `limits.dept` is ignored; the nearest known key is `depth`
    convoke.jsonc:3: unknown key `limits.cost_usd` is ignored; the nearest known key is `costUsd`
    convoke.jsonc:4: unknown key `sandbox.mod` is ignored; the nearest known key is `mode`
    convoke.jsonc:5: unknown key `provider.p.apiKey` is ignored; the nearest known key is `api_key`
    convoke.jsonc:5: unknown key `provider.p.models.m.contxt` is ignored; the nearest known key is `context`
    ");
}

#[test]
fn a_key_from_a_variable_that_is_not_set_is_no_key() {
    let loaded = read(r#"{"provider": {"p": {"base_url": "http://h", "api_key": "{env:NONE}"}}}"#).unwrap();
    assert_eq!((loaded.config.provider["p"].api_key.as_ref(), loaded.warnings.len()), (None, 1));
}

#[test]
fn broken_syntax_is_refused_with_its_place() {
    assert_snapshot!(bad(&[
        "{\n  \"model\": \"a/b\"\n  \"limits\": {}\n}",
        "{ \"model\": }",
        "{ \"model\": \"a",
        "{ model: 1 }",
        "{ 'model': 1 }",
        "{} {}",
        "[]",
        "\"allow\"",
        "{ /* ",
        "{ \"limits\": { \"costUsd\": 1e999 } }",
    ]), @r#"
    convoke.jsonc:2:17: expected comma
        the file is JSON; comments and trailing commas are fine
    convoke.jsonc:1:12: unexpected close brace
        the file is JSON; comments and trailing commas are fine
    convoke.jsonc:1:12: unterminated string literal
        the file is JSON; comments and trailing commas are fine
    convoke.jsonc:1:3: expected string for object property
        the file is JSON; comments and trailing commas are fine
    convoke.jsonc:1:3: single-quoted strings are not allowed
        the file is JSON; comments and trailing commas are fine
    convoke.jsonc:1:4: text cannot contain more than one JSON value
        the file is JSON; comments and trailing commas are fine
    convoke.jsonc:1:1: the file must be an object, not an array
        write it as `{ … }`
    convoke.jsonc:1:1: the file must be an object, not a string
        write it as `{ … }`
    convoke.jsonc:1:3: unterminated comment block
        the file is JSON; comments and trailing commas are fine
    convoke.jsonc:1:26: `1e999` is not a usable number
        write a smaller one
    "#);
    let deep = format!("{}{}", "{\"a\":".repeat(5000), "}".repeat(5000));
    assert!(read(&deep).is_err());
}

#[test]
fn wrong_types_and_values_are_refused_with_their_place() {
    assert_snapshot!(bad(&[
        "{ \"model\": 1 }",
        "{ \"model\": \"gpt\" }",
        "{ \"default_agent\": \"no such name\" }",
        "{ \"permission_mode\": \"yolo\" }",
        "{ \"limits\": [] }",
        "{ \"limits\": {\n    \"depth\": -1 } }",
        "{ \"limits\": { \"depth\": 1.5 } }",
        "{ \"limits\": { \"depth\": \"3\" } }",
        "{ \"limits\": { \"calls\": 0 } }",
        "{ \"limits\": { \"costUsd\": -0.5 } }",
        "{ \"limits\": { \"askMinutes\": true } }",
        "{ \"sandbox\": { \"mode\": null } }",
        "{ \"sandbox\": { \"isolated\": 1 } }",
        "{ \"sandbox\": { \"sessionToolsVisibility\": \"tree\" } }",
        "{ \"permission\": \"maybe\" }",
        "{ \"permission\": [] }",
        "{ \"permission\": { \"edit\": 1 } }",
        "{ \"permission\": { \"bash\": { \"git *\": \"yes\" } } }",
        "{ \"agent\": { \"a b\": {} } }",
        "{ \"agent\": { \"a\": { \"mode\": \"main\" } } }",
        "{ \"agent\": { \"a\": { \"temperature\": 3 } } }",
        "{ \"agent\": { \"a\": { \"steps\": 0 } } }",
        "{ \"agent\": { \"a\": { \"tools\": \"read\" } } }",
        "{ \"agent\": { \"a\": { \"tools\": [\"read\", 1] } } }",
        "{ \"agent\": { \"a\": { \"tools\": { \"sessions\": { \"visibility\": \"every\" } } } } }",
        "{ \"agent\": { \"a\": { \"tools\": { \"sessions\": { \"visibility\": { \"read\": \"all\" } } } } } }",
        "{ \"agent\": { \"a\": { \"sandbox\": { \"isolated\": \"yes\" } } } }",
        "{ \"agent\": { \"a\": { \"disable\": \"true\" } } }",
    ]), @r#"
    convoke.jsonc:1:12: `model` must be a string, not a number
        put the value in double quotes
    convoke.jsonc:1:12: `model` cannot be `gpt`
        name the provider and the model, as in `local/llama-3`
    convoke.jsonc:1:20: `no such name` is not an agent's name
        use a letter or digit, then letters, digits, `_` or `-`, at most 64 in all
    convoke.jsonc:1:22: `permission_mode` cannot be `yolo`
        use `ask` or `accept-edits` or `plan` or `auto`
    convoke.jsonc:1:13: `limits` must be an object, not an array
        write it as `{ … }`
    convoke.jsonc:2:14: `limits.depth` cannot be -1
        write a whole number from 0 to 10000000, without quotes
    convoke.jsonc:1:24: `limits.depth` cannot be 1.5
        write a whole number from 0 to 10000000, without quotes
    convoke.jsonc:1:24: `limits.depth` must be a whole number, not a string
        write a whole number from 0 to 10000000, without quotes
    convoke.jsonc:1:24: `limits.calls` cannot be 0
        write a whole number from 1 to 10000000, without quotes
    convoke.jsonc:1:26: `limits.costUsd` cannot be -0.5
        write a number from 0 to 10000000, without quotes
    convoke.jsonc:1:29: `limits.askMinutes` must be a number, not a boolean
        write a number from 0 to 525600, without quotes
    convoke.jsonc:1:24: `sandbox.mode` must be a string, not null
        put the value in double quotes
    convoke.jsonc:1:28: `sandbox.isolated` must be a boolean, not a number
        write `true` or `false`, without quotes
    convoke.jsonc:1:42: `sandbox.sessionToolsVisibility` cannot be `tree`
        use `spawned` or `all`
    convoke.jsonc:1:17: `permission` cannot be `maybe`
        use `allow` or `ask` or `deny`
    convoke.jsonc:1:17: `permission` must be an action or an object, not an array
        write an action, or an object of tools: `{ "edit": "ask", "bash": { "git *": "allow" } }`
    convoke.jsonc:1:27: `permission.edit` must be an action or an object, not a number
        write an action, or an object of tools: `{ "edit": "ask", "bash": { "git *": "allow" } }`
    convoke.jsonc:1:38: `permission.bash.git *` cannot be `yes`
        use `allow` or `ask` or `deny`
    convoke.jsonc:1:14: `a b` is not an agent's name
        use a letter or digit, then letters, digits, `_` or `-`, at most 64 in all
    convoke.jsonc:1:29: `agent.a.mode` cannot be `main`
        use `primary` or `subagent` or `all`
    convoke.jsonc:1:36: `agent.a.temperature` cannot be 3
        write a number from 0 to 2, without quotes
    convoke.jsonc:1:30: `agent.a.steps` cannot be 0
        write a whole number from 1 to 1000000, without quotes
    convoke.jsonc:1:30: `agent.a.tools` must be an array or an object, not a string
        write `["read", "grep"]` or `{ "bash": false }`
    convoke.jsonc:1:39: `agent.a.tools[1]` must be a string, not a number
        put the value in double quotes
    convoke.jsonc:1:60: `agent.a.tools.sessions.visibility` cannot be `every`
        use `self` or `tree` or `agent` or `all`
    convoke.jsonc:1:70: `agent.a.tools.sessions.visibility.read` is nothing that can be done
        use `default`, `list`, `history`, `send`, `status`, `control`
    convoke.jsonc:1:46: `agent.a.sandbox.isolated` must be a boolean, not a string
        write `true` or `false`, without quotes
    convoke.jsonc:1:32: `agent.a.disable` must be a boolean, not a string
        write `true` or `false`, without quotes
    "#);
}

#[test]
fn a_provider_that_cannot_work_is_refused_without_telling_its_secrets() {
    assert_snapshot!(bad(&[
        "{ \"provider\": { \"p\": {} } }",
        "{ \"provider\": { \"a/b\": {} } }",
        "{ \"provider\": { \"p\": { \"wire\": \"smoke\" } } }",
        "{ \"provider\": { \"p\": { \"base_url\": \"user:hunter2@host\" } } }",
        "{ \"provider\": { \"p\": { \"api_key\": [\"hunter2\"] } } }",
        "{ \"provider\": { \"p\": { \"headers\": { \"X Key\": \"1\" } } } }",
        "{ \"provider\": { \"p\": { \"headers\": { \"X-Key\": \"hunter2\\n\" } } } }",
        "{ \"provider\": { \"p\": { \"models\": { \"m\": { \"context\": 0 } } } } }",
        "{ \"provider\": { \"p\": { \"concurrency\": 0 } } }",
        "{ \"provider\": { \"p\": { \"retries\": 6 } } }",
        "{ \"provider\": { \"p\": { \"models\": { \"m\": { \"cost\": { \"input\": -1 } } } } } }",
        "{ \"provider\": { \"p\": { \"models\": { \"m\": { \"effort\": \"huge\" } } } } }",
    ]), @r#"
    convoke.jsonc:1:22: `provider.p` has no `base_url`
        add where it is reached, such as `"base_url": "http://localhost:8080/v1"`
    convoke.jsonc:1:17: `a/b` is not a provider's name
        a model is named `provider/model`: use a name without `/` and blanks
    convoke.jsonc:1:32: `provider.p.wire` cannot be `smoke`
        use `anthropic` or `openai-responses` or `openai-chat`
    convoke.jsonc:1:36: `provider.p.base_url` is not a URL
        start it with `https://` or `http://`, and leave no blanks in it
    convoke.jsonc:1:35: `provider.p.api_key` must be a string, not an array
        put the value in double quotes
    convoke.jsonc:1:46: `provider.p.headers.X Key` is not the name of a header
        use letters, digits and `-`
    convoke.jsonc:1:46: `provider.p.headers.X-Key` holds a control character
        write the value on one line
    convoke.jsonc:1:54: `provider.p.models.m.context` cannot be 0
        write a whole number from 1 to 1000000000, without quotes
    convoke.jsonc:1:39: `provider.p.concurrency` cannot be 0
        write a whole number from 1 to 10000, without quotes
    convoke.jsonc:1:35: `provider.p.retries` cannot be 6
        write a whole number from 0 to 5, without quotes
    convoke.jsonc:1:62: `provider.p.models.m.cost.input` cannot be -1
        write a number from 0 to 10000, without quotes
    convoke.jsonc:1:53: `provider.p.models.m.effort` cannot be `huge`
        use `low` or `medium` or `high`
    "#);
}

#[test]
fn a_provider_says_how_it_is_asked_and_what_its_models_cost() {
    let loaded = good(
        r#"{ "provider": { "anthropic": {
            "api_key_command": "pass show key", "concurrency": 4, "retries": 0,
            "models": { "m": { "cost": { "input": 3, "output": 15, "cache_read": 0.3 }, "effort": "high", "images": true } }
        } } }"#,
    );
    let vendor = &loaded.config.provider["anthropic"];
    assert_eq!(
        (vendor.wire, vendor.base_url.as_deref(), vendor.concurrency, vendor.retries),
        (None, None, Some(4), Some(0))
    );
    let cost = Cost { input: 3.0, output: 15.0, cache_read: Some(0.3), cache_write: None };
    let expected =
        ModelLimits { cost: Some(cost), effort: Some(Effort::High), images: Some(true), ..Default::default() };
    assert_eq!(vendor.models["m"], expected);
}

#[test]
fn a_file_of_the_wrong_kind_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let paths = Paths::under(home.path());
    fs::create_dir_all(paths.config_file().join("sub")).unwrap();
    assert!(load(&paths, &env()).unwrap_err().message.contains("cannot be read"));
    // An empty directory keeps the place of a file that must not be made.
    fs::remove_dir(paths.config_file().join("sub")).unwrap();
    assert!(load(&paths, &env()).is_ok());
    fs::remove_dir(paths.config_file()).unwrap();
    fs::write(paths.config_file(), " ".repeat(LARGEST_FILE as usize + 1)).unwrap();
    assert!(load(&paths, &env()).unwrap_err().message.ends_with("larger than 1 MiB"));
}

#[test]
fn how_far_sessions_see_is_read_for_all_and_for_one_agent() {
    let config = good(
        r#"{
            "sandbox": { "isolated": false, "sessionToolsVisibility": "all" },
            "agent": {
                "lab": {
                    "sandbox": { "isolated": true },
                    "tools": { "bash": false, "sessions": { "visibility": { "list": "agent" } } }
                },
                "desk": { "tools": { "sessions": { "visibility": "all" } } },
                "mute": { "tools": { "sessions": false } }
            }
        }"#,
    )
    .config;
    assert_eq!((config.sandbox.isolated, config.sandbox.session_tools_visibility), (Some(false), Some("all")));
    let [desk, lab, mute] = ["desk", "lab", "mute"].map(|name| &config.agent[name]);
    assert_eq!((lab.isolated, &lab.tools), (Some(true), &vec![("bash".to_owned(), false)]));
    assert_eq!(lab.sessions, Some(json!({ "visibility": { "list": "agent" } })));
    assert_eq!((desk.sessions.clone(), desk.isolated), (Some(json!({ "visibility": "all" })), None));
    assert_eq!((&mute.tools, &mute.sessions), (&vec![("sessions".to_owned(), false)], &None));
}

#[test]
fn how_far_commands_reach_is_read_for_all_and_for_one_agent() {
    let config = good(
        r#"{
            "sandbox": { "mode": "workspace", "network": false },
            "agent": { "lab": { "sandbox": { "mode": "off", "network": true } }, "desk": {} }
        }"#,
    )
    .config;
    assert_eq!(config.sandbox.held, Held { mode: Some(SandboxMode::Workspace), network: Some(false) });
    assert_eq!(config.agent["lab"].held, Held { mode: Some(SandboxMode::Off), network: Some(true) });
    assert_eq!(config.agent["desk"].held, Held::default());
    let error = bad(&[r#"{ "agent": { "lab": { "sandbox": { "mode": "on" } } } }"#]);
    assert!(error.contains("`agent.lab.sandbox.mode` cannot be `on`"), "{error}");
}

#[test]
fn turns_out_of_range_are_brought_into_it_with_a_warning() {
    let set = |turns: &str| {
        read(&format!(r#"{{ "session": {{ "agentToAgent": {{ "maxPingPongTurns": {turns} }} }} }}"#)).unwrap()
    };
    for (said, taken) in [("9", 5), ("-1", 0), ("2.5", 2), ("1e300", 5)] {
        let loaded = set(said);
        assert_eq!(loaded.config.turns, Some(taken), "{said}");
        let warning = loaded.warnings.join("\n");
        assert!(warning.contains("convoke.jsonc:1:") && warning.contains(&format!("so {taken} is used")), "{warning}");
    }
    for fits in ["0", "5"] {
        assert!(set(fits).warnings.is_empty());
    }
    let error = bad(&[r#"{ "session": { "agentToAgent": { "maxPingPongTurns": "5" } } }"#]);
    assert!(error.contains("must be a whole number, not a string"), "{error}");
}

#[test]
fn agents_are_known_in_the_order_of_the_file() {
    let config = good(r#"{ "agent": { "zoe": { "welcome_message": "Hello!" }, "adam": {} } }"#).config;
    assert_eq!((config.agent["zoe"].order, config.agent["adam"].order), (0, 1));
    assert_eq!(config.agent["zoe"].welcome_message.as_deref(), Some("Hello!"));
    assert!(config.agent["zoe"].options.is_empty(), "a key of ours is none of the provider's");
}
