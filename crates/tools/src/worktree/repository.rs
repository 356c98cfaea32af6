//! The repository a directory belongs to, and the worktrees it has.

use super::files;
use super::name::Name;
use super::record::Record;
use crate::git::Git;
use crate::process::Processes;
use proto::{Code, Error};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often git is asked again, and after how long.
const TRIES: u32 = 100;
const GLANCE: Duration = Duration::from_millis(20);

pub struct Repository {
    /// In `top`.
    pub(super) git: Git,
    /// The working tree that holds the directory.
    pub(super) top: PathBuf,
    /// Of that working tree.
    git_dir: PathBuf,
    /// What all working trees share.
    pub(super) common: PathBuf,
    /// The working tree that is not a linked one: worktrees are made below it.
    pub(super) main: PathBuf,
    /// What is checked out; `None` before the first commit.
    pub(super) head: Option<String>,
    /// The branch that is checked out, as `refs/heads/…`.
    pub(super) branch: Option<String>,
}

impl Repository {
    /// Of a directory.
    pub async fn open(processes: Arc<dyn Processes>, cancel: CancellationToken, dir: &Path) -> Result<Self, Error> {
        if !dir.is_dir() {
            return Err(Error::not_found(format!("the directory `{}` is gone", dir.display())));
        }
        Self::of(Git::open(processes, cancel, dir).await?, dir).await
    }

    /// Of a directory that git was opened in.
    pub(super) async fn of(git: Git, dir: &Path) -> Result<Self, Error> {
        let places = ["rev-parse", "--path-format=absolute", "--show-toplevel", "--git-dir", "--git-common-dir"];
        let with_head = [places.as_slice(), &["HEAD", "--symbolic-full-name", "HEAD"]].concat();
        let said = match git.ask(&with_head).await? {
            Some(said) => said,
            // There is no commit yet, or no repository.
            None => git.read(&places).await.map_err(|error| no_repository(dir, &error))?,
        };
        let mut lines = said.lines();
        let mut next = || lines.next().map(PathBuf::from).unwrap_or_default();
        let (top, git_dir, common) = (next(), next(), next());
        let head = lines.next().map(str::to_owned);
        let branch = lines.next().filter(|name| name.starts_with("refs/heads/")).map(str::to_owned);
        // A setting of the repository can name any directory as its working tree.
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if !real(dir).starts_with(real(&top)) {
            let why = format!(
                "the repository says that `{}` is its working tree, and not `{}`",
                top.display(),
                dir.display()
            );
            return Err(Error::new(Code::Conflict, why).hint("start the session in its working tree"));
        }
        let (top, git_dir, common) = (real(&top), real(&git_dir), real(&common));
        let main = match common.parent() {
            Some(above) if git_dir != common && common.ends_with(".git") => above.to_owned(),
            _ => top.clone(),
        };
        let git = git.at(&top).writing([common.clone(), git_dir.clone(), files::folder(&main)]);
        Ok(Self { git, top, git_dir, common, main, head, branch })
    }

    /// The directory is in a linked worktree, and not in the repository's own working tree.
    pub(crate) fn is_linked(&self) -> bool {
        self.git_dir != self.common
    }

    pub(crate) fn top(&self) -> &Path {
        &self.top
    }

    /// The working tree that holds the directory, as if it were one of our worktrees.
    pub(super) fn own_tree(&self, name: &str) -> Result<Tree, Error> {
        let head = self.head.clone().ok_or_else(|| Error::new(Code::Conflict, "there is no commit in it yet"))?;
        Ok(Tree {
            name: name.to_owned(),
            path: self.top.clone(),
            git_dir: self.git_dir.clone(),
            head,
            branch: self.branch.clone(),
            locked: None,
        })
    }

    /// The worktrees below our folder, as git has them.
    pub(super) async fn trees(&self) -> Result<Vec<Tree>, Error> {
        let listed = self.listed().await?;
        let folder = files::folder(&self.main);
        let ours = |tree: &Tree| tree.path.starts_with(&folder);
        let mut trees: Vec<Tree> = parse(&listed).into_iter().filter(ours).collect();
        for tree in &mut trees {
            tree.name = tree.path.strip_prefix(&folder).map(|name| name.display().to_string()).unwrap_or_default();
            tree.git_dir = self.git_dir_of(&tree.path);
        }
        Ok(trees)
    }

