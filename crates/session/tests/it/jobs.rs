//! Commands in the background: they go on after their call, end with their session, and their end is told once.

use crate::world::World;
use async_trait::async_trait;
use convoke_session::Target;
use proto::entry::Entry;
use proto::letter::InputPart;
use proto::{JobId, SessionId};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use testkit::{Received, Reply};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tools::process::{Command, Finished, Processes};

/// Commands that print a line and then run until they are let go or cancelled.
struct Held {
    go: Semaphore,
    under_way: Mutex<i32>,
}

#[async_trait]
impl Processes for Held {
    async fn run(&self, command: Command, cancel: &CancellationToken) -> Result<Finished, tools::process::Error> {
        std::fs::write(command.spill.unwrap(), "warming up\nready\n").unwrap();
        *self.under_way.lock().unwrap() += 1;
        let cancelled = tokio::select! {
            permit = self.go.acquire() => { permit.unwrap().forget(); false }
            () = cancel.cancelled() => true,
        };
        *self.under_way.lock().unwrap() -= 1;
        Ok(Finished { code: (!cancelled).then_some(0), cancelled, total: 17, ..Finished::default() })
    }
}

impl Held {
    fn new() -> Arc<Self> {
        Arc::new(Self { go: Semaphore::new(0), under_way: Mutex::default() })
    }

    async fn until(&self, count: i32) {
        while *self.under_way.lock().unwrap() != count {
            tokio::task::yield_now().await;
        }
    }
}

