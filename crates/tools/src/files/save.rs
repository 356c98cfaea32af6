//! Writing a file whole or not at all.

use super::Stamp;
use super::handle::{self, Folder};
use super::paths::{contents, elsewhere, swapped};
use crate::Error;
use crate::journal::{Change, MOST, Page, Version};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

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
    let cannot = |error: io::Error| cannot("write", path, &error);
    let (parent, name) = place(path)?;
    let mode = before.map(mode_of).or(mode);
    note(path, before, Some((Some(bytes), mode.unwrap_or(0o644))), missing_folders(parent), page)?;
    let folder = Folder::make(parent).map_err(cannot)?;
    let temporary = Temporary::begin(&folder, path).map_err(cannot)?;
    fill(&temporary.file, bytes, before, mode).map_err(cannot)?;
    // As late as can be: whoever wrote it since would lose their work.
    unchanged(path, folder.look(name), before)?;
    temporary.take_place(name).map_err(cannot)?;
    folder.look(name).map(|now| Stamp::of(&now)).map_err(cannot)
}

/// Removes a file, which must still be as `before` says, and so many folders above it, if nothing else is in them. What
/// it was is in the journal first.
pub(crate) fn remove(path: &Path, before: &Metadata, folders: usize, page: &Page) -> Result<(), Error> {
    let cannot = |error: io::Error| cannot("remove", path, &error);
    let (parent, name) = place(path)?;
    note(path, Some(before), None, folders, page)?;
    let folder = Folder::open(parent).map_err(cannot)?;
    unchanged(path, folder.look(name), Some(before))?;
    folder.remove(name).map_err(cannot)?;
    let emptied = parent.ancestors().take(folders).filter_map(|folder| folder.parent().zip(folder.file_name()));
    emptied.into_iter().all(|(above, name)| Folder::open(above).and_then(|above| above.remove_folder(name)).is_ok());
    Ok(())
}

/// The one place where it is kept what a file was. What cannot be kept is not changed.
fn note(
    path: &Path,
    before: Option<&Metadata>,
    after: Option<Version<'_>>,
    folders: usize,
    page: &Page,
) -> Result<(), Error> {
    unchanged(path, handle::look(path), before)?;
    let small = before.filter(|before| before.len() <= MOST as u64);
    let content = small.map(|_| contents(path)).transpose()?;
    // As it was read: else somebody is writing it, and the copy may be neither theirs nor ours.
    unchanged(path, handle::look(path), before)?;
    let before = before.map(|before| (content.as_deref(), mode_of(before)));
    page.note(&Change { path, before, after, folders }).map_err(|error| {
        Error::tell(format!("`{}` is not changed, since it cannot be kept as it is: {error}", path.display()))
    })
}

fn unchanged(path: &Path, found: io::Result<Metadata>, before: Option<&Metadata>) -> Result<(), Error> {
    if found.as_ref().is_err_and(swapped) {
        return Err(elsewhere(path));
    }
    if found.ok().map(|now| Stamp::of(&now)) == before.map(Stamp::of) {
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

fn place(path: &Path) -> Result<(&Path, &OsStr), Error> {
    path.parent().zip(path.file_name()).ok_or_else(|| Error::tell(format!("`{}` is not a file", path.display())))
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Error {
    if swapped(error) {
        return elsewhere(path);
    }
    Error::tell(format!("cannot {what} `{}`: {error}", path.display()))
}

fn fill(mut file: &File, bytes: &[u8], like: Option<&Metadata>, mode: Option<u32>) -> io::Result<()> {
    file.write_all(bytes)?;
    if let Some(like) = like {
        let made = file.metadata()?;
        if (made.uid(), made.gid()) != (like.uid(), like.gid()) {
            // Only root may give files away; anyone else keeps what they wrote.
            let _ = fchown(file, Some(like.uid()), Some(like.gid()));
        }
    }
    // After the owner, since a change of owner clears bits.
    mode.map_or(Ok(()), |mode| file.set_permissions(Permissions::from_mode(mode)))
}

fn temporary_name(path: &Path) -> OsString {
    // Random enough that two writers of one folder do not meet; if they do, `create_new` refuses.
    let random = RandomState::new().build_hasher().finish();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let short: String = name.chars().take(40).collect();
    format!(".{short}.{random:x}.tmp").into()
}

/// Removed when it did not become the file. It has a name only for a moment, where that can be: a kill leaves nothing then.
struct Temporary<'a> {
    folder: &'a Folder,
    name: OsString,
    file: File,
    has_name: bool,
}

impl<'a> Temporary<'a> {
    fn begin(folder: &'a Folder, path: &Path) -> io::Result<Self> {
        let name = temporary_name(path);
        if let Ok(file) = folder.create_nameless() {
            return Ok(Self { folder, name, file, has_name: false });
        }
        folder.create(&name).map(|file| Self { folder, name, file, has_name: true })
    }

    fn take_place(mut self, of: &OsStr) -> io::Result<()> {
        if !self.has_name {
            self.folder.name(&self.file, &self.name)?;
            self.has_name = true;
        }
        self.folder.rename(&self.name, of)?;
        self.has_name = false;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if self.has_name {
            let _ = self.folder.remove(&self.name);
        }
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
    fn what_is_being_written_shows_only_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("a");
        let folder = Folder::open(path.parent().unwrap()).unwrap();
        let begun = Temporary::begin(&folder, &path).unwrap();
        assert_eq!(names(dir.path()).len(), usize::from(begun.has_name), "tmpfs, ext4, xfs and btrfs need no name");
        fill(&begun.file, b"whole", None, Some(0o640)).unwrap();
        begun.take_place(OsStr::new("a")).unwrap();
        assert_eq!((names(dir.path()), fs::read(&path).unwrap()), (vec!["a".to_owned()], b"whole".to_vec()));
        // Where one is needed, it goes with whoever gave up.
        let name = temporary_name(&path);
        drop(Temporary { folder: &folder, file: folder.create(&name).unwrap(), name, has_name: true });
        assert_eq!(names(dir.path()), ["a"]);
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
