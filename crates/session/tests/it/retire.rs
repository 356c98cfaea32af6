//! Sessions that are stopped, put away and begun anew.

use crate::world::World;
use convoke_session::Target;
use proto::{Code, Outcome};
use testkit::{Gate, Reply};

#[tokio::test]
async fn a_session_at_work_is_stopped_before_it_begins_anew() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(move |_| Reply::text("never").gated(held.clone())).await;
    let posted = world.prompt("go").await;
    world.fake.wait_for(1).await;
    let busy = world.rt.archive(&posted.session.id, None).await.unwrap_err();
    assert_eq!(busy.code, Code::Conflict);
    let anew = world.rt.reset(&posted.session.id, None).await.unwrap();
    assert_eq!((&anew.key, anew.seq), (&posted.session.key, 0));
    assert_eq!(world.store.run(&posted.run).await.unwrap().unwrap().outcome, Some(Outcome::Cancelled));
    gate.open();
    // The key means the new one, with nothing behind it.
    let again = world.send(Target::Session(anew.id.clone()), "again").await;
    assert_eq!(world.end(&again.run).await.outcome, Some(Outcome::Ok));
    assert_eq!(world.transcript(&anew.id).await, "user    again\nmodel   never\nrun     ended: ok\n");
}
