//! What there is on disk that a sandbox has to leave open, keep as it is, or put away: looked at before each command,
//! since a path that comes or goes makes another sandbox necessary.

use super::git::{self, COMMON, Git, How, is_plain};
use super::{Confine, Hiding, Mode, Places, Reach, masks};
use proto::Action;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The facts a layout is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ground {
    pub(crate) reach: Reach,
    /// Where temporary files go.
    pub(crate) temporaries: Vec<PathBuf>,
    /// Where the system keeps the sockets of its services: connecting to one does not care about read-only.
    pub(crate) run: Vec<PathBuf>,
    /// What of that is needed.
    pub(crate) kept_of_run: Vec<PathBuf>,
    /// May be changed. A directory above something fixed is here as well, though it lies in another one: as a mount of
    /// its own it cannot be renamed away.
    pub(crate) writable: Vec<PathBuf>,
    /// Inside of that, must stay as they are.
    pub(crate) fixed: Vec<PathBuf>,
    /// The same, but there is nothing yet.
    pub(crate) missing: Vec<PathBuf>,
    /// Of these nothing is there, but for what of it is open or stays as it is.
    pub(crate) blank: Vec<PathBuf>,
    /// Inside of that, taken by something empty, so that nothing is made there that would be lost.
    pub(crate) empty_files: Vec<PathBuf>,
    pub(crate) empty_folders: Vec<PathBuf>,
    /// Where the user's git may look for a repository.
    pub(crate) sites: Vec<PathBuf>,
    /// Directories of git in which what decides what it runs stays as it is.
    pub(crate) guarded: Vec<PathBuf>,
    /// Files called `.git` that led out of the workspace before.
    pub(crate) settled: Vec<PathBuf>,
    /// Sockets of services elsewhere: connecting to one does not care about read-only.
    pub(crate) sockets: Vec<PathBuf>,
    /// Directories of ours, and what of them may be read.
    pub(crate) private: Vec<PathBuf>,
    pub(crate) outputs: Vec<PathBuf>,
}

impl Ground {
    pub(crate) fn bare(reach: Reach) -> Self {
        Self {
            reach,
            temporaries: Vec::new(),
            run: Vec::new(),
            kept_of_run: Vec::new(),
            writable: Vec::new(),
            fixed: Vec::new(),
            missing: Vec::new(),
            blank: Vec::new(),
            empty_files: Vec::new(),
            empty_folders: Vec::new(),
            sites: Vec::new(),
            guarded: Vec::new(),
            settled: Vec::new(),
            sockets: Vec::new(),
            private: Vec::new(),
            outputs: Vec::new(),
        }
    }
}

/// Settings of ours: whoever writes them says what runs next time.
const OURS: &[&str] = &[".convoke", "convoke.json", "convoke.jsonc"];
/// A folder of another program: what in it names commands, or is read by us as well.
struct Other {
    folder: &'static str,
    /// Kept as they are where they exist. In a repository more is not needed: it is trusted as it is, not as it will be.
    kept: &'static [&'static str],
    /// What we read below the user's own directory without a question: there they cannot be made either.
    read: &'static [&'static str],
}

const OTHERS: &[Other] = &[
    Other {
        folder: ".claude",
        kept: &["settings.json", "settings.local.json", "agents", "commands"],
        read: &["agents", "commands", "skills"],
    },
    Other {
        folder: ".opencode",
        kept: &["opencode.json", "opencode.jsonc", "agents", "agent", "commands", "command", "plugins", "plugin"],
        read: &["agents", "agent", "commands", "command", "skills", "skill"],
    },
];

/// What a ground is looked at for.
pub(crate) struct For<'a> {
    pub(crate) places: &'a Places,
    /// The user's own directory.
    pub(crate) home: Option<&'a Path>,
    /// Whoever holds the sandbox can keep a file inside of an open folder.
    pub(crate) keeps: bool,
    /// Repositories inside of the worktree that the user's git looks into.
    pub(crate) nested: &'a [PathBuf],
}

