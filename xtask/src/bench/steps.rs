//! The runtime's own time per step: from the end of the model's reply to the head of the next request, with the call
//! judged, stored, run and its result stored in between.

use super::Bench;
use super::gateway::Gateway;
use super::measure::{fsync, median, millis};
use super::report::Row;
use anyhow::ensure;
use serde_json::{Value, json};
use std::ops::Range;
use testkit::{FakeModel, Options, Received, Reply, RepoDir, TempHome, Wire};

const SHORT: usize = 150;

/// Steps of the long session, and which of them are compared: enough that one slow moment of the disk is not all of them.
const LONG: usize = 2_050;
const EARLY: Range<usize> = 3..103;
const LATE: Range<usize> = 1_950..LONG;
/// Such sessions.
const ROUNDS: usize = 3;

/// The call of each step.
struct Work {
    tool: &'static str,
    /// No two alike: the same call again and again would be stopped as a loop.
    input: fn(usize) -> Value,
    /// What the model reads in every result, if the call was run and not refused.
    result: &'static str,
}

const READ: Work = Work {
    tool: "read",
    input: |n| json!({ "filePath": "src/claims.rs", "limit": 10 + n }),
    result: "Claims a session for its owner",
};

const BASH: Work =
    Work { tool: "bash", input: |n| json!({ "command": "true", "timeout": 10_000 + n }), result: "exit code 0" };

pub(super) fn step(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let times = steps_of(bench, SHORT, 2, &READ)?;
    Ok(vec![Row::info("step_ms", median(times.concat())?, "ms").with_fsyncs(3.0, 2, fsync()?)])
}

pub(super) fn bash_step(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let times = steps_of(bench, SHORT, 1, &BASH)?;
    Ok(vec![Row::info("bash_step_ms", median(times.concat())?, "ms")])
}

/// The last steps of a long session against its first.
pub(super) fn late_steps(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (early, late) = early_and_late(&steps_of(bench, LONG, ROUNDS, &READ)?)?;
    eprintln!("  early {early:.2} ms, late {late:.2} ms");
    Ok(vec![Row::info("step_2000_ratio", late / early, "").at_most(1.2)])
}

/// The same on every wire, in turns: none much slower than the others, none slower at its end than at its beginning.
pub(super) fn wires(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let mut times: Vec<Vec<Vec<f64>>> = vec![Vec::new(); Wire::ALL.len()];
    for _ in 0..ROUNDS {
        for (wire, times) in Wire::ALL.iter().zip(&mut times) {
            times.extend(steps_on(bench, *wire, LONG, 1, &READ)?);
        }
    }
    let times = times.iter().map(|times| early_and_late(times)).collect::<anyhow::Result<Vec<_>>>()?;
    for (wire, (early, late)) in Wire::ALL.iter().zip(&times) {
        eprintln!("  {}: early {early:.2} ms, late {late:.2} ms", wire.as_str());
    }
    let most = |values: &[f64]| values.iter().copied().fold(f64::MIN, f64::max);
    let least = |values: &[f64]| values.iter().copied().fold(f64::MAX, f64::min);
    let late: Vec<f64> = times.iter().map(|(_, late)| *late).collect();
    let growth: Vec<f64> = times.iter().map(|(early, late)| late / early).collect();
    Ok(vec![
        Row::info("wires_ratio", most(&late) / least(&late), "").at_most(1.3),
        Row::info("wires_2000_ratio", most(&growth), "").at_most(1.2),
    ])
}

/// The usual time of an early and of a late step.
fn early_and_late(sessions: &[Vec<f64>]) -> anyhow::Result<(f64, f64)> {
    let pick = |steps: &Range<usize>| sessions.iter().flat_map(|session| session[steps.clone()].to_vec()).collect();
    Ok((median(pick(&EARLY))?, median(pick(&LATE))?))
}

fn steps_of(bench: &Bench, steps: usize, sessions: usize, work: &'static Work) -> anyhow::Result<Vec<Vec<f64>>> {
    steps_on(bench, Wire::OpenAiChat, steps, sessions, work)
}

/// The time of each step, of sessions one after another. Place 0 is the step behind the first reply.
fn steps_on(
    bench: &Bench,
    wire: Wire,
    steps: usize,
    sessions: usize,
    work: &'static Work,
) -> anyhow::Result<Vec<Vec<f64>>> {
    let script = move |received: &Received| match received.n % (steps + 1) {
        n if n == steps => Reply::text("done"),
        n => Reply::calls([(work.tool, (work.input)(n))]),
    };
    let (fake, repo) = (FakeModel::with(Options { keep: 1 }, script), RepoDir::new());
    let model = json!({ "test": { "context": 1_000_000_000, "output": 8_000 } });
    // Where the vendor's own library would be pointed to.
    let base = if wire == Wire::Anthropic { fake.origin() } else { fake.base_url() };
    let provider = json!({ "wire": wire.as_str(), "base_url": base, "models": model });
    let home = TempHome::new(&fake).config_json(json!({ "provider": { "fake": provider } }));
    let gateway = Gateway::start(&bench.program, &home)?;
    for _ in 0..sessions {
        gateway.run("do it again and again", repo.path())?;
        let done = fake.last().map_or(0, |last| String::from_utf8_lossy(&last.raw).matches(work.result).count());
        ensure!(done == steps, "{done} of {steps} calls of `{}` were run", work.tool);
    }
    let timings = fake.timings();
    let due = sessions * (steps + 1);
    ensure!(timings.len() == due, "{} requests came instead of {due}", timings.len());
    let times = timings.chunks(steps + 1).map(|session| {
        let pairs = session.windows(2).filter_map(|pair| Some(millis(pair[1].at - pair[0].replied?)));
        pairs.collect()
    });
    Ok(times.collect())
}
