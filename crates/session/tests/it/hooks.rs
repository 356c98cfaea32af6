//! Hooks: what they are told, what they can stop and change, and that a broken one stops nothing.

use crate::turns::step;
use crate::world::World;
use async_trait::async_trait;
use proto::{Code, Entry, Outcome};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use testkit::{Received, Reply};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tools::process::{Command, Error, Finished, Processes};

/// Plays the commands of hooks, and remembers what they were told.
struct Stage {
    play: fn(&str, &Value) -> Finished,
    told: Mutex<Vec<Value>>,
    news: Notify,
}

#[async_trait]
impl Processes for Stage {
    async fn run(&self, command: Command, cancel: &CancellationToken) -> Result<Finished, Error> {
        let told: Value = serde_json::from_str(command.input.as_deref().unwrap()).unwrap();
        let finished = (self.play)(&command.args[1], &told);
        self.told.lock().unwrap().push(told);
        self.news.notify_waiters();
        if finished.timed_out {
            // Stands for a hook that hangs.
            cancel.cancelled().await;
        }
        Ok(finished)
    }
}

impl Stage {
    fn new(play: fn(&str, &Value) -> Finished) -> Arc<Self> {
        Arc::new(Self { play, told: Mutex::default(), news: Notify::new() })
    }

    fn events(&self) -> Vec<String> {
        self.told.lock().unwrap().iter().map(|told| told["event"].as_str().unwrap().to_owned()).collect()
    }

    fn of(&self, event: &str) -> Vec<Value> {
        self.told.lock().unwrap().iter().filter(|told| told["event"] == event).cloned().collect()
    }

    /// Until hooks were told of this so often.
    async fn hears(&self, event: &str, times: usize) {
        loop {
            let mut news = std::pin::pin!(self.news.notified());
            news.as_mut().enable();
            if self.of(event).len() >= times {
                return;
            }
            news.await;
        }
    }
}

fn ended(code: i32, output: &str, errors: &str) -> Finished {
    Finished { code: Some(code), output: output.into(), errors: errors.into(), ..Finished::default() }
}

fn hooks(set: &[(&str, &str, &str)]) -> config::Hooks {
    let mut hooks = config::Hooks::new();
    for (event, command, only) in set {
        let hook = config::Hook { command: (*command).into(), only: (*only).into(), timeout_ms: 60_000 };
        hooks.entry((*event).to_owned()).or_default().push(hook);
    }
    hooks
}

fn reads(received: &Received) -> Reply {
    match step(received) {
        0 => Reply::calls([("read", json!({"filePath": "README.md"}))]),
        _ => Reply::text("seen"),
    }
}

#[tokio::test]
async fn hooks_hear_of_everything_in_order() {
    let stage = Stage::new(|_, _| ended(0, "", ""));
    let events = ["session.start", "agent.start", "tool.before", "tool.after", "agent.stop", "session.end"];
    let set = hooks(&events.map(|event| (event, "note", "*")));
    let world = World::hooked(set, stage.clone(), reads);
    let posted = world.prompt("look").await;
    world.end(&posted.run).await;
    stage.hears("session.end", 1).await;
    assert_eq!(stage.events(), events);
    let before = &stage.of("tool.before")[0];
    assert_eq!((&before["tool"], &before["input"]), (&json!("read"), &json!({"filePath": "README.md"})));
    assert_eq!((&before["sessionId"], &before["agent"]), (&json!(posted.session.id), &json!("build")));
    let after = &stage.of("tool.after")[0];
    assert_eq!((&after["state"], &after["callId"]), (&json!("ok"), &before["callId"]));
    assert!(after["output"].as_str().unwrap().contains("# Sample"));
    let stop = &stage.of("agent.stop")[0];
    assert_eq!((&stop["outcome"], &stop["text"], &stop["runId"]), (&json!("ok"), &json!("seen"), &json!(posted.run)));
    assert_eq!(stage.of("session.end")[0]["status"], json!("idle"));
    // A second run is no second start of the session.
    let again = world.send(convoke_session::Target::Session(posted.session.id.clone()), "and?").await;
    world.end(&again.run).await;
    stage.hears("session.end", 2).await;
    assert_eq!((stage.of("session.start").len(), stage.of("agent.start").len()), (1, 2));
}

