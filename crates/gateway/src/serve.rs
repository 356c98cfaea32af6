//! The life of a gateway: listen, wake what was unfinished, and end without losing anything.

use crate::activity::Activity;
use crate::socket::Socket;
use crate::{Gateway, router};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long answers under way, and then sessions, may take to wind down.
const GRACE: Duration = Duration::from_secs(5);

/// How a gateway is served.
#[derive(Debug, Clone, Copy, Default)]
pub struct Serve {
    /// Ends by itself after this long without a connection and without work.
    pub idle_exit: Option<Duration>,
}

/// Serves until [`Gateway::stop`], then ends everything in order and closes the store. The kernel takes connections from
/// the moment the socket was bound, so nobody has to wait for this.
pub async fn serve(gateway: Gateway, socket: Socket, options: Serve) {
    let activity = Activity::new();
    let (listener, file) = socket.split(activity.clone());
    let mut beside = JoinSet::new();
    beside.spawn(resume(gateway.clone()));
    if let Some(after) = options.idle_exit {
        beside.spawn(exit_when_idle(gateway.clone(), activity, after));
    }
    let stopped = gateway.stop.clone().cancelled_owned();
    let listening = axum::serve(listener, router::router(gateway.clone())).with_graceful_shutdown(stopped);
    let mut serving = JoinSet::new();
    serving.spawn(async move { listening.await });
    tokio::select! {
        () = gateway.stop.cancelled() => {}
        // Listening never ends by itself; if it does, so does the gateway.
        _ = serving.join_next() => gateway.stop(),
    }
    beside.abort_all();
    wind_down(&gateway, serving).await;
    file.remove();
    gateway.store().close().await;
}

/// Unfinished sessions go on. Behind the listening, so that a caller's first prompt does not wait for them.
async fn resume(gateway: Gateway) {
    match gateway.runtime.resume().await {
        Ok(0) => {}
        Ok(woken) => tracing::info!(woken, "unfinished sessions go on"),
        Err(error) => tracing::error!(%error, "unfinished sessions could not be woken"),
    }
}

async fn exit_when_idle(gateway: Gateway, activity: Activity, after: Duration) {
    loop {
        if gateway.runtime.busy() > 0 {
            activity.touch();
        }
        let idle = activity.idle();
        if idle >= after && gateway.runtime.busy() == 0 {
            tracing::info!("nothing to do: the gateway ends");
            return gateway.stop();
        }
        // Somebody connected now may leave at any time, so never sleep for nothing at all.
        tokio::time::sleep((after - idle.min(after)).max(Duration::from_millis(20))).await;
    }
}

/// First the callers get their answers, then the sessions stop where they are.
async fn wind_down(gateway: &Gateway, mut serving: JoinSet<std::io::Result<()>>) {
    gateway.changing.close();
    let answered = async {
        gateway.changing.wait().await;
        while serving.join_next().await.is_some() {}
    };
    if timeout(GRACE, answered).await.is_err() {
        tracing::warn!("some callers are cut off");
    }
    if timeout(GRACE, gateway.runtime.stop()).await.is_err() {
        tracing::warn!("some sessions did not stop in time; they go on when the next gateway starts");
    }
}
