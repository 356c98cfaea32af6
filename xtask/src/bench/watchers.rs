//! Those who watch: what ten thousand of them cost while nothing happens, and what one that never reads costs the others.

use super::Bench;
use super::gateway::Gateway;
use super::http::{Connection, Site};
use super::measure::{median, millis, percentile, settled};
use super::report::Row;
use anyhow::Context;
use rustix::process::{Resource, getrlimit};
use serde_json::{Value, json};
use std::time::Instant;
use testkit::{FakeModel, RepoDir, TempHome};

const IDLE: usize = 10_000;

/// Files each side needs beside the connections.
const OWN_FILES: u64 = 1_500;

/// Connections opened at once: what the kernel holds until they are accepted is bounded.
const TOGETHER: usize = 250;

pub(super) fn idle(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // A gateway keeps a quarter of its files, at most 4,096, for its own socket.
    let needed = IDLE as u64 + 4_096 + OWN_FILES;
    if files < needed {
        eprintln!("  sse_10000 cannot be measured: {needed} open files are needed, this system grants {files}");
        return Ok(Vec::new());
    }
    let fake = FakeModel::start();
    let home = TempHome::new(&fake);
    let (gateway, site) = Gateway::listening(&bench.program, &home)?;
    let before = settled(gateway.pid)?;
    let watching = gateway.block_on(watch_many(&site, IDLE))?;
    let held = settled(gateway.pid)?;
    drop(watching);
    Ok(vec![
        Row::info("sse_10000", held, "MiB").at_most(400.0),
        Row::info("sse_10000_each_kib", (held - before) * 1024.0 / IDLE as f64, "KiB"),
    ])
}

async fn watch_many(site: &Site, count: usize) -> anyhow::Result<Vec<Connection>> {
    let mut open = Vec::with_capacity(count);
    while open.len() < count {
        let mut opening = tokio::task::JoinSet::new();
        for _ in 0..TOGETHER.min(count - open.len()) {
            let site = site.clone();
            opening.spawn(async move { Connection::watch(&site).await });
        }
        while let Some(connection) = opening.join_next().await {
            open.push(connection.context("a watcher broke down")??);
        }
    }
    Ok(open)
}

/// Watchers that read.
const READERS: usize = 20;

/// Messages whose events are timed in one round, and what each says.
const MESSAGES: usize = 60;
const ROUNDS: usize = 4;

/// What is sent to fill everything between the gateway and the one that never reads: more than any buffer holds.
const FLOOD: usize = 60;
const FLOOD_BYTES: usize = 200_000;

/// From a message to its entry at a watcher, with nobody in the way and with one that never reads.
pub(super) fn slow(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (fake, repo) = (FakeModel::start(), RepoDir::new());
    let home = TempHome::new(&fake);
    let (gateway, site) = Gateway::listening(&bench.program, &home)?;
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    gateway.block_on(async {
        let mut speaker = Speaker::new(&site, &repo).await?;
        let mut readers = watch_many(&site, READERS).await?;
        speaker.round(&mut readers).await?;
        for _ in 0..ROUNDS {
            alone.extend(speaker.round(&mut readers).await?);
            let slow = Connection::watch(&site).await?;
            for _ in 0..FLOOD {
                // Somebody new each time: a session with a long past has more to tell its model.
                let mut stranger = Speaker::new(&site, &repo).await?;
                stranger.say(&"x".repeat(FLOOD_BYTES), &mut readers).await?;
            }
            beside.extend(speaker.round(&mut readers).await?);
            drop(slow);
        }
        anyhow::Ok(())
    })?;
    let (alone_p99, beside_p99) = (percentile(alone.clone(), 0.99)?, percentile(beside.clone(), 0.99)?);
    let (alone, beside) = (median(alone)?, median(beside)?);
    Ok(vec![
        Row::info("slow_client", beside / alone, "").at_most(1.2),
        Row::info("slow_client_p99_ratio", beside_p99 / alone_p99, ""),
        Row::info("slow_client_with_ms", beside, "ms"),
        Row::info("slow_client_without_ms", alone, "ms"),
    ])
}

/// Somebody who says things that all watchers hear of.
struct Speaker {
    connection: Connection,
    session: Value,
}

impl Speaker {
    async fn new(site: &Site, repo: &RepoDir) -> anyhow::Result<Self> {
        let mut connection = Connection::open(site).await?;
        let made = connection.call("sessions.create", &json!({ "cwd": repo.path() }).to_string()).await?;
        let made: Value = serde_json::from_slice(&made)?;
        Ok(Self { connection, session: made["key"].clone() })
    }

    async fn round(&mut self, readers: &mut [Connection]) -> anyhow::Result<Vec<f64>> {
        let mut times = Vec::new();
        for _ in 0..MESSAGES {
            times.extend(self.say("hello", readers).await?);
        }
        Ok(times)
    }

    /// Until each reader has heard of it. Returns how long each took.
    async fn say(&mut self, text: &str, readers: &mut [Connection]) -> anyhow::Result<Vec<f64>> {
        let input = json!({ "sessionKey": self.session, "message": text, "timeoutSeconds": 30 }).to_string();
        let start = Instant::now();
        let hearing = async {
            let heard = readers.iter_mut().map(async |reader| {
                reader.until(r#""type":"input""#).await?;
                let heard = millis(start.elapsed());
                // The rest of this message's events is not the next one's.
                reader.until(r#""type":"ended""#).await?;
                anyhow::Ok(heard)
            });
            futures_util::future::try_join_all(heard).await
        };
        let (times, sent) = tokio::join!(hearing, self.connection.call("sessions.send", &input));
        sent?;
        times
    }
}