fn world(held: &Arc<Held>, script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> World {
    World::hooked(config::Hooks::new(), held.clone(), script)
}

fn job() -> (&'static str, Value) {
    ("bash", json!({"command": "make serve", "background": true}))
}

/// The newest prompt, whatever the runtime said since, and how many answers follow it.
fn asked(received: &Received) -> (String, usize) {
    let lines = received.lines();
    let at = lines.iter().rposition(|line| line.role == "user" && !line.text.starts_with("[notice")).unwrap();
    (lines[at].text.clone(), lines[at..].iter().filter(|line| line.role == "assistant").count())
}

/// Starts a job in the first step of a prompt.
fn starts(received: &Received) -> Reply {
    let (prompt, step) = asked(received);
    match (prompt.as_str(), step) {
        ("serve", 0) => Reply::calls([job()]),
        ("which?", 0) => Reply::calls([("jobs", json!({}))]),
        _ => Reply::text("noted"),
    }
}

/// Texts of the letters about a job's end that a session has read.
async fn told(world: &World, session: &SessionId) -> Vec<String> {
    let mut told = Vec::new();
    for entry in world.log(session).await {
        if let Entry::Input(input) = entry
            && JobId::ended_by(&input.letter).is_some()
            && let Some(InputPart::Text { text }) = input.parts.first()
        {
            told.push(text.clone());
        }
    }
    told
}

#[tokio::test]
async fn the_call_is_answered_at_once_and_the_end_is_told_by_a_letter() {
    let held = Held::new();
    let world = world(&held, starts);
    let posted = world.prompt("serve").await;
    let id = posted.session.id.clone();
    world.end(&posted.run).await;
    held.until(1).await;
    assert_eq!(world.rt.busy() - usize::from(world.rt.busy() > 1), 1, "the gateway does not take itself for idle");
    assert!(told(&world, &id).await.is_empty());
    held.go.add_permits(1);
    while told(&world, &id).await.is_empty() {
        tokio::task::yield_now().await;
    }
    world.end(&posted.run).await;
    let said = told(&world, &id).await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("(`make serve`) ended with exit code 0") && said[0].ends_with("warming up\nready"),
        "{said:?}"
    );
    let answer = &world.fake.requests()[1].last("tool").unwrap();
    let file = answer.split('`').find(|part| part.ends_with(".txt")).expect("the file is named");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "warming up\nready\n");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_job_dies_with_the_gateway_and_the_session_is_told_once_when_it_goes_on() {
    let held = Held::new();
    let mut world = world(&held, starts);
    let posted = world.prompt("serve").await;
    let id = posted.session.id.clone();
    world.end(&posted.run).await;
    held.until(1).await;
    world.restart().await;
    held.until(0).await;
    assert!(told(&world, &id).await.is_empty(), "nobody is woken for it");
    for prompt in ["which?", "and now?"] {
        let run = world.send(Target::Session(id.clone()), prompt).await.run;
        world.end(&run).await;
        world.restart().await;
    }
    let said = told(&world, &id).await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("is gone") && said[0].contains("Start it again"), "{said:?}");
    let log = world.transcript(&id).await;
    assert!(log.contains(r#"jobs    {} -> ok: {"jobs":[]}"#), "{log}");
}

#[tokio::test]
async fn a_run_that_a_restart_interrupts_hears_of_it_before_its_next_step() {
    let held = Held::new();
    let mut world = world(&held, |received| match asked(received).1 {
        0 => Reply::calls([job()]),
        1 => Reply::calls([("question", json!({"questions": [{"question": "Go on?"}]}))]),
        _ => Reply::text("noted"),
    });
    let posted = world.prompt("serve").await;
    let id = posted.session.id.clone();
    let ask = loop {
        match world.store.asks(None).await.unwrap().pop() {
            Some(ask) => break ask.id,
            None => tokio::task::yield_now().await,
        }
    };
    world.restart().await;
    world.rt.answer_questions(&ask, vec![vec!["yes".into()]]).await.unwrap();
    world.end(&posted.run).await;
    let said = told(&world, &id).await;
    assert!(said.len() == 1 && said[0].contains("is gone"), "{said:?}");
}

#[tokio::test]
async fn a_childs_job_ends_with_its_run() {
    let held = Held::new();
    let world = world(&held, |received| match asked(received) {
        (prompt, 0) if prompt == "go" => {
            Reply::calls([("task", json!({"description": "d", "prompt": "serve", "subagent_type": "general"}))])
        }
        _ => starts(received),
    });
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    held.until(0).await;
    let child = &world.children(&posted.session.id).await[0];
    assert!(world.transcript(&child.id).await.contains("The job `job_"), "it was started");
    assert!(told(&world, &child.id).await.is_empty());
}

#[tokio::test]
async fn whatever_puts_a_session_away_ends_its_jobs() {
    for how in ["kill", "archive", "delete", "reset"] {
        let held = Held::new();
        let world = world(&held, starts);
        let posted = world.prompt("serve").await;
        let id = posted.session.id.clone();
        world.end(&posted.run).await;
        held.until(1).await;
        match how {
            "kill" => assert!(!world.rt.abort(&id, None).await.unwrap().is_empty(), "something was ended"),
            "archive" => world.rt.archive(&id, None).await.unwrap(),
            "delete" => world.rt.delete(&id, None).await.unwrap(),
            _ => drop(world.rt.reset(&id, None).await.unwrap()),
        }
        assert_eq!(*held.under_way.lock().unwrap(), 0, "{how}");
        assert_eq!(told(&world, &id).await, Vec::<String>::new(), "{how}");
    }
}

#[tokio::test]
async fn a_session_has_eight_at_once_and_one_that_it_stops_is_not_told_of() {
    let held = Held::new();
    let mut world = world(&held, |received| match (asked(received).0.as_str(), asked(received).1) {
        ("serve", 0) => Reply::calls((0..9).map(|_| job())),
        ("serve", 1) => {
            let first = received.lines().into_iter().find(|line| line.role == "tool").unwrap();
            let id = first.text.split('`').nth(1).unwrap().to_owned();
            Reply::calls([("jobs", json!({"action": "stop", "id": id}))])
        }
        _ => Reply::text("noted"),
    });
    let posted = world.prompt("serve").await;
    let id = posted.session.id.clone();
    world.end(&posted.run).await;
    held.until(7).await;
    let log = world.transcript(&id).await;
    assert_eq!(log.matches("8 jobs of this session run already").count(), 1, "{log}");
    assert_eq!(log.matches(r#""over":true"#).count(), 1, "{log}");
    world.restart().await;
    let run = world.send(Target::Session(id.clone()), "go on").await.run;
    world.end(&run).await;
    assert_eq!(told(&world, &id).await.len(), 7, "the seven that were lost, and not the one that was stopped");
}

#[tokio::test]
async fn a_fork_has_none_of_the_jobs_it_reads_of() {
    let held = Held::new();
    let world = world(&held, starts);
    let posted = world.prompt("serve").await;
    world.end(&posted.run).await;
    held.until(1).await;
    let fork = world.rt.fork(&posted.session.id, None, None).await.unwrap();
    let run = world.send(Target::Session(fork.id.clone()), "which?").await.run;
    world.end(&run).await;
    assert!(told(&world, &fork.id).await.is_empty());
    held.go.add_permits(1);
    while told(&world, &posted.session.id).await.is_empty() {
        tokio::task::yield_now().await;
    }
}
