//! Watching: nothing kept is missed and nothing is seen twice.

use crate::{World, notices};
use client::{Events, Watch};
use proto::event::Seen;
use proto::{Event, SessionId};

fn watch(root: &SessionId, after: u64, follow: bool) -> Watch {
    Watch { root: root.clone(), after: Some(after.to_string()), follow }
}

/// The `seq` of the next kept entries, with the last cursor.
async fn seqs(events: &mut Events, count: usize) -> (Vec<u64>, String) {
    let (mut seqs, mut last) = (Vec::new(), String::new());
    while seqs.len() < count {
        let (cursor, seen) = events.next().await.unwrap().expect("the stream goes on");
        if let Seen::Entry { seq, .. } = seen {
            seqs.push(seq);
            last = cursor.expect("a kept entry has a cursor");
        }
    }
    (seqs, last)
}

#[tokio::test]
async fn what_is_kept_comes_first_and_what_happens_follows() {
    let world = World::new().await;
    let (session, other) = (world.session().await, world.session().await);
    world.append(&session, notices(300, "before")).await;
    let mut events = world.client.events(&watch(&session, 0, true)).await.unwrap();
    assert_eq!(seqs(&mut events, 300).await.0, (1..=300).collect::<Vec<_>>());
    world.append(&other, notices(1, "not of this tree")).await;
    world.append(&session, notices(2, "after")).await;
    let (live, cursor) = seqs(&mut events, 2).await;
    assert_eq!(live, [301, 302]);
    // Whoever comes back with the cursor sees only what is new.
    drop(events);
    world.append(&session, notices(1, "meanwhile")).await;
    let mut events = world.client.events(&watch(&session, cursor.parse().unwrap(), false)).await.unwrap();
    assert_eq!(seqs(&mut events, 1).await.0, [303]);
    assert!(events.next().await.unwrap().is_none(), "a stream that does not follow ends with the store");
}

#[tokio::test]
async fn entries_that_arrive_during_the_reading_are_seen_once() {
    let world = World::new().await;
    let session = world.session().await;
    let appending = async {
        for _ in 0..200 {
            world.append(&session, notices(3, "x")).await;
            tokio::task::yield_now().await;
        }
    };
    let watching = async {
        let mut events = world.client.events(&watch(&session, 0, true)).await.unwrap();
        seqs(&mut events, 600).await.0
    };
    let ((), seen) = tokio::join!(appending, watching);
    assert_eq!(seen, (1..=600).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_watcher_that_falls_behind_misses_nothing() {
    let world = World::new().await;
    let session = world.session().await;
    let mut events = world.client.events(&watch(&session, 0, true)).await.unwrap();
    // Far more than the channel and the socket hold together, while nobody reads.
    for _ in 0..30 {
        world.append(&session, notices(500, &"y".repeat(200))).await;
    }
    assert_eq!(seqs(&mut events, 15_000).await.0, (1..=15_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn deltas_are_live_and_filtered_by_tree() {
    let world = World::new().await;
    let (session, other) = (world.session().await, world.session().await);
    let mut events = world.client.events(&watch(&session, 0, true)).await.unwrap();
    world.append(&session, notices(1, "x")).await;
    seqs(&mut events, 1).await;
    let hub = world.gateway.runtime().hub();
    for of in [&other, &session] {
        hub.publish(of, &Event::Delta { session_id: of.clone(), text: "word".into() });
    }
    let (cursor, seen) = events.next().await.unwrap().unwrap();
    assert!(cursor.is_none() && matches!(&seen, Seen::Delta { session_id, .. } if *session_id == session), "{seen:?}");
}

#[tokio::test]
async fn a_stopping_gateway_closes_the_stream() {
    let world = World::new().await;
    let session = world.session().await;
    let mut events = world.client.events(&watch(&session, 0, true)).await.unwrap();
    world.gateway.stop();
    assert!(events.next().await.unwrap().is_none());
}

#[tokio::test]
async fn foreign_cursors_and_sessions_are_refused() {
    let world = World::new().await;
    let session = world.session().await;
    let foreign = Watch { root: session, after: Some("x".into()), follow: true };
    let error = proto::Error::from(world.client.events(&foreign).await.err().unwrap());
    assert_eq!(error.code, proto::Code::InvalidInput);
    let error = proto::Error::from(world.client.events(&watch(&SessionId::new(), 0, true)).await.err().unwrap());
    assert_eq!(error.code, proto::Code::NotFound);
}
