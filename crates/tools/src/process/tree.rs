//! The descendants of this process: finding them and ending them.

#![expect(clippy::disallowed_methods, reason = "what the kernel tells of processes")]

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

/// Takes the ends of children that have died. `false` when there are no children left.
pub(super) fn reap(mut died: impl FnMut(Pid, WaitStatus)) -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => died(pid, status),
            Ok(None) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Waits for every descendant to end by itself, but not for long.
pub(super) fn await_ends(patience: Duration, mut died: impl FnMut(Pid, WaitStatus)) {
    let deadline = Instant::now() + patience;
    while reap(&mut died) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Ends every descendant, however it tried to get away: what loses its parent becomes a child of this process, which
/// is a subreaper. `false` when some would not die in time (stuck in the kernel, or another user's).
pub(super) fn end_all(patience: Duration, mut died: impl FnMut(Pid, WaitStatus)) -> bool {
    let deadline = Instant::now() + patience;
    let mut pause = Duration::from_micros(100);
    while reap(&mut died) {
        if Instant::now() > deadline {
            return false;
        }
        kill_below(getpid(), |_| false);
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
    true
}

/// Kills what is below `root`, except the direct children to spare and what is below those. Whether there was anything.
pub(super) fn kill_below(root: Pid, spare: impl Fn(Pid) -> bool) -> bool {
    let mut waiting: Vec<Pid> = children(root).into_iter().filter(|child| !spare(*child)).collect();
    let mut seen: BTreeSet<i32> = waiting.iter().map(|pid| pid.as_raw_nonzero().get()).collect();
    let any = !waiting.is_empty();
    while let Some(pid) = waiting.pop() {
        // Children first: once their parent is dead they are elsewhere.
        let below = children(pid).into_iter().filter(|child| seen.insert(child.as_raw_nonzero().get()));
        waiting.extend(below);
        let _ = kill_process(pid, Signal::KILL);
    }
    any
}

fn children(pid: Pid) -> Vec<Pid> {
    listed(pid).unwrap_or_else(|| scanned(pid))
}

/// As the kernel lists them, for every thread that may have forked. `None` where it keeps no such list.
fn listed(pid: Pid) -> Option<Vec<Pid>> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).into_iter().flatten().flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(list) => found.extend(list.split_ascii_whitespace().filter_map(parse_pid)),
            Err(_) if pid == getpid() => return None,
            // That thread ended meanwhile; the next pass finds what it left.
            Err(_) => {}
        }
    }
    Some(found)
}

/// By asking every process for its parent.
fn scanned(parent: Pid) -> Vec<Pid> {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(parse_pid) else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        if let Some(parent) = parent_in(&stat) {
            parents.insert(pid.as_raw_nonzero().get(), (pid, parent));
        }
    }
    parents.into_values().filter(|(_, of)| *of == parent).map(|(pid, _)| pid).collect()
}

/// The parent named in a line of `/proc/<pid>/stat`, whose second field is a name that may hold anything.
fn parent_in(stat: &str) -> Option<Pid> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1).and_then(parse_pid)
}

fn parse_pid(text: &str) -> Option<Pid> {
    text.parse().ok().filter(|pid| *pid > 0).and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_looking_find_a_child() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = parse_pid(&child.id().to_string()).unwrap();
        assert!(children(getpid()).contains(&pid));
        assert!(scanned(getpid()).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_name_with_brackets_does_not_confuse() {
        assert_eq!(parent_in("12 (a) b) S 34 12 12"), Pid::from_raw(34));
        assert_eq!(parent_in("12 (init) S 0 1"), None);
    }
}
