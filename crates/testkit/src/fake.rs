//! A model server on a port of its own, speaking every wire (by the path it is asked at) and doing what a test tells it.
//!
//! It runs on its own thread and runtime: a test may block, pause its clock or measure without disturbing it.

use crate::{Received, Reply};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

/// Long enough for a busy machine; a test that waits longer has hung.
const PATIENCE: Duration = Duration::from_secs(30);

/// Timings are small; this many are kept for a bench.
const TIMINGS_KEPT: usize = 1_000_000;

type Script = dyn Fn(&Received) -> Reply + Send + Sync;

/// The server. Dropping it closes its port and every connection.
pub struct FakeModel {
    address: SocketAddr,
    shared: Arc<Shared>,
    runtime: tokio::runtime::Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How much the server remembers.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many of the newest requests are kept whole.
    pub keep: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { keep: 1_000 }
    }
}

/// When a request came and when its answer had gone.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    pub n: usize,
    pub at: Instant,
    /// When the last chunk was handed to the connection; `None` while it is being written.
    pub replied: Option<Instant>,
}

struct Shared {
    script: Box<Script>,
    queue: Mutex<VecDeque<Reply>>,
    record: Mutex<Record>,
    count: watch::Sender<usize>,
    connections: watch::Sender<usize>,
    keep: usize,
}

#[derive(Default)]
struct Record {
    requests: VecDeque<Arc<Received>>,
    timings: VecDeque<Timing>,
    next: usize,
}

impl FakeModel {
    /// Answers from the queue (see [`FakeModel::push`]), and `ok` when that is empty.
    pub fn start() -> Self {
        Self::scripted(|_| Reply::text("ok"))
    }

    /// Asks `script` for every answer that the queue does not have.
    pub fn scripted(script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::with(Options::default(), script)
    }

