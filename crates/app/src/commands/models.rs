//! `convoke models`: which models can be named.

use crate::failure::Failure;
use crate::home::Home;
use crate::{terminal, wiring};
use serde_json::json;

/// List the models that can be named, and which one is used when nobody names one
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::here()?;
    home.warn();
    let default = wiring::default_model(&home.env, &home.loaded);
    let mut names = wiring::models(&home.paths, &home.env, &home.loaded).names();
    if !names.contains(&default) {
        names.insert(0, default.clone());
    }
    if args.json {
        terminal::print_json(&json!({ "default": default, "models": names }));
        return Ok(0);
    }
    for name in names {
        let mark = if name == default { "  (default)" } else { "" };
        terminal::print(&format!("{name}{mark}"));
    }
    Ok(0)
}
