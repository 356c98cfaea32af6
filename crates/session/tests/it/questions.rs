//! What a model wants to know from a person: put to whoever watches the root, kept over a restart, answered once.

use crate::turns::step;
use crate::world::World;
use convoke_session::hub::What;
use proto::letter::AskReply;
use proto::{Action, AskId, Code, Rule, SessionId, Status};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use testkit::{Received, Reply};

fn asks(received: &Received) -> Reply {
    match step(received) {
        0 => Reply::calls([("AskUserQuestion", question())]),
        _ => Reply::text("noted"),
    }
}

fn question() -> Value {
    json!({"questions": [{"question": "Which?", "options": [{"label": "red"}, {"label": "blue"}]}]})
}

/// Waits until something is asked in a tree.
async fn open(world: &World, root: &SessionId) -> AskId {
    loop {
        match world.store.asks(Some(root)).await.unwrap().pop() {
            Some(ask) => return ask.id,
            None => tokio::task::yield_now().await,
        }
    }
}

fn said(answer: &str) -> Vec<Vec<String>> {
    vec![vec![answer.to_owned()]]
}

#[tokio::test]
async fn the_answer_is_the_calls_result_and_the_question_outlives_a_restart() {
    let mut world = World::new(asks).await;
    let posted = world.prompt("paint it").await;
    let root = posted.session.id.clone();
    let ask = open(&world, &root).await;
    assert_eq!(world.store.session(&root).await.unwrap().unwrap().status, Status::Asking);
    world.restart().await;
    assert_eq!(open(&world, &root).await, ask);
    world.rt.answer_questions(&ask, said("blue")).await.unwrap();
    world.end(&posted.run).await;
    let again = world.rt.answer_questions(&ask, said("red")).await.unwrap_err();
    assert_eq!(again.code, Code::Conflict);
    insta::assert_snapshot!(world.transcript(&root).await, @r#"
    user    paint it
    question{"questions":[{"question":"Which?","options":[{"label":"red"},{"label":"blue"}]}]} -> ok: The person answered:
    model   noted
    run     ended: ok
    "#);
    assert!(world.fake.requests().last().unwrap().last("tool").unwrap().ends_with("- Which?\n  blue"));
}

#[tokio::test]
async fn what_does_not_fit_is_refused_and_the_question_stays_open() {
    let world = World::new(asks).await;
    let posted = world.prompt("paint it").await;
    let ask = open(&world, &posted.session.id).await;
    for answers in [vec![], vec![vec![]], vec![vec!["red".into(), "blue".into()]], [said("red"), said("blue")].concat()]
    {
        let refused = world.rt.answer_questions(&ask, answers.clone()).await.unwrap_err();
        assert_eq!(refused.code, Code::InvalidInput, "{answers:?}");
    }
    let refused = world.rt.answer(&ask, AskReply::Once, None).await.unwrap_err();
    assert!(refused.message.contains("wants to know"), "{refused:?}");
    world.rt.answer(&ask, AskReply::Reject, Some("ask the painter".into())).await.unwrap();
    world.end(&posted.run).await;
    let log = world.transcript(&posted.session.id).await;
    assert!(log.contains("denied: the question was not answered: ask the painter"), "{log}");
}

#[tokio::test]
async fn a_childs_question_is_shown_to_whoever_watches_the_root() {
    let may_ask = config::Agent { permission: vec![Rule::new("question", "*", Action::Allow)], ..Default::default() };
    let agents = BTreeMap::from([("painter".to_owned(), may_ask)]);
    let world = World::with(config::Limits::default(), agents, |received| {
        let task = |agent: &str| json!({"description": "d", "prompt": "paint it", "subagent_type": agent});
        match (received.last("user").unwrap_or_default().as_str(), step(received)) {
            ("go", 0) => Reply::calls([("task", task("painter")), ("task", task("general"))]),
            ("go", _) => Reply::text("painted"),
            _ => asks(received),
        }
    })
    .await;
    let posted = world.prompt("go").await;
    let root = posted.session.id.clone();
    let watching = world.hub.watch(What::Tree(root.clone()));
    let ask = open(&world, &root).await;
    world.rt.answer_questions(&ask, said("blue")).await.unwrap();
    world.end(&posted.run).await;
    let mut shown = Vec::new();
    while let Some(seen) = watching.take().unwrap() {
        let event: Value = serde_json::from_str(&seen.json).unwrap();
        shown.extend((event["type"] == "question").then_some(event));
    }
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert_eq!((&shown[0]["agent"], &shown[0]["id"]), (&json!("painter"), &json!(ask)));
    // Whoever was not let ask is told so.
    let children = world.children(&root).await;
    let general = children.iter().find(|child| child.agent == "general").unwrap();
    let log = world.transcript(&general.id).await;
    assert!(log.contains("may not use `question` here"), "{log}");
}

#[tokio::test]
async fn nobody_answers_for_ever() {
    let limits = config::Limits { ask_ms: 1, ..config::Limits::default() };
    let world = World::with(limits, BTreeMap::new(), asks).await;
    let posted = world.prompt("paint it").await;
    world.end(&posted.run).await;
    let log = world.transcript(&posted.session.id).await;
    assert!(log.contains("denied: nobody answered the question in time"), "{log}");
    assert!(world.store.asks(None).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_same_question_over_and_over_is_not_put_again() {
    let world = World::new(|received| match step(received) {
        0..=2 => Reply::calls([("question", question())]),
        _ => Reply::text("enough"),
    })
    .await;
    let posted = world.prompt("paint it").await;
    for _ in 0..2 {
        let ask = open(&world, &posted.session.id).await;
        world.rt.answer(&ask, AskReply::Reject, None).await.unwrap();
        while world.store.asks(None).await.unwrap().iter().any(|open| open.id == ask) {
            tokio::task::yield_now().await;
        }
    }
    world.end(&posted.run).await;
    let log = world.transcript(&posted.session.id).await;
    assert!(log.contains("this call of `question` repeats"), "{log}");
}
