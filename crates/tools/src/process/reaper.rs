//! `convoke reaper`: starts runners for the gateway and ends everything when the gateway is gone.
//!
//! One thread, so that nothing depends on which thread forked; no locks; its standard input is the socket to the gateway.

use super::tree;
use super::wire::{NOTE, Note, Report};
use crate::sandbox;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, set_child_subreaper, setsid};
use std::ffi::OsString;
use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Until the gateway has said how often it feeds.
const FIRST_FEED: Duration = Duration::from_secs(10);
/// How long runners may take to end their own calls before they are ended from here.
const PATIENCE: Duration = Duration::from_secs(3);

/// What the hidden subcommand does. Plain blocking code: no runtime is started.
pub fn reaper_main() -> ExitCode {
    let mut words = std::env::args_os().skip(2);
    let inside = words.next().is_some_and(|word| word == sandbox::INSIDE);
    match confined(inside, words) {
        Ok(true) => {}
        Ok(false) => return ExitCode::SUCCESS,
        Err(why) => {
            // Whoever started this reads it; else it goes nowhere.
            let _ = writeln!(io::stderr(), "{why}");
            return ExitCode::FAILURE;
        }
    }
    match serve(inside) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Whether to go on. Descriptors first: what a sandbox takes away stays open in those that are open already.
fn confined(inside: bool, words: impl Iterator<Item = OsString>) -> Result<bool, String> {
    close_inherited();
    if inside { sandbox::enter(words) } else { Ok(true) }
}

fn serve(inside: bool) -> io::Result<()> {
    // Not of the gateway's session: an interrupt typed at its terminal is for the gateway to handle.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    let (hangs_up, held) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut reaper = Server {
        socket: io::stdin().as_fd().try_clone_to_owned()?,
        lifeline: hangs_up,
        runners: Vec::new(),
        deadline: Instant::now() + FIRST_FEED,
        strays: false,
    };
    if inside {
        rustix::net::send(&reaper.socket, b"s", SendFlags::NOSIGNAL)?;
    }
    while reaper.turn().is_continue() {}
    // Every runner sees this and ends its own call, all at once.
    drop(held);
    reaper.end();
    Ok(())
}

/// Closes what whoever started the gateway left open: ours are closed by exec, those would reach every tool.
fn close_inherited() {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // One of them was the listing itself, and is closed by now.
        let _ = nix::unistd::close(number);
    }
}

struct Server {
    socket: OwnedFd,
    /// The end runners get.
    lifeline: OwnedFd,
    runners: Vec<Runner>,
    deadline: Instant,
    /// Adopted processes are still about: look again soon.
    strays: bool,
}

struct Runner {
    id: u64,
    pid: Pid,
    pidfd: Option<OwnedFd>,
}

impl Server {
    fn turn(&mut self) -> ControlFlow<()> {
        self.wait();
        // Letters before the deadline: a reaper that was stopped itself finds its food waiting.
        while let Some(read) = self.receive()? {
            self.obey(read);
        }
        self.bury();
        if Instant::now() > self.deadline { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn wait(&self) {
        let tick = if self.strays { Duration::from_millis(20) } else { Duration::from_secs(1) };
        let tick = tick.min(self.deadline.saturating_duration_since(Instant::now()));
        let mut fds = vec![PollFd::new(&self.socket, PollFlags::IN)];
        fds.extend(self.runners.iter().filter_map(|runner| Some(PollFd::new(runner.pidfd.as_ref()?, PollFlags::IN))));
        let tick = Timespec::try_from(tick).expect("a second fits");
        let _ = poll(&mut fds, Some(&tick));
    }

    /// The next note and what came with it; `None` when there is none yet; a break when the gateway is gone.
    fn receive(&self) -> ControlFlow<(), Option<(Note, Vec<OwnedFd>)>> {
        let mut bytes = [0; NOTE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = match recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Ok(received) if received.bytes == 0 => return ControlFlow::Break(()),
            Ok(received) => received.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return ControlFlow::Continue(None),
            Err(_) => return ControlFlow::Break(()),
        };
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        match Note::parse(&bytes[..received]) {
            Some(note) => ControlFlow::Continue(Some((note, fds))),
            // Only a gateway of another version talks differently; starting over is safer than guessing.
            None => ControlFlow::Break(()),
        }
    }

    fn obey(&mut self, (note, fds): (Note, Vec<OwnedFd>)) {
        match note {
            Note::Feed(ms) => self.deadline = Instant::now() + Duration::from_millis(ms),
            Note::Run(id) => self.start(id, fds),
            Note::Kill(id) => {
                if let Some(runner) = self.runners.iter().find(|runner| runner.id == id) {
                    let _ = kill_process(runner.pid, Signal::KILL);
                }
            }
        }
    }

    fn start(&mut self, id: u64, fds: Vec<OwnedFd>) {
        let Ok([control, output]) = <[OwnedFd; 2]>::try_from(fds) else { return };
        let Ok(complain_to) = control.try_clone() else { return };
        match self.spawn(control, output) {
            Ok(pid) => {
                let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok();
                self.runners.push(Runner { id, pid, pidfd });
            }
            Err(error) => {
                let report = Report::Refused(format!("no process for it: {error}"));
                let _ = UnixStream::from(complain_to).write_all(report.to_line().as_bytes());
            }
        }
    }

    fn spawn(&self, control: OwnedFd, output: OwnedFd) -> io::Result<Pid> {
        // This very program, even when its file was replaced by a newer one meanwhile.
        let child = Command::new("/proc/self/exe")
            .arg0("convoke")
            .arg("runner")
            .stdin(control)
            .stdout(output)
            .stderr(self.lifeline.try_clone()?)
            .spawn()?;
        Ok(Pid::from_child(&child))
    }

    /// Takes note of runners that ended, and ends what a killed one left behind.
    fn bury(&mut self) {
        let runners = &mut self.runners;
        let mut died = false;
        let any = tree::reap(|pid, _| {
            died = true;
            runners.retain(|runner| runner.pid != pid);
        });
        // Processes are only adopted when one dies, so that is when to look.
        self.strays = any
            && (died || self.strays)
            && tree::kill_below(getpid(), |pid| self.runners.iter().any(|runner| runner.pid == pid));
    }

    fn end(mut self) {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && !self.runners.is_empty() {
            self.bury();
            std::thread::sleep(Duration::from_millis(2));
        }
        tree::end_all(PATIENCE, |_, _| {});
    }
}
