//! `cargo xtask fuzz`: feeds made-up input to everything that reads foreign text, and keeps what breaks it.
//!
//! Each target is a row of [`TARGETS`]. Its corpus is `xtask/fuzz/<name>.txt`, one input per line (see [`corpus`]),
//! besides fixtures that stand elsewhere. A child process ([`child`]) plays the corpus, then mutated inputs, on a stack
//! as small as the gateway's and with a memory limit. This process watches it: a panic, an abort, a stack overflow, a
//! wrong answer or an input that takes too long is a find. A find is shortened and appended to the corpus, so that it is
//! tried first from then on.

mod child;
mod corpus;
mod ignore;
mod json;
mod jsonc;
mod keys;
mod mutate;
mod replies;
mod shell;
mod sse;
mod websocket;

use anyhow::{Context, bail};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Everything that can be tried. To add one, write a module with an `open` and put it here.
const TARGETS: &[Target] = &[
    sse::TARGET,
    jsonc::TARGET,
    keys::TARGET,
    replies::TARGET,
    json::TARGET,
    websocket::TARGET,
    ignore::TARGET,
    shell::TARGET,
];

/// How long one input may take. Reading 64 KiB takes milliseconds; this is for machines that do other things as well.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a find is shortened.
const SHORTENING: Duration = Duration::from_secs(20);

/// Something that reads foreign text.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Words of its language, for the mutator.
    pub(crate) words: &'static [&'static str],
    /// Folders of the repository whose files are inputs as well.
    pub(crate) folders: &'static [&'static str],
    /// Prepares what inputs are given to. The folder is empty, and deleted afterwards.
    pub(crate) open: fn(&Path) -> anyhow::Result<Trial>,
}

/// Reads one input. The number says in which way the input was read: an input with a number that was not seen before is
/// kept and mutated further. An error says what was wrong with the answer; a panic is caught.
pub(crate) type Trial = Box<dyn FnMut(&[u8]) -> Result<u64, String>>;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this target
    name: Option<String>,
    /// How long each target is tried
    #[arg(long, value_name = "M", default_value_t = 1.0)]
    minutes: f64,
    /// Makes the choices repeat [default: another one each time]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// The folder in which a child works; used by the command itself
    #[arg(long, hide = true)]
    child: Option<PathBuf>,
}

pub(crate) fn main(args: Args) -> anyhow::Result<()> {
    let seed = args.seed.unwrap_or_else(|| u64::from(std::process::id()));
    let chosen: Vec<&Target> =
        TARGETS.iter().filter(|target| args.name.as_deref().is_none_or(|name| name == target.name)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        bail!("unknown target; available: {}", names.join(", "));
    }
    let time = Duration::try_from_secs_f64(args.minutes * 60.0).context("`--minutes` is not a duration")?;
    if let (Some(folder), [target]) = (&args.child, chosen.as_slice()) {
        return child::main(target, folder, time, seed);
    }
    let broken: Vec<&str> = chosen
        .into_iter()
        .map(|target| attempt(target, time, seed).map(|well| (!well).then_some(target.name)))
        .filter_map(Result::transpose)
        .collect::<anyhow::Result<_>>()?;
    if broken.is_empty() {
        return Ok(());
    }
    bail!("found something in: {}; the inputs were added to xtask/fuzz", broken.join(", "))
}

/// Tries one target, and says whether all went well.
fn attempt(target: &Target, time: Duration, seed: u64) -> anyhow::Result<bool> {
    let work = tempfile::tempdir().context("cannot make a folder to work in")?;
    let ended = watch(target, work.path(), Mode::Search { time, seed })?;
    let Some(why) = ended else { return Ok(true) };
    let input = child::current(work.path())?;
    eprintln!("{}: {why}; {} bytes, shortening", target.name, input.len());
    let input = shorten(target, work.path(), input)?;
    corpus::add(target.name, &input)?;
    let line: String = corpus::line(&input).chars().take(400).collect();
    eprintln!("{}: {why}\n  seed {seed}, {} bytes: {line}", target.name, input.len());
    Ok(false)
}

