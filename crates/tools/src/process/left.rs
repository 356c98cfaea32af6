//! What is left of a gateway that was killed together with its reaper and its runners: nobody was there any more to end its
//! commands. Each carries the mark of its home and its gateway in its environment, and the next gateway ends them.

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use std::path::{Path, PathBuf};

/// The variable that holds the mark.
const NAME: &str = "CONVOKE_COMMAND_OF";

/// Times everything is looked at: what is about to start another process may do so in between.
const ROUNDS: usize = 10;

/// Tells the commands of one gateway from those of its predecessors, and from those of other homes.
#[derive(Debug, Clone)]
pub struct Mark {
    home: String,
    gateway: String,
}

impl Mark {
    /// Of this process, which must be the only gateway of that home.
    pub fn new(home: &Path) -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self { home: home.display().to_string(), gateway: format!("{}.{}", std::process::id(), since.as_nanos()) }
    }

    pub(super) fn variable(&self) -> (String, String) {
        (NAME.into(), format!("{}:{}", self.gateway, self.home))
    }

    /// Ends what earlier gateways of this home left running. How many processes that were.
    pub fn end_left_behind(&self) -> usize {
        let mut ended = 0;
        for _ in 0..ROUNDS {
            let round = processes().filter(|pid| self.end(*pid)).count();
            ended += round;
            if round == 0 {
                break;
            }
        }
        ended
    }

    fn end(&self, pid: Pid) -> bool {
        // A gateway that a command of the last one started carries that one's mark itself.
        if pid == getpid() || !self.is_left(pid) {
            return false;
        }
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        // The number may be another process by now; what was opened is what is looked at from here on.
        self.is_left(pid) && pidfd_send_signal(&process, Signal::KILL).is_ok()
    }

    /// Of this home, and of another gateway. Processes of other users cannot be read, and one that was ended has nothing
    /// to read any more.
    #[expect(clippy::disallowed_methods, reason = "what the kernel tells of processes")]
    fn is_left(&self, pid: Pid) -> bool {
        let file = PathBuf::from(format!("/proc/{}/environ", pid.as_raw_nonzero()));
        let Ok(text) = std::fs::read(file) else { return false };
        let value =
            text.split(|byte| *byte == 0).find_map(|pair| pair.strip_prefix(NAME.as_bytes())?.strip_prefix(b"="));
        let Some((gateway, home)) = value.and_then(|value| str::from_utf8(value).ok()?.split_once(':')) else {
            return false;
        };
        home == self.home && gateway != self.gateway
    }
}

fn processes() -> impl Iterator<Item = Pid> {
    let listed = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    listed.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn only_commands_of_earlier_gateways_of_this_home_are_ended() {
        let here = tempfile::tempdir().unwrap();
        let (ours, other) = (Mark::new(here.path()), Mark::new(Path::new("/another/home")));
        let before = Mark { gateway: "1.1".into(), ..ours.clone() };
        let start = |mark: &Mark| {
            let mut command = std::process::Command::new("sleep");
            command.arg("100").envs([mark.variable()]).spawn().unwrap()
        };
        let (mut left, mut new, mut foreign) = (start(&before), start(&ours), start(&other));
        // Between fork and exec it has our environment.
        while ours.end_left_behind() == 0 {}
        assert_eq!(left.wait().unwrap().signal(), Some(9));
        for child in [&mut new, &mut foreign] {
            assert_eq!(child.try_wait().unwrap(), None);
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
