//! The runtime's own time per step: from the end of the model's reply to the head of the next request, with the call
//! judged, stored, run and its result stored in between.

use super::Bench;
use super::gateway::Gateway;
use super::measure::{fsync, median, millis};
use super::report::Row;
use anyhow::ensure;
use serde_json::{Value, json};
use std::ops::Range;
use testkit::{FakeModel, Options, Received, Reply, RepoDir, TempHome};

const SHORT: usize = 150;

/// Steps of the long session, and which of them are compared.
const LONG: usize = 2_010;
const EARLY: Range<usize> = 3..14;
const LATE: Range<usize> = 1_990..LONG;

pub(super) fn step(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let times = steps_of(bench, SHORT, 2, read)?;
    Ok(vec![Row::info("step_ms", median(times.concat())?, "ms").with_fsyncs(3.0, 2, fsync()?)])
}

pub(super) fn bash_step(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let times = steps_of(bench, SHORT, 1, |n| ("bash", json!({ "command": "true", "timeout": 10_000 + n })))?;
    Ok(vec![Row::info("bash_step_ms", median(times.concat())?, "ms")])
}

/// The last steps of a long session against its first.
pub(super) fn late_steps(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let times = steps_of(bench, LONG, 3, read)?;
    let pick = |steps: &Range<usize>| times.iter().flat_map(|session| session[steps.clone()].to_vec()).collect();
    let (early, late) = (median(pick(&EARLY))?, median(pick(&LATE))?);
    eprintln!("  early {early:.2} ms, late {late:.2} ms");
    Ok(vec![Row::info("step_2000_ratio", late / early, "").at_most(1.2)])
}

/// No two alike: the same call again and again would be stopped as a loop.
fn read(n: usize) -> (&'static str, Value) {
    ("read", json!({ "filePath": "src/claims.rs", "limit": 10 + n }))
}

/// The time of each step, of sessions one after another. Place 0 is the step behind the first reply.
fn steps_of(
    bench: &Bench,
    steps: usize,
    sessions: usize,
    call: fn(usize) -> (&'static str, Value),
) -> anyhow::Result<Vec<Vec<f64>>> {
    let script = move |received: &Received| match received.n % (steps + 1) {
        n if n == steps => Reply::text("done"),
        n => Reply::calls([call(n)]),
    };
    let (fake, repo) = (FakeModel::with(Options { keep: 1 }, script), RepoDir::new());
    let model = json!({ "test": { "context": 1_000_000_000, "output": 8_000 } });
    let home = TempHome::new(&fake).config_json(json!({ "provider": { "fake": { "models": model } } }));
    let gateway = Gateway::start(&bench.program, &home)?;
    for _ in 0..sessions {
        gateway.run("read it again and again", repo.path())?;
    }
    let timings = fake.timings();
    ensure!(
        timings.len() == sessions * (steps + 1),
        "{} requests came instead of {sessions} x {steps} + 1",
        timings.len()
    );
    let times = timings.chunks(steps + 1).map(|session| {
        let pairs = session.windows(2).filter_map(|pair| Some(millis(pair[1].at - pair[0].replied?)));
        pairs.collect()
    });
    Ok(times.collect())
}
