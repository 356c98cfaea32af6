//! Instructions: what everybody who works in a directory is to know. `AGENTS.md`, else `CLAUDE.md`, the nearest last.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::read::{Reading, leaves, read_text};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Instructions {
    pub file: PathBuf,
    pub text: String,
}

const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// Every model call carries them. Longer ones are cut, and that is said.
const LONGEST: usize = 64 * 1024;

/// The file of one directory, if there is one. `root` is the repository it must not leave.
pub(crate) fn of_directory(directory: &Path, root: Option<&Path>, reading: &mut Reading) -> Option<Instructions> {
    NAMES.iter().find_map(|name| {
        let file = directory.join(name);
        if leaves(&file, root, reading) { None } else { read(&file, reading) }
    })
}

/// A file that was named. `within` is the repository it must not leave.
pub(crate) fn named(file: &Path, within: Option<&Path>, line: &str, reading: &mut Reading) -> Option<Instructions> {
    let leaves = |root: &Path| !file.canonicalize().is_ok_and(|file| file.starts_with(root));
    if within.is_some_and(leaves) {
        reading.saw(file);
        let what = format!("the instructions `{}` are not in this repository, and not read", file.display());
        reading.warn(format!("{line}: {what} until `convoke trust` is run there"));
        return None;
    }
    let found = read(file, reading);
    if found.is_none() && !file.exists() {
        reading.warn(format!("{line}: the instructions `{}` do not exist", file.display()));
    }
    found
}

fn read(file: &Path, reading: &mut Reading) -> Option<Instructions> {
    let text = match read_text(file, reading) {
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
    (!text.is_empty()).then(|| Instructions { file: file.to_owned(), text })
}
