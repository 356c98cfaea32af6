//! `convoke ps`: the sessions there are (S4).

use super::block_on;
use crate::failure::Failure;
use crate::home::Home;
use crate::local::read;
use crate::terminal;
use proto::methods::{ListInput, SessionInfo, SessionsList};

/// List sessions, newest activity first
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// How many to show, at most 200
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Go on where the page before ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    let input = ListInput { limit: args.limit, cursor: args.cursor, ..ListInput::default() };
    let list = block_on(read::<SessionsList>(&home, input))?;
    if args.json {
        terminal::print_json(&list);
        return Ok(0);
    }
    let rows: Vec<Vec<String>> = list.sessions.iter().map(row).collect();
    terminal::print(&terminal::table(&["STATUS", "AGENT", "TOKENS", "SESSION", "TITLE"], &rows));
    if let Some(cursor) = list.next_cursor {
        terminal::say(&format!("more: convoke ps --cursor {cursor}"));
    }
    Ok(0)
}

fn row(session: &SessionInfo) -> Vec<String> {
    let name = session.label.as_ref().or(session.title.as_ref());
    vec![
        session.status.as_str().into(),
        session.agent.clone(),
        session.total_tokens.to_string(),
        session.session_id.to_string(),
        terminal::one_line(name.map_or("", String::as_str), 60),
    ]
}
