//! Where the names of files in rules begin: at the project that a rule was written for, wherever a request is made (A5).
//!
//! Requests name files as their session does: relative to its own project, and absolute elsewhere. A set of rules that was
//! written for another project knows the same file by another name; a second checkout of one repository is the same
//! project under another path.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Permissions whose patterns are names of files.
const FILES: [&str; 4] = ["read", "edit", "list", "protected"];

/// For which projects the sets of a policy were written. Each is a list of checkouts of one repository, the one the rules
/// were read in first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Anchors {
    /// The project of whoever asks. The session's own rules and the ceilings were written for it.
    pub here: Vec<PathBuf>,
    /// Those of [`crate::Policy::ancestors`], by index; where one is missing, that is this project as well.
    pub ancestors: Vec<Vec<PathBuf>>,
}

impl Anchors {
    /// The names of what is asked for in rules that were written for `project`. The strictest verdict counts.
    pub(crate) fn names(&self, permission: &str, asked: &str, project: &[PathBuf]) -> Vec<String> {
        let (Some(here), Some(home)) = (self.here.first(), project.first()) else { return vec![asked.to_owned()] };
        let alone = project.len() == 1 && here == home;
        if alone || !FILES.contains(&permission) {
            return vec![asked.to_owned()];
        }
        let path = here.join(asked);
        let same = || here == home || project.iter().any(|root| self.here.contains(root));
        if path.starts_with(here) && same() {
            return vec![relative(&path, here)];
        }
        let around = project.iter().filter(|root| path.starts_with(root));
        let Some(nearest) = around.max_by_key(|root| root.as_os_str().len()) else {
            return vec![relative(&path, home)];
        };
        let mut names = vec![relative(&path, nearest)];
        if !path.starts_with(home) {
            names.push(path.display().to_string());
        }
        names
    }

    /// The set of rules above with this index was written for this project.
    pub(crate) fn of_ancestor(&self, index: usize) -> &[PathBuf] {
        self.ancestors.get(index).unwrap_or(&self.here)
    }

    /// The same for whoever is started from here. A project that has a checkout here has this one as well.
    pub(crate) fn above(&self, count: usize) -> Vec<Vec<PathBuf>> {
        let known = |index: usize| {
            let mut roots = self.of_ancestor(index).to_vec();
            if roots.iter().any(|root| self.here.contains(root)) {
                let more: Vec<PathBuf> = self.here.iter().filter(|root| !roots.contains(root)).cloned().collect();
                roots.extend(more);
            }
            roots
        };
        (0..count).map(known).chain([self.here.clone()]).collect()
    }

    /// Every directory at which names begin, the session's own first.
    pub fn roots(&self) -> Vec<&Path> {
        let mut roots: Vec<&Path> = Vec::new();
        for root in self.here.iter().chain(self.ancestors.iter().flatten()) {
            if !roots.contains(&root.as_path()) {
                roots.push(root);
            }
        }
        roots
    }
}

fn relative(path: &Path, root: &Path) -> String {
    match path.strip_prefix(root) {
        Ok(rest) if rest.as_os_str().is_empty() => ".".into(),
        Ok(rest) => rest.display().to_string(),
        Err(_) => path.display().to_string(),
    }
}
