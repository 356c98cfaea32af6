//! Which files commands must not read: those for which a rule of `read` asks or denies. A sandbox hides files and not
//! patterns, so they are looked for, by a walk that leaves nothing out, has an end, and reads no folder again that is as it
//! was.

use super::known::{Folder, Known, Stamp};
use crate::files;
use proto::{Action, Rule};
use std::fs;
use std::path::{Path, PathBuf};

/// A large repository with everything it was built from has some hundred thousand files; a look at each costs a
/// microsecond or two.
const MOST_LOOKED_AT: usize = 1_000_000;
/// Each is a mount, and some thousand arguments is what bubblewrap takes.
const MOST_HIDDEN: usize = 1_000;

/// What rules say about reading that is not about everything: a rule for `*` speaks of the tool and not of files.
pub(crate) struct Hiding<'r> {
    policy: &'r rules::Policy,
    narrow: Vec<&'r Rule>,
}

impl<'r> Hiding<'r> {
    pub(crate) fn of(policy: &'r rules::Policy) -> Self {
        let sets = policy.ancestors.iter().chain(&policy.denies).chain([&policy.own]);
        let narrow = sets.flatten().filter(|rule| rule.action != Action::Allow && is_narrow(rule));
        Self { policy, narrow: narrow.filter(|rule| rules::matches(&rule.permission, "read")).collect() }
    }

    /// Somebody denied files by name, and relies on it.
    pub(crate) fn is_strict(&self) -> bool {
        self.narrow.iter().any(|rule| rule.action == Action::Deny)
    }

    pub(crate) fn hides(&self, path: &Path, worktree: &Path) -> bool {
        if self.narrow.is_empty() {
            return false;
        }
        let name = files::relative(path, worktree);
        // Most files match none of these, and a verdict takes longer.
        self.narrow.iter().any(|rule| rules::matches(&rule.pattern, &name)) && {
            let verdict = self.policy.judge("read", &name);
            verdict.action != Action::Allow && verdict.rule.is_some_and(is_narrow)
        }
    }

    /// Every file to hide in a worktree and where rules name another place. An error is why that cannot be told.
    pub(crate) fn find(&self, worktree: &Path, known: &mut Known) -> Result<Vec<PathBuf>, String> {
        if self.narrow.is_empty() {
            return Ok(Vec::new());
        }
        let named = self.narrow.iter().filter_map(|rule| rules::place(&rule.pattern)).map(Path::new);
        let elsewhere = named.filter(|start| start.is_absolute() && !start.starts_with(worktree));
        let mut starts: Vec<PathBuf> = elsewhere.map(Path::to_owned).collect();
        starts.push(worktree.to_owned());
        starts.sort();
        starts.dedup();
        let (files, mut folders): (Vec<_>, Vec<_>) = starts.into_iter().partition(|start| start.is_file());
        let mut found: Vec<PathBuf> =
            files.iter().filter(|file| self.hides(file, worktree)).flat_map(|file| file.canonicalize()).collect();
        let mut left = MOST_LOOKED_AT;
        let mut known = known.again();
        while let Some(path) = folders.pop() {
            let Some(stamp) = Stamp::of(&path) else { continue };
            let folder = known.get(path, stamp, |path| self.read(path, worktree));
            left = left.checked_sub(folder.entries).ok_or_else(|| too_many("files to look at", MOST_LOOKED_AT))?;
            found.extend_from_slice(&folder.hidden);
            folders.extend_from_slice(&folder.folders);
            if found.len() > MOST_HIDDEN {
                return Err(too_many("files to hide", MOST_HIDDEN));
            }
        }
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// Checkouts of other sessions come and go all the time. A fresh one has only files that are in git, which everybody
    /// can read there; so they are looked through only where somebody denied files.
    fn passes_by(&self, dir: &Path, worktree: &Path) -> bool {
        !self.is_strict() && dir.strip_prefix(worktree).is_ok_and(|below| below == Path::new(".convoke/worktrees"))
    }

    fn read(&self, path: &Path, worktree: &Path) -> Folder {
        let mut folder = Folder::default();
        // What this user cannot list, a command cannot either.
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            folder.entries += 1;
            let (path, kind) = (entry.path(), entry.file_type());
            if kind.as_ref().is_ok_and(fs::FileType::is_dir) {
                if entry.file_name() != ".git" && !self.passes_by(&path, worktree) {
                    folder.folders.push(path);
                }
            } else if self.hides(&path, worktree) {
                // A link hides what it leads to, which may be something else the next time.
                folder.leads_elsewhere |= kind.map_or(true, |kind| kind.is_symlink());
                folder.hidden.extend(path.canonicalize().ok().filter(|file| !file.is_dir()));
            }
        }
        folder
    }
}

