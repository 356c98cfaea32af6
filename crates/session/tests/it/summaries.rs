//! What a session did, said when somebody asks.

use crate::world::World;
use convoke_session::{NewSession, Target};
use proto::Code;
use std::collections::BTreeMap;
use testkit::{Received, Reply};

fn is_summary(received: &Received) -> bool {
    received.last("user").is_some_and(|asked| asked.ends_with("Say what it did and how it ended."))
}

fn script(received: &Received) -> Reply {
    match is_summary(received) {
        true => Reply::text("It mended the roof.\n").usage(70, 3),
        false => Reply::text("the roof is mended").usage(500, 20),
    }
}

#[tokio::test]
async fn a_session_is_summed_up_by_its_own_model_or_by_a_cheaper_one() {
    let agent = config::Agent { model: Some("narrow/tiny".into()), ..config::Agent::default() };
    let cheaper = BTreeMap::from([("summary".to_owned(), agent)]);
    for (agents, model) in [(BTreeMap::new(), "fake/m1"), (cheaper, "narrow/tiny")] {
        let world = World::with(config::Limits::default(), agents, script).await;
        let posted = world.prompt("mend the roof, it leaks").await;
        world.end(&posted.run).await;
        let id = &posted.session.id;
        let said = world.rt.summary(id).await.unwrap();
        assert_eq!((said.text.as_str(), said.model.as_str()), ("It mended the roof.", model));
        let asked = world.fake.last().unwrap().last("user").unwrap();
        assert!(asked.contains("it leaks") && asked.contains("the roof is mended"), "{asked}");
        // What it cost comes by letter, as a name's does.
        while world.store.session(id).await.unwrap().unwrap().usage.input != 570 {
            tokio::task::yield_now().await;
        }
        let again = world.send(Target::Session(id.clone()), "thanks").await;
        world.end(&again.run).await;
        let sent = world.fake.last().unwrap();
        assert!(!String::from_utf8_lossy(&sent.raw).contains("It mended"), "its model does not hear of it");
    }
}

#[tokio::test]
async fn where_nothing_was_said_nobody_is_asked() {
    let world = World::new(script).await;
    let cwd = world.repo.path().to_str().unwrap().to_owned();
    let session = world.rt.create(NewSession { cwd, ..NewSession::default() }).await.unwrap();
    assert_eq!(world.rt.summary(&session.id).await.unwrap_err().code, Code::InvalidInput);
    assert_eq!(world.fake.count(), 0);
}
