//! How hooks are understood, and what several of them make of one event.

use super::answer::{Answer, answer};
use super::*;
use async_trait::async_trait;
use serde_json::json;
use tools::process::{Error, Finished};

fn hook(command: &str, only: &str) -> config::Hook {
    config::Hook { command: command.into(), only: only.into(), timeout_ms: 1500 }
}

fn ended(code: i32, output: &str, errors: &str) -> Finished {
    Finished { code: Some(code), output: output.into(), errors: errors.into(), ..Finished::default() }
}

#[track_caller]
fn check(on: On, finished: &Finished, expected: Answer) {
    assert_eq!(answer(finished, on, &hook("h", "*")), expected, "{on:?} {finished:?}");
}

#[test]
fn exit_code_two_says_no_where_that_can_be_said() {
    for on in [On::ToolBefore, On::ToolAfter, On::MessageSent, On::AgentStart, On::PermissionAsked] {
        check(on, &ended(2, "{\"input\":{}}", " not today \n"), Answer::Stop("not today".into()));
    }
    check(On::ToolBefore, &ended(2, "", ""), Answer::Stop("`h` gave no reason".into()));
    let late = Answer::Failed("it said no to what has happened already: no".into());
    check(On::AgentStop, &ended(2, "", "no"), late);
}

#[test]
fn json_changes_the_one_field_that_can_be_changed() {
    check(On::ToolBefore, &ended(0, " {\"input\": {\"a\": 1}}\n", "x"), Answer::Change(json!({"a": 1})));
    check(On::MessageSent, &ended(0, "{\"message\": \"hi\"}", ""), Answer::Change(json!("hi")));
    check(On::ToolBefore, &ended(0, "{\"message\": \"hi\"}", ""), Answer::Nothing);
    check(On::ToolAfter, &ended(0, "{\"input\": {}}", ""), Answer::Nothing);
    check(On::ToolBefore, &ended(0, "all well", ""), Answer::Nothing);
    check(On::ToolBefore, &ended(0, "", ""), Answer::Nothing);
}

#[test]
fn whatever_else_happens_is_a_failure_with_words() {
    let failed = |words: &str| Answer::Failed(words.into());
    check(On::ToolBefore, &ended(1, "", "no such file"), failed("it ended with exit code 1: no such file"));
    check(On::ToolBefore, &ended(0, "{\"input\": 1}", ""), failed("the `input` it printed is no object"));
    check(
        On::MessageSent,
        &ended(0, "{\"message\": \" \"}", ""),
        failed("the `message` it printed is no text, or an empty one"),
    );
    let killed = Finished { signal: Some(9), ..Finished::default() };
    check(On::AgentStart, &killed, failed("it was killed"));
    let late = Finished { timed_out: true, ..Finished::default() };
    check(On::AgentStart, &late, failed("it was ended after 1.5 s, its time limit"));
    let Answer::Failed(words) = answer(&ended(0, "{oops", ""), On::ToolBefore, &hook("h", "*")) else { panic!() };
    assert!(words.starts_with("what it printed is not JSON"), "{words}");
    check(On::AgentStart, &Finished { cancelled: true, ..Finished::default() }, Answer::Nothing);
}

/// Commands are words that say how they end.
struct Acted(Mutex<Vec<Value>>);

#[async_trait]
impl Processes for Acted {
    async fn run(&self, command: Command, _: &CancellationToken) -> Result<Finished, Error> {
        let input: Value = serde_json::from_str(command.input.as_deref().unwrap()).unwrap();
        self.0.lock().unwrap().push(input);
        match command.args[1].as_str() {
            "change" => Ok(ended(0, "{\"input\": {\"changed\": true}}", "")),
            "stop" => Ok(ended(2, "", "no")),
            "fail" => Ok(ended(1, "", "broken")),
            "lost" => Err(Error::Lost { program: "sh".into() }),
            _ => Ok(ended(0, "", "")),
        }
    }
}

fn hooks(commands: &[(&str, &str)]) -> (Hooks, Arc<Acted>) {
    let acted = Arc::new(Acted(Mutex::default()));
    let list = commands.iter().map(|(command, only)| hook(command, only)).collect();
    let set = config::Hooks::from([("tool.before".to_owned(), list)]);
    (Hooks::new(&set, &Racks::new(acted.clone(), Hub::default())), acted)
}

fn scene() -> Scene {
    let id = SessionId::new();
    let (key, agent) = ("agent:build:main".to_owned(), "build".to_owned());
    Scene { session: id.clone(), root: id, parent: None, key, agent, dir: "/work".into() }
}

async fn run(hooks: &Hooks, tool: &str) -> Said {
    let fields = json!({ "tool": tool, "input": { "command": "ls" } });
    let happening = Happening { on: On::ToolBefore, about: tool.into(), fields };
    hooks.run(&scene(), happening, &CancellationToken::new()).await
}

#[tokio::test]
async fn each_hook_sees_what_the_one_before_made_of_it_and_the_first_no_ends_it() {
    let (hooks, acted) = hooks(&[("fail", "*"), ("lost", "*"), ("change", "*"), ("stop", "*"), ("never", "*")]);
    let said = run(&hooks, "bash").await;
    assert_eq!(said, Said { stopped: Some("no".into()), changed: Some(json!({ "changed": true })) });
    let seen = acted.0.lock().unwrap();
    assert_eq!(seen.len(), 4);
    assert_eq!(
        (&seen[0]["event"], &seen[0]["agent"], &seen[0]["cwd"]),
        (&json!("tool.before"), &json!("build"), &json!("/work"))
    );
    assert_eq!((&seen[2]["input"], &seen[3]["input"]), (&json!({ "command": "ls" }), &json!({ "changed": true })));
    let rows = hooks.rows();
    assert_eq!((rows[0].runs, rows[0].failures), (1, 1));
    assert_eq!(rows[0].last_error.as_deref(), Some("it ended with exit code 1: broken"));
    assert!(rows[1].last_error.as_deref().unwrap().contains("was killed"));
    assert_eq!((rows[4].runs, rows[4].failures), (0, 0));
}

#[tokio::test]
async fn a_hook_hears_only_what_it_is_hung_on() {
    let (hooks, acted) = hooks(&[("stop", "sessions_*"), ("other", "bash")]);
    assert!(hooks.hear(On::ToolBefore, "sessions_send") && !hooks.hear(On::ToolBefore, "read"));
    assert!(!hooks.hear(On::ToolAfter, "bash"));
    assert_eq!(run(&hooks, "bash").await, Said::default());
    assert_eq!(run(&hooks, "read").await, Said::default());
    assert_eq!(acted.0.lock().unwrap().len(), 1);
}
