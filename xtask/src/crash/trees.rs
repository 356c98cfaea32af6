//! Everything that was ever written and is still to be found: in the directory, in a worktree, on a branch or in a
//! snapshot.

use super::ledger::{Kind, Violation};
use anyhow::{Context, ensure};
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder that all files are written into, wherever the session is.
pub(super) const FOLDER: &str = "out";

/// A file by its name, with what it holds.
type File = (String, String);

pub(super) struct Trees {
    directory: PathBuf,
    /// What commits hold: that never changes.
    commits: HashMap<String, Vec<File>>,
    /// Worktrees and snapshots at the last look.
    pub(super) counts: (usize, usize),
}

impl Trees {
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), commits: HashMap::new(), counts: (0, 0) }
    }

    /// Of what was written, and told to be written, nothing is gone.
    pub(super) fn check<'a>(
        &mut self,
        written: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> anyhow::Result<Vec<Violation>> {
        let there = self.files()?;
        let gone = written.filter(|(name, text)| !there.contains(&((*name).to_owned(), (*text).to_owned())));
        let what = |name: &str| format!("`{name}`: in no directory, on no branch and in no snapshot");
        Ok(gone.map(|(name, _)| Violation::new(Kind::Lost, what(name))).collect())
    }

    fn files(&mut self) -> anyhow::Result<HashSet<File>> {
        let mut there = HashSet::new();
        let trees: Vec<PathBuf> = children(&self.directory.join(".convoke/worktrees"))?;
        for folder in trees.iter().chain([&self.directory]) {
            for file in children(&folder.join(FOLDER))? {
                let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let text =
                    std::fs::read_to_string(&file).with_context(|| format!("cannot read `{}`", file.display()))?;
                there.insert((format!("{FOLDER}/{name}"), text));
            }
        }
        let refs = self.git(&["for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/convoke"])?;
        for commit in refs.lines().filter_map(|line| line.split(' ').next()) {
            if !self.commits.contains_key(commit) {
                let files = self.committed(commit)?;
                self.commits.insert(commit.to_owned(), files);
            }
            there.extend(self.commits[commit].iter().cloned());
        }
        let snapshots = refs.lines().filter(|line| line.contains(" refs/convoke/snapshots/")).count();
        self.counts = (trees.len(), snapshots);
        Ok(there)
    }

    fn committed(&self, commit: &str) -> anyhow::Result<Vec<File>> {
        let list = self.git(&["ls-tree", "-r", commit, &format!("{FOLDER}/")])?;
        let rows = list.lines().filter_map(|line| line.split_once('\t'));
        let names: Vec<&str> = rows.map(|(_, name)| name).collect();
        let asked: String = names.iter().map(|name| format!("{commit}:{name}\n")).collect();
        let answer = self.git_with(&["cat-file", "--batch"], &asked)?;
        let mut rest = answer.as_str();
        let mut files = Vec::new();
        for name in names {
            let (head, body) = rest.split_once('\n').with_context(|| format!("git does not know `{name}`"))?;
            let size: usize = head.rsplit(' ').next().unwrap_or_default().parse().context("git tells no size")?;
            files.push((name.to_owned(), body[..size].to_owned()));
            rest = &body[size + 1..];
        }
        Ok(files)
    }

    fn git(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.git_with(arguments, "")
    }

    fn git_with(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        git(&self.directory, arguments, input)
    }
}

/// Makes the directory a repository with all that is in it.
pub(super) fn found(directory: &Path) -> anyhow::Result<()> {
    git(directory, &["init", "--quiet", "--initial-branch", "main"], "")?;
    git(directory, &["add", "--all"], "")?;
    git(
        directory,
        &["-c", "user.name=crash", "-c", "user.email=crash@localhost", "commit", "--quiet", "-m", "first"],
        "",
    )?;
    Ok(())
}

fn git(directory: &Path, arguments: &[&str], input: &str) -> anyhow::Result<String> {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(directory).env("GIT_CONFIG_GLOBAL", "/dev/null");
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start git")?;
    let mut stdin = child.stdin.take().context("git takes no input")?;
    let input = input.to_owned();
    // It answers while it is asked: both pipes have an end.
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().context("cannot wait for git")?;
    writer.join().map_err(|_| anyhow::anyhow!("the writer to git broke down"))?.context("git does not listen")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {said}", arguments.join(" "));
    String::from_utf8(output.stdout).context("git tells no text")
}

fn children(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    match std::fs::read_dir(folder) {
        Ok(entries) => Ok(entries.flatten().map(|entry| entry.path()).collect()),
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(error) => Err(error).with_context(|| format!("cannot read `{}`", folder.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::RepoDir;

    #[test]
    fn what_was_written_is_found_wherever_it_went_and_missed_when_it_is_gone() {
        let repo = RepoDir::new();
        found(repo.path()).unwrap();
        let mut trees = Trees::new(repo.path());
        let mut lost = |name: &str, text: &str| trees.check([(name, text)].into_iter()).unwrap().len();
        repo.write("out/a.txt", "one");
        repo.write(".convoke/worktrees/t/out/b.txt", "two\n");
        assert_eq!((lost("out/a.txt", "one"), lost("out/b.txt", "two\n")), (0, 0));
        assert_eq!((lost("out/a.txt", "two"), lost("out/c.txt", "one")), (1, 1));
        git(repo.path(), &["add", "--all"], "").unwrap();
        let tree = git(repo.path(), &["write-tree"], "").unwrap();
        let author = ["-c", "user.name=t", "-c", "user.email=t@t"];
        let commit = [&author[..], &["commit-tree", tree.trim(), "-m", "kept"]].concat();
        let commit = git(repo.path(), &commit, "").unwrap();
        std::fs::remove_dir_all(repo.path().join("out")).unwrap();
        assert_eq!(lost("out/a.txt", "one"), 1);
        git(repo.path(), &["update-ref", "refs/convoke/snapshots/t", commit.trim()], "").unwrap();
        assert_eq!(lost("out/a.txt", "one"), 0);
    }
}
