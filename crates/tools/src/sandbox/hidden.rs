//! Which files commands must not read, and which they must not change: those for which a rule of `read` asks or denies, and
//! those for which a rule of `edit` denies. A sandbox knows files and not patterns, so they are looked for, by a walk that
//! leaves nothing out, has an end, and reads no folder again that is as it was.

use super::known::{Folder, Known, Stamp};
use super::named::Named;
use crate::files;
use proto::Action;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A large repository with everything it was built from has some hundred thousand files; a look at each costs a
/// microsecond or two.
const MOST_LOOKED_AT: usize = 1_000_000;
/// Each is a mount, and some thousand arguments is what bubblewrap takes.
const MOST_HIDDEN: usize = 1_000;
const MOST_KEPT: usize = 500;

/// What rules say about files by name.
pub(crate) struct Hiding<'r> {
    read: Named<'r>,
    edit: Named<'r>,
}

/// What a walk found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Files that must not be read.
    pub(crate) hidden: Vec<Held>,
    /// Files and whole folders that must stay as they are.
    pub(crate) kept: Vec<Held>,
    /// What of it is not enforced.
    pub(crate) notice: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Held {
    pub(crate) path: PathBuf,
    /// It would not be found under another name of a folder above: none of them may be renamed.
    pub(crate) leans: bool,
    /// When it was last changed, or made. It cannot be set.
    pub(crate) since: (i64, i64),
}

impl<'r> Hiding<'r> {
    pub(crate) fn of(policy: &'r rules::Policy) -> Self {
        Self { read: Named::of(policy, "read", Action::Ask), edit: Named::of(policy, "edit", Action::Deny) }
    }

    /// Somebody denied files to be read by name, and relies on it.
    pub(crate) fn is_strict(&self) -> bool {
        self.read.is_strict()
    }

    pub(crate) fn hides(&self, path: &Path, worktree: &Path) -> bool {
        !self.read.is_empty() && self.read.holds(&files::relative(path, worktree))
    }

    /// Everything to hide or keep in a worktree and where rules name another place. An error is why that cannot be told.
    pub(crate) fn find(&self, worktree: &Path, known: &mut Known) -> Result<Found, String> {
        let mut found = Found::default();
        if self.read.is_empty() && self.edit.is_empty() {
            return Ok(found);
        }
        // What is elsewhere cannot be changed anyway.
        let named = self.read.patterns().filter_map(rules::place).map(Path::new);
        let elsewhere = named.filter(|start| start.is_absolute() && !start.starts_with(worktree));
        let mut starts: Vec<PathBuf> = elsewhere.map(Path::to_owned).collect();
        if !self.read.is_empty() {
            let others = self.read.roots().into_iter().filter(|root| !root.starts_with(worktree));
            starts.extend(others.map(Path::to_owned));
        }
        starts.push(worktree.to_owned());
        starts.sort();
        starts.dedup();
        let (files, mut folders): (Vec<_>, Vec<_>) = starts.into_iter().partition(|start| start.is_file());
        let mut alone = Folder::default();
        for file in &files {
            self.hide(file, file.is_symlink(), worktree, &mut alone);
        }
        found.add(&alone);
        let mut left = MOST_LOOKED_AT;
        let mut known = known.again();
        while let Some(path) = folders.pop() {
            let Some(stamp) = Stamp::of(&path) else { continue };
            let folder = known.get(path, stamp, |path| self.read(path, worktree));
            left = left.checked_sub(folder.entries).ok_or_else(|| too_many("files to look at", MOST_LOOKED_AT))?;
            found.add(folder);
            folders.extend_from_slice(&folder.folders);
            if found.hidden.len() > MOST_HIDDEN {
                return Err(too_many("files to hide", MOST_HIDDEN));
            }
        }
        Ok(found.tidied())
    }

    /// Checkouts of other sessions come and go all the time. A fresh one has only files that are in git, which everybody
    /// can read there; so they are looked through only where somebody denied files.
    fn passes_by(&self, dir: &Path, worktree: &Path) -> bool {
        let roots = self.read.roots();
        let mut roots = roots.into_iter().chain([worktree]);
        !self.is_strict() && roots.any(|root| dir.strip_prefix(root) == Ok(Path::new(".convoke/worktrees")))
    }

