//! Which files of a folder are left out of a search: `.ignore`, `.gitignore` and `.git/info/exclude`, in it, above it and
//! below it, and git's own list of the user.
//!
//! These files come with a repository. They are read here and not by the walker, so that none of them is waited for, none
//! is read without end, no line of one leads a parser down without end, and none becomes far more in memory than it is on
//! disk ([`List`]). What is beyond a limit is passed over.

use super::list::{List, Said};
use ignore::gitignore::gitconfig_excludes_path;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError, RwLock};
use tokio_util::sync::CancellationToken;

/// The largest file of this kind. Those of large projects have 30 KiB.
const MOST_BYTES: u64 = 256 << 10;
/// What all of them together may take up in one walk; there can be some hundred walks at once.
const MOST_OF_ALL: u64 = 2 << 20;
/// Files of this kind that hold for one folder.
const DEEPEST: usize = 128;
/// The files of git that name a directory.
const MOST_OF_A_NAME: u64 = 8 << 10;

pub(super) struct Ignores {
    /// The repository that is walked, or the folder: no link leads out of it.
    tree: PathBuf,
    levels: RwLock<HashMap<PathBuf, Chain>>,
    /// Git's list of the user, for all repositories.
    everywhere: List,
    left: AtomicU64,
    cancel: CancellationToken,
}

/// What holds in a folder, the nearest first.
type Chain = Arc<[Arc<Level>]>;

/// What the files of one folder say, the strongest first: `.ignore`, `.gitignore`, `.git/info/exclude`.
struct Level {
    folder: PathBuf,
    lists: [List; 3],
}

impl Ignores {
    pub(super) fn new(root: &Path, cancel: CancellationToken) -> Self {
        let tree = root.ancestors().find(|above| above.join(".git").exists()).unwrap_or(root).to_owned();
        let mut new = Self {
            tree,
            levels: RwLock::default(),
            everywhere: List::default(),
            left: AtomicU64::new(MOST_OF_ALL),
            cancel,
        };
        if let Some(file) = gitconfig_excludes_path() {
            new.everywhere = new.list(&file, foreign::read(&file, MOST_BYTES));
        }
        new
    }

    /// Whether a file or folder below the root is left out.
    pub(super) fn leaves_out(&self, path: &Path, is_dir: bool) -> bool {
        let Some(folder) = path.parent() else { return false };
        let chain = self.chain(folder);
        for kind in 0..3 {
            for level in chain.iter() {
                let list = &level.lists[kind];
                if list.is_empty() || self.cancel.is_cancelled() {
                    continue;
                }
                match list.say(below(path, &level.folder), is_dir) {
                    None => {}
                    Some(Said::LeaveOut) => return true,
                    Some(Said::Keep) => return false,
                }
            }
        }
        self.everywhere.say(below(path, &self.tree), is_dir) == Some(Said::LeaveOut)
    }

    /// What holds in a folder. A walk goes down, so those above are known, but for the first.
    fn chain(&self, folder: &Path) -> Chain {
        if let Some(known) = self.known(folder) {
            return known;
        }
        let above: Vec<&Path> = folder.ancestors().skip(1).take_while(|above| self.known(above).is_none()).collect();
        let start = above.last().unwrap_or(&folder).parent();
        let mut chain = start.and_then(|above| self.known(above)).unwrap_or_default();
        for at in above.into_iter().rev().chain([folder]) {
            chain = self.below(at, chain);
            self.levels.write().unwrap_or_else(PoisonError::into_inner).insert(at.to_owned(), Arc::clone(&chain));
        }
        chain
    }

    fn known(&self, folder: &Path) -> Option<Chain> {
        self.levels.read().unwrap_or_else(PoisonError::into_inner).get(folder).map(Arc::clone)
    }

