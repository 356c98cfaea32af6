//! What sessions left on the disk and nobody asks for any more: outputs that were too long for a result, attachments,
//! final words, journals, messages to other gateways. They go with their session, when they are old, and when there are too many of them.

use crate::clock;
use crate::runtime::{Inner, Runtime};
use proto::SessionId;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Between two looks. A command may print a lot in that time, and each has a limit of its own.
const PAUSE: Duration = Duration::from_secs(600);

/// Between two notes of what time it is: by so much a crash may set that back.
const MINUTE: Duration = Duration::from_secs(60);

/// Files looked at in one go; those beyond it wait for the next.
const MOST_FILES: usize = 200_000;

/// Below a tree's folder there are folders of agents and attachments, and in those of attachments what was attached.
const DEEPEST: usize = 6;

/// How much may be kept, and for how long.
#[derive(Debug, Clone, Copy)]
struct Room {
    age: Duration,
    bytes: u64,
}

struct Found {
    written: SystemTime,
    size: u64,
    path: PathBuf,
}

impl Inner {
    /// Looks again and again, until the gateway stops.
    pub(crate) async fn tidy_up(self: Arc<Self>) {
        let room = Room { age: Duration::from_millis(self.limits.output_ms), bytes: self.limits.output_bytes };
        loop {
            let (outputs, journal, spared) = (self.outputs.clone(), self.journals().to_owned(), self.jobs.files());
            let work = move |_: &_| {
                tools::journal::Journal::sweep(&journal, SystemTime::now());
                Ok(tidy(&outputs, room, &spared, SystemTime::now()))
            };
            match self.hands.work("tidying up", self.stop_token(), work).await {
                Ok(0) => {}
                Ok(bytes) => tracing::info!(bytes, "removed old outputs of tools"),
                Err(error) => tracing::warn!(%error, "old outputs of tools are not removed"),
            }
            if let Err(error) = self.tidy_mail().await {
                tracing::warn!(%error, "old messages to other gateways are not removed");
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = self.stop_token().cancelled() => return,
            }
        }
    }
}

impl Inner {
    /// Saves what time it is, again and again, and when the gateway stops.
    pub(crate) async fn keep_time(self: Arc<Self>) {
        loop {
            let stopping = self.stop_token().is_cancelled();
            if let Ok(Err(error)) = tokio::task::spawn_blocking(clock::save).await {
                tracing::warn!(%error, "cannot save what time it is");
            }
            if stopping {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(MINUTE) => {}
                () = self.stop_token().cancelled() => {}
            }
        }
    }
}

impl Runtime {
    /// Forgets what a session that is gone left on the disk.
    pub(crate) async fn forget_files(&self, session: &SessionId) {
        let inner = &self.inner;
        let Ok(row) = inner.session(session).await else { return };
        let (journal, root) = (inner.journal(session), row.root == row.id);
        let own = if root { vec![inner.outputs_of(&row.root)] } else { vec![inner.attachments(&row.root, &row.id)] };
        let words = inner.final_words(&row);
        let work = move |_: &_| {
            let _ = journal.forget();
            own.iter().for_each(|folder| drop(fs::remove_dir_all(folder)));
            let _ = fs::remove_file(words);
            Ok(())
        };
        // What is left of it goes later, when it is old.
        let _ = inner.hands.work("tidying up", inner.stop_token(), work).await;
    }
}

/// Removes what is old, and the oldest of what is too much. Returns how many bytes went.
fn tidy(outputs: &Path, room: Room, spared: &HashSet<PathBuf>, now: SystemTime) -> u64 {
    let (mut found, mut folders) = (Vec::new(), Vec::new());
    look(outputs, DEEPEST, &mut found, &mut folders);
    found.sort_unstable_by_key(|file| file.written);
    let mut left: u64 = found.iter().map(|file| file.size).sum();
    let before = left;
    for file in found.into_iter().filter(|file| !spared.contains(&file.path)) {
        let old = now.duration_since(file.written).is_ok_and(|age| age > room.age);
        if !old && left <= room.bytes {
            break;
        }
        if fs::remove_file(&file.path).is_ok() {
            left -= file.size;
        }
    }
    // The deepest first; one that holds something stays.
    folders.into_iter().rev().for_each(|folder| drop(fs::remove_dir(folder)));
    before - left
}

fn look(folder: &Path, depth: usize, found: &mut Vec<Found>, folders: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        if found.len() >= MOST_FILES {
            return;
        }
        if meta.is_dir() && depth > 0 {
            folders.push(entry.path());
            look(&entry.path(), depth - 1, found, folders);
        } else if let Ok(written) = meta.modified() {
            found.push(Found { written, size: meta.len(), path: entry.path() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// Files of 1000 bytes with their age in days.
    fn place(files: &[(&str, u32)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, days) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, [b'x'; 1000]).unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() - DAY * *days).unwrap();
        }
        dir
    }

    fn names(dir: &Path) -> Vec<String> {
        let (mut found, mut folders) = (Vec::new(), Vec::new());
        look(dir, DEEPEST, &mut found, &mut folders);
        let name = |path: &Path| path.strip_prefix(dir).unwrap().display().to_string();
        let mut names: Vec<String> = found.iter().map(|file| name(&file.path)).collect();
        names.extend(folders.iter().map(|folder| name(folder) + "/"));
        names.sort();
        names
    }

    #[test]
    fn outputs_go_when_they_are_old_and_the_oldest_when_they_are_too_much() {
        let files =
            [("ses_1/call_1.txt", 40), ("ses_1/agents/a.md", 50), ("ses_2/call_2.txt", 3), ("ses_2/job.txt", 2)];
        let dir = place(&files);
        let room = |bytes| Room { age: 30 * DAY, bytes };
        assert_eq!(tidy(dir.path(), room(1 << 20), &HashSet::new(), SystemTime::now()), 2000);
        assert_eq!(names(dir.path()), ["ses_2/", "ses_2/call_2.txt", "ses_2/job.txt"]);
        assert_eq!(tidy(dir.path(), room(1500), &HashSet::new(), SystemTime::now()), 1000);
        assert_eq!(names(dir.path()), ["ses_2/", "ses_2/job.txt"]);
        // What a job still writes to stays.
        let spared = HashSet::from([dir.path().join("ses_2/job.txt")]);
        assert_eq!(tidy(dir.path(), room(0), &spared, SystemTime::now()), 0);
        assert_eq!(tidy(dir.path(), room(0), &HashSet::new(), SystemTime::now()), 1000);
        assert!(names(dir.path()).is_empty() && dir.path().exists());
    }
}
