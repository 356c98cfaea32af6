//! Worktrees of real repositories, made, looked at, removed and brought back by real git.

use super::*;
use crate::doors::Closed;
use crate::testing::{Direct, Place, git_in, repository};
use proto::Code;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

async fn open(place: &Place) -> Repository {
    open_at(place.dir()).await
}

async fn open_at(dir: &Path) -> Repository {
    Repository::open(Arc::new(Direct::new()), CancellationToken::new(), dir).await.unwrap()
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

async fn made(place: &Place, text: &str) -> PathBuf {
    create(&open(place).await, &name(text), Base::Head).await.unwrap().path
}

async fn try_remove(place: &Place, text: &str, discard: bool) -> Result<Removed, Error> {
    remove(&open(place).await, &name(text), discard.into(), &Closed, &Direct::new()).await
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn commit(dir: &Path, message: &str) {
    git_in(dir, "add --all");
    git_in(dir, &format!("commit --quiet --message {message}"));
}

#[tokio::test]
async fn a_worktree_starts_from_head_on_a_branch_of_its_own_and_is_excluded() {
    let place = repository();
    place.file("a.txt", "not committed");
    let repo = open(&place).await;
    let made = create(&repo, &name("fix/login"), Base::Head).await.unwrap();
    assert_eq!(made.path, place.dir().join(".convoke/worktrees/fix/login"));
    assert_eq!((made.branch.as_deref(), made.from.as_deref()), (Some("convoke/fix/login"), Some("main")));
    assert_eq!(made.base.as_deref(), Some(place.git("rev-parse HEAD").as_str()));
    assert_eq!(std::fs::read_to_string(made.path.join("a.txt")).unwrap(), "one\n");
    assert_eq!(place.git("status --porcelain"), "M a.txt", "the folder of worktrees is not seen");
    create(&repo, &name("other"), Base::Head).await.unwrap();
    let excluded = place.content(".git/info/exclude");
    assert_eq!(excluded.matches("/.convoke/worktrees/").count(), 1, "{excluded}");
}

#[tokio::test]
async fn fresh_starts_from_the_remotes_main_branch_where_there_is_one() {
    let place = repository();
    let first = place.git("rev-parse HEAD");
    let repo = open(&place).await;
    let without = create(&repo, &name("without"), Base::Fresh).await.unwrap();
    assert_eq!(without.base.as_ref(), Some(&first), "no remote: what is checked out");
    place.git("update-ref refs/remotes/origin/main HEAD");
    place.git("symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/main");
    place.file("a.txt", "ahead");
    commit(place.dir(), "ahead");
    let with = create(&open(&place).await, &name("with"), Base::Fresh).await.unwrap();
    assert_eq!(with.base.as_ref(), Some(&first));
    assert_eq!(with.from.as_deref(), Some("main"));
}

#[tokio::test]
async fn what_is_no_repository_is_told_with_what_to_do() {
    let place = Place::new();
    let open = |dir: PathBuf| async move {
        Repository::open(Arc::new(Direct::new()), CancellationToken::new(), &dir).await.err().unwrap()
    };
    let error = open(place.dir().to_owned()).await;
    assert!(error.message.contains("not in a git repository") && error.hint.unwrap().contains("git init"));
    let error = open(place.dir().join("gone")).await;
    assert_eq!(error.code, Code::NotFound);
    place.git("init --quiet");
    let error = create(&open_at(place.dir()).await, &name("x"), Base::Head).await.unwrap_err();
    assert!(error.message.contains("no commit yet"), "{error}");
}

#[tokio::test]
async fn a_clean_worktree_goes_with_its_branch_and_leaves_a_snapshot() {
    let place = repository();
    made(&place, "fix/x").await;
    let removed = try_remove(&place, "fix/x", false).await.unwrap();
    assert!(removed.changes.is_none() && !place.dir().join(".convoke/worktrees/fix").exists());
    assert_eq!(place.git("branch --list convoke/*"), "");
    assert_eq!(place.git(&format!("show {}:a.txt", removed.snapshot.reference())), "one");
    assert!(removed.snapshot.reference().starts_with("refs/convoke/snapshots/fix/x-2"), "{removed:?}");
}

#[tokio::test]
async fn a_dirty_worktree_is_refused_with_the_list_then_removed_and_restored_as_it_was() {
    let place = repository();
    let tree = made(&place, "x").await;
    write(&tree.join("a.txt"), "changed\n");
    write(&tree.join("new/file.txt"), "new\n");
    write(&tree.join("noise.log"), "ignored");
    std::fs::remove_file(tree.join("src/b.txt")).unwrap();
    write(&tree.join("staged.txt"), "staged\n");
    git_in(&tree, "add staged.txt");

    let refused = try_remove(&place, "x", false).await.unwrap_err();
    assert_eq!(refused.code, Code::Conflict);
    for line in ["M a.txt", "?? new/file.txt", "D src/b.txt", "A  staged.txt", "4 uncommitted files"] {
        assert!(refused.message.contains(line), "{line}: {refused}");
    }
    assert!(!refused.message.contains("noise.log"));
    assert_eq!(git_in(&tree, "status --porcelain a.txt"), "M a.txt", "nothing was touched");

    let removed = try_remove(&place, "x", true).await.unwrap();
    assert!(!tree.exists());
    let listed = place.git(&format!("ls-tree -r --name-only {}", removed.snapshot.reference()));
    assert_eq!(listed, ".gitignore\na.txt\nnew/file.txt\nstaged.txt");

    let (back, _) = restore(&open(&place).await, "x").await.unwrap();
    assert_eq!((back.path.clone(), back.branch.as_deref()), (tree.clone(), Some("convoke/x")));
    assert_eq!(back.base, Some(place.git("rev-parse HEAD")));
    assert_eq!(std::fs::read_to_string(tree.join("a.txt")).unwrap(), "changed\n");
    let status = git_in(&tree, "status --porcelain --untracked-files=all");
    assert_eq!(status, "M a.txt\n D src/b.txt\n?? new/file.txt\n?? staged.txt");
    let again = restore(&open(&place).await, &removed.snapshot.name).await.unwrap_err();
    assert!(again.message.contains("is there already"), "{again}");
}

#[tokio::test]
async fn commits_that_are_not_merged_are_refused_and_survive_in_the_snapshot() {
    let place = repository();
    let tree = made(&place, "x").await;
    write(&tree.join("a.txt"), "committed\n");
    commit(&tree, "unmerged");
    let tip = git_in(&tree, "rev-parse HEAD");
    let refused = try_remove(&place, "x", false).await.unwrap_err();
    assert!(refused.message.contains("1 commit that is not on the original branch"), "{refused}");
    assert!(refused.message.contains(&format!("{} unmerged", &tip[..7])), "{refused}");
    assert_eq!(refused.details.unwrap()["commitCount"], 1);
    let removed = try_remove(&place, "x", true).await.unwrap();
    assert_eq!(place.git(&format!("rev-parse {}^1", removed.snapshot.reference())), tip);
    let (back, _) = restore(&open(&place).await, "x").await.unwrap();
    assert_eq!(git_in(&back.path, "rev-parse HEAD"), tip);
    assert_eq!(git_in(&back.path, "status --porcelain"), "");
    // Merged, it may go.
    place.git("merge --quiet convoke/x");
    try_remove(&place, "x", false).await.unwrap();
}

#[tokio::test]
async fn commits_beside_the_worktrees_branch_count_too() {
    let place = repository();
    let tree = made(&place, "x").await;
    git_in(&tree, "checkout --quiet --detach");
    write(&tree.join("c.txt"), "c");
    commit(&tree, "detached");
    let detached = git_in(&tree, "rev-parse HEAD");
    assert!(try_remove(&place, "x", false).await.unwrap_err().message.contains("detached"));
    let removed = try_remove(&place, "x", true).await.unwrap();
    assert_eq!(place.git(&format!("rev-parse {}^1", removed.snapshot.reference())), detached);
}

#[tokio::test]
async fn files_that_git_was_told_to_overlook_are_not_lost() {
    let place = repository();
    let tree = made(&place, "x").await;
    git_in(&tree, "update-index --assume-unchanged a.txt");
    git_in(&tree, "update-index --skip-worktree src/b.txt");
    write(&tree.join("a.txt"), "hidden\n");
    write(&tree.join("src/b.txt"), "hidden too\n");
    let refused = try_remove(&place, "x", false).await.unwrap_err();
    assert!(refused.message.contains("M a.txt") && refused.message.contains("M src/b.txt"), "{refused}");
    let removed = try_remove(&place, "x", true).await.unwrap();
    assert_eq!(place.git(&format!("show {}:src/b.txt", removed.snapshot.reference())), "hidden too");
}

#[tokio::test]
async fn a_change_of_the_same_length_at_the_same_moment_is_seen() {
    let place = repository();
    let tree = made(&place, "x").await;
    // As old as the index, to the second: only the content tells.
    let index = std::fs::File::options().write(true).open(place.dir().join(".git/worktrees/x/index")).unwrap();
    let moment = std::fs::metadata(tree.join("a.txt")).unwrap().modified().unwrap();
    index.set_modified(moment).unwrap();
    write(&tree.join("a.txt"), "two\n");
    std::fs::File::options().write(true).open(tree.join("a.txt")).unwrap().set_modified(moment).unwrap();
    assert!(try_remove(&place, "x", false).await.unwrap_err().message.contains("M a.txt"));
}

#[tokio::test]
async fn a_repository_inside_is_never_deleted() {
    let place = repository();
    let tree = made(&place, "x").await;
    write(&tree.join("inner/file"), "precious");
    git_in(&tree.join("inner"), "init --quiet");
    for key in ["user.name", "user.email"] {
        git_in(&tree.join("inner"), &format!("config {key} x"));
    }
    commit(&tree.join("inner"), "inner");
    let refused = try_remove(&place, "x", true).await.unwrap_err();
    assert!(refused.message.contains("other repositories") && refused.message.contains("inner"), "{refused}");
    assert!(tree.join("inner/file").exists());
}

#[tokio::test]
async fn a_locked_index_a_pinned_worktree_and_a_missing_one_have_an_answer_each() {
    let place = repository();
    let tree = made(&place, "x").await;
    let lock = place.dir().join(".git/worktrees/x/index.lock");
    std::fs::write(&lock, "").unwrap();
    let refused = try_remove(&place, "x", true).await.unwrap_err();
    assert!(refused.message.contains("locked") && refused.hint.unwrap().contains("index.lock"));
    std::fs::remove_file(&lock).unwrap();

    place.git("worktree lock --reason mine .convoke/worktrees/x");
    let refused = try_remove(&place, "x", true).await.unwrap_err();
    assert!(refused.message.contains("mine"), "{refused}");
    place.git("worktree unlock .convoke/worktrees/x");

    write(&tree.join("c.txt"), "c");
    commit(&tree, "kept");
    let tip = git_in(&tree, "rev-parse HEAD");
    std::fs::remove_dir_all(&tree).unwrap();
    assert!(try_remove(&place, "x", false).await.unwrap_err().message.contains("kept"));
    let removed = try_remove(&place, "x", true).await.unwrap();
    assert!(removed.was_missing);
    assert_eq!(place.git(&format!("rev-parse {}^1", removed.snapshot.reference())), tip);
    assert_eq!(restore(&open(&place).await, "x").await.unwrap().0.path, tree);
    let gone = try_remove(&place, "y", false).await.unwrap_err();
    assert!(gone.code == Code::NotFound && gone.hint.unwrap().contains("there is: x"));
}

fn site(place: &Place) -> Site {
    Site {
        processes: Arc::new(Direct::new()),
        cancel: CancellationToken::new(),
        dir: place.dir().to_owned(),
        session: SessionId::new(),
        agent: "general".into(),
    }
}

/// What becomes of an agent's worktree of that name when the agent ends.
async fn end(place: &Place, text: &str, tenants: &dyn Tenants) -> Finished {
    let path = place.dir().join(".convoke/worktrees").join(text).display().to_string();
    let (name, original_cwd) = (text.to_owned(), place.dir().display().to_string());
    let (branch, base, original_branch) = (None, None, None);
    let inside = Worktree { name, path, branch, base, original_branch, original_cwd, by_hook: false, isolated: true };
    finish(&site(place), &Settings::default(), &inside, tenants).await.unwrap()
}

#[tokio::test]
async fn an_agent_gets_one_from_inside_of_another_and_hooks_make_it_where_they_are_set() {
    let place = repository();
    let first = made(&place, "first").await;
    write(&first.join("c.txt"), "c");
    commit(&first, "here");
    let inside = Site { dir: first.clone(), ..site(&place) };
    let refused = make(&inside, &Settings::default(), &name("agent-1"), false).await.unwrap_err();
    assert!(refused.message.contains("worktree itself"), "{refused}");
    let (worktree, _) = make(&inside, &Settings::default(), &name("agent-1"), true).await.unwrap();
    assert_eq!(worktree.path, place.dir().join(".convoke/worktrees/agent-1").display().to_string());
    assert_eq!(worktree.base, Some(git_in(&first, "rev-parse HEAD")), "it starts from where its parent is");

    let settings = Settings {
        create: Some(Hook::new("git clone --quiet . ../clone >&2; echo ../clone")),
        remove: Some(Hook::new("rm -r ../clone")),
        ..Settings::default()
    };
    let (worktree, _) = make(&site(&place), &settings, &name("agent-2"), true).await.unwrap();
    assert_eq!(weigh(&site(&place), &worktree).await.unwrap(), None);
    write(&Path::new(&worktree.path).join("a.txt"), "work");
    assert_eq!(weigh(&site(&place), &worktree).await.unwrap().as_deref(), Some("1 uncommitted file"));
    git_in(Path::new(&worktree.path), "checkout --quiet a.txt");
    assert_eq!(finish(&site(&place), &settings, &worktree, &Closed).await.unwrap(), Finished::Removed);
    assert!(!Path::new(&worktree.path).exists());
}

#[tokio::test]
async fn a_worktree_that_lost_its_tie_to_git_is_left_alone() {
    let place = repository();
    let tree = made(&place, "x").await;
    std::fs::remove_file(tree.join(".git")).unwrap();
    for refused in [
        try_remove(&place, "x", true).await.unwrap_err(),
        create(&open(&place).await, &name("x"), Base::Head).await.unwrap_err(),
    ] {
        assert!(refused.hint.unwrap().contains("git worktree repair"));
    }
    assert!(tree.join("a.txt").exists());
    place.git("worktree repair");
    try_remove(&place, "x", false).await.unwrap();
}

/// Somebody at work everywhere.
struct Busy;

#[async_trait]
impl Tenants for Busy {
    async fn busy_in(&self, _: &Path) -> Result<Vec<String>, Error> {
        Ok(vec!["agent:build:one".into()])
    }
}

#[tokio::test]
async fn a_worktree_in_use_stays() {
    let place = repository();
    let tree = made(&place, "x").await;
    let refused = remove(&open(&place).await, &name("x"), Discard::Changes, &Busy, &Direct::new()).await.unwrap_err();
    assert!(refused.message.contains("agent:build:one") && tree.exists(), "{refused}");
    let finished = end(&place, "x", &Busy).await;
    assert!(matches!(finished, Finished::Kept { why } if why.contains("in use")));
}

#[tokio::test]
async fn an_agents_worktree_goes_when_unchanged_and_stays_when_not() {
    let place = repository();
    let (clean, dirty) = (made(&place, "agent-1").await, made(&place, "agent-2").await);
    write(&dirty.join("a.txt"), "work");
    assert_eq!(end(&place, "agent-1", &Closed).await, Finished::Removed);
    assert!(!clean.exists());
    assert_eq!(place.git("for-each-ref refs/convoke"), "", "what held nothing of its own leaves nothing");
    let kept = end(&place, "agent-2", &Closed).await;
    assert_eq!(kept, Finished::Kept { why: "1 uncommitted file".into() });
    commit(&dirty, "work");
    place.git("merge --quiet convoke/agent-2");
    let kept = end(&place, "agent-2", &Closed).await;
    assert_eq!(kept, Finished::Kept { why: "commits that are merged".into() });
    assert_eq!(list(&open(&place).await).await.unwrap().0[0].state, State::Kept);
}

#[tokio::test]
async fn what_a_crash_left_is_recognised_and_entered_again() {
    let place = repository();
    // Between `git worktree add` and anything that was to follow.
    place.git("worktree add --quiet -b convoke/x .convoke/worktrees/x");
    let tree = place.dir().join(".convoke/worktrees/x");
    write(&tree.join("a.txt"), "already at work");
    let again = create(&open(&place).await, &name("x"), Base::Head).await.unwrap();
    assert!(again.found.unwrap().contains("already") && again.path == tree);
    assert_eq!(std::fs::read_to_string(tree.join("a.txt")).unwrap(), "already at work");

    // In the middle of the checkout.
    place.git("worktree add --quiet --no-checkout -b convoke/y .convoke/worktrees/y");
    std::fs::write(place.dir().join(".git/worktrees/y/locked"), "initializing").unwrap();
    std::fs::write(place.dir().join(".git/worktrees/y/index.lock"), "").unwrap();
    assert_eq!(list(&open(&place).await).await.unwrap().0[1].state, State::Unfinished);
    let whole = create(&open(&place).await, &name("y"), Base::Head).await.unwrap();
    assert!(whole.found.unwrap().contains("half made"));
    assert_eq!(git_in(&whole.path, "status --porcelain"), "");
    assert_eq!(std::fs::read_to_string(whole.path.join("a.txt")).unwrap(), "one\n");

    // Its folder was deleted, its branch was not.
    write(&whole.path.join("c.txt"), "c");
    commit(&whole.path, "work");
    std::fs::remove_dir_all(&whole.path).unwrap();
    assert_eq!(list(&open(&place).await).await.unwrap().0[1].state, State::Missing);
    let back = create(&open(&place).await, &name("y"), Base::Head).await.unwrap();
    assert!(back.path.join("c.txt").exists() && back.found.unwrap().contains("branch"));
}

#[tokio::test]
async fn a_removal_that_was_cut_off_comes_to_its_end_the_next_time() {
    let place = repository();
    let (tree, other) = (made(&place, "x").await, made(&place, "y").await);
    write(&tree.join("c.txt"), "c");
    commit(&tree, "work");
    // Out of its place, and not yet deleted.
    let aside = place.dir().join(".convoke/worktrees/.removed");
    std::fs::rename(&tree, &aside).unwrap();
    assert_eq!(list(&open(&place).await).await.unwrap().0[0].state, State::Missing);
    let removed = try_remove(&place, "x", true).await.unwrap();
    assert_eq!(place.git(&format!("show {}:c.txt", removed.snapshot.commit)), "c");
    assert_eq!(list(&open(&place).await).await.unwrap().0.len(), 1);
    // What is left of it is deleted with the next one.
    try_remove(&place, "y", false).await.unwrap();
    assert!(!aside.exists() && !other.exists());
}

#[tokio::test]
async fn names_that_are_taken_by_something_else_are_refused() {
    let place = repository();
    made(&place, "a").await;
    let inside = create(&open(&place).await, &name("a/b"), Base::Head).await.unwrap_err();
    assert!(inside.message.contains("worktree itself"), "{inside}");
    place.file(".convoke/worktrees/plain/file", "mine");
    let error = create(&open(&place).await, &name("plain"), Base::Head).await.unwrap_err();
    assert!(error.message.contains("not a worktree"), "{error}");
    assert_eq!(place.content(".convoke/worktrees/plain/file"), "mine");

    let elsewhere = tempfile::tempdir().unwrap();
    let hostile = repository();
    std::os::unix::fs::symlink(elsewhere.path(), hostile.dir().join(".convoke")).unwrap();
    let error = create(&open(&hostile).await, &name("x"), Base::Head).await.unwrap_err();
    assert!(error.message.contains("is not a folder"), "{error}");
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_repository_cannot_name_another_directory_as_its_working_tree() {
    let place = repository();
    let elsewhere = tempfile::tempdir().unwrap();
    place.git(&format!("config core.worktree {}", elsewhere.path().display()));
    let error = Repository::open(Arc::new(Direct::new()), CancellationToken::new(), place.dir()).await.err().unwrap();
    assert!(error.message.contains("working tree"), "{error}");
}

#[tokio::test]
async fn snapshots_go_after_thirty_days() {
    let place = repository();
    made(&place, "x").await;
    let removed = try_remove(&place, "x", false).await.unwrap();
    let repo = open(&place).await;
    let git = repo.git.with("GIT_COMMITTER_DATE", "1000000000 +0000");
    let tree = format!("{}^{{tree}}", removed.snapshot.commit);
    let message = "old\n\nConvoke-Worktree: old\n";
    let git = git.with("GIT_AUTHOR_NAME", "x").with("GIT_AUTHOR_EMAIL", "x");
    let git = git.with("GIT_COMMITTER_NAME", "x").with("GIT_COMMITTER_EMAIL", "x");
    let old = git.work(&["commit-tree", &tree, "-m", message]).await.unwrap();
    git.work(&["update-ref", "refs/convoke/snapshots/old-1", old.trim()]).await.unwrap();
    assert!(place.git("for-each-ref refs/convoke").contains("old-1"));
    let (_, snapshots) = list(&repo).await.unwrap();
    assert_eq!(snapshots.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), [removed.snapshot.name.as_str()]);
    assert!(!place.git("for-each-ref refs/convoke").contains("old-1"));
    assert_eq!(snapshots[0].worktree, "x");
}

#[tokio::test]
async fn nothing_that_a_repository_names_is_run() {
    let place = repository();
    let canary = place.dir().join("../canary");
    let script = place.file("../evil.sh", format!("#!/bin/sh\necho $0 $@ >> {}\ncat\n", canary.display()));
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let evil = script.canonicalize().unwrap();
    let evil = evil.display();
    for (key, value) in [
        ("core.fsmonitor", evil.to_string()),
        ("core.pager", evil.to_string()),
        ("core.editor", evil.to_string()),
        ("core.sshCommand", evil.to_string()),
        ("diff.external", evil.to_string()),
        ("gpg.program", evil.to_string()),
        ("log.showSignature", "true".into()),
        ("commit.gpgSign", "true".into()),
        ("filter.evil=x.smudge", evil.to_string()),
        ("filter.evil=x.clean", evil.to_string()),
        ("filter.evil=x.process", evil.to_string()),
        ("filter.evil=x.required", "true".into()),
        ("remote.origin.url", format!("ext::{evil}")),
        ("remote.origin.promisor", "true".into()),
        ("remote.origin.uploadpack", evil.to_string()),
    ] {
        git_in(place.dir(), &format!("config {key} {value}"));
    }
    let hooks = place.dir().join(".git/hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    for hook in ["post-checkout", "pre-commit", "reference-transaction", "post-index-change", "post-commit"] {
        std::fs::copy(&script, hooks.join(hook)).unwrap();
    }
    place.file(".git/info/attributes", "*.txt filter=evil=x diff=evil\n");
    let repo = open(&place).await;
    let tree = create(&repo, &name("x"), Base::Fresh).await.unwrap().path;
    assert_eq!(std::fs::read_to_string(tree.join("a.txt")).unwrap(), "one\n");
    write(&tree.join("a.txt"), "changed\n");
    write(&tree.join("new.txt"), "new\n");
    assert!(try_remove(&place, "x", false).await.is_err());
    let removed = try_remove(&place, "x", true).await.unwrap();
    restore(&open(&place).await, &removed.snapshot.name).await.unwrap();
    list(&open(&place).await).await.unwrap();
    assert_eq!(std::fs::read_to_string(tree.join("a.txt")).unwrap(), "changed\n");
    assert!(!canary.exists(), "{}", std::fs::read_to_string(&canary).unwrap());
    // As a control: plain git falls for it.
    let _ = std::process::Command::new("git").args(["status"]).current_dir(place.dir()).output().unwrap();
    assert!(canary.exists());
}

/// A repository inside of a worktree whose settings name a program, which a look at its files starts. It says so in the
/// file that is returned.
fn trapped(tree: &Path) -> PathBuf {
    trapped_at(tree, OsStr::new("sub"))
}

fn trapped_at(tree: &Path, called: &OsStr) -> PathBuf {
    let inner = tree.join(called);
    write(&inner.join("a.txt"), "one\n");
    git_in(&inner, "init --quiet");
    for key in ["user.name", "user.email"] {
        git_in(&inner, &format!("config {key} x"));
    }
    commit(&inner, "inner");
    commit(tree, "link");
    let canary = tree.parent().unwrap().join("canary");
    let script = inner.join(".git/evil.sh");
    write(&script, &format!("#!/bin/sh\necho $0 >> {}\ncat\n", canary.display()));
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for key in ["filter.x.clean", "filter.x.smudge", "core.fsmonitor"] {
        git_in(&inner, &format!("config {key} .git/evil.sh"));
    }
    write(&inner.join(".git/info/attributes"), "a.txt filter=x\n");
    canary
}

#[tokio::test]
async fn nothing_that_a_repository_inside_names_is_run() {
    let place = repository();
    let tree = made(&place, "x").await;
    let canary = trapped(&tree);
    write(&tree.join("sub/a.txt"), "two\n");
    let refused = try_remove(&place, "x", false).await.unwrap_err();
    assert!(refused.message.contains("M sub"), "{refused}");
    let refused = try_remove(&place, "x", true).await.unwrap_err();
    assert!(refused.message.contains("other repositories"), "{refused}");
    let kept = end(&place, "x", &Closed).await;
    assert!(matches!(kept, Finished::Kept { why } if why.contains("1 uncommitted file")));
    assert_eq!(std::fs::read_to_string(tree.join("sub/a.txt")).unwrap(), "two\n");
    assert!(!canary.exists(), "{}", std::fs::read_to_string(&canary).unwrap());
    // As a control: plain git falls for it.
    git_in(&tree, "status");
    assert!(canary.exists());
}

#[tokio::test]
async fn nothing_is_run_for_a_repository_inside_whose_name_is_no_text() {
    let place = repository();
    let tree = made(&place, "x").await;
    let called = OsStr::from_bytes(b"s\xffub");
    let canary = trapped_at(&tree, called);
    write(&tree.join(called).join("a.txt"), "two\n");
    for discard in [false, true] {
        try_remove(&place, "x", discard).await.unwrap_err();
    }
    assert!(!canary.exists() && tree.join(called).exists());
}

#[tokio::test]
async fn a_repository_inside_holds_work_when_anything_in_it_is_not_as_recorded() {
    let place = repository();
    let tree = made(&place, "x").await;
    trapped(&tree);
    let inner = tree.join("sub");
    let files = async || {
        let repo = open(&place).await;
        let tree = repo.tree(&name("x")).await.unwrap();
        inspect::changes(&repo, &tree, &Index::of(&repo, &tree).await.unwrap()).await.unwrap().files
    };
    assert!(files().await.is_empty());
    write(&inner.join("new"), "x");
    assert_eq!(files().await, ["M sub"]);
    std::fs::remove_file(inner.join("new")).unwrap();
    git_in(&inner, "-c core.fsmonitor=false commit --quiet --allow-empty --message moved");
    assert_eq!(files().await, ["M sub"]);
    git_in(&inner, "-c core.fsmonitor=false reset --quiet --soft HEAD~1");
    assert!(files().await.is_empty());
    // One that says it is somewhere else, one with another inside, and one that is broken.
    git_in(&inner, &format!("config core.worktree {}", place.dir().display()));
    assert_eq!(files().await, ["M sub"]);
    git_in(&inner, "config --unset core.worktree");
    write(&inner.join(".git/HEAD"), "nonsense");
    assert_eq!(files().await, ["M sub"]);
}

#[tokio::test]
async fn settings_of_a_worktree_alone_name_nothing_that_is_run() {
    let place = repository();
    place.git("config extensions.worktreeConfig true");
    let tree = made(&place, "x").await;
    let canary = place.dir().join("../canary");
    let script = place.file("../evil.sh", format!("#!/bin/sh\necho >> {}\ncat\n", canary.display()));
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    git_in(&tree, &format!("config --worktree filter.x.clean {}", script.display()));
    place.file(".git/info/attributes", "a.txt filter=x\n");
    write(&tree.join("a.txt"), "two\n");
    assert!(try_remove(&place, "x", false).await.unwrap_err().message.contains("M a.txt"));
    assert!(!canary.exists());
    // As a control: plain git falls for it.
    git_in(&tree, "status");
    std::fs::remove_file(&canary).unwrap();
    write(&tree.join("a.txt"), "six\n");
    try_remove(&place, "x", true).await.unwrap();
    assert!(!canary.exists());
}

#[tokio::test]
async fn what_the_user_ignores_everywhere_is_ignored_here_too() {
    let place = repository();
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(".gitconfig"), "[core]\n\texcludesFile = ~/ignored\n").unwrap();
    std::fs::write(home.path().join("ignored"), "*.tmp\n").unwrap();
    let direct = Direct::with(vec![("HOME".into(), home.path().display().to_string())]);
    let repo = Repository::open(Arc::new(direct), CancellationToken::new(), place.dir()).await.unwrap();
    let tree = create(&repo, &name("x"), Base::Head).await.unwrap().path;
    write(&tree.join("scratch.tmp"), "x");
    remove(&repo, &name("x"), Discard::Nothing, &Closed, &Direct::new()).await.unwrap();
}

#[tokio::test]
async fn two_at_once_make_one_worktree_each_whole() {
    let place = repository();
    let (one, two) = (open(&place).await, open(&place).await);
    let (name_x, name_y) = (name("x"), name("x"));
    let (one, two) = tokio::join!(create(&one, &name_x, Base::Head), create(&two, &name_y, Base::Head));
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!(one.path, two.path);
    assert!(one.found.is_some() != two.found.is_some(), "one of them found it there");
    assert_eq!(git_in(&one.path, "status --porcelain"), "");
}

#[tokio::test]
async fn a_tmux_session_in_it_ends_with_it() {
    let place = repository();
    let tree = made(&place, "x").await;
    let sockets = tempfile::Builder::new().prefix("tm").tempdir().unwrap();
    let tmux = |args: &[&str]| {
        let mut command = std::process::Command::new("tmux");
        command.args(args).env("TMUX_TMPDIR", sockets.path()).env_remove("TMUX").env("TERM", "dumb");
        command.output()
    };
    let start = |name: &str, dir: &Path| tmux(&["new-session", "-d", "-s", name, "-c", dir.to_str().unwrap(), "cat"]);
    let Ok(started) = start("inside", &tree) else {
        eprintln!("there is no tmux here, so nothing was tried");
        return;
    };
    assert!(started.status.success(), "{started:?}");
    assert!(start("outside", place.dir()).unwrap().status.success());
    let direct = Direct::with(vec![("TMUX_TMPDIR".into(), sockets.path().display().to_string())]);
    let removed = remove(&open(&place).await, &name("x"), Discard::Nothing, &Closed, &direct).await;
    let listed = String::from_utf8(tmux(&["list-sessions", "-F", "#{session_name}"]).unwrap().stdout).unwrap();
    tmux(&["kill-server"]).unwrap();
    assert_eq!(removed.unwrap().tmux, ["inside"]);
    assert_eq!(listed.trim(), "outside");
}

/// A repository whose settings name a filter only where a worktree is, or only at times.
fn filtered(place: &Place, included: &str) -> PathBuf {
    let canary = place.dir().join("../canary");
    let script = place.file("../evil.sh", format!("#!/bin/sh\necho $0 >> {}\ncat\n", canary.display()));
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let evil = script.canonicalize().unwrap();
    place.file(
        "evil.inc",
        format!("[filter \"x\"]\n\tsmudge = {0}\n\tclean = {0}\n\trequired = true\n", evil.display()),
    );
    place.file(".gitattributes", "*.txt filter=x\n");
    commit(place.dir(), "attributes");
    let settings = place.content(".git/config");
    place.file(".git/config", format!("{settings}\n{included}\n\tpath = ../evil.inc\n"));
    canary
}

#[tokio::test]
async fn settings_that_hold_only_in_the_new_worktree_name_nothing_that_is_run() {
    for included in [
        "[includeIf \"onbranch:convoke/**\"]",
        "[includeIf \"onbranch:convoke/x\"]",
        "[includeIf \"gitdir:**/worktrees/**\"]",
        "[includeIf \"gitdir/i:**/WORKTREES/x\"]",
        "[include]",
    ] {
        let place = repository();
        let canary = filtered(&place, included);
        let tree = made(&place, "x").await;
        assert_eq!(std::fs::read_to_string(tree.join("a.txt")).unwrap(), "one\n", "{included}");
        write(&tree.join("a.txt"), "two\n");
        assert!(try_remove(&place, "x", false).await.unwrap_err().message.contains("M a.txt"), "{included}");
        let removed = try_remove(&place, "x", true).await.unwrap();
        restore(&open(&place).await, &removed.snapshot.name).await.unwrap();
        assert_eq!(std::fs::read_to_string(tree.join("a.txt")).unwrap(), "two\n", "{included}");
        // Only its branch is left, and then not even all of a checkout.
        std::fs::remove_dir_all(&tree).unwrap();
        made(&place, "x").await;
        std::fs::write(place.dir().join(".git/worktrees/x/locked"), "initializing").unwrap();
        std::fs::remove_file(tree.join("a.txt")).unwrap();
        made(&place, "x").await;
        assert_eq!(std::fs::read_to_string(tree.join("a.txt")).unwrap(), "one\n", "{included}");
        assert!(!canary.exists(), "{included}");
        // As a control: plain git falls for it.
        std::fs::remove_file(tree.join("a.txt")).unwrap();
        git_in(&tree, "checkout a.txt");
        assert!(canary.exists(), "{included}");
    }
}

#[tokio::test]
async fn settings_that_come_between_a_look_and_the_work_name_nothing_that_is_run() {
    let place = repository();
    let canary = filtered(&place, "[include]");
    std::fs::rename(place.dir().join("evil.inc"), place.dir().join("later")).unwrap();
    let repo = open(&place).await;
    std::fs::rename(place.dir().join("later"), place.dir().join("evil.inc")).unwrap();
    create(&repo, &name("x"), Base::Head).await.unwrap();
    assert!(!canary.exists());
}