#[tokio::test]
async fn a_hook_stops_a_call_with_its_reason() {
    let stage = Stage::new(|_, told| match told["tool"].as_str() {
        Some("read") => ended(2, "", "reading is over for today"),
        _ => ended(0, "", ""),
    });
    let world =
        World::hooked(hooks(&[("tool.before", "guard", "*")]), stage.clone(), |received| match step(received) {
            0 => Reply::calls([("read", json!({"filePath": "README.md"})), ("agents_list", json!({}))]),
            _ => Reply::text("then not"),
        });
    let posted = world.prompt("look").await;
    world.end(&posted.run).await;
    let log = world.transcript(&posted.session.id).await;
    assert!(log.contains("-> denied: a hook of the user said no: reading is over for today"), "{log}");
    assert!(log.contains("agents_list{} -> ok"), "{log}");
    assert!(log.ends_with("model   then not\nrun     ended: ok\n"), "{log}");
}

#[tokio::test]
async fn a_hook_changes_an_input_and_the_rules_judge_what_it_made_of_it() {
    let stage = Stage::new(|_, told| match told["input"]["filePath"].as_str() {
        Some("README.md") => ended(0, r#"{"input": {"filePath": "Cargo.toml"}}"#, ""),
        _ => ended(0, r#"{"input": {"filePath": ".env"}}"#, ""),
    });
    let set = hooks(&[("tool.before", "turn", "read"), ("permission.asked", "guard", "*")]);
    let world = World::hooked(set, stage.clone(), |received| match step(received) {
        0 => Reply::calls([("read", json!({"filePath": "README.md"}))]),
        1 => Reply::calls([("read", json!({"filePath": "src/main.rs"}))]),
        _ => Reply::text("done"),
    });
    let posted = world.prompt("look").await;
    stage.hears("permission.asked", 1).await;
    assert_eq!(stage.of("permission.asked")[0]["patterns"], json!([".env"]));
    world.answer(&posted.session.id, proto::letter::AskReply::Reject).await;
    world.end(&posted.run).await;
    let log = world.transcript(&posted.session.id).await;
    assert!(log.contains(r#"read    {"filePath":"README.md"} -> ok: 1	[package]"#), "{log}");
    assert!(log.contains(r#"read    {"filePath":"src/main.rs"} -> denied: the answer was no"#), "{log}");
    let Entry::Reply(reply) = &world.log(&posted.session.id).await[1] else { panic!("a reply") };
    assert_eq!(reply.calls().next().unwrap().given().get(), r#"{"filePath":"Cargo.toml"}"#);
    let sent = world.fake.last().unwrap().body().to_string();
    assert!(sent.contains("README.md") && !sent.contains("Cargo.toml"), "the model reads what it said itself");
}

#[tokio::test]
async fn a_hook_answers_a_question_with_no() {
    let stage = Stage::new(|_, _| ended(2, "", "never in this house"));
    let world =
        World::hooked(hooks(&[("permission.asked", "guard", "read")]), stage, |received| match step(received) {
            0 => Reply::calls([("read", json!({"filePath": ".env"}))]),
            _ => Reply::text("fine"),
        });
    let posted = world.prompt("look").await;
    assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Ok));
    let log = world.transcript(&posted.session.id).await;
    assert!(log.contains("denied: the answer was no: a hook said no: never in this house"), "{log}");
}

#[tokio::test]
async fn a_hook_stops_a_run_before_the_model_is_asked() {
    let stage = Stage::new(|_, _| ended(2, "", "not on a Sunday"));
    let world = World::hooked(hooks(&[("agent.start", "calendar", "build")]), stage, reads);
    let posted = world.prompt("look").await;
    let run = world.end(&posted.run).await;
    assert_eq!((run.outcome, run.code), (Some(Outcome::Error), Some(Code::Denied)));
    assert_eq!(run.message.as_deref(), Some("a hook stopped this run: not on a Sunday"));
    assert_eq!(world.fake.count(), 0);
}

#[tokio::test]
async fn a_hook_says_something_to_what_a_call_brought() {
    let stage = Stage::new(|_, _| ended(2, "", "mind the licence"));
    let world = World::hooked(hooks(&[("tool.after", "remind", "*")]), stage, reads);
    let posted = world.prompt("look").await;
    world.end(&posted.run).await;
    let told = world.fake.last().unwrap().last("tool").unwrap();
    assert!(told.contains("# Sample") && told.ends_with("[a hook of the user says] mind the licence"), "{told}");
}

#[tokio::test]
async fn a_broken_hook_is_shown_and_counted_and_stops_nothing() {
    let stage = Stage::new(|_, _| ended(7, "", "no such program"));
    let events = ["session.start", "agent.start", "tool.before", "tool.after", "agent.stop", "session.end"];
    let world = World::hooked(hooks(&events.map(|event| (event, "broken", "*"))), stage.clone(), reads);
    let seen = world.hub.watch(convoke_session::hub::What::Everything);
    let posted = world.prompt("look").await;
    assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Ok));
    stage.hears("session.end", 1).await;
    let mut shown = Vec::new();
    while shown.len() < events.len() {
        let event: Value = serde_json::from_str(&seen.next().await.ok().unwrap().json).unwrap();
        if event["type"] == "hook" {
            assert_eq!(event["error"], json!("it ended with exit code 7: no such program"));
            shown.push(event["event"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(shown, events);
    assert!(world.rt.hooks().iter().all(|hook| (hook.runs, hook.failures) == (1, 1)));
}

#[tokio::test]
async fn a_run_is_stopped_while_a_hook_hangs() {
    let stage = Stage::new(|_, _| Finished { timed_out: true, ..Finished::default() });
    let world = World::hooked(hooks(&[("tool.before", "hang", "*")]), stage.clone(), reads);
    let posted = world.prompt("look").await;
    stage.hears("tool.before", 1).await;
    assert!(!world.rt.abort(&posted.session.id, None).await.unwrap().is_empty());
    assert_eq!(world.end(&posted.run).await.outcome, Some(Outcome::Cancelled));
    assert!(!world.transcript(&posted.session.id).await.contains("README"), "nothing of the call was kept");
}

#[tokio::test]
async fn hooks_read_messages_before_they_are_sent_and_when_they_arrive() {
    let stage = Stage::new(|_, told| match (told["event"].as_str(), told["message"].as_str()) {
        (Some("message.sent"), Some("secret")) => ended(2, "", "keep that to yourself"),
        (Some("message.sent"), _) => ended(0, r#"{"message": "hello, politely"}"#, ""),
        _ => ended(0, "", ""),
    });
    let set = hooks(&[("message.sent", "censor", "*"), ("message.received", "note", "*")]);
    let world =
        World::hooked(set, stage.clone(), |received| match (received.last("user").as_deref(), step(received)) {
            (Some("write"), 0) => Reply::calls([
                ("sessions_send", json!({"label": "friend", "message": "hello", "timeoutSeconds": 10})),
                ("sessions_send", json!({"label": "friend", "message": "secret", "timeoutSeconds": 10})),
            ]),
            (Some("write"), _) => Reply::text("written"),
            (text, _) => Reply::text(format!("I read: {}", text.unwrap_or_default())),
        });
    let cwd = world.repo.path().to_str().unwrap().to_owned();
    let new = convoke_session::NewSession { cwd, label: Some("friend".into()), ..Default::default() };
    let friend = world.rt.create(new).await.unwrap();
    let posted = world.prompt("write").await;
    world.end(&posted.run).await;
    let log = world.transcript(&posted.session.id).await;
    assert!(log.contains("a hook of the user said no: keep that to yourself"), "{log}");
    assert!(log.contains("I read: ") && log.contains("hello, politely"), "{log}");
    stage.hears("message.received", 1).await;
    let received = stage.of("message.received");
    assert_eq!((received.len(), &received[0]["sessionId"]), (1, &json!(friend.id)));
    assert!(received[0]["message"].as_str().unwrap().contains("hello, politely"));
    assert_eq!(received[0]["fromKey"], json!(posted.session.key));
}
