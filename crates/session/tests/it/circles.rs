//! Models that do the same again and again: somebody is asked whether they may.

use crate::world::World;
use proto::letter::AskReply;
use proto::{Action, Outcome, Rule};
use serde_json::json;
use std::collections::BTreeMap;
use testkit::{Received, Reply};

/// Lists the directory until it was done `times` times, or somebody says no.
fn circling(times: usize) -> impl Fn(&Received) -> Reply + Send + Sync + 'static {
    move |received| {
        let stopped = received.last("tool").is_some_and(|said| said.contains("go another way"));
        if stopped || received.step() == times { Reply::text("enough") } else { Reply::calls([("LS", json!({}))]) }
    }
}

#[tokio::test]
async fn the_third_time_is_asked_about_and_a_no_is_told_to_the_model() {
    let world = World::new(circling(10)).await;
    let posted = world.prompt("look").await;
    while world.store.asks(None).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let ask = world.store.asks(None).await.unwrap().remove(0);
    assert_eq!(
        (ask.permission.as_str(), &ask.patterns[..], &ask.always[..]),
        ("doom_loop", &["list".into()][..], &["list".into()][..])
    );
    world.answer(&posted.session.root, AskReply::Reject).await;
    assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Ok));
    assert_eq!(world.fake.count(), 4, "two looks, one refused, and the answer");
    let log = world.transcript(&posted.session.id).await;
    assert!(log.contains("denied: the answer was no: no reason was given; this call of `list` repeats"), "{log}");
}

#[tokio::test]
async fn always_is_for_that_tool_and_nobody_is_asked_again() {
    let world = World::new(circling(6)).await;
    let posted = world.prompt("look").await;
    world.answer(&posted.session.root, AskReply::Always).await;
    assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Ok));
    assert_eq!(world.fake.count(), 7);
}

#[tokio::test]
async fn rules_say_no_or_yes_for_good() {
    for (action, requests) in [(Action::Deny, 4), (Action::Allow, 7)] {
        let permission = vec![Rule::new("doom_loop", "*", action)];
        let agent = config::Agent { permission, ..config::Agent::default() };
        let agents = BTreeMap::from([("build".to_owned(), agent)]);
        let world = World::with(config::Limits::default(), agents, circling(6)).await;
        let posted = world.prompt("look").await;
        assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Ok));
        assert_eq!(world.fake.count(), requests, "{action:?}");
    }
}

#[tokio::test]
async fn whoever_does_not_hear_the_no_is_stopped() {
    let permission = vec![Rule::new("doom_loop", "*", Action::Deny)];
    let agent = config::Agent { permission, ..config::Agent::default() };
    let agents = BTreeMap::from([("build".to_owned(), agent)]);
    let deaf = |_: &Received| Reply::calls([("list", json!({}))]);
    let world = World::with(config::Limits::default(), agents, deaf).await;
    let posted = world.prompt("look").await;
    let end = world.end(&posted.run).await;
    assert_eq!((end.outcome, end.code), (Some(Outcome::Error), Some(proto::Code::Cycle)));
    assert_eq!(world.fake.count(), 7, "two looks, and five that were refused");
}

#[tokio::test]
async fn it_is_remembered_across_a_restart_and_forgotten_with_the_run() {
    let mut world = World::new(circling(2)).await;
    let first = world.prompt("look").await;
    world.end(&first.run).await;
    let second = world.send(convoke_session::Target::Session(first.session.id.clone()), "again").await;
    assert_eq!(world.end(&second.run).await.outcome, Some(Outcome::Ok), "a new prompt begins anew");

    world = World::new(circling(3)).await;
    let posted = world.prompt("look").await;
    world.fake.wait_for(3).await;
    world.restart().await;
    while world.store.asks(None).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    world.answer(&posted.session.root, AskReply::Once).await;
    assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Ok));
}
