//! What a sandbox adds to a command once it is warm.

use super::Bench;
use super::measure::{median, millis};
use super::report::Row;
use anyhow::{Context, ensure};
use proto::{Action, Rule, SessionId};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use tools::process::{Command, Processes, Reaper};
use tools::sandbox::{Backend, Confine, Places, Reach};

const ROUNDS: usize = 100;
/// Not counted: they start what stays.
const FIRST: usize = 5;

/// `true` in a repository with some files to hide, bare and confined in turns.
pub(super) fn command(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let dir = tempfile::tempdir()?;
    let root = dir.path().canonicalize()?;
    for name in ["work/.git/hooks", "home/state/outputs"] {
        std::fs::create_dir_all(root.join(name))?;
    }
    for name in ["work/.git/config", "work/.env", "work/.env.local"] {
        std::fs::write(root.join(name), "")?;
    }
    let path = std::env::var_os("PATH");
    let (backend, notes) = tools::sandbox::find(&bench.program, path.as_deref());
    ensure!(matches!(backend, Backend::Bubblewrap(_)), "no bubblewrap to measure: {}", notes.join("; "));
    let state = root.join("home/state");
    let places = Places { private: vec![state.clone()], outputs: state.join("outputs"), root: state.join("sandbox") };
    let reaper = Reaper::new(bench.program.clone(), std::env::vars().collect()).sandboxes(places, Some(backend));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let confine = Arc::new(confine(&root.join("work")));
        let (mut bare, mut held, mut first) = (Vec::new(), Vec::new(), None);
        for _ in 0..ROUNDS + FIRST {
            bare.push(run(&reaper, None, &root).await?);
            held.push(run(&reaper, Some(confine.clone()), &root).await?);
            first.get_or_insert(held[0]);
        }
        let (bare, held) = (median(bare.split_off(FIRST))?, median(held.split_off(FIRST))?);
        let first = first.context("there was a first")?;
        eprintln!("  bare {bare:.2} ms, confined {held:.2} ms, the first {first:.1} ms");
        Ok(vec![
            Row::info("sandbox_command_ms", held - bare, "ms").at_most(3.0),
            Row::info("sandbox_start_ms", first - held, "ms"),
        ])
    })
}

fn confine(work: &Path) -> Confine {
    let own = [("*", "*", Action::Allow), ("read", "*.env", Action::Ask), ("read", "*.env.*", Action::Ask)];
    let own = own.map(|(permission, pattern, action)| Rule::new(permission, pattern, action)).to_vec();
    let (dir, worktree) = (work.to_owned(), work.to_owned());
    let rules = Arc::new(rules::Policy { own, ..rules::Policy::default() });
    Confine { session: SessionId::new(), root: SessionId::new(), reach: Reach::USUAL, dir, worktree, rules }
}

async fn run(reaper: &Reaper, confine: Option<Arc<Confine>>, root: &Path) -> anyhow::Result<f64> {
    let command = Command {
        program: "bash".into(),
        args: vec!["-c".into(), "true".into()],
        dir: root.join("work"),
        env: reaper.env().to_vec(),
        timeout: Duration::from_secs(20),
        limit: 1024,
        live: None,
        spill: None,
        confine,
        input: None,
    };
    let start = Instant::now();
    let finished = reaper.run(command, &CancellationToken::new()).await?;
    let took = millis(start.elapsed());
    ensure!(finished.code == Some(0), "{}", String::from_utf8_lossy(&finished.output));
    Ok(took)
}