    fn read(&self, path: &Path, worktree: &Path) -> Folder {
        let mut folder = Folder::default();
        if is_inside_repository(path, worktree) {
            self.read_git(path, worktree, &mut folder);
            return folder;
        }
        let kept = self.keeps_all_in(path, worktree);
        // What this user cannot list, a command cannot either.
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            folder.entries += 1;
            let (path, kind) = (entry.path(), entry.file_type());
            if kind.as_ref().is_ok_and(fs::FileType::is_dir) {
                if self.passes_by(&path, worktree) {
                    continue;
                }
                if !kept && self.keeps_all_in(&path, worktree) {
                    folder.kept.push(Held { path: path.clone(), leans: true, since: (0, 0) });
                }
                folder.folders.push(path);
                continue;
            }
            let linked = kind.map_or(true, |kind| kind.is_symlink());
            self.hide(&path, linked, worktree, &mut folder);
            let name = || files::relative(&path, worktree);
            let inside = path.starts_with(worktree);
            if inside && !kept && !linked && !self.edit.is_empty() && self.edit.holds(&name()) {
                // With a folder above it renamed, another file could be put in its place.
                let since = entry.metadata().map_or((0, 0), |found| (found.ctime(), found.ctime_nsec()));
                folder.kept.push(Held { path, leans: true, since });
            }
        }
        folder
    }

    /// What git itself keeps in the worktree's own repository is named by branches and numbers, and goes unlooked at.
    /// Nothing can be moved there: it is a mount of its own, and what is hidden in it holds the folders above it.
    fn read_git(&self, path: &Path, worktree: &Path, folder: &mut Folder) {
        let top = path.parent() == Some(worktree);
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            folder.entries += 1;
            let (path, kind) = (entry.path(), entry.file_type());
            match kind.is_ok_and(|kind| kind.is_dir()) {
                true if top && OF_GIT.iter().any(|name| entry.file_name() == *name) => {}
                true => folder.folders.push(path),
                false => self.hide(&path, true, worktree, folder),
            }
        }
    }

    fn hide(&self, path: &Path, linked: bool, worktree: &Path, folder: &mut Folder) {
        if !self.hides(path, worktree) {
            return;
        }
        // A link hides what it leads to, which may be something else the next time.
        folder.leads_elsewhere |= linked;
        if let Some(file) = path.canonicalize().ok().filter(|file| !file.is_dir()) {
            let leans = linked || self.read.leans_on_folders(&files::relative(path, worktree));
            folder.hidden.push(Held { path: file, leans, since: (0, 0) });
        }
    }

    /// Whether a folder of the worktree stays as it is, with all that is in it or would be.
    fn keeps_all_in(&self, folder: &Path, worktree: &Path) -> bool {
        let inside = folder != worktree && folder.starts_with(worktree);
        inside && !self.edit.is_empty() && self.edit.holds_all_in(&files::relative(folder, worktree))
    }
}

/// The files in a directory that rules keep from being read.
pub(crate) fn hidden_in(dir: &Path, policy: &rules::Policy) -> Result<Vec<PathBuf>, String> {
    let found = Hiding::of(policy).find(dir, &mut Known::default())?;
    Ok(found.hidden.into_iter().map(|held| held.path).filter(|path| path.starts_with(dir)).collect())
}

impl Found {
    fn add(&mut self, folder: &Folder) {
        self.hidden.extend_from_slice(&folder.hidden);
        self.kept.extend_from_slice(&folder.kept);
    }

    fn tidied(mut self) -> Self {
        // The tools are held to these rules all the same: many files are no reason to refuse a command.
        if self.kept.len() > MOST_KEPT {
            // What a command made itself came last: it must not push others out.
            self.kept.sort_by_key(|held| held.since);
            self.kept.truncate(MOST_KEPT);
            self.notice = Some(format!(
                "rules of `edit` deny more than {MOST_KEPT} files by name: commands can change those that were changed last"
            ));
        }
        for list in [&mut self.hidden, &mut self.kept] {
            list.sort();
            list.dedup_by(|later, first| {
                let same = later.path == first.path;
                first.leans |= same && later.leans;
                same
            });
        }
        self
    }
}

/// Folders of a repository that git fills.
const OF_GIT: &[&str] = &["objects", "refs", "logs", "modules", "worktrees", "lfs"];

/// Whether this belongs to the worktree's own repository. A folder that is merely called `.git` is like any other, and so
/// is a whole repository elsewhere in the worktree: whoever can move files could put them there.
fn is_inside_repository(path: &Path, worktree: &Path) -> bool {
    let git = worktree.join(".git");
    path.starts_with(&git) && super::is_repository(&git)
}

