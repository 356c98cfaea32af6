//! The one thread that writes. Everything that waits for it becomes one transaction and one sync.
//!
//! Callers hand over work with a place in a bounded queue and wait for their answer without blocking a runtime thread.
//! Answers go out only after the commit returned, and after the watchers were told: whoever hears "kept" finds it kept.
//!
//! An operation that is refused must not take its neighbours along. One that can only be refused before its first row
//! ([`Ready::is_refused_early`]) needs nothing for that; every other one runs in a savepoint, unless it is alone.

use super::apply::Hand;
use super::fault::{Fault, Place, Result};
use super::lock::Lock;
use super::read;
use crate::commits::Tally;
use crate::ready::{Done, Ready};
use crate::{Commits, Error, Kept, OnKept};
use rusqlite::Connection;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Most operations in one transaction: bounds how long the first of them waits for the last.
const GROUP: usize = 512;

/// Most text in one transaction, past which no further operation joins.
const GROUP_BYTES: usize = 8 << 20;

/// What may wait for the writer, in KiB of text.
const QUEUE: usize = 32 << 10;

/// What the smallest operation counts for: bounds the waiting ones to two thousand.
const LEAST: usize = 16;

/// Longest pause to let those who were just answered come back with their next operation.
const PAUSE: Duration = Duration::from_micros(300);

type Answer = std::result::Result<Done, Error>;

/// The way to the thread.
pub(super) struct Writer {
    jobs: Mutex<Option<Sender<Job>>>,
    room: Arc<Semaphore>,
    thread: Mutex<Option<JoinHandle<()>>>,
    tally: Arc<Tally>,
    /// The newest cursor: every prompt begins with it, and nobody but the thread changes it.
    newest: Arc<AtomicU64>,
}

struct Job {
    work: Ready,
    answer: oneshot::Sender<Answer>,
    // Given back when the job is answered, and not before: that is what bounds the queue.
    _room: OwnedSemaphorePermit,
}

impl Writer {
    pub(super) fn start(
        place: Place,
        connection: Connection,
        lock: Lock,
        on_kept: OnKept,
    ) -> std::result::Result<Self, Error> {
        let (jobs, inbox) = std::sync::mpsc::channel();
        let tally = Arc::new(Tally::default());
        let newest = read::cursor(&connection).map_err(|fault| place.explain(fault))?;
        let newest = Arc::new(AtomicU64::new(newest));
        let hand = Hand::default();
        let desk =
            Thread { connection, _lock: lock, place, on_kept, tally: tally.clone(), newest: newest.clone(), hand };
        let thread = thread::Builder::new()
            .name("store".into())
            .spawn(move || desk.run(&inbox))
            .map_err(|error| Error::Internal(format!("cannot start the writer: {error}")))?;
        Ok(Self {
            jobs: Mutex::new(Some(jobs)),
            room: Arc::new(Semaphore::new(QUEUE)),
            thread: Mutex::new(Some(thread)),
            tally,
            newest,
        })
    }

