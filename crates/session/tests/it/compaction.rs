//! Conversations that outgrow their model's context: summed up, cut off in the middle of that, forked, and given up.

use crate::world::World;
use convoke_session::{NewPrompt, NewSession, Posted, Target};
use proto::entry::{Compaction, CompactionState, Entry};
use proto::{Code, Outcome, SessionId};
use serde_json::{Value, json};
use testkit::{Gate, Received, Reply, Wire};

/// The request of the agent that sums up.
fn is_summary(received: &Received) -> bool {
    text(received).contains("You sum up a conversation")
}

fn text(received: &Received) -> String {
    String::from_utf8_lossy(&received.raw).into_owned()
}

/// What a real model would have counted.
fn counted(received: &Received, reply: Reply) -> Reply {
    reply.usage(received.raw.len() as u64 / 4, 5)
}

/// About four thousand tokens.
fn long(what: &str) -> String {
    format!("{what} {}", "word ".repeat(3_200))
}

async fn start(world: &World, model: &str, text: &str) -> Posted {
    let cwd = world.repo.path().to_str().unwrap().to_owned();
    let target = Target::New(NewSession { cwd, model: Some(model.into()), ..NewSession::default() });
    world.send(target, text).await
}

async fn say(world: &World, session: &SessionId, text: &str) -> store::Run {
    let posted = world.send(Target::Session(session.clone()), text).await;
    world.end_of(&posted.run).await
}

async fn compactions(world: &World, session: &SessionId) -> Vec<Compaction> {
    let compaction = |entry| if let Entry::Compaction(compaction) = entry { Some(compaction) } else { None };
    world.log(session).await.into_iter().filter_map(compaction).collect()
}

fn summaries(compactions: &[Compaction]) -> usize {
    compactions.iter().filter(|done| done.summary.is_some()).count()
}

/// The messages of a request, without its system part.
fn messages(received: &Received) -> Vec<Value> {
    received.body()["messages"].as_array().unwrap()[1..].to_vec()
}

#[tokio::test]
async fn a_long_session_is_summed_up_and_still_knows_what_it_must() {
    let mut world = World::new(|received| {
        if is_summary(received) {
            return counted(received, Reply::text("## Goal\nto keep going"));
        }
        let newest = received.last("user").unwrap_or_default();
        let reply = match (newest.as_str(), received.step()) {
            ("look into it", 0) => Reply::calls([("read", json!({"filePath": ".env"}))]),
            ("begin", 0) => Reply::calls([
                ("todowrite", json!({"todos": [{"content": "mend the roof", "status": "in_progress"}]})),
                ("tool_search", json!({"query": "select:subagents"})),
                (
                    "agent",
                    json!({"description": "d", "prompt": "look into it", "subagent_type": "general", "name": "scout"}),
                ),
            ]),
            _ => Reply::text("noted"),
        };
        counted(received, reply)
    })
    .await;
    world.repo.write(".env", "KEY=1\n");
    let posted = start(&world, "small/m1", "begin").await;
    world.end_of(&posted.run).await;
    while world.store.asks(None).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let id = &posted.session.id;
    for n in 0..14 {
        assert_eq!(say(&world, id, &long(&format!("part {n}"))).await.outcome, Some(Outcome::Ok));
    }
    let done = compactions(&world, id).await;
    assert!(summaries(&done) >= 2, "{done:?}");
    let pending = done.iter().filter(|entry| entry.state == CompactionState::Pending).count();
    assert_eq!(done.len(), 2 * pending, "each wish was met once: {done:?}");
    let inputs = world.log(id).await.iter().filter(|entry| matches!(entry, Entry::Input(_))).count();
    assert_eq!(inputs, 15, "the log keeps everything");
    for received in world.fake.requests() {
        assert!(received.raw.len() / 4 < 30_000, "a request that does not fit: {}", received.raw.len());
    }

    let ask = &world.store.asks(None).await.unwrap()[0];
    let child = &world.children(&posted.session.root).await[0];
    say(&world, id, "and now?").await;
    let before = world.fake.last().unwrap();
    let opening = messages(&before)[0]["content"].as_str().unwrap().to_owned();
    for known in ["to keep going", "[>] mend the roof", "`scout`", child.id.as_str(), "is asking", ask.id.as_str()] {
        assert!(opening.contains(known), "`{known}` is not in {opening}");
    }
    assert!(before.tools().contains(&"subagents".to_owned()), "{:?}", before.tools());

    // What a restart reads is less than the log, and leads to the same bytes.
    let row = world.store.session(id).await.unwrap().unwrap();
    assert!(row.base > 10, "{}", row.base);
    world.restart().await;
    say(&world, id, "still there?").await;
    let after = world.fake.last().unwrap();
    let sent = messages(&before);
    assert_eq!(sent[..], messages(&after)[..sent.len()]);
    assert_eq!(before.body()["tools"], after.body()["tools"]);
}

