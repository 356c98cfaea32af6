//! Callers over TCP: the least that can speak to a gateway, so that what is measured is the gateway and not they.

use super::measure::{median, millis, percentile, worked};
use anyhow::{Context, bail, ensure};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// How long an answer may take: far above every goal, so that a hang ends as an error.
const PATIENCE: Duration = Duration::from_secs(30);

/// The largest head an answer may have.
const MAX_HEAD: usize = 16 * 1024;

/// Where a gateway listens, and what opens it.
#[derive(Debug, Clone)]
pub(super) struct Site {
    authority: String,
    token: Arc<str>,
    /// The gateway's process.
    pid: u32,
}

impl Site {
    /// From the line a gateway prints when it accepts.
    pub(super) fn of(pid: u32, line: &str) -> anyhow::Result<Self> {
        let ready: serde_json::Value = serde_json::from_str(line).context("the gateway's first line is not JSON")?;
        let url = ready["url"].as_str().context("the gateway listens at no address")?;
        let authority = url.strip_prefix("http://").context("the gateway's address is not plain HTTP")?.to_owned();
        let file = ready["tokenFile"].as_str().context("the gateway names no token file")?;
        let token = std::fs::read_to_string(Path::new(file)).context("cannot read the token")?;
        Ok(Self { authority, token: token.trim().into(), pid })
    }
}

/// One connection that stays open.
pub(super) struct Connection {
    stream: TcpStream,
    site: Site,
    /// What was read and not yet passed on.
    unread: Vec<u8>,
}