fn too_many(what: &str, most: usize) -> String {
    format!(
        "rules keep files from being read, and there are more than {most} {what}: narrow these rules of `read`, work in a \
         smaller directory, or set `sandbox.mode` to `off`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Place;
    use proto::Action::{Allow, Ask, Deny};
    use proto::Rule;

    fn policy(own: &[(&str, &str, Action)]) -> rules::Policy {
        let own = own.iter().map(|(permission, pattern, action)| Rule::new(*permission, *pattern, *action)).collect();
        rules::Policy { own, ..rules::Policy::default() }
    }

    fn found(place: &Place, own: &[(&str, &str, Action)]) -> Vec<String> {
        let policy = policy(own);
        names(place, &Hiding::of(&policy).find(place.dir(), &mut Known::default()).unwrap().hidden)
    }

    fn names(place: &Place, held: &[Held]) -> Vec<String> {
        held.iter().map(|held| files::relative(&held.path, place.dir())).collect()
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
        let names = [".env", ".env.local", ".git/.env", "a/b/c.env", "node_modules/x/.env"];
        assert_eq!(found(&place, &DEFAULTS), names);
    }

    #[test]
    fn in_a_repository_only_what_git_keeps_is_left_alone() {
        let place = crate::testing::repository();
        for name in [".git/refs/heads/fix.env", ".git/logs/refs/heads/fix.env", ".git/objects/x.env"] {
            place.file(name, "");
        }
        for name in [".git/x.env", ".git/deep/er.env", "a/.git/refs/b.env", "a/.git/HEAD", "a/.git/objects/c.env"] {
            place.file(name, "");
        }
        let policy = policy(&DEFAULTS);
        let found = Hiding::of(&policy).find(place.dir(), &mut Known::default()).unwrap().hidden;
        let all = [".git/deep/er.env", ".git/x.env", "a/.git/objects/c.env", "a/.git/refs/b.env"];
        assert_eq!(names(&place, &found), all);
        assert!(found[0].leans, "its folder cannot be renamed to one that is left alone");
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
        let mut found = || names(&place, &Hiding::of(&policy).find(place.dir(), &mut known).unwrap().hidden);
        assert_eq!(found(), ["a/b/.env"]);
        place.file("c/d/.env", "x");
        assert_eq!(found(), ["a/b/.env", "c/d/.env"]);
        fs::rename(place.dir().join("a"), place.dir().join("e")).unwrap();
        assert_eq!(found(), ["c/d/.env", "e/b/.env"]);
        fs::remove_file(place.dir().join("c/d/.env")).unwrap();
        assert_eq!(found(), ["e/b/.env"]);
    }

    #[test]
    fn what_must_not_be_changed_is_found_as_a_folder_where_it_is_one() {
        let place = Place::new();
        for name in ["prot/a", "prot/deep/b", "prot/.env", "src/x.lock", "src/y", "z.lock", "half/a", "half/b.md"] {
            place.file(name, "x");
        }
        std::os::unix::fs::symlink("src/y", place.dir().join("linked.lock")).unwrap();
        let own = [
            ("read", "*.env", Ask),
            ("edit", "prot/*", Deny),
            ("edit", "*.lock", Deny),
            ("edit", "src/*", Ask),
            ("edit", "src/x.lock", Deny),
            ("edit", "half/*", Deny),
            ("edit", "half/*.md", Allow),
        ];
        let policy = policy(&own);
        let found = Hiding::of(&policy).find(place.dir(), &mut Known::default()).unwrap();
        assert_eq!(names(&place, &found.kept), ["half/a", "prot", "src/x.lock", "z.lock"]);
        assert_eq!(names(&place, &found.hidden), ["prot/.env"]);
        assert!(found.notice.is_none());
    }

    #[test]
    fn more_than_can_be_kept_is_said_and_not_an_error() {
        let place = Place::new();
        for n in 0..=MOST_KEPT {
            place.file(&format!("{n}.lock"), "");
        }
        let policy = policy(&[("edit", "*.lock", Deny)]);
        let found = Hiding::of(&policy).find(place.dir(), &mut Known::default()).unwrap();
        assert!(found.kept.len() == MOST_KEPT && found.notice.unwrap().contains("more than 500"));
    }

    #[test]
    fn files_that_come_later_push_none_out_of_what_is_kept() {
        let place = Place::new();
        place.file("z/first.lock", "");
        let policy = policy(&[("edit", "*.lock", Deny)]);
        let (start, mut n) = (std::time::Instant::now(), 0);
        // Until the clock of the file system has gone on.
        while n <= MOST_KEPT || start.elapsed() < std::time::Duration::from_millis(20) {
            place.file(&format!("{n}.lock"), "");
            n += 1;
        }
        let found = Hiding::of(&policy).find(place.dir(), &mut Known::default()).unwrap();
        let first = found.kept.iter().find(|held| held.path.ends_with("z/first.lock"));
        assert!(first.is_some_and(|held| held.leans), "its folder cannot be renamed either");
    }

    #[test]
    fn only_denied_files_are_relied_on() {
        assert!(!Hiding::of(&policy(&DEFAULTS)).is_strict());
        assert!(Hiding::of(&policy(&[("read", "*.pem", Deny)])).is_strict());
        assert!(!Hiding::of(&policy(&[("edit", "*.pem", Deny)])).is_strict());
    }
}
