//! `convoke summary`: what a session did, in a few sentences.

use super::block_on;
use crate::failure::Failure;
use crate::home::Home;
use crate::reach::reach;
use crate::terminal;
use proto::methods::{SessionsSummary, SummaryInput};

/// Say in a few sentences what a session did and how it ended
///
/// A model reads the conversation: that of `agent.summary`, else `small_model`, else the session's own.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The session: an id (or its last 4 characters), a key, a name or a label
    #[arg(value_name = "REF")]
    reference: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    let input = SummaryInput { reference: args.reference };
    let said = block_on(async { Ok::<_, Failure>(reach(&home).await?.call::<SessionsSummary>(input).await?) })?;
    if args.json {
        terminal::print_json(&said);
    } else {
        terminal::print(&said.text);
    }
    Ok(0)
}
