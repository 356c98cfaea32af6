//! Markdown that people keep beside their work: agents, commands, skills and instructions, in our directories and in
//! those of other programs, read as they are.

pub(crate) mod agents;
pub(crate) mod commands;
pub(crate) mod instructions;
pub(crate) mod markdown;
pub(crate) mod skills;

use std::path::{Path, PathBuf};

use crate::read::{Reading, entries};

/// Whose habits a file follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Convoke,
    Opencode,
    Claude,
}

/// Directories below one place that hold a kind of file, the one that counts first.
pub(crate) fn folders(base: &Path, names: &[(&str, Style)]) -> Vec<(PathBuf, Style)> {
    names.iter().map(|(name, style)| (base.join(name), *style)).collect()
}

/// No deeper below a directory of agents or commands, so that a link to `/` ends soon.
const DEEPEST: usize = 4;

/// More files of one kind than anybody keeps; what is beyond is said, not read.
const MOST: usize = 500;

/// Entries that are looked at for them: a link may lead to a large place.
const MOST_ENTRIES: usize = 2000;

/// Every `.md` file below a directory, sorted.
pub(crate) fn markdown_below(directory: &Path, reading: &mut Reading) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = MOST_ENTRIES;
    walk(directory, DEEPEST, reading, &mut found, &mut left);
    if left == 0 {
        reading.warn(format!("{}: only the first {MOST_ENTRIES} entries are looked at", directory.display()));
    }
    if found.len() > MOST {
        reading.warn(format!("{}: only the first {MOST} of {} files are read", directory.display(), found.len()));
        found.truncate(MOST);
    }
    found
}

fn walk(directory: &Path, depth: usize, reading: &mut Reading, found: &mut Vec<PathBuf>, left: &mut usize) {
    for path in entries(directory, reading) {
        if *left == 0 {
            return;
        }
        *left -= 1;
        if path.is_dir() {
            if depth > 0 && found.len() <= MOST {
                walk(&path, depth - 1, reading, found, left);
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// What a file is called by: its name without `.md`.
pub(crate) fn stem(file: &Path) -> String {
    file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}