#[tokio::test]
async fn a_summary_that_a_crash_cut_off_is_written_again_and_counts_once() {
    let gate = Gate::new();
    let held = gate.clone();
    let mut world = World::new(move |received| match is_summary(received) {
        true => counted(received, Reply::text("## Goal\nonce")).gated(held.clone()),
        false => counted(received, Reply::text("noted")),
    })
    .await;
    let posted = start(&world, "small/m1", "begin").await;
    world.end(&posted.run).await;
    let id = posted.session.id.clone();
    let mut run = posted.run;
    // Somewhere on the way the context is full, and the run waits for its summary.
    while !world.fake.last().is_some_and(|received| is_summary(&received)) {
        run = world.send(Target::Session(id.clone()), &long("more")).await.run;
        let before = world.fake.count();
        while world.fake.count() == before && world.store.run(&run).await.unwrap().unwrap().outcome.is_none() {
            tokio::task::yield_now().await;
        }
    }
    let (old, asked) = (world.rt.clone(), world.fake.count());
    world.take_over().await;
    world.fake.wait_for(asked + 1).await;
    gate.open();
    let run = world.end(&run).await;
    old.stop().await;
    assert_eq!(run.outcome, Some(Outcome::Ok));
    let done = compactions(&world, &id).await;
    assert_eq!((done.len(), summaries(&done)), (2, 1), "{done:?}");
    assert!(messages(&world.fake.last().unwrap())[0]["content"].as_str().unwrap().contains("once"));
}

