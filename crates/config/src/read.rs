//! Reading a file of settings, and remembering that it was looked at.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::layer::Source;
use crate::{Config, Error, document};

/// Far above any settings file; protects against a wrong path.
pub(crate) const LARGEST_FILE: u64 = 1 << 20;

/// Says what of a repository may be read by what came with it, once the rules are known: a file in or below a root.
/// A question counts as no, since nobody can be asked.
pub type Readers<'a> = &'a dyn Fn(&Config) -> Reader;

/// The same with the rules known: the root of the repository, and the file that is meant, links followed.
pub type Reader = Box<dyn Fn(&Path, &Path) -> bool>;

/// What all that one directory brings may have: agents, instructions, what files name, and what those name. Each of them
/// becomes several times its size.
pub(crate) const MOST_OF_ALL: u64 = 8 << 20;

/// What each file and each reference costs at least: it takes time, however short it is.
const LEAST: u64 = 1 << 10;

/// What came up while files were read.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) warnings: Vec<String>,
    pub(crate) seen: Vec<Seen>,
    /// Of [`MOST_OF_ALL`].
    pub(crate) spent: u64,
}

/// A file or directory that was looked for, and what was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    path: PathBuf,
    stamp: Option<Stamp>,
}

/// Changes whenever a file is written, replaced or taken away.
type Stamp = (u64, u64, i64, i64);

impl Reading {
    pub(crate) fn saw(&mut self, path: &Path) {
        self.seen.push(Seen { path: path.to_owned(), stamp: stamp(path) });
    }

    pub(crate) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// Takes from what one directory may bring. Once something did not fit, nothing does.
    pub(crate) fn spend(&mut self, bytes: u64) -> Result<(), Error> {
        self.spent = self.spent.saturating_add(bytes.max(LEAST));
        if self.spent <= MOST_OF_ALL {
            return Ok(());
        }
        self.spent = u64::MAX;
        let what = "agents, instructions and files that settings name have more than 8 MiB together";
        Err(Error::new(what, "remove some of them, or name files with `{file:…}` less often"))
    }
}

impl Seen {
    pub(crate) fn is_current(&self) -> bool {
        stamp(&self.path) == self.stamp
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let of = |meta: Metadata| (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec());
    fs::metadata(path).ok().map(of)
}

/// The text of a file, or nothing where there is none.
pub(crate) fn read_text(file: &Path, reading: &mut Reading) -> Result<Option<String>, Error> {
    // Before reading: a change in between is then noticed the next time.
    reading.saw(file);
    let name = file.display().to_string();
    let bytes = match read_bytes(file) {
        Ok(bytes) => bytes,
        Err(cause) if matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(cause) if cause.kind() == io::ErrorKind::FileTooLarge => {
            return Err(Error::new(format!("{name}: larger than 1 MiB"), "check that this is the file you mean"));
        }
        Err(cause) => {
            let hint = "make it readable for this user, or move it away";
            return Err(Error::new(format!("{name}: cannot be read: {cause}"), hint));
        }
    };
    let text = String::from_utf8(bytes).map_err(|error| not_text(file, &error))?;
    // Some editors start a file with a mark that is no part of its text.
    Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)))
}

/// The same for a file that is one of many, or came with a repository: all of them together have a limit.
pub(crate) fn read_shared(file: &Path, reading: &mut Reading) -> Result<Option<String>, Error> {
    let named = |error: Error| Error::new(format!("{}: not read: {}", file.display(), error.message), error.hint);
    if fs::symlink_metadata(file).is_ok() {
        reading.spend(0).map_err(named)?;
    }
    let text = read_text(file, reading)?;
    let more = text.as_ref().map_or(0, |text| (text.len() as u64).saturating_sub(LEAST));
    if more > 0 {
        reading.spend(more).map_err(named)?;
    }
    Ok(text)
}

/// No more than the largest file. A pipe or a device is not waited for.
fn read_bytes(file: &Path) -> io::Result<Vec<u8>> {
    let meta = fs::metadata(file)?;
    // A sandbox keeps the place of settings that must not be made, for as long as it is there.
    if meta.is_dir() && fs::read_dir(file)?.next().is_none() {
        return Err(io::ErrorKind::NotFound.into());
    }
    if !meta.is_file() {
        let what = if meta.is_dir() { "it is a directory" } else { "it is not a file" };
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    foreign::read(file, LARGEST_FILE)
}

fn not_text(file: &Path, error: &std::string::FromUtf8Error) -> Error {
    let offset = error.utf8_error().valid_up_to();
    let before = String::from_utf8_lossy(&error.as_bytes()[..offset]);
    let source = Source::file(crate::Layer::User, file);
    document::place(&source, &before, offset).error("not UTF-8", "save the file as UTF-8")
}

/// Whether a file that belongs to a repository is really somewhere else: a link must not carry the user's own files
/// into what a model is told.
pub(crate) fn leaves(file: &Path, root: Option<&Path>, reading: &mut Reading) -> bool {
    let outside = root.is_some_and(|root| file.canonicalize().is_ok_and(|real| !real.starts_with(root)));
    if outside {
        reading.saw(file);
        let name = file.display();
        reading.warn(format!("{name}: not read, because it is a link out of its repository; put a copy there"));
    }
    outside
}

/// Whether a file that came with a repository may be shown to a model: it is judged by where its name leads.
pub(crate) fn refused(file: &Path, root: &Path, may_read: &Reader, reading: &mut Reading) -> bool {
    let refused = file.canonicalize().is_ok_and(|real| !may_read(root, &real));
    if refused {
        reading.saw(file);
        reading.warn(format!("{}: left out, because no rule of `read` allows this file", file.display()));
    }
    refused
}

/// Entries of one directory that are looked at: agents, commands and skills are few.
const MOST_ENTRIES: usize = 2000;

/// What a directory holds, sorted, so that the same files mean the same everywhere. None at all is fine.
pub(crate) fn entries(directory: &Path, reading: &mut Reading) -> Vec<PathBuf> {
    reading.saw(directory);
    let Ok(found) = fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = found.filter_map(|entry| Some(entry.ok()?.path())).take(MOST_ENTRIES).collect();
    paths.sort();
    paths
}
