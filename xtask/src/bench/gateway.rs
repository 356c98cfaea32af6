//! A gateway to measure: started in a home of its own, asked through its socket, and ended with the figure.

use super::http::Site;
use super::measure::is_gone;
use anyhow::{Context, bail, ensure};
use client::Client;
use config::Paths;
use proto::methods::{Agent, AgentInput, AgentWait, Health, Method, Nothing, WaitInput, WaitStatus};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::{FakeModel, TempHome};
use tokio::runtime::Runtime;

/// The longest anything here may take: far above every goal, so that a hang ends as an error.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);

/// How long a gateway may take to end before it is killed.
const ENDING: Duration = Duration::from_secs(15);

pub(super) struct Gateway {
    pub(super) pid: u32,
    /// From the start of the process to its first line.
    pub(super) ready: Duration,
    client: Client,
    runtime: Runtime,
    child: Option<Child>,
}

impl Gateway {
    /// Starts one that stays until it is dropped.
    pub(super) fn start(program: &Path, home: &TempHome) -> anyhow::Result<Self> {
        Ok(Self::serve(program, home, &["serve", "--no-tcp", "--json"])?.0)
    }

    /// Starts one that is reached over TCP as well.
    pub(super) fn listening(program: &Path, home: &TempHome) -> anyhow::Result<(Self, Site)> {
        let (gateway, line) = Self::serve(program, home, &["serve", "--json"])?;
        let site = Site::of(gateway.pid, &line)?;
        Ok((gateway, site))
    }

    fn serve(program: &Path, home: &TempHome, arguments: &[&str]) -> anyhow::Result<(Self, String)> {
        let mut command = home.command(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let start = Instant::now();
        let mut child = command.spawn().with_context(|| format!("cannot start `{}`", program.display()))?;
        let line = child.stdout.take().map(first_line).unwrap_or_default();
        let (pid, ready) = (child.id(), start.elapsed());
        let opened = if line.contains("\"ready\"") { open(home) } else { Err(anyhow::anyhow!("it said `{line}`")) };
        match opened {
            Ok((runtime, client)) => Ok((Self { pid, ready, client, runtime, child: Some(child) }, line)),
            Err(error) => {
                end(pid, Some(child));
                Err(error.context("the gateway did not start"))
            }
        }
    }

    /// The one that a command started, so that it ends with this.
    pub(super) fn adopt(home: &TempHome) -> anyhow::Result<Self> {
        let (runtime, client) = open(home)?;
        let health = runtime.block_on(client.call::<Health>(Nothing {})).context("the gateway does not answer")?;
        Ok(Self { pid: health.pid, ready: Duration::ZERO, client, runtime, child: None })
    }

    pub(super) fn call<M: Method>(&self, input: M::Input) -> anyhow::Result<M::Output> {
        let call = async { tokio::time::timeout(PATIENCE, self.client.call::<M>(input)).await };
        let answer = self.runtime.block_on(call).with_context(|| format!("`{}` got no answer in time", M::NAME))?;
        answer.with_context(|| format!("`{}` was refused", M::NAME))
    }

    /// Runs callers of our own beside it.
    pub(super) fn block_on<F: Future>(&self, work: F) -> F::Output {
        self.runtime.block_on(work)
    }

    /// Asks an agent in a new session, and does not wait.
    pub(super) fn ask(&self, message: &str, directory: &Path) -> anyhow::Result<WaitInput> {
        let cwd = Some(directory.display().to_string());
        let accepted = self.call::<Agent>(AgentInput { message: message.into(), cwd, ..AgentInput::default() })?;
        let timeout_ms = u64::try_from(PATIENCE.as_millis()).ok();
        Ok(WaitInput { run_id: accepted.run_id, timeout_ms, tree: true })
    }

    /// Waits until the run and all below it are over.
    pub(super) fn wait(&self, run: WaitInput) -> anyhow::Result<()> {
        let waited = self.call::<AgentWait>(run)?;
        let why = waited.error.map(|error| error.message).unwrap_or_default();
        ensure!(waited.status == WaitStatus::Ok, "the run ended as {:?}: {why}", waited.status);
        Ok(())
    }

    pub(super) fn run(&self, message: &str, directory: &Path) -> anyhow::Result<()> {
        self.wait(self.ask(message, directory)?)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        end(self.pid, self.child.take());
    }
}

/// What it says first; nothing when that takes too long.
fn first_line(out: ChildStdout) -> String {
    let patience = Timespec { tv_sec: ENDING.as_secs() as i64, tv_nsec: 0 };
    let heard = poll(&mut [PollFd::new(&out, PollFlags::IN)], Some(&patience));
    let mut line = String::new();
    if heard.is_ok_and(|ready| ready > 0) {
        // An error leaves the line empty, which is told as such.
        let _ = BufReader::new(out).read_line(&mut line);
    }
    line
}

/// Runs a command of this home to its end; returns when it was started. Its complaints go to our stderr.
pub(super) fn run_command(mut command: Command) -> anyhow::Result<Instant> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    let mut child = command.spawn().context("cannot start the command")?;
    while start.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().context("cannot wait for the command")? {
            ensure!(status.success(), "the command failed with {status}");
            return Ok(start);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill();
    let _ = child.wait();
    bail!("the command did not end")
}

/// Waits until the fake has heard `n` requests.
pub(super) fn heard(fake: &FakeModel, n: usize) -> anyhow::Result<()> {
    let start = Instant::now();
    while fake.count() < n {
        if start.elapsed() > PATIENCE {
            bail!("waited for {n} requests, only {} came", fake.count());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn open(home: &TempHome) -> anyhow::Result<(Runtime, Client)> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a runtime")?;
    let socket = Paths::under(home.path()).socket();
    let client = runtime.block_on(Client::connect(&socket)).context("cannot reach the gateway")?;
    Ok((runtime, client))
}

/// Asks the process to end, and kills it when it does not. An adopted one is not ours to collect.
fn end(pid: u32, child: Option<Child>) {
    let signal = |signal| {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    };
    signal(Signal::TERM);
    let start = Instant::now();
    while !is_gone(pid) {
        if start.elapsed() > ENDING {
            eprintln!("  the gateway did not end by itself and is killed");
            signal(Signal::KILL);
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    if let Some(mut child) = child {
        let _ = child.wait();
    }
}
