//! What a person allowed for good, project by project: answers of "always", until somebody takes them back.
//!
//! A small file of this user's, looked at whenever something would be asked. So taking one back needs no gateway, and
//! reaches one that runs.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use proto::{Action, Rule};
use serde::{Deserialize, Serialize};

use crate::hash::Hasher;
use crate::{Error, Paths, private};

/// One such answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Always {
    /// Made from the rest, so that saying it twice says it once.
    pub id: String,
    /// The root of the repository, or the directory, that it holds in.
    pub project: PathBuf,
    pub permission: String,
    pub pattern: String,
    /// When, in milliseconds since 1970.
    pub at: u64,
}

impl Always {
    pub fn rule(&self) -> Rule {
        Rule::new(&self.permission, &self.pattern, Action::Allow)
    }
}

/// Answers that are kept; beyond this the oldest goes.
const MOST: usize = 2000;
/// What they take at most, with patterns far longer than any there is.
const MOST_BYTES: u64 = 64 << 20;

/// All of them, the oldest first. A file that cannot be read allows nothing.
pub fn always(paths: &Paths) -> Vec<Always> {
    let text = foreign::read_text(&paths.always(), MOST_BYTES).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

/// Keeps these for a project; on disk when this returns.
pub fn keep_always(paths: &Paths, project: &Path, rules: &[Rule]) -> Result<(), Error> {
    change(paths, |list| {
        for rule in rules.iter().filter(|rule| !rule.pattern.is_empty()) {
            let id = id(project, rule);
            if list.iter().any(|known| known.id == id) {
                continue;
            }
            let (permission, pattern) = (rule.permission.clone(), rule.pattern.clone());
            list.push(Always { id, project: project.to_owned(), permission, pattern, at: now() });
        }
        let excess = list.len().saturating_sub(MOST);
        list.drain(..excess);
    })
}

/// Takes one back. False when there is none with this id.
pub fn revoke_always(paths: &Paths, id: &str) -> Result<bool, Error> {
    let mut known = false;
    change(paths, |list| {
        known = list.iter().any(|kept| kept.id == id);
        list.retain(|kept| kept.id != id);
    })?;
    Ok(known)
}

fn change(paths: &Paths, change: impl FnOnce(&mut Vec<Always>)) -> Result<(), Error> {
    let held = private::hold(&paths.always())?;
    let mut all = always(paths);
    change(&mut all);
    held.write(&serde_json::to_string_pretty(&all).expect("a list of texts is JSON"))
}

fn id(project: &Path, rule: &Rule) -> String {
    let mut hasher = Hasher::default();
    hasher.add(project.as_os_str().as_encoded_bytes());
    hasher.add(rule.permission.as_bytes());
    hasher.add(rule.pattern.as_bytes());
    let mut text = hasher.finish();
    text.truncate(12);
    text
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_answer_is_kept_once_and_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::under(dir.path());
        let (here, there) = (Path::new("/a"), Path::new("/b"));
        let rule = Rule::new("bash", "git status *", Action::Allow);
        keep_always(&paths, here, std::slice::from_ref(&rule)).unwrap();
        keep_always(&paths, here, std::slice::from_ref(&rule)).unwrap();
        keep_always(&paths, there, std::slice::from_ref(&rule)).unwrap();
        let kept = always(&paths);
        assert_eq!(kept.iter().map(|one| one.project.as_path()).collect::<Vec<_>>(), [here, there]);
        assert_eq!(kept[0].rule(), rule);
        let mode = std::fs::metadata(paths.always()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(revoke_always(&paths, &kept[0].id).unwrap());
        assert!(!revoke_always(&paths, &kept[0].id).unwrap());
        assert_eq!(always(&paths), kept[1..]);
    }

    #[test]
    fn a_damaged_file_allows_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::under(dir.path());
        std::fs::create_dir_all(&paths.state).unwrap();
        std::fs::write(paths.always(), "[{").unwrap();
        assert_eq!(always(&paths), []);
    }
}