fn too_many(what: &str, most: usize) -> String {
    format!(
        "rules keep files from being read, and there are more than {most} {what}: narrow these rules of `read`, work in a \
         smaller directory, or set `sandbox.mode` to `off`"
    )
}

fn is_narrow(rule: &Rule) -> bool {
    !rule.pattern.trim_matches('*').is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Place;
    use proto::Action::{Allow, Ask, Deny};

    fn policy(own: &[(&str, &str, Action)]) -> rules::Policy {
        let own = own.iter().map(|(permission, pattern, action)| Rule::new(*permission, *pattern, *action)).collect();
        rules::Policy { own, ..rules::Policy::default() }
    }

    fn found(place: &Place, own: &[(&str, &str, Action)]) -> Vec<String> {
        let policy = policy(own);
        let found = Hiding::of(&policy).find(place.dir(), &mut Known::default()).unwrap();
        found.iter().map(|path| files::relative(path, place.dir())).collect()
    }

    const DEFAULTS: [(&str, &str, Action); 5] = [
        ("*", "*", Allow),
        ("read", "*", Allow),
        ("read", "*.env", Ask),
        ("read", "*.env.*", Ask),
        ("read", "*.env.example", Allow),
    ];

    #[test]
    fn files_that_would_be_asked_for_are_found_wherever_they_are() {
        let place = Place::new();
        for name in
            [".env", "a/b/c.env", ".env.local", ".env.example", "environment", "node_modules/x/.env", ".git/.env"]
        {
            place.file(name, "x");
        }
        place.file(".gitignore", "a\n*.env\n");
        assert_eq!(found(&place, &DEFAULTS), [".env", ".env.local", "a/b/c.env", "node_modules/x/.env"]);
    }

    #[test]
    fn a_rule_for_everything_hides_nothing() {
        let place = Place::new();
        place.file("a", "x");
        assert!(found(&place, &[("*", "*", Ask)]).is_empty());
        assert!(found(&place, &[("read", "*", Deny)]).is_empty());
        assert_eq!(found(&place, &[("*", "*", Ask), ("read", "a", Deny)]), ["a"]);
    }

    #[test]
    fn a_link_hides_what_it_leads_to_and_other_places_are_looked_at_too() {
        let (place, other) = (Place::new(), Place::new());
        let secret = other.file("keys/one", "x");
        std::os::unix::fs::symlink(&secret, place.dir().join("linked.env")).unwrap();
        assert_eq!(found(&place, &DEFAULTS), [secret.display().to_string()]);
        let pattern = format!("{}/*", other.dir().join("keys").display());
        assert_eq!(found(&place, &[("read", &pattern, Deny)]), [secret.display().to_string()]);
        let exact = secret.display().to_string();
        assert_eq!(found(&place, &[("read", &exact, Deny)]), [exact]);
    }

    #[test]
    fn what_cannot_be_hidden_one_by_one_is_an_error() {
        let place = Place::new();
        for n in 0..=MOST_HIDDEN {
            place.file(&format!("{n}.env"), "");
        }
        let policy = policy(&DEFAULTS);
        let why = Hiding::of(&policy).find(place.dir(), &mut Known::default()).unwrap_err();
        assert!(why.contains("more than 1000 files to hide"), "{why}");
    }

    #[test]
    fn what_comes_and_goes_between_two_looks_is_noticed() {
        let (place, policy) = (Place::new(), policy(&DEFAULTS));
        place.file("a/b/.env", "x");
        place.file("c/plain", "x");
        let mut known = Known::default();
        let mut found = || -> Vec<String> {
            let found = Hiding::of(&policy).find(place.dir(), &mut known).unwrap();
            found.iter().map(|path| files::relative(path, place.dir())).collect()
        };
        assert_eq!(found(), ["a/b/.env"]);
        place.file("c/d/.env", "x");
        assert_eq!(found(), ["a/b/.env", "c/d/.env"]);
        fs::rename(place.dir().join("a"), place.dir().join("e")).unwrap();
        assert_eq!(found(), ["c/d/.env", "e/b/.env"]);
        fs::remove_file(place.dir().join("c/d/.env")).unwrap();
        assert_eq!(found(), ["e/b/.env"]);
    }

    #[test]
    fn only_denied_files_are_relied_on() {
        assert!(!Hiding::of(&policy(&DEFAULTS)).is_strict());
        assert!(Hiding::of(&policy(&[("read", "*.pem", Deny)])).is_strict());
        assert!(!Hiding::of(&policy(&[("edit", "*.pem", Deny)])).is_strict());
    }
}
