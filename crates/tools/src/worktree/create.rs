//! Making a worktree, or finding again one that is there.
//!
//! The usual way costs four git calls: the settings, the places, `git worktree add` without its files, and then the files,
//! apart from what the settings say about them. Everything else is only looked at when that fails.

use super::name::Name;
use super::record::Record;
use super::repository::{Repository, Tree};
use super::{Base, files, inspect, lock, snapshot};
use crate::git::{Apart, Site, Which};
use proto::{Code, Error};
use std::path::{Path, PathBuf};

/// A worktree that is there now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    pub name: String,
    pub path: PathBuf,
    /// Without `refs/heads/`; `None` when no branch is checked out in it.
    pub branch: Option<String>,
    pub base: Option<String>,
    /// The branch that was checked out where it was made, without `refs/heads/`.
    pub from: Option<String>,
    /// What was found instead of nothing, as a sentence.
    pub found: Option<String>,
}

/// A worktree of that name, from what is checked out or from the remote's main branch.
pub async fn create(repo: &Repository, name: &Name, base: Base) -> Result<Made, Error> {
    let head = repo.head.clone().ok_or_else(|| {
        Error::new(Code::Conflict, format!("the repository `{}` has no commit yet", repo.main.display()))
            .hint("make a commit first: a worktree starts from one")
    })?;
    let _lock = lock::take(&repo.common).await?;
    let path = files::prepare(&repo.main, name.as_str())?;
    files::exclude(&repo.common)?;
    if std::fs::symlink_metadata(&path).is_ok() {
        return again(repo, name, path, None).await;
    }
    let start = match base {
        Base::Head => head,
        Base::Fresh => fresh(repo).await?.unwrap_or(head),
    };
    let (branch, place) = (name.branch(), path.display().to_string());
    let add = [ADD, &["--no-track", "-b", &branch, &place, &start]].concat();
    let (added, ()) = tokio::join!(repo.git.work(&add), snapshot::prune(repo));
    match added {
        Ok(_) => {
            fill(repo, &path, &start).await?;
            let record = Record { base: Some(start), from: repo.branch.clone(), kept: false };
            recorded(repo, name, path, record).await
        }
        Err(error) if error.code == Code::Unavailable => again(repo, name, path, Some(error)).await,
        Err(error) => Err(error),
    }
}

/// Makes one without files, in a state that is known for half made until they are there.
const ADD: &[&str] = &["worktree", "add", "--quiet", "--no-checkout", "--lock", "--reason", UNFINISHED];
/// Git's own word for it, while it makes one.
pub(super) const UNFINISHED: &str = "initializing";

/// Puts the files of a commit into a worktree, and says that it is whole.
async fn fill(repo: &Repository, path: &Path, commit: &str) -> Result<(), Error> {
    let git_dir = git_dir(path)?;
    let site = Site { top: path, git_dir: &git_dir, common: &repo.common, head: commit };
    let apart = Apart::new(&repo.git, &site, Which::Own)?;
    apart.git.work(&["read-tree", "--reset", "-u", commit]).await?;
    std::fs::remove_file(git_dir.join("locked")).map_err(|error| files::refused("unlock", path, &error))
}

/// The remote's main branch, as it was last fetched.
async fn fresh(repo: &Repository) -> Result<Option<String>, Error> {
    for name in ["refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/remotes/origin/master"] {
        let commit = format!("{name}^{{commit}}");
        if let Some(found) = repo.git.ask(&["rev-parse", "--verify", "--quiet", &commit]).await? {
            return Ok(Some(found.trim().to_owned()));
        }
    }
    Ok(None)
}

/// Something of that name is there: a worktree that somebody left, one that a crash cut short, or only its branch.
async fn again(repo: &Repository, name: &Name, path: PathBuf, failed: Option<Error>) -> Result<Made, Error> {
    let tree = repo.trees().await?.into_iter().find(|tree| tree.path == path);
    tree.as_ref().map_or(Ok(()), Tree::check_connected)?;
    let branch = name.branch();
    let has_branch = repo.git.ask(&["rev-parse", "--verify", "--quiet", &super::branch_ref(name.as_str())]).await?;
    let place = path.display().to_string();
    let (record, found) = match (&tree, has_branch.as_deref()) {
        (Some(tree), _) if tree.is_unfinished() => {
            (complete(repo, tree).await?, "It was only half made, and is whole now.")
        }
        (Some(tree), _) if !tree.is_missing() => (tree.record(), "It was there already, and is entered as it is."),
        (None, _) if std::fs::symlink_metadata(&path).is_ok() => return Err(in_the_way(&path)),
        (_, Some(tip)) => {
            let record = tree.as_ref().map(Tree::record).unwrap_or_default();
            repo.git.work(&[ADD, &["--force", &place, &branch]].concat()).await?;
            fill(repo, &path, tip.trim()).await?;
            (record, "Its branch was there already, with what is committed on it.")
        }
        _ => return Err(failed.unwrap_or_else(|| in_the_way(&path))),
    };
    let mut made = recorded(repo, name, path, Record { kept: false, ..record }).await?;
    made.found = Some(found.into());
    Ok(made)
}

/// Finishes what a killed git began. Nobody was in it yet, but what is there is kept all the same.
pub(super) async fn complete(repo: &Repository, tree: &Tree) -> Result<Record, Error> {
    let _ = std::fs::remove_file(tree.git_dir.join("index.lock"));
    let index = inspect::Index::of(repo, tree).await?;
    snapshot::take(repo, tree, &index).await?;
    fill(repo, &tree.path, &tree.head).await?;
    Ok(Record { base: Some(tree.head.clone()), from: repo.branch.clone(), ..tree.record() })
}

fn in_the_way(path: &Path) -> Error {
    Error::new(Code::Conflict, format!("`{}` is there, and is not a worktree of this repository", path.display()))
        .hint("move it away, or choose another name")
}

/// Writes down where it came from, and tells what there is.
pub(super) async fn recorded(repo: &Repository, name: &Name, path: PathBuf, record: Record) -> Result<Made, Error> {
    let path = path.canonicalize().map_err(|error| files::refused("find", &path, &error))?;
    let git_dir = git_dir(&path)?;
    record.write(&git_dir)?;
    let head = foreign::read_text(&git_dir.join("HEAD"), files::MOST_OF_A_NAME).unwrap_or_default();
    let branch = head.trim().strip_prefix("ref: refs/heads/").map(str::to_owned);
    let from = record.from.as_deref().map(|from| from.trim_start_matches("refs/heads/").to_owned());
    tracing::debug!(worktree = name.as_str(), top = %repo.main.display(), "made a worktree");
    Ok(Made { name: name.as_str().into(), path, branch, base: record.base, from, found: None })
}

pub(super) fn git_dir(path: &Path) -> Result<PathBuf, Error> {
    let file = path.join(".git");
    let text =
        foreign::read_text(&file, files::MOST_OF_A_NAME).map_err(|error| files::refused("read", &file, &error))?;
    let dir = text.trim().strip_prefix("gitdir: ").map(|dir| path.join(dir));
    dir.ok_or_else(|| Error::internal(format!("`{}` does not name a git directory", file.display())))
}
