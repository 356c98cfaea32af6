//! `convoke auth`: keys of model providers, kept for this user only.

use crate::failure::{Failure, cannot};
use crate::terminal;
use config::{Environment, Paths};
use proto::Error;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal, Read};

/// Keep, list and forget the keys of model providers
///
/// They are kept in a file that only you may read, and used where neither the settings nor the environment have one.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Keep a key, read from standard input or typed without being shown
    Login(Named),
    /// List the providers there are keys for
    List(List),
    /// Forget a key
    Logout(Named),
}

#[derive(clap::Args)]
struct Named {
    /// The provider, such as `anthropic` or `openai`
    #[arg(value_name = "PROVIDER")]
    provider: String,
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

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let paths = Paths::from_env()?;
    match args.command {
        Command::Login(args) => login(&paths, &args),
        Command::List(args) => list(&paths, &args),
        Command::Logout(args) => logout(&paths, &args),
    }
}

fn login(paths: &Paths, args: &Named) -> Result<u8, Failure> {
    paths.ensure()?;
    warn_of_nobody(paths, &args.provider);
    let key = read_key(&args.provider).map_err(|error| cannot("read the key", &error))?;
    config::login(paths, &args.provider, &key)?;
    if args.json {
        terminal::print_json(&json!({ "provider": args.provider, "file": paths.auth() }));
    } else {
        terminal::say(&format!("kept in {}", paths.auth().display()));
    }
    Ok(0)
}

/// A key can be kept before its provider is set up; a name that is mistyped should not go unnoticed.
fn warn_of_nobody(paths: &Paths, name: &str) {
    let vendors = llm::vendors::VENDORS.iter().map(|vendor| vendor.name.to_owned());
    let set = config::load(paths, &Environment::capture()).map(|loaded| loaded.config.provider).unwrap_or_default();
    let known: BTreeSet<String> = vendors.chain(set.into_keys()).collect();
    if !known.contains(name) {
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        terminal::say(&format!("warning: no provider is called `{name}` yet; there is: {known}"));
    }
}

fn list(paths: &Paths, args: &List) -> Result<u8, Failure> {
    let keys = config::keys(paths)?;
    if args.json {
        let rows: Vec<_> = keys.keys().map(|provider| json!({ "provider": provider, "source": "file" })).collect();
        terminal::print_json(&json!({ "keys": rows }));
        return Ok(0);
    }
    let rows: Vec<Vec<String>> = keys.keys().map(|provider| vec![provider.clone(), "***".into()]).collect();
    terminal::print(&terminal::table(&["PROVIDER", "KEY"], &rows, &["KEY"]));
    Ok(0)
}

fn logout(paths: &Paths, args: &Named) -> Result<u8, Failure> {
    if !config::logout(paths, &args.provider)? {
        let what = format!("there is no key for `{}`", args.provider);
        return Err(Error::not_found(what).hint("`convoke auth list` shows those there are").into());
    }
    if args.json {
        terminal::print_json(&json!({ "provider": args.provider, "removed": true }));
    }
    Ok(0)
}

/// Longer than any key: whatever is piped in by mistake is not read to its end.
const LONGEST: u64 = 64 * 1024;

fn read_key(provider: &str) -> std::io::Result<String> {
    let stdin = std::io::stdin();
    let mut key = String::new();
    if !stdin.is_terminal() {
        stdin.lock().take(LONGEST).read_to_string(&mut key)?;
        return Ok(key);
    }
    terminal::say(&format!("paste the key for {provider} and press Enter; it is not shown:"));
    let shown = tcgetattr(&stdin)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Flush, &hidden)?;
    let read = stdin.lock().take(LONGEST).read_line(&mut key);
    // Whatever happened: a terminal that shows nothing is of no use to anybody.
    tcsetattr(&stdin, OptionalActions::Flush, &shown)?;
    read.map(|_| key)
}
