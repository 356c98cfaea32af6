//! `convoke stop`: ends the gateway of this home.

use super::block_on;
use crate::failure::Failure;
use crate::terminal;
use client::Client;
use config::Paths;
use proto::methods::{GatewayStop, StopInput};
use serde_json::json;

/// End the gateway of this home, if one runs
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also when sessions are busy: they go on when the next gateway starts
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    // Not the settings: broken ones must not keep anybody from stopping.
    let socket = Paths::from_env()?.socket();
    let stopped = block_on(async {
        let Ok(client) = Client::connect(&socket).await else { return Ok(false) };
        Ok(client.call::<GatewayStop>(StopInput { force: args.force }).await.map(|done| done.ok)?)
    })?;
    if args.json {
        terminal::print_json(&json!({ "stopped": stopped }));
    } else if !stopped {
        terminal::say("no gateway runs in this home");
    }
    Ok(0)
}
