//! `convoke stop`: ends the gateway of this home, also one whose socket is gone.

use super::block_on;
use crate::failure::Failure;
use crate::terminal;
use client::Client;
use config::Paths;
use proto::methods::{GatewayStop, StopInput};
use proto::{Code, Error};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::time::Timespec;
use serde_json::json;
use std::time::{Duration, Instant};
use store::Store;
use store::sqlite::{Sqlite, holder_of};
use tokio::time::sleep;

/// How long a gateway may take to make itself a new socket: it looks every second.
const WITHOUT_SOCKET: Duration = Duration::from_secs(5);

/// How long one that was sent a signal may take to end: its grace period and 5 s.
const ENDING: Duration = gateway::serve::GRACE.saturating_add(Duration::from_secs(5));

/// Between two looks at something another process does.
const GLANCE: Duration = Duration::from_millis(20);

/// End the gateway of this home, if one runs
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also when sessions are busy: they go on when the next gateway starts
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    // Not the settings: broken ones must not keep anybody from stopping.
    let paths = Paths::from_env()?;
    let stopped = block_on(stop(&paths, args.force))?;
    if args.json {
        terminal::print_json(&json!({ "stopped": stopped }));
    } else if !stopped {
        terminal::say("no gateway runs in this home");
    }
    Ok(0)
}

/// Asks it over its socket. Without one, whoever holds the home's lock is the gateway.
async fn stop(paths: &Paths, force: bool) -> Result<bool, Failure> {
    let start = Instant::now();
    loop {
        if let Ok(client) = Client::connect(&paths.socket()).await {
            return Ok(client.call::<GatewayStop>(StopInput { force }).await.map(|done| done.ok)?);
        }
        let Some(holder) = holder_of(&paths.state) else { return Ok(false) };
        if start.elapsed() > WITHOUT_SOCKET {
            return signal(paths, holder, force).await;
        }
        sleep(GLANCE).await;
    }
}

async fn signal(paths: &Paths, holder: u32, force: bool) -> Result<bool, Failure> {
    if !force && !Sqlite::open_read(&paths.state)?.unfinished(None, 1).await?.is_empty() {
        return Err(Error::new(Code::Conflict, "sessions are busy")
            .hint("wait for them, or use `--force`: they go on when the next gateway starts")
            .into());
    }
    let pid = i32::try_from(holder).ok().and_then(Pid::from_raw);
    let Some(process) = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else { return Ok(false) };
    // The number may have become somebody else's in between; what was opened stays what it is.
    if holder_of(&paths.state) != Some(holder) {
        return Ok(false);
    }
    let failed = |error: Errno| crate::failure::cannot("end the gateway", &error.into());
    pidfd_send_signal(&process, Signal::TERM).map_err(failed)?;
    // Nothing else goes on in this process that could be kept waiting.
    let limit = Timespec::try_from(ENDING).ok();
    if poll(&mut [PollFd::new(&process, PollFlags::IN)], limit.as_ref()).map_err(failed)? > 0 {
        return Ok(true);
    }
    Err(Error::new(Code::Timeout, format!("the gateway, process {holder}, does not end"))
        .hint(format!("kill -9 {holder}; nothing that was acknowledged is lost"))
        .into())
}
