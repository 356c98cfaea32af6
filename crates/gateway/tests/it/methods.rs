//! The table of methods over the socket.

use crate::World;
use proto::entry::{Entry, Finish, Input, Reply, ReplyPart, Text};
use proto::letter::{InputPart, Prompt, Report, Sender};
use proto::methods::*;
use proto::{Body, Class, Code, Error, Letter, LetterId, RunId, SessionId, Status, Usage};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn refused<M: Method>(world: &World, input: M::Input) -> Error {
    match world.client.call::<M>(input).await {
        Ok(_) => panic!("`{}` should be refused", M::NAME),
        Err(error) => error.into(),
    }
}

/// The status line and the body of a request written by hand.
async fn raw(world: &World, request: &str) -> (String, Value) {
    let mut stream = tokio::net::UnixStream::connect(world.dir.path().join("run/s.sock")).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), serde_json::from_str(body).unwrap())
}

#[tokio::test]
async fn a_prompt_is_accepted_waited_for_and_read() {
    let world = World::new().await;
    std::fs::write(world.dir.path().join("note.txt"), "the sea is calm\n").unwrap();
    let input =
        AgentInput { message: "read note.txt".into(), idempotency_key: Some("my-key".into()), ..AgentInput::default() };
    let accepted = world.client.call::<Agent>(input.clone()).await.unwrap();
    assert_eq!((accepted.run_id.as_str(), accepted.model.as_str()), ("my-key", "offline/plain"));
    let again = world.client.call::<Agent>(input).await.unwrap();
    assert_eq!(again.session_id, accepted.session_id, "the same key starts nothing");
    let wait = WaitInput { run_id: accepted.run_id.clone(), timeout_ms: None, tree: true };
    let waited = world.client.call::<AgentWait>(wait).await.unwrap();
    assert_eq!(waited.status, WaitStatus::Ok);
    assert!(waited.text.unwrap().contains("the sea is calm"));
    let input = HistoryInput { session_key: accepted.session_key.clone(), ..HistoryInput::default() };
    let history = world.client.call::<ChatHistory>(input).await.unwrap();
    assert_eq!(history.messages.len(), 2);
    let list =
        world.client.call::<SessionsList>(ListInput { message_limit: Some(1), ..ListInput::default() }).await.unwrap();
    assert_eq!((list.count, list.sessions[0].status), (1, Status::Idle));
    assert_eq!(list.sessions[0].messages.len(), 1);
    let tree = world.client.call::<SessionsTree>(TreeInput::default()).await.unwrap();
    assert_eq!(tree.root, accepted.session_id);
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let world = World::new().await;
    let missing = WaitInput { run_id: RunId::new(), timeout_ms: Some(1), tree: false };
    assert_eq!(refused::<AgentWait>(&world, missing).await.code, Code::NotFound);
    let nobody = SessionId::new().to_string();
    let history = HistoryInput { session_key: nobody.clone(), ..HistoryInput::default() };
    assert_eq!(refused::<ChatHistory>(&world, history).await.code, Code::NotFound);
    let agent = AgentInput { message: "x".into(), session_id: Some(nobody), ..AgentInput::default() };
    assert_eq!(refused::<Agent>(&world, agent).await.code, Code::NotFound);
    assert_eq!(refused::<SessionsTree>(&world, TreeInput::default()).await.code, Code::NotFound);
}

#[tokio::test]
async fn exactly_one_selector_is_needed() {
    let world = World::new().await;
    let session = world.session().await.to_string();
    assert_eq!(refused::<SessionsResolve>(&world, Selector::default()).await.code, Code::InvalidInput);
    let two = Selector { session_id: Some(session.clone()), label: Some("x".into()), ..Selector::default() };
    assert_eq!(refused::<SessionsResolve>(&world, two).await.code, Code::InvalidInput);
    let one = Selector { reference: Some(session.clone()), ..Selector::default() };
    assert_eq!(world.client.call::<SessionsResolve>(one).await.unwrap().session_id.as_str(), session);
    let current = Selector { reference: Some("current".into()), ..Selector::default() };
    assert_eq!(refused::<SessionsResolve>(&world, current).await.code, Code::InvalidInput);
}

