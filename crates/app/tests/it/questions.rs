//! What an agent wants to know, as a person meets it: at the terminal, from another one, and when nobody is there.

use crate::World;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::process::Stdio;
use testkit::{FakeModel, Reply};

/// A model that asks two things and says what came of it.
fn asks() -> World {
    World::with(FakeModel::scripted(|received| match received.step() {
        0 => Reply::calls([(
            "question",
            json!({"questions": [
                {"question": "Which store?", "header": "Store", "options": [
                    {"label": "SQLite", "description": "one file"}, {"label": "Postgres"}]},
                {"question": "What is it called?"},
            ]}),
        )]),
        _ => Reply::text(received.last("tool").unwrap_or_default()),
    }))
}

#[test]
fn a_run_without_a_person_goes_on_without_an_answer() {
    let world = asks();
    for ask in ["deny", "allow"] {
        let done = world.convoke(["run", "--json", "--ask", ask, "make it"]).code(0);
        let lines = done.lines();
        let asked = lines.iter().find(|line| line["type"] == "question").expect("it is shown");
        assert_eq!(
            (&asked["agent"], &asked["questions"][1]["question"]),
            (&json!("build"), &json!("What is it called?"))
        );
        let said = lines.last().unwrap()["text"].as_str().unwrap();
        assert!(said.contains("not answered") && said.contains("Nobody is there"), "{said}");
    }
}

/// Starts a run that nobody follows and waits until it asks. Returns the run and the question.
fn asking(world: &World) -> (String, Value) {
    let session = world.convoke(["run", "--json", "make it"]).code(0).lines()[0]["sessionId"].clone();
    let sent = world.convoke(["send", session.as_str().unwrap(), "again", "--json"]).code(0).json();
    for _ in 0..500 {
        let open = world.convoke(["approve", "--json"]).code(0).json();
        assert_eq!(open["asks"], json!([]), "a question asks for no leave");
        if let Some(asked) = open["questions"].as_array().unwrap().first() {
            return (sent["runId"].as_str().unwrap().to_owned(), asked.clone());
        }
    }
    panic!("nothing is asked: {sent}");
}

#[test]
fn another_terminal_answers_also_after_the_gateway_was_killed() {
    let world = asks();
    world.convoke(["answer", "blue"]).code(2).says("nothing is asked");
    let (run, asked) = asking(&world);
    rustix::process::kill_process(world.gateway_pid(), rustix::process::Signal::KILL).unwrap();
    let id = asked["id"].as_str().unwrap();
    let shown = world.convoke(["approve"]).code(0).stdout;
    assert!(shown.contains(id) && shown.contains("Which store? / What is it called?"), "{shown}");
    let shown = world.convoke(["answer"]).code(0).stdout;
    assert!(shown.contains("? Store: Which store?") && shown.contains("1 SQLite: one file"), "{shown}");
    world.convoke(["answer", "ask_none", "1"]).code(2).says("no open question is `ask_none`");
    world.convoke(["answer", "1"]).code(2).says("2 questions, and 1 answers");
    world.convoke(["approve", id, "once"]).code(2).says("no open question");
    let answered = world.convoke(["answer", id, "2", "the ledger", "--json"]).code(0).json();
    assert_eq!((&answered["id"], &answered["answers"]), (&json!(id), &json!([["Postgres"], ["the ledger"]])));
    let waited = world.convoke(["wait", &run, "--json"]).code(0).json();
    assert_eq!(
        waited["text"], "The person answered:\n- Which store?\n  Postgres\n- What is it called?\n  the ledger",
        "{waited}"
    );
}

#[test]
fn a_person_can_leave_it_unanswered() {
    let world = asks();
    let (run, _) = asking(&world);
    world.convoke(["answer", "--reject", "take", "what", "you", "like"]).code(0);
    let waited = world.convoke(["wait", &run, "--json"]).code(0);
    assert!(waited.stdout.contains("the question was not answered: take what you like"), "{waited:#?}");
}

#[test]
fn whoever_sits_at_a_terminal_is_asked_one_thing_after_the_other() {
    let world = asks();
    let inner = world.command(["run", "make it"]);
    let mut command = world.home.command("script");
    let line = format!("'{}' run 'make it'", inner.get_program().to_str().unwrap());
    command.args(["-qefc", &line, "/dev/null"]).current_dir(world.repo.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script is there");
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (mut shown, mut bytes) = (String::new(), [0; 4096]);
    let mut answers = [("your own words; - for no answer", "1\n"), ("in your words; - for", "a ledger\n")].into_iter();
    let mut next = answers.next();
    while let Ok(count @ 1..) = screen.read(&mut bytes) {
        shown.push_str(&String::from_utf8_lossy(&bytes[..count]));
        if let Some((prompt, answer)) = next
            && shown.contains(prompt)
        {
            keys.write_all(answer.as_bytes()).unwrap();
            keys.flush().unwrap();
            next = answers.next();
        }
    }
    assert!(child.wait().unwrap().success() && next.is_none(), "{shown}");
    assert!(shown.contains("1 SQLite: one file"), "{shown}");
    let said = shown.replace('\r', "");
    assert!(said.contains("- Which store?\n  SQLite\n- What is it called?\n  a ledger"), "{shown}");
}
