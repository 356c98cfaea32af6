//! What would be lost with a worktree: files that are in no commit, and commits that are on no other branch.

use super::repository::{Repository, Tree};
use crate::git::{Apart, Git, Site, Which};
use proto::{Code, Error};
use serde::Serialize;
use std::path::Path;

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
    _apart: Apart,
    /// Repositories inside of the worktree that it knows of.
    pub(super) nested: Vec<String>,
}

impl Index {
    pub(super) async fn of(repo: &Repository, tree: &Tree) -> Result<Self, Error> {
        if tree.git_dir.as_os_str().is_empty() {
            return Err(Error::internal(format!("git has no directory for the worktree `{}`", tree.name)));
        }
        let site = Site { top: &tree.path, git_dir: &tree.git_dir, common: &repo.common, head: &tree.head };
        let apart = Apart::new(&repo.git, &site, Which::Copy)?;
        if !apart.has_index {
            apart.git.work(&["read-tree", "HEAD"]).await?;
        }
        let mut index_copy = Self { git: apart.git.clone(), _apart: apart, nested: Vec::new() };
        index_copy.see_everything(tree).await?;
        Ok(index_copy)
    }

    /// An index can be told to take files for unchanged or absent. What is to be deleted is looked at all the same.
    async fn see_everything(&mut self, tree: &Tree) -> Result<(), Error> {
        let listed = self.git.read(&["ls-files", "-v", "--stage", "-z"]).await?;
        self.nested = nested(&tree.path, &listed);
        let hidden: Vec<&str> = entries(&listed)
            .filter(|entry| {
                let assumed = entry.flag.chars().all(|c| c.is_ascii_lowercase());
                assumed || (entry.flag == "S" && std::fs::symlink_metadata(tree.path.join(entry.path)).is_ok())
            })
            .map(|entry| entry.path)
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

/// What `git ls-files -v --stage -z` says of a file.
struct Entry<'l> {
    flag: &'l str,
    mode: &'l str,
    path: &'l str,
}

fn entries(listed: &str) -> impl Iterator<Item = Entry<'_>> {
    listed.split('\0').filter_map(|line| {
        let (about, path) = line.split_once('\t')?;
        let mut words = about.split(' ');
        Some(Entry { flag: words.next()?, mode: words.next()?, path })
    })
}

/// Repositories that are in an index by their name, and that are there.
pub(super) fn nested(top: &Path, listed: &str) -> Vec<String> {
    // Nobody can tell where one is whose name is no text.
    let there = |path: &&str| path.contains(char::REPLACEMENT_CHARACTER) || top.join(path).join(".git").exists();
    let links = entries(listed).filter(|entry| entry.mode == "160000");
    links.map(|entry| entry.path).filter(there).map(str::to_owned).collect()
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
    let listed = index.git.read(STATUS).await?;
    let mut files: Vec<String> = listed.split('\0').filter(|line| !line.is_empty()).map(str::to_owned).collect();
    for inner in &index.nested {
        let line = format!(" M {inner}");
        if !files.contains(&line) && !is_unchanged(&repo.git, &tree.path.join(inner)).await {
            files.push(line);
        }
    }
    let mut changes = commits(repo, tree).await?;
    changes.file_count = files.len();
    changes.files = files.into_iter().take(NAMED).map(|line| line.trim().to_owned()).collect();
    Ok(changes)
}

/// Of a repository inside, only whether another commit is checked out: to look further, git would start another one in
/// it, and do what its settings say.
const STATUS: &[&str] =
    &["status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignore-submodules=dirty", "--no-renames"];

/// Whether a repository inside has the files that are checked out in it, and no other. One that cannot be looked at, or
/// that has others in itself, counts as changed.
async fn is_unchanged(outer: &Git, dir: &Path) -> bool {
    let look = async || -> Result<bool, Error> {
        let repo = Repository::of(outer.open_in(dir).await?, dir).await?;
        let own = Some(repo.top()) == dir.canonicalize().ok().as_deref();
        let index = Index::of(&repo, &repo.own_tree("")?).await?;
        Ok(own && index.nested.is_empty() && index.git.read(STATUS).await?.is_empty())
    };
    look().await.unwrap_or(false)
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
