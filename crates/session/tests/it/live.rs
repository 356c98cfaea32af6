//! What a command prints while it runs: seen by whoever watches, before its result, and never kept.

use crate::turns::step;
use crate::world::World;
use async_trait::async_trait;
use convoke_session::hub::{Watching, What};
use serde_json::{Value, json};
use std::sync::Arc;
use testkit::Reply;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tools::process::{Command, Finished, Processes};

/// A command that prints one word, waits to be let go, and prints a second one with its last breath.
struct Slow(Semaphore);

#[async_trait]
impl Processes for Slow {
    async fn run(&self, command: Command, _: &CancellationToken) -> Result<Finished, tools::process::Error> {
        let live = command.live.expect("somebody may watch");
        live.tell(b"compiling\n");
        self.0.acquire().await.unwrap().forget();
        live.tell(b"linking\n");
        Ok(Finished { code: Some(0), ..Finished::default() })
    }
}

/// What passes by until this is seen.
async fn until(watching: &Watching, there: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut seen = Vec::new();
    loop {
        let event: Value = serde_json::from_str(&watching.next().await.unwrap().json).unwrap();
        let found = there(&event);
        seen.push(event);
        if found {
            return seen;
        }
    }
}

#[tokio::test]
async fn a_command_is_seen_while_it_runs_and_its_last_words_before_its_result() {
    let slow = Arc::new(Slow(Semaphore::new(0)));
    let world = World::hooked(config::Hooks::new(), slow.clone(), |received| match step(received) {
        0 => Reply::calls([("bash", json!({"command": "make"}))]),
        _ => Reply::text("built"),
    });
    let watching = world.hub.watch(What::Everything);
    let posted = world.prompt("build it").await;
    let seen = until(&watching, |event| event["type"] == "output").await;
    let first = seen.last().unwrap();
    assert_eq!((&first["text"], &first["dropped"]), (&json!("compiling\n"), &json!(0)));
    let call = seen.iter().find_map(|event| event["entry"]["parts"][0]["id"].as_str()).expect("the call is kept first");
    assert_eq!(first["callId"], call);
    slow.0.add_permits(1);
    let rest = until(&watching, |event| event["entry"]["type"] == "result").await;
    let words: Vec<&Value> =
        rest.iter().filter(|event| event["type"] == "output").map(|event| &event["text"]).collect();
    assert_eq!(words, [&json!("linking\n")]);
    world.end(&posted.run).await;
    let kept = world.transcript(&posted.session.id).await;
    assert!(!kept.contains("linking"), "{kept}");
}
