//! Sessions as the store keeps them, for figures that begin with many.

use proto::{SessionId, Status, Usage};
use store::{Mail, Mode, Session, Store};

/// How many are opened in one transaction.
const TOGETHER: usize = 1_000;

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
        stopped: false,
        worktree: None,
        attempt_seq: 0,
        id,
    }
}
