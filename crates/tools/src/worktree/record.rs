//! What is known of a worktree beside git's own: kept in its git directory, so it goes where the worktree goes.

use super::files;
use proto::Error;
use serde::{Deserialize, Serialize};
use std::path::Path;

const FILE: &str = "convoke.json";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Record {
    /// The commit it was made from.
    pub(super) base: Option<String>,
    /// The branch that was checked out where it was made, as `refs/heads/…`.
    pub(super) from: Option<String>,
    /// Left on purpose: nobody being in it is no accident.
    pub(super) kept: bool,
}

impl Record {
    /// Of the worktree with this git directory. One that is not there, or not ours, says nothing.
    pub(super) fn read(git_dir: &Path) -> Self {
        let text = foreign::read_text(&git_dir.join(FILE), files::MOST_OF_A_NAME).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    pub(super) fn write(&self, git_dir: &Path) -> Result<(), Error> {
        let text = serde_json::to_string(self).expect("a record is JSON");
        files::replace(&git_dir.join(FILE), text.as_bytes())
    }
}
