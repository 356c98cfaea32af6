//! `convoke why`: what would be decided, by which rule, and where that rule stands.

use super::block_on;
use crate::failure::Failure;
use crate::home::Home;
use crate::local::read;
use crate::{terminal, wiring};
use proto::Action;
use proto::methods::{Handle, ToolsWhy, WhyInput, WhyOutput, WhyPart};
use session::Hub;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::memory::Memory;

/// Say what would be decided about a call, by which rule, and where that rule stands
///
/// A shell line is taken apart, and each part explained. A path that leads outside the project needs leave for that
/// besides (`external_directory`).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The tool, the permission or the group of tools, such as `bash`, `edit` or `group:fs`
    #[arg(value_name = "TOOL")]
    tool: String,
    /// What it is wanted for: a command, a path, a name
    #[arg(value_name = "PATTERN")]
    pattern: String,
    /// The agent that would do it; the default one without it
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Explain it for this session, with its own rules and those of its parents
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["agent", "directory"])]
    session: Option<String>,
    /// What holds in this directory
    #[arg(short = 'C', long = "dir", value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let directory = super::run::directory(args.directory)?;
    let home = Home::open_at(Path::new(&directory))?;
    if !args.json {
        home.warn();
    }
    let (tool, pattern, agent, session) = (args.tool, args.pattern, args.agent, args.session);
    let cwd = session.is_none().then_some(directory);
    let input = WhyInput { tool, pattern, agent, session, cwd };
    let answer = if input.session.is_some() {
        block_on(read::<ToolsWhy>(&home, input))?
    } else {
        // Of these settings and no session: nothing that is stored is looked at.
        let nothing = Arc::new(Memory::new(Arc::new(|_| {})));
        let gateway = wiring::gateway(&home, nothing, Hub::default(), true, None)?;
        block_on(async { Ok(Handle::<ToolsWhy>::handle(&gateway, input).await?) })?
    };
    if args.json {
        terminal::print_json(&answer);
    } else {
        terminal::print(&words(&answer));
    }
    Ok(0)
}

fn words(answer: &WhyOutput) -> String {
    let mut lines = vec![line(&answer.whole), format!("       {}", because(&answer.whole))];
    if answer.parts.len() > 1 {
        for part in &answer.parts {
            lines.push(format!("  {}", line(part)));
            lines.push(format!("         {}", because(part)));
        }
    }
    if !answer.environment.is_empty() {
        lines.push(format!("       the command gets: {}", answer.environment.join(", ")));
    }
    lines.join("\n")
}

fn line(part: &WhyPart) -> String {
    format!("{:<5}  {} {}", word(part.action), part.permission, terminal::one_line(&part.pattern, 100))
}

/// The rule and its place on a line, as far as there is one.
fn because(part: &WhyPart) -> String {
    let Some(rule) = &part.rule else { return part.reason.clone() };
    let at = match part.origin.as_ref().map(|origin| (&origin.file, origin.line, origin.layer.as_str())) {
        Some((Some(file), Some(line), _)) => format!("{file}:{line}"),
        Some((Some(file), None, _)) => file.clone(),
        Some((None, _, "session")) => "a rule of the session".into(),
        Some((None, _, "parent")) => "a rule of a session above".into(),
        _ => "built in".into(),
    };
    let (said, permission, pattern) = (word(rule.action), &rule.permission, terminal::flat(&rule.pattern));
    format!("{said} `{permission}` `{pattern}`  {at}: {}", part.reason)
}

fn word(action: Action) -> &'static str {
    match action {
        Action::Allow => "allow",
        Action::Ask => "ask",
        Action::Deny => "deny",
    }
}
