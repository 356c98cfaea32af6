//! `convoke db`: the database itself.

use super::block_on;
use crate::failure::{FAILED, Failure};
use crate::home::Home;
use crate::terminal;
use serde_json::json;
use std::sync::Arc;
use store::Store;
use store::sqlite::Sqlite;

/// Look after the database
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(Check),
}

/// Look for damage: exit code 1 when there is some, 2 when the database cannot be opened
#[derive(clap::Args)]
struct Check {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let Command::Check(args) = args.command;
    let home = Home::open()?;
    let findings = if home.paths.database().exists() { findings(&home.paths)? } else { Vec::new() };
    if args.json {
        terminal::print_json(&json!({ "ok": findings.is_empty(), "findings": findings }));
    } else if findings.is_empty() {
        terminal::print("no damage found");
    } else {
        findings.iter().for_each(terminal::print);
        terminal::say("hint: nothing was changed; copy the database away before you go on with it");
    }
    Ok(if findings.is_empty() { 0 } else { FAILED })
}

/// What is damaged.
pub(super) fn findings(paths: &config::Paths) -> Result<Vec<String>, Failure> {
    let database = paths.database();
    if std::fs::metadata(&database).is_ok_and(|meta| meta.len() == 0) {
        return Ok(vec![format!("`{}` is empty", database.display())]);
    }
    let opened = match Sqlite::open(&paths.state, Arc::new(|_| {})) {
        // A gateway is at work: looking needs no lock.
        Err(store::Error::Locked { .. }) => Sqlite::open_read(&paths.state),
        other => other,
    };
    let store = match opened {
        Ok(store) => store,
        Err(error @ (store::Error::Damaged { .. } | store::Error::Internal(_))) => return Ok(vec![error.to_string()]),
        Err(error) => return Err(error.into()),
    };
    block_on(async {
        let found = store.check().await;
        store.close().await;
        match found {
            // Too damaged to be looked through, or tables are missing: that is what was found.
            Err(error @ (store::Error::Damaged { .. } | store::Error::Internal(_))) => Ok(vec![error.to_string()]),
            found => Ok(found?),
        }
    })
}
