//! `convoke token`: who may come in over TCP.

use crate::failure::Failure;
use crate::{duration, terminal};
use config::Paths;
use gateway::tokens::{self, Info};
use proto::methods::Scope;
use serde_json::json;
use std::time::Duration;

/// Make, list and revoke the tokens that open this home's gateway over TCP
///
/// A token is shown once, when it is made; only its hash is kept. A gateway that runs notices every change at once.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Make a token and print it, this once
    Add(Add),
    /// List the tokens there are
    List(List),
    /// End a token, with every connection it has opened
    Revoke(Revoke),
}

#[derive(clap::Args)]
struct Add {
    /// What to call it: 1 to 64 of letters, digits, `_`, `.` and `-`
    #[arg(value_name = "NAME")]
    name: String,
    /// What it may do; several are possible, and `admin` is all of them
    #[arg(long = "scope", value_name = "SCOPE", value_enum, default_value = "read")]
    scopes: Vec<ScopeName>,
    /// End it after this long, such as `12h` or `30d`; never without this
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    expires: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct List {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct Revoke {
    /// The token's name
    #[arg(value_name = "NAME")]
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ScopeName {
    /// Look at sessions, their messages and events
    Read,
    /// Start, write to and stop sessions
    Write,
    /// Answer what agents ask for
    Approve,
    /// Everything
    Admin,
}

impl From<ScopeName> for Scope {
    fn from(name: ScopeName) -> Self {
        match name {
            ScopeName::Read => Self::Read,
            ScopeName::Write => Self::Write,
            ScopeName::Approve => Self::Approve,
            ScopeName::Admin => Self::Admin,
        }
    }
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    // Not the settings: broken ones must not keep anybody from revoking.
    let paths = Paths::from_env()?;
    match args.command {
        Command::Add(args) => add(&paths, args),
        Command::List(args) => list(&paths, &args),
        Command::Revoke(args) => revoke(&paths, &args),
    }
}

fn add(paths: &Paths, args: Add) -> Result<u8, Failure> {
    paths.ensure()?;
    let scopes: Vec<Scope> = args.scopes.into_iter().map(Scope::from).collect();
    let added = tokens::add(&paths.state, &args.name, &scopes, args.expires)?;
    let written = if args.json { terminal::write_json(&added) } else { terminal::write_line(&added.token) };
    if let Err(error) = written {
        // A token that nobody saw must not open anything.
        tokens::revoke(&paths.state, &args.name)?;
        return Err(terminal::unwritten(&error));
    }
    if !args.json {
        terminal::say("note: this is the only time it is shown");
    }
    Ok(0)
}

fn list(paths: &Paths, args: &List) -> Result<u8, Failure> {
    let all = tokens::list(&paths.state)?;
    if args.json {
        terminal::print_json(&json!({ "tokens": all }));
        return Ok(0);
    }
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    terminal::print(&terminal::table(&["NAME", "SCOPES", "ENDS"], &rows, &["SCOPES"]));
    Ok(0)
}

fn row(token: &Info) -> Vec<String> {
    let scopes: Vec<&str> = token
        .scopes
        .iter()
        .map(|scope| match scope {
            Scope::Read => "read",
            Scope::Write => "write",
            Scope::Approve => "approve",
            Scope::Admin => "admin",
        })
        .collect();
    let ends = match token.expires_at {
        None => "never".to_owned(),
        Some(_) if token.expired => "has ended".to_owned(),
        Some(at) => format!("in {}", duration::rough(at - duration::now())),
    };
    vec![token.name.clone(), scopes.join(","), ends]
}

fn revoke(paths: &Paths, args: &Revoke) -> Result<u8, Failure> {
    tokens::revoke(&paths.state, &args.name)?;
    if args.json {
        terminal::print_json(&json!({ "name": args.name, "revoked": true }));
    }
    Ok(0)
}
