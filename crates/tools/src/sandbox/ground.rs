//! What there is on disk that a sandbox has to leave open, keep as it is, or put away: looked at before each command,
//! since a path that comes or goes makes another sandbox necessary.

use super::{Confine, Hiding, Mode, Places, Reach, masks};
use proto::Action;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
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
    /// Would change what git runs, has no business there, and cannot be kept from being made: removed after each command.
    pub(crate) unwanted: Vec<PathBuf>,
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
            unwanted: Vec::new(),
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

/// `home` is the user's own directory; `made` says whether a path is a stand-in that a sandbox put there. An error is why
/// nothing can be run.
pub(crate) fn look(
    confine: &Confine,
    places: &Places,
    home: Option<&Path>,
    made: impl Fn(&Path) -> bool,
) -> Result<Ground, String> {
    if !confine.dir.is_dir() {
        return Err(format!("its directory `{}` does not exist any more", confine.dir.display()));
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
        let homes: Vec<PathBuf> = home.into_iter().chain(places.home()).flat_map(Path::canonicalize).collect();
        workspace(confine, &homes, &mut ground, &made)?;
        return Ok(ground);
    }
    // It may lie where temporary files do, which are others in there.
    let root = confine.chain().swap_remove(0);
    if let Some(Git::Linked { common, .. }) = Git::of(&root) {
        ground.fixed.push(common);
    }
    ground.fixed.push(root);
    Ok(ground)
}

fn workspace(
    confine: &Confine,
    homes: &[PathBuf],
    ground: &mut Ground,
    made: &impl Fn(&Path) -> bool,
) -> Result<(), String> {
    let chain = confine.chain();
    let (root, dir) = (&chain[0], &chain[chain.len() - 1]);
    let allowed = allowed(&confine.rules, root);
    let (mut levels, mut held) = (chain.clone(), Vec::new());
    for home in homes.iter().filter(|home| !chain.contains(home)) {
        let open = |dir: &Path| dir == root || allowed.iter().any(|allowed| dir == allowed);
        if home.ancestors().any(open) {
            held.extend(home.ancestors().take_while(|dir| !open(dir)).map(Path::to_owned));
            levels.push(home.clone());
        }
    }
    let mut fix = |path: PathBuf| -> Result<(), String> {
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => ground.missing.push(path),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
            Err(error) => return Err(format!("cannot look at `{}`: {error}", path.display())),
            Ok(found) if found.is_symlink() => {
                return Err(format!(
                    "`{}` is a symbolic link, which a sandbox cannot protect: put what it leads to in its place, or set \
                     `sandbox.mode` to `off`",
                    path.display()
                ));
            }
            Ok(_) if made(&path) && masks::is_empty(&path) => ground.missing.push(path),
            Ok(_) => ground.fixed.push(path),
        }
        Ok(())
    };
    for level in &levels {
        OURS.iter().try_for_each(|name| fix(level.join(name)))?;
    }
    let git = Git::of(root);
    if let Some(Git::Elsewhere { link }) = git.as_ref().filter(|_| root.join(".git").is_symlink()) {
        fix(link.clone())?;
    }
    let modules = git.as_ref().map_or(Ok(Vec::new()), Git::modules)?;
    let guarded = git.iter().flat_map(Git::guarded);
    let of_modules = modules.iter().flat_map(|module| guarded_in(module)).filter(|path| !path.is_symlink());
    for path in guarded.chain(of_modules) {
        fix(path)?;
    }
    for (level, other) in levels.iter().flat_map(|level| OTHERS.iter().map(move |other| (level, other))) {
        let (folder, at_home) = (level.join(other.folder), homes.contains(level));
        if at_home && (folder.is_symlink() || !folder.exists() || (made(&folder) && masks::is_empty(&folder))) {
            fix(folder)?;
            continue;
        }
        // One that is a link counts where it leads to, and there only inside of the workspace: the rest cannot be changed.
        let Some(folder) = folder.canonicalize().ok().filter(|folder| folder.starts_with(root) || at_home) else {
            continue;
        };
        let there = other.kept.iter().filter(|name| is_plain(&folder.join(name)));
        let names: BTreeSet<&str> = there.chain(other.read.iter().filter(|_| at_home)).copied().collect();
        names.iter().try_for_each(|name| fix(folder.join(name)))?;
        held.extend(Some(folder).filter(|_| !names.is_empty()));
    }
    let hiding = Hiding::of(&confine.rules);
    for path in [root, dir].map(|level| level.join(".env")) {
        let new = fs::symlink_metadata(&path).is_err() || (made(&path) && masks::is_empty(&path));
        if new && hiding.hides(&path, &confine.worktree) && !ground.missing.contains(&path) {
            ground.missing.push(path);
        }
    }
    ground.writable.extend(held);
    ground.writable.extend(chain);
    ground.writable.extend(allowed);
    if let Some(git) = git {
        git.open(ground, &modules);
    }
    match ground.unwanted.iter().find(|path| path.symlink_metadata().is_ok()) {
        Some(path) => Err(format!("`{}` leads git elsewhere: remove it, if it is not yours", path.display())),
        None => Ok(()),
    }
}

