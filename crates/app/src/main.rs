//! The binary: commands and wiring, nothing else.

mod asking;
mod commands;
mod courier;
mod duration;
mod failure;
mod home;
mod local;
mod names;
mod organisation;
mod patience;
mod providers;
mod reach;
mod screen;
mod settings;
mod show;
mod signals;
mod terminal;
mod waiting;
mod wiring;

use clap::Parser;
use show::text::shown;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Every tool call starts some of these: nothing may be set up before them.
    match std::env::args_os().nth(1).as_deref().and_then(std::ffi::OsStr::to_str) {
        Some("reaper") => return tools::process::reaper_main(),
        Some("runner") => return tools::process::runner_main(),
        Some("hold") => return tools::process::hold_main(),
        _ => {}
    }
    let cli = match commands::Cli::try_parse() {
        Ok(cli) => cli,
        // Help and the version are an answer like others; a complaint goes to stderr.
        Err(said) if !said.use_stderr() => {
            terminal::end_unless(said.print().and_then(|()| std::io::stdout().flush()));
            return ExitCode::SUCCESS;
        }
        Err(said) => {
            // It repeats arguments as they are, and those may have come from anywhere.
            let plain = said.render().to_string();
            if shown(&plain) == plain {
                said.exit();
            }
            terminal::say(plain.trim_end());
            return ExitCode::from(failure::UNUSABLE);
        }
    };
    match cli.run() {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            failure.print();
            ExitCode::from(failure.exit)
        }
    }
}
