//! What was written to one file and not yet synced, as every connection of the process sees it. Knows no SQLite.

use super::dice::Dice;
use std::collections::{BTreeMap, VecDeque};

/// A drive's memory ends somewhere too: past this, everything goes down to the file, still unsynced.
const ROOM: usize = 64 << 20;

/// One write in so many sends a piece down early.
const EARLY: usize = 8;

/// The piece is of one of so many newest writes.
const NEWEST: usize = 8;

/// One sync in so many leaves some writes for a second round, so that a cut can fall between the two.
const ROUNDS: usize = 3;

/// SQLite's word for what went wrong.
pub(super) type Code = std::ffi::c_int;

/// The real file below.
pub(super) trait Disk {
    /// Past the end there are zeros.
    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<(), Code>;
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), Code>;
    fn truncate(&mut self, size: u64) -> Result<(), Code>;
    fn size(&mut self) -> Result<u64, Code>;
}

/// One per file, shared by all that have it open.
pub(super) struct Cache {
    /// False while the real file lacks something; until then the fields below say what.
    settled: bool,
    size: u64,
    /// How much of the real file shows through where nothing waits. Past it are only pieces that went down early.
    solid: u64,
    /// Writes by offset, none overlapping another.
    waiting: BTreeMap<u64, Vec<u8>>,
    bytes: usize,
    /// Offsets of the last writes; what one of them led to may be gone.
    newest: VecDeque<u64>,
    dice: Dice,
}

impl Cache {
    pub(super) fn new(dice: Dice) -> Self {
        Self {
            settled: true,
            size: 0,
            solid: 0,
            waiting: BTreeMap::new(),
            bytes: 0,
            newest: VecDeque::with_capacity(NEWEST),
            dice,
        }
    }

    /// Whether the real file says it all.
    pub(super) fn is_settled(&self) -> bool {
        self.settled
    }

    /// The size if the real file may have another one.
    pub(super) fn waiting_size(&self) -> Option<u64> {
        (!self.settled).then_some(self.size)
    }

    pub(super) fn size(&mut self, disk: &mut impl Disk) -> Result<u64, Code> {
        self.look(disk)?;
        Ok(self.size)
    }

    /// Fills `into`, with zeros past the end. True if nothing was past it.
    pub(super) fn read(&mut self, disk: &mut impl Disk, at: u64, into: &mut [u8]) -> Result<bool, Code> {
        self.look(disk)?;
        into.fill(0);
        let end = at + into.len() as u64;
        let shown = self.solid.clamp(at, end) - at;
        if shown > 0 {
            disk.read(at, &mut into[..shown as usize])?;
        }
        let before = self.waiting.range(..at).next_back();
        for (start, bytes) in before.into_iter().chain(self.waiting.range(at..end)) {
            overlay(into, at, *start, bytes);
        }
        Ok(end <= self.size)
    }

    pub(super) fn write(&mut self, disk: &mut impl Disk, at: u64, bytes: &[u8]) -> Result<(), Code> {
        self.look(disk)?;
        self.settled = false;
        let end = at + bytes.len() as u64;
        self.forget(at, end);
        self.keep(at, bytes.to_vec());
        self.size = self.size.max(end);
        if self.newest.len() == NEWEST {
            self.newest.pop_front();
        }
        self.newest.push_back(at);
        if self.bytes > ROOM {
            return self.settle(disk);
        }
        if self.dice.one_in(EARLY) { self.leak(disk) } else { Ok(()) }
    }

    pub(super) fn truncate(&mut self, disk: &mut impl Disk, size: u64) -> Result<(), Code> {
        self.look(disk)?;
        self.settled = false;
        self.forget(size, u64::MAX);
        self.solid = self.solid.min(size);
        self.size = size;
        Ok(())
    }

    /// Perhaps sends some of what waits down, as a drive in the middle of a sync has. True if it did: a sync between
    /// this and [`Self::settle`] is then the moment for a power cut.
    pub(super) fn settle_some(&mut self, disk: &mut impl Disk) -> Result<bool, Code> {
        if self.settled || !self.dice.one_in(ROUNDS) {
            return Ok(false);
        }
        for (at, bytes) in &self.waiting {
            if self.dice.one_in(2) {
                disk.write(*at, &bytes[..=self.dice.below(bytes.len())])?;
            }
        }
        Ok(true)
    }

    /// Sends everything down, in any order. After an `Err` all of it still waits.
    pub(super) fn settle(&mut self, disk: &mut impl Disk) -> Result<(), Code> {
        if self.settled {
            return Ok(());
        }
        if disk.size()? > self.solid {
            disk.truncate(self.solid)?;
        }
        let mut order: Vec<_> = self.waiting.iter().collect();
        self.dice.shuffle(&mut order);
        for (at, bytes) in order {
            disk.write(*at, bytes)?;
        }
        if disk.size()? != self.size {
            disk.truncate(self.size)?;
        }
        self.waiting.clear();
        self.newest.clear();
        self.bytes = 0;
        self.settled = true;
        Ok(())
    }

    /// A file with nothing waiting may have been changed by somebody else.
    fn look(&mut self, disk: &mut impl Disk) -> Result<(), Code> {
        if self.settled {
            self.size = disk.size()?;
            self.solid = self.size;
        }
        Ok(())
    }

    /// A piece of a waiting write reaches the file, before older ones. It still waits as a whole.
    fn leak(&mut self, disk: &mut impl Disk) -> Result<(), Code> {
        let at = self.newest[self.dice.below(self.newest.len())];
        match self.waiting.get(&at) {
            Some(bytes) => disk.write(at, &bytes[..=self.dice.below(bytes.len())]),
            None => Ok(()),
        }
    }

    /// Makes room from `from` to `to`.
    fn forget(&mut self, from: u64, to: u64) {
        if let Some((&start, bytes)) = self.waiting.range_mut(..from).next_back()
            && start + bytes.len() as u64 > from
        {
            let rest = bytes.split_off((from - start) as usize);
            self.bytes -= rest.len();
            self.keep_past(to, from, rest);
        }
        while let Some((&start, _)) = self.waiting.range(from..to).next() {
            let bytes = self.waiting.remove(&start).unwrap_or_default();
            self.bytes -= bytes.len();
            self.keep_past(to, start, bytes);
        }
    }

    /// Keeps what of these bytes lies at `to` or after it.
    fn keep_past(&mut self, to: u64, start: u64, mut bytes: Vec<u8>) {
        if start + bytes.len() as u64 > to {
            self.keep(to, bytes.split_off((to - start) as usize));
        }
    }

    fn keep(&mut self, at: u64, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.bytes += bytes.len();
            self.waiting.insert(at, bytes);
        }
    }
}

/// Copies what of `bytes` at `start` falls into the window that begins at `at`.
fn overlay(window: &mut [u8], at: u64, start: u64, bytes: &[u8]) {
    let skipped = at.saturating_sub(start) as usize;
    let gap = start.saturating_sub(at) as usize;
    if skipped >= bytes.len() || gap >= window.len() {
        return;
    }
    let length = (bytes.len() - skipped).min(window.len() - gap);
    window[gap..gap + length].copy_from_slice(&bytes[skipped..skipped + length]);
}
