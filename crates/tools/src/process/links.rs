//! Which repositories inside of a worktree the user's git would look into: those that its index names, and that theirs do.
//! Asked of git when an index has changed.

use super::Processes;
use crate::git;
use crate::sandbox::index_of;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The most worktrees that are kept in mind.
const MOST_KNOWN: usize = 64;
/// The most repositories of one worktree whose index is read.
const MOST_ASKED: usize = 1_000;

/// An index that cannot be listed: what it names is not known.
#[derive(Debug)]
pub(super) struct Unlisted {
    pub(super) index: PathBuf,
    pub(super) why: String,
}

/// Which file an index is, and when it was changed.
type Stamp = Option<(u64, u64, i64, i64)>;

#[derive(Default)]
pub(super) struct Links(Mutex<Vec<Known>>);

struct Known {
    worktree: PathBuf,
    /// Every index that was read.
    read: Vec<(PathBuf, Stamp)>,
    links: Vec<PathBuf>,
}

fn stamp(path: &Path) -> Stamp {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.ino(), found.size(), found.ctime(), found.ctime_nsec()))
}

impl Links {
    pub(super) async fn of(&self, processes: &dyn Processes, worktree: &Path) -> Result<Vec<PathBuf>, Unlisted> {
        if let Some(known) = self.known(worktree) {
            return Ok(known);
        }
        let (mut read, mut links, mut places) = (Vec::new(), Vec::new(), vec![worktree.to_owned()]);
        while let Some(place) = places.pop() {
            // Before it is read: what changes meanwhile is read again.
            let Some(index) = index_of(&place) else {
                read.push((place.join(".git"), None));
                continue;
            };
            if read.len() >= MOST_ASKED {
                return Err(Unlisted { index, why: format!("there are more than {MOST_ASKED} repositories inside") });
            }
            let before = stamp(&index);
            read.push((index.clone(), before));
            if before.is_none() {
                continue;
            }
            let found = git::links(processes, &place).await;
            let found = found.map_err(|error| Unlisted { index, why: error.message })?;
            places.extend(found.iter().filter(|link| link.starts_with(worktree)).cloned());
            links.extend(found);
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.worktree != worktree);
        if all.len() >= MOST_KNOWN {
            all.remove(0);
        }
        all.push(Known { worktree: worktree.to_owned(), read, links: links.clone() });
        Ok(links)
    }

    fn known(&self, worktree: &Path) -> Option<Vec<PathBuf>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().find(|known| known.worktree == worktree)?;
        known.read.iter().all(|(index, was)| stamp(index) == *was).then(|| known.links.clone())
    }
}
