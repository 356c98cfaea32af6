//! Entering a worktree, against git making the same one.

use super::Bench;
use super::gateway::Gateway;
use super::measure::{median, millis};
use super::report::Row;
use anyhow::{Context, ensure};
use serde_json::json;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use testkit::{FakeModel, Received, Reply, RepoDir, TempHome};

const FILES: usize = 5_000;
/// The first of each is not counted: it reads the repository from disk.
const ROUNDS: usize = 9;

/// From the end of the reply that calls `enter_worktree` to the next request, against `git worktree add`; in turns.
pub(super) fn enter(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let repo = repository()?;
    let script = |received: &Received| match received.n % 2 {
        0 => Reply::calls([("enter_worktree", json!({ "name": format!("ours-{}", received.n) }))]),
        _ => Reply::text("done"),
    };
    let fake = FakeModel::scripted(script);
    let home = TempHome::new(&fake);
    let gateway = Gateway::start(&bench.program, &home)?;
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let start = Instant::now();
        git(
            repo.path(),
            &["worktree", "add", "--quiet", "-b", &format!("plain-{round}"), &format!("../plain-{round}")],
        )?;
        plain.push(millis(start.elapsed()));
        gateway.run("work in a worktree", repo.path())?;
        let timings = fake.timings();
        let [.., call, next] = &timings[..] else { anyhow::bail!("the run asked no model") };
        ours.push(millis(next.at - call.replied.context("the reply was not written")?));
        let last = repo.path().join(format!(".convoke/worktrees/ours-{}/d/f{FILES}.txt", call.n));
        ensure!(last.exists(), "`{}` was not checked out", last.display());
    }
    let (ours, plain) = (median(ours.split_off(1))?, median(plain.split_off(1))?);
    eprintln!("  enter {ours:.1} ms, git {plain:.1} ms");
    Ok(vec![
        Row::info("worktree_enter_ratio", ours / plain, "").at_most(1.2),
        Row::info("worktree_enter_ms", ours, "ms"),
    ])
}

/// Inside of a folder of its own: plain worktrees are made beside it.
fn repository() -> anyhow::Result<Inner> {
    let outer = RepoDir::empty();
    let path = outer.path().join("repo");
    for n in 1..=FILES {
        outer.write(&format!("repo/d/f{n}.txt"), &format!("file {n}\n").repeat(20));
    }
    git(&path, &["init", "--quiet"])?;
    git(&path, &["add", "--all"])?;
    git(&path, &["-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "--quiet", "--message", "x"])?;
    Ok(Inner { _outer: outer, path })
}

struct Inner {
    _outer: RepoDir,
    path: std::path::PathBuf,
}

impl Inner {
    fn path(&self) -> &Path {
        &self.path
    }
}

fn git(dir: &Path, args: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("git").args(args).current_dir(dir).output().context("cannot start git")?;
    ensure!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
