//! The gateway as its callers see it: a real socket and the real client, over a store in memory and the offline model.

mod asks;
mod doors;
mod events;
mod hostile;
mod lives;
mod methods;
mod oversight;
mod redacted;
mod threats;
mod tls;
mod web_socket;

use client::Client;
use convoke_gateway::{Gateway, Identity, Inbound, Listen, Serve, Socket, Tcp, serve, tokens};
use proto::SessionId;
use proto::entry::{Entry, Notice};
use proto::methods::Scope;
use serde_json::Value;
use session::{Agents, Deps, Hub, NewSession, Runtime};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::memory::Memory;
use store::{Batch, Fence};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
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

    /// Over TCP too.
    async fn tcp() -> (Self, Site) {
        Self::tcp_at(tempfile::tempdir().unwrap(), &Listen::default()).await
    }

    async fn tcp_at(dir: tempfile::TempDir, listen: &Listen) -> (Self, Site) {
        let tcp = Tcp::bind(dir.path(), listen).unwrap();
        let token = std::fs::read_to_string(tcp.token_file()).unwrap();
        let url = tcp.url();
        let address = url.split_once("://").unwrap().1.to_owned();
        let world = Self::start(dir, Serve { idle_exit: None, tcp: Some(tcp), state: None }).await;
        (world, Site { url, address, token })
    }

    async fn serve(options: Serve) -> Self {
        Self::start(tempfile::tempdir().unwrap(), options).await
    }

    async fn start(dir: tempfile::TempDir, options: Serve) -> Self {
        let hub = Hub::default();
        let models = llm::Models::new(dir.path().to_owned(), BTreeMap::new());
        let agents = Agents::new(&BTreeMap::new(), None, &[]).unwrap();
        let runtime = Runtime::new(Deps {
            courier: Arc::new(session::courier::Nowhere),
            store: Arc::new(Memory::new(hub.on_kept())),
            hub,
            settings: session::Fixed::new(agents, Arc::new(models), "offline/plain"),
            limits: config::Limits::default(),
            processes: Arc::new(Reaper::new("/nonexistent".into(), Vec::new())),
            private: Vec::new(),
            outputs: dir.path().join("outputs"),
            journal: dir.path().join("journal"),
            search: config::Search::default(),
            between: session::Between::default(),
            worktrees: tools::worktree::Settings::default(),
        });
        let identity = Identity { version: "9.9.9".into(), fingerprint: "print".into(), implicit: true };
        let gateway = Gateway::new(runtime, identity, dir.path().to_str().unwrap(), Inbound::default());
        let path = dir.path().join("run/s.sock");
        let socket = Socket::bind(&path).unwrap();
        let serving = tokio::spawn(serve(gateway.clone(), socket, options));
        let client = Client::connect(&path).await.unwrap();
        Self { dir, gateway, client, serving }
    }

    /// A new token.
    fn token(&self, name: &str, scopes: &[Scope]) -> String {
        tokens::add(self.dir.path(), name, scopes, None).unwrap().token
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

/// Where a gateway listens over TCP, with the token of its own user.
struct Site {
    url: String,
    address: String,
    token: String,
}

/// An answer as it came over the wire.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {} {}", self.head, self.body))
    }

    #[track_caller]
    fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

impl Site {
    fn bearer(&self) -> String {
        bearer(&self.token)
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).await.unwrap()
    }

    /// One request, with exactly these headers but for its end.
    async fn raw(&self, first: &str, headers: &[&str], body: &[u8]) -> Answer {
        let mut request = format!("{first} HTTP/1.1\r\nconnection: close\r\n");
        for header in headers {
            request.push_str(header);
            request.push_str("\r\n");
        }
        request.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        // A refused body may not be read to its end.
        let _ = stream.write_all(body).await;
        let mut answer = Vec::new();
        let _ =
            tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.expect("no answer");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    /// A request as it should be, with `headers` besides.
    async fn ask(&self, first: &str, headers: &[&str], body: &[u8]) -> Answer {
        let host = format!("host: {}", self.address);
        let mut all = vec![host.as_str(), "content-type: application/json"];
        all.extend(headers);
        self.raw(first, &all, body).await
    }

    /// An open stream of events, after its head.
    async fn events(&self, query: &str, headers: &[&str]) -> Stream {
        let mut stream = self.connect().await;
        let mut request = format!("GET /events{query} HTTP/1.1\r\nhost: {}\r\n", self.address);
        for header in headers {
            request.push_str(header);
            request.push_str("\r\n");
        }
        stream.write_all(format!("{request}\r\n").as_bytes()).await.unwrap();
        Stream { stream, seen: Vec::new() }
    }
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}")
}

/// A connection that is read bit by bit.
struct Stream {
    stream: TcpStream,
    seen: Vec<u8>,
}

impl Stream {
    /// Reads until these words have come; false when the connection ended before.
    async fn until(&mut self, words: &str) -> bool {
        let (words, mut from) = (words.as_bytes(), 0);
        loop {
            if self.seen[from..].windows(words.len()).any(|part| part == words) {
                return true;
            }
            // What was looked at is not looked at again, but for words that began there.
            from = self.seen.len().saturating_sub(words.len());
            let mut chunk = [0; 64 * 1024];
            let read = tokio::time::timeout(Duration::from_secs(20), self.stream.read(&mut chunk));
            match read.await.expect("nothing comes") {
                Ok(0) | Err(_) => return false,
                Ok(read) => self.seen.extend_from_slice(&chunk[..read]),
            }
        }
    }
}
