//! `convoke wait`: a run's end.

use super::block_on;
use crate::failure::Failure;
use crate::home::Home;
use crate::{duration, terminal, waiting};
use proto::{Error, RunId};
use std::time::Duration;

/// Wait for a run to end, and print its answer
///
/// The exit code is 0 when the run ended well, and 1 when it failed, was cancelled, or is not over in time.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's id
    #[arg(value_name = "RUN")]
    run: String,
    /// How long to wait; without it, until the end
    #[arg(long, value_name = "SECS", value_parser = duration::seconds)]
    timeout: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    let run = RunId::parse(&args.run).map_err(|error| {
        Error::invalid(format!("that is no run: {error}")).hint("use the `runId` that `send` or `run --json` printed")
    })?;
    let waited = block_on(waiting::until_over(&home, &run, args.timeout))?;
    if args.json {
        terminal::print_json(&waited);
    } else {
        waiting::show(&waited);
    }
    Ok(waiting::exit_code(waited.status))
}