    pub(super) async fn write(&self, work: Ready) -> Answer {
        let room = (work.bytes() / 1024).clamp(LEAST, QUEUE / 2) as u32;
        let room = self.room.clone().acquire_many_owned(room).await.map_err(|_| Error::Closed)?;
        let (answer, answered) = oneshot::channel();
        let job = Job { work, answer, _room: room };
        let sent = match &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(jobs) => jobs.send(job).is_ok(),
            None => false,
        };
        if !sent {
            return Err(Error::Closed);
        }
        answered.await.unwrap_or(Err(Error::Closed))
    }

    /// The cursor of the newest entry that is kept.
    pub(super) fn newest(&self) -> std::result::Result<u64, Error> {
        if self.room.is_closed() {
            return Err(Error::Closed);
        }
        Ok(self.newest.load(Ordering::Acquire))
    }

    pub(super) fn commits(&self) -> Commits {
        self.tally.read()
    }

    /// Lets the thread finish what it was given. Blocks until it has.
    pub(super) fn close(&self) {
        self.room.close();
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A watcher that holds the last handle drops it on the thread itself, which cannot wait for its own end.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id())
            && thread.join().is_err()
        {
            tracing::error!("the writer of the store panicked");
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

/// What the thread owns. The connection is declared, and so closed, before the lock that guards it.
struct Thread {
    connection: Connection,
    _lock: Lock,
    place: Place,
    on_kept: OnKept,
    tally: Arc<Tally>,
    newest: Arc<AtomicU64>,
    hand: Hand,
}

impl Thread {
    fn run(mut self, inbox: &Receiver<Job>) {
        let mut pace = Pace::default();
        while let Ok(first) = inbox.recv() {
            let group = pace.gather(first, inbox);
            let start = Instant::now();
            let size = group.len();
            self.commit(group);
            pace.note(size, start.elapsed());
        }
    }

    fn commit(&mut self, group: Vec<Job>) {
        let start = Instant::now();
        let mut kept = Vec::new();
        let answers = match self.transact(&group, &mut kept) {
            Ok(answers) => answers,
            Err(fault) => {
                self.take_back();
                let error = self.place.explain(fault);
                group.iter().map(|_| Err(error.clone())).collect()
            }
        };
        self.tally.note(group.len(), start.elapsed());
        if let Some(newest) = kept.last().filter(|_| answers.iter().any(Answer::is_ok)) {
            self.newest.store(newest.cursor, Ordering::Release);
            (self.on_kept)(&kept);
        }
        for (job, answer) in group.into_iter().zip(answers) {
            // A caller that went away does not need it.
            let _ = job.answer.send(answer);
        }
    }

    /// One transaction. An `Err` is one for everybody: nothing was kept.
    fn transact(&mut self, group: &[Job], kept: &mut Vec<Kept>) -> Result<Vec<Answer>> {
        self.execute("BEGIN IMMEDIATE")?;
        let mut answers = Vec::with_capacity(group.len());
        for job in group {
            let already = kept.len();
            match self.operate(&job.work, group.len() == 1, kept) {
                Ok(done) => answers.push(Ok(done)),
                Err(fault) if self.is_only_its_own(&job.work, &fault) => {
                    kept.truncate(already);
                    answers.push(Err(self.place.explain(fault)));
                }
                Err(fault) => return Err(fault),
            }
        }
        self.execute(if answers.iter().any(Answer::is_ok) { "COMMIT" } else { "ROLLBACK" })?;
        Ok(answers)
    }

    fn operate(&mut self, work: &Ready, alone: bool, kept: &mut Vec<Kept>) -> Result<Done> {
        if alone || work.is_refused_early() {
            return self.hand.apply(&self.connection, work, kept);
        }
        self.execute("SAVEPOINT operation")?;
        let done = self.hand.apply(&self.connection, work, kept);
        if done.is_err() && !self.connection.is_autocommit() {
            self.execute("ROLLBACK TO operation")?;
        }
        if !self.connection.is_autocommit() {
            self.execute("RELEASE operation")?;
        }
        done
    }

    /// A refusal concerns its operation alone, and so does whatever a savepoint took back. Trouble that ended the
    /// transaction, or that struck between two rows of an operation without a savepoint, concerns the whole group.
    fn is_only_its_own(&self, work: &Ready, fault: &Fault) -> bool {
        !self.connection.is_autocommit() && (matches!(fault, Fault::Told(_)) || !work.is_refused_early())
    }

    fn take_back(&mut self) {
        self.hand.forget();
        // SQLite has already rolled back after some errors; then there is nothing to take back.
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "cannot roll back");
        }
    }

    fn execute(&self, sql: &str) -> Result<()> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }
}

/// Decides when a group is complete.
#[derive(Default)]
struct Pace {
    last: usize,
    took: Duration,
}

impl Pace {
    fn note(&mut self, size: usize, took: Duration) {
        (self.last, self.took) = (size, took);
    }

    /// Takes whatever waits. Those who were just answered come back within microseconds: leaving without them would make
    /// every second transaction one of a single operation, so a group waits a fraction of a sync for as many as last
    /// time. A lone caller is never kept waiting.
    fn gather(&self, first: Job, inbox: &Receiver<Job>) -> Vec<Job> {
        let until = Instant::now() + PAUSE.min(self.took / 4);
        let mut bytes = first.work.bytes();
        let mut group = vec![first];
        while group.len() < GROUP && bytes < GROUP_BYTES {
            let next = match inbox.try_recv() {
                Ok(job) => job,
                Err(_) if group.len() >= self.last => break,
                Err(_) => match inbox.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    Ok(job) => job,
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
                },
            };
            bytes += next.work.bytes();
            group.push(next);
        }
        group
    }
}
