//! The project's own commands: `cargo xtask test | docs | crash | fuzz | bench`. Each is a module; this file only reads the arguments.

mod bench;
mod contract;
mod crash;
mod docs;
mod fuzz;
mod random;
mod test;

use clap::Parser;

/// The project's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask")]
enum Command {
    /// Everything a change must pass: formatting, lints, tests, documents, the release build and some crashes.
    Test,
    /// Write the pages that are made from the code.
    Docs,
    /// Kill a real gateway at many moments of a busy life, restart it, and check that nothing was lost or doubled.
    Crash(crash::Args),
    /// Feed made-up input to everything that reads foreign text, and keep what breaks it.
    Fuzz(fuzz::Args),
    /// Measure, and compare with what was measured before.
    Bench {
        /// Only this one.
        name: Option<String>,
    },
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Test => test::main(),
        Command::Docs => docs::write(&test::root()?),
        Command::Crash(args) => crash::main(args),
        Command::Fuzz(args) => fuzz::main(args),
        Command::Bench { name } => bench::main(name),
    }
}
