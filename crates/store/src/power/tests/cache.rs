//! The cache against a plain vector of bytes.

use crate::power::cache::{Cache, Code, Disk};
use crate::power::dice::Dice;
use proptest::prelude::*;

/// Files stay this small, so that writes meet.
const SPAN: u64 = 64;

#[derive(Default)]
struct Bytes {
    bytes: Vec<u8>,
    /// Lengths of what was written.
    pieces: Vec<usize>,
}

impl Disk for Bytes {
    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), Code> {
        for (index, byte) in into.iter_mut().enumerate() {
            *byte = self.bytes.get(at as usize + index).copied().unwrap_or(0);
        }
        Ok(())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Code> {
        let end = at as usize + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at as usize..end].copy_from_slice(bytes);
        self.pieces.push(bytes.len());
        Ok(())
    }

    fn truncate(&mut self, size: u64) -> Result<(), Code> {
        self.bytes.resize(size as usize, 0);
        Ok(())
    }

    fn size(&mut self) -> Result<u64, Code> {
        Ok(self.bytes.len() as u64)
    }
}

#[derive(Debug, Clone)]
enum Step {
    Write { at: u64, bytes: Vec<u8> },
    Truncate(u64),
    Some,
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..SPAN, prop::collection::vec(1..=u8::MAX, 1..24)).prop_map(|(at, bytes)| Step::Write { at, bytes }),
        2 => (0..SPAN).prop_map(Step::Truncate),
        1 => Just(Step::Some),
        1 => Just(Step::Sync),
    ]
}

/// What the file was at the last sync, and where it was written or cut since.
#[derive(Default)]
struct Synced {
    bytes: Vec<u8>,
    touched: Vec<std::ops::Range<u64>>,
}

impl Synced {
    /// Power may take what was written since, but nothing else.
    fn check(&self, disk: &Bytes) {
        for (at, byte) in (0..).zip(&self.bytes) {
            let is_touched = self.touched.iter().any(|range| range.contains(&at));
            assert!(is_touched || disk.bytes.get(at as usize) == Some(byte), "synced byte {at} is gone");
        }
    }
}

fn play(seed: u64, steps: &[Step]) {
    let (mut cache, mut disk) = (Cache::new(Dice::new(seed, b"")), Bytes::default());
    let (mut expected, mut synced) = (Bytes::default(), Synced::default());
    for step in steps {
        match step {
            Step::Write { at, bytes } => {
                cache.write(&mut disk, *at, bytes).unwrap();
                expected.write(*at, bytes).unwrap();
                synced.touched.push(*at..*at + bytes.len() as u64);
            }
            Step::Truncate(size) => {
                cache.truncate(&mut disk, *size).unwrap();
                expected.truncate(*size).unwrap();
                synced.touched.push(*size..u64::MAX);
            }
            Step::Some => {
                cache.settle_some(&mut disk).unwrap();
            }
            Step::Sync => {
                cache.settle(&mut disk).unwrap();
                assert_eq!(disk.bytes, expected.bytes);
                synced = Synced { bytes: disk.bytes.clone(), touched: vec![] };
            }
        }
        synced.check(&disk);
        check_reads(&mut cache, &mut disk, &mut expected);
    }
}

fn check_reads(cache: &mut Cache, disk: &mut Bytes, expected: &mut Bytes) {
    let size = expected.bytes.len() as u64;
    assert_eq!(cache.size(disk), Ok(size));
    for (at, length) in [(0, size + 9), (0, size), (size / 2, 7), (size / 3, 1), (size + 2, 3)] {
        let (mut seen, mut right) = (vec![0xee; length as usize], vec![0xee; length as usize]);
        assert_eq!(cache.read(disk, at, &mut seen), Ok(at + length <= size));
        expected.read(at, &mut right).unwrap();
        assert_eq!(seen, right, "{length} bytes at {at}");
    }
}

proptest! {
    #[test]
    fn while_the_power_is_on_it_is_a_file(seed: u64, steps in prop::collection::vec(step(), 1..60)) {
        play(seed, &steps);
    }
}

#[test]
fn without_a_sync_little_goes_down_and_most_of_that_is_torn() {
    let (mut cache, mut disk) = (Cache::new(Dice::new(7, b"")), Bytes::default());
    for page in 0..1000 {
        cache.write(&mut disk, page * 4096, &[1; 4096]).unwrap();
    }
    let torn = disk.pieces.iter().filter(|length| **length < 4096).count();
    assert!((50..250).contains(&disk.pieces.len()), "{} of 1000 writes went down", disk.pieces.len());
    assert!(torn * 10 > disk.pieces.len() * 9, "{torn} of {} were torn", disk.pieces.len());
    let arrived = disk.bytes.iter().filter(|byte| **byte == 1).count();
    assert!(arrived < 250 * 4096);
    cache.settle(&mut disk).unwrap();
    assert!(cache.is_settled() && disk.bytes.len() == 4096 * 1000 && disk.bytes.iter().all(|byte| *byte == 1));
}

#[test]
fn memory_is_bounded_without_syncs_too() {
    let (mut cache, mut disk) = (Cache::new(Dice::new(7, b"")), Bytes::default());
    for mebibyte in 0..65 {
        cache.write(&mut disk, mebibyte << 20, &vec![1; 1 << 20]).unwrap();
    }
    assert!(cache.is_settled());
    assert_eq!(disk.bytes.len(), 65 << 20);
}
