//! Opening what was judged, and nothing else.
//!
//! Rules judge where a path leads (`tools::files::resolve`); by the time it is opened, a folder on the way may have become a
//! symlink. So no symlink is followed here, at the end of a path or on the way, and a folder that was opened is worked
//! in by its descriptor.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::SystemTime;

/// For reading. Without waiting: a pipe that nobody writes to would hold it up for ever.
pub fn open(path: &Path) -> io::Result<File> {
    Ok(enter(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?.into())
}

/// What is there, without opening it.
pub fn look(path: &Path) -> io::Result<Metadata> {
    pin(path)?.metadata()
}

/// What is there, whatever its path leads to later: it can be looked at, and not read.
pub fn pin(path: &Path) -> io::Result<File> {
    Ok(enter(path, LOOK)?.into())
}

/// A folder, whatever its path leads to later.
pub struct Folder(OwnedFd);

impl Folder {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(enter(path, FOLDER)?))
    }

    /// Makes it where it is missing, with those above it.
    pub fn make(path: &Path) -> io::Result<Self> {
        let (mut at, mut missing) = (path, Vec::new());
        let mut folder = loop {
            match (Self::open(at), at.parent().zip(at.file_name())) {
                (Err(error), Some((parent, name))) if error.kind() == io::ErrorKind::NotFound => {
                    missing.push(name);
                    at = parent;
                }
                (opened, _) => break opened?,
            }
        };
        for name in missing.into_iter().rev() {
            match rustix::fs::mkdirat(&folder.0, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            folder = Self(rustix::fs::openat(&folder.0, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?);
        }
        Ok(folder)
    }

    /// A new file; one of that name is never opened.
    pub fn create(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.0, name, flags, Mode::from_raw_mode(0o666))?.into())
    }

    /// A new file that has no name yet, so that nothing of it is left if this program is killed. Not every file system
    /// can do that.
    #[cfg(target_os = "linux")]
    pub fn create_nameless(&self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.0, ".", flags, Mode::from_raw_mode(0o666))?);
        // It gets its name by this way.
        std::fs::symlink_metadata(way_of(&file)).map(|_| file)
    }

    #[cfg(not(target_os = "linux"))]
    pub fn create_nameless(&self) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Gives a file that has none a name; one that is taken is refused.
    pub fn name(&self, file: &File, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::linkat(CWD, way_of(file), &self.0, name, AtFlags::SYMLINK_FOLLOW)?)
    }

    /// What has that name, a symlink being a symlink.
    pub fn look(&self, name: &OsStr) -> io::Result<Metadata> {
        File::from(rustix::fs::openat(&self.0, name, LOOK | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
            .metadata()
    }

    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// A folder in it, when nothing is in that.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }
}

/// Writes a file whole: a reader finds the old one or the new one. No symlink is followed, neither on the way nor at the
/// end, and what somebody put there by the name that is written first is not opened.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let folder = Folder::open(folder)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut aside = name.to_owned();
    aside.push(format!(".convoke-{}-{}", std::process::id(), now.as_nanos()));
    let mut file = folder.create(&aside)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| folder.rename(&aside, name));
    if written.is_err() {
        let _ = folder.remove(&aside);
    }
    written
}

fn way_of(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

#[cfg(target_os = "linux")]
const LOOK: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const LOOK: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

const FOLDER: OFlags = LOOK.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens an absolute path without following a symlink anywhere.
fn enter(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        match rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            // An old kernel, or one whose filter of system calls does not know this one.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {}
            opened => return Ok(opened?),
        }
    }
    enter_by_steps(path, flags)
}

fn enter_by_steps(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let mut at = rustix::fs::openat(CWD, "/", FOLDER, Mode::empty())?;
    let mut steps = path.components().skip(1).peekable();
    while let Some(step) = steps.next() {
        let flags = if steps.peek().is_some() { FOLDER } else { flags };
        at = rustix::fs::openat(&at, step.as_os_str(), flags | OFlags::NOFOLLOW, Mode::empty())?;
    }
    // A symlink itself can be looked at by its descriptor; that is not what anyone here wants.
    if File::from(at.try_clone()?).metadata()?.is_symlink() {
        return Err(rustix::io::Errno::LOOP.into());
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_symlink_is_followed_at_the_end_or_on_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        fs::create_dir_all(dir.join("real/inner")).unwrap();
        fs::write(dir.join("real/inner/a"), "a").unwrap();
        symlink("real", dir.join("way")).unwrap();
        symlink("real/inner/a", dir.join("end")).unwrap();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        for (path, fine) in [("real/inner/a", true), ("way/inner/a", false), ("end", false), ("real/none", false)] {
            let path = dir.join(path);
            assert_eq!(open(&path).is_ok(), fine, "{}", path.display());
            assert_eq!(look(&path).is_ok(), fine, "{}", path.display());
            assert_eq!(enter_by_steps(&path, flags).is_ok(), fine, "{} by steps", path.display());
            assert_eq!(enter_by_steps(&path, LOOK | flags).is_ok(), fine, "{} looked at by steps", path.display());
        }
        assert!(Folder::make(&dir.join("way/new")).is_err());
        assert!(!dir.join("real/new").exists());
        Folder::make(&dir.join("real/new/er")).unwrap().create(OsStr::new("b")).unwrap();
        assert!(dir.join("real/new/er/b").exists());
    }
}
