//! Peers that mean harm or do not know better: nothing they send or leave unsaid ends a call with a failure of ours, holds
//! it up, or is paid for by others.

use crate::{Site, World, notices};
use proto::SessionId;
use proto::methods::TABLE;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A small generator, so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

fn values() -> Vec<Value> {
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    vec![
        Value::Null,
        json!(true),
        json!(-1),
        json!(0),
        json!(1e300),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(""),
        json!("\0"),
        json!("a\0b"),
        json!("../../../etc/passwd"),
        json!("/"),
        json!("main"),
        json!("current"),
        json!("agent:build:main"),
        json!("ses_\u{202e}x"),
        json!("😀\u{0}\u{7f}\u{feff}"),
        json!("x".repeat(1 << 20)),
        json!([]),
        json!({}),
        json!([{}, [], null]),
        json!({ "": { "": {} } }),
        deep,
    ]
}

/// The fields a method knows.
fn fields(document: &Value, method: &str) -> Vec<String> {
    let schema =
        &document["paths"][format!("/rpc/{method}")]["post"]["requestBody"]["content"]["application/json"]["schema"];
    let schema = match schema["$ref"].as_str() {
        Some(reference) => document.pointer(reference.trim_start_matches('#')).unwrap(),
        None => schema,
    };
    schema["properties"].as_object().map(|fields| fields.keys().cloned().collect()).unwrap_or_default()
}

async fn well(site: &Site, what: &str, body: &[u8]) {
    let answer = site.ask(what, &[&site.bearer()], body).await;
    let shown = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
    // These worlds have no reaper to run git with, and say so.
    let without_git = what.contains("/rpc/worktrees.") && answer.status == 503;
    assert!((200..500).contains(&answer.status) || without_git, "{what} {shown}: {} {}", answer.status, answer.body);
    assert!(answer.body.len() < 100_000, "{what} {shown}: an answer of {} bytes", answer.body.len());
}

