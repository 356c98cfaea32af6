//! HTTP/1.1 over a Unix socket, TCP or TLS: one connection for one request.

use crate::Error;
use crate::address::{Address, Site};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Request, Response, StatusCode, request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use std::io;
use std::path::Path;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;

/// The header that tells where a stream of events begins.
const CURSOR: &str = "convoke-cursor";

/// No answer of the table is larger: pages are capped far below.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// A response and the task that reads it; dropping this closes the connection.
pub(crate) struct Open {
    pub(crate) body: Incoming,
    /// Where a stream of events begins.
    pub(crate) cursor: Option<String>,
    _connection: JoinSet<()>,
}

/// Makes sure that somebody listens there.
pub(crate) async fn reach(address: &Address) -> Result<(), Error> {
    match address {
        Address::Socket(socket) => unix(socket).await.map(drop),
        Address::Tcp(site) => tcp(site).await.map(drop),
    }
}

async fn unix(socket: &Path) -> Result<UnixStream, Error> {
    let unreachable = |source| Error::Unreachable { address: socket.display().to_string(), source };
    let stream = UnixStream::connect(socket).await.map_err(unreachable)?;
    // A prompt is for our own gateway: in a shared directory somebody else may have put a socket of that name.
    let listener = stream.peer_cred().map_err(unreachable)?.uid();
    if listener != rustix::process::geteuid().as_raw() {
        return Err(unreachable(io::Error::new(io::ErrorKind::PermissionDenied, "another user listens there")));
    }
    Ok(stream)
}

async fn tcp(site: &Site) -> Result<TcpStream, Error> {
    let unreachable = |source| Error::Unreachable { address: site.authority.clone(), source };
    let stream = TcpStream::connect(&site.authority).await.map_err(unreachable)?;
    // A call is one small write, and somebody waits for it.
    stream.set_nodelay(true).map_err(unreachable)?;
    Ok(stream)
}

pub(crate) async fn post(address: &Address, method: &str, body: Vec<u8>) -> Result<Bytes, Error> {
    let request = Request::post(format!("/rpc/{method}")).header(CONTENT_TYPE, "application/json");
    let open = send(address, request, body.into()).await?;
    whole(open.body).await
}

pub(crate) async fn get(address: &Address, path: &str) -> Result<Open, Error> {
    send(address, Request::get(path), Bytes::new()).await
}

async fn send(address: &Address, mut request: request::Builder, body: Bytes) -> Result<Open, Error> {
    let mut task = JoinSet::new();
    let mut sender = match address {
        Address::Socket(socket) => {
            request = request.header(HOST, "convoke");
            handshake(unix(socket).await?, &mut task).await?
        }
        Address::Tcp(site) => {
            request = request.header(HOST, &site.authority).header(AUTHORIZATION, bearer(site)?);
            let stream = tcp(site).await?;
            match &site.tls {
                None => handshake(stream, &mut task).await?,
                Some(tls) => handshake(tls.secure(stream, &site.authority).await?, &mut task).await?,
            }
        }
    };
    let request = request.body(Full::new(body)).map_err(|error| Error::Garbage(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
    accept(response, task).await
}

fn bearer(site: &Site) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", site.token.0))
        .map_err(|_| Error::Address("the token holds characters that no token has".into()))?;
    value.set_sensitive(true);
    Ok(value)
}

async fn handshake<S>(stream: S, task: &mut JoinSet<()>) -> Result<SendRequest<Full<Bytes>>, Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    task.spawn(async move {
        // Its failure is also that of the request or of its body, where it is told.
        let _ = connection.await;
    });
    Ok(sender)
}

async fn accept(response: Response<Incoming>, task: JoinSet<()>) -> Result<Open, Error> {
    let status = response.status();
    let cursor = response.headers().get(CURSOR).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let body = response.into_body();
    if status == StatusCode::OK {
        return Ok(Open { body, cursor, _connection: task });
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