impl Connection {
    pub(super) async fn open(site: &Site) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(&site.authority).await.context("cannot connect to the gateway")?;
        stream.set_nodelay(true).context("cannot set up a connection")?;
        Ok(Self { stream, site: site.clone(), unread: Vec::new() })
    }

    /// Calls a method and returns its answer; everything but a success is an error.
    pub(super) async fn call(&mut self, method: &str, input: &str) -> anyhow::Result<Vec<u8>> {
        let Site { authority, token, .. } = &self.site;
        let request = format!(
            "POST /rpc/{method} HTTP/1.1\r\nhost: {authority}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{input}",
            input.len()
        );
        self.stream.write_all(request.as_bytes()).await.context("cannot ask the gateway")?;
        let answered = tokio::time::timeout(PATIENCE, self.answer()).await;
        answered.with_context(|| format!("`{method}` got no answer in time"))?
    }

    /// Asks for the events of a tree, or of all, from now on. From here on the connection is only read.
    pub(super) async fn watch(site: &Site) -> anyhow::Result<Self> {
        let mut connection = Self::open(site).await?;
        let Site { authority, token, .. } = site;
        let request = format!("GET /events HTTP/1.1\r\nhost: {authority}\r\nauthorization: Bearer {token}\r\n\r\n");
        connection.stream.write_all(request.as_bytes()).await.context("cannot ask for events")?;
        let head =
            tokio::time::timeout(PATIENCE, connection.head()).await.context("no stream was opened in time")??;
        ensure!(head.starts_with("HTTP/1.1 200"), "the gateway opens no stream: {head}");
        Ok(connection)
    }

    /// Reads on until `mark` has come, and drops everything up to it.
    pub(super) async fn until(&mut self, mark: &str) -> anyhow::Result<()> {
        let reading = async {
            loop {
                if let Some(at) = find(&self.unread, mark.as_bytes()) {
                    self.unread.drain(..at + mark.len());
                    return Ok(());
                }
                // All but what could be the mark's beginning is of no use any more.
                let kept = self.unread.len().saturating_sub(mark.len());
                self.unread.drain(..kept);
                self.fill().await?;
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.context("an event did not come in time")?
    }

    async fn answer(&mut self) -> anyhow::Result<Vec<u8>> {
        let head = self.head_length().await?;
        let (good, length) = {
            let head = std::str::from_utf8(&self.unread[..head]).context("the head of an answer is not text")?;
            (head.starts_with("HTTP/1.1 200"), content_length(head).context("an answer does not say how long it is")?)
        };
        while self.unread.len() < head + length {
            self.fill().await?;
        }
        let body = self.unread[head..head + length].to_vec();
        self.unread.drain(..head + length);
        ensure!(good, "the gateway refused: {}", String::from_utf8_lossy(&body));
        Ok(body)
    }

    async fn head(&mut self) -> anyhow::Result<String> {
        let length = self.head_length().await?;
        let head = self.unread.drain(..length).collect();
        String::from_utf8(head).context("the head of an answer is not text")
    }

    /// Up to and with the empty line.
    async fn head_length(&mut self) -> anyhow::Result<usize> {
        loop {
            if let Some(end) = find(&self.unread, b"\r\n\r\n") {
                return Ok(end + 4);
            }
            ensure!(self.unread.len() < MAX_HEAD, "the head of an answer is too long");
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> anyhow::Result<()> {
        self.unread.reserve(4 * 1024);
        let read = self.stream.read_buf(&mut self.unread).await.context("the connection broke")?;
        if read == 0 {
            bail!("the gateway closed a connection");
        }
        Ok(())
    }
}

fn content_length(head: &str) -> Option<usize> {
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    };
    head.lines().find_map(header)
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// What callers saw.
#[derive(Default)]
pub(super) struct Load {
    /// In ms.
    latencies: Vec<f64>,
    seconds: f64,
    /// What the gateway spent on it, in s of one core.
    worked: f64,
}

impl Load {
    pub(super) fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds
    }

    /// What one call costs the gateway on a core, in µs. The same on a busy machine.
    pub(super) fn cost(&self) -> f64 {
        self.worked * 1e6 / self.latencies.len() as f64
    }

    pub(super) fn median(&self) -> anyhow::Result<f64> {
        median(self.latencies.clone())
    }

    pub(super) fn p99(&self) -> anyhow::Result<f64> {
        percentile(self.latencies.clone(), 0.99)
    }

    /// Puts rounds together that were measured one after the other.
    pub(super) fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.seconds += other.seconds;
        self.worked += other.worked;
    }
}

/// What caller `.0` sends as its call number `.1`.
pub(super) type Inputs = Arc<dyn Fn(usize, usize) -> String + Send + Sync>;

/// So many callers at once; each calls again when it is answered, until the time is over.
pub(super) async fn drive(
    site: &Site,
    method: &'static str,
    callers: usize,
    time: Duration,
    inputs: Inputs,
) -> anyhow::Result<Load> {
    let mut connections = Vec::new();
    for _ in 0..callers {
        connections.push(Connection::open(site).await?);
    }
    let before = worked(site.pid)?;
    let (mut tasks, start) = (JoinSet::new(), Instant::now());
    for (caller, mut connection) in connections.into_iter().enumerate() {
        let inputs = inputs.clone();
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            while start.elapsed() < time {
                let input = inputs(caller, latencies.len());
                let asked = Instant::now();
                connection.call(method, &input).await?;
                latencies.push(millis(asked.elapsed()));
            }
            anyhow::Ok(latencies)
        });
    }
    let mut load = Load::default();
    while let Some(latencies) = tasks.join_next().await {
        load.latencies.extend(latencies.context("a caller broke down")??);
    }
    load.seconds = start.elapsed().as_secs_f64();
    load.worked = worked(site.pid)? - before;
    Ok(load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_an_answer_is_read_from_its_head() {
        assert_eq!(content_length("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n"), Some(12));
        assert_eq!(content_length("HTTP/1.1 200 OK\r\ncontent-length:7\r\n\r\n"), Some(7));
        assert_eq!(content_length("HTTP/1.1 200 OK\r\n\r\n"), None);
    }

    #[tokio::test]
    async fn answers_that_come_in_pieces_are_put_together_and_marks_are_found_across_them() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = vec![0; 4096];
            let read = stream.read(&mut asked).await.unwrap();
            for piece in ["HTTP/1.1 200 OK\r\ncontent-", "length: 5\r\n\r\nhel", "loHTTP", "/1.1 mar", "k"] {
                stream.write_all(piece.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
            }
            String::from_utf8(asked[..read].to_vec()).unwrap()
        });
        let mut connection = Connection::open(&Site { authority, token: "secret".into(), pid: 0 }).await.unwrap();
        assert_eq!(connection.call("sessions.list", "{}").await.unwrap(), b"hello");
        connection.until("mark").await.unwrap();
        assert!(connection.unread.is_empty());
        assert!(serving.await.unwrap().contains("authorization: Bearer secret\r\n"));
    }
}