/// Directories elsewhere that a rule allows by name, as in `"external_directory": { "/data/*": "allow" }`.
fn allowed(policy: &rules::Policy, root: &Path) -> Vec<PathBuf> {
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

/// Where the repository of a worktree keeps what it knows.
#[derive(Debug, PartialEq, Eq)]
enum Git {
    /// In the worktree.
    Within(PathBuf),
    /// In another one, which has this one linked.
    Linked { link: PathBuf, own: PathBuf, common: PathBuf },
    /// Somewhere that is not known to belong to it: nothing can be committed.
    Elsewhere { link: PathBuf },
}

impl Git {
    fn of(root: &Path) -> Option<Self> {
        let link = root.join(".git");
        let found = fs::symlink_metadata(&link).ok()?;
        if found.is_dir() {
            return Some(Self::Within(link));
        }
        let linked = if found.is_file() { Self::linked(&link) } else { None };
        Some(linked.unwrap_or(Self::Elsewhere { link }))
    }

    /// The link must be known on the other side, as git itself wants it: a file in the worktree, which an agent may
    /// write, must not open a directory elsewhere.
    fn linked(link: &Path) -> Option<Self> {
        let text = fs::read_to_string(link).ok()?;
        let own = link.parent()?.join(text.strip_prefix("gitdir:")?.trim()).canonicalize().ok()?;
        let back = PathBuf::from(fs::read_to_string(own.join("gitdir")).ok()?.trim_end());
        let common = own.join(fs::read_to_string(own.join("commondir")).ok()?.trim_end()).canonicalize().ok()?;
        let belongs = own.join(back).canonicalize().ok()? == link.canonicalize().ok()?;
        let inside = own.parent()? == common.join("worktrees");
        (belongs && inside).then(|| Self::Linked { link: link.to_owned(), own, common })
    }

    /// What decides which programs git runs.
    fn guarded(&self) -> Vec<PathBuf> {
        match self {
            Self::Within(dir) => guarded_in(dir),
            Self::Linked { own, common, .. } => {
                let own = own_settings(common, own);
                guarded_in(common).into_iter().chain(own).collect()
            }
            Self::Elsewhere { .. } => Vec::new(),
        }
    }

    /// Repositories of submodules. Those of a linked worktree cannot be changed at all.
    fn modules(&self) -> Result<Vec<PathBuf>, String> {
        let Self::Within(dir) = self else { return Ok(Vec::new()) };
        let (mut found, mut folders) = (Vec::new(), vec![dir.join("modules")]);
        folders.retain(|folder| is_plain(folder));
        let mut left = MOST_OF_MODULES;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if !is_dir || OF_GIT.iter().any(|name| entry.file_name() == *name) {
                    continue;
                }
                left = left.checked_sub(1).ok_or_else(|| {
                    format!(
                        "there are more than {MOST_OF_MODULES} folders in `{}`: tidy it up",
                        dir.join("modules").display()
                    )
                })?;
                let path = entry.path();
                found.extend(Some(path.clone()).filter(|path| path.join("HEAD").exists()));
                folders.push(path);
            }
        }
        Ok(found)
    }

    fn open(self, ground: &mut Ground, modules: &[PathBuf]) {
        match self {
            Self::Within(dir) => {
                let above = modules.iter().flat_map(|module| module.ancestors().take_while(|above| **above != dir));
                ground.writable.extend(above.map(Path::to_owned).collect::<BTreeSet<_>>());
                ground.unwanted.push(dir.join("commondir"));
                ground.writable.push(dir);
            }
            Self::Linked { link, own, common } => {
                // What belongs to the main worktree and to others.
                let theirs = ["HEAD", "index", "worktrees", "modules"].map(|name| common.join(name));
                let ours = ["commondir", "gitdir"].map(|name| own.join(name));
                ground.fixed.extend(theirs.into_iter().chain(ours).chain([link]).filter(|path| is_plain(path)));
                ground.unwanted.push(common.join("commondir"));
                ground.writable.extend([common, own]);
            }
            Self::Elsewhere { link } => ground.fixed.extend(Some(link).filter(|path| is_plain(path))),
        }
    }
}

