//! A real gateway that is killed and started again, and the processes it must not leave behind.

use super::model::marker;
use anyhow::{Context, bail, ensure};
use config::Paths;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use testkit::TempHome;
use tokio::net::UnixStream;

/// How long a gateway may take to accept; far above the goal, so that a hang ends as an error.
const READY: Duration = Duration::from_secs(15);
/// How long a process of a tool may outlive the gateway.
pub(super) const LINGERING: Duration = Duration::from_secs(2);

pub(super) struct Gateway {
    program: PathBuf,
    home: PathBuf,
    socket: PathBuf,
    log: PathBuf,
    /// Given to a gateway built to lose what was not synced.
    power: Option<u64>,
    child: Option<Child>,
    nonce: u32,
    life: Arc<AtomicU32>,
    /// Lives that ended, and when.
    ended: Vec<(u32, Instant)>,
}

impl Gateway {
    pub(super) fn new(program: PathBuf, home: &TempHome, power: Option<u64>, nonce: u32, life: Arc<AtomicU32>) -> Self {
        Self {
            program,
            home: home.path().to_owned(),
            socket: Paths::under(home.path()).socket(),
            log: home.path().join("gateway.log"),
            power,
            child: None,
            nonce,
            life,
            ended: Vec::new(),
        }
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Starts the process, and does not wait for it to accept.
    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        let life = self.life.fetch_add(1, Ordering::SeqCst) + 1;
        let log = OpenOptions::new().create(true).append(true).open(&self.log).context("cannot write the log")?;
        let mut command = self.command();
        command.args(["serve", "--no-tcp", "--json"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        if let Some(seed) = self.power {
            command.env("CONVOKE_POWER_SEED", seed.wrapping_add(u64::from(life)).to_string());
        }
        let child = command.spawn().with_context(|| format!("cannot start `{}`", self.program.display()))?;
        self.child = Some(child);
        Ok(())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear();
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command.env("HOME", &self.home).env("CONVOKE_HOME", &self.home);
        command
    }

    /// Waits until it accepts.
    pub(super) async fn ready(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        while UnixStream::connect(&self.socket).await.is_err() {
            if let Some(status) = self.child.as_mut().map(Child::try_wait).transpose()?.flatten() {
                bail!("the gateway ended by itself with {status}: {}", self.last_words());
            }
            ensure!(start.elapsed() < READY, "the gateway does not accept: {}", self.last_words());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Ends the process in the hardest way, unless it has ended by itself, which it must not.
    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let before = child.try_wait().context("cannot look at the gateway")?;
        child.kill().context("cannot kill the gateway")?;
        child.wait().context("cannot collect the gateway")?;
        self.ended.push((self.life.load(Ordering::SeqCst), Instant::now()));
        match before {
            None => Ok(()),
            Some(status) => bail!("the gateway ended by itself with {status}: {}", self.last_words()),
        }
    }

    /// Looks for processes of lives that ended long enough ago. Names one that is still about.
    pub(super) fn stray(&mut self) -> Option<String> {
        let due: Vec<u32> =
            self.ended.iter().filter(|(_, at)| at.elapsed() >= LINGERING).map(|(life, _)| *life).collect();
        if due.is_empty() {
            return None;
        }
        self.ended.retain(|(life, _)| !due.contains(life));
        let markers: Vec<String> = due.iter().map(|life| marker(self.nonce, *life)).collect();
        let found = running(|argument| markers.iter().any(|marker| marker == argument))?;
        Some(format!("process {found} of a killed gateway's tool is alive after {} s", LINGERING.as_secs()))
    }

    /// What the newest log lines say.
    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The first process with such an argument.
fn running(wanted: impl Fn(&str) -> bool) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find(|pid| {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).any(|argument| std::str::from_utf8(argument).is_ok_and(&wanted))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_its_argument_until_it_is_gone() {
        let mark = marker(std::process::id(), 3);
        // It waits for a line that never comes, and starts nothing that could outlive it.
        let mut child = Command::new("sh").args(["-c", "read line", &mark]).stdin(Stdio::piped()).spawn().unwrap();
        // The kernel shows the arguments a moment after the program was started.
        let seen = (0..200).find_map(|_| {
            std::thread::sleep(Duration::from_millis(5));
            running(|argument| argument == mark)
        });
        assert_eq!(seen, Some(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(running(|argument| argument == mark), None);
    }
}
