//! `convoke runner`: runs one command, and ends everything that came of it.
//!
//! Its standard input is the control socket, its standard output the pipe the command prints to, and its standard error
//! the lifeline: a pipe nobody writes to, which hangs up when the reaper dies. All three are replaced for the command.

use super::tree;
use super::wire::{self, Report};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitStatus, getpid, kill_process_group, pidfd_open, set_child_subreaper, setsid,
};
use std::ffi::OsString;
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

/// How long a command that is told to end may take to put things in order: git removes its lock files then, and would
/// leave a repository locked when it is killed.
const GRACE: Duration = Duration::from_millis(100);
/// How long killed processes may take to be gone before the reaper is left to deal with them.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the hidden subcommand does. Plain blocking code: no runtime is started.
pub fn runner_main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn run() -> io::Result<()> {
    // Both before anything is started: a session, so that no terminal's signal comes here, and the right to adopt.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    let mut control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let order = wire::read_order(&mut control)?;
    let (report, errors) = match start(order) {
        Ok((main, mut errors)) => (watch(main, &control, &mut errors), errors),
        Err(error) => (Some(Report::Refused(error.to_string())), None),
    };
    let Some(report) = report else { return Ok(()) };
    if let Some(errors) = errors.filter(|errors| !errors.kept.is_empty()) {
        control.write_all(&wire::errors(&errors.kept))?;
    }
    control.write_all(report.to_line().as_bytes())
}

/// Standard error of a command that wants it apart: its beginning is kept, the rest is read and forgotten.
struct Errors {
    pipe: io::PipeReader,
    kept: Vec<u8>,
    /// Nobody writes any more: a look at it would come back at once, again and again.
    ended: bool,
}

impl Errors {
    /// Reads what is there, without waiting.
    fn take(&mut self) {
        let mut chunk = [0; 4096];
        while let Ok(read) = self.pipe.read(&mut chunk) {
            if read == 0 {
                self.ended = true;
                return;
            }
            let room = wire::MAX_ERRORS - self.kept.len();
            self.kept.extend_from_slice(&chunk[..read.min(room)]);
        }
    }
}

fn start(order: wire::Order) -> io::Result<(Pid, Option<Errors>)> {
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    // Said apart: without this, a missing directory looks like a missing program.
    if !std::fs::metadata(&order.dir).is_ok_and(|found| found.is_dir()) {
        return Err(io::Error::other(format!("`{}` is not a directory", order.dir.display())));
    }
    let (stdin, stderr, errors) = match &order.input {
        None => (Stdio::null(), Stdio::from(output.try_clone()?), None),
        Some(input) => {
            let (pipe, theirs) = io::pipe()?;
            rustix::io::ioctl_fionbio(&pipe, true)?;
            (
                Stdio::from(file_with(input.as_bytes())?),
                Stdio::from(theirs),
                Some(Errors { pipe, kept: Vec::new(), ended: false }),
            )
        }
    };
    let child = std::process::Command::new(locate(&order))
        .arg0(&order.program)
        .args(&order.args)
        .env_clear()
        .envs(order.env)
        .current_dir(&order.dir)
        .stdin(stdin)
        .stdout(output)
        .stderr(stderr)
        // A group of its own: `kill 0` in a script must not hit the runner.
        .process_group(0)
        .spawn()?;
    Ok((Pid::from_child(&child), errors))
}

/// A file in memory: unlike a pipe it takes everything at once, whether it is read or not.
fn file_with(bytes: &[u8]) -> io::Result<std::fs::File> {
    let mut file = std::fs::File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// The program as a path, looked up where the command itself would look. Given a mere name and a changed `PATH`, the
/// standard library forks instead of spawning, which costs more than all the rest here.
fn locate(order: &wire::Order) -> OsString {
    if order.program.as_bytes().contains(&b'/') {
        return order.program.clone();
    }
    let path = order.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_os_str()).unwrap_or_default();
    let mut found = std::env::split_paths(path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(&order.program));
    let runnable = |file: &PathBuf| {
        std::fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    found.find(runnable).map_or_else(|| order.program.clone(), PathBuf::into_os_string)
}

/// Waits for the command's end or for a reason to end it. `None` when there is nobody left to report to.
fn watch(main: Pid, control: &UnixStream, errors: &mut Option<Errors>) -> Option<Report> {
    let lifeline = io::stderr();
    let pidfd = pidfd_open(main, PidfdFlags::empty()).ok();
    let mut status = None;
    let mut note = |pid: Pid, ended: WaitStatus| {
        if pid == main {
            status = Some(ended);
        }
    };
    let mut main_ended = false;
    let stopped = loop {
        let (stopped, orphaned) = wait_for_something(control, &lifeline, pidfd.as_ref(), errors.as_ref());
        if let Some(errors) = errors {
            errors.take();
        }
        tree::reap(|pid, ended| {
            main_ended |= pid == main;
            note(pid, ended);
        });
        if orphaned {
            break None;
        }
        if stopped || main_ended {
            break Some(());
        }
    };
    if !main_ended && kill_process_group(main, Signal::TERM).is_ok() {
        tree::await_ends(GRACE, &mut note);
    }
    let gone = tree::end_all(PATIENCE, note);
    stopped?;
    if let Some(errors) = errors {
        errors.take();
    }
    Some(match status {
        Some(status) => report(status),
        None if gone => Report::Signal(9),
        None => Report::Stuck,
    })
}

fn report(status: WaitStatus) -> Report {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Report::Exit(code),
        (None, Some(signal)) => Report::Signal(signal),
        (None, None) => Report::Stuck,
    }
}

/// Whether the control socket closed, and whether the lifeline hung up. Also returns when the command may have ended or
/// complained, and now and then to bury adopted processes.
fn wait_for_something(
    control: &UnixStream,
    lifeline: &impl AsFd,
    pidfd: Option<&OwnedFd>,
    errors: Option<&Errors>,
) -> (bool, bool) {
    // Without a descriptor for the command (an old kernel), look often.
    let tick = if pidfd.is_some() { Duration::from_secs(1) } else { Duration::from_millis(10) };
    let mut fds = vec![PollFd::new(control, PollFlags::IN), PollFd::new(lifeline, PollFlags::IN)];
    fds.extend(pidfd.map(|pidfd| PollFd::new(pidfd, PollFlags::IN)));
    fds.extend(errors.filter(|errors| !errors.ended).map(|errors| PollFd::new(&errors.pipe, PollFlags::IN)));
    let tick = Timespec::try_from(tick).expect("a second fits");
    if poll(&mut fds, Some(&tick)).is_err() {
        return (false, false);
    }
    // Nothing is ever sent on either after the order: any event is the end of it.
    (!fds[0].revents().is_empty(), !fds[1].revents().is_empty())
}
