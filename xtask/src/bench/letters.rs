//! Letters: how fast they are taken and acknowledged beside bare SQLite, and how soon one reaches the model.

use super::Bench;
use super::gateway::{Gateway, PATIENCE, heard};
use super::http::{Connection, Load, drive};
use super::measure::{fsync, median, millis, percentile, worked};
use super::report::Row;
use super::rows;
use anyhow::{Context, ensure};
use config::Paths;
use proto::methods::{PatchInput, SessionsPatch};
use proto::{RunId, SessionId, Status};
use rusqlite::params;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::{FakeModel, Options, Reply, RepoDir, TempHome};

const SENDS: usize = 200;

/// From a caller's `sessions.send` to the head of the receiver's request at the model.
pub(super) fn send(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (fake, repo) = (FakeModel::with(Options { keep: 1 }, |_| Reply::text("ok")), RepoDir::new());
    let home = TempHome::new(&fake);
    let (gateway, site) = Gateway::listening(&bench.program, &home)?;
    let mut times = Vec::new();
    let mut connection = gateway.block_on(Connection::open(&site))?;
    let make = json!({ "cwd": repo.path() }).to_string();
    let made: Value = serde_json::from_slice(&gateway.block_on(connection.call("sessions.create", &make))?)?;
    let send = json!({ "sessionKey": made["key"], "message": "hello", "timeoutSeconds": 0 }).to_string();
    for n in 0..=SENDS {
        let start = Instant::now();
        let sent: Value = serde_json::from_slice(&gateway.block_on(connection.call("sessions.send", &send))?)?;
        heard(&fake, n + 1)?;
        let asked = fake.timings().get(n).copied().context("the model was not asked")?;
        times.push(millis(asked.at - start));
        let wait = json!({ "runId": sent["runId"], "timeoutMs": 10_000 }).to_string();
        gateway.block_on(connection.call("agent.wait", &wait))?;
    }
    // The first one finds nothing warm.
    times.remove(0);
    Ok(vec![
        Row::info("send_to_request", median(times.clone())?, "ms").with_fsyncs(5.0, 2, fsync()?),
        Row::info("send_to_request_p99_ms", percentile(times, 0.99)?, "ms"),
    ])
}

/// Callers, and letters of one commit.
const CALLERS: usize = 64;

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(1_500);

const MESSAGE: &str = "The build of the release branch is broken since this morning; please have a look at the log.";

/// To sessions that are paused, so that nothing but the taking is measured.
pub(super) fn post(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let (mut ours, mut costs, mut bare, mut bare_costs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let load = through_the_gateway(bench)?;
        ours.push(load.rate());
        costs.push(load.cost());
        let (rate, cost) = bare_sqlite()?;
        bare.push(rate);
        bare_costs.push(cost);
    }
    // Round by round, so that a disk that changes its pace changes both.
    let ratios = ours.iter().zip(&bare).map(|(ours, bare)| ours / bare).collect();
    Ok(vec![
        Row::info("post_64", median(ratios)?, "").at_least(0.4),
        Row::info("post_64_per_s", median(ours)?, "letters/s"),
        Row::info("post_64_sqlite_per_s", median(bare)?, "letters/s"),
        Row::info("post_64_core_us", median(costs)?, "µs"),
        Row::info("post_64_sqlite_core_us", median(bare_costs)?, "µs"),
    ])
}

fn through_the_gateway(bench: &Bench) -> anyhow::Result<Load> {
    let fake = FakeModel::start();
    let home = TempHome::new(&fake).config_json(json!({ "limits": { "queue": 1_000_000 } }));
    let sessions = rows::fill(&home, CALLERS)?;
    let (gateway, site) = Gateway::listening(&bench.program, &home)?;
    sessions.iter().try_for_each(|session| pause(&gateway, session))?;
    let inputs: Vec<String> = sessions.iter().map(letter).collect();
    let load =
        gateway.block_on(drive(&site, "sessions.send", CALLERS, ROUND, Arc::new(move |n, _| inputs[n].clone())))?;
    ensure!(fake.count() == 0, "a paused session asked the model");
    Ok(load)
}

fn pause(gateway: &Gateway, session: &SessionId) -> anyhow::Result<()> {
    let patch = |paused| {
        let input = PatchInput { reference: session.to_string(), paused, ..PatchInput::default() };
        gateway.call::<SessionsPatch>(input).map(|info| info.status)
    };
    let (mut status, start) = (patch(Some(true))?, Instant::now());
    while status != Status::Paused {
        ensure!(start.elapsed() < PATIENCE, "a session is {status:?} instead of paused");
        std::thread::sleep(Duration::from_millis(1));
        status = patch(None)?;
    }
    Ok(())
}

fn letter(to: &SessionId) -> String {
    json!({ "sessionKey": to, "message": MESSAGE, "timeoutSeconds": 0 }).to_string()
}

/// The same tables, pragmas, keys and bytes: for each letter its row, the run it opens and the receiver's count. Returns
/// letters in a second, and what one costs on a core in µs.
fn bare_sqlite() -> anyhow::Result<(f64, f64)> {
    let (fake, mut commits) = (FakeModel::start(), 0_u32);
    let home = TempHome::new(&fake);
    rows::fill(&home, CALLERS)?;
    let db = rows::bare(&Paths::under(home.path()).state)?;
    let mut insert = db.prepare(
        "INSERT INTO letters (id, session, tree, class, posted, body) VALUES (?1, ?2, ?2, 'request', 1, ?3)",
    )?;
    let mut count = db.prepare("UPDATE heads SET pending = pending + 1 WHERE n = ?1")?;
    let mut run = db.prepare("INSERT INTO runs (id, session, tree, created) VALUES (?1, ?2, ?2, 1)")?;
    let body = body()?;
    let (before, start) = (worked(std::process::id())?, Instant::now());
    while start.elapsed() < ROUND {
        commits += 1;
        db.execute_batch("BEGIN IMMEDIATE")?;
        for session in 1..=CALLERS as i64 {
            let id = RunId::new();
            insert.execute(params![id.as_str(), session, body])?;
            count.execute([session])?;
            run.execute(params![id.as_str(), session])?;
        }
        db.execute_batch("COMMIT")?;
    }
    let (letters, took) = (f64::from(commits) * CALLERS as f64, start.elapsed().as_secs_f64());
    Ok((letters / took, (worked(std::process::id())? - before) * 1e6 / letters))
}

/// A letter as the gateway stores it.
fn body() -> anyhow::Result<String> {
    use proto::letter::{Prompt, Provenance, Sender};
    let provenance = Provenance { kind: "external_user".into(), ..Provenance::default() };
    let letter = proto::Letter {
        id: RunId::new().letter(),
        to: SessionId::new(),
        from: Sender::Person,
        class: proto::Class::Request,
        body: proto::Body::Prompt(Prompt::text(MESSAGE)),
        provenance: Some(provenance),
        conversation: None,
        report: None,
        expires: None,
    };
    serde_json::to_string(&letter).context("a letter is JSON")
}
