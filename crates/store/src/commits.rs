//! How the writing goes, for operators: how many transactions, and how long each took until it was on disk.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds in seconds, from a fast disk's sync to one that makes people wait; what is slower counts beyond the last.
const BOUNDS: [f64; 9] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.05, 0.25, 1.0];

/// What was written since the start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Commits {
    pub transactions: u64,
    /// Several that wait at the same time share a transaction.
    pub operations: u64,
    /// All transactions together.
    pub seconds: f64,
    /// How many took at most so many seconds, and more than those before.
    pub buckets: Vec<(f64, u64)>,
}

/// Counts without a lock: one thread writes, anybody reads.
#[derive(Default)]
pub(crate) struct Tally {
    operations: AtomicU64,
    nanoseconds: AtomicU64,
    buckets: [AtomicU64; BOUNDS.len() + 1],
}

impl Tally {
    pub(crate) fn note(&self, operations: usize, took: Duration) {
        self.operations.fetch_add(operations as u64, Relaxed);
        self.nanoseconds.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        let place = BOUNDS.iter().position(|bound| took.as_secs_f64() <= *bound).unwrap_or(BOUNDS.len());
        self.buckets[place].fetch_add(1, Relaxed);
    }

    pub(crate) fn read(&self) -> Commits {
        let bounds = BOUNDS.into_iter().chain([f64::MAX]);
        let buckets: Vec<(f64, u64)> = bounds.zip(self.buckets.iter().map(|count| count.load(Relaxed))).collect();
        Commits {
            transactions: buckets.iter().map(|(_, count)| count).sum(),
            operations: self.operations.load(Relaxed),
            seconds: Duration::from_nanos(self.nanoseconds.load(Relaxed)).as_secs_f64(),
            buckets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transaction_is_in_one_bucket() {
        let tally = Tally::default();
        for (operations, micros) in [(1, 0), (2, 100), (3, 101), (4, 2_000_000)] {
            tally.note(operations, Duration::from_micros(micros));
        }
        let read = tally.read();
        assert_eq!((read.transactions, read.operations, read.seconds), (4, 10, 2.000_201));
        let counts: Vec<u64> = read.buckets.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
