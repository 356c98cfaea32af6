//! Mail between agents: to a thousand at once, from many to one, and a fork of a long conversation.

use super::Bench;
use super::gateway::{Gateway, PATIENCE};
use super::history;
use super::http::Connection;
use super::measure::{fsync, median, millis};
use super::report::Row;
use super::rows;
use anyhow::{Context, ensure};
use proto::letter::{Prompt, Provenance, Sender};
use proto::{Body, Class, Letter, LetterId, SessionId};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use store::{Mail, Mode, Post, Session, Store};
use testkit::{FakeModel, Options, Reply, TempHome};

const AGENTS: usize = 1_000;

/// From a person's call to the receipt of every agent: all of it on disk.
pub(super) fn broadcast(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let fake = FakeModel::with(Options { keep: 1 }, |_| Reply::text("ok"));
    let home = TempHome::new(&fake);
    let root = rows::with_store(&home, company)?;
    let (gateway, site) = Gateway::listening(&bench.program, &home)?;
    let mut connection = gateway.block_on(Connection::open(&site))?;
    let input = json!({ "to": "*", "session": root, "message": "the meeting is at noon" }).to_string();
    let start = Instant::now();
    let sent: Value = serde_json::from_slice(&gateway.block_on(connection.call("messages.send", &input))?)?;
    let took = start.elapsed();
    let receipts = sent["receipts"].as_array().cloned().unwrap_or_default();
    let queued = receipts.iter().filter(|receipt| receipt["state"] == "queued").count();
    // The root is an agent of its tree as well, and a person writes to all of them.
    ensure!(queued == AGENTS + 1, "{queued} agents got it");
    Ok(vec![Row::info("broadcast_1000", took.as_secs_f64(), "s").at_most(1.0)])
}

/// A root and its agents, each with a name.
async fn company(store: &dyn Store) -> anyhow::Result<SessionId> {
    let root = rows::open(store, 1).await?.remove(0);
    let top = store.session(&root).await?.context("the root was opened")?;
    let agent = |n: usize| {
        let id = SessionId::new();
        Session {
            key: format!("agent:build:subagent:{root}:{id}"),
            parent: Some(root.clone()),
            depth: 1,
            path: format!("{}{id}/", top.path),
            mode: Mode::Session,
            name: Some(format!("agent-{n}")),
            id,
            ..top.clone()
        }
    };
    let open = (0..AGENTS).map(agent).collect();
    store.deliver(Mail { at: 2, open, ..Mail::default() }).await?;
    Ok(root)
}

const FEW: usize = 1_000;
const MANY: usize = 10_000;

/// What a letter costs in a long queue beside one in a short queue.
pub(super) fn drain(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    // The first round finds nothing warm.
    drained(bench, FEW)?;
    let (few, many) = (drained(bench, FEW)? / FEW as f64, drained(bench, MANY)? / MANY as f64);
    Ok(vec![
        Row::info("drain_10000_ratio", many / few, "").at_most(1.3),
        Row::info("drain_letter_us", many * 1e6, "µs"),
    ])
}

/// Seconds from the start of a gateway until a session has read all that waited for it, in order.
fn drained(bench: &Bench, letters: usize) -> anyhow::Result<f64> {
    let fake = FakeModel::with(Options { keep: 1 }, |_| Reply::text("ok"));
    let home = TempHome::new(&fake);
    let session = rows::with_store(&home, async |store| {
        let to = rows::open(store, 1).await?.remove(0);
        let post: Vec<Post> = (0..letters).map(|n| letter(&to, n)).collect();
        for some in post.chunks(1_000) {
            store.deliver(Mail { at: 2, post: some.to_vec(), ..Mail::default() }).await?;
        }
        Ok(to)
    })?;
    let start = Instant::now();
    let (gateway, site) = Gateway::listening(&bench.program, &home)?;
    let mut connection = gateway.block_on(Connection::open(&site))?;
    let input = json!({ "sessionKey": session }).to_string();
    loop {
        let status: Value = serde_json::from_slice(&gateway.block_on(connection.call("sessions.status", &input))?)?;
        if status["status"] == "idle" {
            return Ok(start.elapsed().as_secs_f64());
        }
        ensure!(start.elapsed() < PATIENCE, "the queue was never read: {status}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn letter(to: &SessionId, n: usize) -> Post {
    let letter = Letter {
        id: LetterId::new(),
        to: to.clone(),
        from: Sender::Session { id: SessionId::new() },
        class: Class::Steer,
        body: Body::Prompt(Prompt::text(format!("number {n}"))),
        provenance: Some(Provenance { kind: "inter_session".into(), ..Provenance::default() }),
        conversation: None,
        report: None,
        expires: None,
    };
    Post { letter, person: false, queue: None }
}

const TURNS: usize = 2_000;
const FORKS: usize = 50;

/// A fork of a long conversation: a row, whatever it stands on.
pub(super) fn fork(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let fake = FakeModel::start();
    let home = TempHome::new(&fake);
    let session = rows::with_store(&home, async |store| history::talk(store, TURNS).await)?;
    let (gateway, site) = Gateway::listening(&bench.program, &home)?;
    let mut connection = gateway.block_on(Connection::open(&site))?;
    let input = json!({ "ref": session }).to_string();
    let mut times = Vec::new();
    for _ in 0..=FORKS {
        let start = Instant::now();
        gateway.block_on(connection.call("sessions.fork", &input))?;
        times.push(millis(start.elapsed()));
    }
    times.remove(0);
    Ok(vec![Row::info("fork_2000", median(times)?, "ms").with_fsyncs(5.0, 1, fsync()?)])
}
