//! Power cuts: a process that commits and says so is killed, and what it said is looked for on the disk.

use crate::conformance::Bed;
use crate::power::SEED;
use crate::power::dice::Dice;
use crate::{Batch, Fence, Find, Session, Span, Sqlite, Store};
use proto::entry::Notice;
use proto::{Entry, SessionId};
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Where a life is lived.
const DIR: &str = "CONVOKE_POWER_TEST_DIR";

/// What its connection is told after all else: the knob for doing it wrong.
const TUNE: &str = "CONVOKE_POWER_TEST_TUNE";

const CUTS: usize = 30;

/// Cuts that one directory has to live through.
const CUTS_EACH: usize = 6;

/// Cuts while a store is made.
const BIRTHS: u64 = 200;

/// Sessions that are written at once.
const WRITERS: usize = 3;

/// The highest `seq` acknowledged, by session.
type Acknowledged = BTreeMap<SessionId, u64>;

/// What an entry says follows from its place; some need several pages.
fn text(seq: u64) -> String {
    format!("{seq} ").repeat((seq * 7919 % 1500) as usize + 1)
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

#[test]
#[ignore = "not a test: a process for the tests below to kill"]
fn a_life() {
    let Some(dir) = env::var_os(DIR) else { return };
    // The harness begins a line of its own.
    say("\nborn");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(live(Path::new(&dir)));
}

async fn live(dir: &Path) {
    let tune = env::var(TUNE).unwrap_or_default();
    let open = |on_kept| Sqlite::open_with(dir, on_kept, |db| db.execute_batch(&tune)).unwrap();
    let bed = Arc::new(Bed::new((), open));
    let writers = (0..WRITERS).map(|writer| tokio::spawn(write(bed.clone(), format!("w{writer}"))));
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

/// Until it is killed.
async fn write(bed: Arc<Bed>, name: String) {
    let found = bed.store.find(&Find::Key(format!("agent:build:{name}"))).await.unwrap().pop();
    let session = match found {
        Some(session) => session,
        None => bed.root(&name).await,
    };
    for seq in session.seq + 1.. {
        let entries = vec![Entry::Notice(Notice { text: text(seq) })];
        let batch = Batch { at: 5, entries, ..Batch::default() };
        let committed = bed.store.commit(&session.id, Fence::Claim, batch).await.unwrap();
        say(&format!("kept {} {}", session.id, committed.seq));
        // A look through another connection, at what may still wait for a checkpoint's sync.
        check_log(&*bed.store, &session, seq).await;
    }
}

/// That a session's last entries are what they should be; all of them if there are few.
async fn check_log(store: &dyn Store, session: &Session, seq: u64) {
    let last = store.entries(&session.id, Span::Before { seq: seq + 1, limit: 20 }).await.unwrap();
    assert_eq!(last.last().map(|stored| stored.seq), Some(seq));
    for stored in last {
        assert!(matches!(&stored.entry, Entry::Notice(notice) if notice.text == text(stored.seq)), "{}", stored.seq);
    }
}

/// How a life goes.
struct Life<'a> {
    dir: &'a Path,
    /// `None` is a disk that keeps its power.
    seed: Option<u64>,
    tune: &'a str,
    /// Acknowledgements before the end, and how long it is put off after them.
    after: usize,
    grace: Duration,
}

impl Life<'_> {
    /// Lives it, and adds what was acknowledged.
    fn live(&self, acknowledged: &mut Acknowledged) {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "--nocapture", "power::tests::cuts::a_life"]);
        command.env(DIR, self.dir).env(TUNE, self.tune).env_remove(SEED);
        command.envs(self.seed.map(|seed| (SEED, seed.to_string())));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        lines.by_ref().find(|line| line == "born");
        let mut said: Vec<String> = lines.by_ref().take(self.after).collect();
        let start = Instant::now();
        while start.elapsed() < self.grace {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        said.extend(lines);
        assert_eq!(child.wait().unwrap().signal(), Some(9), "it ended by itself: {said:?}");
        for line in said {
            let (session, seq) = line.strip_prefix("kept ").and_then(|kept| kept.split_once(' ')).unwrap();
            let highest = acknowledged.entry(SessionId::parse(session).unwrap()).or_default();
            *highest = seq.parse::<u64>().unwrap().max(*highest);
        }
    }
}

