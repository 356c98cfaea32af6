//! The three agents of `company`, played by the script files beside this one: the offline model, as a user can run it.
//! Then the same with the gateway killed at two moments: the same letters once each, the same answers, the same board.

use crate::World;
use crate::company::{letters, status, story, until};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Stdio;
use testkit::{FakeModel, RepoDir, TempHome};

fn world() -> World {
    let settings = json!({ "model": "offline/lead", "limits": { "shutdownSeconds": 2 } });
    let home = TempHome::bare().config_json(settings);
    home.script("lead.script", include_str!("company/lead.script"));
    home.script("researcher.script", include_str!("company/researcher.script"));
    home.script("writer.script", include_str!("company/writer.script"));
    World { model: FakeModel::start(), home, repo: RepoDir::new() }
}

impl World {
    fn file(&self, name: &str) -> PathBuf {
        self.repo.path().join(name)
    }

    /// Waits until somebody left a file.
    fn until_left(&self, name: &str) {
        until(self, name, || self.file(name).exists().then_some(()));
    }

    fn kill_gateway(&self) {
        kill_process(self.gateway_pid(), Signal::KILL).unwrap();
    }

    /// What a tool's calls of an agent came to, in order.
    fn results(&self, name: &str, tool: &str) -> Vec<String> {
        let ps = self.convoke(["ps", "--json"]).code(0).json();
        let row = ps["sessions"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        let id = row["sessionId"].as_str().unwrap();
        let history = self.convoke(["history", id, "--include-tools", "--json"]).code(0).json();
        let messages = history["messages"].as_array().unwrap();
        let parts = messages.iter().flat_map(|message| message["parts"].as_array().cloned().unwrap_or_default());
        let of_tool = parts.filter(|part| part["type"] == "tool" && part["tool"] == tool);
        of_tool.map(|part| part["output"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

fn play(killed: &[&str]) {
    let world = world();
    for hold in killed {
        std::fs::write(world.file(&format!("hold.{hold}")), "").unwrap();
    }
    // Follows the whole tree, through the death of the gateway too.
    let mut run = world.command(["run", "--json", "make the report"]).stdout(Stdio::null()).spawn().unwrap();
    for held in killed {
        // All three are at something that lasts: the lead reads and is held, the researcher works on, the writer waits
        // for an answer or is deaf.
        world.until_left("researcher.works");
        world.until_left(&format!("lead.reads.{held}"));
        world.kill_gateway();
        std::fs::remove_file(world.file(&format!("hold.{held}"))).unwrap();
    }
    until(&world, "the researcher agreed to end", || status(&world, "researcher").filter(|status| status == "done"));
    until(&world, "the writer was ended", || status(&world, "writer").filter(|status| status == "killed"));
    assert!(run.wait().unwrap().success());
    let mut heard = letters(&world);
    // Whether the deaf one still read the question before it was ended is a matter of luck.
    if let Some(lines) = heard.get_mut("main to writer") {
        lines.retain(|line| line != "shutdown_request");
    }
    let expected = json!({
        "main to researcher": ["the facts are in: use them", "shutdown_request"],
        "main to writer": ["the facts are in: use them"],
        "researcher to main": ["facts: three of them", "shutdown_response"],
        "writer to main": ["plan_approval_request", "plan_approval_request", "report: it is written"],
    });
    assert_eq!(json!(heard), expected, "{}", story(&world));
    let answers = world.results("writer", "plan_exit");
    assert_eq!(answers.len(), 2, "{answers:?}\n{}", story(&world));
    assert!(answers[0].contains("shorter, please") && answers[1].contains("is approved"), "{answers:?}");
    assert_eq!(std::fs::read_to_string(world.file("report.txt")).unwrap(), "three facts\n");
    let board = world.convoke(["board", "list", "--json"]).code(0).json();
    let tasks: Vec<Value> = board["tasks"].as_array().unwrap().iter().map(told).collect();
    assert_eq!(json!(tasks), json!([["write the report", "done", 3]]), "{board}\n{}", story(&world));
}

fn told(task: &Value) -> Value {
    json!([task["title"], task["state"], task["version"]])
}

#[test]
fn three_scripts_make_a_report() {
    play(&[]);
}

#[test]
fn three_scripts_make_a_report_though_the_gateway_is_killed_over_a_plan() {
    play(&["plan"]);
}

#[test]
fn three_scripts_make_a_report_though_the_gateway_is_killed_before_their_end() {
    play(&["report"]);
}

#[test]
fn three_scripts_make_a_report_though_the_gateway_is_killed_twice() {
    play(&["plan", "report"]);
}