    /// What git says of them. It refuses to say anything while another git is half-way through making one, which passes.
    async fn listed(&self) -> Result<String, Error> {
        let mut tries = 0;
        loop {
            match self.git.read(&["worktree", "list", "--porcelain", "-z"]).await {
                Err(error) if tries < TRIES && error.message.contains("commondir") => tries += 1,
                listed => return listed,
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// One of them, by its name.
    pub(super) async fn tree(&self, name: &Name) -> Result<Tree, Error> {
        let trees = self.trees().await?;
        let names: Vec<String> = trees.iter().map(|tree| tree.name.clone()).collect();
        trees.into_iter().find(|tree| tree.name == name.as_str()).ok_or_else(|| {
            let error =
                Error::not_found(format!("there is no worktree `{}` in `{}`", name.as_str(), self.main.display()));
            let hint = match names.as_slice() {
                [] => "there is none; `enter_worktree` makes one".into(),
                names => format!("there is: {}", names.join(", ")),
            };
            error.hint(hint)
        })
    }

    /// The git directory of a linked worktree. Looked up from git's side: the worktree's own folder may be gone, and what
    /// it says may have been changed.
    fn git_dir_of(&self, path: &Path) -> PathBuf {
        let entries = std::fs::read_dir(self.common.join("worktrees")).into_iter().flatten().flatten();
        let leads_to = |dir: &PathBuf| {
            foreign::read_text(&dir.join("gitdir"), files::MOST_OF_A_NAME)
                .is_ok_and(|text| Path::new(text.trim()) == path.join(".git"))
        };
        entries.map(|entry| entry.path()).find(leads_to).unwrap_or_default()
    }
}

/// A worktree as git lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Empty when git has none for it.
    pub(super) git_dir: PathBuf,
    pub(super) head: String,
    /// As `refs/heads/…`; `None` when no branch is checked out.
    pub(super) branch: Option<String>,
    /// Why it is locked.
    pub(super) locked: Option<String>,
}

impl Tree {
    /// Git was ended while it made this.
    pub(super) fn is_unfinished(&self) -> bool {
        self.locked.as_deref() == Some(super::create::UNFINISHED)
    }

    /// Its directory is gone.
    pub(super) fn is_missing(&self) -> bool {
        std::fs::symlink_metadata(&self.path).is_err()
    }

    /// Refuses a directory that no longer says whose it is: git could not tell what in it is changed.
    pub(super) fn check_connected(&self) -> Result<(), Error> {
        if self.is_missing() || self.path.join(".git").is_file() {
            return Ok(());
        }
        let why = format!("the worktree `{}` has lost its file `.git`", self.name);
        Err(Error::new(Code::Conflict, why).hint("`git worktree repair` in the repository brings it back"))
    }

    pub(super) fn record(&self) -> Record {
        Record::read(&self.git_dir)
    }
}

fn parse(listed: &str) -> Vec<Tree> {
    let mut trees: Vec<Tree> = Vec::new();
    for line in listed.split('\0') {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        if key == "worktree" {
            trees.push(Tree { path: value.into(), ..Tree::default() });
            continue;
        }
        let Some(tree) = trees.last_mut() else { continue };
        match key {
            "HEAD" => value.clone_into(&mut tree.head),
            "branch" => tree.branch = Some(value.to_owned()),
            "locked" => tree.locked = Some(value.to_owned()),
            _ => {}
        }
    }
    trees
}

fn no_repository(dir: &Path, error: &Error) -> Error {
    if !error.message.contains("not a git repository") {
        return error.clone();
    }
    Error::new(Code::Conflict, format!("`{}` is not in a git repository", dir.display()))
        .hint("run `git init` and make a commit, or set `hooks.worktree_create` for another version control")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_lists_its_worktrees() {
        let listed = "worktree /r\0HEAD aa\0branch refs/heads/main\0\0worktree /r/w x\0HEAD bb\0detached\0locked initializing\0\0";
        let trees = parse(listed);
        assert_eq!(trees.len(), 2);
        assert_eq!(trees[0].branch.as_deref(), Some("refs/heads/main"));
        assert_eq!((trees[1].path.to_str(), trees[1].head.as_str()), (Some("/r/w x"), "bb"));
        assert!(trees[1].is_unfinished() && trees[1].branch.is_none());
    }
}
