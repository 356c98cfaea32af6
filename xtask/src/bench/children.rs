//! How fast a reply's `task` calls become children that ask the model, and how fast their answers come back.

use super::Bench;
use super::gateway::{Gateway, heard};
use super::measure::{anonymous, median, millis};
use super::report::Row;
use anyhow::{Context, ensure};
use serde_json::{Value, json};
use std::time::Instant;
use testkit::{FakeModel, Gate, Options, Received, Reply, RepoDir, TempHome, Timing};

const ROUNDS: usize = 15;

pub(super) fn one(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let trees = trees(bench, 1)?;
    let since = |tree: &Vec<Timing>, n: usize| Some(millis(tree[n].at - tree[0].replied?));
    Ok(vec![
        Row::info("child_first_request_ms", median(trees.iter().filter_map(|tree| since(tree, 1)).collect())?, "ms"),
        Row::info("child_back_ms", median(trees.iter().filter_map(|tree| since(tree, 2)).collect())?, "ms"),
    ])
}

pub(super) fn eight(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let last = |tree: &Vec<Timing>| Some(millis(tree[8].at - tree[0].replied?));
    Ok(vec![Row::info("children_8_last_ms", median(trees(bench, 8)?.iter().filter_map(last).collect())?, "ms")])
}

/// All children are held at the model until the last of them has asked, so that all of them are there at once.
pub(super) fn thousand(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    const CHILDREN: usize = 1_000;
    let gate = Gate::new();
    let held = gate.clone();
    let fake = FakeModel::with(Options { keep: 1 }, move |received: &Received| match received.n {
        0 => tasks(CHILDREN),
        n if n <= CHILDREN => Reply::text("found it").gated(held.clone()),
        _ => Reply::text("done"),
    });
    let (repo, home) = (RepoDir::new(), roomy(&fake));
    let gateway = Gateway::start(&bench.program, &home)?;
    let run = gateway.ask("ask a thousand", repo.path())?;
    heard(&fake, CHILDREN + 1)?;
    let memory = anonymous(gateway.pid).context("the gateway is gone")?;
    let opened = Instant::now();
    gate.open();
    gateway.wait(run)?;
    let ended = opened.elapsed();
    let timings = fake.timings();
    ensure!(timings.len() == CHILDREN + 2, "{} requests came instead of {}", timings.len(), CHILDREN + 2);
    // From the moment the parent has asked: reading a thousand calls is a part of it.
    let last = timings[1..=CHILDREN].iter().map(|child| child.at).max().context("no child asked")?;
    Ok(vec![
        Row::info("subtasks_1000_s", (last - timings[0].at).as_secs_f64(), "s").at_most(2.0),
        Row::info("subtasks_1000_anon_mib", memory, "MiB"),
        Row::info("subtasks_1000_end_s", ended.as_secs_f64(), "s"),
    ])
}

/// The requests of several trees with so many children each: the parent, its children, the parent again.
fn trees(bench: &Bench, children: usize) -> anyhow::Result<Vec<Vec<Timing>>> {
    let requests = children + 2;
    let fake = FakeModel::scripted(move |received| match received.n % requests {
        0 => tasks(children),
        n if n <= children => Reply::text("found it"),
        _ => Reply::text("done"),
    });
    let (repo, home) = (RepoDir::new(), roomy(&fake));
    let gateway = Gateway::start(&bench.program, &home)?;
    for _ in 0..=ROUNDS {
        gateway.run("ask somebody", repo.path())?;
    }
    let timings = fake.timings();
    ensure!(
        timings.len() == requests * (ROUNDS + 1),
        "{} requests came, {requests} for each tree are due",
        timings.len()
    );
    // The first tree finds nothing warm.
    Ok(timings.chunks(requests).skip(1).map(<[Timing]>::to_vec).collect())
}

fn tasks(count: usize) -> Reply {
    Reply::calls((0..count).map(|n| ("task", task(n))))
}

fn task(n: usize) -> Value {
    json!({ "description": format!("Look at part {n}"), "prompt": format!("Find part {n}."), "subagent_type": "explore" })
}

/// A home whose limits are out of the way.
fn roomy(fake: &FakeModel) -> TempHome {
    let limits = json!({ "children": 5_000, "running": 5_000, "agents": 5_000, "gateway": 5_000, "queue": 5_000 });
    TempHome::new(fake).config_json(json!({ "limits": limits }))
}
