//! Three agents work on one task: a lead, a researcher and a writer. Then the same again, with the gateway killed in the
//! middle: the same letters once each, the same answers, the same board.

use crate::World;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};
use testkit::{FakeModel, Gate, Received, Reply, TempHome};

const LOOKS: usize = 2_000;

/// What one conversation has come to, from the request itself: so a model that is asked again goes on where it was.
pub(crate) struct Talk {
    pub(crate) heard: String,
    called: Vec<(String, Value)>,
}

impl Talk {
    pub(crate) fn of(received: &Received) -> Self {
        let body = received.body();
        let messages = body["messages"].as_array().cloned().unwrap_or_default();
        let heard = messages.iter().filter(|m| m["role"] == "user").map(|m| m["content"].as_str().unwrap_or_default());
        // What a kill cut off is told so, and done again.
        let results =
            messages.iter().filter(|m| m["role"] == "tool").map(|m| m["content"].as_str().unwrap_or_default());
        let calls = messages.iter().flat_map(|m| m["tool_calls"].as_array().cloned().unwrap_or_default());
        let calls =
            calls.zip(results).filter(|(_, result)| !result.contains("the gateway stopped")).map(|(call, _)| call);
        let call = |call: Value| {
            let input =
                serde_json::from_str(call["function"]["arguments"].as_str().unwrap_or("{}")).unwrap_or_default();
            (call["function"]["name"].as_str().unwrap_or_default().to_owned(), input)
        };
        Self { heard: heard.collect::<Vec<_>>().join("\n"), called: calls.map(call).collect() }
    }

    pub(crate) fn has_called(&self, tool: &str, fits: impl Fn(&Value) -> bool) -> bool {
        self.called.iter().any(|(name, input)| name == tool && fits(input))
    }

    pub(crate) fn times(&self, tool: &str) -> usize {
        self.called.iter().filter(|(name, _)| name == tool).count()
    }

    /// A look at the same place that reads differently each time, and so is no circle.
    fn look(&self) -> (&'static str, Value) {
        ("list", json!({ "path": "./".repeat(self.times("list") + 1) }))
    }

    /// The ids of formal questions of a kind, in the order they were asked.
    fn asked(&self, kind: &str) -> Vec<String> {
        let mark = format!("{{\"type\":\"{kind}\",\"request_id\":\"");
        self.heard.split(&mark).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
    }

    fn has_answered(&self, request: &str) -> bool {
        self.has_called("send_message", |input| input["message"]["request_id"] == request)
    }
}

pub(crate) fn launch(name: &str, prompt: &str, mode: &str) -> (&'static str, Value) {
    let input = json!({
        "description": name, "prompt": prompt, "subagent_type": "general", "name": name, "mode": mode,
    });
    ("agent", input)
}

pub(crate) fn mail(to: &str, message: Value) -> (&'static str, Value) {
    ("send_message", json!({ "to": to, "message": message }))
}

fn company(received: &Received, plans: &Gate) -> Reply {
    let talk = Talk::of(received);
    if talk.heard.starts_with("You look things up") {
        researcher(&talk)
    } else if talk.heard.starts_with("You write") {
        writer(&talk)
    } else {
        lead(&talk, plans)
    }
}

/// Rejects the first plan and approves the second, once the gate is open.
fn lead(talk: &Talk, plans: &Gate) -> Reply {
    if talk.times("board_add") == 0 {
        return Reply::calls([("board_add", json!({ "title": "write the report" }))]);
    }
    if talk.times("agent") == 0 {
        return Reply::calls([
            launch("researcher", "You look things up.", "ask"),
            launch("writer", "You write the report, once its plan is approved.", "plan"),
        ]);
    }
    for (nth, request) in talk.asked("plan_approval_request").iter().enumerate() {
        if !talk.has_answered(request) {
            let answer = json!({
                "type": "plan_approval_response", "request_id": request, "approve": nth > 0, "feedback": "shorter, please",
            });
            return Reply::calls([mail("writer", answer)]).gated(plans.clone());
        }
    }
    if talk.heard.contains("facts: three of them") && !talk.has_called("send_message", |input| input["to"] == "*") {
        return Reply::calls([mail("*", json!("the facts are in: use them"))]);
    }
    if talk.heard.contains("report: it is written") {
        for name in ["researcher", "writer"] {
            let ends = |input: &Value| input["to"] == name && input["message"]["type"] == "shutdown_request";
            if !talk.has_called("send_message", ends) {
                return Reply::calls([mail(name, json!({ "type": "shutdown_request", "reason": "all is done" }))]);
            }
        }
    }
    Reply::text("waiting for the others")
}

