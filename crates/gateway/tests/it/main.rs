//! The gateway as its callers see it: a real socket and the real client, over a store in memory and the offline model.

mod events;
mod methods;

use client::Client;
use convoke_gateway::{Gateway, Identity, Serve, Socket, serve};
use proto::SessionId;
use proto::entry::{Entry, Notice};
use session::{Agents, Deps, Hub, NewSession, Runtime};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::memory::Memory;
use store::{Batch, Fence};
use tools::process::Reaper;

/// A gateway that listens. Dropping it stops it.
struct World {
    dir: tempfile::TempDir,
    gateway: Gateway,
    client: Client,
    serving: tokio::task::JoinHandle<()>,
}

impl World {
    async fn new() -> Self {
        Self::serve(Serve::default()).await
    }

    async fn serve(options: Serve) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let hub = Hub::default();
        let runtime = Runtime::new(Deps {
            store: Arc::new(Memory::new(hub.on_kept())),
            hub,
            models: Arc::new(llm::Models::new(dir.path().to_owned(), BTreeMap::new())),
            agents: Agents::new(&BTreeMap::new(), None, &[]).unwrap(),
            limits: config::Limits::default(),
            processes: Arc::new(Reaper::new("/nonexistent".into(), Vec::new())),
            outputs: dir.path().join("outputs"),
            default_model: "offline/plain".into(),
            between: session::Between::default(),
        });
        let identity = Identity { version: "9.9.9".into(), fingerprint: "print".into(), implicit: true };
        let gateway = Gateway::new(runtime, identity, dir.path().to_str().unwrap());
        let path = dir.path().join("run/s.sock");
        let socket = Socket::bind(&path).unwrap();
        let serving = tokio::spawn(serve(gateway.clone(), socket, options));
        let client = Client::connect(&path).await.unwrap();
        Self { dir, gateway, client, serving }
    }

    /// A session without a run.
    async fn session(&self) -> SessionId {
        let cwd = self.dir.path().to_str().unwrap().to_owned();
        self.gateway.runtime().create(NewSession { cwd, ..NewSession::default() }).await.unwrap().id
    }

    /// Appends as the session's owner would.
    async fn append(&self, session: &SessionId, entries: Vec<Entry>) {
        let batch = Batch { at: 1, entries, ..Batch::default() };
        self.gateway.runtime().store().commit(session, Fence::Claim, batch).await.unwrap();
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.gateway.stop();
    }
}

fn notices(count: usize, text: &str) -> Vec<Entry> {
    (0..count).map(|_| Entry::Notice(Notice { text: text.into() })).collect()
}
