//! Small files and folders around worktrees: written whole or not at all, and never through a symlink.

use proto::{Code, Error};
use std::fs;
use std::path::{Path, PathBuf};

/// Below the repository's own working tree.
pub(super) const FOLDER: [&str; 2] = [".convoke", "worktrees"];
/// Where a worktree goes that is being deleted. No name begins with a dot.
const ASIDE: &str = ".removed";
/// What keeps the folder out of everybody's `git status`.
const EXCLUDED: &str = "/.convoke/worktrees/";

/// The files of git that hold a name, and our own beside them.
pub(super) const MOST_OF_A_NAME: u64 = 64 << 10;
/// What git passes over.
const MOST_OF_A_LIST: u64 = 1 << 20;

pub(super) fn refused(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::new(Code::Unavailable, format!("cannot {what} `{}`: {error}", path.display()))
        .hint("look at its permissions and the room on its disk")
}

/// The folder of worktrees, as it would be.
pub(super) fn folder(top: &Path) -> PathBuf {
    top.join(FOLDER[0]).join(FOLDER[1])
}

/// Makes the folder for a worktree of that name, and gives the worktree's own path. A repository may bring a symlink by
/// one of these names, and must not choose where things are made.
pub(super) fn prepare(top: &Path, name: &str) -> Result<PathBuf, Error> {
    let mut at = top.to_owned();
    let mut parts: Vec<&str> = FOLDER.into_iter().chain(name.split('/')).collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        at.push(part);
        match fs::symlink_metadata(&at) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                return Err(Error::new(Code::Conflict, format!("`{}` is not a folder", at.display()))
                    .hint("worktrees are made there: move it away"));
            }
            Err(_) => fs::create_dir(&at).map_err(|error| refused("make", &at, &error))?,
        }
        if at.join(".git").exists() {
            let why = format!("`{}` is a worktree itself, so there can be none inside of it", at.display());
            return Err(Error::new(Code::Conflict, why).hint("choose another name"));
        }
    }
    Ok(at.join(last))
}

/// Adds the folder of worktrees to what git passes over in this repository, once.
pub(super) fn exclude(common: &Path) -> Result<(), Error> {
    let path = common.join("info").join("exclude");
    let mut bytes = match foreign::read(&path, MOST_OF_A_LIST) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(refused("read", &path, &error)),
    };
    if bytes.split(|byte| *byte == b'\n').any(|line| line.trim_ascii() == EXCLUDED.as_bytes()) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        foreign::Folder::make(parent).map_err(|error| refused("make", parent, &error))?;
    }
    if !bytes.is_empty() && !bytes.ends_with(b"\n") {
        bytes.push(b'\n');
    }
    bytes.extend_from_slice(format!("# Worktrees of convoke.\n{EXCLUDED}\n").as_bytes());
    replace(&path, &bytes)
}

/// Writes a file under another name first: a reader finds the old one or the new one.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    foreign::replace(path, bytes).map_err(|error| refused("write", path, &error))
}

/// Moves a worktree's directory out of its place, whole: whoever is cut off while it is deleted finds it gone, and never
/// half of it there. Gives the place it is in now; a directory that cannot be moved stays where it is.
pub(super) fn set_aside(top: &Path, path: &Path) -> Option<PathBuf> {
    let aside = folder(top).join(ASIDE);
    clear(&aside);
    match fs::rename(path, &aside) {
        Ok(()) => Some(aside),
        Err(error) => {
            tracing::debug!(path = %path.display(), %error, "cannot move a worktree aside");
            None
        }
    }
}

/// Deletes what was moved aside, now or before a crash.
pub(super) fn clear(aside: &Path) {
    match fs::remove_dir_all(aside) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(path = %aside.display(), %error, "cannot delete what is left of a worktree");
        }
        Ok(()) | Err(_) => {}
    }
}

/// Takes empty folders away that a name with segments needed.
pub(super) fn tidy(top: &Path, path: &Path) {
    let folder = folder(top);
    let above = path.ancestors().skip(1).take_while(|above| *above != folder && above.starts_with(&folder));
    for empty in above {
        if fs::remove_dir(empty).is_err() {
            return;
        }
    }
}