/// `made` says whether a path is a stand-in that a sandbox put there. An error is why nothing can be run.
pub(crate) fn look(confine: &Confine, by: &For<'_>, made: impl Fn(&Path) -> bool) -> Result<Ground, String> {
    let places = by.places;
    if !confine.dir.is_dir() {
        return Err(format!("its directory `{}` does not exist any more", confine.dir.display()));
    }
    if let Some(private) = places.private.iter().find(|private| is_in(&confine.dir, private)) {
        return Err(format!("`{}` is Convoke's own: work in another directory", private.display()));
    }
    let mut ground = Ground::bare(confine.reach);
    let exists = |path: &PathBuf| path.exists();
    ground.private = places.private.iter().filter_map(|path| path.canonicalize().ok()).collect();
    ground.outputs = places.outputs.join(confine.root.as_str()).canonicalize().into_iter().collect();
    if confine.reach.mode == Mode::Off {
        return Ok(ground);
    }
    ground.temporaries = ["/tmp", "/var/tmp"].map(PathBuf::from).into_iter().filter(exists).collect();
    ground.run = [PathBuf::from("/run")].into_iter().filter(exists).collect();
    let resolver = Path::new("/etc/resolv.conf").canonicalize().ok().filter(|file| file.starts_with("/run"));
    let system = Some(PathBuf::from("/run/current-system")).filter(exists);
    ground.kept_of_run = resolver.into_iter().chain(system).collect();
    if confine.reach.mode == Mode::Workspace {
        let homes: Vec<PathBuf> = by.home.into_iter().chain(places.home()).flat_map(Path::canonicalize).collect();
        let mut lay = Laying { ground: &mut ground, made: &made };
        workspace(confine, &homes, by, &mut lay)?;
        own_places(by, &mut lay)?;
        ground.sockets = sockets(&ground);
        return Ok(ground);
    }
    // It may lie where temporary files do, which are others in there.
    let root = confine.chain().swap_remove(0);
    if let Some(common) = Git::of(&root).as_ref().and_then(Git::common) {
        ground.fixed.push(common.to_owned());
    }
    ground.fixed.push(root);
    ground.sockets = sockets(&ground);
    Ok(ground)
}

/// Directories of ours inside of what is open: they cannot be made by a command, nor kept from it by landlock.
fn own_places(by: &For<'_>, lay: &mut Laying<'_>) -> Result<(), String> {
    for private in &by.places.private {
        let Some(there) = private.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?))) else {
            continue;
        };
        let (above, real) = there;
        if !lay.ground.writable.iter().any(|open| real.starts_with(open)) {
            continue;
        }
        if !by.keeps {
            return Err(format!(
                "Convoke's own directory `{}` lies in this workspace, and landlock alone cannot keep commands from it: install \
                 bubblewrap, or work in another directory",
                private.display()
            ));
        }
        let next = private.strip_prefix(above).ok().and_then(|rest| rest.components().next());
        if let Some(next) = next {
            lay.fix(real.join(next))?;
        }
    }
    Ok(())
}

fn is_in(path: &Path, folder: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(path).starts_with(real(folder))
}

/// Sockets that somebody listens on, where a command could reach them. Those in its workspace may be its own.
fn sockets(ground: &Ground) -> Vec<PathBuf> {
    let gone = |path: &Path| {
        let kept = [&ground.writable, &ground.temporaries, &ground.run, &ground.private];
        kept.into_iter().flatten().any(|place| path.starts_with(place))
    };
    let is_socket = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let listed = foreign::read(Path::new("/proc/self/net/unix"), MOST_LISTED).unwrap_or_default();
    let listed = String::from_utf8_lossy(&listed);
    let paths = listed.lines().filter_map(|line| line.find(" /").map(|at| PathBuf::from(&line[at + 1..])));
    let found: BTreeSet<PathBuf> = paths.filter(|path| !gone(path)).filter(is_socket).take(MOST_SOCKETS).collect();
    found.into_iter().collect()
}

