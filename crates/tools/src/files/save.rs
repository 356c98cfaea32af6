//! Writing a file whole or not at all.

use super::Stamp;
use super::handle::Folder;
use super::paths::{elsewhere, swapped};
use crate::Error;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

/// Puts `bytes` in the place of a file, which must still be as `before` says (`None`: not there). Makes the folders
/// above it, keeps mode and owner. Returns the file as it is then.
pub(crate) fn save(path: &Path, bytes: &[u8], before: Option<&Metadata>) -> Result<Stamp, Error> {
    let cannot = |error: io::Error| cannot("write", path, &error);
    let (parent, name) = place(path)?;
    let folder = Folder::make(parent).map_err(cannot)?;
    let temporary = Temporary { folder: &folder, name: temporary_name(path) };
    fill(&temporary, bytes, before).map_err(cannot)?;
    // As late as can be: whoever wrote it since would lose their work.
    if folder.look(name).ok().map(|now| Stamp::of(&now)) != before.map(Stamp::of) {
        return Err(Error::tell(format!("`{}` was changed just now by somebody else: read it again", path.display())));
    }
    folder.rename(&temporary.name, name).map_err(cannot)?;
    folder.look(name).map(|now| Stamp::of(&now)).map_err(cannot)
}

/// Removes a file.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    let (parent, name) = place(path)?;
    let removed = Folder::open(parent).and_then(|folder| folder.remove(name));
    removed.map_err(|error| cannot("remove", path, &error))
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

fn fill(temporary: &Temporary<'_>, bytes: &[u8], like: Option<&Metadata>) -> io::Result<()> {
    let mut file = temporary.folder.create(&temporary.name)?;
    file.write_all(bytes)?;
    if let Some(like) = like {
        let made = file.metadata()?;
        if (made.uid(), made.gid()) != (like.uid(), like.gid()) {
            // Only root may give files away; anyone else keeps what they wrote.
            let _ = fchown(&file, Some(like.uid()), Some(like.gid()));
        }
        // After the owner, since a change of owner clears bits.
        file.set_permissions(like.permissions())?;
    }
    Ok(())
}

fn temporary_name(path: &Path) -> OsString {
    // Random enough that two writers of one folder do not meet; if they do, `create_new` refuses.
    let random = RandomState::new().build_hasher().finish();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let short: String = name.chars().take(40).collect();
    format!(".{short}.{random:x}.tmp").into()
}

/// Removed when it did not become the file.
struct Temporary<'a> {
    folder: &'a Folder,
    name: OsString,
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        let _ = self.folder.remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn names(dir: &Path) -> Vec<String> {
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn folders_are_made_and_modes_kept_and_nothing_is_left_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/run.sh");
        save(&path, b"one", None).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).unwrap();
        let before = fs::metadata(&path).unwrap();
        save(&path, b"second", Some(&before)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o750);
        assert_eq!(names(path.parent().unwrap()), ["run.sh"]);
    }

    #[test]
    fn somebody_elses_change_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "one").unwrap();
        let before = fs::metadata(&path).unwrap();
        fs::write(&path, "theirs").unwrap();
        assert!(save(&path, b"mine", Some(&before)).unwrap_err().to_string().contains("read it again"));
        assert!(save(&path, b"mine", None).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        assert_eq!(names(dir.path()), ["a"]);
    }
}
