//! Small files that only this user may read, changed by one process at a time: who is trusted, keys.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::Error;

/// Held while a file is read, changed and written.
pub(crate) struct Held {
    file: PathBuf,
    _lock: File,
}

/// Waits for whoever is changing it.
pub(crate) fn hold(file: &Path) -> Result<Held, Error> {
    let locked = || -> io::Result<File> {
        let directory = file.parent().unwrap_or(Path::new("/"));
        fs::DirBuilder::new().recursive(true).create(directory)?;
        let lock = open(&file.with_extension("lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(lock)
    };
    let lock = locked().map_err(|cause| cannot("lock", file, &cause))?;
    Ok(Held { file: file.to_owned(), _lock: lock })
}

impl Held {
    /// Whole or not at all, and on disk when this returns.
    pub(crate) fn write(&self, text: &str) -> Result<(), Error> {
        replace(&self.file, text, 0o600).map_err(|cause| cannot("write", &self.file, &cause))
    }
}

/// Puts another text in the place of a file, at once: no reader sees half of it, and no crash leaves half of it.
pub(crate) fn replace(file: &Path, text: &str, mode: u32) -> io::Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let fresh = file.with_file_name(format!(".{name}.{}.new", std::process::id()));
    let written = (|| {
        let _ = fs::remove_file(&fresh);
        let mut out = OpenOptions::new().write(true).create_new(true).mode(mode).open(&fresh)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()?;
        fs::rename(&fresh, file)?;
        #[expect(clippy::disallowed_methods, reason = "a folder of our own, to be kept")]
        File::open(file.parent().unwrap_or(Path::new("/")))?.sync_all()
    })();
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn cannot(what: &str, file: &Path, cause: &io::Error) -> Error {
    let name = file.display();
    Error::new(format!("cannot {what} `{name}`: {cause}"), "mend the directory, or set `CONVOKE_HOME` to another one")
}
