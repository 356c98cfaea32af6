//! Words for what was found and done, and for what was not understood.

use super::instruction::Instruction;
use super::plain::{End, Outcome};
use super::tail::{Made, Turn};

/// Lines shown of a search or a list.
const LINES: usize = 10;

/// Lines shown of a file or a command.
const LONG_LINES: usize = 20;

/// Characters shown of one line.
const LINE_LENGTH: usize = 200;

/// What each instruction needs and how it is written, for whoever has to be told.
const FORMS: &[(&str, &str)] = &[
    ("read", "read FILE"),
    ("list", "list [DIR]"),
    ("grep", "find WORDS [in DIR]"),
    ("glob", "glob PATTERN"),
    ("bash", "run `COMMAND`"),
    ("write", "write FILE: TEXT"),
    ("edit", "edit FILE replace A with B"),
    ("webfetch", "fetch URL"),
    ("task", "ask AGENT to ..."),
    // What these call is loaded when it is called: it is known by what is shown with it.
    ("agent", "spawn AGENT [named NAME] to ..."),
    ("send_message", "send NAME: TEXT"),
    ("tool_search", "enter a worktree [named NAME]"),
];

pub(super) fn write(outcomes: &[Outcome], unclear: &[String], tools: &[&str]) -> String {
    if outcomes.is_empty() {
        return introduction(tools);
    }
    let mut paragraphs: Vec<String> = outcomes.iter().map(tell).collect();
    if !unclear.is_empty() {
        let pieces: Vec<String> = unclear.iter().take(3).map(|piece| format!("`{}`", short(piece.trim()))).collect();
        paragraphs.push(format!("As the offline model I could not follow {}.", pieces.join(", ")));
    }
    paragraphs.join("\n\n")
}

/// The runtime dispatched mentions of the prompt before this model was asked: their answers are passed on.
pub(super) fn relay_mentions(turn: &Turn) -> Option<String> {
    let agent = |made: &Made| made.input["subagent_type"].as_str().unwrap_or_default().to_owned();
    let mentioned = |made: &Made| made.tool == "task" && turn.prompt.contains(&format!("@{}", agent(made)));
    if turn.calls.is_empty() || !turn.calls.iter().all(mentioned) {
        return None;
    }
    let answers = turn.calls.iter().map(|made| relay(&agent(made), made));
    Some(answers.collect::<Vec<_>>().join("\n\n"))
}

/// What the runtime told while nothing was under way: a child's end, mostly. It is passed on and never followed.
pub(super) fn pass_on(notice: &str) -> String {
    let told = notice.split_once(']').map_or(notice, |(_, told)| told).trim();
    let (first, result) = told.split_once("<agent-result>").unwrap_or((told, ""));
    let first = first.trim().lines().next().unwrap_or_default();
    let first = first.split_once(". ").map_or(first, |(sentence, _)| sentence).trim_end_matches(['.', ':']);
    match result.trim().trim_end_matches("</agent-result>").trim() {
        "" => format!("Noted: {}.", short(first)),
        result => format!("{}:\n{}", short(first), excerpt(result, LONG_LINES)),
    }
}

/// A search that came back empty-handed, in whatever words.
pub(super) fn found_nothing(made: &Made) -> bool {
    if !matches!(made.tool.as_str(), "grep" | "glob") {
        return false;
    }
    let first = made.output.trim().lines().next().unwrap_or_default().to_lowercase();
    let negative = ["no ", "nothing", "0 ", "found 0", "found no"].iter().any(|word| first.starts_with(word));
    made.failed || first.is_empty() || negative
}

