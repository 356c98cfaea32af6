//! One at a time: whoever makes, removes or restores a worktree of a repository holds this lock of the kernel's, which
//! dies with its holder. So what looks half made is never somebody else's work under way.

use proto::{Code, Error};
use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// How long another one may take: a large checkout on a slow disk.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(20);

/// Held until it is dropped.
pub(super) struct Lock {
    _file: File,
}

/// An agent may have put something else there: neither a pipe that waits nor a link is opened.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a plain file")) }
}

/// Waits for the lock of the repository whose git directory this is.
pub(super) async fn take(common: &Path) -> Result<Lock, Error> {
    let path = common.join("convoke-worktrees.lock");
    let file = open(&path).map_err(|error| {
        Error::new(Code::Unavailable, format!("cannot write `{}`: {error}", path.display()))
            .hint("make the repository writable, and remove what is there if it is not a plain file")
    })?;
    let end = Instant::now() + PATIENCE;
    while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() >= end {
            let why = "another worktree of this repository is being made or removed, and does not come to its end";
            return Err(Error::unavailable(why, 1000));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(Lock { _file: file })
}
