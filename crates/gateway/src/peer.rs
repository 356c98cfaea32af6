//! Who is at the other end of the Unix socket: this user, and not a command that a sandbox holds.
//!
//! The same user is not enough: a command of an agent runs as that user, and where nothing hides the socket from it, it
//! would be the owner of all sessions. What a sandbox has put on a process stays on it and on all that it starts, however
//! they detach themselves: no new privileges, and a filter of system calls. The gateway's own commands that are not
//! sandboxed have neither. So a process that has both, and more filters than this gateway, is one that somebody holds, be
//! it by this gateway, by that of another home or by another program.

use std::io;
use tokio::net::UnixStream;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Owner,
    /// Of this user, and kept in a sandbox.
    Held,
    /// Of another user, or nobody knows.
    Stranger,
}

/// Looks at peers.
pub(crate) struct Peers {
    own: Marks,
}

impl Peers {
    pub(crate) fn new() -> Self {
        Self { own: Marks::of("self").unwrap_or_default() }
    }

    /// A check that cannot run denies.
    pub(crate) fn judge(&self, stream: &UnixStream) -> Peer {
        let user = rustix::process::geteuid().as_raw();
        match stream.peer_cred() {
            Ok(peer) if peer.uid() == user => {}
            _ => return Peer::Stranger,
        }
        match self.is_held(stream) {
            Ok(false) => Peer::Owner,
            Ok(true) => Peer::Held,
            Err(error) => {
                tracing::warn!(%error, "cannot tell who connects");
                Peer::Held
            }
        }
    }

    #[cfg(target_os = "linux")]
    fn is_held(&self, stream: &UnixStream) -> io::Result<bool> {
        use nix::sys::socket::{getsockopt, sockopt::PeerPidfd};
        // A number may be another process by now; what the kernel hands out stays the one that connected.
        let peer = match getsockopt(stream, PeerPidfd) {
            Ok(peer) => Some(peer),
            // A kernel that knows no such thing.
            Err(nix::Error::ENOPROTOOPT) => None,
            Err(error) => return Err(error.into()),
        };
        let pid = match &peer {
            Some(peer) => pid_of(peer)?,
            None => stream.peer_cred()?.pid().unwrap_or(0),
        };
        if pid <= 0 {
            return Err(io::Error::other("the process that connected is gone, or of another container"));
        }
        let marks = Marks::of(&pid.to_string())?;
        if let Some(peer) = &peer
            && pid_of(peer)? != pid
        {
            return Err(io::Error::other("the process that connected is gone"));
        }
        Ok(marks.beyond(self.own))
    }

    /// Nothing holds commands on such a system.
    #[cfg(not(target_os = "linux"))]
    fn is_held(&self, _: &UnixStream) -> io::Result<bool> {
        Ok(false)
    }
}

#[cfg(target_os = "linux")]
fn pid_of(process: &impl std::os::fd::AsRawFd) -> io::Result<i32> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", process.as_raw_fd()))?;
    field(&info, "Pid:").ok_or_else(|| io::Error::other("the kernel does not say which process connected"))
}

/// What holds a process, as the kernel tells it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Marks {
    /// It and what it starts gain no privileges any more.
    humble: bool,
    /// Filters of system calls; an old kernel tells only whether there are any.
    filters: i32,
}

impl Marks {
    fn of(process: &str) -> io::Result<Self> {
        let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
        Self::read(&status).ok_or_else(|| io::Error::other("the kernel does not say what holds a process"))
    }

    fn read(status: &str) -> Option<Self> {
        let humble = field(status, "NoNewPrivs:")? != 0;
        // Two says that there are filters.
        let some = || field(status, "Seccomp:").map(|mode| i32::from(mode == 2));
        Some(Self { humble, filters: field(status, "Seccomp_filters:").or_else(some)? })
    }

    fn beyond(self, own: Self) -> bool {
        self.humble && self.filters > own.filters
    }
}

fn field(text: &str, name: &str) -> Option<i32> {
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_held_that_gains_nothing_and_has_more_filters_than_we() {
        let marks = |text: &str| Marks::read(text).unwrap();
        let free = marks("Name:\tsh\nNoNewPrivs:\t0\nSeccomp:\t0\nSeccomp_filters:\t0\n");
        let contained = marks("NoNewPrivs:\t0\nSeccomp:\t2\nSeccomp_filters:\t1\n");
        let held = marks("NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t2\n");
        let service = marks("NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t2\n");
        let old = marks("NoNewPrivs:\t1\nSeccomp:\t2\n");
        assert!(held.beyond(free) && held.beyond(contained) && old.beyond(free));
        assert!(!free.beyond(free) && !contained.beyond(free) && !contained.beyond(contained));
        assert!(!service.beyond(service), "a gateway that is held itself has commands that are");
        assert_eq!(Marks::read("Name:\tsh\n"), None);
    }
}
