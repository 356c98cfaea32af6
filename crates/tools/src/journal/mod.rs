//! What files were before a session changed them, so that it can be undone.
//!
//! A session's journal is a folder of its own, outside of every workspace: copies of files by their content (`files/`),
//! and one line for each change, in the order they were made (`changes`). Both are on disk before the file is changed, so
//! that a crash between any two lines leaves either no change or one that can be undone, whether or not anybody heard of
//! the call's end. An undo changes files too, and is kept in the same way: that is what a redo goes back by.

mod back;
mod merge;
#[cfg(test)]
mod tests;

use proto::FileState;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Larger files are changed and not kept: what a person edits is smaller.
pub(crate) const MOST: usize = 16 << 20;

/// A journal that nobody wrote to for so long is forgotten: who wants last month's files back has other means.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// Copies that one session keeps; then those it touched longest ago go, until half is left. A session that changes a
/// file of ordinary size a hundred thousand times does not get there.
const ROOM: u64 = 1 << 30;

/// No line is longer: a path has 4096 bytes at most, and each may be four characters.
const LONGEST_LINE: u64 = 64 << 10;

/// A session's journal. What is written by one is written one at a time: by whoever holds [`crate::files::Seen`]'s lock.
#[derive(Debug, Clone)]
pub struct Journal {
    dir: PathBuf,
}

/// Where one call, undo or redo notes what it changes.
#[derive(Debug, Clone)]
pub struct Page {
    journal: Journal,
    by: String,
    /// What an undo makes of the file.
    how: Option<FileState>,
}

/// One change, as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    /// The call, or the letter that asked for an undo.
    by: String,
    path: Name,
    /// Without one, there was no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<Kept>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<Kept>,
    /// Folders above it that were made for it, or that go with it.
    #[serde(default, skip_serializing_if = "is_zero")]
    folders: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    how: Option<FileState>,
    /// Bytes of all copies so far.
    #[serde(default)]
    kept: u64,
}

/// A file as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// Of its content; without one it was too large to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    mode: u32,
}

/// A path, which need not be text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
enum Name {
    Text(String),
    Bytes(Vec<u8>),
}

/// A file as it is: content, unless that is too large to be kept, and mode.
pub(crate) type Version<'a> = (Option<&'a [u8]>, u32);

/// What is about to be done to a file.
pub(crate) struct Change<'a> {
    pub(crate) path: &'a Path,
    pub(crate) before: Option<Version<'a>>,
    pub(crate) after: Option<Version<'a>>,
    pub(crate) folders: usize,
}

impl Journal {
    /// The journal of the session that is named so, below `root`.
    pub fn of(root: &Path, session: &proto::SessionId) -> Self {
        Self { dir: root.join(session.as_str()) }
    }

    /// The page of a call, or of the letter that asks for an undo.
    pub fn page(&self, by: impl Into<String>) -> Page {
        Page { journal: self.clone(), by: by.into(), how: None }
    }

