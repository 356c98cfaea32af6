//! Plain files, read to a limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::handle;

/// A plain file for reading, wherever links lead. Nothing is waited for.
pub fn file(path: &Path) -> io::Result<File> {
    open_plain(&path.canonicalize()?)
}

/// All of a file, wherever links lead. One that is larger than `most` bytes, or no plain file, is an error.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    take(&file(path)?, most)
}

/// The same as text.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// All of a file that is really in the folder `root`, which must be free of symlinks.
pub fn read_within(path: &Path, root: &Path, most: u64) -> io::Result<Vec<u8>> {
    let real = path.canonicalize()?;
    if !real.starts_with(root) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is a link to somewhere else"));
    }
    take(&open_plain(&real)?, most)
}

/// The same for a path whose folder is known to be free of symlinks, and which is rarely a link itself or not there at
/// all: without a look at every folder above it.
pub fn read_link_within(path: &Path, root: &Path, most: u64) -> io::Result<Vec<u8>> {
    match open_plain(path) {
        Ok(file) => take(&file, most),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            read_within(path, root, most)
        }
        Err(error) => Err(error),
    }
}

/// A plain file for reading. No symlink is followed, and nothing is waited for. Opening a device can set it in motion,
/// so it is looked at first, and once more when it is open: it may have been replaced meanwhile.
pub fn open_plain(path: &Path) -> io::Result<File> {
    if !handle::look(path)?.is_file() {
        return Err(not_plain());
    }
    plain(handle::open(path)?)
}

fn plain(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_plain()) }
}

fn not_plain() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file")
}

fn take(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // A file of `/proc` says that it is empty, so the size is not believed.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {most} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_plain_files_are_read_and_no_more_of_them_than_was_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        fs::write(dir.join("plain"), "1234").unwrap();
        symlink("plain", dir.join("link")).unwrap();
        symlink("/dev/zero", dir.join("zero")).unwrap();
        symlink("loop", dir.join("loop")).unwrap();
        fs::create_dir(dir.join("folder")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.join("pipe"), rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(dir.join("socket")).unwrap();
        assert_eq!(read(&dir.join("plain"), 4).unwrap(), b"1234");
        assert_eq!(read_text(&dir.join("link"), 4).unwrap(), "1234");
        assert_eq!(read(&dir.join("plain"), 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        for name in ["zero", "loop", "folder", "pipe", "socket", "missing"] {
            assert!(read(&dir.join(name), 1 << 20).is_err(), "{name}");
            assert!(read_within(&dir.join(name), &dir, 1 << 20).is_err(), "{name} within");
            assert!(read_link_within(&dir.join(name), &dir, 1 << 20).is_err(), "{name}, a link perhaps");
        }
    }

    #[test]
    fn what_belongs_to_a_folder_is_not_read_from_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        fs::create_dir_all(dir.join("root/inner")).unwrap();
        fs::write(dir.join("secret"), "s").unwrap();
        fs::write(dir.join("root/own"), "o").unwrap();
        symlink("../secret", dir.join("root/out")).unwrap();
        symlink(dir.join("secret"), dir.join("root/absolute")).unwrap();
        symlink("..", dir.join("root/up")).unwrap();
        symlink("../own", dir.join("root/inner/in")).unwrap();
        let root = dir.join("root");
        for (name, fine) in
            [("own", true), ("inner/in", true), ("out", false), ("absolute", false), ("up/secret", false)]
        {
            assert_eq!(read_within(&root.join(name), &root, 9).is_ok(), fine, "{name}");
            assert_eq!(read_link_within(&root.join(name), &root, 9).is_ok(), fine, "{name}, a link perhaps");
        }
    }
}
