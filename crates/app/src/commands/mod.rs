//! The commands: one file each. Their doc comments are their help.

mod agents;
mod answer;
mod approve;
mod attach;
mod auth;
mod board;
mod compact;
mod completions;
mod config;
mod db;
mod demo;
mod doctor;
mod history;
mod hooks;
mod kill;
mod mail;
mod models;
mod peers;
mod permissions;
mod ps;
mod rm;
mod run;
mod send;
mod serve;
mod spawn;
mod stop;
mod summary;
mod token;
mod tools;
mod tree;
mod trust;
mod undo;
mod wait;
mod why;
mod worktrees;

use crate::failure::{Failure, cannot};
use clap::{Parser, Subcommand};
use std::future::Future;

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    the run failed or is not over in time, the database is damaged, or the output cannot be written
  2    something was wrong before a run existed: usage, settings, an unknown agent, model, session or directory,
       a database that is newer or in use
  130  interrupted

Files live below CONVOKE_HOME when it is set, else in the usual places of this user.";

/// Run a company of AI agents: sessions that persist, spawn each other and write to each other
#[derive(Parser)]
#[command(name = "convoke", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    Serve(serve::Args),
    Stop(stop::Args),
    Send(send::Args),
    Spawn(spawn::Args),
    Wait(wait::Args),
    Kill(kill::Args),
    Rm(rm::Args),
    Compact(compact::Args),
    Summary(summary::Args),
    Undo(undo::UndoArgs),
    Redo(undo::RedoArgs),
    Attach(attach::Args),
    Board(board::Args),
    Mail(mail::Args),
    Ps(ps::Args),
    Peers(peers::Args),
    Approve(approve::Args),
    Answer(answer::Args),
    Permissions(permissions::Args),
    Why(why::Args),
    Tree(tree::Args),
    History(history::Args),
    Agents(agents::Args),
    Tools(tools::Args),
    Hooks(hooks::Args),
    Models(models::Args),
    Config(config::Args),
    Trust(trust::Args),
    Auth(auth::Args),
    Token(token::Args),
    Worktrees(worktrees::Args),
    Db(db::Args),
    Doctor(doctor::Args),
    Demo(demo::Args),
    Completions(completions::Args),
}

impl Cli {
    /// Does it; the exit code is the answer.
    pub(crate) fn run(self) -> Result<u8, Failure> {
        match self.command {
            Command::Run(args) => run::run(args),
            Command::Serve(args) => serve::run(args),
            Command::Stop(args) => stop::run(args),
            Command::Send(args) => send::run(args),
            Command::Spawn(args) => spawn::run(args),
            Command::Wait(args) => wait::run(args),
            Command::Kill(args) => kill::run(args),
            Command::Rm(args) => rm::run(args),
            Command::Compact(args) => compact::run(args),
            Command::Summary(args) => summary::run(args),
            Command::Undo(args) => undo::undo(args),
            Command::Redo(args) => undo::redo(args),
            Command::Attach(args) => attach::run(args),
            Command::Board(args) => board::run(args),
            Command::Mail(args) => mail::run(args),
            Command::Ps(args) => ps::run(args),
            Command::Peers(args) => peers::run(args),
            Command::Approve(args) => approve::run(args),
            Command::Answer(args) => answer::run(args),
            Command::Permissions(args) => permissions::run(args),
            Command::Why(args) => why::run(args),
            Command::Tree(args) => tree::run(args),
            Command::History(args) => history::run(args),
            Command::Agents(args) => agents::run(args),
            Command::Tools(args) => tools::run(args),
            Command::Hooks(args) => hooks::run(args),
            Command::Models(args) => models::run(args),
            Command::Config(args) => config::run(args),
            Command::Trust(args) => trust::run(args),
            Command::Auth(args) => auth::run(args),
            Command::Token(args) => token::run(args),
            Command::Worktrees(args) => worktrees::run(args),
            Command::Db(args) => db::run(args),
            Command::Doctor(args) => doctor::run(args),
            Command::Demo(args) => demo::run(args),
            Command::Completions(args) => completions::run(args),
        }
    }
}

/// A runtime for a command that waits for one thing at a time.
fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| cannot("start a runtime", &error))?.block_on(work)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent_and_every_part_of_it_is_explained() {
        let mut cli = Cli::command();
        cli.clone().debug_assert();
        cli.build();
        for command in cli.get_subcommands().filter(|command| command.get_name() != "help") {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                assert!(arg.get_help().is_some(), "{} {}", command.get_name(), arg.get_id());
            }
        }
    }
}