    /// Forgets all of it.
    pub fn forget(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// Forgets the journals below `root` that nobody has written to for long.
    pub fn sweep(root: &Path, now: SystemTime) {
        let entries = fs::read_dir(root).into_iter().flatten().flatten();
        for dir in entries.map(|entry| entry.path()) {
            let written =
                fs::metadata(dir.join("changes")).or_else(|_| fs::metadata(&dir)).and_then(|at| at.modified());
            let old = written.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > KEPT));
            if old && let Err(error) = (Self { dir: dir.clone() }).forget() {
                tracing::warn!(journal = %dir.display(), %error, "an old journal cannot be removed");
            }
        }
    }

    /// Every change, the oldest first. A line that a crash cut off belongs to a change that was not made.
    fn records(&self) -> io::Result<Vec<Record>> {
        let file = match foreign::file(&self.dir.join("changes")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file?,
        };
        let lines = BufReader::new(file).split(b'\n').collect::<io::Result<Vec<_>>>()?;
        Ok(lines.iter().filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }

    /// A copy on the disk, by its content and so once. Adds what it takes to `kept`.
    fn keep(&self, (content, mode): Version<'_>, kept: &mut u64) -> io::Result<Kept> {
        let Some(content) = content.filter(|content| content.len() <= MOST) else {
            return Ok(Kept { hash: None, mode });
        };
        let (hash, files) = (hash(content), self.dir.join("files"));
        let path = files.join(&hash);
        if let Ok(known) = OpenOptions::new().write(true).open(&path) {
            known.set_modified(SystemTime::now())?;
        } else {
            make(&files)?;
            // Whole before it has its name, which is never given twice.
            let draft = files.join(format!("{hash}.{}", std::process::id()));
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&draft, &path)?;
            sync(&files)?;
            *kept += content.len() as u64;
        }
        Ok(Kept { hash: Some(hash), mode })
    }

    fn content(&self, version: &Kept) -> io::Result<Vec<u8>> {
        let hash = version.hash.as_ref().ok_or(io::ErrorKind::NotFound)?;
        foreign::read(&self.dir.join("files").join(hash), MOST as u64)
    }

    /// Bytes of all copies, as the newest line says.
    fn kept(&self) -> io::Result<u64> {
        let mut file = match foreign::file(&self.dir.join("changes")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            file => file?,
        };
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LONGEST_LINE)))?;
        let mut end = Vec::new();
        file.read_to_end(&mut end)?;
        let newest =
            end.split(|byte| *byte == b'\n').rev().find_map(|line| serde_json::from_slice::<Record>(line).ok());
        Ok(newest.map_or(0, |record| record.kept))
    }

    /// Forgets copies, those touched longest ago first, until no more than `most` bytes are left. Who wants one of them
    /// back is told that it is gone.
    fn make_room(&self, most: u64) -> io::Result<u64> {
        let mut copies = Vec::new();
        for file in fs::read_dir(self.dir.join("files"))? {
            let (path, found) = file.and_then(|file| Ok((file.path(), file.metadata()?)))?;
            copies.push((found.modified()?, found.len(), path));
        }
        copies.sort_unstable();
        let mut left: u64 = copies.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in copies {
            if left <= most {
                break;
            }
            fs::remove_file(path)?;
            left -= size;
        }
        Ok(left)
    }

    fn append(&self, record: &Record) -> io::Result<()> {
        make(&self.dir)?;
        let path = self.dir.join("changes");
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        if !ends_with_a_line(&mut file)? {
            line.insert(0, b'\n');
        }
        file.write_all(&line)?;
        file.sync_all()?;
        sync(&self.dir)
    }
}

impl Page {
    /// Keeps what a file is and what it is about to become. On disk when this returns; only then may it be changed.
    pub(crate) fn note(&self, change: &Change<'_>) -> io::Result<()> {
        let mut kept = self.journal.kept()?;
        if kept > ROOM {
            kept = self.journal.make_room(ROOM / 2)?;
        }
        let mut keep = |version: Option<Version<'_>>| version.map(|it| self.journal.keep(it, &mut kept)).transpose();
        let (before, after) = (keep(change.before)?, keep(change.after)?);
        let (by, path, folders, how) = (self.by.clone(), Name::of(change.path), change.folders, self.how);
        self.journal.append(&Record { by, path, before, after, folders, how, kept })
    }
}

impl Name {
    fn of(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes(path.as_os_str().as_bytes().to_vec()),
        }
    }

    fn path(&self) -> PathBuf {
        match self {
            Self::Text(text) => text.into(),
            Self::Bytes(bytes) => OsString::from_vec(bytes.clone()).into(),
        }
    }
}

fn hash(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether what is there ends a line: a crash may have cut the last one off.
fn ends_with_a_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// A folder for this user only, kept with its name.
fn make(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    // Its own folder may be new as well.
    dir.ancestors().skip(1).take(2).try_for_each(sync)
}

/// A new name is kept once its folder is.
#[expect(clippy::disallowed_methods, reason = "a folder of our own, to be kept")]
fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}
