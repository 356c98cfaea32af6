//! The doors: who is let in, in which order the checks come, and that nothing is served around them. Named after the
//! cases of the threat table.

use crate::{Answer, Site, World, bearer, notices};
use client::Client;
use proto::methods::{Agent, AgentInput, AgentWait, Health, Nothing, Scope, SessionsList, WaitInput, WaitStatus};
use proto::{Code, Error};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

async fn health(site: &Site, headers: &[&str]) -> Answer {
    site.ask("POST /rpc/health", headers, b"{}").await
}

async fn described(site: &Site) -> Value {
    let answer = site.ask("GET /openapi.json", &[&site.bearer()], b"").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()
}

#[tokio::test]
async fn the_client_speaks_tcp_as_it_speaks_to_the_socket() {
    let (world, site) = World::tcp().await;
    let client = Client::connect_tcp(&site.url, &site.token).await.unwrap();
    assert_eq!(client.call::<Health>(Nothing {}).await.unwrap().version, "9.9.9");
    let input = AgentInput { message: "hello".into(), ..AgentInput::default() };
    let accepted = client.call::<Agent>(input).await.unwrap();
    let wait = WaitInput { run_id: accepted.run_id, timeout_ms: None, tree: true };
    assert_eq!(client.call::<AgentWait>(wait).await.unwrap().status, WaitStatus::Ok);
    let watch = client::Watch { root: accepted.session_id, after: Some(accepted.cursor), follow: false };
    assert!(client.events(&watch).await.unwrap().next().await.unwrap().is_some());
    let stranger = Client::connect_tcp(&site.url, "cvk_wrong").await.unwrap();
    assert_eq!(Error::from(stranger.call::<Health>(Nothing {}).await.unwrap_err()).code, Code::Unauthorized);
    drop(world);
}

#[tokio::test]
async fn t01_without_being_asked_nothing_listens_on_tcp_and_the_socket_is_private() {
    use std::os::unix::fs::MetadataExt;
    let world = World::new().await;
    let socket = world.dir.path().join("run/s.sock");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o700));
    assert!(!world.dir.path().join("port").exists() && !world.dir.path().join("token").exists());
}

#[tokio::test]
async fn t03_every_route_needs_a_token_but_healthz() {
    let (world, site) = World::tcp().await;
    let document = described(&site).await;
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > proto::methods::TABLE.len());
    assert!(paths.contains_key("/ws"), "OpenAPI has no operation for it, but it is a route");
    for (path, operations) in paths {
        let methods = ["get", "post"].into_iter().filter(|method| path == "/ws" || operations[*method].is_object());
        for method in methods {
            let first = format!("{} {path}", method.to_uppercase());
            let answer = site.ask(&first, &[], b"{}").await;
            let expected = if path == "/healthz" { 200 } else { 401 };
            assert_eq!(answer.status, expected, "{first}: {}", answer.body);
            if expected == 401 {
                assert_eq!(answer.code(), "unauthorized");
            }
        }
    }
    for path in ["/", "/nothing", "/rpc/", "/rpc/nothing", "/healthz/", "/healthz/../rpc/health", "//healthz"] {
        for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD"] {
            let answer = site.ask(&format!("{method} {path}"), &[], b"{}").await;
            assert_eq!(answer.status, 401, "{method} {path}");
        }
    }
    drop(world);
}

#[tokio::test]
async fn every_described_route_is_served() {
    let (_world, site) = World::tcp().await;
    for path in described(&site).await["paths"].as_object().unwrap().keys().filter(|path| !path.starts_with("/rpc/")) {
        if path == "/events" {
            let mut stream = site.events("", &[&site.bearer()]).await;
            assert!(stream.until("200 OK").await);
            continue;
        }
        let status = site.ask(&format!("GET {path}"), &[&site.bearer()], b"").await.status;
        assert_eq!(status, if path == "/ws" { 400 } else { 200 }, "{path}");
    }
}