/// Tells what it found, listens, and ends when it is asked to.
fn researcher(talk: &Talk) -> Reply {
    if !talk.has_called("send_message", |input| input["to"] == "main") {
        return Reply::calls([mail("main", json!("facts: three of them"))]);
    }
    if let Some(request) = talk.asked("shutdown_request").first() {
        if talk.has_answered(request) {
            return Reply::text("good bye");
        }
        let answer = json!({ "type": "shutdown_response", "request_id": request, "approve": true });
        return Reply::calls([mail("main", answer)]);
    }
    if talk.times("list") > LOOKS { Reply::text("nobody came") } else { Reply::calls([talk.look()]) }
}

/// Plans until it may write, writes, and then hears nothing any more.
fn writer(talk: &Talk) -> Reply {
    match talk.times("plan_exit") {
        0 => return Reply::calls([("plan_exit", json!({ "plan": "ten pages" }))]),
        1 => return Reply::calls([("plan_exit", json!({ "plan": "one page" }))]),
        _ => {}
    }
    if !talk.heard.contains("the facts are in") {
        return if talk.times("list") > LOOKS { Reply::text("no facts") } else { Reply::calls([talk.look()]) };
    }
    if talk.times("board_claim") == 0 {
        return Reply::calls([("board_claim", json!({ "number": 1 }))]);
    }
    if talk.times("write") == 0 {
        return Reply::calls([("write", json!({ "filePath": "report.txt", "content": "three facts\n" }))]);
    }
    if talk.times("board_update") == 0 {
        return Reply::calls([("board_update", json!({ "number": 1, "state": "done" }))]);
    }
    if !talk.has_called("send_message", |input| input["to"] == "main") {
        return Reply::calls([mail("main", json!("report: it is written"))]);
    }
    Reply::calls([("bash", json!({ "command": "sleep 600", "timeout": 600_000 }))])
}

fn world(plans: Gate) -> World {
    let model = FakeModel::scripted(move |received| company(received, &plans));
    let home = TempHome::new(&model).config_json(json!({ "limits": { "shutdownSeconds": 2 } }));
    World { model, home, repo: testkit::RepoDir::new() }
}

/// Waits until something is so; what is looked at is what people would look at.
pub(crate) fn until<T>(world: &World, what: &str, look: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "it never came to this: {what}\n{}", story(world));
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// What everybody said and did, for the one who reads that the test failed.
pub(crate) fn story(world: &World) -> String {
    let ps = world.convoke(["ps", "--json"]).code(0).json();
    let mut told = String::new();
    for row in ps["sessions"].as_array().unwrap() {
        let history =
            world.convoke(["history", row["sessionId"].as_str().unwrap(), "--include-tools", "--json"]).code(0).json();
        told.push_str(&format!("--- {} {}\n", row["name"], row["status"]));
        for message in history["messages"].as_array().unwrap() {
            let line = message.to_string();
            if !line.contains("list") {
                told.push_str(&line.chars().take(1000).collect::<String>());
                told.push('\n');
            }
        }
    }
    told
}

pub(crate) fn status(world: &World, name: &str) -> Option<String> {
    let ps = world.convoke(["ps", "--json"]).code(0).json();
    let rows = ps["sessions"].as_array().cloned().unwrap_or_default();
    let row = rows.into_iter().find(|row| row["name"] == name)?;
    row["status"].as_str().map(str::to_owned)
}

