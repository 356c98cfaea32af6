//! What a session has read, so that it does not write over what it has not seen.

use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Files remembered per session; beyond that the one touched longest ago is forgotten.
const MAX_FILES: usize = 2000;

/// What a session has read or written: path -> modification time and size as of then. Kept in memory only; after a
/// restart nothing has been read.
#[derive(Debug, Default)]
pub struct Seen {
    files: Mutex<Files>,
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct Files {
    stamps: HashMap<PathBuf, (Stamp, u64)>,
    clock: u64,
}

/// A file as of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    modified: Option<SystemTime>,
    size: u64,
}

impl Stamp {
    pub fn of(file: &Metadata) -> Self {
        Self { modified: file.modified().ok(), size: file.len() }
    }
}

/// What a session knows of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Never read here, or so long ago that it was forgotten.
    Unread,
    /// As it was when it was read or written last.
    Fresh,
    /// Somebody else wrote it since.
    Changed,
}

impl Seen {
    /// Remembers a file as it is now.
    pub fn note(&self, path: &Path, stamp: Stamp) {
        let mut files = lock(&self.files);
        files.clock += 1;
        let now = files.clock;
        files.stamps.insert(path.to_owned(), (stamp, now));
        if files.stamps.len() > MAX_FILES {
            let oldest = files.stamps.iter().min_by_key(|(_, (_, at))| *at).map(|(path, _)| path.clone());
            oldest.and_then(|path| files.stamps.remove(&path));
        }
    }

    pub fn state(&self, path: &Path, now: Stamp) -> State {
        match lock(&self.files).stamps.get(path) {
            None => State::Unread,
            Some((then, _)) if *then == now => State::Fresh,
            Some(_) => State::Changed,
        }
    }

    /// Held from reading a file to replacing it: two edits of one reply must not undo each other.
    pub(crate) fn writing(&self) -> MutexGuard<'_, ()> {
        lock(&self.writing)
    }
}

/// A panic elsewhere leaves nothing half-done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(size: u64) -> Stamp {
        Stamp { modified: Some(SystemTime::UNIX_EPOCH), size }
    }

    #[test]
    fn a_file_is_unread_then_fresh_then_changed() {
        let (seen, path) = (Seen::default(), Path::new("/a"));
        assert_eq!(seen.state(path, stamp(1)), State::Unread);
        seen.note(path, stamp(1));
        assert_eq!(seen.state(path, stamp(1)), State::Fresh);
        assert_eq!(seen.state(path, stamp(2)), State::Changed);
    }

    #[test]
    fn only_so_many_files_are_remembered() {
        let seen = Seen::default();
        seen.note(Path::new("/first"), stamp(0));
        seen.note(Path::new("/second"), stamp(0));
        seen.note(Path::new("/first"), stamp(0));
        for n in 0..MAX_FILES - 1 {
            seen.note(Path::new(&format!("/{n}")), stamp(0));
        }
        assert_eq!(seen.state(Path::new("/second"), stamp(0)), State::Unread);
        assert_eq!(seen.state(Path::new("/first"), stamp(0)), State::Fresh);
    }
}
