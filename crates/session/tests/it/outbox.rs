//! Mail to other gateways: each is tried by itself, in order, and none waits for another.

use crate::world::World;
use async_trait::async_trait;
use convoke_session::Courier;
use convoke_session::courier::{Route, Undelivered};
use proto::methods::{DeliverInput, MailReceipt, MailState, PeerRow};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::Reply;
use tokio::sync::Notify;
use tools::doors::{Mail, Say};

/// Gateways elsewhere, by name: those that are up take mail, `silent` never answers a second try, the others are down.
#[derive(Default)]
struct Neighbours {
    up: Mutex<HashSet<String>>,
    /// Whom and what.
    taken: Mutex<Vec<(String, String)>>,
    came: Notify,
}

#[async_trait]
impl Courier for Neighbours {
    async fn carry(&self, route: &Route, message: &DeliverInput, first: bool) -> Result<MailReceipt, Undelivered> {
        let Route::Bridge(Some(name)) = route else { panic!("no bridge: {route:?}") };
        if name == "silent" && !first {
            std::future::pending::<()>().await;
        }
        if !self.up.lock().unwrap().contains(name) {
            return Err(Undelivered { error: proto::Error::unavailable("nobody answers", 1), later: true });
        }
        // A session of a gateway that is up may still have no room.
        if message.to == "full" {
            return Err(Undelivered { error: proto::Error::unavailable("its inbox is full", 1), later: true });
        }
        self.taken.lock().unwrap().push((format!("{name}/{}", message.to), message.message.clone()));
        self.came.notify_one();
        Ok(MailReceipt {
            to: message.to.clone(),
            session_id: None,
            message_id: None,
            state: MailState::Queued,
            reason: None,
        })
    }

    async fn is_own(&self, _: &std::path::Path) -> bool {
        false
    }

    async fn peers(&self) -> Vec<PeerRow> {
        Vec::new()
    }
}

impl Neighbours {
    fn rise(&self, name: &str) {
        self.up.lock().unwrap().insert(name.to_owned());
    }

    /// What a session has got, once it is that many.
    async fn got(&self, session: &str, count: usize) -> Vec<String> {
        let all = async {
            loop {
                let came = self.came.notified();
                let taken = self.taken.lock().unwrap().clone();
                let got: Vec<String> =
                    taken.into_iter().filter(|(to, _)| to == session).map(|(_, message)| message).collect();
                if got.len() >= count {
                    return got;
                }
                came.await;
            }
        };
        let got = tokio::time::timeout(Duration::from_secs(20), all).await;
        got.unwrap_or_else(|_| panic!("`{session}` never got its mail"))
    }
}

async fn world() -> (World, Arc<Neighbours>) {
    let mut world = World::new(|_| Reply::text("ok")).await;
    let neighbours = Arc::new(Neighbours::default());
    world.neighbours(neighbours.clone()).await;
    (world, neighbours)
}

async fn send(world: &World, to: &str, text: &str) {
    let mail = Mail { to: to.into(), say: Say::Text(text.into()), summary: None, notify_when_idle: false };
    let sent = world.rt.mail(None, None, mail).await.unwrap();
    assert_eq!(sent.receipts[0].state, MailState::Queued, "{sent:?}");
}

#[tokio::test]
async fn a_dead_gateway_with_much_mail_starves_no_other() {
    let (world, neighbours) = world().await;
    for n in 0..505 {
        // To one session, and to many.
        let to = if n % 2 == 0 { "bridge:dead/main".into() } else { format!("bridge:dead/desk{n}") };
        send(&world, &to, "hello?").await;
    }
    send(&world, "bridge:live/main", "one").await;
    send(&world, "bridge:live/main", "two").await;
    neighbours.rise("live");
    assert_eq!(neighbours.got("live/main", 2).await, ["one", "two"]);
    // And the dead one gets all of it once it is back, in order.
    neighbours.rise("dead");
    assert_eq!(neighbours.got("dead/main", 253).await.len(), 253);
    neighbours.got("dead/desk503", 1).await;
}

#[tokio::test]
async fn a_gateway_that_never_answers_holds_up_no_other() {
    let (world, neighbours) = world().await;
    send(&world, "bridge:silent/main", "hello?").await;
    send(&world, "bridge:live/main", "one").await;
    neighbours.rise("live");
    assert_eq!(neighbours.got("live/main", 1).await, ["one"]);
    assert!(world.rt.has_mail(), "the silent one still has to get its mail");
}

#[tokio::test]
async fn a_full_inbox_holds_up_no_other_session_of_its_gateway() {
    let (world, neighbours) = world().await;
    for n in 0..20 {
        send(&world, "bridge:live/full", &n.to_string()).await;
    }
    send(&world, "bridge:live/main", "one").await;
    neighbours.rise("live");
    assert_eq!(neighbours.got("live/main", 1).await, ["one"]);
}

#[tokio::test]
async fn a_runtime_without_mail_says_so_once_it_has_looked() {
    let (world, neighbours) = world().await;
    send(&world, "bridge:live/main", "one").await;
    assert!(world.rt.has_mail());
    neighbours.rise("live");
    neighbours.got("live/main", 1).await;
    for _ in 0..1000 {
        if !world.rt.has_mail() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("mail that was delivered still counts");
}
