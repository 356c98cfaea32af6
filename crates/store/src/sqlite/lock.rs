//! One process per state directory: a lock that the kernel takes back when its holder dies, however it dies.

use super::fault::Place;
use crate::Error;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, test_kill_process};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a lock is waited for whose holder is gone. A process that was killed while it started another shares the lock
/// with that one until its exec; longer than this, somebody else must have it.
const ORPHANED: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(2);

/// Held for as long as the store may write.
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn take(place: &Place) -> Result<Self, Error> {
        let path = place.dir().join("lock");
        let refused = |error: std::io::Error| place.refused("cannot take the lock", &error);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(refused)?;
        let deadline = Instant::now() + ORPHANED;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let holder = holder(&mut file);
                    if !holder.is_some_and(is_gone) || Instant::now() > deadline {
                        return Err(Error::Locked { path: place.dir().display().to_string(), holder });
                    }
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(refused(error.into())),
            }
        }
        sign(&mut file).map_err(refused)?;
        Ok(Self { _file: file })
    }
}

/// The process that has a state directory: it holds the lock now and has signed it. The pid alone would prove nothing,
/// since it may be somebody else's by now.
pub fn holder_of(dir: &Path) -> Option<u32> {
    let mut file = File::open(dir.join("lock")).ok()?;
    if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        // Nobody has it; ours goes with the file.
        return None;
    }
    holder(&mut file).filter(|pid| has_open(*pid, &file))
}

/// Whether a process has this very file open. Where that cannot be seen, its signature has to do.
fn has_open(pid: u32, file: &File) -> bool {
    let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return !Path::new("/proc/self/fd").exists() };
    let Ok(ours) = file.metadata() else { return false };
    let same = |meta: std::fs::Metadata| (meta.dev(), meta.ino()) == (ours.dev(), ours.ino());
    open.flatten().any(|entry| std::fs::metadata(entry.path()).is_ok_and(same))
}

/// The pid is for messages and for [`holder_of`]; the lock itself is the kernel's.
fn sign(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// Who signed, if anybody has: one that has not yet, or a file that does not read, is nobody.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().and_then(|()| file.take(32).read_to_string(&mut text)).ok()?;
    text.trim().parse().ok()
}

fn is_gone(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory whose lock somebody holds, signed with this pid.
    fn held_by(pid: u32) -> (tempfile::TempDir, File) {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("lock")).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        writeln!(&file, "{pid}").unwrap();
        (dir, file)
    }

    #[test]
    fn a_lock_whose_holder_died_is_waited_for() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let (dir, file) = held_by(child.id());
        let place = Place::new(dir.path());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| Lock::take(&place).map(drop));
            // Several tries long: nothing tells from outside that it has tried.
            std::thread::sleep(PAUSE * 10);
            assert!(!waits.is_finished());
            drop(file);
            waits.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_living_holder_is_named_at_once() {
        let (dir, _file) = held_by(std::process::id());
        let start = Instant::now();
        let error = Lock::take(&Place::new(dir.path())).map(drop).unwrap_err();
        assert!(matches!(error, Error::Locked { holder: Some(pid), .. } if pid == std::process::id()), "{error}");
        assert!(start.elapsed() < ORPHANED);
        assert_eq!(holder_of(dir.path()), Some(std::process::id()));
    }

    #[test]
    fn a_signature_without_the_lock_or_of_another_process_is_nobody() {
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (dir, file) = held_by(other.id());
        assert_eq!(holder_of(dir.path()), None, "that process never opened it");
        other.kill().and_then(|()| other.wait()).unwrap();
        drop(file);
        std::fs::write(dir.path().join("lock"), std::process::id().to_string()).unwrap();
        assert_eq!(holder_of(dir.path()), None, "nobody holds it");
        assert_eq!(holder_of(Path::new("/nowhere")), None);
    }
}
