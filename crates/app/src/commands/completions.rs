//! `convoke completions`: words for a shell.

use super::Cli;
use crate::failure::Failure;
use crate::terminal;
use clap::CommandFactory;
use clap_complete::Shell;

/// Print the completion script of a shell
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell to print it for
    shell: Shell,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    // Not to stdout itself: a reader that leaves early is no reason to panic.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "convoke", &mut script);
    terminal::end_unless(terminal::write_line(String::from_utf8_lossy(&script).trim_end()));
    Ok(0)
}
