//! `convoke trust`: which repositories may set everything.

use crate::duration;
use crate::failure::Failure;
use crate::home::current;
use crate::terminal::{self, flat};
use config::{Environment, Paths, Repository, Trusted};
use proto::Error;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Let the settings of a repository count, as they are now
///
/// Until then a repository may describe agents, add instructions and forbid things; what reaches further is ignored.
/// Trust is bound to the content of the files: when one changes, it has to be given again.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// A directory of the repository; the current one without it
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List what is trusted
    List(List),
    /// Take trust back
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
    /// A directory of the repository; the current one without it
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    // Not the settings: broken ones must not keep anybody from taking trust back.
    let env = Environment::capture();
    let paths = Paths::resolve(&env)?;
    match args.command {
        None => trust(&paths, &env, directory(args.directory)?, args.json),
        Some(Command::List(args)) => {
            list(&config::trusted(&paths), args.json);
            Ok(0)
        }
        Some(Command::Revoke(args)) => revoke(&paths, &directory(args.directory)?, args.json),
    }
}

fn directory(named: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let directory = named.map_or_else(current, Ok)?;
    let real = directory.canonicalize().map_err(|error| {
        let what = format!("`{}` cannot be used: {error}", directory.display());
        Error::invalid(what).hint("name a directory that exists")
    })?;
    Ok(real)
}

fn trust(paths: &Paths, env: &Environment, directory: PathBuf, json: bool) -> Result<u8, Failure> {
    paths.ensure()?;
    match config::trust(paths, env, &directory)? {
        Some(repository) if json => terminal::print_json(&repository),
        Some(repository) => told(&repository),
        None if json => terminal::print_json(&json!({ "root": directory, "files": [], "trusted": false })),
        None => terminal::print(&format!(
            "{} has no settings, so there is nothing to trust",
            flat(&directory.display().to_string())
        )),
    }
    Ok(0)
}

fn told(repository: &Repository) {
    let named = |path: &Path| flat(&path.display().to_string());
    terminal::print(&format!("the settings of {} count from now on, as they are in", named(&repository.root)));
    repository.files.iter().for_each(|file| terminal::print(&format!("  {}", named(file))));
}

fn list(trusted: &[Trusted], json: bool) {
    if json {
        terminal::print_json(&json!({ "trusted": trusted }));
        return;
    }
    let ago = |at: u64| duration::rough(duration::now() - i64::try_from(at).unwrap_or(i64::MAX));
    let row =
        |one: &Trusted| vec![one.root.display().to_string(), format!("{} ago", ago(one.at)), one.hash[..12].into()];
    terminal::print(&terminal::table(
        &["REPOSITORY", "SINCE", "CONTENT"],
        &trusted.iter().map(row).collect::<Vec<_>>(),
        &["REPOSITORY"],
    ));
}

fn revoke(paths: &Paths, directory: &Path, json: bool) -> Result<u8, Failure> {
    if !config::distrust(paths, directory)? {
        let what = format!("`{}` is not trusted", directory.display());
        return Err(Error::not_found(what).hint("`convoke trust list` shows what is").into());
    }
    if json {
        terminal::print_json(&json!({ "directory": directory, "revoked": true }));
    }
    Ok(0)
}
