//! `convoke completions`: words for a shell.

use super::Cli;
use crate::failure::Failure;
use clap::CommandFactory;
use clap_complete::Shell;

/// Print the completion script of a shell
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell to print it for
    shell: Shell,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    clap_complete::generate(args.shell, &mut Cli::command(), "convoke", &mut std::io::stdout());
    Ok(0)
}
