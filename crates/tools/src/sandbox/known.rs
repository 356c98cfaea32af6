//! What a walk over a worktree found, so that the next one reads only the folders that were changed since.

use super::hidden::Held;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// A folder that was changed so shortly before it was read may have been changed once more at what its clock calls the
/// same time.
const UNSURE: Duration = Duration::from_secs(2);
/// The most folders of one worktree that are kept in mind: some ten megabytes.
const MOST_FOLDERS: usize = 50_000;
/// The most worktrees.
const MOST_WALKS: usize = 8;
/// What nobody asked for during this time is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(10 * 60);

/// One folder, as it was read.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    pub(crate) entries: usize,
    pub(crate) hidden: Vec<Held>,
    pub(crate) kept: Vec<Held>,
    /// Those in it.
    pub(crate) folders: Vec<PathBuf>,
    /// It says something that can change without it.
    pub(crate) leads_elsewhere: bool,
}

/// Which folder it is, and when something in it came or went. Nobody can set the latter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    file: (u64, u64),
    changed: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok().filter(fs::Metadata::is_dir)?;
        Some(Self { file: (found.dev(), found.ino()), changed: (found.ctime(), found.ctime_nsec()) })
    }

    /// Whether a later change would show.
    fn is_sure(&self, now: SystemTime) -> bool {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(self.changed.0).is_ok_and(|changed| Duration::from_secs(changed) + UNSURE < now)
    }
}

/// The folders of one worktree.
#[derive(Debug, Default)]
pub(crate) struct Known {
    folders: HashMap<PathBuf, (Stamp, Folder)>,
}

impl Known {
    /// For another walk: what it does not come by is forgotten.
    pub(crate) fn again(&mut self) -> Walk<'_> {
        let before = std::mem::take(&mut self.folders);
        Walk { before, known: self, at: SystemTime::now(), last: Folder::default() }
    }
}

pub(crate) struct Walk<'k> {
    before: HashMap<PathBuf, (Stamp, Folder)>,
    known: &'k mut Known,
    at: SystemTime,
    /// The one that was read last and is not kept.
    last: Folder,
}

impl Walk<'_> {
    /// A folder as it is known, or as it is read now.
    pub(crate) fn get(&mut self, path: PathBuf, stamp: Stamp, read: impl FnOnce(&Path) -> Folder) -> &Folder {
        let same = self.before.remove(&path).filter(|(known, _)| *known == stamp);
        let (_, folder) = same.unwrap_or_else(|| (stamp, read(&path)));
        let keeps = stamp.is_sure(self.at) && !folder.leads_elsewhere && self.known.folders.len() < MOST_FOLDERS;
        if !keeps {
            self.last = folder;
            return &self.last;
        }
        let kept = self.known.folders.entry(path).insert_entry((stamp, folder));
        &kept.into_mut().1
    }
}

/// What is known of the worktrees that were walked lately.
#[derive(Default)]
pub(crate) struct Walks(Mutex<Vec<Walked>>);

struct Walked {
    worktree: PathBuf,
    /// By which it was decided what to hide.
    rules: Arc<rules::Policy>,
    known: Known,
    at: Instant,
}

impl Walks {
    /// Hands out what is known, to one at a time.
    pub(crate) fn take(&self, worktree: &Path, rules: &rules::Policy) -> Known {
        let mut walks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = walks.iter().position(|walked| walked.worktree == worktree && *walked.rules == *rules);
        known.map(|at| walks.swap_remove(at).known).unwrap_or_default()
    }

    pub(crate) fn keep(&self, worktree: PathBuf, rules: Arc<rules::Policy>, known: Known) {
        let mut walks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        walks.retain(|walked| walked.worktree != worktree || *walked.rules != *rules);
        if walks.len() == MOST_WALKS {
            let oldest = walks.iter().enumerate().min_by_key(|(_, walked)| walked.at).map_or(0, |(at, _)| at);
            walks.swap_remove(oldest);
        }
        walks.push(Walked { worktree, rules, known, at: Instant::now() });
    }

    pub(crate) fn forget_old(&self) {
        let mut walks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        walks.retain(|walked| walked.at.elapsed() < FORGOTTEN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Place;

    /// Later than anything the test did.
    fn later() -> SystemTime {
        SystemTime::now() + UNSURE * 2
    }

    fn look(known: &mut Known, place: &Place) -> bool {
        let mut read = false;
        let mut walk = known.again();
        walk.at = later();
        let stamp = Stamp::of(place.dir()).unwrap();
        walk.get(place.dir().to_owned(), stamp, |_| {
            read = true;
            Folder::default()
        });
        read
    }

    #[test]
    fn a_folder_is_read_again_only_when_it_was_changed() {
        let (place, mut known) = (Place::new(), Known::default());
        assert!(look(&mut known, &place));
        assert!(!look(&mut known, &place));
        place.file("new", "x");
        assert!(look(&mut known, &place));
        assert!(!look(&mut known, &place));
    }

    #[test]
    fn one_that_was_changed_just_now_is_not_believed() {
        let place = Place::new();
        let stamp = Stamp::of(place.dir()).unwrap();
        assert!(!stamp.is_sure(SystemTime::now()));
        assert!(stamp.is_sure(later()));
    }

    #[test]
    fn what_is_known_counts_under_the_rules_it_was_found_by() {
        let (place, walks) = (Place::new(), Walks::default());
        let mut known = Known::default();
        look(&mut known, &place);
        let rules = Arc::new(rules::Policy::default());
        walks.keep(place.dir().to_owned(), Arc::clone(&rules), known);
        let own = vec![proto::Rule::new("read", "*.pem", proto::Action::Deny)];
        assert!(walks.take(place.dir(), &rules::Policy { own, ..rules::Policy::default() }).folders.is_empty());
        assert_eq!(walks.take(place.dir(), &rules).folders.len(), 1);
        assert!(walks.take(place.dir(), &rules).folders.is_empty(), "one at a time");
    }
}
