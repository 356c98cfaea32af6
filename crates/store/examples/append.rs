//! How fast the store appends, beside bare SQLite doing the least that could be called the same; and opens, and reads: `cargo run --release -p
//! convoke-store --example append`.
#![expect(clippy::print_stdout, reason = "printing two figures is what it is for")]

use convoke_store::{Batch, Commits, Fence, Halt, Mail, Mode, Session, Sqlite, Store};
use proto::entry::Notice;
use proto::{Entry, SessionId, Status, Usage};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const WRITERS: usize = 64;
const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_secs(2);

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (mut bare, mut ours, mut alone) = (0.0_f64, 0.0_f64, 0.0_f64);
    for _ in 0..ROUNDS {
        bare = bare.max(bare_sqlite(&runtime));
        ours = ours.max(runtime.block_on(through_the_door(WRITERS)));
        alone = alone.max(runtime.block_on(through_the_door(1)));
    }
    println!("bare sqlite, {WRITERS} rows a commit   {bare:>9.0} entries/s");
    println!("store, {WRITERS} callers               {ours:>9.0} entries/s   {:.0} %", 100.0 * ours / bare);
    println!("store, 1 caller                 {alone:>9.0} entries/s");
    runtime.block_on(opening_and_reading());
}

async fn opening_and_reading() {
    const TIMES: u32 = 2000;
    let dir = tempfile::tempdir().expect("a directory");
    let store = Sqlite::open(dir.path(), Arc::new(|_| {})).expect("a store");
    let ids = open(&store, 1000).await;
    store.close().await;
    let start = Instant::now();
    let store = Sqlite::open(dir.path(), Arc::new(|_| {})).expect("a store");
    println!("opening a store                 {:>9.0} µs", start.elapsed().as_secs_f64() * 1e6);
    let start = Instant::now();
    for id in ids.iter().cycle().take(TIMES as usize) {
        store.session(id).await.expect("a row");
    }
    println!("reading a session row           {:>9.0} µs", (start.elapsed() / TIMES).as_secs_f64() * 1e6);
}

async fn through_the_door(writers: usize) -> f64 {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Arc::new(Sqlite::open(dir.path(), Arc::new(|_| {})).expect("a store"));
    let sessions: Vec<SessionId> = open(&*store, writers).await;
    let start = Instant::now();
    let tasks = sessions.into_iter().map(|id| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut count = 0_u64;
            let mut fence = Fence::Claim;
            while start.elapsed() < ROUND {
                let batch = Batch { at: 1, entries: vec![entry()], ..Batch::default() };
                fence = Fence::Epoch(store.commit(&id, fence, batch).await.expect("a commit").epoch);
                count += 1;
            }
            count
        })
    });
    let mut total = 0;
    for task in tasks.collect::<Vec<_>>() {
        total += task.await.expect("a count");
    }
    let rate = total as f64 / start.elapsed().as_secs_f64();
    let Commits { transactions: commits, operations, .. } = store.commits();
    println!("  {writers} callers: {operations} operations in {commits} transactions, {rate:.0}/s");
    store.close().await;
    rate
}

/// The same table and pragmas; every commit takes one row of each session.
fn bare_sqlite(runtime: &tokio::runtime::Runtime) -> f64 {
    let dir = tempfile::tempdir().expect("a directory");
    runtime.block_on(make_schema(dir.path()));
    let db = rusqlite::Connection::open(dir.path().join("convoke.db")).expect("the database");
    db.execute_batch("PRAGMA synchronous = FULL; PRAGMA cache_size = -2048; PRAGMA wal_autocheckpoint = 1000;")
        .expect("pragmas");
    let body = serde_json::to_string(&entry()).expect("text");
    let mut insert = db
        .prepare("INSERT INTO entries (session, tree, seq, at, body) VALUES (?1, ?1, ?2, ?3, ?4)")
        .expect("a statement");
    let (start, mut count) = (Instant::now(), 0_u64);
    while start.elapsed() < ROUND {
        db.execute_batch("BEGIN IMMEDIATE").expect("begin");
        for session in 0..WRITERS as i64 {
            insert.execute(rusqlite::params![session, (count / WRITERS as u64) as i64, 1, body]).expect("a row");
            count += 1;
        }
        db.execute_batch("COMMIT").expect("commit");
    }
    let rate = count as f64 / start.elapsed().as_secs_f64();
    println!("  bare: {count} rows, {rate:.0}/s");
    rate
}

async fn make_schema(dir: &Path) {
    Sqlite::open(dir, Arc::new(|_| {})).expect("a store").close().await;
}

fn entry() -> Entry {
    Entry::Notice(Notice { text: "four hundred bytes or so ".repeat(15) })
}

async fn open(store: &dyn Store, count: usize) -> Vec<SessionId> {
    let open: Vec<Session> = (0..count).map(session).collect();
    let ids = open.iter().map(|session| session.id.clone()).collect();
    store.deliver(Mail { at: 1, open, ..Mail::default() }).await.expect("sessions");
    ids
}

fn session(index: usize) -> Session {
    let id = SessionId::new();
    Session {
        key: format!("agent:build:{index}"),
        owner: "build".into(),
        agent: "build".into(),
        model: None,
        parent: None,
        root: id.clone(),
        depth: 0,
        path: format!("{id}/"),
        kind: "main".into(),
        driver: "loop".into(),
        mode: Mode::Session,
        title: None,
        label: None,
        cwd: "/".into(),
        policy: "[]".into(),
        fork: None,
        archived: false,
        cleanup: false,
        status: Status::Running,
        run: None,
        created: 1,
        activity: 1,
        started: None,
        ended: None,
        seq: 0,
        base: 0,
        pending: 0,
        epoch: 0,
        usage: Usage::default(),
        context_tokens: 0,
        attempts: 0,
        name: None,
        halt: Halt::No,
        worktree: None,
        attempt_seq: 0,
        undone: 0,
        id,
    }
}
