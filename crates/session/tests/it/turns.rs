//! One session: turns, tools, steering, asking, stopping.

use crate::world::World;
use convoke_session::Target;
use proto::letter::AskReply;
use proto::{Outcome, Status};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::{Gate, Received, Reply};

/// How many assistant messages follow the newest user message.
pub(crate) fn step(received: &Received) -> usize {
    received.step()
}

#[tokio::test]
async fn a_prompt_is_answered_and_the_run_ends() {
    let world = World::new(|_| Reply::text("Hello yourself.").usage(10, 3)).await;
    let posted = world.prompt("hello").await;
    let run = world.end(&posted.run).await;
    assert_eq!((run.outcome, run.usage.input, run.usage.output), (Some(Outcome::Ok), 10, 3));
    insta::assert_snapshot!(world.transcript(&posted.session.id).await, @r"
    user    hello
    model   Hello yourself.
    run     ended: ok
    ");
    let row = world.store.session(&posted.session.id).await.unwrap().unwrap();
    assert_eq!((row.status, row.title.as_deref(), row.usage.input), (Status::Idle, Some("hello"), 10));
}

#[tokio::test]
async fn calls_of_one_reply_run_together_and_their_results_go_back_in_order() {
    let world = World::new(|received| match step(received) {
        0 => Reply::calls([
            ("read", json!({"filePath": "src/main.rs"})),
            ("glob", json!({"pattern": "*.toml"})),
            ("Read", json!({"file_path": "README.md", "limit": 1})),
        ]),
        _ => Reply::text("seen"),
    })
    .await;
    let posted = world.prompt("look").await;
    world.end(&posted.run).await;
    let sent = world.fake.requests().last().unwrap().body();
    let results: Vec<&str> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|m| m["role"] == "tool")
        .map(|m| m["content"].as_str().unwrap())
        .collect();
    assert_eq!(results.len(), 3);
    assert!(results[0].contains("mod claims") && results[1].contains("Cargo.toml") && results[2].contains("# Sample"));
}

#[tokio::test]
async fn mistakes_of_the_model_are_told_to_it_and_the_turn_goes_on() {
    let world = World::new(|received| match step(received) {
        0 => Reply::calls([
            ("raed", json!({"filePath": "a"})),
            ("read", json!({"nothing": true})),
            ("edit", json!("not an object")),
        ]),
        _ => Reply::text("sorry"),
    })
    .await;
    let posted = world.prompt("go").await;
    let run = world.end(&posted.run).await;
    assert_eq!(run.outcome, Some(Outcome::Ok));
    let seen = world.transcript(&posted.session.id).await;
    assert!(seen.contains("there is no tool `raed`; the nearest are: read"), "{seen}");
    assert!(seen.contains("the arguments of `read` do not fit"), "{seen}");
    assert!(seen.contains("the arguments of `edit` are not valid JSON"), "{seen}");
}

#[tokio::test]
async fn text_that_comes_while_busy_joins_the_run_and_is_answered_in_it() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(move |received| match received.n {
        0 => Reply::calls([("read", json!({"filePath": "README.md"}))]).gated(held.clone()),
        _ => Reply::text(format!("I read: {}", received.last("user").unwrap())),
    })
    .await;
    let first = world.prompt("first").await;
    world.fake.wait_for(1).await;
    let second = world.send(Target::Session(first.session.id.clone()), "and second").await;
    gate.open();
    let (a, b) = (world.end(&first.run).await, world.end(&second.run).await);
    assert_eq!(a.id, b.id, "the second prompt is an alias of the run it joined");
    assert_eq!(world.fake.count(), 2);
    insta::assert_snapshot!(world.transcript(&first.session.id).await, @r#"
    user    first
    read    {"filePath":"README.md"} -> ok: 1	# Sample
    user    and second
    model   I read: and second
    run     ended: ok
    "#);
}

#[tokio::test]
async fn a_letter_that_comes_with_the_last_words_is_answered_before_the_run_ends() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(move |received| match received.n {
        0 => Reply::text("done").gated(held.clone()),
        _ => Reply::text("really done"),
    })
    .await;
    let first = world.prompt("first").await;
    world.fake.wait_for(1).await;
    let second = world.send(Target::Session(first.session.id.clone()), "wait").await;
    gate.open();
    world.end(&second.run).await;
    insta::assert_snapshot!(world.transcript(&first.session.id).await, @r"
    user    first
    model   done
    user    wait
    model   really done
    run     ended: ok
    ");
}