/// What the kernel lists of sockets, and how many are put away.
const MOST_LISTED: u64 = 4 << 20;
const MOST_SOCKETS: usize = 500;

/// A ground while it is being looked at.
pub(super) struct Laying<'a> {
    pub(super) ground: &'a mut Ground,
    made: &'a dyn Fn(&Path) -> bool,
}

impl Laying<'_> {
    /// It stays as it is, or does not come into being.
    pub(super) fn fix(&mut self, path: PathBuf) -> Result<(), String> {
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.ground.missing.push(path),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
            Err(error) => return Err(format!("cannot look at `{}`: {error}", path.display())),
            Ok(found) if found.is_symlink() => {
                return Err(format!(
                    "`{}` is a symbolic link, which a sandbox cannot protect: put what it leads to in its place, or set \
                     `sandbox.mode` to `off`",
                    path.display()
                ));
            }
            Ok(_) if self.is_stand_in(&path) => self.ground.missing.push(path),
            Ok(_) if path.ends_with(COMMON) => {
                return Err(format!("`{}` leads git elsewhere: remove it, if it is not yours", path.display()));
            }
            Ok(_) => self.ground.fixed.push(path),
        }
        Ok(())
    }

    /// They stay as they are, where they are.
    pub(super) fn keep(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        // What stands in for something in another sandbox goes with that one.
        let there = |path: &PathBuf| is_plain(path) && !self.is_stand_in(path);
        let kept: Vec<PathBuf> = paths.into_iter().filter(there).collect();
        self.ground.fixed.extend(kept);
    }

    pub(super) fn is_stand_in(&self, path: &Path) -> bool {
        (self.made)(path) && masks::is_empty(path)
    }
}

fn workspace(confine: &Confine, homes: &[PathBuf], by: &For<'_>, lay: &mut Laying<'_>) -> Result<(), String> {
    let chain = confine.chain();
    let (root, dir) = (&chain[0], &chain[chain.len() - 1]);
    let allowed = named(&confine.rules, root);
    let (mut levels, mut held) = (chain.clone(), Vec::new());
    for home in homes.iter().filter(|home| !chain.contains(home)) {
        let open = |dir: &Path| dir == root || allowed.iter().any(|allowed| dir == allowed);
        if home.ancestors().any(open) {
            held.extend(home.ancestors().take_while(|dir| !open(dir)).map(Path::to_owned));
            levels.push(home.clone());
        }
    }
    for level in &levels {
        OURS.iter().try_for_each(|name| lay.fix(level.join(name)))?;
    }
    for (level, other) in levels.iter().flat_map(|level| OTHERS.iter().map(move |other| (level, other))) {
        let (folder, at_home) = (level.join(other.folder), homes.contains(level));
        if at_home && (folder.is_symlink() || !folder.exists() || lay.is_stand_in(&folder)) {
            lay.fix(folder)?;
            continue;
        }
        // One that is a link counts where it leads to, and there only inside of the workspace: the rest cannot be changed.
        let Some(folder) = folder.canonicalize().ok().filter(|folder| folder.starts_with(root) || at_home) else {
            continue;
        };
        let there = other.kept.iter().filter(|name| is_plain(&folder.join(name)));
        let names: BTreeSet<&str> = there.chain(other.read.iter().filter(|_| at_home)).copied().collect();
        names.iter().try_for_each(|name| lay.fix(folder.join(name)))?;
        held.extend(Some(folder).filter(|_| !names.is_empty()));
    }
    let hiding = Hiding::of(&confine.rules);
    for path in [root, dir].map(|level| level.join(".env")) {
        let new = fs::symlink_metadata(&path).is_err() || lay.is_stand_in(&path);
        if new && hiding.hides(&path, &confine.worktree) && !lay.ground.missing.contains(&path) {
            lay.ground.missing.push(path);
        }
    }
    lay.ground.writable.extend(held);
    lay.ground.writable.extend(chain.iter().cloned());
    let git = Git::of(root);
    let is_named = |common: &Path| allowed.iter().any(|allowed| common.starts_with(allowed));
    let how = How { keeps: by.keeps, named: git.as_ref().and_then(Git::common).is_some_and(is_named) };
    git.map_or(Ok(()), |git| git.open(lay, &how))?;
    let levels = chain.iter().filter(|level| *level != root || level.join(".git").symlink_metadata().is_err());
    let allowed_in: Vec<PathBuf> = allowed.iter().flat_map(|allowed| repositories_in(allowed)).collect();
    let mut others = levels.chain(&allowed).chain(&allowed_in).chain(by.nested);
    others.try_for_each(|place| git::other(place, root, lay))?;
    let ours = allowed.iter().chain(&allowed_in).flat_map(|place| OURS.iter().map(move |name| place.join(name)));
    lay.keep(ours);
    lay.ground.sites = chain.iter().chain(&allowed).chain(&allowed_in).cloned().collect();
    lay.ground.writable.extend(allowed);
    Ok(())
}

