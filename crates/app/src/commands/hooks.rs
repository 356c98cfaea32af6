//! `convoke hooks`: the commands that run when something happens.

use super::block_on;
use crate::failure::Failure;
use crate::home::Home;
use crate::local::read;
use crate::terminal;
use proto::methods::{HookRow, HooksList, Nothing};

/// List the hooks that are set, and how they have fared since the gateway started
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    let list = block_on(read::<HooksList>(&home, Nothing {}))?;
    if args.json {
        terminal::print_json(&list);
        return Ok(0);
    }
    if list.hooks.is_empty() {
        terminal::say("no hooks are set: `hooks` in the settings file holds them");
        return Ok(0);
    }
    let rows: Vec<Vec<String>> = list.hooks.iter().map(row).collect();
    terminal::print(&terminal::table(
        &["EVENT", "MATCH", "RUNS", "FAILED", "COMMAND", "LAST ERROR"],
        &rows,
        &["MATCH", "COMMAND", "LAST ERROR"],
    ));
    Ok(0)
}

fn row(hook: &HookRow) -> Vec<String> {
    vec![
        hook.event.clone(),
        hook.only.clone(),
        hook.runs.to_string(),
        hook.failures.to_string(),
        terminal::one_line(&hook.command, 60),
        terminal::one_line(hook.last_error.as_deref().unwrap_or_default(), 80),
    ]
}
