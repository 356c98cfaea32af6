//! Names for sessions, by a model of their own.

use crate::world::World;
use convoke_session::Target;
use proto::letter::Switch;
use proto::{Outcome, SessionId};
use std::collections::BTreeMap;
use testkit::{Gate, Received, Reply};

fn is_title(received: &Received) -> bool {
    received.body()["model"] == "tiny"
}

/// A world whose agent `title` has a model.
async fn world(script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> World {
    let agent = config::Agent { model: Some("narrow/tiny".into()), ..config::Agent::default() };
    let agents = BTreeMap::from([("title".to_owned(), agent)]);
    World::with(config::Limits::default(), agents, script).await
}

async fn title(world: &World, session: &SessionId) -> Option<String> {
    world.store.session(session).await.unwrap().unwrap().title
}

#[tokio::test]
async fn a_session_is_named_after_its_first_exchange_and_nobody_waits_for_that() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = world(move |received| match is_title(received) {
        true => Reply::text("\"Mending the roof\"").gated(held.clone()).usage(70, 3),
        false => Reply::text("it is mended").usage(500, 20),
    })
    .await;
    let posted = world.prompt("mend the roof, it leaks").await;
    assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Ok));
    let id = &posted.session.id;
    world.fake.wait_for(2).await;
    assert_eq!(title(&world, id).await.as_deref(), Some("mend the roof, it leaks"), "until there is a better one");
    gate.open();
    while title(&world, id).await.as_deref() != Some("Mending the roof") {
        tokio::task::yield_now().await;
    }
    let used = world.store.session(id).await.unwrap().unwrap().usage;
    assert_eq!((used.input, used.output), (570, 23), "what its name cost is counted");
    let asked = world.fake.requests()[1].last("user").unwrap();
    assert!(asked.contains("mend the roof, it leaks") && asked.contains("it is mended"), "{asked}");
    let again = world.send(Target::Session(id.clone()), "thanks").await;
    world.end(&again.run).await;
    assert_eq!(world.fake.count(), 3, "it is named once");
    let sent = world.fake.last().unwrap();
    assert!(!String::from_utf8_lossy(&sent.raw).contains("Mending"), "its model does not hear of it");
}

#[tokio::test]
async fn a_name_that_a_person_gave_stays() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = world(move |received| match is_title(received) {
        true => Reply::text("Something else").gated(held.clone()),
        false => Reply::text("done"),
    })
    .await;
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let id = &posted.session.id;
    world.fake.wait_for(2).await;
    let change = Switch { title: Some("Mine".into()), ..Switch::default() };
    world.rt.patch(id, change, None).await.unwrap();
    gate.open();
    // That server takes one request at a time: once another session is named, the first answer has come and gone.
    let other = world.prompt("go elsewhere").await;
    world.end(&other.run).await;
    while title(&world, &other.session.id).await.as_deref() != Some("Something else") {
        tokio::task::yield_now().await;
    }
    assert_eq!(title(&world, id).await.as_deref(), Some("Mine"));
}
