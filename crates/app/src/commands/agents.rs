//! `convoke agents`: who can be asked.

use super::block_on;
use crate::failure::Failure;
use crate::home::{self, Home};
use crate::local::read;
use crate::terminal;
use proto::methods::{AgentsList, InDirectory};

/// List the agents that can be used here
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::here()?;
    home.warn();
    let here = InDirectory { cwd: Some(home::current()?.display().to_string()) };
    let list = block_on(read::<AgentsList>(&home, here))?;
    if args.json {
        terminal::print_json(&list);
        return Ok(0);
    }
    let shown = list.agents.iter().filter(|agent| !agent.hidden);
    let rows: Vec<Vec<String>> = shown
        .map(|agent| vec![agent.name.clone(), agent.mode.clone(), terminal::one_line(&agent.description, 90)])
        .collect();
    terminal::print(&terminal::table(&["AGENT", "MODE", "FOR"], &rows, &["FOR"]));
    Ok(0)
}