/// What a child is to do.
enum Mode<'a> {
    Search {
        time: Duration,
        seed: u64,
    },
    /// One input alone.
    Only(&'a [u8]),
}

/// Runs a child to its end; says why if that was a bad one.
fn watch(target: &Target, work: &Path, mode: Mode<'_>) -> anyhow::Result<Option<String>> {
    for name in [child::CURRENT, child::WHY, child::ONLY] {
        let _ = fs::remove_file(work.join(name));
    }
    let current = File::options().create(true).truncate(true).read(true).write(true).open(work.join(child::CURRENT));
    let current = current.context("cannot make a file for the current input")?;
    let program = std::env::current_exe().context("this program has a name")?;
    let mut command = Command::new(program);
    command.args(["fuzz", target.name, "--child"]).arg(work).stdin(Stdio::null());
    match mode {
        Mode::Search { time, seed } => {
            command.arg(format!("--minutes={}", time.as_secs_f64() / 60.0)).arg(format!("--seed={seed}"));
        }
        Mode::Only(input) => {
            fs::write(work.join(child::ONLY), input)?;
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
    }
    let mut child = command.spawn().context("cannot start a child")?;
    let status = wait(&mut child, &current)?;
    Ok(match status {
        None => Some(format!("an input took longer than {} s", PATIENCE.as_secs())),
        Some(status) if status.success() => None,
        Some(status) => {
            let why = fs::read_to_string(work.join(child::WHY)).unwrap_or_default();
            Some(if why.is_empty() { format!("the process ended with {status}") } else { why })
        }
    })
}

/// Waits for the end of a child, and ends one that does not move on. `None` for the latter.
fn wait(child: &mut Child, current: &File) -> anyhow::Result<Option<ExitStatus>> {
    let (mut count, mut moved) = (0, Instant::now());
    loop {
        if let Some(status) = child.try_wait().context("cannot look at the child")? {
            return Ok(Some(status));
        }
        let mut now = [0; 8];
        if current.read_exact_at(&mut now, 0).is_ok() && count != u64::from_le_bytes(now) {
            (count, moved) = (u64::from_le_bytes(now), Instant::now());
        }
        if moved.elapsed() > PATIENCE {
            child.kill().context("cannot end the child")?;
            child.wait().context("cannot collect the child")?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Leaves out pieces, halves first, as long as the rest is still a find.
fn shorten(target: &Target, work: &Path, mut input: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    let begun = Instant::now();
    let mut piece = input.len().div_ceil(2);
    while piece > 0 && begun.elapsed() < SHORTENING {
        let mut at = 0;
        while at < input.len() && begun.elapsed() < SHORTENING {
            let end = (at + piece).min(input.len());
            let shorter = [&input[..at], &input[end..]].concat();
            if watch(target, work, Mode::Only(&shorter))?.is_some() {
                input = shorter;
            } else {
                at = end;
            }
        }
        piece /= 2;
    }
    Ok(input)
}

/// A number for what was seen, for [`Trial`].
pub(crate) fn signature(seen: impl std::hash::Hash) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    seen.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_name_of_its_own_and_a_corpus() {
        let mut names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TARGETS.len());
        for target in TARGETS {
            assert!(!corpus::read(target).unwrap().is_empty(), "`{}` has no corpus", target.name);
        }
    }

    #[test]
    fn every_input_of_the_corpora_is_read_well() {
        // Those that need a built program are tried by `cargo xtask fuzz` alone.
        for target in TARGETS.iter().filter(|target| !["websocket", "ignore"].contains(&target.name)) {
            let scratch = tempfile::tempdir().unwrap();
            let mut trial = (target.open)(scratch.path()).unwrap();
            for input in corpus::read(target).unwrap() {
                trial(&input).unwrap_or_else(|why| panic!("{}: {why}: {}", target.name, corpus::line(&input)));
            }
        }
    }
}