    /// What holds in a folder, given what holds above it.
    fn below(&self, folder: &Path, above: Chain) -> Chain {
        if self.cancel.is_cancelled() || above.len() >= DEEPEST {
            return above;
        }
        let own = [folder.join(".ignore"), folder.join(".gitignore")].map(|file| self.read(folder, &file));
        let [ignore, git] = own;
        let level = Level { folder: folder.to_owned(), lists: [ignore, git, self.excluded(folder)] };
        if level.lists.iter().all(List::is_empty) {
            return above;
        }
        std::iter::once(Arc::new(level)).chain(above.iter().cloned()).collect()
    }

    fn read(&self, folder: &Path, file: &Path) -> List {
        // A folder above the tree has its own files, and links of them lead nowhere else.
        let tree = if folder.starts_with(&self.tree) { &self.tree } else { folder };
        self.list(folder, foreign::read_link_within(file, tree, MOST_BYTES))
    }

    /// What git keeps beside the repository. A linked worktree shares it with the one it was made from.
    fn excluded(&self, folder: &Path) -> List {
        let git = folder.join(".git");
        match std::fs::metadata(&git) {
            Ok(found) if found.is_dir() => self.read(folder, &git.join("info/exclude")),
            Ok(found) if found.is_file() => match common(&git, &self.tree) {
                Some(common) => self.list(folder, foreign::read(&common.join("info/exclude"), MOST_BYTES)),
                None => List::default(),
            },
            _ => List::default(),
        }
    }

    fn list(&self, place: &Path, text: std::io::Result<Vec<u8>>) -> List {
        match text {
            Ok(text) => List::read(&text, &self.left),
            Err(error) => {
                if error.kind() != std::io::ErrorKind::NotFound {
                    tracing::debug!(place = %place.display(), %error, "a list of ignored files is not read");
                }
                List::default()
            }
        }
    }
}

/// A path as seen from a folder above it.
fn below<'a>(path: &'a Path, folder: &Path) -> &'a [u8] {
    let (path, folder) = (path.as_os_str().as_bytes(), folder.as_os_str().as_bytes());
    let rest = path.strip_prefix(folder).unwrap_or(path);
    rest.strip_prefix(b"/").unwrap_or(rest)
}

