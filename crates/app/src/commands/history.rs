//! `convoke history`: what was said in a session (S5).

use super::block_on;
use crate::failure::Failure;
use crate::home::Home;
use crate::local::read;
use crate::terminal::{self, Paint};
use proto::message::{Message, Part, Role};
use proto::methods::{ChatHistory, HistoryInput};

/// Show a session's messages, the newest page first to be shown
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The session: an id (or its last 4 characters), a key, a name or a label
    #[arg(value_name = "REF")]
    reference: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Show tool calls and their results as well
    #[arg(long)]
    include_tools: bool,
    /// How many messages, at most 1000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Only what came before this entry
    #[arg(long, value_name = "SEQ")]
    before: Option<u64>,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    let input = HistoryInput {
        session_key: args.reference.clone(),
        limit: args.limit,
        include_tools: args.include_tools,
        before: args.before,
        after: None,
    };
    let page = block_on(read::<ChatHistory>(&home, input))?;
    if args.json {
        terminal::print_json(&page);
        return Ok(0);
    }
    let paint = Paint::stdout(home.plain());
    for message in &page.messages {
        show(message, paint);
    }
    if let Some(before) = page.next_before {
        terminal::say(&format!("older: convoke history {} --before {before}", args.reference));
    }
    Ok(0)
}

pub(super) fn show(message: &Message, paint: Paint) {
    let who = match (message.role, message.sender.as_str()) {
        (Role::User, "") => "you".into(),
        (Role::Assistant, "") => terminal::flat(&message.agent),
        (_, sender) => speaker(sender),
    };
    terminal::print(&paint.bold(&format!("{who} ({})", message.seq)));
    if message.parts.is_empty() {
        show_content(&message.content, paint);
    }
    for part in &message.parts {
        show_part(part, paint);
    }
    terminal::print("");
}

/// Who spoke, as the reader of a terminal is told.
pub(super) fn speaker(sender: &str) -> String {
    if sender == "person" { "you".into() } else { terminal::one_line(sender, 60) }
}

/// Words, or blocks where there is something to look at as well.
fn show_content(content: &serde_json::Value, paint: Paint) {
    let Some(blocks) = content.as_array() else {
        return terminal::print(content.as_str().unwrap_or_default());
    };
    for block in blocks {
        let field = |name: &str| block[name].as_str().unwrap_or_default();
        match field("type") {
            "text" => terminal::print(field("text")),
            _ => show_file(field("filename"), field("mime"), paint),
        }
    }
}

fn show_file(name: &str, mime: &str, paint: Paint) {
    terminal::print(&paint.dim(&terminal::flat(&format!("[{name}, {mime}]"))));
}

fn show_part(part: &Part, paint: Paint) {
    match part {
        Part::Text { text } => terminal::print(text),
        Part::Reasoning { text } => terminal::print(&paint.dim(text)),
        Part::Tool { tool, input, output, .. } => {
            terminal::print(&paint.dim(&format!(
                "• {} {}",
                terminal::one_line(tool, 60),
                terminal::one_line(&input.to_string(), 100)
            )));
            for line in output.iter().flat_map(|output| output.lines()) {
                terminal::print(&paint.dim(&format!("  {}", terminal::one_line(line, 120))));
            }
        }
        Part::Subtask { agent, prompt, .. } => terminal::print(&format!("@{} {prompt}", terminal::flat(agent))),
        Part::File(file) => show_file(&file.filename, &file.mime, paint),
        Part::Compaction { .. } => terminal::print(&paint.dim("(older messages were summarised)")),
        Part::Agent { .. } | Part::Step { .. } => {}
    }
}
