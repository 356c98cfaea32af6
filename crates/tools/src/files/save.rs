//! Writing a file whole or not at all.

use super::Stamp;
use super::paths::{contents, elsewhere, swapped};
use crate::Error;
use crate::journal::{Change, MOST, Page, Version};
use foreign::Folder;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
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
    let mut draft = Draft::write(path, bytes, before, mode, page)?;
    draft.stage()?;
    draft.finish()?;
    draft.folder.look(&draft.name).map(|now| Stamp::of(&now)).map_err(|error| cannot("write", path, &error))
}

/// Removes a file, which must still be as `before` says, and so many folders above it, if nothing else is in them. What
/// it was is in the journal first.
pub(crate) fn remove(path: &Path, before: &Metadata, folders: usize, page: &Page) -> Result<(), Error> {
    Draft::remove(path, before, folders, page)?.finish()?;
    let parent = path.parent().unwrap_or(path);
    let emptied = parent.ancestors().take(folders).filter_map(|folder| folder.parent().zip(folder.file_name()));
    emptied.into_iter().all(|(above, name)| Folder::open(above).and_then(|above| above.remove_folder(name)).is_ok());
    Ok(())
}

/// A change of one file that is ready to be made. What is dropped unfinished leaves nothing behind.
///
/// In three steps, so that changes of several files are made together or not at all: all that needs room on the disk
/// comes first (`write`), then names (`stage`), and at last what takes none (`finish`).
pub(crate) struct Draft {
    path: PathBuf,
    folder: Folder,
    name: OsString,
    before: Option<Metadata>,
    /// What it shall be; nothing for a file that goes.
    file: Option<File>,
    /// The name it has for the moment. Given as late as can be: a kill leaves nothing before that.
    held: Option<OsString>,
    /// Folders that were made for it.
    made: usize,
    finished: bool,
}

impl Draft {
    /// A file as it shall be, whole, and without a name where that can be.
    pub(crate) fn write(
        path: &Path,
        bytes: &[u8],
        before: Option<&Metadata>,
        mode: Option<u32>,
        page: &Page,
    ) -> Result<Self, Error> {
        let cannot = |error: io::Error| cannot("write", path, &error);
        let (parent, name) = place(path)?;
        let mode = before.map(mode_of).or(mode);
        let made = missing_folders(parent);
        note(path, before, Some((Some(bytes), mode.unwrap_or(0o644))), made, page)?;
        let folder = Folder::make(parent).map_err(cannot)?;
        let (path, name, before) = (path.to_owned(), name.to_owned(), before.cloned());
        let mut draft = Self { path, folder, name, before, file: None, held: None, made, finished: false };
        let file = match draft.folder.create_nameless() {
            Ok(file) => file,
            Err(_) => {
                let held = temporary_name(&draft.path);
                let file = draft.folder.create(&held).map_err(cannot)?;
                draft.held = Some(held);
                file
            }
        };
        fill(&file, bytes, draft.before.as_ref(), mode).map_err(cannot)?;
        draft.file = Some(file);
        Ok(draft)
    }

    /// A file that shall go.
    pub(crate) fn remove(path: &Path, before: &Metadata, folders: usize, page: &Page) -> Result<Self, Error> {
        let (parent, name) = place(path)?;
        note(path, Some(before), None, folders, page)?;
        let folder = Folder::open(parent).map_err(|error| cannot("remove", path, &error))?;
        let (path, name, before) = (path.to_owned(), name.to_owned(), Some(before.clone()));
        Ok(Self { path, folder, name, before, file: None, held: None, made: 0, finished: false })
    }

    /// Gives it a name: that of a new file, or one beside the file whose place it takes.
    pub(crate) fn stage(&mut self) -> Result<(), Error> {
        let Some(file) = &self.file else { return Ok(()) };
        unchanged(&self.path, self.folder.look(&self.name), self.before.as_ref())?;
        let given = match (&self.before, &self.held) {
            (None, None) => self.folder.name(file, &self.name).map(|()| self.name.clone()),
            (None, Some(held)) => self.folder.rename(held, &self.name).map(|()| self.name.clone()),
            (Some(_), None) => {
                let held = temporary_name(&self.path);
                self.folder.name(file, &held).map(|()| held)
            }
            (Some(_), Some(held)) => Ok(held.clone()),
        };
        self.held = Some(given.map_err(|error| cannot("write", &self.path, &error))?);
        Ok(())
    }

    /// Makes the change.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        let (before, name) = (self.before.as_ref(), &self.name);
        let done = match (&self.file, before) {
            // It has its name already.
            (Some(_), None) => Ok(()),
            // As late as can be: whoever wrote it since would lose their work.
            (Some(_), Some(_)) => {
                unchanged(&self.path, self.folder.look(name), before)?;
                self.held.as_ref().map_or(Ok(()), |held| self.folder.rename(held, name))
            }
            (None, _) => {
                unchanged(&self.path, self.folder.look(name), before)?;
                self.folder.remove(name)
            }
        };
        let what = if self.file.is_some() { "write" } else { "remove" };
        done.map_err(|error| cannot(what, &self.path, &error))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        if let Some(held) = &self.held {
            let _ = self.folder.remove(held);
        }
        let parent = self.path.parent().unwrap_or(&self.path);
        let made = parent.ancestors().take(self.made).filter_map(|folder| folder.parent().zip(folder.file_name()));
        made.into_iter().all(|(above, name)| Folder::open(above).and_then(|above| above.remove_folder(name)).is_ok());
    }
}

/// The one place where it is kept what a file was. What cannot be kept is not changed.
fn note(
    path: &Path,
    before: Option<&Metadata>,
    after: Option<Version<'_>>,
    folders: usize,
    page: &Page,
) -> Result<(), Error> {
    unchanged(path, foreign::look(path), before)?;
    let small = before.filter(|before| before.len() <= MOST as u64);
    let content = small.map(|_| contents(path)).transpose()?;
    // As it was read: else somebody is writing it, and the copy may be neither theirs nor ours.
    unchanged(path, foreign::look(path), before)?;
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
        let page = page(&dir.path().join("journal"));
        let shown = || names(dir.path()).into_iter().filter(|name| name != "journal").collect::<Vec<_>>();
        let mut begun = Draft::write(&path, b"whole", None, Some(0o640), &page).unwrap();
        assert_eq!(shown().len(), usize::from(begun.held.is_some()), "tmpfs, ext4, xfs and btrfs need no name");
        begun.stage().unwrap();
        begun.finish().unwrap();
        drop(begun);
        assert_eq!((shown(), fs::read(&path).unwrap()), (vec!["a".to_owned()], b"whole".to_vec()));
        // Where one is needed, it goes with whoever gave up.
        let before = fs::metadata(&path).unwrap();
        let mut given_up = Draft::write(&path, b"other", Some(&before), None, &page).unwrap();
        given_up.stage().unwrap();
        assert_eq!(shown().len(), 2);
        drop(given_up);
        let mut new = Draft::write(&path.with_file_name("x").join("y/z"), b"other", None, None, &page).unwrap();
        new.stage().unwrap();
        drop(new);
        assert_eq!((shown(), fs::read(&path).unwrap()), (vec!["a".to_owned()], b"whole".to_vec()));
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
