//! Pages of the list over HTTP, beside a thousand stored sessions and beside a million: what is stored and not shown
//! must not be felt.

use super::Bench;
use super::gateway::Gateway;
use super::http::{Connection, Inputs, Load, Site, drive};
use super::report::Row;
use super::rows;
use anyhow::{Context, ensure};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use testkit::{FakeModel, TempHome};

const FEW: usize = 1_000;
const MANY: usize = 1_000_000;

const PAGE: usize = 50;

/// Pages that are asked for in turn, from the newest down: all there are of a thousand sessions.
const PAGES: usize = FEW / PAGE;

/// Callers at once: enough to keep both cores busy, and few enough that an answer is not mostly waiting.
const CALLERS: usize = 4;

/// Rounds take turns, so that a machine that changes its pace changes both.
const ROUNDS: usize = 6;
const ROUND: Duration = Duration::from_secs(2);

pub(super) fn pages(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let fake = FakeModel::start();
    let (few, many) = (Side::new(bench, &fake, FEW)?, Side::new(bench, &fake, MANY)?);
    let (mut few_load, mut many_load) = (Load::default(), Load::default());
    // The first round finds nothing warm.
    few.round()?;
    many.round()?;
    for _ in 0..ROUNDS {
        few_load.add(few.round()?);
        many_load.add(many.round()?);
    }
    let (few_median, few_p99) = (few_load.median()?, few_load.p99()?);
    let (many_median, many_p99) = (many_load.median()?, many_load.p99()?);
    Ok(vec![
        Row::info("list_page_1000", few_load.rate(), "requests/s"),
        Row::info("list_page_1000_median_ms", few_median, "ms"),
        Row::info("list_page_1000_p99_ms", few_p99, "ms"),
        Row::info("list_page_1000000", many_load.rate(), "requests/s").at_least(1_500.0),
        Row::info("list_page_1000000_median_ms", many_median, "ms"),
        Row::info("list_page_1000000_p99_ms", many_p99, "ms"),
        Row::info("list_page_1000000_core_us", many_load.cost(), "µs"),
        Row::info("list_page_1000000_median_ratio", many_median / few_median, "").at_most(1.3),
        Row::info("list_page_1000000_p99_ratio", many_p99 / few_p99, "").at_most(3.0),
    ])
}

/// A gateway with so many sessions, and the inputs that ask for its pages.
struct Side {
    gateway: Gateway,
    site: Site,
    inputs: Inputs,
    _home: TempHome,
}

impl Side {
    fn new(bench: &Bench, fake: &FakeModel, sessions: usize) -> anyhow::Result<Self> {
        let home = TempHome::new(fake);
        rows::fill(&home, sessions)?;
        let (gateway, site) = Gateway::listening(&bench.program, &home)?;
        let pages = gateway.block_on(walk(&site))?;
        let inputs: Inputs = Arc::new(move |caller, round| pages[(caller * 7 + round) % pages.len()].clone());
        Ok(Self { gateway, site, inputs, _home: home })
    }

    fn round(&self) -> anyhow::Result<Load> {
        self.gateway.block_on(drive(&self.site, "sessions.list", CALLERS, ROUND, self.inputs.clone()))
    }
}

/// Goes through the pages once, and returns what asks for each.
async fn walk(site: &Site) -> anyhow::Result<Vec<String>> {
    let (mut connection, mut inputs) = (Connection::open(site).await?, Vec::new());
    let mut input = json!({ "limit": PAGE });
    for _ in 0..PAGES {
        inputs.push(input.to_string());
        let page: Value = serde_json::from_slice(&connection.call("sessions.list", &input.to_string()).await?)
            .context("a page is not JSON")?;
        ensure!(page["count"] == PAGE, "a page has {} sessions instead of {PAGE}", page["count"]);
        input["cursor"] = page["nextCursor"].clone();
    }
    Ok(inputs)
}