#[tokio::test]
async fn room_is_not_made_twice_without_progress_and_the_session_stays_usable() {
    let world = World::new(|received| match (is_summary(received), received.n) {
        (true, _) => Reply::text("## Goal\nshort"),
        (false, 0) => Reply::text("hello"),
        (false, _) if received.body()["model"] == "large" => Reply::text("fits here"),
        (false, _) => Reply::raw(400, r#"{"error":{"message":"too big","code":"context_length_exceeded"}}"#),
    })
    .await;
    let posted = start(&world, "small/m1", "begin").await;
    world.end(&posted.run).await;
    let id = &posted.session.id;
    let run = say(&world, id, "go on").await;
    assert_eq!((run.outcome, run.code), (Some(Outcome::Error), Some(Code::Unavailable)));
    assert!(run.message.unwrap().contains("makes no more room") && run.hint.unwrap().contains("larger context"));
    assert_eq!(world.fake.count(), 4, "hello, too big, the summary, too big");
    let run = say(&world, id, "again").await;
    assert_eq!((run.outcome, world.fake.count()), (Some(Outcome::Error), 5), "no second summary of the same");
    let prompt = NewPrompt {
        target: Target::Session(id.clone()),
        text: "and with another model?".into(),
        agent: None,
        model: Some("fake/large".into()),
        run: None,
        steer: true,
    };
    let run = world.rt.prompt(prompt).await.unwrap().run;
    assert_eq!(world.end(&run).await.outcome, Some(Outcome::Ok));
}

#[tokio::test]
async fn a_prompt_that_fills_the_window_is_shortened_in_its_middle_and_kept_whole_in_a_file() {
    let world = World::new(|received| match is_summary(received) {
        true => Reply::text("## Goal\nshort"),
        false => counted(received, Reply::text("done")),
    })
    .await;
    let posted = start(&world, "small/m1", "begin").await;
    world.end(&posted.run).await;
    let prompt = format!("FIRST LINE {} LAST LINE: do it", "word ".repeat(40_000));
    let run = say(&world, &posted.session.id, &prompt).await;
    assert_eq!(run.outcome, Some(Outcome::Ok), "{run:?}");
    let sent = text(&world.fake.last().unwrap());
    assert!(
        sent.contains("FIRST LINE") && sent.contains("LAST LINE: do it") && sent.contains("are left out here"),
        "{sent}"
    );
    let file = sent.split("all of it is in `").nth(1).unwrap().split('`').next().unwrap();
    assert_eq!(std::fs::read_to_string(file).unwrap(), prompt);
}

#[tokio::test]
async fn a_window_that_not_even_a_summary_fits_ends_the_run() {
    let world = World::new(|received| match is_summary(received) {
        true => Reply::text("## Goal\nshort"),
        false => Reply::text("filled").and_calls([("glob", json!({"pattern": "*"}))]).usage(29_000, 5),
    })
    .await;
    let posted = start(&world, "small/m1", "begin").await;
    let run = world.end(&posted.run).await;
    assert_eq!((run.outcome, run.code), (Some(Outcome::Error), Some(Code::Unavailable)));
    assert_eq!(world.fake.count(), 3, "a step, a summary, a step that is as full as before");
}

#[tokio::test]
async fn a_server_that_says_it_is_too_long_is_believed_on_every_wire() {
    for (wire, complaint) in [
        (Wire::OpenAiChat, r#"{"error":{"message":"too big","code":"context_length_exceeded"}}"#),
        (Wire::OpenAiResponses, r#"{"error":{"message":"Your input exceeds the context window of this model."}}"#),
        (
            Wire::Anthropic,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}"#,
        ),
    ] {
        let world = World::new(move |received| match received.n {
            1 => Reply::raw(400, complaint),
            _ if is_summary(received) => Reply::text("## Goal\nin short"),
            _ => Reply::text("fine"),
        })
        .await;
        let posted = start(&world, &format!("{}/m1", wire.as_str()), "begin").await;
        world.end(&posted.run).await;
        let run = say(&world, &posted.session.id, "the second prompt").await;
        assert_eq!((run.outcome, world.fake.count()), (Some(Outcome::Ok), 4), "{wire:?}");
        let sent = world.fake.last().unwrap();
        let users: Vec<String> =
            sent.lines().into_iter().filter(|line| line.role == "user").map(|line| line.text).collect();
        assert!(users[0].contains("in short"), "{wire:?}: {users:?}");
        assert!(users.iter().any(|said| said.contains("the second prompt")), "{wire:?}: {users:?}");
    }
}

#[tokio::test]
async fn old_output_is_left_out_before_anything_is_summed_up() {
    let world = World::new(|received| match received.step() {
        step @ 0..3 => {
            let file = format!("big{step}.txt");
            counted(received, Reply::calls([("read", json!({ "filePath": file }))]))
        }
        _ => counted(received, Reply::text("read them all")),
    })
    .await;
    for n in 0..3 {
        world.repo.write(&format!("big{n}.txt"), &format!("file {n}\n{}", "a line of some words\n".repeat(1_600)));
    }
    let posted = start(&world, "small/m1", "read three").await;
    let run = world.end(&posted.run).await;
    assert_eq!((run.outcome, world.fake.count()), (Some(Outcome::Ok), 4), "nobody was asked for a summary");
    let done = compactions(&world, &posted.session.id).await;
    assert!(done.iter().any(|done| done.prunes_before.is_some()) && summaries(&done) == 0, "{done:?}");
    let last = world.fake.last().unwrap();
    let results: Vec<String> =
        last.lines().into_iter().filter(|line| line.role == "tool").map(|line| line.text).collect();
    assert_eq!(results.len(), 3);
    assert!(results[0].contains("left out to make room") && results[2].contains("file 2"), "{results:?}");
}

#[tokio::test]
async fn a_person_asks_for_a_summary_and_says_what_it_is_to_look_after() {
    let world = World::new(|received| match is_summary(received) {
        true => Reply::text("## Goal\nthe numbers: 7"),
        false => Reply::text("noted"),
    })
    .await;
    let posted = start(&world, "fake/m1", "the number is 7").await;
    world.end(&posted.run).await;
    let id = &posted.session.id;
    let run = say(&world, id, "/compact keep the numbers").await;
    assert_eq!((run.outcome, world.fake.count()), (Some(Outcome::Ok), 2), "no model answers it");
    assert!(text(&world.fake.last().unwrap()).contains("above all: keep the numbers"));
    let done = compactions(&world, id).await;
    assert!(done.iter().all(|done| !done.auto) && summaries(&done) == 1, "{done:?}");
    say(&world, id, "which number?").await;
    let sent = messages(&world.fake.last().unwrap());
    assert_eq!(sent.len(), 2, "the summary and the prompt: {sent:?}");
    assert!(sent[0]["content"].as_str().unwrap().contains("the numbers: 7"));
    // Nothing came since: there is nothing to do, and nobody is asked.
    say(&world, id, "/compact").await;
    let asked = world.fake.count();
    assert_eq!(say(&world, id, "/compact").await.outcome, Some(Outcome::Ok));
    assert_eq!(world.fake.count(), asked);
}

#[tokio::test]
async fn a_fork_stands_on_the_summary_or_on_what_was_there_before_it() {
    let world = World::new(|received| match is_summary(received) {
        true => Reply::text("## Goal\nin short"),
        false => Reply::text("noted"),
    })
    .await;
    let posted = start(&world, "fake/m1", "first").await;
    world.end(&posted.run).await;
    let id = &posted.session.id;
    let early = world.store.session(id).await.unwrap().unwrap().seq;
    say(&world, id, "second").await;
    say(&world, id, "/compact").await;
    say(&world, id, "third").await;
    let late = world.rt.fork(id, None, None).await.unwrap();
    say(&world, &late.id, "in the late one").await;
    let sent = messages(&world.fake.last().unwrap());
    assert!(sent[0]["content"].as_str().unwrap().contains("in short"), "{sent:?}");
    assert_eq!(sent.len(), 6, "the summary of the first turn, and the rest as it was: {sent:?}");
    let before = world.rt.fork(id, Some(early), None).await.unwrap();
    say(&world, &before.id, "in the early one").await;
    let sent = messages(&world.fake.last().unwrap());
    let said: Vec<&str> = sent.iter().map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!(said, ["first", "noted", "in the early one"]);
}

/// Every result stands behind the call it belongs to.
fn check_calls(received: &Received) {
    let mut open: Vec<Value> = Vec::new();
    for message in messages(received) {
        let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
        match message["role"].as_str() {
            Some("tool") => {
                let at = open.iter().position(|id| *id == message["tool_call_id"]);
                open.remove(at.unwrap_or_else(|| panic!("a result without its call: {message}")));
            }
            _ => assert!(open.is_empty(), "calls without results before {message}"),
        }
        open.extend(calls.iter().map(|call| call["id"].clone()));
    }
    assert!(open.is_empty());
}

#[tokio::test]
async fn a_single_run_of_many_steps_is_summed_up_on_its_way_and_keeps_its_prompt() {
    const STEPS: usize = 40;
    let mut world = World::new(|received| {
        let done = received.n;
        let reply = match is_summary(received) {
            true => Reply::text("## Goal\nto count the words"),
            false if done >= STEPS => Reply::text("counted"),
            false => Reply::text(long("thinking aloud:")).and_calls([
                ("glob", json!({ "pattern": format!("{done}*") })),
                ("read", json!({ "filePath": "README.md", "limit": done + 1 })),
            ]),
        };
        let said = if done >= STEPS { 5 } else { 4_000 };
        reply.usage(received.raw.len() as u64 / 4, said)
    })
    .await;
    let posted = start(&world, "small/m1", "count the words, please").await;
    world.fake.wait_for(STEPS / 2).await;
    world.restart().await;
    let run = world.end(&posted.run).await;
    assert_eq!(run.outcome, Some(Outcome::Ok), "{run:?}");
    let done = compactions(&world, &posted.session.id).await;
    assert!(summaries(&done) >= 3, "{done:?}");
    assert!(
        done.iter().any(|done| done.steps > 0 && done.asked.as_deref() == Some("count the words, please")),
        "{done:?}"
    );
    let used: u64 = world.fake.requests().iter().map(|received| received.raw.len() as u64 / 4).sum();
    assert!(
        run.usage.input <= used && run.usage.input > used / 2,
        "summaries are paid for: {} of {used}",
        run.usage.input
    );
    for received in world.fake.requests().iter().filter(|received| !is_summary(received)) {
        check_calls(received);
        let sent = messages(received);
        assert!(sent.iter().any(|message| message["content"] == "count the words, please"), "{sent:?}");
        assert!(received.raw.len() / 4 < 30_000, "{}", received.raw.len());
    }
}
