//! The most memory a run with one answer takes, in the command and in the gateway it starts.

use super::Bench;
use super::gateway::{Gateway, PATIENCE};
use super::measure::{anonymous, child_of};
use super::report::Row;
use anyhow::{Context, bail, ensure};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use testkit::{FakeModel, RepoDir, TempHome};

const ROUNDS: usize = 10;

/// Between two looks.
const GLANCE: Duration = Duration::from_millis(2);

pub(super) fn peak(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (fake, repo) = (FakeModel::start(), RepoDir::new());
    let home = TempHome::new(&fake);
    let (mut command, mut gateway) = (0.0_f64, 0.0_f64);
    for _ in 0..ROUNDS {
        let mut run = home.command(&bench.program);
        run.args(["run", "hello"]).current_dir(repo.path());
        let run = run.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("cannot start the run")?;
        let watched = watch(run);
        // Whatever came of it, the gateway it started ends here.
        let adopted = Gateway::adopt(&home);
        let peaks = watched?;
        drop(adopted?);
        ensure!(peaks.1 > 0.0, "the gateway of the run was not found");
        (command, gateway) = (command.max(peaks.0), gateway.max(peaks.1));
    }
    Ok(vec![
        Row::info("run_peak_anon_mib", command.max(gateway), "MiB").at_most(30.0),
        Row::info("run_client_anon_mib", command, "MiB"),
        Row::info("run_gateway_anon_mib", gateway, "MiB"),
    ])
}

/// Peaks of the command and of the gateway below it, until the command ends.
fn watch(mut run: Child) -> anyhow::Result<(f64, f64)> {
    let start = Instant::now();
    let (mut peaks, mut gateway) = ((0.0_f64, 0.0_f64), None);
    loop {
        if let Some(status) = run.try_wait().context("cannot wait for the run")? {
            ensure!(status.success(), "the run failed with {status}");
            return Ok(peaks);
        }
        if start.elapsed() > PATIENCE {
            let _ = run.kill();
            let _ = run.wait();
            bail!("the run did not end");
        }
        peaks.0 = peaks.0.max(anonymous(run.id()).unwrap_or(0.0));
        gateway = gateway.or_else(|| child_of(run.id()));
        peaks.1 = peaks.1.max(gateway.and_then(anonymous).unwrap_or(0.0));
        std::thread::sleep(GLANCE);
    }
}
