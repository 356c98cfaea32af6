//! Commands in the background, with real processes: what they print, their end, and the end of their gateway.

use crate::World;
use crate::security::{gone_in_five_seconds, running};
use serde_json::json;
use std::path::Path;
use testkit::{FakeModel, Reply};

/// A model that starts `command` as a job, and says what it is told last.
fn starts(command: &'static str) -> World {
    World::with(FakeModel::scripted(move |received| match received.step() {
        0 if received.last("user").unwrap_or_default() == "start" => {
            Reply::calls([("bash", json!({ "command": command, "background": true }))])
        }
        _ => Reply::text(received.last("tool").unwrap_or_default()),
    }))
}

/// Looks until `there` says so.
pub(crate) fn wait_for(what: &str, there: impl Fn() -> bool) {
    for _ in 0..2000 {
        if there() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{what} did not come");
}

fn session_of(world: &World) -> (String, String) {
    let lines = world.convoke(["run", "--json", "start"]).code(0).lines();
    let answer = lines.last().unwrap()["text"].as_str().unwrap().to_owned();
    let file = answer.split('`').find(|part| part.ends_with(".txt")).expect("the file is named").to_owned();
    (lines[0]["sessionId"].as_str().unwrap().to_owned(), file)
}

#[test]
fn the_end_of_a_job_comes_as_a_message_with_its_exit_code() {
    let world = starts("while ! [ -e go ]; do sleep 0.01; done; echo built; exit 3");
    let (session, file) = session_of(&world);
    assert!(Path::new(&file).exists(), "from the first byte on");
    let history = || world.convoke(["history", &session, "--json"]).code(0).stdout;
    assert!(!history().contains("exit code 3"));
    std::fs::write(world.repo.path().join("go"), "").unwrap();
    wait_for("the message", || history().contains("ended with exit code 3"));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "built\n");
}

#[test]
fn a_job_is_gone_with_its_gateway_and_its_session_is_told() {
    // A number nobody else sleeps for: inside of its sandbox it has another pid.
    let mark = "sleep 600.271828";
    let world = starts(mark);
    let (session, file) = session_of(&world);
    wait_for("the process", || !running(mark).is_empty());
    rustix::process::kill_process(world.gateway_pid(), rustix::process::Signal::KILL).unwrap();
    gone_in_five_seconds(mark);
    world.convoke(["run", "--session", &session, "what runs?"]).code(0);
    let history = world.convoke(["history", &session, "--json"]).code(0).stdout;
    assert!(history.contains("is gone") && history.contains(&file), "{history}");
}

#[test]
fn what_a_job_prints_is_read_without_a_question() {
    let file = |text: &str| text.split('`').find(|part| part.ends_with(".txt")).unwrap().to_owned();
    let world = World::with(FakeModel::scripted(move |received| {
        let results = received.lines().into_iter().filter(|line| line.role == "tool").map(|line| line.text);
        let results: Vec<String> = results.collect();
        match results.as_slice() {
            [] => Reply::calls([("bash", json!({ "command": "echo hello there", "background": true }))]),
            // Until something is in it; the folder of outputs is inside of the home, which nobody has to be asked for.
            [started] => {
                let wait = format!("while ! [ -s '{}' ]; do sleep 0.01; done", file(started));
                Reply::calls([("bash", json!({ "command": wait }))])
            }
            [started, _] => Reply::calls([("read", json!({ "filePath": file(started) }))]),
            [.., read] => Reply::text(read.as_str()),
        }
    }));
    let done = world.convoke(["run", "--ask", "allow", "start"]).code(0);
    assert!(done.stdout.contains("hello there"), "{done:#?}");
    assert!(!done.stderr.contains("asks for `read`"), "{done:#?}");
}
