//! HTTP/1.1 over a Unix socket: one connection for one request.

use crate::Error;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::io;
use std::path::Path;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

/// No answer of the table is larger: pages are capped far below.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// A response and the task that reads it; dropping this closes the connection.
pub(crate) struct Open {
    pub(crate) body: Incoming,
    _connection: JoinSet<()>,
}

pub(crate) async fn connect(socket: &Path) -> Result<UnixStream, Error> {
    let unreachable = |source| Error::Unreachable { socket: socket.to_owned(), source };
    let stream = UnixStream::connect(socket).await.map_err(unreachable)?;
    // A prompt is for our own gateway: in a shared directory somebody else may have put a socket of that name.
    let listener = stream.peer_cred().map_err(unreachable)?.uid();
    if listener != rustix::process::geteuid().as_raw() {
        return Err(unreachable(io::Error::new(io::ErrorKind::PermissionDenied, "another user listens there")));
    }
    Ok(stream)
}

pub(crate) async fn post(socket: &Path, method: &str, body: Vec<u8>) -> Result<Bytes, Error> {
    let request = Request::post(format!("/rpc/{method}"))
        .header("host", "convoke")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)));
    let open = send(socket, request.map_err(|error| Error::Garbage(error.to_string()))?).await?;
    whole(open.body).await
}

pub(crate) async fn get(socket: &Path, path: &str) -> Result<Open, Error> {
    let request = Request::get(path).header("host", "convoke").body(Full::new(Bytes::new()));
    send(socket, request.map_err(|error| Error::Garbage(error.to_string()))?).await
}

async fn send(socket: &Path, request: Request<Full<Bytes>>) -> Result<Open, Error> {
    let stream = connect(socket).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    let mut task = JoinSet::new();
    task.spawn(async move {
        // Its failure is also that of the request or of its body, where it is told.
        let _ = connection.await;
    });
    let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
    accept(response, task).await
}

async fn accept(response: Response<Incoming>, task: JoinSet<()>) -> Result<Open, Error> {
    let status = response.status();
    let body = response.into_body();
    if status == StatusCode::OK {
        return Ok(Open { body, _connection: task });
    }
    #[derive(serde::Deserialize)]
    struct Refusal {
        error: proto::Error,
    }
    let body = whole(body).await?;
    let refusal: Refusal = serde_json::from_slice(&body).map_err(|_| Error::Garbage(format!("status {status}")))?;
    Err(Error::Refused(refusal.error))
}

async fn whole(body: Incoming) -> Result<Bytes, Error> {
    let collected = Limited::new(body, MAX_ANSWER).collect().await;
    Ok(collected.map_err(|error| Error::Broken(error.to_string()))?.to_bytes())
}

pub(crate) fn broken(error: &hyper::Error) -> Error {
    Error::Broken(error.to_string())
}