/// Folders of a repository that hold none of a submodule.
const OF_GIT: &[&str] = &["objects", "refs", "logs", "info", "hooks", "worktrees", "lfs"];
/// Far more than a repository with many submodules has.
const MOST_OF_MODULES: usize = 1_000;

/// The same of one directory of git.
fn guarded_in(dir: &Path) -> Vec<PathBuf> {
    let own = own_settings(dir, dir);
    [dir.join("hooks"), dir.join("config")].into_iter().chain(own).collect()
}

/// The settings of one worktree: where they are, or would be read.
fn own_settings(common: &Path, own: &Path) -> Option<PathBuf> {
    let read =
        || fs::read_to_string(common.join("config")).is_ok_and(|text| text.to_lowercase().contains("worktreeconfig"));
    Some(own.join(masks::SETTINGS)).filter(|path| (path.exists() && !path.is_symlink()) || read())
}

/// There, and no link to something else.
fn is_plain(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{git_in, repository};
    use std::sync::Arc;

    fn places() -> Places {
        Places { private: Vec::new(), outputs: "/nowhere/outputs".into(), root: "/nowhere".into() }
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
        look(&confine, &places(), None, |_| false)
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
        assert_eq!(of(&ground.fixed), [".convoke", ".git/hooks", ".git/config", ".claude/settings.json"]);
        let missing = ["convoke.json", "convoke.jsonc", "src/.convoke", "src/convoke.json", "src/convoke.jsonc"];
        assert_eq!(of(&ground.missing), missing);
        assert_eq!(of(&ground.unwanted), [".git/commondir"]);
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
            let ground = look(&confine(dir), &places(), Some(&home), |_| false).unwrap();
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
        let ground = look(&confine(&beside), &places(), Some(&home), |_| false).unwrap();
        assert!(ground.missing.iter().all(|path| path.starts_with(&beside)), "{ground:?}");
        place.file(".opencode/agent/a.md", "x");
        let ground = look(&confine(&home), &places(), Some(&home), |_| false).unwrap();
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
        for name in ["", "a", "a/b", "d/modules/e"] {
            assert!(ground.writable.contains(&modules.join(name)), "{name}: {ground:?}");
        }
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
        assert_eq!(ground.writable, [linked.clone(), git.clone(), git.join("worktrees/linked")]);
        for fixed in ["hooks", "config", "HEAD", "index", "worktrees", "worktrees/linked/commondir"] {
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
