//! A gateway that goes away in mid-work, and the next one that goes on. Real kills are in `cargo xtask crash`.

use crate::turns::step;
use crate::world::World;
use proto::entry::{Entry, Started};
use proto::event::SettledBy;
use proto::letter::AskReply;
use proto::{Outcome, Status};
use serde_json::json;
use store::{AskChange, Batch, Fence};
use testkit::{Gate, Reply};

#[tokio::test]
async fn a_call_that_was_cut_off_is_told_and_not_repeated() {
    let mut world = World::new(|received| match step(received) {
        0 => Reply::calls([("bash", json!({"command": "sleep 60"}))]),
        _ => Reply::text("I see."),
    })
    .await;
    let posted = world.prompt("go").await;
    while world.log(&posted.session.id).await.len() < 2 {
        tokio::task::yield_now().await;
    }
    world.restart().await;
    world.end(&posted.run).await;
    insta::assert_snapshot!(world.transcript(&posted.session.id).await, @r#"
    user    go
    bash    {"command":"sleep 60"} -> interrupted: the gateway stopped while this call ran: it may or may not have taken effect, so look before repeating it
    model   I see.
    run     ended: ok
    "#);
}

#[tokio::test]
async fn a_question_survives_and_is_answered_after_the_restart() {
    let mut world = World::new(|received| match step(received) {
        0 => Reply::calls([("read", json!({"filePath": ".env"}))]),
        _ => Reply::text("thanks"),
    })
    .await;
    world.repo.write(".env", "KEY=1\n");
    let posted = world.prompt("go").await;
    while world.store.asks(None).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    world.restart().await;
    world.answer(&posted.session.root, AskReply::Once).await;
    world.end(&posted.run).await;
    let seen = world.transcript(&posted.session.id).await;
    assert!(seen.contains("-> ok: 1\tKEY=1"), "{seen}");
}

#[tokio::test]
async fn a_plan_that_was_approved_right_before_the_crash_stays_approved() {
    let mut world = World::new(|received| match step(received) {
        0 => Reply::calls([("plan_enter", json!({}))]),
        1 => Reply::calls([("plan_exit", json!({"plan": "write it"}))]),
        2 => Reply::calls([("write", json!({"filePath": "story.txt", "content": "once"}))]),
        _ => Reply::text("done"),
    })
    .await;
    let posted = world.prompt("go").await;
    let ask = loop {
        match world.store.asks(None).await.unwrap().pop() {
            Some(ask) => break ask,
            None => tokio::task::yield_now().await,
        }
    };
    world.rt.stop().await;
    // The answer is in the log, and nothing of what follows from it.
    let batch = Batch {
        entries: vec![Entry::Started(Started { call: ask.call })],
        asks: vec![AskChange::Close { ask: ask.id, reply: Some(AskReply::Once), by: SettledBy::Person }],
        ..Batch::default()
    };
    world.store.commit(&posted.session.id, Fence::Claim, batch).await.unwrap();
    world.take_over().await;
    world.end(&posted.run).await;
    let seen = world.transcript(&posted.session.id).await;
    assert!(seen.contains("-> ok: The plan is approved"), "{seen}");
    assert_eq!(world.repo.read("story.txt"), "once", "{seen}");
}

#[tokio::test]
async fn a_parent_and_its_child_both_go_on() {
    let gate = Gate::new();
    let held = gate.clone();
    let mut world = World::new(move |received| {
        let child = received.body()["messages"].to_string().contains("You were started by");
        match (child, step(received)) {
            (true, _) => Reply::text("child done").gated(held.clone()),
            (false, 0) => {
                Reply::calls([("task", json!({"description": "a", "prompt": "p", "subagent_type": "explore"}))])
            }
            (false, _) => Reply::text("parent done"),
        }
    })
    .await;
    let posted = world.prompt("go").await;
    world.fake.wait_for(2).await;
    world.restart().await;
    world.fake.wait_for(3).await;
    gate.open();
    let run = world.end(&posted.run).await;
    assert_eq!(run.outcome, Some(Outcome::Ok));
    let log = world.log(&posted.session.id).await;
    assert_eq!(log.iter().filter(|entry| matches!(entry, Entry::Result(_))).count(), 1, "{log:?}");
    assert!(world.transcript(&posted.session.id).await.contains("-> ok: child done\nmodel   parent done\n"));
}

#[tokio::test]
async fn a_run_that_takes_the_gateway_down_each_time_is_given_up() {
    let gate = Gate::new();
    let held = gate.clone();
    let mut world = World::new(move |_| Reply::text("never").gated(held.clone())).await;
    let posted = world.prompt("go").await;
    world.fake.wait_for(1).await;
    for n in 0..5 {
        crash(&mut world).await;
        if world.store.run(&posted.run).await.unwrap().unwrap().outcome.is_some() {
            assert_eq!(n, 3, "three attempts after the first one");
            break;
        }
    }
    let run = world.end(&posted.run).await;
    assert_eq!((run.outcome, run.code), (Some(Outcome::Error), Some(proto::Code::Interrupted)));
    let row = world.store.session(&posted.session.id).await.unwrap().unwrap();
    assert_eq!(row.status, Status::Idle);
    assert!(world.transcript(&posted.session.id).await.contains("notice  This run was given up"));
}

#[tokio::test]
async fn a_run_that_waits_for_a_further_try_is_never_given_up() {
    let mut world = World::new(|received| match received.n {
        0..=5 => Reply::raw(503, r#"{"error":{"message":"busy"}}"#).header("retry-after", "3000"),
        _ => Reply::text("at last"),
    })
    .await;
    let posted = world.prompt("go").await;
    for n in 1..=6 {
        world.fake.wait_for(n).await;
        while world.store.session(&posted.session.id).await.unwrap().unwrap().status != Status::Retrying {
            tokio::task::yield_now().await;
        }
        let old = world.rt.clone();
        world.take_over().await;
        while world.fake.count() <= n {
            tokio::task::yield_now().await;
        }
        old.stop().await;
    }
    assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Ok));
}

/// Unlike `restart`, the old gateway gets no chance to say that it stops: its writes are fenced off.
async fn crash(world: &mut World) {
    let old = world.rt.clone();
    let before = world.fake.count();
    world.take_over().await;
    for _ in 0..200 {
        let rows = world.store.unfinished(None, 10).await.unwrap();
        if rows.is_empty() || world.fake.count() > before {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    old.stop().await;
}

#[tokio::test]
async fn a_gateway_that_lost_a_session_writes_nothing_more_to_it() {
    let gate = Gate::new();
    let held = gate.clone();
    let mut world = World::new(move |received| match received.n {
        0 => Reply::text("from the old one").gated(held.clone()),
        _ => Reply::text("from the new one"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.fake.wait_for(1).await;
    let old = world.rt.clone();
    world.take_over().await;
    world.end(&posted.run).await;
    gate.open();
    old.stop().await;
    insta::assert_snapshot!(world.transcript(&posted.session.id).await, @r"
    user    go
    model   from the new one
    run     ended: ok
    ");
}
