//! Reaching the gateway of this home, and starting one when none runs.
//!
//! Whoever gets the lock of the home is its gateway. Of two commands that start one at the same time the slower child
//! finds the lock taken, says so and ends, and its parent connects to the other. A gateway that was started this way
//! and has nothing to do is replaced when the program, the settings or the environment have changed since.

use crate::failure::{Failure, cannot};
use crate::home::{Home, VERSION, program};
use crate::terminal;
use client::Client;
use proto::methods::{GatewayStop, Health, HealthReport, Nothing, StopInput};
use proto::{Code, Error};
use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::{sleep, timeout};

/// How long a gateway without work stays, for the next command to find.
const IDLE_EXIT: &str = "30s";

/// How long a home may be locked by something that does not answer, while a gateway starts or ends.
const LOCKED: Duration = Duration::from_secs(5);

/// How long a gateway may take to open its store.
const PATIENCE: Duration = Duration::from_secs(15);

/// Between two looks at something another process does.
const GLANCE: Duration = Duration::from_millis(5);

/// What makes the allocator of glibc give blocks of 128 KiB and more back at once. Left to itself it keeps blocks as large
/// as those it has seen, and a gateway that took a few prompts of 20 MiB stays at ten times its size.
pub(crate) const MEMORY: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "131072");

/// A larger log is put aside before the next gateway writes to it.
const LARGEST_LOG: u64 = 5 * 1024 * 1024;

/// The gateway of this home.
pub(crate) async fn reach(home: &Home) -> Result<Client, Failure> {
    let deadline = Instant::now() + LOCKED;
    let mut replace = true;
    loop {
        if let Some(client) = running(home, &mut replace).await? {
            return Ok(client);
        }
        match start(home).await {
            Ok(()) => {
                if let Ok(client) = Client::connect(&home.paths.socket()).await {
                    return Ok(client);
                }
            }
            Err(failure) if failure.error.retryable && Instant::now() < deadline => {}
            Err(failure) => return Err(failure),
        }
        sleep(GLANCE).await;
    }
}

/// The gateway that runs already, if it is one this command would use.
async fn running(home: &Home, replace: &mut bool) -> Result<Option<Client>, Failure> {
    let Ok(client) = Client::connect(&home.paths.socket()).await else { return Ok(None) };
    let report = match client.call::<Health>(Nothing {}).await {
        Ok(report) => report,
        Err(error) if error.is_lost() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !report.ok {
        return Ok(None);
    }
    match judge(&report, &home.fingerprint()) {
        Fit::Same => {}
        Fit::Other(warning) => terminal::say(&format!("warning: {warning}")),
        Fit::Outdated if std::mem::take(replace) => {
            end(&client, home).await;
            return Ok(None);
        }
        Fit::Outdated => terminal::say("warning: the gateway that runs was started with other settings"),
    }
    Ok(Some(client))
}

#[derive(Debug, PartialEq, Eq)]
enum Fit {
    Same,
    /// To be used, with these words.
    Other(String),
    /// To be replaced.
    Outdated,
}

fn judge(report: &HealthReport, fingerprint: &str) -> Fit {
    if !report.implicit {
        return if report.version == VERSION {
            Fit::Same
        } else {
            Fit::Other(format!("the gateway that runs is version {}, this is {VERSION}", report.version))
        };
    }
    if report.fingerprint == fingerprint {
        Fit::Same
    } else if report.busy > 0 {
        let changed = "the program, the settings or the environment changed since";
        Fit::Other(format!("the gateway at work was started before: {changed}, which counts when it is idle"))
    } else {
        Fit::Outdated
    }
}

/// Asks a gateway to end, and waits until nobody listens. One that got busy in between refuses and stays.
async fn end(client: &Client, home: &Home) {
    if client.call::<GatewayStop>(StopInput { force: false }).await.is_err() {
        return;
    }
    let deadline = Instant::now() + LOCKED;
    while Client::connect(&home.paths.socket()).await.is_ok() && Instant::now() < deadline {
        sleep(GLANCE).await;
    }
}

/// Asks a gateway that a command started by itself, and that has nothing to do, to leave the home. False when there is none,
/// or it stays.
pub(crate) async fn make_way(home: &Home) -> bool {
    let Ok(client) = Client::connect(&home.paths.socket()).await else { return false };
    let Ok(report) = client.call::<Health>(Nothing {}).await else { return false };
    if !report.implicit || report.busy > 0 {
        return false;
    }
    end(&client, home).await;
    Client::connect(&home.paths.socket()).await.is_err()
}

/// Starts a gateway that outlives this command, and waits for its first line.
async fn start(home: &Home) -> Result<(), Failure> {
    home.paths.ensure()?;
    let log = open_log(home)?;
    let mut child = spawn(home, log).map_err(|error| cannot("start the gateway", &error))?;
    let out = child.stdout.take().map(OwnedFd::from);
    let out = out.and_then(|out| pipe::Receiver::from_owned_fd(out).ok());
    let line = match out {
        Some(out) => timeout(PATIENCE, first_line(out)).await.unwrap_or_default(),
        None => String::new(),
    };
    heard(&line, home, &mut child)
}

fn spawn(home: &Home, log: File) -> std::io::Result<Child> {
    Command::new(program())
        .arg0("convoke")
        .args(["serve", "--no-tcp", "--json", "--implicit", "--idle-exit", IDLE_EXIT])
        .env(MEMORY.0, MEMORY.1)
        // It must not keep the caller's directory from being removed.
        .current_dir(&home.paths.state)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
}

async fn first_line(mut out: pipe::Receiver) -> String {
    let mut line = Vec::new();
    let mut chunk = [0; 4096];
    // An endless line is none.
    while line.len() < 64 * 1024 {
        match out.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(read) => line.extend_from_slice(&chunk[..read]),
        }
        if line.contains(&b'\n') {
            break;
        }
    }
    String::from_utf8_lossy(&line).lines().next().unwrap_or_default().to_owned()
}

