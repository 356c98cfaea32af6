//! Secrets in transcripts: a token without `admin` sees none, whatever it asks for and however it comes.

use crate::{Site, World, bearer};
use futures_util::{SinkExt, StreamExt};
use proto::entry::{Entry, Notice};
use proto::methods::Scope;
use proto::{CallId, Event, SessionId};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

/// Of the shape of a vendor's key.
fn secret() -> String {
    format!("sk-{}", "AbCdEfGh12345678IjKl")
}

async fn ask(site: &Site, token: &str, method: &str, input: Value) -> String {
    let answer = site.ask(&format!("POST /rpc/{method}"), &[&bearer(token)], input.to_string().as_bytes()).await;
    format!("{} {}", answer.status, answer.body)
}

#[tokio::test]
async fn answers_hide_secrets_from_tokens_without_admin() {
    let (world, site) = World::tcp().await;
    let reader = world.token("reader", &[Scope::Read, Scope::Write, Scope::Approve]);
    let cwd = world.dir.path().to_str().unwrap();
    std::fs::write(world.dir.path().join("notes.txt"), format!("the key is {} now\n", secret())).unwrap();
    let say = json!({ "message": format!("read notes.txt then read {}", secret()), "cwd": cwd, "label": "desk" });
    let started = site.ask("POST /rpc/agent", &[&site.bearer()], say.to_string().as_bytes()).await.json();
    let (run, session) = (started["runId"].clone(), started["sessionId"].clone());
    let wait = || json!({ "runId": run, "timeoutMs": 10_000 });
    // This user sees what the model said, and the test is about something.
    assert!(ask(&site, &site.token, "agent.wait", wait()).await.contains(&secret()));
    let mut asked = vec![
        ("agent.wait", wait()),
        ("sessions.history", json!({ "sessionKey": session, "includeTools": true })),
        ("sessions.list", json!({ "messageLimit": 5 })),
        ("sessions.resolve", json!({ "sessionId": session })),
        ("sessions.get", json!({ "sessionId": session })),
        ("sessions.tree", json!({ "sessionId": session })),
        ("session.status", json!({ "sessionKey": session })),
        ("subagents.list", json!({ "sessionKey": session })),
        ("messages.list", json!({})),
        ("permissions.list", json!({})),
        ("questions.list", json!({})),
        ("board.list", json!({ "sessionKey": session })),
    ];
    // And everything else that only reads, with whatever it makes of this.
    asked.extend(
        proto::methods::TABLE
            .iter()
            .filter(|row| row.scope == Scope::Read && row.name != "agent.wait")
            .map(|row| (row.name, json!({ "sessionKey": session }))),
    );
    for (method, input) in asked {
        let answer = ask(&site, &reader, method, input).await;
        assert!(!answer.contains("AbCdEfGh"), "{method}: {answer}");
    }
    assert!(ask(&site, &reader, "agent.wait", wait()).await.contains("sk-***"));
    // A complaint that repeats what was sent.
    let answer = ask(&site, &reader, "sessions.history", json!({ "sessionKey": secret() })).await;
    assert!(!answer.contains("AbCdEfGh"), "{answer}");
}

/// A mark that comes after everything else, and what came before it.
async fn until_mark(world: &World, session: &SessionId, stream: &mut crate::Stream) -> String {
    world.append(session, vec![Entry::Notice(Notice { text: "the mark".into() })]).await;
    assert!(stream.until("the mark").await);
    String::from_utf8_lossy(&stream.seen).into_owned()
}

fn pieces(session: &SessionId) -> Vec<Event> {
    let delta = |text: &str| Event::Delta { session_id: session.clone(), text: text.into() };
    let thought = |text: &str| Event::Reasoning { session_id: session.clone(), text: text.into() };
    let call = CallId::new();
    let output = |text: &str| Event::Output {
        session_id: session.clone(),
        call_id: call.clone(),
        text: text.into(),
        dropped: 0,
    };
    let (secret, mut events) = (secret(), Vec::new());
    for letter in secret.split_inclusive(|_: char| true) {
        events.push(delta(letter));
        events.push(thought(letter));
        events.push(output(letter));
    }
    events.extend([delta(" and more\n"), thought(" and more\n"), output(" and more\n")]);
    events.push(Event::Retry {
        session_id: session.clone(),
        attempt: 1,
        after_ms: 1,
        message: format!("bad {secret}"),
    });
    events
}

#[tokio::test]
async fn events_hide_secrets_from_tokens_without_admin_also_in_pieces() {
    let (world, site) = World::tcp().await;
    let reader = world.token("reader", &[Scope::Read]);
    let session = world.session().await;
    let query = format!("?session={session}");
    let mut theirs = site.events(&query, &[&bearer(&reader)]).await;
    let mut ours = site.events(&query, &[&site.bearer()]).await;
    assert!(theirs.until("\r\n\r\n").await && ours.until("\r\n\r\n").await);
    world.append(&session, vec![Entry::Notice(Notice { text: format!("kept {}", secret()) })]).await;
    let hub = world.gateway.runtime().hub();
    pieces(&session).iter().for_each(|event| hub.publish(&session, event));
    let (theirs, ours) =
        (until_mark(&world, &session, &mut theirs).await, until_mark(&world, &session, &mut ours).await);
    assert!(ours.contains(&format!("kept {}", secret())), "this user sees all: {ours}");
    assert!(!theirs.contains("AbCdEfGh") && !theirs.contains(r#""text":"A"#), "{theirs}");
    assert!(
        theirs.contains("kept sk-***") && theirs.contains("sk-*** and more") && theirs.contains("bad sk-***"),
        "{theirs}"
    );
    // From the store as well, and over a WebSocket.
    let mut again = site.events(&format!("{query}&after=0&follow=false"), &[&bearer(&reader)]).await;
    assert!(again.until("the mark").await);
    let again = String::from_utf8_lossy(&again.seen).into_owned();
    assert!(again.contains("kept sk-***") && !again.contains("AbCdEfGh"), "{again}");
    let mut socket = crate::web_socket::try_open(&site, &reader, &[]).await.unwrap();
    let subscribe = json!({ "id": 1, "method": "events.subscribe", "params": { "session": session, "after": "0" } });
    socket.send(Message::text(subscribe.to_string())).await.unwrap();
    let mut all = String::new();
    while !all.contains("the mark") {
        all.push_str(socket.next().await.unwrap().unwrap().to_text().unwrap());
    }
    assert!(all.contains("kept sk-***") && !all.contains("AbCdEfGh"), "{all}");
}
