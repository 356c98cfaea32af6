//! Instructions: what everybody who works in a directory is to know. `AGENTS.md`, else `CLAUDE.md`, the nearest last.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::read::{Reader, Reading, leaves, read_shared, refused};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Instructions {
    pub file: PathBuf,
    pub text: String,
    /// They came with a repository: the file they stand in, links followed. The rules of `read` hold for it.
    #[serde(skip)]
    pub came_with: Option<PathBuf>,
}

const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// Every model call carries them. Longer ones are cut, and that is said.
const LONGEST: usize = 64 * 1024;

/// The same for all of them together.
const LONGEST_OF_ALL: usize = 256 * 1024;

/// Leaves out what is beyond the limit of all, and says so.
pub(crate) fn fitting(found: Vec<Instructions>, reading: &mut Reading) -> Vec<Instructions> {
    let (mut left, all) = (LONGEST_OF_ALL, found.len());
    let mut fits = |instructions: &Instructions| match left.checked_sub(instructions.text.len()) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let kept: Vec<Instructions> = found.into_iter().filter(|instructions| fits(instructions)).collect();
    if kept.len() < all {
        let out = all - kept.len();
        reading.warn(format!("{out} of {all} files of instructions are left out: together they may have 256 KiB"));
    }
    kept
}

/// What came with a repository: its root, and which files of it may be read.
pub(crate) type From<'a> = Option<(&'a Path, &'a Reader)>;

/// The file of one directory, if there is one. A repository must not lead out of itself.
pub(crate) fn of_directory(directory: &Path, from: From<'_>, reading: &mut Reading) -> Option<Instructions> {
    NAMES.iter().find_map(|name| {
        let file = directory.join(name);
        if leaves(&file, from.map(|(root, _)| root), reading) { None } else { read(&file, from, reading) }
    })
}

/// A file that was named. `within` is the repository it must not leave.
pub(crate) fn named(
    file: &Path,
    within: Option<&Path>,
    from: From<'_>,
    line: &str,
    reading: &mut Reading,
) -> Option<Instructions> {
    let leaves = |root: &Path| !file.canonicalize().is_ok_and(|file| file.starts_with(root));
    if within.is_some_and(leaves) {
        reading.saw(file);
        let what = format!("the instructions `{}` are not in this repository, and not read", file.display());
        reading.warn(format!("{line}: {what} until `convoke trust` is run there"));
        return None;
    }
    let found = read(file, from, reading);
    if found.is_none() && !file.exists() {
        reading.warn(format!("{line}: the instructions `{}` do not exist", file.display()));
    }
    found
}

fn read(file: &Path, from: From<'_>, reading: &mut Reading) -> Option<Instructions> {
    if from.is_some_and(|(root, may_read)| refused(file, root, may_read, reading)) {
        return None;
    }
    let came_with = from.and_then(|_| file.canonicalize().ok());
    let text = match read_shared(file, reading) {
        Ok(text) => text?,
        Err(error) => {
            reading.warn(format!("{}; these instructions are left out", error.message));
            return None;
        }
    };
    let mut text = text.trim().to_owned();
    if text.len() > LONGEST {
        let cut = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        reading.warn(format!("{}: longer than 64 KiB; what is beyond that is left out", file.display()));
    }
    (!text.is_empty()).then(|| Instructions { file: file.to_owned(), text, came_with })
}
