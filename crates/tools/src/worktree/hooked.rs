//! Worktrees that a hook of the user's makes and takes away; git only helps where it happens to know them.

use super::inspect::{self, Index};
use super::record::Record;
use super::remove::check_changes;
use super::{Changes, Discard, Name, Repository, Site, Snapshot, Tenants, snapshot};
use crate::hook::{self, Hook};
use proto::{Code, Error, Worktree};
use serde_json::json;
use std::path::Path;

/// Lets the hook make one: the last line it prints is the path.
pub(super) async fn create(hook: &Hook, name: &Name, site: &Site) -> Result<Worktree, Error> {
    let input = json!({
        "event": "worktree_create", "name": name.as_str(), "cwd": site.dir, "sessionId": site.session, "agent": site.agent,
    });
    let printed = hook.run(&input, &site.stage(&site.dir)).await.map_err(told)?;
    let line = printed.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let path = site.dir.join(line).canonicalize().ok().filter(|path| path.is_dir() && !line.is_empty());
    let path = path.ok_or_else(|| {
        let shown: String = line.chars().take(200).collect();
        Error::new(Code::Conflict, format!("the hook `worktree_create` printed no directory but `{shown}`"))
            .hint("its last line has to be the path of the worktree it made")
    })?;
    if site.dir.starts_with(&path) {
        let why = format!("the hook `worktree_create` printed `{}`, where this session is already", path.display());
        return Err(Error::new(Code::Conflict, why));
    }
    let base = note_base(&path, site).await?;
    Ok(Worktree {
        name: name.as_str().into(),
        path: path.display().to_string(),
        branch: None,
        base,
        original_branch: None,
        original_cwd: site.dir.display().to_string(),
        by_hook: true,
        isolated: false,
    })
}

/// Where git knows it, writes down what it has checked out at first, so that commits can be told from what was there.
async fn note_base(path: &Path, site: &Site) -> Result<Option<String>, Error> {
    let Some(repo) = known(path, site).await else { return Ok(None) };
    let Ok(tree) = repo.own_tree("") else { return Ok(None) };
    Record { base: Some(tree.head.clone()), ..Record::default() }.write(&tree.git_dir)?;
    Ok(Some(tree.head))
}

/// The repository of a path, if it is exactly one of its working trees.
async fn known(path: &Path, site: &Site) -> Option<Repository> {
    let repo = Repository::open(site.processes.clone(), site.cancel.clone(), path).await.ok()?;
    (repo.top() == path).then_some(repo)
}

/// What was in it, and the snapshot if there could be one.
pub(crate) struct Gone {
    pub(crate) changes: Changes,
    pub(crate) snapshot: Option<Snapshot>,
}

/// Lets the hook take one away, from outside of it.
pub(crate) async fn remove(
    hook: Option<&Hook>,
    inside: &Worktree,
    discard: Discard,
    tenants: &dyn Tenants,
    site: &Site,
) -> Result<Gone, Error> {
    let Some(hook) = hook else {
        let why = "a hook made this worktree, and there is none to take it away";
        return Err(Error::new(Code::Conflict, why).hint("set `hooks.worktree_remove`, or leave it with `keep`"));
    };
    let path = Path::new(&inside.path);
    let busy = tenants.busy_in(path).await?;
    if !busy.is_empty() {
        let why = format!("the worktree `{}` is in use: {}", inside.name, busy.join(", "));
        return Err(Error::new(Code::Conflict, why).hint("wait until they are done"));
    }
    let gone = set_aside(inside, discard, site).await?;
    let input = json!({
        "event": "worktree_remove", "name": inside.name, "path": inside.path, "worktreePath": inside.path,
        "cwd": site.dir, "sessionId": site.session, "agent": site.agent,
    });
    hook.run(&input, &site.stage(&site.dir)).await.map_err(told)?;
    Ok(gone)
}

/// What would be lost, as far as git knows, kept as a snapshot. What cannot be looked at is only removed on purpose.
async fn set_aside(inside: &Worktree, discard: Discard, site: &Site) -> Result<Gone, Error> {
    let path = Path::new(&inside.path);
    if let Some(repo) = known(path, site).await {
        let tree = repo.own_tree(&inside.name)?;
        inspect::check_unlocked(&tree)?;
        let index = Index::of(&repo, &tree).await?;
        let changes = inspect::changes(&repo, &tree, &index).await?;
        check_changes(&tree, &changes, discard)?;
        let snapshot = Some(snapshot::take(&repo, &tree, &index).await?);
        return Ok(Gone { changes, snapshot });
    }
    if discard == Discard::Nothing && path.is_dir() {
        return Err(Error::new(Code::Conflict, unknown(path))
            .hint("keep it, or remove it with `discard_changes` when the person says that it may go"));
    }
    Ok(Gone { changes: Changes::default(), snapshot: None })
}

/// Why one has to stay, or `None` when it is what it was at first.
pub(super) async fn weigh(inside: &Worktree, site: &Site) -> Result<Option<String>, Error> {
    let path = Path::new(&inside.path);
    let Some(repo) = known(path, site).await else { return Ok(Some(unknown(path))) };
    let tree = repo.own_tree(&inside.name)?;
    let changes = inspect::changes(&repo, &tree, &Index::of(&repo, &tree).await?).await?;
    Ok(super::reason(&tree, &changes))
}

fn unknown(path: &Path) -> String {
    format!("git does not know `{}`, so nobody can tell what would be lost", path.display())
}

fn told(error: hook::Error) -> Error {
    match error {
        hook::Error::Blocked(why) => Error::new(Code::Denied, format!("a hook said no: {why}")),
        hook::Error::Failed(why) => Error::new(Code::Unavailable, why),
        hook::Error::Cancelled => Error::new(Code::Cancelled, "cancelled"),
    }
}