/// Who heard what from whom, in order, without the ids that differ from run to run.
pub(crate) fn letters(world: &World) -> BTreeMap<String, Vec<String>> {
    let ps = world.convoke(["ps", "--json"]).code(0).json();
    let mut heard = BTreeMap::new();
    for row in ps["sessions"].as_array().unwrap() {
        let who = row["name"].as_str().unwrap_or("main").to_owned();
        let history = world.convoke(["history", row["sessionId"].as_str().unwrap(), "--json"]).code(0).json();
        for message in history["messages"].as_array().unwrap().iter().filter(|m| m["role"] == "user") {
            let text = message["content"].as_str().unwrap_or_default();
            let Some(from) = text.strip_prefix("<cross-session-message from=\"").and_then(|t| t.split('"').next())
            else {
                continue;
            };
            let kind =
                ["plan_approval_request", "shutdown_request", "shutdown_response"].iter().find(|k| text.contains(*k));
            let line =
                kind.map_or_else(|| text.lines().nth(1).unwrap_or_default().to_owned(), |kind| (*kind).to_owned());
            heard.entry(format!("{from} to {who}")).or_insert_with(Vec::new).push(line);
        }
    }
    heard
}

/// When the gateway is killed.
#[derive(PartialEq)]
enum Killed {
    Never,
    /// A plan waits for its answer, and the model of the lead has the question.
    Asking,
    /// The work is done, and nobody knows yet.
    Late,
}

fn play(killed: &Killed) {
    let plans = Gate::new();
    let world = world(plans.clone());
    // Follows the whole tree, through the death of the gateway too.
    let mut run = world.command(["run", "--json", "make the report"]).stdout(Stdio::null()).spawn().unwrap();
    until(&world, "the writer put its plan to the lead", || status(&world, "writer").filter(|now| now == "asking"));
    if *killed != Killed::Asking {
        plans.open();
    }
    if *killed == Killed::Late {
        until(&world, "the report is there", || world.repo.path().join("report.txt").exists().then_some(()));
    }
    if *killed != Killed::Never {
        kill_process(world.gateway_pid(), Signal::KILL).unwrap();
        plans.open();
    }
    until(&world, "the researcher agreed to end", || status(&world, "researcher").filter(|status| status == "done"));
    until(&world, "the writer was ended", || status(&world, "writer").filter(|status| status == "killed"));
    let expected: BTreeMap<String, Vec<String>> = [
        ("main to researcher", vec!["the facts are in: use them", "shutdown_request"]),
        ("main to writer", vec!["the facts are in: use them"]),
        ("researcher to main", vec!["facts: three of them", "shutdown_response"]),
        ("writer to main", vec!["plan_approval_request", "plan_approval_request", "report: it is written"]),
    ]
    .into_iter()
    .map(|(pair, lines)| (pair.to_owned(), lines.into_iter().map(str::to_owned).collect()))
    .collect();
    assert!(run.wait().unwrap().success());
    let mut heard = letters(&world);
    // Whether the deaf one still read the question before it was ended is a matter of luck.
    if let Some(lines) = heard.get_mut("main to writer") {
        lines.retain(|line| line != "shutdown_request");
    }
    assert_eq!(heard, expected, "{}", story(&world));
    assert_eq!(std::fs::read_to_string(world.repo.path().join("report.txt")).unwrap(), "three facts\n");
    let board = world.convoke(["board", "list", "--json"]).code(0).json();
    assert_eq!(board["tasks"][0]["state"], json!("done"), "{board}\n{}", story(&world));
}

#[test]
fn three_agents_make_a_report() {
    play(&Killed::Never);
}

#[test]
fn three_agents_make_a_report_though_the_gateway_is_killed() {
    play(&Killed::Asking);
}

#[test]
fn three_agents_make_a_report_though_the_gateway_is_killed_late() {
    play(&Killed::Late);
}
