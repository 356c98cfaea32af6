//! Git on the files of a working tree, apart from the repository they belong to.
//!
//! Checking files out, adding them and comparing them is where git runs filters, and which ones is decided by settings that
//! may include files which somebody changes between a look and the work. So none of them is there: git works in a
//! directory of ours with a repository that has no settings, no hooks and no branches, and takes from the real one its
//! objects and, where it is to be changed, its index.

use super::Git;
use proto::{Code, Error};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// The largest list of ignored files or attributes that is taken over.
const MOST_LISTED: u64 = 1 << 20;

/// Where a working tree is, and what belongs to it.
pub(crate) struct Site<'a> {
    pub(crate) top: &'a Path,
    pub(crate) git_dir: &'a Path,
    pub(crate) common: &'a Path,
    /// The commit that counts as checked out.
    pub(crate) head: &'a str,
}

/// Which index is worked with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// The working tree's own.
    Own,
    /// A copy of it: the user's own is never touched, nor needed when it is locked.
    Copy,
}

/// Gone when it is dropped.
pub(crate) struct Apart {
    pub(crate) git: Git,
    /// There was an index to begin with.
    pub(crate) has_index: bool,
    dir: PathBuf,
}

impl Apart {
    pub(crate) fn new(git: &Git, site: &Site<'_>, which: Which) -> Result<Self, Error> {
        let temporary = std::env::temp_dir();
        let temporary = temporary.canonicalize().unwrap_or(temporary);
        let dir = temporary.join(format!("convoke-git-{}", proto::CallId::new()));
        let own = [site.top, site.git_dir].into_iter().filter(|_| which == Which::Own).map(Path::to_owned);
        let git = git.at(site.top).writing(own.chain([dir.clone()]));
        let made = Self { git, has_index: site.git_dir.join("index").exists(), dir };
        made.lay_out(site, which).map_err(|error| {
            let why = format!("cannot work on the files of `{}`: {error}", site.top.display());
            Error::new(Code::Unavailable, why).hint("look at the room on the disk of temporary files")
        })?;
        Ok(made.told(site, which))
    }

    fn lay_out(&self, site: &Site<'_>, which: Which) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(&self.dir)?;
        for folder in ["objects", "refs", "info"] {
            fs::create_dir(self.dir.join(folder))?;
        }
        fs::write(self.dir.join("HEAD"), format!("{}\n", site.head))?;
        let format = if site.head.len() > 40 { "\n[extensions]\n\tobjectFormat = sha256" } else { "" };
        let version = u8::from(!format.is_empty());
        let settings = format!("[core]\n\trepositoryFormatVersion = {version}\n\tbare = false{format}\n");
        fs::write(self.dir.join("config"), settings)?;
        // Which files count is theirs to say; nothing in there runs.
        for list in ["info/exclude", "info/attributes"] {
            if let Some(text) = small(&site.common.join(list)) {
                fs::write(self.dir.join(list), text)?;
            }
        }
        for entry in fs::read_dir(site.git_dir)?.flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(b"sharedindex.") {
                symlink(entry.path(), self.dir.join(entry.file_name()))?;
            }
        }
        if which == Which::Copy && self.has_index {
            copy(&site.git_dir.join("index"), &self.dir.join("index"))
        } else {
            Ok(())
        }
    }

    fn told(mut self, site: &Site<'_>, which: Which) -> Self {
        let mut tell = |name: &str, path: &Path| self.git = self.git.with(name, &path.display().to_string());
        tell("GIT_DIR", &self.dir);
        tell("GIT_WORK_TREE", site.top);
        tell("GIT_OBJECT_DIRECTORY", &site.common.join("objects"));
        if which == Which::Own {
            tell("GIT_INDEX_FILE", &site.git_dir.join("index"));
        }
        self
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A plain file that is not too large.
fn small(path: &Path) -> Option<Vec<u8>> {
    let (file, found) = crate::files::open(path).ok()?;
    let mut text = Vec::new();
    (found.len() <= MOST_LISTED).then_some(())?;
    file.take(MOST_LISTED).read_to_end(&mut text).ok()?;
    Some(text)
}

/// With the time of the original: git looks into files that changed within the second of their index, and would pass over
/// a change of the same length if the index seemed younger.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let (mut from, found) = crate::files::open(from).map_err(io::Error::other)?;
    let mut to = File::create(to)?;
    io::copy(&mut from, &mut to)?;
    to.set_modified(found.modified()?)
}
