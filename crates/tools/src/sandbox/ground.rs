//! What there is on disk that a sandbox has to leave open, keep as it is, or put away: looked at before each command,
//! since a path that comes or goes makes another sandbox necessary.

use super::{Confine, Hiding, Mode, Places, Reach};
use proto::Action;
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
/// Settings of others that name commands, or that we read as well; kept as they are where they exist.
const OTHERS: &[&str] = &[".claude/settings.json", ".claude/settings.local.json", ".claude/agents", ".claude/commands"];

/// `made` says whether a path is a stand-in that a sandbox put there. An error is why nothing can be run.
pub(crate) fn look(confine: &Confine, places: &Places, made: impl Fn(&Path) -> bool) -> Result<Ground, String> {
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
        workspace(confine, &mut ground, &made)?;
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

fn workspace(confine: &Confine, ground: &mut Ground, made: &impl Fn(&Path) -> bool) -> Result<(), String> {
    let chain = confine.chain();
    let (root, dir) = (&chain[0], &chain[chain.len() - 1]);
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
            Ok(_) if made(&path) && is_empty(&path) => ground.missing.push(path),
            Ok(_) => ground.fixed.push(path),
        }
        Ok(())
    };
    for level in &chain {
        OURS.iter().try_for_each(|name| fix(level.join(name)))?;
    }
    let git = Git::of(root);
    for path in git.iter().flat_map(Git::guarded) {
        fix(path)?;
    }
    let hiding = Hiding::of(&confine.rules);
    for path in [root, dir].map(|level| level.join(".env")) {
        let new = fs::symlink_metadata(&path).is_err() || (made(&path) && is_empty(&path));
        if new && hiding.hides(&path, &confine.worktree) && !ground.missing.contains(&path) {
            ground.missing.push(path);
        }
    }
    for level in &chain {
        let there = OTHERS.iter().map(|name| level.join(name)).filter(|path| is_plain(path));
        let there: Vec<PathBuf> = there.collect();
        if !there.is_empty() {
            ground.writable.push(level.join(".claude"));
        }
        ground.fixed.extend(there);
    }
    ground.writable.extend(chain);
    ground.writable.extend(allowed(&confine.rules));
    if let Some(git) = git {
        git.open(ground);
    }
    match ground.unwanted.iter().find(|path| path.symlink_metadata().is_ok()) {
        Some(path) => Err(format!("`{}` leads git elsewhere: remove it, if it is not yours", path.display())),
        None => Ok(()),
    }
}

/// Directories elsewhere that a rule allows by name, as in `"external_directory": { "/data/*": "allow" }`.
fn allowed(policy: &rules::Policy) -> impl Iterator<Item = PathBuf> {
    let named = policy.own.iter().filter(|rule| rule.permission == "external_directory");
    let dirs = named.filter_map(|rule| {
        let dir = rule.pattern.strip_suffix("/*").filter(|dir| dir.starts_with('/') && !dir.contains(['*', '?']))?;
        let allows = policy.judge("external_directory", &rule.pattern).action == Action::Allow;
        Path::new(dir).canonicalize().ok().filter(|dir| allows && dir.is_dir())
    });
    dirs.collect::<std::collections::BTreeSet<_>>().into_iter()
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
        Some(Self::linked(&link).unwrap_or(Self::Elsewhere { link }))
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
            Self::Within(dir) => vec![dir.join("hooks"), dir.join("config")],
            Self::Linked { common, .. } => vec![common.join("hooks"), common.join("config")],
            Self::Elsewhere { .. } => Vec::new(),
        }
    }

    fn open(self, ground: &mut Ground) {
        match self {
            Self::Within(dir) => {
                let modules = fs::read_dir(dir.join("modules")).into_iter().flatten().flatten();
                let of_modules = modules.flat_map(|module| ["hooks", "config"].map(|name| module.path().join(name)));
                ground.fixed.extend(of_modules.chain([dir.join("config.worktree")]).filter(|path| is_plain(path)));
                ground.unwanted.push(dir.join("commondir"));
                ground.writable.push(dir);
            }
            Self::Linked { link, own, common } => {
                // What belongs to the main worktree and to others.
                let theirs = ["HEAD", "index", "worktrees", "modules", "config.worktree"].map(|name| common.join(name));
                let ours = ["commondir", "gitdir", "config.worktree"].map(|name| own.join(name));
                ground.fixed.extend(theirs.into_iter().chain(ours).chain([link]).filter(|path| is_plain(path)));
                ground.unwanted.push(common.join("commondir"));
                ground.writable.extend([common, own]);
            }
            Self::Elsewhere { link } => ground.fixed.extend(Some(link).filter(|path| is_plain(path))),
        }
    }
}

/// There, and no link to something else.
fn is_plain(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink())
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
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
        look(&confine, &places(), |_| false)
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
