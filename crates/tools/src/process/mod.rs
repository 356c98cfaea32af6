//! Processes of tools: forked by the reaper, so that nothing outlives its call or the gateway.
//!
//! ```text
//! gateway ── seqpacket: feed, run + 2 fds, kill ──> reaper     one per gateway, one thread, no lock, started when needed
//!    │                                                │ spawns
//!    │<── control socket: order out, report back ──> runner    one per call: a session and a subreaper of its own
//!    │                                                │ spawns
//!    │<── pipe: what it prints ──────────────────── command    and whatever that starts
//! ```
//!
//! A runner ends all of its descendants when its command exits, when its control socket closes (time limit, cancel, a
//! dropped call, a gateway that died), or when the reaper is gone; in these cases the command is told to end a moment
//! before, so that it can put things in order. A process that detaches itself is adopted by its
//! runner, which is why it cannot hide. The reaper ends everything when its own socket closes or when it has not been
//! fed in time (a gateway that was stopped), and adopts and ends what a killed runner leaves behind.
//!
//! When all of them are killed at once, the next gateway finds what is left by a mark in its environment (`left`).
//!
//! A command that is to be confined goes to another reaper, which was started inside a sandbox (`confined`): one for each
//! session and what holds for it, kept for a while, so that only the first command pays for the sandbox. There the
//! reaper is the first process of a namespace, and the kernel ends whatever is left when it ends.

mod collect;
mod confined;
mod env;
mod fresh;
mod given;
mod hold;
mod left;
mod link;
mod links;
mod live;
mod reaper;
mod runner;
mod tree;
mod wire;

pub use env::{Wanted, clean_env, env_with, is_listed, shell};
pub use given::given;
pub use hold::hold_main;
pub(crate) use hold::{NOT_STARTED, arguments as arguments_held};
pub use left::Mark;
pub use link::Reaper;
pub use live::{Glimpse, Live};
pub use reaper::reaper_main;
pub use runner::runner_main;

use crate::sandbox::Confine;
use async_trait::async_trait;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Runs commands for tools.
#[async_trait]
pub trait Processes: Send + Sync {
    /// Runs one command to its end. When this returns, or is dropped, nothing the command started keeps running.
    async fn run(&self, command: Command, cancel: &CancellationToken) -> Result<Finished, Error>;

    /// Takes away what a sandbox put in the place of a file that somebody is about to make, if nobody needs it just now.
    fn give_way(&self, _: &Path) {}

    /// A session has nothing to run for now: what is kept warm for it goes, unless something runs in it.
    fn rest(&self, _: &proto::SessionId) {}

    /// The program that answers to [`hold_main`], where there is one.
    fn holder(&self) -> Option<&Path> {
        None
    }

    /// The cleaned environment to start commands with.
    fn env(&self) -> &[(String, String)] {
        &[]
    }

    /// The same with what settings add to it.
    fn env_with(&self, wanted: &Wanted) -> Vec<(String, String)> {
        env_with(self.env(), wanted)
    }
}

/// What to start, and how much of it to keep.
#[derive(Debug, Clone)]
pub struct Command {
    pub program: String,
    pub args: Vec<String>,
    pub dir: PathBuf,
    /// The whole environment: nothing is added to it.
    pub env: Vec<(String, String)>,
    pub timeout: Duration,
    /// Bytes of output kept in memory.
    pub limit: usize,
    /// The file that gets the whole output when it is longer than `limit`.
    pub spill: Option<PathBuf>,
    /// Where it is shown while it is printed.
    pub live: Option<Live>,
    /// What it is kept in; nothing unless given.
    pub confine: Option<Arc<Confine>>,
    /// What it reads from its standard input; nothing unless given. With it, standard error is kept apart from the
    /// output.
    pub input: Option<String>,
}

/// How a command ended.
#[derive(Debug, Clone, Default)]
pub struct Finished {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Standard output and standard error as they came, up to the command's `limit`.
    pub output: Vec<u8>,
    /// The beginning of standard error, where it was kept apart: 16 KiB.
    pub errors: Vec<u8>,
    /// More was printed than `output` holds.
    pub truncated: bool,
    /// Bytes printed altogether.
    pub total: u64,
    pub timed_out: bool,
    pub cancelled: bool,
    /// What of its sandbox was not enforced, or had to be put right.
    pub notice: Option<String>,
    pub ms: u64,
}

/// Why a command has no end to tell of.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller can do something about it: a program that is not there, a directory that is not there.
    #[error("cannot start `{program}`: {reason}")]
    Start { program: String, reason: String },
    /// It is not to be run like this here, and why.
    #[error("`{program}` was not run: {reason}")]
    Refused { program: String, reason: String },
    /// It was started, and what became of it is not known, except that it is gone.
    #[error("the process that ran `{program}` was killed; it may have done a part of its work")]
    Lost { program: String },
    /// No command can be started.
    #[error("cannot reach the reaper")]
    Reaper(#[source] std::io::Error),
}