#[tokio::test]
async fn every_method_survives_every_input() {
    let (world, site) = World::tcp().await;
    let document = site.ask("GET /openapi.json", &[&site.bearer()], b"").await.json();
    let session = world.session().await;
    let mut values = values();
    values.push(json!(session));
    let mut dice = Dice(42);
    // The one that would end the test.
    for row in TABLE.iter().filter(|row| row.name != "gateway.stop") {
        let what = format!("POST /rpc/{}", row.name);
        let fields = fields(&document, row.name);
        for value in &values {
            well(&site, &what, value.to_string().as_bytes()).await;
        }
        for _ in 0..60 {
            let mut input = Map::new();
            // A wait ends by itself.
            input.extend((row.name == "agent.wait").then(|| ("timeoutMs".to_owned(), json!(1))));
            for field in &fields {
                if dice.roll(2) == 0 && field != "timeoutMs" {
                    input.insert(field.clone(), values[dice.roll(values.len())].clone());
                }
            }
            if dice.roll(8) == 0 {
                input.insert("unknown".into(), json!(1));
            }
            well(&site, &what, Value::Object(input).to_string().as_bytes()).await;
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let raw: [&[u8]; 7] =
            [b"", b"{", b"\0", b"\xff\xfe", b"{\"a\":1}{}", br#"{"message":"\ud800"}"#, deep.as_bytes()];
        for body in raw {
            well(&site, &what, body).await;
        }
    }
    assert!(world.gateway.runtime().store().check().await.unwrap().is_empty());
}

/// What is stored, as far as a call could have changed it.
async fn stored(world: &World) -> (u64, usize, Vec<(SessionId, Option<String>, u32)>) {
    let store = world.gateway.runtime().store();
    let sessions = store.list(&store::Query { limit: 1000, ..store::Query::default() }).await.unwrap().sessions;
    let rows: Vec<_> = sessions.into_iter().map(|row| (row.id, row.title, row.pending)).collect();
    (store.cursor().await.unwrap(), rows.len(), rows)
}

#[tokio::test]
async fn what_is_refused_changes_nothing() {
    let (world, site) = World::tcp().await;
    let document = site.ask("GET /openapi.json", &[&site.bearer()], b"").await.json();
    let session = world.session().await;
    let before = stored(&world).await;
    for row in TABLE {
        let what = format!("POST /rpc/{}", row.name);
        let fields = fields(&document, row.name);
        // Each field is right but one, which is of another type than any field; or there is one too many.
        let right = |field: &String| match field.as_str() {
            "message" | "task" => json!("hello"),
            "ref" | "sessionKey" | "sessionId" | "parent" => json!(session),
            _ => Value::Null,
        };
        let whole: Map<String, Value> =
            fields.iter().map(|field| (field.clone(), right(field))).filter(|(_, value)| !value.is_null()).collect();
        let with = |field: &str, value: Value| {
            let mut input = whole.clone();
            input.insert(field.to_owned(), value);
            Value::Object(input).to_string()
        };
        let mut bodies = vec![with("unknown", json!(1)), with("\0", json!("\0")), with(&"x".repeat(1 << 20), json!(1))];
        for field in &fields {
            bodies.extend([json!([[]]), json!({ "": {} })].map(|value| with(field, value)));
        }
        bodies.push(format!("{}]", with("unknown", json!(1))));
        for body in bodies {
            let answer = site.ask(&what, &[&site.bearer()], body.as_bytes()).await;
            let shown: String = body.chars().take(200).collect();
            assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_input"), "{what} {shown}");
        }
    }
    assert_eq!(stored(&world).await, before);
}

#[tokio::test]
async fn t54_paths_and_ids_of_every_shape_are_refused_without_a_failure() {
    let (_world, site) = World::tcp().await;
    let long = "a".repeat(20_000);
    let paths = [
        "/rpc/../healthz",
        "/rpc/%2e%2e%2fhealthz",
        "/rpc/%00",
        "/rpc/health%00",
        "/rpc/%ff%fe",
        "/rpc/%F0%9F%98%80",
        "/rpc/health/",
        "/rpc/health/x",
        "/rpc//health",
        "/%",
        "/events?root=%00",
        "/events?root=../..",
        "/events?session=%ff",
        "/events?after=-1",
        "/events?after=18446744073709551615",
        "/events?after=99999999999999999999999",
        "/events?follow=maybe",
        "/events?root=a&root=b",
        "/events?%00=1",
    ];
    let long = [format!("/rpc/{long}"), format!("/events?root={long}"), format!("/{long}")];
    for path in paths.into_iter().chain(long.iter().map(String::as_str)) {
        for method in ["GET", "POST"] {
            let answer = site.ask(&format!("{method} {path}"), &[&site.bearer()], b"").await;
            let shown: String = path.chars().take(40).collect();
            assert!((400..500).contains(&answer.status), "{method} {shown}: {}", answer.status);
        }
    }
    for cursor in ["x", "\u{e4}", "-1", "18446744073709551615"] {
        let header = format!("last-event-id: {cursor}");
        assert_eq!(site.ask("GET /events", &[&site.bearer(), &header], b"").await.status, 400, "{cursor}");
    }
}

#[tokio::test]
async fn t50_a_message_of_100_mb_is_refused_before_it_is_read() {
    let (_world, site) = World::tcp().await;
    let mut stream = site.connect().await;
    let head = format!(
        "POST /rpc/agent HTTP/1.1\r\nhost: {}\r\n{}\r\ncontent-type: application/json\r\ncontent-length: 104857600\r\n\r\n",
        site.address,
        site.bearer()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut stream = crate::Stream { stream, seen: Vec::new() };
    assert!(stream.until("larger than 25 MiB").await);
    // One that does not say how long it is, is read no further than that.
    let mut stream = site.connect().await;
    let head = format!(
        "POST /rpc/agent HTTP/1.1\r\nhost: {}\r\n{}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        site.address,
        site.bearer()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reading, mut writing) = stream.into_split();
    let writing = async move {
        let mut chunk = b"100000\r\n".to_vec();
        chunk.extend(vec![b' '; 1 << 20]);
        chunk.extend(b"\r\n");
        let mut written = 0;
        while written < 100 && writing.write_all(&chunk).await.is_ok() {
            written += 1;
        }
        written
    };
    let reading = async move {
        let mut answer = Vec::new();
        let _ = reading.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    };
    let (written, answer) = tokio::join!(writing, reading);
    assert!(written < 100 && (answer.is_empty() || answer.contains("larger than 25 MiB")), "{written} {answer}");
}

#[tokio::test]
async fn large_and_many_headers_are_refused() {
    let (_world, site) = World::tcp().await;
    let large = format!("x-large: {}", "y".repeat(40_000));
    assert_eq!(site.ask("GET /healthz", &[&large], b"").await.status, 431);
    let many: Vec<String> = (0..100).map(|n| format!("x-{n}: 1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(site.ask("GET /healthz", &many, b"").await.status, 431);
}

/// Everything else is still served, and quickly.
async fn others_are_served(site: &Site) {
    let bearer = site.bearer();
    let headers = [bearer.as_str()];
    let answer = tokio::time::timeout(Duration::from_secs(2), site.ask("POST /rpc/health", &headers, b"{}"));
    assert_eq!(answer.await.expect("others wait").status, 200);
}

#[tokio::test]
async fn slow_loris_and_half_open_connections_hold_up_nobody() {
    let (_world, site) = World::tcp().await;
    let mut open = Vec::new();
    for n in 0..300 {
        let mut stream = site.connect().await;
        let said: &[u8] = match n % 3 {
            0 => b"",
            1 => b"POST /rpc/health HTTP/1.1\r\nhost: x\r\nx-a: ",
            _ => b"GET / HTTP/1.1\r\n",
        };
        stream.write_all(said).await.unwrap();
        open.push(stream);
    }
    others_are_served(&site).await;
    // A head that never ends is waited for only so long, though there is always a little more of it.
    let mut loris = open.swap_remove(1);
    let started = tokio::time::Instant::now();
    while loris.write_all(b"y").await.is_ok() && started.elapsed() < Duration::from_secs(40) {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let waited = started.elapsed().as_secs();
    assert!((8..20).contains(&waited), "after {waited} s");
    others_are_served(&site).await;
}

#[tokio::test]
async fn a_watcher_that_never_reads_slows_nobody() {
    let (world, site) = World::tcp().await;
    let session = world.session().await;
    let mut deaf = site.events(&format!("?root={session}"), &[&site.bearer()]).await;
    assert!(deaf.until("200 OK").await);
    let mut quick = site.events(&format!("?root={session}"), &[&site.bearer()]).await;
    assert!(quick.until("200 OK").await);
    for _ in 0..40 {
        world.append(&session, notices(500, &"z".repeat(400))).await;
    }
    world.append(&session, notices(1, "the last one")).await;
    assert!(quick.until("the last one").await);
    others_are_served(&site).await;
    // When it does read, nothing kept is missing, and it is told that it was too slow.
    assert!(deaf.until("the last one").await);
    let text = String::from_utf8_lossy(&deaf.seen).into_owned();
    assert!(text.contains(r#"{"type":"resync","cursor":"#));
    assert_eq!(text.matches(r#""type":"entry""#).count(), 20_001);
}

#[tokio::test]
async fn reconnecting_under_load_misses_and_repeats_nothing() {
    for seed in 0..6 {
        let (world, site) = World::tcp().await;
        let (session, noise) = (world.session().await, world.session().await);
        let query = [format!("?session={session}"), format!("?root={session}"), String::new()];
        let total = 1500;
        let mut dice = Dice(seed);
        let pauses: Vec<usize> = (0..total / 3).map(|_| dice.roll(60)).collect();
        let appending = async {
            for pause in pauses {
                world.append(&session, notices(3, "x")).await;
                world.append(&noise, notices(pause % 4, "not asked for")).await;
                if pause == 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        };
        let watching = reconnect(&site, &query[seed as usize % 3], &session, total, &mut dice);
        let ((), seen) = tokio::join!(appending, watching);
        assert_eq!(seen, (1..=total as u64).collect::<Vec<_>>(), "seed {seed}");
    }
}

/// The entries of a session as they come, over connections that are cut anywhere.
async fn reconnect(site: &Site, query: &str, session: &SessionId, total: usize, dice: &mut Dice) -> Vec<u64> {
    let (mut seen, mut last) = (Vec::new(), "0".to_owned());
    while seen.len() < total {
        let header = format!("last-event-id: {last}");
        let mut events = site.events(query, &[&site.bearer(), &header]).await;
        assert!(events.until("\r\n\r\n").await);
        let start = events.seen.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let (mut reader, mut body) = (proto::sse::Reader::default(), unchunked::Reader::default());
        let (mut bytes, mut chunk) = (200 + dice.roll(60_000), events.seen.split_off(start));
        loop {
            for event in reader.push(&body.push(&chunk)).unwrap() {
                let value: Value = serde_json::from_str(&event.data).unwrap();
                if value["type"] == "entry" && value["sessionId"] == json!(session) {
                    seen.push(value["seq"].as_u64().unwrap());
                }
                last = event.id.unwrap_or(last);
            }
            bytes = bytes.saturating_sub(chunk.len());
            if bytes == 0 || seen.len() >= total {
                break;
            }
            let mut next = vec![0; 1 + dice.roll(1000)];
            let read = events.stream.read(&mut next).await.unwrap();
            assert!(read > 0, "the stream goes on");
            next.truncate(read);
            chunk = next;
        }
    }
    seen
}

/// Bodies whose length nobody knew.
mod unchunked {
    #[derive(Default)]
    pub(super) struct Reader {
        rest: Vec<u8>,
    }

    impl Reader {
        /// The bytes of all chunks that have come whole.
        pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
            self.rest.extend_from_slice(bytes);
            let mut out = Vec::new();
            while let Some(line) = self.rest.windows(2).position(|two| two == b"\r\n") {
                let size = usize::from_str_radix(std::str::from_utf8(&self.rest[..line]).unwrap(), 16).unwrap();
                let (start, end) = (line + 2, line + 2 + size);
                if self.rest.len() < end + 2 {
                    break;
                }
                out.extend_from_slice(&self.rest[start..end]);
                self.rest.drain(..end + 2);
            }
            out
        }
    }
}

/// What this process holds, in MiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[tokio::test]
async fn a_hundred_stalled_watchers_hold_one_large_event_between_them() {
    const SIZE: usize = 8 << 20;
    let (world, site) = World::tcp().await;
    let session = world.session().await;
    let reader = crate::bearer(&world.token("reader", &[proto::methods::Scope::Read]));
    // Half of them see it live, half find it in the store; some are shown it without secrets.
    let mut stalled = Vec::new();
    for n in 0..50 {
        let token = if n % 2 == 0 { site.bearer() } else { reader.clone() };
        let mut stream = site.events(&format!("?session={session}"), &[&token]).await;
        assert!(stream.until("\r\n\r\n").await);
        stalled.push(stream);
    }
    let before = resident();
    world.append(&session, notices(1, &"a b ".repeat(SIZE / 4))).await;
    for n in 0..50 {
        let token = if n % 2 == 0 { site.bearer() } else { reader.clone() };
        stalled.push(site.events(&format!("?session={session}&after=0"), &[&token]).await);
    }
    for stream in &mut stalled {
        assert!(stream.until("a b a b").await, "the event has begun to arrive");
    }
    let held = resident().saturating_sub(before);
    assert!(held < 250, "{held} MiB for an event of {} MiB", SIZE >> 20);
    // One that reads gets all of it all the same.
    let mut quick = stalled.pop().unwrap();
    assert!(quick.until("a b \"}}").await);
}

#[tokio::test]
async fn large_bodies_of_all_callers_together_have_a_limit() {
    let (world, site) = World::tcp().await;
    let token = world.token("weak", &[proto::methods::Scope::Read]);
    let large = 24 << 20;
    let head = format!(
        "POST /rpc/sessions.list HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n",
        site.address,
        large + 10
    );
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (mut stream, head) = (site.connect().await, head.clone());
        calls.spawn(async move {
            stream.write_all(head.as_bytes()).await.unwrap();
            let (mut reading, mut writing) = stream.split();
            let write = async {
                let _ = writing.write_all(&vec![b' '; large]).await;
                std::future::pending::<()>().await;
            };
            let mut answer = vec![0; 4096];
            tokio::select! {
                () = write => {}
                read = reading.read(&mut answer) => answer.truncate(read.unwrap_or(0)),
            }
            String::from_utf8_lossy(&answer).to_ascii_lowercase()
        });
    }
    // Nobody ends theirs, so some find no room.
    let answer = calls.join_next().await.unwrap().unwrap();
    assert!(answer.starts_with("http/1.1 503 ") && answer.contains("retry-after:"), "{answer}");
    // Others' small calls, and all of the owner's, pass.
    let padded = format!("{{{}}}", " ".repeat(large));
    assert_eq!(site.ask("POST /rpc/sessions.list", &[&site.bearer()], b"{}").await.status, 200);
    let mut stream = tokio::net::UnixStream::connect(world.dir.path().join("run/s.sock")).await.unwrap();
    let head = format!(
        "POST /rpc/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        padded.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(padded.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // What was broken off is room again.
    calls.shutdown().await;
    assert_eq!(site.ask("POST /rpc/sessions.list", &[&site.bearer()], padded.as_bytes()).await.status, 200);
}

#[tokio::test]
async fn an_input_of_too_many_values_is_refused_before_it_is_taken_apart() {
    let (_world, site) = World::tcp().await;
    let body = format!("{{\"x\":[{}0]}}", "0,".repeat(1 << 20));
    let answer = site.ask("POST /rpc/sessions.list", &[&site.bearer()], body.as_bytes()).await;
    assert!(answer.status == 400 && answer.body.contains("values"), "{}", answer.body);
}
