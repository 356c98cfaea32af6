//! `offline/plain`: from a prompt and what was done for it so far to the next call, or to the answer.
//!
//! It remembers nothing: each time it reads the prompt again, walks through the calls already made, and goes on where
//! they end. The same prompt and results therefore always lead to the same next step.

use super::Play;
use super::answer;
use super::instruction::{self, Instruction, Plan, Search};
use super::tail::{FORGOTTEN, Made, Turn, conversation, is_aside, overview};
use super::words;
use crate::{Request, ToolSpec};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A tool as this wire names it: enough to know that it is there, and whom `task` reaches.
#[derive(Debug, Serialize, Deserialize)]
struct Offered {
    name: String,
    description: String,
}

pub(super) fn encode_tools(tools: &[ToolSpec]) -> Bytes {
    if tools.is_empty() {
        return Bytes::new();
    }
    let offered = |tool: &ToolSpec| Offered { name: tool.name.clone(), description: tool.description.clone() };
    let offered: Vec<Offered> = tools.iter().map(offered).collect();
    Bytes::from(serde_json::to_vec(&offered).expect("strings always serialise"))
}

/// What an instruction came to.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) instruction: Instruction,
    pub(super) ended: End,
}

#[derive(Debug)]
pub(super) enum End {
    Made(Made),
    /// No tool for it was offered.
    NotOffered(String),
    UnknownAgent(String),
}

pub(super) fn next(turn: &Turn, request: &Request) -> Play {
    let tools = Tools::read(&request.tools);
    if let Some(relayed) = answer::relay_mentions(turn) {
        return Play::say(relayed);
    }
    if tools.0.is_empty()
        && turn.calls.is_empty()
        && let Some(text) = house_work(turn, request)
    {
        return Play::say(text);
    }
    if is_aside(&turn.prompt) {
        return Play::say(answer::pass_on(&turn.prompt));
    }
    let plan = instruction::parse(&turn.prompt);
    match follow(plan, turn, &tools) {
        Step::Call(attempt) => Play::call(&attempt.tool, &attempt.input),
        Step::Answer(text) => Play::say(text),
    }
}

enum Step {
    Call(Attempt),
    Answer(String),
}

/// One way to follow an instruction.
#[derive(Debug, PartialEq)]
struct Attempt {
    tool: String,
    input: Value,
}

fn follow(plan: Plan, turn: &Turn, tools: &Tools) -> Step {
    let mut made = turn.calls.as_slice();
    let mut outcomes = Vec::new();
    for instruction in plan.instructions {
        match pursue(&instruction, &mut made, tools) {
            Err(attempt) => return Step::Call(attempt),
            Ok(ended) => outcomes.push(Outcome { instruction, ended }),
        }
    }
    Step::Answer(answer::write(&outcomes, &plan.unclear, &tools.names()))
}

/// How the instruction ended, or the call it needs next.
fn pursue(instruction: &Instruction, made: &mut &[Made], tools: &Tools) -> Result<End, Attempt> {
    if let Instruction::Task { agent, .. } = instruction
        && tools.has("task")
        && !tools.knows_agent(agent)
    {
        return Ok(End::UnknownAgent(agent.clone()));
    }
    let mut ended = None;
    // A tool that is named need not be described: it may be one that is loaded when it is called.
    let by_name = matches!(
        instruction,
        Instruction::Call { .. }
            | Instruction::Spawn { .. }
            | Instruction::Send { .. }
            | Instruction::EnterWorktree { .. }
            | Instruction::ExitWorktree { .. }
    );
    for attempt in attempts(instruction, tools) {
        let place = made.iter().position(|call| attempt.is(call, by_name));
        if place.is_none() && !(tools.has(&attempt.tool) || by_name && !tools.0.is_empty()) {
            ended.get_or_insert(End::NotOffered(attempt.tool));
            continue;
        }
        let Some(at) = place else { return Err(attempt) };
        let call = made[at].clone();
        *made = &made[at + 1..];
        let enough = is_enough(instruction, &call);
        ended = Some(End::Made(call));
        if enough {
            break;
        }
    }
    Ok(ended.expect("every instruction has an attempt"))
}

/// Whether the instruction has been followed as well as it can be, and later attempts are not needed.
fn is_enough(instruction: &Instruction, call: &Made) -> bool {
    match instruction {
        Instruction::Search(_) => !answer::found_nothing(call),
        // A file that exists is looked at before it is replaced; tools insist on that.
        Instruction::Write { .. } => call.tool == "write" && !(call.failed && call.output.contains("read it")),
        _ => true,
    }
}

impl Attempt {
    fn new(tool: &str, input: Value) -> Self {
        Self { tool: tool.to_owned(), input }
    }

    /// Whether this is the call that was made. One that goes by another name is told by its input.
    fn is(&self, call: &Made, by_name: bool) -> bool {
        call.tool == FORGOTTEN || (call.tool == self.tool || by_name) && call.input == self.input
    }
}

