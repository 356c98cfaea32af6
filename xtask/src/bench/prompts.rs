//! Many prompts at once, each a loop of steps that read a file.

use super::Bench;
use super::gateway::{Gateway, PATIENCE};
use super::http::Connection;
use super::measure::anonymous;
use super::report::Row;
use anyhow::{Context, ensure};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use testkit::{FakeModel, Options, Received, Reply, RepoDir, TempHome};
use tokio::task::JoinSet;

const PROMPTS: usize = 200;

/// Steps of each that read; the answer that follows is not counted.
const READS: usize = 5;

const ROUNDS: usize = 3;

/// Between two looks at the memory.
const GLANCE: Duration = Duration::from_millis(5);

pub(super) fn prompts(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (fake, repo) = (FakeModel::with(Options { keep: 1 }, script), RepoDir::new());
    let home = TempHome::new(&fake);
    let (gateway, site) = Gateway::listening(&bench.program, &home)?;
    let watched = Watched::start(gateway.pid);
    let (mut best, mut total) = (f64::INFINITY, 0);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        gateway.block_on(async {
            let mut runs = JoinSet::new();
            for n in 0..PROMPTS {
                let (connection, cwd) = (Connection::open(&site).await?, repo.path().display().to_string());
                runs.spawn(prompt(connection, json!({ "message": format!("Read {n}"), "cwd": cwd })));
            }
            while let Some(ended) = runs.join_next().await {
                ended.context("a caller broke down")??;
            }
            anyhow::Ok(())
        })?;
        best = best.min(start.elapsed().as_secs_f64());
        total += PROMPTS * (READS + 1);
        ensure!(fake.count() == total, "{} requests came instead of {total}", fake.count());
    }
    let read = fake.last().map_or(0, |last| String::from_utf8_lossy(&last.raw).matches(RESULT).count());
    ensure!(read == READS, "{read} of {READS} calls were run");
    Ok(vec![
        Row::info("prompts_200", (PROMPTS * READS) as f64 / best, "steps/s").at_least(400.0),
        Row::info("prompts_200_anon_mib", watched.peak()?, "MiB").at_most(150.0),
    ])
}

/// What the model reads in every result, if the call was run and not refused.
const RESULT: &str = "Claims a session for its owner";

/// By what it is sent: so many results, so many steps.
fn script(received: &Received) -> Reply {
    let steps = String::from_utf8_lossy(&received.raw).matches(r#""role":"tool""#).count();
    if steps == READS {
        return Reply::text("done");
    }
    // No two alike: the same call again and again would be stopped as a loop.
    Reply::calls([("read", json!({ "filePath": "src/claims.rs", "limit": 10 + steps }))])
}

async fn prompt(mut connection: Connection, input: Value) -> anyhow::Result<()> {
    let accepted: Value = serde_json::from_slice(&connection.call("agent", &input.to_string()).await?)?;
    let wait = json!({ "runId": accepted["runId"], "timeoutMs": PATIENCE.as_millis() as u64 });
    let waited: Value = serde_json::from_slice(&connection.call("agent.wait", &wait.to_string()).await?)?;
    ensure!(waited["status"] == "ok", "a run ended as {waited}");
    Ok(())
}

/// The most memory a process has held since this was started.
struct Watched {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<f64>,
}

impl Watched {
    fn start(pid: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut peak = 0.0_f64;
            while !stopped.load(Ordering::Relaxed) {
                peak = peak.max(anonymous(pid).unwrap_or(0.0));
                std::thread::sleep(GLANCE);
            }
            peak
        });
        Self { stop, thread }
    }

    fn peak(self) -> anyhow::Result<f64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the look at the memory broke off"))
    }
}
