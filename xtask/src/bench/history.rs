//! Pages of a session's messages over HTTP, with everything blanked that looks like a secret.

use super::Bench;
use super::gateway::Gateway;
use super::http::{Connection, drive};
use super::report::Row;
use super::rows;
use anyhow::{Context, ensure};
use proto::entry::{Ended, Finish, Input, Reply, ReplyPart, Text};
use proto::letter::InputPart;
use proto::{Entry, Outcome, RunId, SessionId, Usage};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use store::{Batch, Fence, Store};
use testkit::{FakeModel, TempHome};

/// Messages of a page: half of them asked, half answered.
const MESSAGES: usize = 200;

/// Runs in the log: more than a page holds, so that it begins in the middle.
const RUNS: usize = 300;

const CALLERS: usize = 4;
const TIME: Duration = Duration::from_secs(6);

/// What must not be read again. Made up.
const SECRET: &str = "sk-ant-api03-Zq8vT1xW5nB7kD2mF9rH4jL6pS3cY0aGuEiOo";

pub(super) fn history(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let fake = FakeModel::start();
    let home = TempHome::new(&fake);
    let session = rows::with_store(&home, async |store| talk(store, RUNS).await)?;
    let (gateway, site) = Gateway::listening(&bench.program, &home)?;
    let input = json!({ "sessionKey": session, "limit": MESSAGES }).to_string();
    let load = gateway.block_on(async {
        let page = Connection::open(&site).await?.call("chat.history", &input).await?;
        check(&page)?;
        // The first calls find nothing warm.
        drive(&site, "chat.history", CALLERS, TIME / 6, repeat(&input)).await?;
        drive(&site, "chat.history", CALLERS, TIME, repeat(&input)).await
    })?;
    Ok(vec![
        Row::info("history_200", load.rate(), "requests/s").at_least(500.0),
        Row::info("history_200_median_ms", load.median()?, "ms"),
        Row::info("history_200_p99_ms", load.p99()?, "ms"),
        Row::info("history_200_core_us", load.cost(), "µs"),
    ])
}

fn repeat(input: &str) -> super::http::Inputs {
    let input = input.to_owned();
    Arc::new(move |_, _| input.clone())
}

/// Whole, and without the secrets: otherwise the figure would be of something else.
fn check(page: &[u8]) -> anyhow::Result<()> {
    let read: Value = serde_json::from_slice(page).context("a page is not JSON")?;
    let messages = read["messages"].as_array().map_or(0, Vec::len);
    ensure!(messages == MESSAGES, "{messages} messages came instead of {MESSAGES}");
    ensure!(read["contentRedacted"] == true, "nothing was blanked");
    ensure!(!String::from_utf8_lossy(page).contains(&SECRET[8..]), "a secret came through");
    Ok(())
}

/// A session in which people ask and are answered; every tenth time somebody pastes a key.
pub(super) async fn talk(store: &dyn Store, runs: usize) -> anyhow::Result<SessionId> {
    let id = rows::open(store, 1).await?.remove(0);
    let mut fence = Fence::Claim;
    for n in 0..runs {
        let batch = Batch { at: 1 + n as i64, entries: run(n), ..Batch::default() };
        fence = Fence::Epoch(store.commit(&id, fence, batch).await?.epoch);
    }
    Ok(id)
}

fn run(n: usize) -> Vec<Entry> {
    let run = RunId::new();
    let key = if n.is_multiple_of(10) { format!(" The key is {SECRET}.") } else { String::new() };
    let asked = format!("Question {n}: why does the claim of a session fail when its owner has just left?{key}");
    let said = format!(
        "Because the row still names the old owner until its lease ends ({n}). Look at `claims.rs`, line {}: the epoch \
         is compared before the lease is. Renew first, then compare, and the race is gone.",
        100 + n
    );
    let input = Input {
        letter: run.letter(),
        run: run.clone(),
        parts: vec![InputPart::Text { text: asked }],
        agent: "build".into(),
        name: None,
        model: "fake/test".into(),
        provenance: None,
        conversation: None,
        until: None,
        purse: None,
        shutdown: None,
        compact: None,
    };
    let reply = Reply {
        step: 1,
        parts: vec![ReplyPart::Text(Text { text: said })],
        usage: Usage::default(),
        finish: Finish::Stop,
        model: "fake/test".into(),
        deferred: Vec::new(),
    };
    let ended = Ended { run, outcome: Outcome::Ok, code: None, message: None, hint: None };
    vec![Entry::Input(input), Entry::Reply(reply), Entry::Ended(ended)]
}