/// Repositories right below a directory that is open by name: their settings are the user's.
fn repositories_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().take(MOST_BESIDE);
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path());
    dirs.filter(|dir| dir.join(".git").symlink_metadata().is_ok()).collect()
}

/// Far more than a folder of repositories has.
const MOST_BESIDE: usize = 2_000;

/// Directories elsewhere that a rule allows by name, as in `"external_directory": { "/data/*": "allow" }`.
pub fn named(policy: &rules::Policy, root: &Path) -> Vec<PathBuf> {
    let named = policy.own.iter().filter(|rule| rule.permission == "external_directory");
    let dirs = named.filter_map(|rule| {
        let dir = rule.pattern.strip_suffix("/*").filter(|dir| dir.starts_with('/') && !dir.contains(['*', '?']))?;
        let allows = policy.judge("external_directory", &rule.pattern).action == Action::Allow;
        let real = Path::new(dir).canonicalize().ok().filter(|dir| allows && dir.is_dir())?;
        Some((Path::new(dir), real))
    });
    let dirs: BTreeMap<&Path, PathBuf> = dirs.collect();
    let open: Vec<&Path> = dirs.values().map(PathBuf::as_path).chain([root]).collect();
    // What the user named may be a link. One that lies where commands may write is theirs to set, and leads nowhere.
    let firm = |named: &Path| {
        let mut links = named.ancestors().filter(|above| above.is_symlink()).filter_map(Path::parent);
        !links.any(|above| above.canonicalize().is_ok_and(|above| open.iter().any(|open| above.starts_with(open))))
    };
    let firm: BTreeSet<&PathBuf> = dirs.iter().filter(|(named, _)| firm(named)).map(|(_, real)| real).collect();
    firm.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{git_in, repository};
    use std::sync::Arc;

    fn places() -> Places {
        Places { private: Vec::new(), outputs: "/nowhere/outputs".into(), root: "/nowhere".into() }
    }

    fn by<'a>(home: Option<&'a Path>, places: &'a Places) -> For<'a> {
        For { places, home, keeps: true, nested: &[] }
    }

    fn at(dir: &Path, worktree: &Path, rules: rules::Policy) -> Result<Ground, String> {
        let confine = Confine {
            session: proto::SessionId::new(),
            root: proto::SessionId::new(),
            reach: Reach::USUAL,
            dir: dir.to_owned(),
            worktree: worktree.to_owned(),
            rules: Arc::new(rules),
        };
        look(&confine, &by(None, &places()), |_| false)
    }

    #[test]
    fn a_repository_is_open_except_for_what_decides_what_runs() {
        let place = repository();
        place.file(".convoke/agents/a.md", "x");
        place.file(".claude/settings.json", "{}");
        let dir = place.dir().to_owned();
        let ground = at(&dir.join("src"), &dir, rules::Policy::default()).unwrap();
        let of = |list: &[PathBuf]| -> Vec<String> {
            list.iter().map(|path| path.strip_prefix(&dir).unwrap().display().to_string()).collect()
        };
        assert_eq!(of(&ground.writable), [".claude", "", "src", ".git"]);
        assert_eq!(of(&ground.fixed), [".convoke", ".claude/settings.json", ".git/hooks", ".git/config"]);
        let missing = ["convoke.json", "convoke.jsonc", "src/.convoke", "src/convoke.json", "src/convoke.jsonc"];
        assert_eq!(
            of(&ground.missing),
            [missing.as_slice(), &[".git/commondir", ".git/modules", ".git/worktrees"]].concat()
        );
    }

    #[test]
    fn in_the_users_own_directory_what_is_read_without_a_question_cannot_be_made() {
        let place = crate::testing::Place::new();
        let home = place.dir().to_owned();
        place.file(".claude/agents/a.md", "x");
        place.file(".claude/settings.json", "{}");
        place.file(".claude/projects/x", "x");
        let confine = |dir: &Path| Confine {
            session: proto::SessionId::new(),
            root: proto::SessionId::new(),
            reach: Reach::USUAL,
            dir: dir.to_owned(),
            worktree: dir.to_owned(),
            rules: Arc::default(),
        };
        // Its own, and one further up.
        for dir in [home.as_path(), home.parent().unwrap()] {
            let ground = look(&confine(dir), &by(Some(&home), &places()), |_| false).unwrap();
            let has = |list: &[PathBuf], name: &str| list.contains(&home.join(name));
            for name in [".claude/agents", ".claude/settings.json"] {
                assert!(has(&ground.fixed, name), "{name}: {ground:?}");
            }
            for name in [".convoke", ".opencode", ".claude/commands", ".claude/skills"] {
                assert!(has(&ground.missing, name), "{name}: {ground:?}");
            }
            assert!(has(&ground.writable, ".claude") && !has(&ground.missing, ".opencode/agents"));
            assert!(ground.writable.contains(&home), "it cannot be renamed: {ground:?}");
        }
        let beside = place.dir().join("beside");
        fs::create_dir(&beside).unwrap();
        let ground = look(&confine(&beside), &by(Some(&home), &places()), |_| false).unwrap();
        assert!(ground.missing.iter().all(|path| path.starts_with(&beside)), "{ground:?}");
        place.file(".opencode/agent/a.md", "x");
        let ground = look(&confine(&home), &by(Some(&home), &places()), |_| false).unwrap();
        assert!(ground.fixed.contains(&home.join(".opencode/agent")));
        assert!(ground.missing.contains(&home.join(".opencode/commands")));
    }

    #[test]
    fn what_submodules_run_stays_whatever_they_are_called() {
        let place = repository();
        for name in ["a/b", "a/modules/c", "d/modules/e/f"] {
            place.file(&format!(".git/modules/{name}/HEAD"), "ref: refs/heads/main");
            place.file(&format!(".git/modules/{name}/config"), "");
        }
        // One that hides another from a look that stops at the first.
        place.file(".git/modules/a/HEAD", "");
        let ground = at(place.dir(), place.dir(), rules::Policy::default()).unwrap();
        let modules = place.dir().join(".git/modules");
        for name in ["a/b", "a/modules/c", "d/modules/e/f"] {
            assert!(ground.fixed.contains(&modules.join(name).join("config")), "{name}: {ground:?}");
            assert!(ground.missing.contains(&modules.join(name).join("hooks")), "{name}: {ground:?}");
        }
        for name in ["a", "a/b", "a/modules/c", "d/modules/e/f"] {
            assert!(ground.writable.contains(&modules.join(name)), "{name}: {ground:?}");
        }
        assert!(ground.fixed.contains(&modules), "none can be put beside them: {ground:?}");
    }

    #[test]
    fn settings_of_a_worktree_alone_are_kept_from_being_made_where_git_reads_them() {
        let place = repository();
        let own = place.dir().join(".git/config.worktree");
        let ground = || at(place.dir(), place.dir(), rules::Policy::default()).unwrap();
        assert!(!ground().missing.contains(&own));
        place.git("config extensions.worktreeConfig true");
        assert!(ground().missing.contains(&own));
        place.git("config --worktree some.thing x");
        assert!(ground().fixed.contains(&own));
    }

    #[test]
    fn a_linked_worktree_opens_the_repository_it_belongs_to_and_nobody_elses() {
        let place = repository();
        let linked = place.dir().parent().unwrap().join("linked");
        git_in(place.dir(), &format!("worktree add --quiet {}", linked.display()));
        let git = place.dir().join(".git");
        let ground = at(&linked, &linked, rules::Policy::default()).unwrap();
        for open in ["objects", "refs", "logs", "refs/heads", "worktrees/linked"] {
            assert!(ground.writable.contains(&git.join(open)), "{open}: {ground:?}");
        }
        assert!(ground.blank.contains(&git) && !ground.writable.contains(&git));
        let own = "worktrees/linked/commondir";
        for fixed in ["hooks", "config", "HEAD", "index", "worktrees", own, "refs/heads/main", "logs/HEAD"] {
            assert!(ground.fixed.contains(&git.join(fixed)), "{fixed}: {ground:?}");
        }
        assert!(ground.fixed.contains(&linked.join(".git")));

        let other = repository();
        fs::write(linked.join(".git"), format!("gitdir: {}\n", other.dir().join(".git").display())).unwrap();
        let ground = at(&linked, &linked, rules::Policy::default()).unwrap();
        assert_eq!(ground.writable, [linked]);
    }

    #[test]
    fn a_directory_that_a_rule_allows_by_name_is_open() {
        let (place, other) = (repository(), repository());
        let name = format!("{}/*", other.dir().display());
        let rule = |pattern: &str, action| proto::Rule::new("external_directory", pattern, action);
        let everything = rule("*", Action::Allow);
        for (own, open) in [
            (vec![everything.clone()], false),
            (vec![everything.clone(), rule(&name, Action::Ask)], false),
            (vec![rule("*", Action::Ask), rule(&name, Action::Allow)], true),
            (vec![rule(&name, Action::Allow), rule("*", Action::Deny)], false),
            (vec![rule("/*", Action::Allow)], false),
        ] {
            let policy = rules::Policy { own: own.clone(), ..rules::Policy::default() };
            let ground = at(place.dir(), place.dir(), policy).unwrap();
            assert_eq!(ground.writable.contains(&other.dir().to_owned()), open, "{own:?}");
            assert!(!ground.writable.contains(&PathBuf::from("/")));
        }
    }

    #[test]
    fn a_directory_that_is_gone_is_named() {
        let place = repository();
        let gone = place.dir().join("gone");
        let why = at(&gone, place.dir(), rules::Policy::default()).unwrap_err();
        assert!(why.contains(&gone.display().to_string()) && why.contains("does not exist"), "{why}");
    }

    #[test]
    fn a_link_where_something_is_protected_is_refused() {
        let place = repository();
        std::os::unix::fs::symlink("src", place.dir().join(".convoke")).unwrap();
        let why = at(place.dir(), place.dir(), rules::Policy::default()).unwrap_err();
        assert!(why.contains(".convoke") && why.contains("symbolic link"), "{why}");
    }

    #[test]
    fn a_file_that_rules_keep_from_being_read_cannot_be_made_either() {
        let place = repository();
        let ask = proto::Rule::new("read", "*.env", Action::Ask);
        let allow = proto::Rule::new("*", "*", Action::Allow);
        let policy = rules::Policy { own: vec![allow, ask], ..rules::Policy::default() };
        let ground = at(place.dir(), place.dir(), policy.clone()).unwrap();
        assert!(ground.missing.contains(&place.dir().join(".env")));
        place.file(".env", "SECRET=1");
        let ground = at(place.dir(), place.dir(), policy).unwrap();
        assert!(!ground.missing.contains(&place.dir().join(".env")), "it is there, and hidden");
    }
}
