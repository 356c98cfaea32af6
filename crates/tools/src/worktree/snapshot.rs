//! Snapshots: what a worktree held before it was removed, as a commit under a ref of its own, for thirty days.
//!
//! The commit's tree holds every file that is not ignored; its parents are what was checked out and the worktree's branch,
//! so that commits which are on no other branch live as long as the snapshot does.

use super::create::{self, Made};
use super::inspect::{self, Index};
use super::name::Name;
use super::record::Record;
use super::repository::{Repository, Tree};
use super::{files, lock};
use crate::git::{Apart, Site, Which};
use proto::{Code, Error, Millis};
use std::collections::BTreeSet;
use std::path::Path;

const REFS: &str = "refs/convoke/snapshots/";
/// How long one is kept.
const KEPT_SECONDS: i64 = 30 * 86_400;
/// Snapshots of one name within one second; more are a mistake.
const SAME_SECOND: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The ref without its prefix: `<name>-<time>`.
    pub name: String,
    pub commit: String,
    /// The worktree it was taken of.
    pub worktree: String,
    /// Seconds since the epoch.
    pub taken: i64,
    base: Option<String>,
    from: Option<String>,
    parents: Vec<String>,
}

impl Snapshot {
    pub fn reference(&self) -> String {
        format!("{REFS}{}", self.name)
    }

    pub fn taken_ms(&self) -> Millis {
        self.taken * 1000
    }

    pub fn expires_ms(&self) -> Millis {
        (self.taken + KEPT_SECONDS) * 1000
    }
}

/// Keeps every file of a worktree that is not ignored. On disk when this returns.
pub(super) async fn take(repo: &Repository, tree: &Tree, index: &Index) -> Result<Snapshot, Error> {
    // Before, since git would look into those that it knows, and do what their settings say; and after for the others.
    check_nested(tree, &index.nested)?;
    index.git.work(&["add", "--all", "--sparse", "."]).await.map_err(|error| unkept(tree, &error))?;
    let listed = index.git.read(&["ls-files", "-v", "--stage", "-z"]).await?;
    check_nested(tree, &inspect::nested(&tree.path, &listed))?;
    let files = index.git.read(&["write-tree"]).await?;
    keep(repo, tree, files.trim()).await
}

/// Keeps the commits of a worktree whose directory is gone.
pub(super) async fn take_commits(repo: &Repository, tree: &Tree) -> Result<Snapshot, Error> {
    let files = repo.git.read(&["rev-parse", "--verify", &format!("{}^{{tree}}", tree.head)]).await?;
    keep(repo, tree, files.trim()).await
}

async fn keep(repo: &Repository, tree: &Tree, files: &str) -> Result<Snapshot, Error> {
    let record = tree.record();
    let taken = now();
    let own = super::branch_ref(&tree.name);
    let tip = repo.git.ask(&["rev-parse", "--verify", "--quiet", &own]).await?;
    let mut parents = vec![tree.head.clone()];
    parents.extend(tip.map(|tip| tip.trim().to_owned()).filter(|tip| *tip != tree.head));
    let mut message = format!("Snapshot of the worktree {}\n\nConvoke-Worktree: {}\n", tree.name, tree.name);
    for (key, value) in [("Base", &record.base), ("From", &record.from)] {
        if let Some(value) = value {
            message.push_str(&format!("Convoke-{key}: {value}\n"));
        }
    }
    let mut args = vec!["commit-tree", files, "-m", &message];
    parents.iter().for_each(|parent| args.extend(["-p", parent]));
    let commit = signed(repo, taken).work(&args).await?.trim().to_owned();
    let name = name_ref(repo, &tree.name, taken, &commit).await?;
    Ok(Snapshot { name, commit, worktree: tree.name.clone(), taken, base: record.base, from: record.from, parents })
}

