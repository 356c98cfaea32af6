//! One connection: it has to say what it wants in time, to read what it is sent, and passes its door with every request.

use crate::Gateway;
use crate::activity::Guard;
use crate::bodies::Meter;
use crate::door::Door;
use crate::router::{failure, label};
use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tower_service::Service;

/// How long the head of a request may take, and how long a connection may stay open between two.
const HEAD: Duration = Duration::from_secs(10);

/// The same where few places are left. A client with a request sends it at once.
const HEAD_IN_A_CROWD: Duration = Duration::from_secs(1);

/// How long a peer may take nothing of what it is sent. What it missed is kept; it can ask again.
const STALLED: Duration = Duration::from_secs(60);

const MAX_HEADERS: usize = 64;

/// Of the first line and all headers together.
const MAX_HEAD: usize = 32 * 1024;

/// Read ahead of a request, and written ahead of a peer.
const BUFFER: usize = 64 * 1024;

/// What connections share.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) gateway: Gateway,
    pub(crate) router: Router,
}

impl Server {
    /// Answers until the peer leaves or the gateway stops; then what is under way still gets its answer.
    pub(crate) async fn attend<S>(self, stream: Connection<S>, door: Door)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stop = self.gateway.stop.clone();
        let meter = Arc::clone(&stream.meter);
        let service = service_fn(move |request| answer(self.clone(), door.clone(), Arc::clone(&meter), request));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(if stream.guard.crowded { HEAD_IN_A_CROWD } else { HEAD })
            .max_headers(MAX_HEADERS)
            .max_header_size(MAX_HEAD)
            .max_buf_size(BUFFER)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke");
        }
    }
}

async fn answer(
    server: Server,
    door: Door,
    meter: Arc<Meter>,
    request: Request<Incoming>,
) -> Result<Response, Infallible> {
    let started = Instant::now();
    let Server { gateway, mut router } = server;
    let (mut parts, body) = request.into_parts();
    let label = label(parts.uri.path());
    let response = match door.admit(&parts) {
        Err(error) => failure(error),
        Ok(caller) => {
            let revoked = caller.as_ref().map(|caller| caller.revoked().clone());
            if let Some(caller) = caller {
                parts.extensions.insert(caller);
            }
            parts.extensions.insert(meter);
            let answer = router.call(Request::from_parts(parts, Body::new(body)));
            match revoked {
                None => answer.await?,
                Some(revoked) => tokio::select! {
                    answer = answer => answer?,
                    // A call that waits ends with the token it came with.
                    () = revoked.cancelled() => failure(crate::caller::unauthorized()),
                },
            }
        }
    };
    gateway.metrics.answered(door.name(), label, &response, started.elapsed());
    Ok(response)
}

/// An accepted connection, counted while it is open. One that stalls breaks.
pub(crate) struct Connection<S> {
    stream: S,
    stalled: Option<Pin<Box<Sleep>>>,
    meter: Arc<Meter>,
    guard: Guard,
}

impl<S: AsyncWrite + Unpin> Connection<S> {
    pub(crate) fn new(stream: S, guard: Guard) -> Self {
        Self { stream, stalled: None, meter: Arc::default(), guard }
    }

    fn progress<T>(&mut self, cx: &mut Context<'_>, tried: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if tried.is_ready() {
            self.stalled = None;
            return tried;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALLED)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes nothing")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(self.meter.poll_ready(cx));
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        self.meter.count(into.filled().len() - before);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.progress(cx, tried)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.progress(cx, tried)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_never_reads_is_left() {
        let guard = crate::activity::Activity::new().enter(true).await;
        let (ours, theirs) = tokio::io::duplex(64);
        let mut connection = Connection::new(ours, guard);
        let started = tokio::time::Instant::now();
        let error = connection.write_all(&[0; 1000]).await.unwrap_err();
        assert_eq!((error.kind(), started.elapsed().as_secs()), (io::ErrorKind::TimedOut, STALLED.as_secs()));
        drop(theirs);
    }
}
