//! The daemon: it answers the table of methods, lets watchers follow, and listens.
//!
//! Answering ([`Gateway`], [`methods`]), routing (`router`) and listening ([`socket`], [`tcp`], [`serve()`]) are three
//! things: a command without a daemon answers without listening, and both kinds of listener serve the same routes. In
//! front of the routes stands a `door`, which says who a caller is.

mod activity;
mod bodies;
mod caller;
mod connection;
mod door;
mod events;
mod hosts;
pub mod methods;
mod metrics;
mod openapi;
mod peer;
mod reference;
mod router;
pub mod serve;
pub mod socket;
mod sse;
pub mod tcp;
mod throttle;
pub mod tls;
pub mod tokens;
mod ws;

pub use serve::{Serve, serve};
pub use socket::Socket;
pub use tcp::{Listen, Tcp};
pub use tls::Certificate;

use metrics::Metrics;
use session::Runtime;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Which gateway this is, so that a caller can tell whether it would have started the same one.
#[derive(Debug, Clone)]
pub struct Identity {
    pub version: String,
    pub fingerprint: String,
    /// Started by a command that needed one.
    pub implicit: bool,
}

/// Answers methods. Cloning shares it.
#[derive(Clone)]
pub struct Gateway(Arc<Parts>);

impl std::ops::Deref for Gateway {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// What a gateway is made of.
pub struct Parts {
    runtime: Runtime,
    identity: Identity,
    /// Where a session without a directory works.
    home: String,
    started: Instant,
    stop: CancellationToken,
    /// Calls that change something: they run to their end though the caller hangs up.
    changing: TaskTracker,
    /// Connections that left HTTP behind.
    streams: TaskTracker,
    metrics: Arc<Metrics>,
    bodies: bodies::Bodies,
    /// The description of what is served, once somebody has asked for it.
    described: OnceLock<Arc<str>>,
    inbound: Inbound,
}

/// What becomes of mail from other gateways.
#[derive(Debug, Clone, Default)]
pub struct Inbound {
    /// For all, unless a peer has its own; without it, mail of the same user on this machine is let in where visibility
    /// is `all`, and other mail is held.
    pub usual: Option<session::courier::Policy>,
    /// By the name of the token they come in with.
    pub peers: std::collections::BTreeMap<String, session::courier::Policy>,
}

impl Gateway {
    pub fn new(runtime: Runtime, identity: Identity, home: &str, inbound: Inbound) -> Self {
        let metrics = Arc::new(Metrics::new(runtime.store().clone()));
        Self(Arc::new(Parts {
            runtime,
            identity,
            home: home.into(),
            started: Instant::now(),
            stop: CancellationToken::new(),
            changing: TaskTracker::new(),
            streams: TaskTracker::new(),
            metrics,
            bodies: bodies::Bodies::default(),
            described: OnceLock::new(),
            inbound,
        }))
    }

    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Begins the graceful end; [`serve()`] returns when it is over.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until somebody asked it to end.
    pub async fn stopping(&self) {
        self.stop.cancelled().await;
    }

    fn store(&self) -> &dyn store::Store {
        self.runtime.store().as_ref()
    }
}

/// Now, as it is sent and stored.
pub(crate) fn now() -> proto::Millis {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
