//! What the command line says about one run: turns, money, prompts, tools.

use crate::World;
use serde_json::json;
use testkit::{FakeModel, Received, Reply};

/// A model that never stops by itself, and asks for money.
fn eager(received: &Received) -> Reply {
    match received.body()["tools"].is_array() {
        true => Reply::calls([("list", json!({ "path": "./".repeat(received.step() + 1) }))]).cost(0.4),
        false => Reply::text("I conclude."),
    }
}

#[test]
fn a_run_ends_after_the_turns_it_may_have() {
    let world = World::with(FakeModel::scripted(eager));
    let done = world.convoke(["run", "--max-turns", "3", "look"]).code(0);
    assert_eq!((done.stdout.as_str(), world.model.count()), ("I conclude.\n", 3));
    world.convoke(["run", "--max-turns", "0", "look"]).code(2);
}

#[test]
fn a_run_ends_when_its_money_is_spent() {
    let world = World::with(FakeModel::scripted(eager));
    world.convoke(["run", "--max-budget-usd", "1", "look"]).code(1).says("the budget is spent");
    assert_eq!(world.model.count(), 3);
    world.convoke(["run", "--max-budget-usd", "-1", "look"]).code(2);
}

#[test]
fn a_new_session_takes_its_prompt_from_the_command_line_and_keeps_it() {
    let world = World::new();
    let system = |world: &World| {
        let lines = world.model.last().unwrap().lines();
        lines.into_iter().find(|line| line.role == "system").map(|line| line.text).unwrap_or_default()
    };
    world.convoke(["run", "--system-prompt", "You are a poet.", "--label", "poet", "hi"]).code(0);
    assert!(system(&world).starts_with("You are a poet."), "{}", system(&world));
    world.convoke(["run", "-s", "poet", "again"]).code(0);
    assert!(system(&world).starts_with("You are a poet."), "{}", system(&world));
    world.convoke(["run", "--append-system-prompt", "Answer in rhyme.", "hi"]).code(0);
    assert!(!system(&world).contains("poet") && system(&world).ends_with("Answer in rhyme."), "{}", system(&world));
    world.convoke(["run", "-s", "poet", "--system-prompt", "x", "hi"]).code(2);
}

#[test]
fn tools_that_are_allowed_need_no_question_and_a_deny_stays() {
    let world = World::with(FakeModel::scripted(|received| match received.step() {
        0 => Reply::calls([("bash", json!({ "command": "echo made > made.txt" }))]),
        1 => Reply::calls([("bash", json!({ "command": "rm made.txt" }))]),
        _ => Reply::text("done"),
    }));
    crate::rules::permit(&world, json!({ "bash": { "*": "ask", "rm *": "deny" }, "edit": "ask" }));
    let made = || world.repo.path().join("made.txt").exists();
    world.convoke(["run", "make it"]).code(0);
    assert!(!made());
    world.convoke(["run", "--allowed-tools", "Bash(echo:*),edit", "make it"]).code(0);
    assert!(made());
    world.convoke(["run", "--allowed-tools", "bash edit", "make it"]).code(0);
    assert!(made(), "a deny of the settings stays");
    world.convoke(["run", "--allowed-tools", "raed", "x"]).code(2).says("did you mean `read`?");
}
