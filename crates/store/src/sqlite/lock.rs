//! One process per state directory: a lock that the kernel takes back when its holder dies, however it dies.

use super::fault::Place;
use crate::Error;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

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
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(held(place.dir(), &mut file)),
            Err(error) => return Err(refused(error.into())),
        }
        sign(&mut file).map_err(refused)?;
        Ok(Self { _file: file })
    }
}

/// The pid is for messages only; the lock itself is the kernel's.
fn sign(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn held(dir: &Path, file: &mut File) -> Error {
    let mut text = String::new();
    // A holder that has not signed yet, or a file that does not read: the name is a courtesy, so go without it.
    let holder = match file.take(32).read_to_string(&mut text) {
        Ok(_) => text.trim().parse().ok(),
        Err(_) => None,
    };
    Error::Locked { path: dir.display().to_string(), holder }
}