/// One line, cut where it gets too long to read.
pub(super) fn short(line: &str) -> String {
    match line.char_indices().nth(LINE_LENGTH) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

fn tell(outcome: &Outcome) -> String {
    let made = match &outcome.ended {
        End::Made(made) => made,
        End::NotOffered(tool) => {
            return format!("I was not offered the tool `{tool}`, so I could not {}.", deed(outcome));
        }
        End::UnknownAgent(agent) => return format!("There is no agent `{agent}` here that I may ask."),
    };
    if made.failed {
        return format!("I could not {}: {}", deed(outcome), excerpt(&made.output, LINES));
    }
    match &outcome.instruction {
        Instruction::Read { path } => format!("`{path}` reads:\n{}", excerpt(&made.output, LONG_LINES)),
        Instruction::List { path } => {
            let place = path.as_deref().map_or("here".to_owned(), |path| format!("in `{path}`"));
            format!("This is {place}:\n{}", excerpt(&made.output, LONG_LINES))
        }
        Instruction::Glob { .. } | Instruction::Search(_) => found(outcome, made),
        Instruction::Run { command } => format!("`{command}` gave:\n{}", excerpt(&made.output, LONG_LINES)),
        Instruction::Write { path, .. } => format!("Wrote `{path}`. {}", excerpt(&made.output, 3)),
        Instruction::Edit { path, .. } => format!("Changed `{path}`. {}", excerpt(&made.output, LONG_LINES)),
        Instruction::Fetch { url } => format!("{url} says:\n{}", excerpt(&made.output, LONG_LINES)),
        Instruction::Task { agent, .. } => relay(agent, made),
        Instruction::Spawn { agent, label, .. } => {
            let who = label.as_ref().or(agent.as_ref()).map_or("a session".to_owned(), |who| format!("`{who}`"));
            format!("Started {who}. Its answer comes as a message.")
        }
        Instruction::Send { to, .. } => {
            let state = field(made, |output| output["receipts"][0]["state"].as_str());
            format!("Sent to `{to}`: {}.", state.unwrap_or_else(|| excerpt(&made.output, 1)))
        }
        Instruction::EnterWorktree { .. } => {
            let path = field(made, |output| output["worktreePath"].as_str());
            format!("In the worktree now: {}", path.unwrap_or_else(|| excerpt(&made.output, LINES)))
        }
        Instruction::ExitWorktree { .. } => {
            let told = field(made, |output| output["message"].as_str());
            told.unwrap_or_else(|| excerpt(&made.output, LINES))
        }
        Instruction::Call { tool, .. } => format!("`{tool}` returned:\n{}", excerpt(&made.output, LONG_LINES)),
    }
}

/// A field of a result that is JSON.
fn field(made: &Made, of: impl for<'v> Fn(&'v serde_json::Value) -> Option<&'v str>) -> Option<String> {
    let output: serde_json::Value = serde_json::from_str(&made.output).ok()?;
    of(&output).map(str::to_owned)
}

fn found(outcome: &Outcome, made: &Made) -> String {
    if found_nothing(made) {
        return format!("I found nothing when I tried to {}.", deed(outcome));
    }
    let pattern = made.input["pattern"].as_str().unwrap_or_default().trim_start_matches("(?i)");
    let kind = if made.tool == "glob" { "Files that match" } else { "Lines that match" };
    format!("{kind} `{pattern}`:\n{}", excerpt(&made.output, LINES))
}

/// The child's own words, without the line about its session that is meant for models.
fn relay(agent: &str, made: &Made) -> String {
    let said = made.output.trim_end();
    let said = said.rsplit_once("\n\nsession_id:").map_or(said, |(said, _)| said);
    if made.failed { format!("{agent} did not finish: {said}") } else { format!("{agent} answers:\n{said}") }
}

fn deed(outcome: &Outcome) -> String {
    match &outcome.instruction {
        Instruction::Read { path } => format!("read `{path}`"),
        Instruction::List { path } => format!("list `{}`", path.as_deref().unwrap_or(".")),
        Instruction::Glob { pattern } => format!("look for `{pattern}`"),
        Instruction::Search(search) => {
            format!("search for `{}`", search.literal.clone().unwrap_or_else(|| search.words.join(" ")))
        }
        Instruction::Run { command } => format!("run `{command}`"),
        Instruction::Write { path, .. } => format!("write `{path}`"),
        Instruction::Edit { path, .. } => format!("edit `{path}`"),
        Instruction::Fetch { url } => format!("fetch {url}"),
        Instruction::Task { agent, .. } => format!("ask `{agent}`"),
        Instruction::Spawn { agent, .. } => format!("start `{}`", agent.as_deref().unwrap_or("a session")),
        Instruction::Send { to, .. } => format!("write to `{to}`"),
        Instruction::EnterWorktree { .. } => "enter a worktree".to_owned(),
        Instruction::ExitWorktree { .. } => "leave the worktree".to_owned(),
        Instruction::Call { tool, .. } => format!("call `{tool}`"),
    }
}

fn excerpt(output: &str, most: usize) -> String {
    let lines: Vec<&str> = output.trim_end().lines().filter(|line| !line.trim().is_empty()).collect();
    let mut shown: Vec<String> = lines.iter().take(most).map(|line| short(line)).collect();
    if lines.len() > most {
        shown.push(format!("… and {} more lines", lines.len() - most));
    }
    if shown.is_empty() { "(no output)".to_owned() } else { shown.join("\n") }
}

fn introduction(tools: &[&str]) -> String {
    let forms: Vec<&str> = FORMS.iter().filter(|(tool, _)| tools.contains(tool)).map(|(_, form)| *form).collect();
    let can = match (forms.is_empty(), tools.is_empty()) {
        (false, _) => format!(
            "I follow instructions of this kind, on lines of their own or joined by `then`:\n- {}\n- call TOOL {{\"json\": \"input\"}}",
            forms.join("\n- ")
        ),
        (true, false) => "I follow `call TOOL {\"json\": \"input\"}` for the tools I am offered.".to_owned(),
        (true, true) => "I follow plain instructions by calling tools, but here I am offered none.".to_owned(),
    };
    format!(
        "I am the offline model: built in, without a network, and without understanding beyond a few forms. {can}\n\n\
         For a model that thinks, add a `provider` (`wire`, `base_url`, `api_key`) to the config and set `model` to \
         `provider/model`."
    )
}
