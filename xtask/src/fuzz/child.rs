//! The process that feeds a target. It may die at any input: the one it is at is always in a file.

use super::{Target, corpus, mutate};
use crate::random::Random;
use anyhow::{Context, anyhow, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// The number of the current input in eight bytes, then the input.
pub(super) const CURRENT: &str = "current";
/// Why the child gave up, in words.
pub(super) const WHY: &str = "why";
/// The only input to try, if there is such a file.
pub(super) const ONLY: &str = "only";

/// As large as the stacks of the gateway's threads (tokio's default).
const STACK: usize = 2 * 1024 * 1024;

/// What a process may hold in all. Inputs have 64 KiB, so this is what only a fault needs.
const MEMORY: u64 = 768 * 1024 * 1024;

/// Inputs that are mutated further; the corpus counts as well.
const KEPT: usize = 4_096;

/// Tries one target for a while.
pub(super) fn main(target: &Target, work: &Path, time: Duration, seed: u64) -> anyhow::Result<()> {
    limit(Resource::Data, MEMORY)?;
    limit(Resource::Core, 0)?;
    // A panic is a find; the parent tells of it once.
    std::panic::set_hook(Box::new(|_| {}));
    let feeding = || Feeding::open(target, work)?.run(time, seed);
    let ended = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, feeding);
        thread.context("cannot start a thread")?.join().map_err(|_| anyhow!("the fuzzer itself panicked"))?
    });
    if let Err(error) = &ended {
        fs::write(work.join(WHY), format!("{error:#}")).context("cannot tell what happened")?;
    }
    ended
}

/// The input a child was at.
pub(super) fn current(work: &Path) -> anyhow::Result<Vec<u8>> {
    let bytes = fs::read(work.join(CURRENT)).context("cannot read the current input")?;
    let length = bytes.get(8..16).and_then(|length| length.try_into().ok()).map_or(0, u64::from_le_bytes) as usize;
    let input = bytes.get(16..16 + length).context("the child failed before its first input")?;
    Ok(input.to_vec())
}

fn limit(resource: Resource, most: u64) -> anyhow::Result<()> {
    let most = Some(most.min(getrlimit(resource).maximum.unwrap_or(u64::MAX)));
    setrlimit(resource, Rlimit { current: most, maximum: most }).context("cannot limit this process")
}

struct Feeding<'a> {
    target: &'a Target,
    work: &'a Path,
    trial: super::Trial,
    current: File,
    count: u64,
}

impl<'a> Feeding<'a> {
    fn open(target: &'a Target, work: &'a Path) -> anyhow::Result<Self> {
        let scratch = work.join("scratch");
        let _ = fs::remove_dir_all(&scratch);
        fs::create_dir_all(&scratch).context("cannot make a folder for the target")?;
        let trial = (target.open)(&scratch).with_context(|| format!("cannot prepare `{}`", target.name))?;
        let current = OpenOptions::new().write(true).open(work.join(CURRENT)).context("no file for the input")?;
        Ok(Self { target, work, trial, current, count: 0 })
    }

    fn run(mut self, time: Duration, seed: u64) -> anyhow::Result<()> {
        if let Ok(only) = fs::read(self.work.join(ONLY)) {
            return self.feed(&only).map(drop);
        }
        let begun = Instant::now();
        let mut pool = corpus::read(self.target)?;
        let mut seen = HashSet::new();
        for input in &pool {
            seen.insert(self.feed(input)?);
        }
        let mut random = Random::new(seed);
        while begun.elapsed() < time {
            let input = mutate::mutate(&mut random, &pool, self.target.words);
            if seen.insert(self.feed(&input)?) && pool.len() < KEPT {
                pool.push(input);
            }
        }
        eprintln!("{}: {} inputs, read in {} ways", self.target.name, self.count, seen.len());
        Ok(())
    }

    fn feed(&mut self, input: &[u8]) -> anyhow::Result<u64> {
        self.count += 1;
        let length = input.len() as u64;
        let told = [&self.count.to_le_bytes()[..], &length.to_le_bytes()[..], input].concat();
        self.current.write_all_at(&told, 0).context("cannot keep the current input")?;
        match catch_unwind(AssertUnwindSafe(|| (self.trial)(input))) {
            Ok(Ok(seen)) => Ok(seen),
            Ok(Err(why)) => bail!("{why}"),
            Err(panic) => {
                let words = panic.downcast_ref::<String>().map(String::as_str);
                bail!("panic: {}", words.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no words"))
            }
        }
    }
}