#[tokio::test]
async fn requests_have_runs_of_their_own_in_order() {
    let world = World::new(|received| Reply::text(format!("re: {}", received.last("user").unwrap()))).await;
    let first = world.prompt("one").await;
    let mut runs = vec![first.run.clone()];
    for text in ["two", "three"] {
        let (target, text) = (Target::Session(first.session.id.clone()), text.to_owned());
        let prompt = convoke_session::NewPrompt { target, text, agent: None, model: None, run: None, steer: false };
        runs.push(world.rt.prompt(prompt).await.unwrap().run);
    }
    for run in &runs {
        assert_eq!(&world.end(run).await.id, run);
    }
    insta::assert_snapshot!(world.transcript(&first.session.id).await, @r"
    user    one
    model   re: one
    run     ended: ok
    user    two
    model   re: two
    run     ended: ok
    user    three
    model   re: three
    run     ended: ok
    ");
}

#[tokio::test]
async fn the_same_run_id_twice_is_one_run() {
    let world = World::new(|_| Reply::text("once")).await;
    let run = proto::RunId::parse("my-key").unwrap();
    let cwd = world.repo.path().to_str().unwrap().to_owned();
    for _ in 0..2 {
        let target = Target::New(convoke_session::NewSession { cwd: cwd.clone(), ..Default::default() });
        let prompt = convoke_session::NewPrompt {
            target,
            text: "hi".into(),
            agent: None,
            model: None,
            run: Some(run.clone()),
            steer: true,
        };
        let posted = world.rt.prompt(prompt).await.unwrap();
        assert_eq!(world.end(&posted.run).await.id, run);
    }
    assert_eq!(world.fake.count(), 1);
}

#[tokio::test]
async fn a_question_waits_for_its_answer() {
    let read = |received: &Received| match step(received) {
        0 => Reply::calls([("read", json!({"filePath": ".env"}))]),
        _ => Reply::text("thanks"),
    };
    for (reply, expected) in [
        (AskReply::Once, "started\nread    {\"filePath\":\".env\"} -> ok: 1\tKEY=1"),
        (AskReply::Reject, "read    {\"filePath\":\".env\"} -> denied: the answer was no: no reason was given"),
    ] {
        let world = World::new(read).await;
        world.repo.write(".env", "KEY=1\n");
        let posted = world.prompt("what is the key?").await;
        world.answer(&posted.session.root, reply).await;
        world.end(&posted.run).await;
        let seen = world.transcript(&posted.session.id).await;
        assert!(seen.contains(expected), "{seen}");
    }
}

#[tokio::test]
async fn t25_a_yes_is_for_what_was_shown_and_not_for_what_it_leads_to_by_then() {
    let world = World::new(|received| match step(received) {
        0 => Reply::calls([("read", json!({"filePath": "notes.env"}))]),
        _ => Reply::text("thanks"),
    })
    .await;
    world.repo.write("notes.env", "harmless\n");
    world.repo.write(".env", "KEY=1\n");
    let posted = world.prompt("what do they say?").await;
    world.asked(&posted.session.root).await;
    std::fs::remove_file(world.repo.path().join("notes.env")).unwrap();
    std::os::unix::fs::symlink(".env", world.repo.path().join("notes.env")).unwrap();
    world.answer(&posted.session.root, AskReply::Once).await;
    world.end(&posted.run).await;
    let seen = world.transcript(&posted.session.id).await;
    assert!(seen.contains("no leave for `read` of `.env`") && !seen.contains("KEY"), "{seen}");
}

#[tokio::test]
async fn always_holds_for_the_rest_of_the_session() {
    let world = World::new(|received| match step(received) {
        0 | 1 => Reply::calls([("read", json!({"filePath": ".env"}))]),
        _ => Reply::text("thanks"),
    })
    .await;
    world.repo.write(".env", "KEY=1\n");
    let posted = world.prompt("what is the key?").await;
    world.answer(&posted.session.root, AskReply::Always).await;
    world.end(&posted.run).await;
    let seen = world.transcript(&posted.session.id).await;
    assert_eq!(seen.matches("-> ok").count(), 2, "{seen}");
    assert_eq!(seen.matches("started").count(), 1, "{seen}");
}

#[tokio::test]
async fn stopping_ends_the_run_and_what_it_was_doing() {
    let world = World::new(|received| match step(received) {
        0 => Reply::calls([("bash", json!({"command": "sleep 60"}))]),
        _ => Reply::text("never"),
    })
    .await;
    let posted = world.prompt("tidy up").await;
    world.fake.wait_for(1).await;
    while world.log(&posted.session.id).await.len() < 2 {
        tokio::task::yield_now().await;
    }
    assert!(!world.rt.abort(&posted.session.id, None).await.unwrap().is_empty());
    let run = world.end(&posted.run).await;
    assert_eq!(run.outcome, Some(Outcome::Cancelled));
    insta::assert_snapshot!(world.transcript(&posted.session.id).await, @r#"
    user    tidy up
    bash    {"command":"sleep 60"} -> interrupted: the call was stopped: stopped by the user
    run     ended: cancelled (stopped by the user)
    "#);
    assert!(world.rt.abort(&posted.session.id, None).await.unwrap().is_empty(), "nothing is left to stop");
}

#[tokio::test]
async fn the_last_step_of_a_limited_agent_gets_no_tools_and_concludes() {
    let steps = config::Agent { steps: Some(2), ..Default::default() };
    let agents = BTreeMap::from([("build".to_owned(), steps)]);
    let world = World::with(config::Limits::default(), agents, |received| {
        if received.tools().is_empty() { Reply::text("out of steps") } else { Reply::calls([("list", json!({}))]) }
    })
    .await;
    let posted = world.prompt("go on for ever").await;
    world.end(&posted.run).await;
    assert_eq!(world.fake.count(), 2);
    assert!(world.fake.last().unwrap().last("user").unwrap().contains("last step"));
    assert!(world.transcript(&posted.session.id).await.contains("out of steps"));
}

#[tokio::test]
async fn a_model_that_refuses_ends_the_run_with_a_reason_and_the_next_one_works() {
    let world = World::new(|received| match received.n {
        0 => Reply::raw(400, r#"{"error":{"message":"no such model"}}"#),
        _ => Reply::text("whole"),
    })
    .await;
    let posted = world.prompt("one").await;
    let run = world.end(&posted.run).await;
    assert_eq!((run.outcome, run.code), (Some(Outcome::Error), Some(proto::Code::Provider)));
    assert!(run.hint.is_some());
    let again = world.send(Target::Session(posted.session.id.clone()), "two").await;
    assert_eq!(world.end(&again.run).await.outcome, Some(Outcome::Ok));
}

#[tokio::test]
async fn a_fork_shares_what_was_said_and_goes_its_own_way() {
    let world = World::new(|received| Reply::text(format!("re: {}", received.last("user").unwrap()))).await;
    let posted = world.prompt("one").await;
    world.end(&posted.run).await;
    let fork = world.rt.fork(&posted.session.id, None, None).await.unwrap();
    let there = world.send(Target::Session(fork.id.clone()), "two").await;
    world.end(&there.run).await;
    let here = world.send(Target::Session(posted.session.id.clone()), "three").await;
    world.end(&here.run).await;
    let users = |n: usize| -> Vec<String> {
        let body = world.fake.requests()[n].body();
        let messages = body["messages"].as_array().unwrap();
        messages.iter().filter(|m| m["role"] == "user").map(|m| m["content"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(users(1), ["one", "two"]);
    assert_eq!(users(2), ["one", "three"]);
}

#[tokio::test]
async fn deltas_come_before_the_entry_they_led_to() {
    let world = World::new(|_| Reply::deltas(["Hel", "lo"])).await;
    let events = world.hub.watch(convoke_session::hub::What::Everything);
    let posted = world.prompt("hi").await;
    world.end(&posted.run).await;
    let mut kinds = Vec::new();
    while let Some(seen) = events.take().unwrap() {
        let event: serde_json::Value = serde_json::from_str(&seen.json).unwrap();
        let kind = event["entry"]["type"].as_str().or(event["type"].as_str()).unwrap().to_owned();
        if kind != "status" {
            kinds.push(kind);
        }
    }
    assert_eq!(kinds, ["input", "delta", "delta", "reply", "ended"]);
    let _: Arc<_> = world.fake.last().unwrap();
}

#[tokio::test]
async fn a_queued_prompt_can_be_withdrawn_while_another_run_goes_on() {
    let gate = Gate::new();
    let held = gate.clone();
    let world = World::new(move |received| match received.n {
        0 => Reply::text("first done").gated(held.clone()),
        _ => Reply::text("never asked"),
    })
    .await;
    let first = world.prompt("first").await;
    world.fake.wait_for(1).await;
    let target = Target::Session(first.session.id.clone());
    let queued = convoke_session::NewPrompt {
        target,
        text: "@explore second".into(),
        agent: None,
        model: None,
        run: None,
        steer: false,
    };
    let second = world.rt.prompt(queued).await.unwrap();
    assert!(!world.rt.abort(&first.session.id, Some(second.run.clone())).await.unwrap().is_empty());
    assert_eq!(world.end_of(&second.run).await.outcome, Some(Outcome::Cancelled));
    gate.open();
    assert_eq!(world.end(&first.run).await.outcome, Some(Outcome::Ok));
    assert_eq!(world.fake.count(), 1);
    assert!(world.store.check().await.unwrap().is_empty());
    insta::assert_snapshot!(world.transcript(&first.session.id).await, @r"
    user    first
    user    @explore second
    run     ended: cancelled (stopped by the user)
    notice  The message above was withdrawn: stopped by the user.
    model   first done
    run     ended: ok
    ");
}