/// Where a linked worktree's repository keeps what all of its worktrees share.
fn common(link: &Path, tree: &Path) -> Option<PathBuf> {
    let text = String::from_utf8(foreign::read_within(link, tree, MOST_OF_A_NAME).ok()?).ok()?;
    let own = link.parent()?.join(text.strip_prefix("gitdir:")?.trim());
    let common = foreign::read_text(&own.join("commondir"), MOST_OF_A_NAME).ok()?;
    Some(own.join(common.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::super::walk;
    use crate::testing::Place;
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use tokio_util::sync::CancellationToken;

    fn found(root: &Path) -> BTreeSet<PathBuf> {
        let leave: Arc<dyn crate::door::Leave> = Arc::new(crate::door::Freely);
        let entries = walk(root, &leave, &CancellationToken::new()).build().map(|entry| entry.unwrap().into_path());
        entries.filter(|path| path.is_file()).map(|path| path.strip_prefix(root).unwrap().to_owned()).collect()
    }

    /// As the crate that ripgrep is made of does it, which reads the files itself.
    fn expected(root: &Path) -> BTreeSet<PathBuf> {
        let mut builder = ignore::WalkBuilder::new(root);
        builder.hidden(false).require_git(false).filter_entry(|entry| entry.file_name() != ".git");
        let entries = builder.build().map(|entry| entry.unwrap().into_path());
        entries.filter(|path| path.is_file()).map(|path| path.strip_prefix(root).unwrap().to_owned()).collect()
    }

    #[test]
    fn what_is_ignored_is_what_ripgrep_ignores() {
        let place = Place::new();
        for file in [
            "a.log",
            "b.txt",
            "keep.log",
            "build/x",
            "src/a.log",
            "src/keep.log",
            "src/deep/c.tmp",
            "src/deep/d.rs",
            "src/deep/build/y",
            "vendor/.hidden",
            "vendor/one/two/z.o",
            "vendor/one/two/z.c",
            "target/debug/o",
            "sub/target/o",
            "nested/.git/HEAD",
            "nested/e.secret",
            "nested/f.rs",
            "odd/[a].x",
            "odd/ä.x",
            "excluded/file",
            "sub/local",
        ] {
            place.file(file, "x");
        }
        place.file(
            ".gitignore",
            "\u{feff}*.log\n!keep.log\n/build/\n# a comment\n\n\\#odd\n*.tmp \r\n{a,b}.none\n[unclosed\n",
        );
        place.file("src/.gitignore", "!*.log\nkeep.log\ndeep/*.rs\n");
        place.file("src/deep/.ignore", "!d.rs\n");
        place.file("vendor/.ignore", "*.o\n**/two/*.h\n");
        place.file("sub/.gitignore", "target\n");
        place.file("nested/.gitignore", "*.rs\n");
        place.file("nested/.git/info/exclude", "*.secret\n");
        place.file(".git/info/exclude", "excluded/\n/sub/local\n");
        let root = place.dir();
        for below in ["", "src", "src/deep", "vendor/one", "nested", "sub"] {
            assert_eq!(found(&root.join(below)), expected(&root.join(below)), "below `{below}`");
        }
        assert!(!found(root).is_empty() && !found(root).contains(Path::new("a.log")));
    }

    #[test]
    fn no_list_of_ignored_files_is_waited_for_or_read_without_end() {
        let place = Place::new();
        place.file("a.txt", "x");
        let braces = "{".repeat(20_000) + &"}".repeat(20_000);
        place.file("braces/.gitignore", format!("{braces}\n*.log\n"));
        place.file("braces/a.log", "x");
        place.file("braces/b.txt", "x");
        place.file("long/.ignore", format!("{}\n*.log\n", "*a".repeat(100_000)));
        place.file("long/b.txt", "x");
        place.file("large/.ignore", "*.log\n".repeat(200_000));
        place.file("large/b.log", "x");
        place.file("mixed/.gitignore", "{[}]".repeat(30_000));
        place.file("mixed/b.txt", "x");
        for (folder, name) in
            [("pipe", ".ignore"), ("other", ".gitignore"), ("bare", ".git"), ("info", ".git/info/exclude")]
        {
            let path = place.file(&format!("{folder}/b.txt"), "x").with_file_name(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        }
        place.file("zero/b.txt", "x");
        std::os::unix::fs::symlink("/dev/zero", place.dir().join("zero/.ignore")).unwrap();
        place.file("linked/b.txt", "x");
        place.file("linked/.git", "gitdir: /dev\n");
        let found = found(place.dir());
        let expected =
            ["a.txt", "braces/b.txt", "long/b.txt", "large/b.log", "mixed/b.txt", "pipe/b.txt", "zero/b.txt"];
        for file in expected {
            assert!(found.contains(Path::new(file)), "{file}");
        }
        assert!(!found.contains(Path::new("braces/a.log")), "the other lines still count");
    }

    #[test]
    fn a_link_to_a_list_elsewhere_is_not_followed_and_one_inside_is() {
        let place = Place::new();
        place.file(".gitignore", "*.log\n");
        place.file("inside/a.x", "");
        place.file("rules", "*.x\n");
        std::os::unix::fs::symlink("../rules", place.dir().join("inside/.ignore")).unwrap();
        place.file("outside/a.x", "");
        let elsewhere = place.dir().parent().unwrap().join("elsewhere");
        std::fs::write(&elsewhere, "*.x\n").unwrap();
        std::os::unix::fs::symlink(&elsewhere, place.dir().join("outside/.ignore")).unwrap();
        let found = found(place.dir());
        assert!(!found.contains(Path::new("inside/a.x")) && found.contains(Path::new("outside/a.x")), "{found:?}");
    }
}
