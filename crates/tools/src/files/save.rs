//! Writing a file whole or not at all.

use super::{Stamp, missing};
use crate::Error;
use crate::journal::{Change, Page};
use std::fs::{self, File, Metadata, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Puts `bytes` in the place of a file, which must still be as `before` says (`None`: not there). Makes the folders
/// above it, keeps mode and owner. What it was is in the journal first. Returns the file as it is then.
pub(crate) fn save(path: &Path, bytes: &[u8], before: Option<&Metadata>, page: &Page) -> Result<Stamp, Error> {
    save_as(path, bytes, before, None, page)
}

/// The same, with a mode for a file that is not there.
pub(crate) fn save_as(
    path: &Path,
    bytes: &[u8],
    before: Option<&Metadata>,
    mode: Option<u32>,
    page: &Page,
) -> Result<Stamp, Error> {
    let cannot = |error: io::Error| Error::tell(format!("cannot write `{}`: {error}", path.display()));
    let parent = path.parent().ok_or_else(|| Error::tell(format!("`{}` is not a file", path.display())))?;
    let after = (bytes, before.map(mode_of).or(mode).unwrap_or(0o644));
    note(path, before, Some(after), missing_folders(parent), page)?;
    fs::create_dir_all(parent).map_err(cannot)?;
    let temporary = Temporary(parent.join(temporary_name(path)));
    fill(&temporary.0, bytes, before, mode).map_err(cannot)?;
    // As late as can be: whoever wrote it since would lose their work.
    unchanged(path, before)?;
    fs::rename(&temporary.0, path).map_err(cannot)?;
    fs::metadata(path).map(|now| Stamp::of(&now)).map_err(cannot)
}

/// Removes a file, which must still be as `before` says, and so many folders above it, if nothing else is in them. What
/// it was is in the journal first.
pub(crate) fn remove(path: &Path, before: &Metadata, folders: usize, page: &Page) -> Result<(), Error> {
    note(path, Some(before), None, folders, page)?;
    unchanged(path, Some(before))?;
    fs::remove_file(path).map_err(|error| Error::tell(format!("cannot remove `{}`: {error}", path.display())))?;
    path.ancestors().skip(1).take(folders).all(|folder| fs::remove_dir(folder).is_ok());
    Ok(())
}

/// The one place where it is kept what a file was. What cannot be kept is not changed.
fn note(
    path: &Path,
    before: Option<&Metadata>,
    after: Option<(&[u8], u32)>,
    folders: usize,
    page: &Page,
) -> Result<(), Error> {
    unchanged(path, before)?;
    let content = before.map(|_| fs::read(path)).transpose().map_err(|error| missing(path, &error))?;
    // As it was read: else somebody is writing it, and the copy may be neither theirs nor ours.
    unchanged(path, before)?;
    let before = content.as_deref().zip(before.map(mode_of));
    page.note(&Change { path, before, after, folders }).map_err(|error| {
        Error::tell(format!("`{}` is not changed, since it cannot be kept as it is: {error}", path.display()))
    })
}

fn unchanged(path: &Path, before: Option<&Metadata>) -> Result<(), Error> {
    if fs::metadata(path).ok().map(|now| Stamp::of(&now)) == before.map(Stamp::of) {
        return Ok(());
    }
    Err(Error::tell(format!("`{}` was changed just now by somebody else: read it again", path.display())))
}

/// How many folders have to be made for a file.
pub(crate) fn missing_folders(parent: &Path) -> usize {
    parent.ancestors().take_while(|folder| fs::symlink_metadata(folder).is_err()).count()
}

fn mode_of(file: &Metadata) -> u32 {
    file.permissions().mode() & 0o7777
}

fn fill(path: &Path, bytes: &[u8], like: Option<&Metadata>, mode: Option<u32>) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    if let Some(like) = like {
        let made = file.metadata()?;
        if (made.uid(), made.gid()) != (like.uid(), like.gid()) {
            // Only root may give files away; anyone else keeps what they wrote.
            let _ = chown(path, Some(like.uid()), Some(like.gid()));
        }
    }
    // After the owner, since a change of owner clears bits.
    match like.map(mode_of).or(mode) {
        Some(mode) => file.set_permissions(Permissions::from_mode(mode)),
        None => Ok(()),
    }
}

fn temporary_name(path: &Path) -> String {
    // Random enough that two writers of one folder do not meet; if they do, `create_new` refuses.
    let random = RandomState::new().build_hasher().finish();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let short: String = name.chars().take(40).collect();
    format!(".{short}.{random:x}.tmp")
}

/// Removed when it did not become the file.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Journal;

    fn page(dir: &Path) -> Page {
        Journal::of(dir, &proto::SessionId::new()).page("call_1")
    }

    fn names(dir: &Path) -> Vec<String> {
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn folders_are_made_and_modes_kept_and_nothing_is_left_over() {
        let (dir, journal) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let page = page(journal.path());
        let path = dir.path().join("a/b/run.sh");
        save(&path, b"one", None, &page).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o750)).unwrap();
        let before = fs::metadata(&path).unwrap();
        save(&path, b"second", Some(&before), &page).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o750);
        assert_eq!(names(path.parent().unwrap()), ["run.sh"]);
    }

    #[test]
    fn somebody_elses_change_is_not_overwritten() {
        let (dir, journal) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let page = page(journal.path());
        let path = dir.path().join("a");
        fs::write(&path, "one").unwrap();
        let before = fs::metadata(&path).unwrap();
        fs::write(&path, "theirs").unwrap();
        assert!(save(&path, b"mine", Some(&before), &page).unwrap_err().to_string().contains("read it again"));
        assert!(save(&path, b"mine", None, &page).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        assert_eq!(names(dir.path()), ["a"]);
    }
}
