//! What would be lost with a worktree: files that are in no commit, and commits that are on no other branch.

use super::files;
use super::repository::{Repository, Tree};
use crate::git::Git;
use proto::{Code, Error};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// How many of each are named.
const NAMED: usize = 50;
/// Paths given to one git call; far below what a command line holds.
const TOGETHER: usize = 200;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    /// Each with the letters of `git status`; the first fifty.
    pub files: Vec<String>,
    pub file_count: usize,
    /// Each with its short id; the first fifty.
    pub commits: Vec<String>,
    pub commit_count: usize,
}

impl Changes {
    pub fn is_none(&self) -> bool {
        self.file_count == 0 && self.commit_count == 0
    }

    /// As a sentence's part: `2 uncommitted files and 1 commit that is on no other branch`.
    pub fn words(&self) -> String {
        let files = format!("{} uncommitted {}", self.file_count, plural(self.file_count, "file", "files"));
        let commits = format!(
            "{} {} on the original branch",
            self.commit_count,
            plural(self.commit_count, "commit that is not", "commits that are not")
        );
        match (self.file_count, self.commit_count) {
            (0, 0) => "nothing that is not committed and merged".into(),
            (_, 0) => files,
            (0, _) => commits,
            _ => format!("{files} and {commits}"),
        }
    }
}

fn plural<'a>(count: usize, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

/// A copy of a worktree's index to work with: the user's own is never touched, nor needed when it is locked.
pub(super) struct Index {
    /// Git in the worktree, with the copy as its index.
    pub(super) git: Git,
    path: PathBuf,
}

impl Index {
    pub(super) async fn of(repo: &Repository, tree: &Tree) -> Result<Self, Error> {
        if tree.git_dir.as_os_str().is_empty() {
            return Err(Error::internal(format!("git has no directory for the worktree `{}`", tree.name)));
        }
        let path = tree.git_dir.join(format!("convoke-index-{}", proto::CallId::new()));
        let index = tree.git_dir.join("index");
        let git = repo.git.at(&tree.path).with("GIT_INDEX_FILE", &path.display().to_string());
        let index_copy = Self { git, path };
        if index.exists() {
            copy(&index, &index_copy.path).map_err(|error| files::refused("copy", &index, &error))?;
            index_copy.see_everything(tree).await?;
        } else {
            index_copy.git.work(&["read-tree", "HEAD"]).await?;
        }
        Ok(index_copy)
    }

    /// An index can be told to take files for unchanged or absent. What is to be deleted is looked at all the same.
    async fn see_everything(&self, tree: &Tree) -> Result<(), Error> {
        let listed = self.git.read(&["ls-files", "-v", "-z"]).await?;
        let entries = listed.split('\0').filter_map(|line| line.split_once(' '));
        let hidden: Vec<&str> = entries
            .filter(|(flag, path)| {
                let assumed = flag.chars().all(|c| c.is_ascii_lowercase());
                assumed || (*flag == "S" && std::fs::symlink_metadata(tree.path.join(path)).is_ok())
            })
            .map(|(_, path)| path)
            .collect();
        for paths in hidden.chunks(TOGETHER) {
            for flag in ["--no-assume-unchanged", "--no-skip-worktree"] {
                let args = [&["update-index", flag, "--"], paths].concat();
                self.git.work(&args).await?;
            }
        }
        Ok(())
    }
}

/// With the time of the original: git looks into files that changed within the second of their index, and would pass over
/// a change of the same length if the index seemed younger.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let written = std::fs::metadata(from)?.modified()?;
    std::fs::copy(from, to)?;
    std::fs::File::options().write(true).open(to)?.set_modified(written)
}

impl Drop for Index {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(self.path.with_extension("lock"));
    }
}

/// Refuses to look while another git works in the worktree: what it is about to commit is in neither place.
pub(super) fn check_unlocked(tree: &Tree) -> Result<(), Error> {
    let lock = tree.git_dir.join("index.lock");
    if !lock.exists() {
        return Ok(());
    }
    let why =
        format!("the index of the worktree `{}` is locked: another git command works in it, or was killed", tree.name);
    let hint = format!("wait for it; if there is none, delete `{}` and try again", lock.display());
    Err(Error::new(Code::Conflict, why).hint(hint))
}

/// Looks at a worktree that is there.
pub(super) async fn changes(repo: &Repository, tree: &Tree, index: &Index) -> Result<Changes, Error> {
    let args = ["status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignore-submodules=none", "--no-renames"];
    let listed = index.git.read(&args).await?;
    let files: Vec<&str> = listed.split('\0').filter(|line| !line.is_empty()).collect();
    let mut changes = commits(repo, tree).await?;
    changes.file_count = files.len();
    changes.files = files.into_iter().take(NAMED).map(|line| line.trim().to_owned()).collect();
    Ok(changes)
}

/// Commits of the worktree that are neither in what it was made from nor on the branch it came from.
pub(super) async fn commits(repo: &Repository, tree: &Tree) -> Result<Changes, Error> {
    let record = tree.record();
    let own = super::branch_ref(&tree.name);
    let mut args = vec!["rev-list", "--ignore-missing", "--no-commit-header", "--format=%h %s", &tree.head, &own];
    args.push("--not");
    match (&record.base, &record.from) {
        // Nobody wrote down where it came from: what the repository's own working tree has checked out counts.
        (None, None) => args.push("main-worktree/HEAD"),
        (base, from) => args.extend(base.as_deref().into_iter().chain(from.as_deref())),
    }
    let listed = repo.git.read(&args).await?;
    let commits: Vec<&str> = listed.lines().filter(|line| !line.is_empty()).collect();
    Ok(Changes {
        commit_count: commits.len(),
        commits: commits.into_iter().take(NAMED).map(str::to_owned).collect(),
        ..Changes::default()
    })
}
