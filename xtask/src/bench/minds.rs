//! What models and their settings cost: eight layers of configuration, and an argument that comes byte by byte.

use super::Bench;
use super::gateway::Gateway;
use super::measure::{median, millis};
use super::report::Row;
use anyhow::{Context, ensure};
use config::{Environment, Paths, load_at, reads_all};
use serde_json::json;
use std::path::Path;
use std::time::Instant;
use testkit::{FakeModel, Options, Received, Reply, RepoDir, TempHome};

const READS: usize = 200;

/// All eight layers, each with agents, rules and limits of its own, read as a gateway reads them for a directory.
pub(super) fn layers(_: &Bench) -> anyhow::Result<Vec<Row>> {
    let (fake, repo) = (FakeModel::start(), RepoDir::new());
    let home = TempHome::new(&fake);
    let mut paths = Paths::under(home.path());
    paths.managed = home.path().join("managed");
    let address = "https://example.org/.well-known/convoke";
    config::keep_organisation(&paths, address, &layer("organisation")).map_err(told)?;
    let named = home.path().join("named.json");
    write(&named, &layer("file"))?;
    write(&paths.managed.join("convoke.json"), &layer("managed"))?;
    repo.write("convoke.json", &layer("project"));
    repo.write(".convoke/convoke.json", &layer("directory"));
    let env: Environment = [
        ("HOME", home.path().display().to_string()),
        ("CONVOKE_ORG", "https://example.org".to_owned()),
        ("CONVOKE_CONFIG", named.display().to_string()),
        ("CONVOKE_CONFIG_CONTENT", layer("content")),
    ]
    .into_iter()
    .collect();
    config::trust(&paths, &env, repo.path()).map_err(told)?;
    let mut times = Vec::with_capacity(READS);
    for _ in 0..READS {
        let start = Instant::now();
        let loaded = load_at(&paths, &env, repo.path(), &reads_all).map_err(told)?;
        times.push(millis(start.elapsed()));
        let of_layers = loaded.config.agent.keys().filter(|name| name.starts_with("of-")).count();
        ensure!(of_layers == 6 * AGENTS, "{of_layers} agents came from the layers");
    }
    Ok(vec![Row::info("config_eight_layers_ms", median(times)?, "ms").at_most(5.0)])
}

/// Agents of one layer.
const AGENTS: usize = 10;

fn layer(name: &str) -> String {
    let agents: serde_json::Map<String, serde_json::Value> = (0..AGENTS)
        .map(|n| (format!("of-{name}-{n}"), json!({ "description": "one of many", "mode": "subagent", "steps": 20 })))
        .collect();
    let rules: serde_json::Map<String, serde_json::Value> =
        (0..20).map(|n| (format!("{name}-{n} *"), json!("ask"))).collect();
    let settings = json!({ "agent": agents, "permission": { "bash": rules }, "limits": { "hops": 5 } });
    serde_json::to_string_pretty(&settings).unwrap_or_default()
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory).context("cannot make a directory for settings")?;
    }
    std::fs::write(file, text).context("cannot write settings")
}

fn told(error: config::Error) -> anyhow::Error {
    anyhow::anyhow!("{}", error.message)
}

const SMALL: usize = 10_000;
const LARGE: usize = 100_000;

/// An argument of 100 kB in pieces of one byte against one of 10 kB: ten times the work, and not a hundred times.
pub(super) fn argument(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (small, large) = (written(bench, SMALL)?, written(bench, LARGE)?);
    eprintln!("  10 kB in {small:.1} ms, 100 kB in {large:.1} ms");
    Ok(vec![
        Row::info("argument_100k_ratio", large / small / (LARGE / SMALL) as f64, "").at_most(1.3),
        Row::info("argument_100k_ms", large, "ms"),
    ])
}

/// The time of a run that writes a file of this size, in ms.
fn written(bench: &Bench, bytes: usize) -> anyhow::Result<f64> {
    let body = byte_by_byte(bytes);
    let script = move |received: &Received| match received.n % 2 {
        0 => Reply::raw(200, body.clone()),
        _ => Reply::text("done"),
    };
    let (fake, repo) = (FakeModel::with(Options { keep: 1 }, script), RepoDir::new());
    let home = TempHome::new(&fake).config_json(json!({ "permission": { "edit": "allow" } }));
    let gateway = Gateway::start(&bench.program, &home)?;
    let mut times = Vec::new();
    for _ in 0..7 {
        let start = Instant::now();
        gateway.run("write it", repo.path())?;
        times.push(millis(start.elapsed()));
        ensure!(repo.read("out.txt").len() == bytes, "the file was not written");
        std::fs::remove_file(repo.path().join("out.txt"))?;
    }
    median(times)
}

/// A reply on OpenAI's chat wire whose one argument comes in pieces of a byte.
fn byte_by_byte(bytes: usize) -> String {
    let event = |delta: serde_json::Value, finish: Option<&str>| {
        format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] }))
    };
    let piece = |text: &str| event(json!({ "tool_calls": [{ "index": 0, "function": { "arguments": text } }] }), None);
    let begin = json!({ "index": 0, "id": "call_1", "function": { "name": "write", "arguments": "" } });
    let mut body = event(json!({ "role": "assistant", "tool_calls": [begin] }), None);
    let input = json!({ "filePath": "out.txt", "content": "x".repeat(bytes) }).to_string();
    for at in 0..input.len() {
        body.push_str(&piece(&input[at..=at]));
    }
    body.push_str(&event(json!({}), Some("tool_calls")));
    body.push_str("data: [DONE]\n\n");
    body
}
