//! `convoke permissions`: what was allowed for good.

use crate::duration;
use crate::failure::Failure;
use crate::terminal;
use config::{Always, Environment, Paths};
use proto::Error;
use serde_json::json;

/// List what was answered with "always", or take such an answer back
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List what is allowed for good, and in which project
    List(List),
    /// Take an answer back: from now on it is asked again
    Revoke(Revoke),
}

#[derive(clap::Args)]
struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Revoke {
    /// Which, as `convoke permissions list` shows it
    #[arg(value_name = "ID")]
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    // Neither settings nor a gateway: nothing must keep anybody from taking an answer back.
    let paths = Paths::resolve(&Environment::capture())?;
    match args.command {
        Command::List(args) => list(&config::always(&paths), args.json),
        Command::Revoke(args) => revoke(&paths, &args.id, args.json)?,
    }
    Ok(0)
}

fn list(kept: &[Always], json: bool) {
    if json {
        let row = |one: &Always| {
            json!({
                "id": one.id,
                "project": one.project,
                "permission": one.permission,
                "pattern": one.pattern,
                "createdAt": one.at,
            })
        };
        terminal::print_json(&json!({ "saved": kept.iter().map(row).collect::<Vec<_>>() }));
        return;
    }
    if kept.is_empty() {
        terminal::say("nothing was answered with `always`");
        return;
    }
    let ago = |at: u64| duration::rough(duration::now() - i64::try_from(at).unwrap_or(i64::MAX));
    let row = |one: &Always| {
        let pattern = terminal::one_line(&one.pattern, 60);
        vec![
            one.id.clone(),
            one.permission.clone(),
            pattern,
            format!("{} ago", ago(one.at)),
            one.project.display().to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = kept.iter().map(row).collect();
    terminal::print(&terminal::table(
        &["ID", "PERMISSION", "PATTERN", "SINCE", "PROJECT"],
        &rows,
        &["PATTERN", "PROJECT"],
    ));
}

fn revoke(paths: &Paths, id: &str, json: bool) -> Result<(), Failure> {
    if !config::revoke_always(paths, id)? {
        let what = format!("nothing was allowed for good as `{id}`");
        return Err(Error::not_found(what).hint("`convoke permissions list` shows what was").into());
    }
    if json {
        terminal::print_json(&json!({ "id": id, "revoked": true }));
    }
    Ok(())
}
