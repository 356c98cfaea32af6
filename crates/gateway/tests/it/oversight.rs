//! What a person oversees: the board of a tree, and mail that is held.

use crate::World;
use client::Watch;
use proto::event::Seen;
use proto::letter::{Prompt, Sender};
use proto::methods::*;
use proto::{Body, Class, Code, Error, Holder, Letter, LetterId, SessionId, TaskState};
use store::{Hold, Mail};

async fn refused<M: Method>(world: &World, input: M::Input) -> Error {
    match world.client.call::<M>(input).await {
        Ok(_) => panic!("`{}` should be refused", M::NAME),
        Err(error) => error.into(),
    }
}

#[tokio::test]
async fn a_board_is_kept_changed_once_and_watched() {
    let world = World::new().await;
    assert_eq!(refused::<BoardList>(&world, BoardListInput::default()).await.code, Code::NotFound);
    let root = world.session().await;
    let watch = Watch { root: root.clone(), after: None, follow: true };
    let mut events = world.client.events(&watch).await.unwrap();
    let add = BoardAddInput { title: "draw".into(), idempotency_key: Some("k1".into()), ..BoardAddInput::default() };
    let added = world.client.call::<BoardAdd>(add.clone()).await.unwrap();
    assert_eq!(world.client.call::<BoardAdd>(add).await.unwrap(), added, "the same key adds nothing");
    let session = Some(root.to_string());
    let claim = BoardClaimInput { session: session.clone(), number: Some(1), ..BoardClaimInput::default() };
    let claimed = world.client.call::<BoardClaim>(claim).await.unwrap();
    assert_eq!((claimed.owner, claimed.state, claimed.version), (Some(Holder::Person), TaskState::InProgress, 2));
    let update = |version| BoardUpdateInput {
        session: session.clone(),
        number: 1,
        version,
        state: Some(TaskState::Done),
        ..BoardUpdateInput::default()
    };
    let stale = refused::<BoardUpdate>(&world, update(Some(1))).await;
    assert_eq!((stale.code, stale.details.unwrap()["task"]["version"].as_u64()), (Code::Conflict, Some(2)));
    world.client.call::<BoardUpdate>(update(Some(2))).await.unwrap();
    let page = world.client.call::<BoardList>(BoardListInput::default()).await.unwrap();
    assert_eq!((&page.root, page.count, page.tasks[0].state), (&root, 1, TaskState::Done));
    let long = BoardAddInput { title: "x".repeat(501), ..BoardAddInput::default() };
    assert_eq!(refused::<BoardAdd>(&world, long).await.code, Code::InvalidInput);
    let key = BoardAddInput { title: "x".into(), idempotency_key: Some("a b".into()), ..BoardAddInput::default() };
    assert_eq!(refused::<BoardAdd>(&world, key).await.code, Code::InvalidInput);
    let mut states = Vec::new();
    while states.last() != Some(&TaskState::Done) {
        if let (None, Seen::Board { session_id, task }) = events.next().await.unwrap().expect("the stream goes on") {
            assert_eq!(session_id, root);
            states.push(task.state);
        }
    }
    assert!(states.contains(&TaskState::InProgress), "{states:?}");
}

fn letter(to: &SessionId, from: Sender, text: &str) -> Letter {
    Letter {
        id: LetterId::new(),
        to: to.clone(),
        from,
        class: Class::Steer,
        body: Body::Prompt(Prompt::text(text)),
        provenance: None,
        conversation: None,
        report: None,
        expires: None,
    }
}

/// Keeps a letter back as a gateway does that was written to from elsewhere.
async fn hold(world: &World, to: &SessionId, text: &str, expires: i64) -> LetterId {
    let letter = letter(to, Sender::Session { id: SessionId::parse("ses_far").unwrap() }, text);
    let id = letter.id.clone();
    let hold = Hold { letter, sender: "bridge:far".into(), expires, queue: Some(10) };
    let mail = Mail { at: 1_000, hold: vec![hold], ..Mail::default() };
    world.gateway.runtime().store().deliver(mail).await.unwrap();
    id
}

async fn listed(world: &World, state: Option<MailState>) -> Vec<(LetterId, MailState)> {
    let input = MessagesInput { state, ..MessagesInput::default() };
    let page = world.client.call::<MessagesList>(input).await.unwrap();
    assert_eq!(page.count, page.messages.len());
    page.messages.into_iter().map(|message| (message.id, message.state)).collect()
}

#[tokio::test]
async fn held_mail_is_listed_and_let_in_or_refused_once() {
    let world = World::new().await;
    let session = world.session().await;
    let late = i64::MAX / 2;
    let first = hold(&world, &session, "list", late).await;
    let second = hold(&world, &session, "my key is sk-ant-api03-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", late).await;
    let third = hold(&world, &session, "too late", 2_000).await;
    let held = listed(&world, Some(MailState::Held)).await;
    assert_eq!(held, [(second.clone(), MailState::Held), (first.clone(), MailState::Held)]);
    assert_eq!(listed(&world, Some(MailState::Expired)).await, [(third.clone(), MailState::Expired)]);
    let input = MessagesInput { session: Some(session.to_string()), limit: Some(2), ..MessagesInput::default() };
    let page = world.client.call::<MessagesList>(input.clone()).await.unwrap();
    assert!(page.messages[1].text.as_deref().is_some_and(|text| text.starts_with("my key") && !text.contains("aaaa")));
    let rest = MessagesInput { cursor: page.next_cursor, ..input };
    assert_eq!(world.client.call::<MessagesList>(rest).await.unwrap().messages[0].id, first);

    let accepted = world.client.call::<MessagesAccept>(AcceptInput { id: first.clone() }).await.unwrap();
    assert!(matches!(accepted.state, MailState::Queued | MailState::Delivered), "{accepted:?}");
    assert_eq!((accepted.from.as_str(), accepted.decided_at.is_some()), ("ses_far", true));
    let refuse = |reason: &str| RefuseInput { id: second.clone(), reason: Some(reason.into()) };
    assert_eq!(refused::<MessagesRefuse>(&world, refuse(&"x".repeat(1001))).await.code, Code::InvalidInput);
    let out = world.client.call::<MessagesRefuse>(refuse(" no strangers ")).await.unwrap();
    assert_eq!((out.state, out.reason.as_deref()), (MailState::Refused, Some("no strangers")));
    for id in [&first, &second, &third] {
        let again = refused::<MessagesAccept>(&world, AcceptInput { id: id.clone() }).await;
        assert_eq!(again.code, Code::Conflict, "{again}");
    }
    assert_eq!(refused::<MessagesAccept>(&world, AcceptInput { id: LetterId::new() }).await.code, Code::NotFound);
    // The run that the letter opened is its own: whoever waits for it sees it end.
    let wait = WaitInput { run_id: first.run(), timeout_ms: Some(20_000), tree: true };
    assert_eq!(world.client.call::<AgentWait>(wait).await.unwrap().status, WaitStatus::Ok);
    assert_eq!(listed(&world, Some(MailState::Delivered)).await, [(first, MailState::Delivered)]);
    assert_eq!(listed(&world, Some(MailState::Queued)).await, []);
    assert_eq!(listed(&world, None).await.len(), 3);
    assert_eq!(listed(&world, Some(MailState::Unreachable)).await, []);
    let input = MessagesInput { cursor: Some("x".into()), ..MessagesInput::default() };
    assert_eq!(refused::<MessagesList>(&world, input).await.code, Code::InvalidInput);
}