#[tokio::test]
async fn what_is_only_read_says_so_to_whoever_writes() {
    let (_world, site) = World::tcp().await;
    let (host, bearer) = (format!("host: {}", site.address), site.bearer());
    for path in ["/metrics", "/openapi.json", "/events", "/ws"] {
        for method in ["POST", "PUT", "DELETE"] {
            let answer = site.raw(&format!("{method} {path}"), &[&host, &bearer], b"x").await;
            assert_eq!(answer.status, 405, "{method} {path}: {}", answer.body);
            assert!(answer.head.contains("allow: get,head"), "{method} {path}: {}", answer.head);
        }
    }
    let answer = site.ask("GET /rpc/health", &[&bearer], b"").await;
    assert!(answer.status == 405 && answer.head.contains("allow: post"), "{}", answer.head);
}

#[tokio::test]
async fn t05_no_cross_origin_header_is_ever_sent() {
    let (_world, site) = World::tcp().await;
    let own = format!("origin: http://{}", site.address);
    for origin in ["origin: http://evil.example", own.as_str()] {
        let asks = [origin, "access-control-request-method: POST", "access-control-request-headers: authorization"];
        for first in ["OPTIONS /rpc/health", "OPTIONS /events", "POST /rpc/health"] {
            let mut headers = asks.to_vec();
            let bearer = site.bearer();
            headers.push(&bearer);
            let answer = site.ask(first, &headers, b"{}").await;
            assert!(!answer.head.contains("access-control-"), "{first} {origin}: {}", answer.head);
        }
    }
}

#[tokio::test]
async fn t06_a_page_of_another_origin_changes_nothing_whatever_it_sends() {
    let (world, site) = World::tcp().await;
    let (host, bearer) = (format!("host: {}", site.address), site.bearer());
    let input = br#"{"message":"do it"}"#;
    for kind in ["application/json", "application/x-www-form-urlencoded", "text/plain", "multipart/form-data"] {
        let kind = format!("content-type: {kind}");
        let headers = [host.as_str(), kind.as_str(), bearer.as_str(), "origin: http://evil.example"];
        let answer = site.raw("POST /rpc/agent", &headers, input).await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "denied"), "{kind}");
    }
    // From our own origin, or from no page at all, only JSON is taken.
    for kind in ["content-type: text/plain", "content-type: application/jsonp", "x-nothing: 1"] {
        let answer = site.raw("POST /rpc/agent", &[&host, kind, &bearer], input).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_input"), "{kind}");
    }
    let list = world.client.call::<SessionsList>(Default::default()).await.unwrap();
    assert_eq!(list.count, 0, "nothing was started");
    let mut stream = site.events("", &[&bearer, "origin: http://evil.example"]).await;
    assert!(stream.until("403 Forbidden").await);
}

#[tokio::test]
async fn t07_names_that_are_not_ours_are_refused_on_every_route() {
    let (_world, site) = World::tcp().await;
    let port = site.address.rsplit(':').next().unwrap();
    let names = [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        "127.0.0.1".to_owned(),
        format!("[::2]:{port}"),
        String::new(),
    ];
    let bearer = site.bearer();
    for first in ["POST /rpc/health", "GET /events", "GET /ws", "GET /openapi.json", "GET /healthz", "GET /nothing"] {
        for name in &names {
            let host = format!("host: {name}");
            let answer = site.raw(first, &[&host, "content-type: application/json", &bearer], b"{}").await;
            assert_eq!((answer.status, answer.code().as_str()), (403, "denied"), "{first} {name}");
        }
        let missing = site.raw(first, &["content-type: application/json", &bearer], b"{}").await;
        assert_eq!(missing.status, 403, "{first} without a host");
        let host = format!("host: {}", site.address);
        let two = site.raw(first, &[&host, "host: evil.example", &bearer], b"{}").await;
        assert_eq!(two.status, 403, "{first} with two hosts");
    }
    let host = format!("host: {}", site.address);
    let elsewhere = site.raw("GET http://evil.example/healthz", &[&host], b"").await;
    assert_eq!(elsewhere.status, 403);
    let localhost = format!("host: localhost:{port}");
    assert_eq!(site.raw("GET /healthz", &[&localhost], b"").await.status, 200);
}

#[tokio::test]
async fn t08_a_token_in_the_address_is_not_one() {
    let (_world, site) = World::tcp().await;
    for first in ["POST /rpc/health?token=TOKEN", "GET /events?access_token=TOKEN", "GET /openapi.json?token=TOKEN"] {
        let answer = site.ask(&first.replace("TOKEN", &site.token), &[], b"{}").await;
        assert_eq!(answer.status, 401, "{first}");
        assert!(!answer.body.contains(&site.token) && !answer.head.contains(&site.token));
    }
    let cookie = format!("cookie: token={}", site.token);
    assert_eq!(health(&site, &[&cookie]).await.status, 401);
}

