//! Other names of a file that rules speak of: a hard link, or a path through a second mount, is the same file.

use proto::{Action, Rule};
use rules::Policy;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Names under which rules that do not simply allow know the file at `pattern`, a path as rules see it. Only rules that
/// name a file or a folder can be looked up; those that begin with a wildcard speak of names, and there is nothing to
/// look at.
pub(super) fn others(policy: &Policy, worktree: &Path, permission: &str, pattern: &str) -> Vec<String> {
    let path = worktree.join(pattern);
    let sets = policy.denies.iter().chain(&policy.ancestors).chain([&policy.own]);
    let strict = |rule: &&Rule| rule.action != Action::Allow && rules::matches(&rule.permission, permission);
    let mut places: Vec<&str> = sets.flatten().filter(strict).filter_map(|rule| rules::place(&rule.pattern)).collect();
    places.sort();
    places.dedup();
    let mut found = Vec::new();
    let mut roots = policy.anchors.roots();
    if !roots.contains(&worktree) {
        roots.push(worktree);
    }
    let named = roots.iter().flat_map(|root| places.iter().map(move |place| root.join(place)));
    for named in named.filter(|named| !path.starts_with(named)) {
        let Some(known) = identity(&named) else { continue };
        // What is longer than the kernel takes is nobody.
        for here in path.ancestors().skip_while(|here| here.as_os_str().len() >= foreign::LONGEST_PATH) {
            if identity(here) == Some(known) {
                let rest = path.strip_prefix(here).unwrap_or(Path::new(""));
                let name = if rest.as_os_str().is_empty() { named.clone() } else { named.join(rest) };
                found.push(tools::files::relative(&name, worktree));
            }
        }
    }
    found
}

/// Whether rules allow a file of a project to be read, by whatever name they know it. A question counts as no.
pub fn may_read(policy: &Policy, project: &Path, file: &Path) -> bool {
    let name = tools::files::relative(file, project);
    let mut names = others(policy, project, "read", &name);
    names.push(name);
    names.iter().all(|name| policy.judge("read", name).action == Action::Allow)
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let same = |found: Metadata| (found.dev(), found.ino());
    std::fs::symlink_metadata(path).ok().map(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hard_link_is_judged_by_every_name_that_rules_know() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        std::fs::create_dir(dir.join("secret")).unwrap();
        std::fs::write(dir.join("secret/key"), "k").unwrap();
        std::fs::write(dir.join("plain"), "p").unwrap();
        std::fs::hard_link(dir.join("secret/key"), dir.join("notes")).unwrap();
        let rule = |pattern: &str, action| Rule::new("read", pattern, action);
        let own = vec![rule("*", Action::Allow), rule("secret/key", Action::Deny), rule("*.env", Action::Ask)];
        let policy = Policy { own, ..Policy::default() };
        let names = |pattern: &str| others(&policy, dir, "read", pattern);
        assert_eq!(names("notes"), ["secret/key"]);
        assert_eq!(names("plain"), [""; 0]);
        assert_eq!(names("missing"), [""; 0]);
        // By its own name it is judged anyway.
        assert_eq!(names("secret/key"), [""; 0]);
        assert_eq!(others(&policy, dir, "edit", "notes"), [""; 0]);
    }
}
