//! Taking changes back: three-way, so that what others changed since stays, and never without a copy of what is there.

use super::merge::merge;
use super::{Journal, Kept, MOST, Page, Record, hash};
use crate::files::{self, Seen};
use proto::{FileState, FileUndone};
use std::collections::{BTreeMap, HashSet};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

/// Why a file is left as it is.
struct Left {
    state: FileState,
    reason: String,
}

fn conflict(reason: &str) -> Left {
    Left { state: FileState::Conflict, reason: reason.into() }
}

fn skipped(reason: impl Into<String>) -> Left {
    Left { state: FileState::Skipped, reason: reason.into() }
}

/// A file as it is now.
struct Now {
    content: Option<Vec<u8>>,
    found: Option<Metadata>,
}

/// A file as it shall be.
struct Wanted {
    content: Option<Vec<u8>>,
    mode: Option<u32>,
    merged: bool,
    /// Folders above it that come and go with it.
    folders: usize,
}

impl Journal {
    /// Takes back what was changed by `by` and says what became of each file; one that is as it was already is not named.
    /// What is changed with that is noted on the page `letter`, so that doing it again after a crash ends where it would
    /// have ended, and so that it can be taken back itself.
    pub fn take_back(&self, by: &HashSet<&str>, letter: &str, seen: &Seen) -> io::Result<Vec<FileUndone>> {
        let _alone = seen.writing();
        self.put_all_back(by, letter)
    }

    /// The same for whoever holds [`Seen`]'s lock.
    pub(crate) fn put_all_back(&self, by: &HashSet<&str>, letter: &str) -> io::Result<Vec<FileUndone>> {
        let records = self.records()?;
        let mut files: BTreeMap<PathBuf, (Vec<&Record>, Vec<&Record>)> = BTreeMap::new();
        for record in records.iter().rev() {
            let (changes, done) = files.entry(record.path.path()).or_default();
            if by.contains(record.by.as_str()) {
                changes.push(record);
            } else if record.by == letter {
                done.push(record);
            }
        }
        let file = |(path, (changes, done)): (&PathBuf, &(Vec<&Record>, Vec<&Record>))| {
            let (state, reason) = match self.put_back(path, changes, done, &self.page(letter)) {
                Ok(None) => return None,
                Ok(Some(state)) => (state, None),
                Err(left) => (left.state, Some(left.reason)),
            };
            Some(FileUndone { path: path.display().to_string(), state, reason })
        };
        Ok(files.iter().filter(|(_, (changes, _))| !changes.is_empty()).filter_map(file).collect())
    }

    /// One file; `changes` and what this page `done` already, the newest first.
    fn put_back(
        &self,
        path: &Path,
        changes: &[&Record],
        done: &[&Record],
        page: &Page,
    ) -> Result<Option<FileState>, Left> {
        let now = look(path)?;
        let found = now.content.as_deref().map(hash);
        let as_left = |record: &&&Record| is_as(record.after.as_ref(), found.as_deref());
        if let Some(how) = done.iter().find(as_left).and_then(|record| record.how) {
            return Ok(Some(how));
        }
        let mut wanted = Wanted { content: now.content.clone(), mode: None, merged: false, folders: 0 };
        for change in changes {
            wanted = self.without(change, wanted)?;
        }
        if wanted.content == now.content {
            return Ok(None);
        }
        let how = match (&now.content, &wanted.content) {
            (_, None) => FileState::Removed,
            (None, _) => FileState::Recreated,
            _ if wanted.merged => FileState::Merged,
            _ => FileState::Restored,
        };
        let page = Page { how: Some(how), ..page.clone() };
        let write = match (&wanted.content, &now.found) {
            (Some(_), None) if path.parent().map_or(0, files::missing_folders) > wanted.folders => {
                return Err(skipped("its folder is gone"));
            }
            (Some(content), found) => files::save_as(path, content, found.as_ref(), wanted.mode, &page).map(drop),
            (None, Some(found)) => files::remove(path, found, wanted.folders, &page),
            (None, None) => Ok(()),
        };
        write.map_err(|error| skipped(error.to_string()))?;
        Ok(Some(how))
    }

    /// The file as it would be if a change had not been made.
    fn without(&self, change: &Record, now: Wanted) -> Result<Wanted, Left> {
        let found = now.content.as_deref().map(hash);
        for version in [&change.before, &change.after].into_iter().flatten() {
            if version.hash.is_none() {
                return Err(skipped("it was too large to be kept"));
            }
        }
        let kept = |version: &Kept| {
            self.content(version).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => skipped("what it was is no longer kept"),
                _ => skipped(format!("what it was cannot be read: {error}")),
            })
        };
        if is_as(change.before.as_ref(), found.as_deref()) {
            return Ok(now);
        }
        let folders = now.folders.max(change.folders);
        if is_as(change.after.as_ref(), found.as_deref()) {
            let content = change.before.as_ref().map(kept).transpose()?;
            return Ok(Wanted { content, mode: change.before.as_ref().map(|before| before.mode), folders, ..now });
        }
        let (Some(before), Some(after)) = (&change.before, &change.after) else {
            return Err(conflict(match change.before {
                None => "it was changed since it was made",
                Some(_) => "it was made anew since it was removed",
            }));
        };
        let Some(ours) = &now.content else { return Err(conflict("it was removed since")) };
        let texts = (String::from_utf8(kept(after)?), std::str::from_utf8(ours), String::from_utf8(kept(before)?));
        let (Ok(base), Ok(ours), Ok(theirs)) = texts else {
            return Err(conflict("it was changed since, and is not text that could be merged"));
        };
        let merged = merge(&base, ours, &theirs).ok_or_else(|| conflict("the same lines were changed since"))?;
        Ok(Wanted { content: Some(merged.into_bytes()), merged: true, folders, ..now })
    }
}

/// Whether a file with this content, or none, is that version.
fn is_as(version: Option<&Kept>, found: Option<&str>) -> bool {
    version.map(|version| version.hash.as_deref()) == found.map(Some)
}

/// The file where it was changed, and nowhere else: a link in its way may lead out of the workspace.
fn look(path: &Path) -> Result<Now, Left> {
    let leads = files::resolve(path, Path::new("/"));
    if leads != path {
        return Err(skipped(format!("its path leads to `{}` now", leads.display())));
    }
    let cannot = |error: io::Error| skipped(format!("it cannot be read: {error}"));
    let Some(found) = files::found(path).map_err(cannot)? else { return Ok(Now { content: None, found: None }) };
    if !found.is_file() {
        return Err(skipped("it is no plain file any more"));
    }
    if found.len() > MOST as u64 {
        return Err(skipped("it is too large now to be kept"));
    }
    let content = files::contents(path).map_err(|error| skipped(error.to_string()))?;
    Ok(Now { content: Some(content), found: Some(found) })
}