fn heard(line: &str, home: &Home, child: &mut Child) -> Result<(), Failure> {
    #[derive(serde::Deserialize)]
    #[serde(tag = "type", rename_all = "lowercase")]
    enum First {
        Ready {},
        Error(Error),
    }
    match serde_json::from_str(line) {
        Ok(First::Ready {}) => Ok(()),
        Ok(First::Error(error)) => {
            // It is about to end; wait, so that it leaves no zombie behind.
            let _ = child.wait();
            Err(error.into())
        }
        Err(_) => Err(Error::internal("the gateway ended before it was ready")
            .hint(format!("its last words are in `{}`", home.paths.log().display()))
            .into()),
    }
}

fn open_log(home: &Home) -> Result<File, Failure> {
    let path = home.paths.log();
    if std::fs::metadata(&path).is_ok_and(|meta| meta.len() > LARGEST_LOG) {
        // If it cannot be put aside it goes on growing, which is no reason to stop here.
        let _ = std::fs::rename(&path, path.with_extension("log.1"));
    }
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
    opened.map_err(|error| {
        let message = format!("cannot write `{}`: {error}", path.display());
        Error::new(Code::Unavailable, message).hint("make room, or set CONVOKE_HOME to another directory").into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(implicit: bool, version: &str, fingerprint: &str, busy: u64) -> HealthReport {
        HealthReport {
            ok: true,
            version: version.into(),
            fingerprint: fingerprint.into(),
            pid: 1,
            implicit,
            busy,
            awake: 0,
            uptime_ms: 0,
        }
    }

    #[test]
    fn only_an_idle_gateway_of_our_own_making_is_replaced() {
        assert_eq!(judge(&report(true, VERSION, "a", 0), "a"), Fit::Same);
        assert_eq!(judge(&report(true, VERSION, "b", 0), "a"), Fit::Outdated);
        assert!(matches!(judge(&report(true, VERSION, "b", 1), "a"), Fit::Other(_)));
        assert_eq!(judge(&report(false, VERSION, "b", 0), "a"), Fit::Same);
        assert!(matches!(judge(&report(false, "0.0.1", "b", 0), "a"), Fit::Other(_)));
    }
}
