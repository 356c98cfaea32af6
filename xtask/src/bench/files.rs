//! Reading and searching files: against ripgrep itself, and in how little memory.

use super::Bench;
use super::gateway::Gateway;
use super::measure::{median, millis};
use super::report::Row;
use anyhow::{Context, ensure};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use testkit::{FakeModel, Received, Reply, RepoDir, TempHome};

const FILES: usize = 100_000;
const FOLDERS: usize = 1_000;
/// The first of each is not counted: it reads the tree from disk.
const ROUNDS: usize = 7;
/// In so few files that none is cut off.
const WORD: &str = "needle_[0-9]+";

/// From the end of the reply that calls `grep` to the next request, against `rg` with the same files to look at; in turns.
pub(super) fn grep(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let repo = RepoDir::empty();
    for folder in 0..FOLDERS {
        let path = repo.path().join(format!("part{}/folder{folder}", folder % 10));
        fs::create_dir_all(&path)?;
        for file in 0..FILES / FOLDERS {
            let n = folder * FILES / FOLDERS + file;
            let mut text = format!("// file {n}\npub fn number_{n}() -> u32 {{\n    {n}\n}}\n").repeat(10);
            if n.is_multiple_of(2_000) {
                text.push_str(&format!("// needle_{n}\n"));
            }
            fs::write(path.join(format!("file{n}.rs")), text)?;
        }
    }
    let call = json!({ "pattern": WORD });
    let (fake, home) = model("grep", call);
    let gateway = Gateway::start(&bench.program, &home)?;
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..=ROUNDS {
        let start = Instant::now();
        let found = Command::new("rg")
            .args(["--hidden", "--no-require-git", "--glob", "!.git", "--line-number", WORD, "."])
            .current_dir(repo.path())
            .stdin(Stdio::null())
            .output()
            .context("cannot start `rg`: install ripgrep to compare with it")?;
        plain.push(millis(start.elapsed()));
        ensure!(found.stdout.split(|byte| *byte == b'\n').count() == FILES / 2_000 + 1, "rg found something else");
        gateway.run("search", repo.path())?;
        ours.push(between(&fake)?);
        let told = fake.last().and_then(|request| request.last("tool")).unwrap_or_default();
        ensure!(told.matches("needle_").count() == FILES / 2_000, "grep found something else: {told}");
    }
    let (ours, plain) = (median(ours.split_off(1))?, median(plain.split_off(1))?);
    eprintln!("  grep {ours:.0} ms, rg {plain:.0} ms");
    Ok(vec![Row::info("grep_100k_ratio", ours / plain, "").at_most(1.3), Row::info("grep_100k_ms", ours, "ms")])
}

/// What the gateway takes at most while the first lines of a file of 1 GB are read.
pub(super) fn read(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let repo = RepoDir::empty();
    let mut file = BufWriter::new(fs::File::create(repo.path().join("large.txt"))?);
    let block = (0..1_000).map(|n| format!("line {n} of a block, and some words to fill it up\n")).collect::<String>();
    for _ in 0..(1 << 30) / block.len() + 1 {
        file.write_all(block.as_bytes())?;
    }
    file.flush()?;
    drop(file);
    let (fake, home) = model("read", json!({ "filePath": "large.txt" }));
    let gateway = Gateway::start(&bench.program, &home)?;
    // Once before, so that what the gateway keeps for any call is there.
    gateway.run("read", repo.path())?;
    let process = format!("/proc/{}", gateway.pid);
    let before = field(&process, "VmRSS")?;
    // Forgets the highest it ever was.
    fs::write(Path::new(&process).join("clear_refs"), "5").context("cannot reset the peak of the gateway's memory")?;
    gateway.run("read", repo.path())?;
    let took = field(&process, "VmHWM")? - before;
    let told = fake.last().and_then(|request| request.last("tool")).unwrap_or_default();
    ensure!(told.contains("read on with offset"), "the file was not read: {told}");
    Ok(vec![Row::info("read_1gb_mib", took.max(0.0), "MiB").at_most(16.0)])
}

/// A model that calls a tool with this, and is content with whatever comes.
fn model(tool: &'static str, input: Value) -> (FakeModel, TempHome) {
    let fake = FakeModel::scripted(move |received: &Received| match received.n % 2 {
        0 => Reply::calls([(tool, input.clone())]),
        _ => Reply::text("done"),
    });
    let home = TempHome::new(&fake);
    (fake, home)
}

fn between(fake: &FakeModel) -> anyhow::Result<f64> {
    let timings = fake.timings();
    let [.., call, next] = &timings[..] else { anyhow::bail!("the run asked no model") };
    Ok(millis(next.at - call.replied.context("the reply was not written")?))
}

/// A field of a process' status in MiB.
fn field(process: &str, name: &str) -> anyhow::Result<f64> {
    let status = fs::read_to_string(Path::new(process).join("status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib: f64 = line.and_then(|line| line.split_whitespace().next()).context("no such field")?.parse()?;
    Ok(kib / 1024.0)
}