/// The calls that follow it, in order, until one is enough.
fn attempts(instruction: &Instruction, tools: &Tools) -> Vec<Attempt> {
    let one = |tool: &str, input: Value| vec![Attempt::new(tool, input)];
    match instruction {
        Instruction::Read { path } => one("read", json!({ "filePath": path })),
        Instruction::List { path: Some(path) } => one("list", json!({ "path": path })),
        Instruction::List { path: None } => one("list", json!({})),
        Instruction::Glob { pattern } => one("glob", json!({ "pattern": pattern })),
        Instruction::Search(search) => searches(search),
        Instruction::Run { command } => one("bash", json!({ "command": command, "description": "as the prompt says" })),
        Instruction::Write { path, text } => {
            let write = || Attempt::new("write", json!({ "filePath": path, "content": text }));
            match tools.has("read") {
                true => vec![write(), Attempt::new("read", json!({ "filePath": path, "limit": 1 })), write()],
                false => vec![write()],
            }
        }
        Instruction::Edit { path, old, new } => {
            one("edit", json!({ "filePath": path, "oldString": old, "newString": new }))
        }
        Instruction::Fetch { url } => one("webfetch", json!({ "url": url })),
        Instruction::Task { agent, prompt } => {
            let title = prompt.split_whitespace().take(6).collect::<Vec<_>>().join(" ");
            one("task", json!({ "description": title, "prompt": prompt, "subagent_type": agent }))
        }
        Instruction::Spawn { agent, label, task } => {
            let mut input = json!({ "task": task });
            for (field, value) in [("agentId", agent), ("label", label)] {
                if let Some(value) = value {
                    input[field] = json!(value);
                }
            }
            one("sessions_spawn", input)
        }
        Instruction::Send { to, text } => one("send_message", json!({ "to": to, "message": text })),
        Instruction::EnterWorktree { name: Some(name) } => one("enter_worktree", json!({ "name": name })),
        Instruction::EnterWorktree { name: None } => one("enter_worktree", json!({})),
        Instruction::ExitWorktree { remove } => {
            one("exit_worktree", json!({ "action": if *remove { "remove" } else { "keep" } }))
        }
        Instruction::Call { tool, input } => one(tool, input.clone()),
    }
}

fn searches(search: &Search) -> Vec<Attempt> {
    let mut patterns = Vec::new();
    if let Some(literal) = &search.literal {
        patterns.push(words::escape(literal.trim_end_matches("()")));
        patterns.push(format!("(?i){}", words::escape(literal.trim_end_matches("()"))));
    }
    let ranked = words::by_weight(&search.words);
    let stems: Vec<String> = ranked.iter().map(|word| words::escape(&words::stem(word))).collect();
    match stems.as_slice() {
        [] => {}
        [one] => patterns.extend([format!("(?i){}", words::escape(&ranked[0])), format!("(?i){one}")]),
        [first, second, ..] => patterns.extend([
            format!("(?i){first}.*{second}|{second}.*{first}"),
            format!("(?i){first}"),
            format!("(?i){}", stems.join("|")),
        ]),
    }
    patterns.dedup();
    let mut attempts: Vec<Attempt> =
        patterns.into_iter().map(|pattern| Attempt::new("grep", grep_input(&pattern, search))).collect();
    let name = search.literal.clone().or_else(|| ranked.first().map(|word| words::stem(word)));
    if let Some(name) = name.filter(|name| !name.contains(['/', ' ', '*', '['])) {
        attempts.push(Attempt::new("glob", json!({ "pattern": format!("**/*{name}*") })));
    }
    attempts
}

fn grep_input(pattern: &str, search: &Search) -> Value {
    let mut input = json!({ "pattern": pattern });
    for (field, value) in [("path", &search.path), ("include", &search.include)] {
        if let Some(value) = value {
            input[field] = json!(value);
        }
    }
    input
}

/// What the program itself asks of a model that has no tools: a title, a summary.
fn house_work(turn: &Turn, request: &Request) -> Option<String> {
    let system = request.system.to_lowercase();
    if system.contains("title") {
        let first = turn.prompt.split_whitespace().take(7).collect::<Vec<_>>().join(" ");
        return Some(first.chars().take(60).collect());
    }
    let sums_up = ["summar", "sum up", "compact", "what a session did"].iter().any(|words| system.contains(words));
    if let Some(said) = conversation(&turn.prompt).filter(|_| sums_up) {
        return Some(sections(&said));
    }
    sums_up.then(|| {
        let lines = overview(&request.messages);
        let lines = lines.iter().map(|line| format!("- {}", answer::short(line)));
        format!("What was said so far, in the opening words of each message:\n{}", lines.collect::<Vec<_>>().join("\n"))
    })
}

/// A conversation in the opening words of its pieces, the newest of them, under the headings that are asked for.
fn sections(said: &[(&str, &str)]) -> String {
    let goal = said.iter().find(|(who, _)| *who == "user").map_or("none", |(_, words)| words);
    let newest = &said[said.len().saturating_sub(30)..];
    let lines: Vec<String> = newest.iter().map(|(who, words)| format!("- {who}: {}", answer::short(words))).collect();
    let none = ["Decided", "Facts", "Under way", "Open"].map(|heading| format!("## {heading}\nnone"));
    let [decided, facts, under_way, open] = none;
    let (goal, done) = (format!("## Goal\n{}", answer::short(goal)), format!("## Done\n{}", lines.join("\n")));
    [goal, decided, done, facts, under_way, open].join("\n\n")
}

struct Tools(Vec<Offered>);

impl Tools {
    fn read(encoded: &[u8]) -> Self {
        Self(serde_json::from_slice(encoded).unwrap_or_default())
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|tool| tool.name == name)
    }

    fn names(&self) -> Vec<&str> {
        self.0.iter().map(|tool| tool.name.as_str()).collect()
    }

    /// As the description of `task` lists them; when it lists none, the tool itself will say.
    fn knows_agent(&self, agent: &str) -> bool {
        let task = self.0.iter().find(|tool| tool.name == "task");
        let lines = task.map_or("", |tool| tool.description.as_str()).lines();
        let mut listed = lines.filter_map(|line| line.strip_prefix("- ")?.split_once(':')).peekable();
        listed.peek().is_none() || listed.any(|(name, _)| name == agent)
    }
}
