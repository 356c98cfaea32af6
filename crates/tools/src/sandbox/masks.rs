//! Stand-ins for protected paths that do not exist: a sandbox can only lay something over what is there.
//!
//! A stand-in is an empty directory, since removing one can never remove somebody's work, and git does not see it. It
//! exists while a sandbox needs it. Two files it is not: git fails over a directory in their place, so it is a file that
//! says nothing. Their names are on a list before they are made, so that a gateway that was killed leaves nothing for
//! good: the next one clears the list.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Settings of a worktree alone.
pub(super) const SETTINGS: &str = "config.worktree";
/// Leads to the very directory it is in, as if it were not there.
const ITSELF: &str = ".\n";

/// What stands in for a path when it is a file.
pub(super) fn text_for(path: &Path) -> Option<&'static str> {
    match () {
        () if path.ends_with(SETTINGS) => Some(""),
        () if path.ends_with(super::git::COMMON) => Some(ITSELF),
        () => None,
    }
}

/// Whether this is nothing but a stand-in.
pub(super) fn is_empty(path: &Path) -> bool {
    let Some(text) = text_for(path) else {
        return fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    };
    let same_length = |found: fs::Metadata| found.is_file() && usize::try_from(found.len()) == Ok(text.len());
    fs::symlink_metadata(path).is_ok_and(same_length)
        && foreign::read(path, text.len() as u64).is_ok_and(|found| found == text.as_bytes())
}

fn make(path: &Path) -> io::Result<()> {
    let made = match text_for(path) {
        Some(text) => make_file(path, text),
        None => fs::create_dir(path),
    };
    made.or_else(|error| if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) })
}

/// Whole or not at all: somebody may read it at any time. What agents put in its way is not opened.
fn make_file(path: &Path, text: &str) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let folder = foreign::Folder::open(folder)?;
    if folder.look(name).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    match folder.create_nameless() {
        Ok(mut file) => file.write_all(text.as_bytes()).and_then(|()| folder.name(&file, name)),
        Err(_) => foreign::replace(path, text.as_bytes()),
    }
}

/// One that somebody put something into is theirs.
fn remove(path: &Path) {
    let _ = match text_for(path) {
        Some(_) if is_empty(path) => fs::remove_file(path),
        Some(_) => Ok(()),
        None => fs::remove_dir(path),
    };
}

/// The list of stand-ins: a path for each, and there are few.
const MOST: u64 = 4 << 20;

pub(crate) struct Masks {
    list: PathBuf,
    /// How many sandboxes need each.
    held: Mutex<BTreeMap<PathBuf, usize>>,
}

/// Keeps one stand-in in place.
pub(crate) struct Mask {
    path: PathBuf,
    of: Arc<Masks>,
}

impl Masks {
    /// Removes what a predecessor left.
    pub(crate) fn open(list: PathBuf) -> Arc<Self> {
        for path in
            foreign::read(&list, MOST).unwrap_or_default().split(|byte| *byte == 0).filter(|path| !path.is_empty())
        {
            remove(Path::new(&std::ffi::OsString::from_vec(path.to_vec())));
        }
        let _ = fs::remove_file(&list);
        Arc::new(Self { list, held: Mutex::default() })
    }

    /// Whether this is a stand-in of ours.
    pub(crate) fn made(&self, path: &Path) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).contains_key(path)
    }

    pub(crate) fn hold(self: &Arc<Self>, path: &Path) -> io::Result<Mask> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        *held.entry(path.to_owned()).or_default() += 1;
        let mask = Mask { path: path.to_owned(), of: Arc::clone(self) };
        let made = write(&self.list, &held).and_then(|()| make(path));
        // Before the mask is dropped, which takes it as well.
        drop(held);
        made.map(|()| mask)
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        let mut held = self.of.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = held.get_mut(&self.path) else { return };
        *count -= 1;
        if *count == 0 {
            held.remove(&self.path);
            remove(&self.path);
            let _ = write(&self.of.list, &held);
        }
    }
}

fn write(list: &Path, held: &BTreeMap<PathBuf, usize>) -> io::Result<()> {
    if held.is_empty() {
        return fs::remove_file(list);
    }
    let mut text = Vec::new();
    for path in held.keys() {
        text.extend_from_slice(path.as_os_str().as_bytes());
        text.push(0);
    }
    let fresh = list.with_extension("new");
    fs::write(&fresh, text)?;
    fs::rename(fresh, list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stand_in_goes_with_the_last_who_needs_it() {
        let dir = tempfile::tempdir().unwrap();
        let (masks, path) = (Masks::open(dir.path().join("masks")), dir.path().join(".convoke"));
        let one = masks.hold(&path).unwrap();
        let two = masks.hold(&path).unwrap();
        assert!(path.is_dir() && masks.made(&path));
        drop(one);
        assert!(path.is_dir());
        drop(two);
        assert!(!path.exists() && !masks.made(&path) && !dir.path().join("masks").exists());
    }

    #[test]
    fn what_somebody_put_something_into_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (masks, path) = (Masks::open(dir.path().join("masks")), dir.path().join(".convoke"));
        let mask = masks.hold(&path).unwrap();
        fs::write(path.join("convoke.json"), "{}").unwrap();
        drop(mask);
        assert!(path.join("convoke.json").exists());
    }

    #[test]
    fn settings_of_a_worktree_have_a_file_stand_in() {
        let dir = tempfile::tempdir().unwrap();
        let (masks, path) = (Masks::open(dir.path().join("masks")), dir.path().join(SETTINGS));
        let mask = masks.hold(&path).unwrap();
        assert!(path.is_file() && is_empty(&path));
        drop(mask);
        assert!(!path.exists());
        let mask = masks.hold(&path).unwrap();
        fs::write(&path, "[core]").unwrap();
        assert!(!is_empty(&path));
        drop(mask);
        assert!(path.exists());
    }

    #[test]
    fn what_leads_elsewhere_has_a_stand_in_that_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let (masks, path) = (Masks::open(dir.path().join("masks")), dir.path().join("commondir"));
        let mask = masks.hold(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), ".\n");
        assert!(is_empty(&path));
        drop(mask);
        assert!(!path.exists() && fs::read_dir(dir.path()).unwrap().count() == 0);
        let mask = masks.hold(&path).unwrap();
        fs::write(&path, "..").unwrap();
        drop(mask);
        assert!(path.exists());
    }

    #[test]
    fn the_next_one_clears_up_after_one_that_was_killed() {
        let dir = tempfile::tempdir().unwrap();
        let (list, path) = (dir.path().join("masks"), dir.path().join("a\nb"));
        let masks = Masks::open(list.clone());
        let mask = masks.hold(&path).unwrap();
        // A killed process runs no destructor.
        let killed = std::mem::ManuallyDrop::new(mask);
        assert!(killed.path.is_dir());
        Masks::open(list.clone());
        assert!(!path.exists() && !list.exists());
    }

    #[test]
    fn where_none_can_be_made_nothing_is_held() {
        let dir = tempfile::tempdir().unwrap();
        let masks = Masks::open(dir.path().join("masks"));
        let path = dir.path().join("no such/thing");
        assert!(masks.hold(&path).is_err());
        assert!(!masks.made(&path));
    }
}
