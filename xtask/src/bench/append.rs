//! How fast sessions append at once, beside bare SQLite doing the least that could be called the same.

use super::Bench;
use super::measure::median;
use super::report::Row;
use super::rows;
use anyhow::Context;
use proto::entry::Notice;
use proto::{Entry, SessionId};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::{Batch, Fence, Sqlite, Store};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const WRITERS: usize = 64;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(1_500);

pub(super) fn append(_: &Bench) -> anyhow::Result<Vec<Row>> {
    let runtime = Runtime::new().context("cannot start a runtime")?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(bare_sqlite(&runtime)?);
        ours.push(runtime.block_on(through_the_door())?);
    }
    // Round by round, so that a disk that changes its pace changes both.
    let ratios = ours.iter().zip(&bare).map(|(ours, bare)| ours / bare).collect();
    Ok(vec![
        Row::info("append_ratio", median(ratios)?, "").at_least(0.5),
        Row::info("append_per_s", median(ours)?, "entries/s"),
    ])
}

async fn through_the_door() -> anyhow::Result<f64> {
    let dir = tempfile::tempdir()?;
    let store = Arc::new(Sqlite::open(dir.path(), Arc::new(|_| {}))?);
    let mut sessions = JoinSet::new();
    let ids = rows::open(&*store, WRITERS).await?;
    let start = Instant::now();
    for id in ids {
        sessions.spawn(append_until(store.clone(), id, start + ROUND));
    }
    let mut total = 0;
    while let Some(count) = sessions.join_next().await {
        total += count??;
    }
    let rate = f64::from(total) / start.elapsed().as_secs_f64();
    store.close().await;
    Ok(rate)
}

async fn append_until(store: Arc<Sqlite>, id: SessionId, end: Instant) -> Result<u32, store::Error> {
    let (mut count, mut fence) = (0, Fence::Claim);
    while Instant::now() < end {
        let batch = Batch { at: 1, entries: vec![entry()], ..Batch::default() };
        fence = Fence::Epoch(store.commit(&id, fence, batch).await?.epoch);
        count += 1;
    }
    Ok(count)
}

/// The same table, pragmas, keys and bytes; every commit takes one row of each session.
fn bare_sqlite(runtime: &Runtime) -> anyhow::Result<f64> {
    let dir = tempfile::tempdir()?;
    runtime.block_on(make_schema(dir.path()))?;
    let db = rows::bare(dir.path())?;
    let body = serde_json::to_string(&entry())?;
    let mut insert = db.prepare("INSERT INTO entries (session, tree, seq, at, body) VALUES (?1, ?1, ?2, 1, ?3)")?;
    let (start, mut commits) = (Instant::now(), 0_u32);
    while start.elapsed() < ROUND {
        commits += 1;
        db.execute_batch("BEGIN IMMEDIATE")?;
        for session in 1..=WRITERS {
            insert.execute(rusqlite::params![session as i64, commits, body])?;
        }
        db.execute_batch("COMMIT")?;
    }
    Ok(f64::from(commits) * WRITERS as f64 / start.elapsed().as_secs_f64())
}

async fn make_schema(dir: &Path) -> Result<(), store::Error> {
    Sqlite::open(dir, Arc::new(|_| {}))?.close().await;
    Ok(())
}

fn entry() -> Entry {
    Entry::Notice(Notice { text: "four hundred bytes or so ".repeat(15) })
}
