//! The life of a gateway: listen, wake what was unfinished, and end without losing anything.

use crate::activity::{Activity, Guard};
use crate::connection::{Connection, Server};
use crate::door::{Door, Presented};
use crate::socket::{Listener, Socket};
use crate::tcp::Tcp;
use crate::tls::Certificate;
use crate::{Gateway, router};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How long answers under way may take once the gateway stops (P2).
const ANSWERS: Duration = Duration::from_secs(10);

/// How long sessions may take to wind down after that.
const SESSIONS: Duration = Duration::from_secs(5);

/// How long all of that takes at most.
pub const GRACE: Duration = ANSWERS.saturating_add(SESSIONS);

/// How a gateway is served.
#[derive(Default)]
pub struct Serve {
    /// Ends by itself after this long without a connection and without work.
    pub idle_exit: Option<Duration>,
    /// Listens there too.
    pub tcp: Option<Tcp>,
    /// Where tokens are kept: a command in a sandbox comes in by one alone, also over the socket.
    pub state: Option<PathBuf>,
}

/// Serves until [`Gateway::stop`], then ends everything in order and closes the store. The kernel takes connections from
/// the moment the listeners were bound, so nobody has to wait for this.
pub async fn serve(gateway: Gateway, socket: Socket, options: Serve) {
    let activity = Activity::new();
    gateway.metrics.listens(activity.clone());
    let (listener, file) = socket.split();
    let mut beside = JoinSet::new();
    beside.spawn(live(gateway.clone(), activity.clone(), options.idle_exit));
    let server = Server { gateway: gateway.clone(), router: router::router(gateway.clone()) };
    let mut serving = JoinSet::new();
    let presented = Arc::new(Presented::new(options.state.as_deref()));
    beside.spawn(presented.tokens.clone().watch());
    serving.spawn(listen(At::Socket(listener, presented), activity.clone(), server.clone()));
    if let Some(tcp) = options.tcp {
        beside.spawn(tcp.tokens().watch());
        serving.spawn(listen(At::Tcp(tcp), activity, server));
    }
    tokio::select! {
        () = gateway.stop.cancelled() => {}
        // Listening never ends by itself; if it does, so does the gateway.
        _ = serving.join_next() => gateway.stop(),
    }
    wind_down(&gateway, serving).await;
    beside.abort_all();
    file.remove();
    gateway.store().close().await;
}

/// Accepts and serves until the gateway stops, then waits for what is under way. Dropping it drops every connection.
async fn listen(mut at: At, activity: Activity, server: Server) {
    let stop = server.gateway.stop.clone();
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = at.accept() => accepted,
            Some(_) = open.join_next(), if !open.is_empty() => continue,
            () = stop.cancelled() => break,
        };
        let (stream, door) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::error!(%error, "cannot accept a connection");
                // Out of descriptors: some are given back in a while.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let guard = tokio::select! {
            guard = activity.enter(matches!(at, At::Tcp(_))) => guard,
            () = stop.cancelled() => break,
        };
        match stream {
            Stream::Unix(stream) => open.spawn(server.clone().attend(Connection::new(stream, guard), door)),
            Stream::Tcp(stream, None) => open.spawn(server.clone().attend(Connection::new(stream, guard), door)),
            Stream::Tcp(stream, Some(certificate)) => {
                open.spawn(secured(server.clone(), certificate, stream, guard, door))
            }
        };
    }
    drop(at);
    while open.join_next().await.is_some() {}
}

/// Beside the accepting: nobody waits for somebody else's handshake.
async fn secured(server: Server, certificate: Certificate, stream: TcpStream, guard: Guard, door: Door) {
    match certificate.accept(stream).await {
        Ok(stream) => server.attend(Connection::new(stream, guard), door).await,
        Err(error) => tracing::debug!(%error, "a connection could not be secured"),
    }
}

/// Where to listen.
enum At {
    /// With what a sandboxed command may come in by.
    Socket(Listener, Arc<Presented>),
    Tcp(Tcp),
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream, Option<Certificate>),
}

impl At {
    async fn accept(&mut self) -> io::Result<(Stream, Door)> {
        Ok(match self {
            Self::Socket(listener, tokens) => match listener.accept().await? {
                (stream, false) => (Stream::Unix(stream), Door::Socket),
                (stream, true) => (Stream::Unix(stream), Door::Held(Arc::clone(tokens))),
            },
            Self::Tcp(tcp) => {
                let (stream, door) = tcp.accept().await?;
                (Stream::Tcp(stream, tcp.certificate().cloned()), door)
            }
        })
    }
}

/// Resumes what was unfinished, and then exits when there is nothing to do. A gateway that is not that far is not idle.
async fn live(gateway: Gateway, activity: Activity, idle_exit: Option<Duration>) {
    resume(gateway.clone()).await;
    if let Some(after) = idle_exit {
        exit_when_idle(gateway, activity, after).await;
    }
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
        // Mail that waits for another gateway is work: no other process would deliver it.
        let works = || gateway.runtime.busy() > 0 || gateway.runtime.has_mail();
        if works() {
            activity.touch();
        }
        let idle = activity.idle();
        if idle >= after && !works() {
            // So is an answer that a session was promised. What cannot be known is not a reason to leave.
            if gateway.runtime.owes_news().await.unwrap_or(true) {
                activity.touch();
                continue;
            }
            tracing::info!("nothing to do: the gateway ends");
            return gateway.stop();
        }
        // Somebody connected now may leave at any time, so never sleep for nothing at all.
        tokio::time::sleep((after - idle.min(after)).max(Duration::from_millis(20))).await;
    }
}

/// First the callers get their answers, then the sessions stop where they are.
async fn wind_down(gateway: &Gateway, mut serving: JoinSet<()>) {
    gateway.changing.close();
    gateway.streams.close();
    let answered = async {
        gateway.changing.wait().await;
        while serving.join_next().await.is_some() {}
        gateway.streams.wait().await;
    };
    if timeout(ANSWERS, answered).await.is_err() {
        tracing::warn!("some callers are cut off");
    }
    if timeout(SESSIONS, gateway.runtime.stop()).await.is_err() {
        tracing::warn!("some sessions did not stop in time; they go on when the next gateway starts");
    }
}
