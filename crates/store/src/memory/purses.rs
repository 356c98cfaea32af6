//! Purses added up from the runs in memory.

use super::state::{RunRow, State};
use crate::{Purse, Used};
use proto::RunId;
use proto::letter::Allotment;

/// A run's purse and those above it.
pub(super) fn chain(state: &State, run: &RunId) -> Vec<Purse> {
    let mut purses = Vec::new();
    let mut next = state.runs.get(run).map(|row| pays(row).clone());
    while let Some(run) = next.take() {
        let Some(row) = state.runs.get(&run) else { break };
        next = above(row).cloned();
        let used = used(state, &run);
        purses.push(Purse { run, allotted: allotted(row), used });
    }
    purses
}

fn used(state: &State, run: &RunId) -> Used {
    let mut used = Used::default();
    for row in state.runs.rows().values() {
        if pays(row) == run {
            let usage = row.run.usage;
            let agents = u64::from(row.run.id != *run && is_fresh(row));
            used += Used { cost_usd: usage.cost_usd, tokens: usage.context(), agents };
        }
        if above(row) == Some(run) {
            let below = self::used(state, &row.run.id);
            used += if row.run.ended.is_none() { below.reserved(allotted(row)) } else { below };
            used.agents += u64::from(is_fresh(row));
        }
    }
    used
}

/// The run whose purse this one spends from.
fn pays(row: &RunRow) -> &RunId {
    row.purse.as_ref().map_or(&row.run.id, |purse| purse.for_run(&row.run.id))
}

fn above(row: &RunRow) -> Option<&RunId> {
    let purse = row.purse.as_ref().filter(|purse| purse.allotted.is_some() && purse.of != row.run.id);
    purse.map(|purse| &purse.of)
}

fn allotted(row: &RunRow) -> Allotment {
    row.purse.as_ref().and_then(|purse| purse.allotted).unwrap_or_default()
}

fn is_fresh(row: &RunRow) -> bool {
    row.purse.as_ref().is_some_and(|purse| purse.fresh)
}
