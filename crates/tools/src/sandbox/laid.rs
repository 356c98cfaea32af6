//! Which file a path was when somebody looked at it: what a workspace supplies for a sandbox is used as that file or not
//! at all, since a link in its place would open something else.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Laid {
    pub(crate) path: PathBuf,
    /// The device and the number there.
    pub(crate) file: (u64, u64),
}

impl Laid {
    /// An error when there is none, or when a link is anywhere in its path.
    pub(crate) fn look(path: &Path) -> io::Result<Self> {
        Ok(Self::of(path, &crate::files::pin(path)?.metadata()?))
    }

    pub(super) fn of(path: &Path, found: &Metadata) -> Self {
        Self { path: path.to_owned(), file: (found.dev(), found.ino()) }
    }

    /// As an argument: the path comes last, whatever is in it.
    pub(super) fn to_word(&self) -> OsString {
        let mut word = format!("{}:{}:", self.file.0, self.file.1).into_bytes();
        word.extend_from_slice(self.path.as_os_str().as_bytes());
        OsString::from_vec(word)
    }

    pub(super) fn from_word(word: &OsStr) -> Option<Self> {
        let mut parts = word.as_bytes().splitn(3, |byte| *byte == b':');
        let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse().ok();
        let file = (number()?, number()?);
        Some(Self { path: PathBuf::from(OsStr::from_bytes(parts.next()?)), file })
    }
}

/// All of these as the files they are now. An error is why nothing can be run.
pub(crate) fn pinned(paths: &[PathBuf]) -> Result<Vec<Laid>, String> {
    let look = |path: &PathBuf| {
        Laid::look(path).map_err(|error| format!("`{}` is needed for its sandbox as it is: {error}", path.display()))
    };
    paths.iter().map(look).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_reads_back_whatever_the_path_is() {
        for path in ["/a", "/a:b/1:2", "/", "/ü\n x"] {
            let laid = Laid { path: path.into(), file: (7, u64::MAX) };
            assert_eq!(Laid::from_word(&laid.to_word()), Some(laid));
        }
        assert_eq!(Laid::from_word(OsStr::new("/a")), None);
    }

    #[test]
    fn a_link_anywhere_in_a_path_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(dir.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a", dir.join("link")).unwrap();
        std::os::unix::fs::symlink("b", dir.join("a/last")).unwrap();
        assert!(Laid::look(&dir.join("a/b")).is_ok());
        for path in ["link/b", "a/last", "link", "none"] {
            assert!(Laid::look(&dir.join(path)).is_err(), "{path}");
        }
    }
}