    pub fn with(options: Options, script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        let shared = Arc::new(Shared {
            script: Box::new(script),
            queue: Mutex::default(),
            record: Mutex::default(),
            count: watch::Sender::new(0),
            connections: watch::Sender::new(0),
            keep: options.keep,
        });
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime for the fake");
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a listener that does not block");
        let address = listener.local_addr().expect("a bound listener has an address");
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let serving = serve(listener, Arc::clone(&shared));
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = serving => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, shared, runtime: handle, stop: Some(stop), thread: Some(thread) }
    }

    /// Queues an answer; it comes before the script's.
    pub fn push(&self, reply: Reply) {
        lock(&self.shared.queue).push_back(reply);
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The `base_url` of a provider whose wire has the version in its path.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What a provider's `base_url` would be.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// How many requests have arrived whole.
    pub fn count(&self) -> usize {
        *self.shared.count.borrow()
    }

    /// How many connections were ever opened.
    pub fn connections(&self) -> usize {
        *self.shared.connections.borrow()
    }

    /// The requests kept, oldest first.
    pub fn requests(&self) -> Vec<Arc<Received>> {
        lock(&self.shared.record).requests.iter().cloned().collect()
    }

    /// The newest request.
    pub fn last(&self) -> Option<Arc<Received>> {
        lock(&self.shared.record).requests.back().cloned()
    }

    pub fn timings(&self) -> Vec<Timing> {
        lock(&self.shared.record).timings.iter().copied().collect()
    }

    /// Waits until `n` requests have arrived; fails the test when they do not come.
    pub async fn wait_for(&self, n: usize) {
        // On the fake's own runtime, whose clock is real even when the test's is paused.
        let arrived = self.runtime.spawn(arrival(self.shared.count.subscribe(), n));
        let arrived = arrived.await.expect("the fake is running");
        assert!(arrived, "waited for {n} requests, only {} came", self.count());
    }

    /// The same for tests without a runtime.
    pub fn wait_for_blocking(&self, n: usize) {
        let start = Instant::now();
        while self.count() < n {
            assert!(start.elapsed() < PATIENCE, "waited for {n} requests, only {} came", self.count());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for FakeModel {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn arrival(mut count: watch::Receiver<usize>, n: usize) -> bool {
    let arrived = count.wait_for(|count| *count >= n);
    matches!(tokio::time::timeout(PATIENCE, arrived).await, Ok(Ok(_)))
}

async fn serve(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).expect("a listener that does not block");
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        shared.connections.send_modify(|count| *count += 1);
        connections.spawn(connection(stream, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| answer(request, Arc::clone(&shared)));
    let mut server = hyper::server::conn::http1::Builder::new();
    // A client that goes away in the middle is part of many tests.
    let _ = server.timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service).await;
}

type Answer = Response<http_body_util::combinators::BoxBody<Bytes, crate::reply::Died>>;

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Answer, hyper::Error> {
    let at = Instant::now();
    let n = shared.begin(at);
    let (head, body) = request.into_parts();
    let raw = body.collect().await?.to_bytes();
    let received = Arc::new(Received { n, at, path: head.uri.path().to_owned(), headers: head.headers, raw });
    let queued = lock(&shared.queue).pop_front();
    let reply = queued.unwrap_or_else(|| (shared.script)(&received));
    let wire = received.wire();
    shared.arrived(received);
    if !reply.delay.is_zero() {
        tokio::time::sleep(reply.delay).await;
    }
    let mut response = Response::builder().status(reply.status).header("content-type", reply.content_type);
    for (name, value) in &reply.headers {
        response = response.header(name, value);
    }
    let done = Done { n, shared };
    Ok(response.body(reply.into_body(wire, done)).expect("the script's headers are valid"))
}

impl Shared {
    fn begin(&self, at: Instant) -> usize {
        let mut record = lock(&self.record);
        let n = record.next;
        record.next += 1;
        record.timings.push_back(Timing { n, at, replied: None });
        if record.timings.len() > TIMINGS_KEPT {
            record.timings.pop_front();
        }
        n
    }

    fn arrived(&self, received: Arc<Received>) {
        let mut record = lock(&self.record);
        record.requests.push_back(received);
        if record.requests.len() > self.keep {
            record.requests.pop_front();
        }
        drop(record);
        self.count.send_modify(|count| *count += 1);
    }

    fn replied(&self, n: usize) {
        let mut record = lock(&self.record);
        let first = record.timings.front().map_or(0, |timing| timing.n);
        if let Some(timing) = n.checked_sub(first).and_then(|place| record.timings.get_mut(place)) {
            timing.replied = Some(Instant::now());
        }
    }
}

/// Marks the end of a reply when it is dropped.
struct Done {
    n: usize,
    shared: Arc<Shared>,
}

impl Drop for Done {
    fn drop(&mut self) {
        self.shared.replied(self.n);
    }
}

/// A script that panicked has failed its test already; what was recorded before still stands.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gate;
    use serde_json::json;
    use std::io::{Read, Write};

    /// One request over a bare socket, and everything that comes back until the server closes.
    fn post(fake: &FakeModel, body: &str) -> String {
        let mut stream = std::net::TcpStream::connect(fake.address()).unwrap();
        let length = body.len();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all((head + body).as_bytes()).unwrap();
        let mut answer = Vec::new();
        // A server that dies in the middle is an error here; what came before it counts.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn the_queue_comes_before_the_script_and_everything_is_recorded() {
        let fake = FakeModel::scripted(|received| Reply::text(received.last("user").unwrap_or_default()).usage(3, 4));
        fake.push(Reply::calls([("read", json!({ "filePath": "a" }))]));
        assert!(post(&fake, "{}").contains(r#""name":"read""#));
        let answer = post(&fake, r#"{"messages":[{"role":"user","content":"abcd"}]}"#);
        assert!(answer.contains(r#""content":"d""#) && answer.contains(r#""prompt_tokens":3"#), "{answer}");
        assert!(answer.contains("data: [DONE]"));
        fake.wait_for_blocking(2);
        assert_eq!(fake.requests().len(), 2);
        let timings = fake.timings();
        assert!(timings.iter().all(|timing| timing.replied.is_some_and(|replied| replied >= timing.at)), "{timings:?}");
    }

    #[test]
    fn only_so_many_requests_are_kept() {
        let fake = FakeModel::with(Options { keep: 2 }, |_| Reply::text("ok"));
        for n in 0..4 {
            post(&fake, &n.to_string());
        }
        let kept: Vec<usize> = fake.requests().iter().map(|received| received.n).collect();
        assert_eq!((kept, fake.count(), fake.timings().len()), (vec![2, 3], 4, 4));
    }

    #[test]
    fn a_reply_can_die_and_an_error_has_its_status() {
        let fake = FakeModel::start();
        fake.push(Reply::deltas(["one", "two"]).dies_after(1));
        fake.push(Reply::raw(429, "slow down").header("retry-after", "1"));
        let cut = post(&fake, "{}");
        assert!(cut.contains("one") && !cut.contains("two"), "{cut}");
        let refused = post(&fake, "{}");
        assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("retry-after: 1"), "{refused}");
    }

    #[tokio::test]
    async fn a_gate_holds_a_reply_until_the_test_lets_it_go() {
        let fake = Arc::new(FakeModel::start());
        let gate = Gate::new();
        fake.push(Reply::text("late").gated(gate.clone()));
        let client = tokio::task::spawn_blocking({
            let fake = Arc::clone(&fake);
            move || post(&fake, "{}")
        });
        fake.wait_for(1).await;
        assert!(fake.timings()[0].replied.is_none());
        gate.open();
        assert!(client.await.unwrap().contains("data: [DONE]"));
    }
}
