//! The list of what is left to do: kept in the log, read back after a restart, and nobody else's.

use crate::turns::step;
use crate::world::World;
use convoke_session::Target;
use serde_json::json;
use testkit::Reply;

#[tokio::test]
async fn a_list_is_kept_with_the_call_that_wrote_it_and_outlives_a_restart() {
    let mut world = World::new(|received| match (received.n, step(received)) {
        (0, _) => Reply::calls([(
            "TodoWrite",
            json!({"todos": [{"content": "look", "status": "completed"}, {"content": "mend", "status": "in_progress"}]}),
        )]),
        (2, _) => Reply::calls([("TodoRead", json!({}))]),
        _ => Reply::text("noted"),
    })
    .await;
    let posted = world.prompt("two things").await;
    world.end(&posted.run).await;
    world.restart().await;
    let again = world.send(Target::Session(posted.session.id.clone()), "what is left?").await;
    world.end(&again.run).await;
    insta::assert_snapshot!(world.transcript(&posted.session.id).await, @r#"
    user    two things
    todo    [x] look; [>] mend
    todowrite{"todos":[{"content":"look","status":"completed"},{"content":"mend","status":"in_progress"}]} -> ok: The list is kept: 1 of 2 left.
    model   noted
    run     ended: ok
    user    what is left?
    todoread{} -> ok: [x] look
    model   noted
    run     ended: ok
    "#);
}

#[tokio::test]
async fn a_forked_child_starts_with_an_empty_list_and_a_persons_fork_goes_on_with_it() {
    let world = World::new(|received| {
        let newest = received.last("user").unwrap_or_default();
        match (newest.as_str(), step(received)) {
            ("start", 0) => Reply::calls([("todowrite", json!({"todos": [{"content": "mine"}]}))]),
            ("start", 1) => Reply::calls([("agent", json!({"description": "d", "prompt": "what is on your list?"}))]),
            ("start", _) => Reply::text("done"),
            (_, 0) => Reply::calls([("todoread", json!({}))]),
            _ => Reply::text("read"),
        }
    })
    .await;
    let posted = world.prompt("start").await;
    world.end(&posted.run).await;
    let child = &world.children(&posted.session.root).await[0];
    assert!(child.fork.is_some(), "{child:?}");
    let log = world.transcript(&child.id).await;
    assert!(log.contains("todoread{} -> ok: There is nothing on the list"), "{log}");
    let fork = world.rt.fork(&posted.session.id, None, None).await.unwrap();
    let run = world.send(Target::Session(fork.id.clone()), "what is on your list?").await.run;
    world.end(&run).await;
    let log = world.transcript(&fork.id).await;
    assert!(log.contains("todoread{} -> ok: [ ] mine"), "{log}");
}