#[tokio::test]
async fn t09_strange_origins_are_refused() {
    let (_world, site) = World::tcp().await;
    let bearer = site.bearer();
    for origin in ["null", "http://localhost:1", "http://127.0.0.1.nip.io", "", "http://", &site.address] {
        let origin = format!("origin: {origin}");
        assert_eq!(health(&site, &[&bearer, &origin]).await.status, 403, "{origin}");
    }
    let own = format!("origin: http://{}", site.address);
    assert_eq!(health(&site, &[&bearer, &own]).await.status, 200);
    assert_eq!(health(&site, &[&bearer, &own, &own]).await.status, 403, "two origins");
}

#[tokio::test]
async fn t10_only_an_admin_ends_the_gateway() {
    let (world, site) = World::tcp().await;
    let token = world.token("most", &[Scope::Read, Scope::Write, Scope::Approve]);
    let answer = site.ask("POST /rpc/gateway.stop", &[&bearer(&token)], br#"{"force":true}"#).await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "forbidden_scope"));
    assert_eq!(health(&site, &[&bearer(&token)]).await.status, 200);
    assert_eq!(site.ask("POST /rpc/gateway.stop", &[&site.bearer()], b"{}").await.status, 200);
}

#[tokio::test]
async fn t11_scopes_in_a_request_mean_nothing() {
    let (world, site) = World::tcp().await;
    let token = bearer(&world.token("reader", &[Scope::Read]));
    let claims = [token.as_str(), "x-convoke-scopes: admin", "x-scopes: write", "scope: admin", "role: admin"];
    let answer = site.ask("POST /rpc/agent?scope=admin", &claims, br#"{"message":"x"}"#).await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "forbidden_scope"));
    let answer = site.ask("POST /rpc/health", &claims, br#"{"scopes":["admin"]}"#).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_input"));
}

#[tokio::test]
async fn t12_a_token_has_to_be_valid_not_only_there() {
    let (_world, site) = World::tcp().await;
    let good = site.bearer();
    let upper = bearer(&site.token.to_uppercase());
    let basic = format!("authorization: Basic {}", site.token);
    let joined = format!("{good}, Bearer x");
    let cases: [&[&str]; 8] = [
        &["authorization: Bearer x"],
        &["authorization: Bearer"],
        &["authorization:"],
        &[&basic],
        &[&upper],
        &[&joined],
        &[&good, &good],
        &["authorization: Bearer x", "cookie: session=1"],
    ];
    for headers in cases {
        let answer = health(&site, headers).await;
        assert_eq!((answer.status, answer.code().as_str()), (401, "unauthorized"), "{headers:?}");
        assert!(answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
    }
    assert_eq!(health(&site, &[&good]).await.status, 200);
}

#[tokio::test]
async fn t13_a_revoked_token_is_refused_at_once_and_its_streams_close() {
    let (world, site) = World::tcp().await;
    let token = world.token("phone", &[Scope::Read, Scope::Write]);
    let other = world.token("desk", &[Scope::Read]);
    let mut stream = site.events("", &[&bearer(&token)]).await;
    let mut stays = site.events("", &[&bearer(&other)]).await;
    assert!(stream.until("200 OK").await && stays.until("200 OK").await);
    // A call that waits is open as well.
    std::fs::write(world.dir.path().join("slow.script"), "wait: 60s\nsay: late\n").unwrap();
    let input = AgentInput { message: "x".into(), model: Some("offline/slow".into()), ..AgentInput::default() };
    let run = world.client.call::<Agent>(input).await.unwrap().run_id;
    let client = Client::connect_tcp(&site.url, &token).await.unwrap();
    let waiting = client.call::<AgentWait>(WaitInput { run_id: run, timeout_ms: None, tree: false });
    let revoking = async {
        assert_eq!(health(&site, &[&bearer(&token)]).await.status, 200);
        convoke_gateway::tokens::revoke(world.dir.path(), "phone").unwrap();
        assert_eq!(health(&site, &[&bearer(&token)]).await.status, 401);
    };
    let (waited, ()) = tokio::join!(waiting, revoking);
    assert_eq!(Error::from(waited.unwrap_err()).code, Code::Unauthorized);
    assert!(stream.until(": the gateway closes this stream").await && !stream.until("never").await);
    let session = world.session().await;
    world.append(&session, notices(1, "still here")).await;
    assert!(stays.until("still here").await, "others stay");
}

#[tokio::test]
async fn t13_an_expired_token_closes_what_it_opened() {
    let (world, site) = World::tcp().await;
    let life = Duration::from_millis(1500);
    let token = convoke_gateway::tokens::add(world.dir.path(), "short", &[Scope::Read], Some(life)).unwrap().token;
    let mut stream = site.events("", &[&bearer(&token)]).await;
    assert!(stream.until("200 OK").await);
    assert!(stream.until(": the gateway closes this stream").await);
    assert_eq!(health(&site, &[&bearer(&token)]).await.status, 401);
}

#[tokio::test]
async fn t14_guessing_is_throttled_and_a_right_token_still_passes() {
    let (_world, site) = World::tcp().await;
    let started = Instant::now();
    let mut refused = [0, 0];
    for n in 0..1000 {
        let guess = bearer(&format!("cvk_{n:064x}"));
        let forwarded = format!("x-forwarded-for: 10.0.0.{}", n % 250);
        // Whatever else they say does not switch it off.
        let extra: &[&str] =
            if n % 2 == 0 { &[&guess] } else { &[&guess, "x-device-token: x", &forwarded, "cookie: a=b"] };
        let answer = health(&site, extra).await;
        match (answer.status, answer.code().as_str()) {
            (401, "unauthorized") => refused[0] += 1,
            (429, "limit_rate") => {
                assert!(answer.head.contains("retry-after: ") && answer.json()["error"]["retryAfterMs"].is_u64());
                refused[1] += 1;
            }
            other => panic!("{other:?}"),
        }
        if n % 100 == 0 {
            // One count for all that is served, whichever way they come.
            for first in ["GET /events", "GET /ws", "GET /metrics", "POST /rpc/agent", "GET /nothing"] {
                let status = site.ask(first, &[&guess], b"").await.status;
                assert!(status == 429 || n == 0, "{first}: {status}");
            }
            assert_eq!(health(&site, &[&site.bearer()]).await.status, 200, "after {n} guesses");
        }
    }
    // Ten at once, five of them on the other routes, then one in six seconds.
    let more = started.elapsed().as_secs() / 6 + 1;
    assert!(refused[0] >= 5 && refused[0] <= 5 + more && refused[0] + refused[1] == 1000, "{refused:?}");
    assert_eq!(health(&site, &[]).await.status, 401, "who tries nothing is not throttled");
}

#[tokio::test]
async fn t16_a_token_that_reads_does_nothing_else() {
    let (world, site) = World::tcp().await;
    let reader = bearer(&world.token("reader", &[Scope::Read]));
    let writer = bearer(&world.token("writer", &[Scope::Write]));
    for row in proto::methods::TABLE {
        let first = format!("POST /rpc/{}", row.name);
        let answer = site.ask(&first, &[&reader], b"[]").await;
        let expected = if row.scope == Scope::Read { "invalid_input" } else { "forbidden_scope" };
        assert_eq!(answer.code(), expected, "{first}: {}", answer.body);
        if row.scope == Scope::Approve {
            assert_eq!(site.ask(&first, &[&writer], b"{}").await.code(), "forbidden_scope", "{first}");
        }
    }
    for first in ["GET /metrics", "GET /events"] {
        assert_eq!(site.ask(first, &[&writer], b"").await.code(), "forbidden_scope", "{first}");
    }
    assert_eq!(site.ask("GET /metrics", &[&reader], b"").await.status, 200);
}

#[tokio::test]
async fn a_token_that_writes_widens_no_permission() {
    let (world, site) = World::tcp().await;
    let writer = bearer(&world.token("writer", &[Scope::Read, Scope::Write]));
    let approver = bearer(&world.token("approver", &[Scope::Read, Scope::Write, Scope::Approve]));
    let answer = site.ask("POST /rpc/sessions.create", &[&writer], br#"{"label":"it","permission":[]}"#).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let rule = r#"[{"permission":"bash","pattern":"*","action":"allow"}]"#;
    for (method, input) in [
        ("sessions.create", format!(r#"{{"permission":{rule}}}"#)),
        ("sessions.patch", r#"{"ref":"it","permission":"auto"}"#.to_owned()),
        ("sessions.patch", r#"{"ref":"it","permissionMode":"accept-edits","title":"x"}"#.to_owned()),
        ("sessions.patch", r#"{"ref":"it","permissi\u006fn":"ask"}"#.to_owned()),
        ("agent", r#"{"message":"x","permissionMode":"auto"}"#.to_owned()),
        ("agent", r#"{"message":"x","sessionKey":"it","permissionMode":"ask"}"#.to_owned()),
        (
            "messages.send",
            r#"{"to":"it","message":{"type":"plan_approval_response","request_id":"ask_1","approve":true}}"#.to_owned(),
        ),
        (
            "messages.send",
            r#"{"to":"it","message":{"type":"x","type":"plan_approval_response","request_id":"ask_1","approve":true}}"#
                .to_owned(),
        ),
    ] {
        let first = format!("POST /rpc/{method}");
        let answer = site.ask(&first, &[&writer], input.as_bytes()).await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "forbidden_scope"), "{method} {input}");
        assert!(answer.body.contains("approve"), "{}", answer.body);
        let answer = site.ask(&first, &[&approver], input.as_bytes()).await;
        assert_ne!(answer.status, 403, "{method} {input}: {}", answer.body);
    }
    for (method, input) in [
        ("sessions.patch", r#"{"ref":"it","title":"x","permission":null}"#),
        ("agent", r#"{"message":"x","sessionKey":"it","permissionMode":null}"#),
        ("messages.send", r#"{"to":"it","message":"{\"type\":\"plan_approval_response\"}"}"#),
    ] {
        let answer = site.ask(&format!("POST /rpc/{method}"), &[&writer], input.as_bytes()).await;
        assert_eq!(answer.status, 200, "{method} {input}: {}", answer.body);
    }
}

#[tokio::test]
async fn metrics_count_by_method_and_code() {
    let (_world, site) = World::tcp().await;
    let bearer = site.bearer();
    health(&site, &[&bearer]).await;
    health(&site, &[]).await;
    site.ask("POST /rpc/no.such.method.at.all", &[&bearer], b"{}").await;
    let text = site.ask("GET /metrics", &[&bearer], b"").await.body;
    for line in [
        r#"convoke_requests_total{door="tcp",method="health",code="ok"} 1"#,
        r#"convoke_requests_total{door="tcp",method="health",code="unauthorized"} 1"#,
        r#"convoke_requests_total{door="tcp",method="other",code="not_found"} 1"#,
        r#"convoke_request_seconds_count{method="health"} 2"#,
        "convoke_sessions_awake 0",
        r#"convoke_connections{door="tcp"} "#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn a_mistyped_field_is_refused_with_the_nearest_one() {
    let (_world, site) = World::tcp().await;
    let answer = site.ask("POST /rpc/agent", &[&site.bearer()], br#"{"mesage":"x"}"#).await;
    assert_eq!(answer.json()["error"]["hint"], "did you mean `message`?");
    assert_eq!(answer.json()["error"]["code"], json!("invalid_input"));
}

#[tokio::test]
async fn a_stopping_gateway_finishes_calls_and_closes_streams() {
    let (mut world, site) = World::tcp().await;
    let mut stream = site.events("", &[&site.bearer()]).await;
    assert!(stream.until("200 OK").await);
    // A body that is still on its way is a call under way.
    let mut slow = site.connect().await;
    let head = format!(
        "POST /rpc/health HTTP/1.1\r\nhost: {}\r\n{}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{",
        site.address,
        site.bearer()
    );
    tokio::io::AsyncWriteExt::write_all(&mut slow, head.as_bytes()).await.unwrap();
    health(&site, &[&site.bearer()]).await;
    world.gateway.stop();
    assert!(stream.until(": the gateway closes this stream").await);
    tokio::io::AsyncWriteExt::write_all(&mut slow, b"}").await.unwrap();
    let mut slow = crate::Stream { stream: slow, seen: Vec::new() };
    assert!(slow.until("200 OK").await, "{}", String::from_utf8_lossy(&slow.seen));
    (&mut world.serving).await.unwrap();
    assert!(tokio::net::TcpStream::connect(&site.address).await.is_err(), "nobody listens any more");
}
