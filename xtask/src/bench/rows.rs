//! Sessions as the store keeps them, for figures that begin with many.

use anyhow::Context;
use config::Paths;
use proto::{SessionId, Status, Usage};
use std::path::Path;
use std::sync::Arc;
use store::{Mail, Mode, Session, Sqlite, Store};
use testkit::TempHome;

/// How many are opened in one transaction.
const TOGETHER: usize = 1_000;

/// Stores so many idle sessions in a home that no gateway has yet.
pub(super) fn fill(home: &TempHome, sessions: usize) -> anyhow::Result<Vec<SessionId>> {
    with_store(home, async |store| open(store, sessions).await)
}

/// Lends out the store of a home that no gateway has yet.
pub(super) fn with_store<T>(
    home: &TempHome,
    work: impl AsyncFnOnce(&dyn Store) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a runtime")?;
    runtime.block_on(async {
        let store = Sqlite::open(&Paths::under(home.path()).state, Arc::new(|_| {}))?;
        let done = work(&store).await;
        store.close().await;
        done
    })
}

/// Bare SQLite on a store's file, set up as the store sets up its own.
pub(super) fn bare(state: &Path) -> anyhow::Result<rusqlite::Connection> {
    let db = rusqlite::Connection::open(state.join("convoke.db"))?;
    db.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA cache_size = -2048; PRAGMA wal_autocheckpoint = 1000;
         PRAGMA journal_size_limit = 67108864; PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0;",
    )?;
    Ok(db)
}

/// Stores so many idle sessions.
pub(super) async fn open(store: &dyn Store, count: usize) -> anyhow::Result<Vec<SessionId>> {
    let mut ids = Vec::with_capacity(count);
    while ids.len() < count {
        let batch = ids.len()..count.min(ids.len() + TOGETHER);
        let open: Vec<Session> = batch.map(session).collect();
        ids.extend(open.iter().map(|session| session.id.clone()));
        store.deliver(Mail { at: 1, open, ..Mail::default() }).await?;
    }
    Ok(ids)
}

fn session(index: usize) -> Session {
    let id = SessionId::new();
    let activity = 1_700_000_000_000 + index as i64;
    Session {
        key: format!("agent:build:chat:{id}"),
        owner: "build".into(),
        agent: "build".into(),
        model: None,
        parent: None,
        root: id.clone(),
        depth: 0,
        path: format!("{id}/"),
        kind: "other".into(),
        driver: "loop".into(),
        mode: Mode::Session,
        title: Some(format!("Question number {index}")),
        label: None,
        cwd: "/".into(),
        policy: "[]".into(),
        fork: None,
        archived: false,
        cleanup: false,
        status: Status::Idle,
        run: None,
        created: activity,
        activity,
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
        halt: store::Halt::No,
        worktree: None,
        attempt_seq: 0,
        undone: 0,
        id,
    }
}
