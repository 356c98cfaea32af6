//! How long things take to begin: a command's first request, a gateway's first line, a session.

use super::Bench;
use super::gateway::{Gateway, run_command};
use super::measure::{fsync, median, millis, settled};
use super::report::Row;
use anyhow::Context;
use proto::methods::{CreateInput, SessionsCreate};
use std::time::Instant;
use testkit::{FakeModel, RepoDir, TempHome};

const ROUNDS: usize = 15;

const SESSIONS: usize = 200;

/// From the start of `convoke run` to the head of its request at the model: each round once without a gateway, and once
/// with the one that this left behind.
pub(super) fn first_request(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (fake, repo) = (FakeModel::start(), RepoDir::new());
    let home = TempHome::new(&fake);
    let run = || -> anyhow::Result<f64> {
        let before = fake.timings().len();
        let mut command = home.command(&bench.program);
        command.args(["run", "hello"]).current_dir(repo.path());
        let start = run_command(command)?;
        let first = fake.timings().get(before).copied().context("the run asked no model")?;
        Ok(millis(first.at - start))
    };
    // The home is made, and the program read from disk.
    run()?;
    drop(Gateway::adopt(&home)?);
    let (mut alone, mut warm) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        alone.push(run()?);
        let gateway = Gateway::adopt(&home)?;
        warm.push(run()?);
        drop(gateway);
    }
    Ok(vec![
        Row::info("first_request_ms", median(alone)?, "ms").with_fsyncs(30.0, 2, fsync()?),
        Row::info("first_request_warm_gateway_ms", median(warm)?, "ms"),
    ])
}

/// A gateway by itself.
pub(super) fn serve(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let fake = FakeModel::start();
    let home = TempHome::new(&fake);
    drop(Gateway::start(&bench.program, &home)?);
    let (mut ready, mut held, mut create) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let gateway = Gateway::start(&bench.program, &home)?;
        ready.push(millis(gateway.ready));
        if round < 3 {
            held.push(settled(gateway.pid)?);
        }
        for _ in 0..SESSIONS / ROUNDS {
            let start = Instant::now();
            gateway.call::<SessionsCreate>(CreateInput::default())?;
            create.push(millis(start.elapsed()));
        }
    }
    Ok(vec![
        Row::info("serve_ready_ms", median(ready)?, "ms"),
        Row::info("serve_idle_anon_mib", median(held)?, "MiB"),
        Row::info("create_session_ms", median(create)?, "ms"),
    ])
}

/// A gateway that listens everywhere and has nothing to do.
pub(super) fn idle(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let fake = FakeModel::start();
    let mut held = Vec::new();
    for _ in 0..3 {
        let home = TempHome::new(&fake);
        let (gateway, _) = Gateway::listening(&bench.program, &home)?;
        held.push(settled(gateway.pid)?);
    }
    Ok(vec![Row::info("idle_gateway", median(held)?, "MiB").at_most(25.0)])
}
