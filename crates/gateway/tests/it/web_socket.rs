//! Methods and events over a WebSocket.

use crate::{Site, World, bearer, notices};
use futures_util::{SinkExt, StreamExt};
use proto::methods::Scope;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message, client::IntoClientRequest};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

pub(crate) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

pub(crate) async fn try_open(site: &Site, token: &str, more: &[(&'static str, &str)]) -> Result<Socket, Error> {
    let mut request = format!("ws://{}/ws", site.address).into_client_request()?;
    let value = bearer(token).split_once(": ").unwrap().1.to_owned();
    request.headers_mut().insert("authorization", value.parse().unwrap());
    for (name, value) in more {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    Ok(connect_async(request).await?.0)
}

async fn open(site: &Site) -> Socket {
    try_open(site, &site.token, &[]).await.unwrap()
}

async fn say(socket: &mut Socket, frame: &Value) {
    socket.send(Message::text(frame.to_string())).await.unwrap();
}

/// The next frame that is not a ping.
async fn hear(socket: &mut Socket) -> Value {
    loop {
        let message = tokio::time::timeout(Duration::from_secs(20), socket.next()).await.expect("nothing comes");
        match message.unwrap().unwrap() {
            Message::Text(text) => return serde_json::from_str(&text).unwrap(),
            Message::Close(close) => panic!("closed: {close:?}"),
            _ => {}
        }
    }
}

async fn closed(socket: &mut Socket) -> CloseCode {
    loop {
        let message = tokio::time::timeout(Duration::from_secs(20), socket.next()).await.expect("nothing comes");
        match message {
            Some(Ok(Message::Close(Some(close)))) => return close.code,
            Some(Ok(_)) => {}
            other => panic!("no close frame: {other:?}"),
        }
    }
}

#[tokio::test]
async fn calls_are_answered_by_their_id() {
    let (_world, site) = World::tcp().await;
    let mut socket = open(&site).await;
    say(&mut socket, &json!({ "id": 1, "method": "health" })).await;
    let answer = hear(&mut socket).await;
    assert_eq!(
        (&answer["id"], &answer["ok"], &answer["payload"]["version"]),
        (&json!(1), &json!(true), &json!("9.9.9"))
    );
    say(&mut socket, &json!({ "id": "b", "method": "sessions.get", "params": { "key": "nobody" } })).await;
    let answer = hear(&mut socket).await;
    assert_eq!(
        (&answer["id"], &answer["ok"], &answer["error"]["code"]),
        (&json!("b"), &json!(false), &json!("not_found"))
    );
    for bad in ["{", "[]", r#"{"id":[],"method":"health"}"#, r#"{"id":1,"method":"health","x":1}"#] {
        socket.send(Message::text(bad)).await.unwrap();
        let answer = hear(&mut socket).await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!("invalid_input")), "{bad}");
    }
    socket.send(Message::binary(vec![0u8; 3])).await.unwrap();
    assert_eq!(hear(&mut socket).await["error"]["code"], "invalid_input");
    say(&mut socket, &json!({ "id": 2, "method": "health", "params": {} })).await;
    assert_eq!(hear(&mut socket).await["id"], 2, "it goes on after that");
}

#[tokio::test]
async fn every_method_answers_whatever_it_is_sent() {
    let (_world, site) = World::tcp().await;
    let mut socket = open(&site).await;
    let deep = (0..100).fold(json!(1), |deep, _| json!([deep]));
    let inputs =
        [json!([]), json!("\0"), json!({ "unknown": 1 }), json!({ "ref": {} }), json!("x".repeat(1 << 20)), deep];
    let subscriptions = ["events.subscribe", "events.unsubscribe"];
    for method in proto::methods::TABLE.iter().map(|row| row.name).chain(subscriptions) {
        for (id, params) in inputs.iter().enumerate() {
            say(&mut socket, &json!({ "id": id, "method": method, "params": params })).await;
            let answer = hear(&mut socket).await;
            assert_eq!(answer["error"]["code"], "invalid_input", "{method} {id}: {answer}");
            assert_eq!(answer["id"], id);
        }
    }
    // A frame so deep that it is not read to its end.
    let frame = format!(r#"{{"id":1,"method":"health","params":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    socket.send(Message::text(frame)).await.unwrap();
    assert_eq!(hear(&mut socket).await["error"]["code"], "invalid_input");
    say(&mut socket, &json!({ "id": 2, "method": "health" })).await;
    assert_eq!(hear(&mut socket).await["ok"], true);
}

#[tokio::test]
async fn a_waiting_call_does_not_hold_up_the_next() {
    let (world, site) = World::tcp().await;
    std::fs::write(world.dir.path().join("slow.script"), "wait: 60s\nsay: late\n").unwrap();
    let mut socket = open(&site).await;
    say(&mut socket, &json!({ "id": 1, "method": "agent", "params": { "message": "x", "model": "offline/slow" } }))
        .await;
    let run = hear(&mut socket).await["payload"]["runId"].clone();
    say(&mut socket, &json!({ "id": 2, "method": "agent.wait", "params": { "runId": run } })).await;
    say(&mut socket, &json!({ "id": 3, "method": "health" })).await;
    assert_eq!(hear(&mut socket).await["id"], 3);
}

#[tokio::test]
async fn a_subscription_tells_what_is_kept_and_what_happens() {
    let (world, site) = World::tcp().await;
    let (session, other) = (world.session().await, world.session().await);
    world.append(&session, notices(2, "before")).await;
    let mut socket = open(&site).await;
    let params = json!({ "session": session, "after": "0" });
    say(&mut socket, &json!({ "id": 7, "method": "events.subscribe", "params": params })).await;
    assert_eq!(hear(&mut socket).await, json!({ "id": 7, "ok": true, "payload": { "subscription": 7 } }));
    let first = hear(&mut socket).await;
    assert_eq!((&first["event"]["seq"], &first["subscription"]), (&json!(1), &json!(7)));
    assert!(first["cursor"].is_string());
    assert_eq!(hear(&mut socket).await["event"]["seq"], 2);
    world.append(&other, notices(1, "not asked for")).await;
    world.append(&session, notices(1, "after")).await;
    assert_eq!(hear(&mut socket).await["event"]["seq"], 3);
    for (id, params) in [(8, json!({ "rot": 1 })), (9, json!({ "after": "99999999999999999999" }))] {
        say(&mut socket, &json!({ "id": id, "method": "events.subscribe", "params": params })).await;
        assert_eq!(hear(&mut socket).await["error"]["code"], "invalid_input", "{id}");
    }
}

#[tokio::test]
async fn whoever_unsubscribes_hears_no_more_of_it() {
    let (world, site) = World::tcp().await;
    let session = world.session().await;
    let mut socket = open(&site).await;
    for id in ["a", "b"] {
        say(&mut socket, &json!({ "id": id, "method": "events.subscribe", "params": { "root": session } })).await;
        assert_eq!(hear(&mut socket).await["ok"], true);
    }
    say(&mut socket, &json!({ "id": "a", "method": "events.subscribe" })).await;
    assert_eq!(hear(&mut socket).await["error"]["code"], "conflict", "the name is taken");
    world.append(&session, notices(50, "before")).await;
    say(&mut socket, &json!({ "id": 1, "method": "events.unsubscribe", "params": { "subscription": "a" } })).await;
    // Whatever was on its way comes first, the answer is the last word.
    let (mut ended, mut others) = (false, 0);
    world.append(&session, notices(50, "after")).await;
    while !ended || others < 100 {
        let frame = hear(&mut socket).await;
        match (frame["subscription"].as_str(), frame["id"].as_u64()) {
            (Some("a"), _) => assert!(!ended, "{frame}"),
            (Some("b"), _) => others += 1,
            (_, Some(1)) => {
                assert_eq!(frame, json!({ "id": 1, "ok": true, "payload": { "subscription": "a" } }));
                ended = true;
            }
            other => panic!("{other:?} {frame}"),
        }
    }
    for subscription in [json!("a"), json!("nobody"), json!(7)] {
        let params = json!({ "subscription": subscription });
        say(&mut socket, &json!({ "id": 2, "method": "events.unsubscribe", "params": params })).await;
        assert_eq!(hear(&mut socket).await["error"]["code"], "not_found", "{subscription}");
    }
    // There is room for another, also by the same name.
    for _ in 0..40 {
        say(&mut socket, &json!({ "id": "a", "method": "events.subscribe", "params": { "root": session } })).await;
        assert_eq!(hear(&mut socket).await["ok"], true);
        say(&mut socket, &json!({ "id": 3, "method": "events.unsubscribe", "params": { "subscription": "a" } })).await;
        assert_eq!(hear(&mut socket).await["id"], 3);
    }
}

#[tokio::test]
async fn one_connection_watches_only_so_often() {
    let (_world, site) = World::tcp().await;
    let mut socket = open(&site).await;
    for id in 0..16 {
        say(&mut socket, &json!({ "id": id, "method": "events.subscribe" })).await;
        assert_eq!(hear(&mut socket).await["ok"], true, "{id}");
    }
    say(&mut socket, &json!({ "id": 16, "method": "events.subscribe" })).await;
    assert_eq!(hear(&mut socket).await["error"]["code"], "limit_rate");
}

#[tokio::test]
async fn t06_t07_t12_a_web_socket_passes_the_same_door() {
    let (_world, site) = World::tcp().await;
    let status = |error: Error| match error {
        Error::Http(response) => response.status().as_u16(),
        other => panic!("{other}"),
    };
    type Case<'a> = (&'a str, &'a [(&'static str, &'a str)], u16);
    let cases: [Case<'_>; 4] = [
        ("wrong", &[], 401),
        (&site.token, &[("origin", "http://evil.example")], 403),
        (&site.token, &[("origin", "null")], 403),
        (&site.token, &[("host", "evil.example")], 403),
    ];
    for (token, headers, expected) in cases {
        assert_eq!(status(try_open(&site, token, headers).await.unwrap_err()), expected, "{headers:?}");
    }
    let own = format!("http://{}", site.address);
    assert!(try_open(&site, &site.token, &[("origin", &own)]).await.is_ok());
}

#[tokio::test]
async fn t11_t16_scopes_hold_for_every_frame() {
    let (world, site) = World::tcp().await;
    let mut socket = try_open(&site, &world.token("reader", &[Scope::Read]), &[]).await.unwrap();
    say(&mut socket, &json!({ "id": 1, "method": "agent", "params": { "message": "x" } })).await;
    assert_eq!(hear(&mut socket).await["error"]["code"], "forbidden_scope");
    let mut socket = try_open(&site, &world.token("writer", &[Scope::Write]), &[]).await.unwrap();
    say(&mut socket, &json!({ "id": 1, "method": "events.subscribe" })).await;
    assert_eq!(hear(&mut socket).await["error"]["code"], "forbidden_scope");
}

#[tokio::test]
async fn t13_revoking_closes_a_web_socket_and_a_stop_says_goodbye() {
    let (world, site) = World::tcp().await;
    let mut phone = try_open(&site, &world.token("phone", &[Scope::Read]), &[]).await.unwrap();
    let mut stays = open(&site).await;
    say(&mut phone, &json!({ "id": 1, "method": "events.subscribe" })).await;
    hear(&mut phone).await;
    convoke_gateway::tokens::revoke(world.dir.path(), "phone").unwrap();
    assert_eq!(closed(&mut phone).await, CloseCode::Policy);
    say(&mut stays, &json!({ "id": 1, "method": "health" })).await;
    assert_eq!(hear(&mut stays).await["ok"], true);
    world.gateway.stop();
    assert_eq!(closed(&mut stays).await, CloseCode::Away);
}

#[tokio::test]
async fn a_slow_peer_slows_nobody_and_misses_nothing_kept() {
    let (world, site) = World::tcp().await;
    let session = world.session().await;
    let (mut slow, mut quick) = (open(&site).await, open(&site).await);
    for socket in [&mut slow, &mut quick] {
        say(socket, &json!({ "id": 1, "method": "events.subscribe", "params": { "root": session } })).await;
        hear(socket).await;
    }
    // Far more than queue, channel and socket hold, while one of them does not read.
    let appending = async {
        for _ in 0..60 {
            world.append(&session, notices(500, &"z".repeat(400))).await;
        }
    };
    let reading = async |socket: &mut Socket| {
        let (mut next, mut resynced) = (1, false);
        while next <= 30_000 {
            let frame = hear(socket).await;
            match frame["event"]["type"].as_str() {
                Some("entry") => {
                    assert_eq!(frame["event"]["seq"], next);
                    next += 1;
                }
                Some("resync") => {
                    assert!(frame["event"]["cursor"].is_string() && frame["cursor"].is_string(), "{frame}");
                    resynced = true;
                }
                _ => {}
            }
        }
        resynced
    };
    tokio::join!(appending, reading(&mut quick));
    assert!(reading(&mut slow).await, "the slow one was told");
}

#[tokio::test]
async fn large_messages_of_all_connections_together_have_a_limit() {
    let (_world, site) = World::tcp().await;
    let begin = |text: String| Message::Frame(Frame::message(text, OpCode::Data(Data::Text), false));
    let mut sending = tokio::task::JoinSet::new();
    for _ in 0..7 {
        let mut socket = open(&site).await;
        sending.spawn(async move {
            socket.send(begin(" ".repeat(15 << 20))).await.unwrap();
            let more = Frame::message(" ".repeat(5 << 20), OpCode::Data(Data::Continue), false);
            socket.send(Message::Frame(more)).await.unwrap();
            socket
        });
    }
    let mut begun = Vec::new();
    while begun.len() < 5 {
        begun.push(sending.join_next().await.unwrap().unwrap());
    }
    // Whoever sends little is heard, and the others are not read any further.
    let mut small = open(&site).await;
    for id in 0..20 {
        say(&mut small, &json!({ "id": id, "method": "health" })).await;
        assert_eq!(hear(&mut small).await["ok"], true);
    }
    assert!(sending.try_join_next().is_none());
    // One that comes to its end makes room for the next.
    let mut first = begun.pop().unwrap();
    let end = Frame::message(r#"{"id":1,"method":"health"}"#, OpCode::Data(Data::Continue), true);
    first.send(Message::Frame(end)).await.unwrap();
    assert_eq!(hear(&mut first).await["ok"], true);
    sending.join_next().await.unwrap().unwrap();
}