/// Git with an author: the user's own may not be set, and is not who did this.
fn signed(repo: &Repository, at: i64) -> crate::git::Git {
    let date = format!("{at} +0000");
    let mut git = repo.git.clone();
    for who in ["AUTHOR", "COMMITTER"] {
        git = git.with(&format!("GIT_{who}_NAME"), "convoke");
        git = git.with(&format!("GIT_{who}_EMAIL"), "convoke@localhost");
        git = git.with(&format!("GIT_{who}_DATE"), &date);
    }
    git
}

async fn name_ref(repo: &Repository, worktree: &str, taken: i64, commit: &str) -> Result<String, Error> {
    let stem = format!("{worktree}-{}", stamp(taken));
    let mut refused = Error::internal("no snapshot could be named");
    for n in 1..SAME_SECOND {
        let name = if n == 1 { stem.clone() } else { format!("{stem}-{n}") };
        // Only if there is none of that name: a snapshot is never replaced.
        match repo.git.work(&["update-ref", &format!("{REFS}{name}"), commit, &"0".repeat(commit.len())]).await {
            Ok(_) => return Ok(name),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

fn unkept(tree: &Tree, error: &Error) -> Error {
    let mut error = error.clone();
    error.message =
        format!("no snapshot of the worktree `{}` could be made, so it stays: {}", tree.name, error.message);
    error.hint(format!("look into `{}`", tree.path.display()))
}

/// A repository inside of the worktree is in a snapshot by its name only: its files would be lost.
fn check_nested(tree: &Tree, nested: &[String]) -> Result<(), Error> {
    if nested.is_empty() {
        return Ok(());
    }
    let why = format!(
        "the worktree `{}` holds other repositories, which no snapshot can keep: {}",
        tree.name,
        nested.join(", ")
    );
    Err(Error::new(Code::Conflict, why).hint("push or move them first, or keep the worktree"))
}

/// The snapshots there are, newest first.
pub(super) async fn all(repo: &Repository) -> Result<Vec<Snapshot>, Error> {
    let format = "--format=%(refname)%00%(objectname)%00%(committerdate:unix)%00%(parent)%00%(contents)%00%01";
    let listed = repo.git.read(&["for-each-ref", format, REFS.trim_end_matches('/')]).await?;
    let mut found: Vec<Snapshot> = listed.split('\u{1}').filter_map(parse).collect();
    found.sort_by(|a, b| (b.taken, &b.name).cmp(&(a.taken, &a.name)));
    Ok(found)
}

fn parse(record: &str) -> Option<Snapshot> {
    let mut fields = record.trim_start_matches('\n').split('\0');
    let name = fields.next()?.strip_prefix(REFS)?.to_owned();
    let (commit, taken) = (fields.next()?.to_owned(), fields.next()?.parse().ok()?);
    let parents = fields.next()?.split_whitespace().map(str::to_owned).collect();
    let message = fields.next()?;
    let said = |key: &str| {
        let line = message.lines().find_map(|line| line.strip_prefix("Convoke-")?.strip_prefix(key));
        line.map(|value| value.trim_start_matches(':').trim().to_owned())
    };
    Some(Snapshot { worktree: said("Worktree")?, base: said("Base"), from: said("From"), name, commit, taken, parents })
}

/// Lets go of those whose time is over.
pub(super) async fn prune(repo: &Repository) {
    let found = match all(repo).await {
        Ok(found) => found,
        Err(error) => return tracing::debug!(%error, "cannot list snapshots"),
    };
    for old in found.iter().filter(|snapshot| snapshot.taken + KEPT_SECONDS < now()) {
        let_go(repo, old).await;
    }
}

pub(super) async fn let_go(repo: &Repository, snapshot: &Snapshot) {
    let git = repo.git.at(&repo.main);
    if let Err(error) = git.work(&["update-ref", "-d", &snapshot.reference(), &snapshot.commit]).await {
        tracing::warn!(%error, snapshot = snapshot.name, "cannot let go of a snapshot");
    }
}

/// Brings a worktree back as it was: its branch at what was checked out, and the rest uncommitted again.
pub async fn restore(repo: &Repository, wanted: &str) -> Result<(Made, Snapshot), Error> {
    let _lock = lock::take(&repo.common).await?;
    let snapshot = find(&all(repo).await?, wanted)?;
    let name = Name::parse(&snapshot.worktree)?;
    let path = files::prepare(&repo.main, name.as_str())?;
    files::exclude(&repo.common)?;
    if std::fs::symlink_metadata(&path).is_ok() {
        let why = format!("`{}` is there already", path.display());
        let hint = format!("`convoke worktrees remove {}` takes it away, and keeps it as a snapshot", name.as_str());
        return Err(Error::new(Code::Conflict, why).hint(hint));
    }
    let head = snapshot.parents.first().ok_or_else(|| Error::internal("the snapshot has no parent"))?;
    add(repo, &name, &path, head).await?;
    let git_dir = create::git_dir(&path)?;
    let site = Site { top: &path, git_dir: &git_dir, common: &repo.common, head };
    let apart = Apart::new(&repo.git.steadfast(), &site, Which::Own)?;
    apart.git.work(&["read-tree", "--reset", "-u", &snapshot.commit]).await?;
    apart.git.work(&["reset", "--quiet", "--mixed", "HEAD"]).await?;
    let record = Record { base: snapshot.base.clone(), from: snapshot.from.clone(), kept: true };
    Ok((create::recorded(repo, &name, path, record).await?, snapshot))
}

/// A worktree without files. A branch of that name must be what it was.
async fn add(repo: &Repository, name: &Name, path: &Path, head: &str) -> Result<(), Error> {
    let (branch, place) = (name.branch(), path.display().to_string());
    let tip = repo.git.ask(&["rev-parse", "--verify", "--quiet", &super::branch_ref(name.as_str())]).await?;
    // A registration whose directory is gone is overridden: its directory is what is brought back.
    let mut args = vec!["worktree", "add", "--quiet", "--force", "--no-checkout"];
    match tip.as_deref().map(str::trim) {
        None => args.extend(["--no-track", "-b", &branch, &place, head]),
        Some(tip) if tip == head => args.extend([place.as_str(), &branch]),
        Some(_) => {
            let why = format!("the branch `{branch}` has moved on since the snapshot");
            let hint = format!("rename it first: `git branch -m {branch} {branch}-newer`");
            return Err(Error::new(Code::Conflict, why).hint(hint));
        }
    }
    repo.git.steadfast().work(&args).await.map(drop)
}

/// By its own name, or the newest of a worktree.
fn find(found: &[Snapshot], wanted: &str) -> Result<Snapshot, Error> {
    let wanted = wanted.trim().trim_start_matches(REFS);
    let by_name = found.iter().find(|snapshot| snapshot.name == wanted);
    let newest = || found.iter().find(|snapshot| snapshot.worktree == wanted);
    by_name.or_else(newest).cloned().ok_or_else(|| {
        let shown: String = wanted.chars().take(80).collect();
        let names: BTreeSet<&str> = found.iter().map(|snapshot| snapshot.worktree.as_str()).collect();
        let hint = match names.is_empty() {
            true => "there is no snapshot in this repository: they are kept for 30 days".to_owned(),
            false => format!("there are snapshots of: {}", names.into_iter().collect::<Vec<_>>().join(", ")),
        };
        Error::not_found(format!("there is no snapshot `{shown}`")).hint(hint)
    })
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// A time as people read it and refs allow it: `20260131T235959Z`.
fn stamp(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days to a date, with years that begin in March so that the leap day comes last.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let (date, month) = (of_year - (153 * march + 2) / 5 + 1, if march < 10 { march + 3 } else { march - 9 });
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}{month:02}{date:02}T{:02}{:02}{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_dates() {
        for (seconds, expected) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_798_761_599, "20261231T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(stamp(seconds), expected);
        }
    }
}