#[tokio::test]
async fn an_unknown_method_names_the_near_ones() {
    let world = World::new().await;
    let (status, body) =
        raw(&world, "POST /rpc/sessions.lst HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            .await;
    assert!(status.contains("404"), "{status}");
    assert_eq!(body["error"]["code"], "not_found");
    assert!(body["error"]["hint"].as_str().unwrap().contains("sessions.list"), "{body}");
    let (status, body) = raw(&world, "GET /events?rot=1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(status.contains("400") && body["error"]["hint"].as_str().unwrap().contains("`root`"), "{status} {body}");
    let (status, body) = raw(&world, "GET /nothing HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(status.contains("404") && body["error"]["hint"].is_string(), "{status} {body}");
}

#[tokio::test]
async fn a_body_that_is_no_input_or_too_large_is_refused() {
    let world = World::new().await;
    let (status, body) =
        raw(&world, "POST /rpc/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 7\r\n\r\n{\"a\":1}")
            .await;
    assert!(status.contains("400") && body["error"]["code"] == "invalid_input", "{status} {body}");
    let (status, body) =
        raw(&world, "POST /rpc/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 99999999\r\n\r\n")
            .await;
    assert!(status.contains("400") && body["error"]["message"].as_str().unwrap().contains("25 MiB"), "{status} {body}");
}

fn spoken(letter: usize, text: &str) -> [Entry; 2] {
    let id = RunId::parse(&format!("run_{letter}")).unwrap();
    let input = Input {
        letter: id.letter(),
        run: id,
        parts: vec![InputPart::Text { text: format!("question {letter}") }],
        agent: "build".into(),
        name: None,
        model: "p/m".into(),
        provenance: None,
        conversation: None,
        until: None,
        purse: None,
        shutdown: None,
        compact: None,
    };
    let reply = Reply {
        step: 1,
        parts: vec![ReplyPart::Text(Text { text: text.into() })],
        usage: Usage::default(),
        finish: Finish::Stop,
        model: "p/m".into(),
        deferred: Vec::new(),
    };
    [Entry::Input(input), Entry::Reply(reply)]
}

#[tokio::test]
async fn a_history_is_counted_after_stripping_capped_and_paged() {
    let world = World::new().await;
    let session = world.session().await;
    for n in 0..400 {
        let mut entries: Vec<Entry> = spoken(n, &"z".repeat(5000)).into();
        entries.extend(crate::notices(1, "not a message"));
        world.append(&session, entries).await;
    }
    let page = async |before: Option<u64>, limit: u32| {
        let session_key = session.to_string();
        let input = HistoryInput { session_key, limit: Some(limit), before, ..HistoryInput::default() };
        world.client.call::<ChatHistory>(input).await.unwrap()
    };
    let small = page(None, 5).await;
    assert_eq!((small.messages.len(), small.hard_capped, small.content_truncated), (5, false, true));
    assert_eq!(small.next_before, Some(small.messages[0].seq));
    let large = page(None, 1000).await;
    assert!(large.hard_capped && large.truncated && large.total_bytes <= 80 * 1024);
    assert_eq!(large.messages.len() + large.dropped_messages, 800);
    // Page by page, every message once and in order.
    let (mut seqs, mut before) = (Vec::new(), None);
    loop {
        let page = page(before, 1000).await;
        seqs.splice(0..0, page.messages.iter().map(|message| message.seq));
        before = page.next_before;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(seqs, (0..400).flat_map(|n| [n * 3 + 1, n * 3 + 2]).collect::<Vec<u64>>());
    let session_key = session.to_string();
    let after = HistoryInput { session_key, limit: Some(3), after: Some(3), ..HistoryInput::default() };
    let after = world.client.call::<ChatHistory>(after).await.unwrap();
    assert_eq!(after.messages.iter().map(|message| message.seq).collect::<Vec<_>>(), [4, 5, 7]);
}

#[tokio::test]
async fn a_busy_gateway_ends_only_by_force_and_waits_are_told() {
    let world = World::new().await;
    std::fs::write(world.dir.path().join("slow.script"), "wait: 60s\nsay: late\n").unwrap();
    let input = AgentInput { message: "x".into(), model: Some("offline/slow".into()), ..AgentInput::default() };
    let accepted = world.client.call::<Agent>(input).await.unwrap();
    let short = WaitInput { run_id: accepted.run_id.clone(), timeout_ms: Some(50), tree: false };
    assert_eq!(world.client.call::<AgentWait>(short).await.unwrap().status, WaitStatus::Timeout);
    assert_eq!(world.client.call::<Health>(Nothing {}).await.unwrap().busy, 1);
    assert_eq!(refused::<GatewayStop>(&world, StopInput { force: false }).await.code, Code::Conflict);
    let waiting = refused::<AgentWait>(&world, WaitInput { run_id: accepted.run_id, timeout_ms: None, tree: true });
    let stopping = async {
        tokio::task::yield_now().await;
        world.client.call::<GatewayStop>(StopInput { force: true }).await.unwrap();
    };
    let (told, ()) = tokio::join!(waiting, stopping);
    assert!(told.code == Code::Unavailable && told.retryable, "{told:?}");
}

#[tokio::test]
async fn a_session_is_patched_and_runs_as_that_from_then_on() {
    let world = World::new().await;
    std::fs::write(world.dir.path().join("other.script"), "say: from another model\n").unwrap();
    let session = world.session().await.to_string();
    let patch = PatchInput {
        paused: None,
        reference: session.clone(),
        title: Some(" The plan ".into()),
        agent_id: Some("Plan".into()),
        model: Some("offline/other".into()),
        idempotency_key: Some("once".into()),
        ..PatchInput::default()
    };
    let info = world.client.call::<SessionsPatch>(patch.clone()).await.unwrap();
    assert_eq!((info.title.as_deref(), info.agent.as_str()), (Some("The plan"), "plan"));
    assert_eq!((info.model.as_str(), info.owner.as_str()), ("offline/other", "build"));
    let again = PatchInput { title: Some("Another".into()), ..patch.clone() };
    assert_eq!(world.client.call::<SessionsPatch>(again).await.unwrap().title.as_deref(), Some("The plan"));
    let input = AgentInput { message: "hello".into(), session_id: Some(session.clone()), ..AgentInput::default() };
    let accepted = world.client.call::<Agent>(input).await.unwrap();
    assert_eq!((accepted.agent.as_str(), accepted.model.as_str()), ("plan", "offline/other"));
    let wait = WaitInput { run_id: accepted.run_id, timeout_ms: None, tree: true };
    let waited = world.client.call::<AgentWait>(wait).await.unwrap();
    assert_eq!(waited.text.as_deref(), Some("from another model"));
    let bad = PatchInput { reference: session, agent_id: Some("nobody".into()), ..PatchInput::default() };
    assert_eq!(refused::<SessionsPatch>(&world, bad.clone()).await.code, Code::NotFound);
    let bad = PatchInput { agent_id: None, title: Some("a\0".into()), ..bad };
    assert_eq!(refused::<SessionsPatch>(&world, bad.clone()).await.code, Code::InvalidInput);
    let bad = PatchInput { title: None, model: Some("no/model".into()), ..bad };
    assert_eq!(refused::<SessionsPatch>(&world, bad).await.code, Code::NotFound);
}

#[tokio::test]
async fn a_persons_text_joins_follows_or_interrupts_the_run_under_way() {
    let world = World::new().await;
    let script = "wait: 60s\nsay: late\n\nwhen: quick\nsay: at once\n";
    std::fs::write(world.dir.path().join("slow.script"), script).unwrap();
    let model = Some("offline/slow".to_owned());
    let session = world.client.call::<SessionsCreate>(CreateInput { model, ..CreateInput::default() }).await.unwrap();
    let say = async |message: &str, queue: Queue| {
        let (reference, message) = (session.key.clone(), message.to_owned());
        world.client.call::<ChatSend>(ChatInput { reference, message, queue, ..ChatInput::default() }).await.unwrap()
    };
    let wait = async |run: &RunId, timeout_ms: Option<u64>| {
        let input = WaitInput { run_id: run.clone(), timeout_ms, tree: false };
        world.client.call::<AgentWait>(input).await.unwrap()
    };
    let first = say("slow", Queue::Steer).await.run_id;
    let status = StatusInput { session_key: session.key.clone() };
    while world.client.call::<SessionsStatus>(status.clone()).await.unwrap().run_id.is_none() {
        tokio::task::yield_now().await;
    }
    let second = say("quick, after that", Queue::Followup).await.run_id;
    assert_eq!(wait(&second, Some(50)).await.status, WaitStatus::Timeout, "it waits its turn");
    let third = say("quick, now", Queue::Interrupt).await.run_id;
    assert_eq!(wait(&first, None).await.status, WaitStatus::Cancelled);
    for run in [&second, &third] {
        let waited = wait(run, None).await;
        assert_eq!((waited.status, waited.text.as_deref()), (WaitStatus::Ok, Some("at once")));
    }
    // With nothing under way it is a prompt like any other.
    let idle = say("quick", Queue::Interrupt).await.run_id;
    assert_eq!(wait(&idle, None).await.status, WaitStatus::Ok);
}

#[tokio::test]
async fn an_abort_ends_a_run_as_cancelled() {
    let world = World::new().await;
    std::fs::write(world.dir.path().join("slow.script"), "wait: 60s\nsay: late\n").unwrap();
    let input = AgentInput { message: "x".into(), model: Some("offline/slow".into()), ..AgentInput::default() };
    let accepted = world.client.call::<Agent>(input).await.unwrap();
    let abort = AbortInput { reference: accepted.session_id.to_string(), run_id: None };
    assert!(world.client.call::<ChatAbort>(abort).await.unwrap().aborted);
    let wait = WaitInput { run_id: accepted.run_id, timeout_ms: None, tree: true };
    let waited = world.client.call::<AgentWait>(wait).await.unwrap();
    assert_eq!(waited.status, WaitStatus::Cancelled);
    assert_eq!(waited.error.unwrap().code, Code::Cancelled);
}

#[tokio::test]
async fn a_session_is_paused_and_resumed() {
    let world = World::new().await;
    let session = world.session().await.to_string();
    let patch = |paused| PatchInput { reference: session.clone(), paused, ..PatchInput::default() };
    world.client.call::<SessionsPatch>(patch(Some(true))).await.unwrap();
    let send = SendInput {
        session_key: Some(session.clone()),
        message: "hello".into(),
        timeout_seconds: Some(0),
        ..SendInput::default()
    };
    let sent = world.client.call::<SessionsSend>(send).await.unwrap();
    while world.client.call::<SessionsPatch>(patch(None)).await.unwrap().status != Status::Paused {
        tokio::task::yield_now().await;
    }
    let wait = |timeout_ms| WaitInput { run_id: sent.run_id.clone(), timeout_ms, tree: false };
    assert_eq!(world.client.call::<AgentWait>(wait(Some(1))).await.unwrap().status, WaitStatus::Timeout);
    world.client.call::<SessionsPatch>(patch(Some(false))).await.unwrap();
    assert_eq!(world.client.call::<AgentWait>(wait(None)).await.unwrap().status, WaitStatus::Ok);
    assert_eq!(refused::<SessionsPatch>(&world, PatchInput::default()).await.code, Code::InvalidInput);
}

#[tokio::test]
async fn an_idle_gateway_ends_and_takes_its_socket_along() {
    let options = convoke_gateway::Serve { idle_exit: Some(Duration::from_millis(50)), tcp: None, state: None };
    let mut world = World::serve(options).await;
    (&mut world.serving).await.unwrap();
    assert!(!world.dir.path().join("run/s.sock").exists());
}

#[tokio::test]
async fn an_idle_gateway_stays_while_a_session_was_promised_a_reply() {
    let options = convoke_gateway::Serve { idle_exit: Some(Duration::from_millis(50)), tcp: None, state: None };
    let mut world = World::serve(options).await;
    // As long as there is a connection it is not idle.
    let connected = tokio::net::UnixStream::connect(world.dir.path().join("run/s.sock")).await.unwrap();
    let (asker, slow) = (world.session().await, world.session().await);
    let runtime = world.gateway.runtime().clone();
    runtime.pause(&slow, true).await.unwrap();
    let status = async || runtime.store().session(&slow).await.unwrap().unwrap().status;
    while status().await != Status::Paused {
        tokio::task::yield_now().await;
    }
    let letter = Letter {
        id: LetterId::new(),
        to: slow.clone(),
        from: Sender::Session { id: asker.clone() },
        class: Class::Request,
        body: Body::Prompt(Prompt::text("think hard")),
        provenance: None,
        conversation: None,
        report: Some(Report { session: asker, call: None, late: true }),
        expires: None,
    };
    let post = vec![store::Post { letter, person: false, queue: None }];
    runtime.store().deliver(store::Mail { post, ..store::Mail::default() }).await.unwrap();
    drop(connected);
    assert!(tokio::time::timeout(Duration::from_millis(600), &mut world.serving).await.is_err(), "it left");
    runtime.pause(&slow, false).await.unwrap();
    (&mut world.serving).await.unwrap();
}

#[test]
fn every_method_has_words_for_what_it_does() {
    for row in TABLE {
        assert!(!row.about.trim().is_empty(), "{}", row.name);
    }
    assert_eq!(json!(Scope::Read), "read");
}

#[tokio::test]
async fn a_message_says_what_follows_it_and_who_says_it() {
    let world = World::new().await;
    let session = world.session().await.to_string();
    let send = |message: &str, delivery, role| SendInput {
        session_key: Some(session.clone()),
        message: message.into(),
        delivery,
        role,
        ..SendInput::default()
    };
    let history = || async {
        let input = HistoryInput { session_key: session.clone(), ..HistoryInput::default() };
        world.client.call::<ChatHistory>(input).await.unwrap().messages
    };
    let sent = world.client.call::<SessionsSend>(send("list", Delivery::None, SendRole::User)).await.unwrap();
    let skipped = DeliveryState { status: "skipped".into(), mode: Delivery::None };
    assert_eq!((sent.status.as_str(), sent.delivery), ("ok", skipped));
    let said =
        world.client.call::<SessionsSend>(send("I like tea.", Delivery::Reply, SendRole::Assistant)).await.unwrap();
    assert_eq!((said.status.as_str(), said.reply.as_deref()), ("ok", Some("I like tea.")));
    let messages = history().await;
    let last = messages.last().unwrap();
    assert_eq!((last.role, &last.content), (proto::message::Role::Assistant, &json!("I like tea.")));
    let sent = world.client.call::<SessionsSend>(send("list", Delivery::Announce, SendRole::User)).await.unwrap();
    let done = DeliveryState { status: "done".into(), mode: Delivery::Announce };
    assert_eq!((sent.status.as_str(), sent.delivery), ("ok", done));
    let announces = |message: &proto::message::Message| {
        message.content.as_str().is_some_and(|text| text.contains("people of your own channel"))
    };
    while !history().await.iter().any(announces) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn only_an_administrator_speaks_for_a_session() {
    let (world, site) = World::tcp().await;
    let session = world.session().await.to_string();
    let token = world.token("writer", &[Scope::Read, Scope::Write]);
    let send = |role: &str| json!({ "sessionKey": session, "message": "list", "role": role }).to_string();
    let ask = async |token: &str, role: &str| {
        let bearer = format!("authorization: Bearer {token}");
        site.ask("POST /rpc/sessions.send", &[&bearer], send(role).as_bytes()).await
    };
    assert_eq!(ask(&token, "user").await.status, 200);
    let refused = ask(&token, "assistant").await;
    assert_eq!((refused.status, refused.code().as_str()), (403, "forbidden_scope"));
    assert_eq!(ask(&site.token, "assistant").await.status, 200);
    assert_eq!(ask(&site.token, "system").await.status, 400);
}

#[tokio::test]
async fn an_over_long_label_is_an_input_error() {
    let world = World::new().await;
    let label = Some("x".repeat(513));
    let send = SendInput { label: label.clone(), message: "m".into(), ..SendInput::default() };
    assert_eq!(refused::<SessionsSend>(&world, send).await.code, Code::InvalidInput);
    let spawn = SpawnInput { label: label.clone(), task: "t".into(), ..SpawnInput::default() };
    assert_eq!(refused::<SessionsSpawn>(&world, spawn).await.code, Code::InvalidInput);
    let list = ListInput { label: label.clone(), ..ListInput::default() };
    assert_eq!(refused::<SessionsList>(&world, list).await.code, Code::InvalidInput);
    let resolve = Selector { label, ..Selector::default() };
    assert_eq!(refused::<SessionsResolve>(&world, resolve).await.code, Code::InvalidInput);
}
