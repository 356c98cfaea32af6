//! How long it takes to say whether a long shell line may run.

use super::Bench;
use super::measure::{median, millis};
use super::report::Row;
use anyhow::ensure;
use proto::{Action, Rule};
use rules::Policy;
use std::time::Instant;

const COMMANDS: usize = 20;
const RULES: usize = 40;
const ROUNDS: usize = 200;

/// A pipeline with options and quotes as people write them, under rules of a usual length and one ceiling.
pub(super) fn verdict(_: &Bench) -> anyhow::Result<Vec<Row>> {
    let pipeline = (0..COMMANDS).map(command).collect::<Vec<_>>().join(" | ");
    let mut own: Vec<Rule> = (0..RULES).map(|n| Rule::new("bash", format!("tool{n} *"), Action::Allow)).collect();
    own.insert(0, Rule::new("*", "*", Action::Ask));
    let denies = vec![vec![Rule::new("bash", "rm *", Action::Deny)]];
    let policy = Policy { own, denies, ..Policy::default() };
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let verdict = policy.judge("bash", &pipeline);
        times.push(millis(start.elapsed()) * 1000.0);
        ensure!(verdict.action == Action::Allow, "each of its commands is allowed");
    }
    Ok(vec![Row::info("shell_verdict_20", median(times)?, "us").at_most(200.0)])
}

fn command(n: usize) -> String {
    format!("tool{n} --level {n} -n 'some words' \"and more\" src/file{n}.rs")
}