/// Opens a copy on a disk of the usual kind, leaving the original to the next life, and counts what is missing of what
/// was acknowledged. Whatever is there must be sound.
async fn missing(dir: &Path, acknowledged: &Acknowledged) -> u64 {
    let copy = tempfile::tempdir().unwrap();
    for file in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    let store = Sqlite::open(copy.path(), Arc::new(|_| {})).unwrap();
    assert_eq!(store.check().await.unwrap(), Vec::<String>::new());
    let mut missing = 0;
    for (id, seq) in acknowledged {
        let all = store.entries(id, Span::After { seq: 0, limit: usize::MAX }).await.unwrap_or_default();
        for stored in &all {
            assert!(matches!(&stored.entry, Entry::Notice(notice) if notice.text == text(stored.seq)), "{id}");
        }
        missing += seq.saturating_sub(all.len() as u64);
    }
    store.close().await;
    missing
}

/// A store with the sessions in it, made while the power was sure to stay on.
async fn made() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let bed = Bed::new((), |on_kept| Sqlite::open(dir.path(), on_kept).unwrap());
    for writer in 0..WRITERS {
        bed.root(&format!("w{writer}")).await;
    }
    bed.store.close().await;
    dir
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_in_a_power_cut() {
    let mut dice = Dice::new(1, b"cuts");
    let mut total = 0;
    for round in 0..CUTS / CUTS_EACH {
        let (dir, mut acknowledged) = (made().await, Acknowledged::new());
        for cut in 0..CUTS_EACH {
            let life = Life {
                dir: dir.path(),
                seed: Some((round * CUTS_EACH + cut) as u64),
                // Every few commits, so that cuts fall into checkpoints and fresh logs as well.
                tune: "PRAGMA wal_autocheckpoint = 30",
                after: dice.below(120),
                grace: Duration::from_micros(dice.below(3_000) as u64),
            };
            life.live(&mut acknowledged);
            assert_eq!(missing(dir.path(), &acknowledged).await, 0, "cut {cut} of round {round}: {acknowledged:?}");
        }
        total += acknowledged.values().sum::<u64>();
    }
    assert!(total > CUTS as u64 * 10, "only {total} commits were put at risk");
}

#[tokio::test]
async fn a_cut_while_the_store_is_made_leaves_one_that_can_be() {
    let mut dice = Dice::new(1, b"births");
    for cut in 0..BIRTHS {
        let (dir, mut acknowledged) = (tempfile::tempdir().unwrap(), Acknowledged::new());
        let grace = Duration::from_micros(dice.below(15_000) as u64);
        Life { dir: dir.path(), seed: Some(cut), tune: "", after: 0, grace }.live(&mut acknowledged);
        assert_eq!(missing(dir.path(), &acknowledged).await, 0, "cut {cut}");
    }
}

/// The same by hand, every time: the first page stops half way, and the journal says that there was none before.
#[tokio::test]
async fn a_half_written_first_page_is_undone() {
    let dir = made().await;
    let database = dir.path().join("convoke.db");
    let page = fs::read(&database).unwrap();
    fs::write(&database, &page[..1691]).unwrap();
    let mut journal = vec![0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    // No pages to restore, a nonce, no pages before, the sizes of a sector and of a page.
    for number in [0_u32, 1, 0, 512, 4096] {
        journal.extend(number.to_be_bytes());
    }
    journal.resize(512, 0);
    fs::write(dir.path().join("convoke.db-journal"), journal).unwrap();
    assert_eq!(missing(dir.path(), &Acknowledged::new()).await, 0);
}

/// The control of the test above: a store that does not sync, with and without power.
#[tokio::test]
async fn what_was_not_synced_is_lost_with_the_power_and_with_nothing_else() {
    let tune = "PRAGMA synchronous = OFF";
    let (mut lost, after) = (vec![], 50);
    for seed in [None, Some(1), Some(2)] {
        let (dir, mut acknowledged) = (made().await, Acknowledged::new());
        Life { dir: dir.path(), seed, tune, after, grace: Duration::ZERO }.live(&mut acknowledged);
        let total = acknowledged.values().sum::<u64>();
        assert!(total >= after as u64);
        lost.push((missing(dir.path(), &acknowledged).await, total));
    }
    assert_eq!(lost[0].0, 0, "a process died, and no power was lost");
    for (lost, total) in &lost[1..] {
        assert_eq!(lost, total, "so much of it was on disk without a sync");
    }
}
