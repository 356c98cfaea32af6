//! Files that git would read without end or wait for: a repository can put a pipe, a device or an endless file wherever
//! git expects a few lines. The places that git reads first are looked at before it starts; all others only when it takes
//! long, since there are many of them.

use proto::{Code, Error};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// A line: a name, an object.
const LINE: u64 = 64 << 10;
/// A list that people or commands write.
const LIST: u64 = 16 << 20;
/// A table that git keeps: some hundred bytes for each file, branch or commit.
const TABLE: u64 = 4 << 30;
/// What git reads first in a git directory, and the most that each may have.
const FIRST: &[(&str, u64)] = &[
    ("HEAD", LINE),
    ("commondir", LINE),
    ("gitdir", LINE),
    ("config", LIST),
    ("config.worktree", LIST),
    ("shallow", LIST),
    ("info/attributes", LIST),
    ("info/exclude", LIST),
    ("info/grafts", LIST),
    ("info/sparse-checkout", LIST),
    ("objects/info/alternates", LIST),
    ("objects/info/commit-graphs/commit-graph-chain", LIST),
    ("objects/info/commit-graph", TABLE),
    ("objects/pack/multi-pack-index", TABLE),
    ("packed-refs", TABLE),
    ("index", TABLE),
];
/// What git reads in the folders of a working tree.
const IN_FOLDERS: &[&str] = &[".gitignore", ".gitattributes", ".gitmodules"];
/// Entries that are looked at when git takes long: as many as fit into a second or two.
const MOST_ENTRIES: usize = 200_000;

/// Refuses a repository in which git would not come to an end, as far as a quick look tells.
pub(super) fn look(dir: &Path) -> Result<(), Error> {
    for place in git_dirs(dir) {
        for (name, most) in FIRST {
            check(&place.join(name), *most)?;
        }
    }
    Ok(())
}

/// The same for everything that git may read below a directory and in its repository.
pub(super) fn look_everywhere(dir: &Path) -> Result<(), Error> {
    let mut left = MOST_ENTRIES;
    for place in git_dirs(dir) {
        below(&place, &mut left, &|_| true)?;
    }
    let top = dir.ancestors().find(|above| above.join(".git").exists()).unwrap_or(dir);
    below(top, &mut left, &|name| IN_FOLDERS.contains(&name))
}

fn below(root: &Path, left: &mut usize, read: &dyn Fn(&str) -> bool) -> Result<(), Error> {
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Some(rest) = left.checked_sub(1) else { return Ok(()) };
            *left = rest;
            let name = entry.file_name();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && name != ".git" => folders.push(entry.path()),
                Ok(kind) if !kind.is_file() && name.to_str().is_some_and(read) => check(&entry.path(), u64::MAX)?,
                _ => {}
            }
        }
    }
    Ok(())
}

/// The git directory of a working tree and, if that is another, the one with what its worktrees share. Git's own rules
/// are stricter; what is not a repository for it is harmless here.
fn git_dirs(dir: &Path) -> Vec<PathBuf> {
    let Some(git) = dir.ancestors().map(|above| above.join(".git")).find(|git| git.exists()) else { return Vec::new() };
    let line = |file: &Path| foreign::read_text(file, LINE).ok();
    let own = match line(&git) {
        None => git,
        Some(text) => match text.strip_prefix("gitdir:") {
            Some(led) => dir_of(&git).join(led.trim()),
            None => return Vec::new(),
        },
    };
    let common = line(&own.join("commondir")).map(|text| own.join(text.trim_end()));
    std::iter::once(own).chain(common).collect()
}

fn dir_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// Something that git waits for or reads without end; what is missing or a folder it only complains about.
fn check(path: &Path, most: u64) -> Result<(), Error> {
    let Ok(found) = fs::metadata(path) else { return Ok(()) };
    let kind = found.file_type();
    let why = match () {
        () if kind.is_fifo() => "a pipe".to_owned(),
        () if kind.is_char_device() || kind.is_block_device() => "a device".to_owned(),
        () if kind.is_file() && found.len() > most => format!("larger than {most} bytes"),
        () => return Ok(()),
    };
    let why = format!("`{}` is {why}, so git is not used here", path.display());
    Err(Error::new(Code::Conflict, why).hint("remove it from the repository"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{git_in, repository};
    use std::os::unix::fs::symlink;

    fn pipe(path: &Path) {
        let _ = fs::remove_file(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    }

    #[test]
    fn what_git_would_wait_for_or_read_without_end_is_found() {
        let place = repository();
        place.git("worktree add --quiet ../linked");
        let linked = place.dir().parent().unwrap().join("linked");
        git_in(&linked, "status");
        for dir in [place.dir(), &place.dir().join("src"), &linked] {
            assert_eq!(look(dir), Ok(()), "{}", dir.display());
            assert_eq!(look_everywhere(dir), Ok(()), "{}", dir.display());
        }
        let git = place.dir().join(".git");
        for name in ["packed-refs", "objects/info/alternates", "config", "info/exclude"] {
            let before = fs::read(git.join(name)).ok();
            pipe(&git.join(name));
            for dir in [place.dir(), &place.dir().join("src"), &linked] {
                assert!(look(dir).unwrap_err().message.contains(name), "{name} in {}", dir.display());
            }
            fs::remove_file(git.join(name)).unwrap();
            symlink("/dev/zero", git.join(name)).unwrap();
            assert!(look(place.dir()).unwrap_err().message.contains("a device"), "{name}");
            fs::remove_file(git.join(name)).unwrap();
            before.inspect(|text| fs::write(git.join(name), text).unwrap());
        }
        fs::File::create(git.join("commondir")).unwrap().set_len(1 << 40).unwrap();
        assert!(look(place.dir()).unwrap_err().message.contains("larger"));
        fs::remove_file(git.join("commondir")).unwrap();
        for name in [".git/refs/heads/other", ".git/objects/aa/bb", "src/.gitattributes", ".gitignore"] {
            pipe(&place.dir().join(name));
            assert_eq!(look(place.dir()), Ok(()), "{name}");
            assert!(look_everywhere(place.dir()).unwrap_err().message.contains(name), "{name}");
            fs::remove_file(place.dir().join(name)).unwrap();
        }
        // Anything else may be one: git passes over it.
        pipe(&place.dir().join("src/pipe"));
        assert_eq!(look_everywhere(place.dir()), Ok(()));
    }
}
