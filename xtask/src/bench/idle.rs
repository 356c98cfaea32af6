//! What stored sessions cost while nothing happens: memory, and a page of the list.

use super::Bench;
use super::gateway::Gateway;
use super::measure::{median, millis, settled};
use super::report::Row;
use super::rows;
use proto::methods::{ListInput, SessionsList};
use std::time::Instant;
use testkit::{FakeModel, TempHome};

const PAGES: usize = 200;

pub(super) fn idle(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let fake = FakeModel::start();
    let start = |sessions: usize| -> anyhow::Result<(TempHome, Gateway)> {
        let home = TempHome::new(&fake);
        rows::fill(&home, sessions)?;
        let gateway = Gateway::start(&bench.program, &home)?;
        Ok((home, gateway))
    };
    let (ten, thousand, many) = (start(10)?, start(1_000)?, start(100_000)?);
    let held = settled(many.1.pid)? - settled(ten.1.pid)?;
    let (mut few_pages, mut many_pages) = (Vec::new(), Vec::new());
    for _ in 0..PAGES {
        few_pages.push(page(&thousand.1)?);
        many_pages.push(page(&many.1)?);
    }
    let (few_pages, many_pages) = (median(few_pages)?, median(many_pages)?);
    Ok(vec![
        Row::info("idle_100k_mib", held, "MiB").at_most(10.0),
        Row::info("ps_100k_ratio", many_pages / few_pages, "").at_most(1.5),
        Row::info("ps_100k_ms", many_pages, "ms"),
    ])
}

/// The time of a first page, over the socket.
fn page(gateway: &Gateway) -> anyhow::Result<f64> {
    let start = Instant::now();
    gateway.call::<SessionsList>(ListInput::default())?;
    Ok(millis(start.elapsed()))
}
