//! Sessions that a person holds: they take letters and start nothing, also across a restart.

use crate::turns::step;
use crate::world::World;
use convoke_session::{NewSession, Target};
use proto::entry::Entry;
use proto::{Outcome, SessionId, Status};
use serde_json::json;
use testkit::{Gate, Reply};

/// The kinds of a session's entries, in order.
async fn kinds(world: &World, session: &SessionId) -> Vec<&'static str> {
    let kind = |entry: Entry| match entry {
        Entry::Input(_) => "input",
        Entry::Reply(_) => "reply",
        Entry::Result(_) => "result",
        Entry::Ended(_) => "ended",
        Entry::Switch(switch) => match switch.paused {
            Some(true) => "paused",
            Some(false) => "resumed",
            None => "switch",
        },
        _ => "other",
    };
    world.log(session).await.into_iter().map(kind).collect()
}

async fn until(world: &World, session: &SessionId, kind: &str) {
    while !kinds(world, session).await.contains(&kind) {
        tokio::task::yield_now().await;
    }
}

async fn status(world: &World, session: &SessionId) -> Status {
    world.store.session(session).await.unwrap().unwrap().status
}

async fn held(world: &World) -> SessionId {
    let cwd = world.repo.path().to_str().unwrap().to_owned();
    let session = world.rt.create(NewSession { cwd, ..NewSession::default() }).await.unwrap().id;
    world.rt.pause(&session, true).await.unwrap();
    until(world, &session, "paused").await;
    session
}

#[tokio::test]
async fn a_paused_session_takes_letters_and_answers_them_in_order_when_it_is_resumed() {
    let mut world = World::new(|received| Reply::text(received.last("user").unwrap())).await;
    let session = held(&world).await;
    assert_eq!(status(&world, &session).await, Status::Paused);
    world.send(Target::Session(session.clone()), "one").await;
    world.restart().await;
    let last = world.send(Target::Session(session.clone()), "two").await;
    let row = world.store.session(&session).await.unwrap().unwrap();
    assert_eq!((row.status, row.pending, world.fake.count()), (Status::Paused, 2, 0));
    world.rt.pause(&session, false).await.unwrap();
    world.end(&last.run).await;
    assert_eq!(
        kinds(&world, &session).await,
        ["paused", "resumed", "input", "reply", "ended", "input", "reply", "ended"]
    );
    assert!(world.transcript(&session).await.ends_with("user    two\nmodel   two\nrun     ended: ok\n"));
    assert_eq!(status(&world, &session).await, Status::Idle);
}

#[tokio::test]
async fn a_run_stands_still_between_two_steps_and_goes_on_after_a_restart() {
    let gate = Gate::new();
    let opened = gate.clone();
    let mut world = World::new(move |received| match step(received) {
        0 => Reply::calls([("read", json!({"filePath": "src/claims.rs"}))]).gated(opened.clone()),
        _ => Reply::text("read it"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.fake.wait_for(1).await;
    world.rt.pause(&posted.session.id, true).await.unwrap();
    until(&world, &posted.session.id, "paused").await;
    gate.open();
    until(&world, &posted.session.id, "result").await;
    for _ in 0..5 {
        // More often than a run may be the cause of a restart.
        world.restart().await;
    }
    assert_eq!(status(&world, &posted.session.id).await, Status::Paused);
    world.rt.pause(&posted.session.id, false).await.unwrap();
    assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Ok));
    let expected = ["input", "paused", "reply", "result", "resumed", "reply", "ended"];
    assert_eq!(kinds(&world, &posted.session.id).await, expected);
}

#[tokio::test]
async fn what_waits_for_a_paused_session_can_be_withdrawn_and_a_fork_is_not_held() {
    let world = World::new(|_| Reply::text("ok")).await;
    let session = held(&world).await;
    let posted = world.send(Target::Session(session.clone()), "never mind").await;
    assert!(!world.rt.abort(&session, None).await.unwrap().is_empty());
    assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Cancelled));
    assert_eq!((status(&world, &session).await, world.fake.count()), (Status::Paused, 0));
    let fork = world.rt.fork(&session, None, None).await.unwrap();
    let posted = world.send(Target::Session(fork.id), "go").await;
    assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Ok));
}
