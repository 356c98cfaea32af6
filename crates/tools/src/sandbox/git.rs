//! Where the repository of a worktree keeps what it knows, which of its files decide what git runs, and what of it belongs
//! to somebody else.

use super::ground::{Ground, Laying};
use super::masks;
use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Git {
    /// In the worktree: the folder `.git`, or one that a file of that name leads to.
    Within { dir: PathBuf, link: Option<PathBuf> },
    /// In another one, which has this one linked.
    Linked { link: PathBuf, own: PathBuf, common: PathBuf },
    /// Somewhere that is not known to belong to it: nothing can be committed.
    Elsewhere { link: PathBuf },
}

/// How a repository is to be opened.
pub(super) struct How {
    /// Whoever holds the sandbox can keep a file inside of an open folder.
    pub(super) keeps: bool,
    /// A rule names the place of the main worktree.
    pub(super) named: bool,
}

impl Git {
    pub(super) fn of(root: &Path) -> Option<Self> {
        let link = root.join(".git");
        let found = fs::symlink_metadata(&link).ok()?;
        if found.is_dir() {
            return Some(Self::Within { dir: link, link: None });
        }
        let known = if found.is_file() { Self::led(&link) } else { None };
        Some(known.unwrap_or(Self::Elsewhere { link }))
    }

    /// The link must be known on the other side, as git itself wants it: a file in the worktree, which an agent may
    /// write, must not open a directory elsewhere.
    fn led(link: &Path) -> Option<Self> {
        let root = link.parent()?;
        let own = led(link)?;
        if own.starts_with(root) {
            return Some(Self::Within { dir: own, link: Some(link.to_owned()) });
        }
        let back = PathBuf::from(line_of(&own.join("gitdir"))?.trim_end());
        let common = own.join(line_of(&own.join(COMMON))?.trim_end()).canonicalize().ok()?;
        let belongs = own.join(back).canonicalize().ok()? == link.canonicalize().ok()?;
        let inside = own.parent()? == common.join("worktrees");
        (belongs && inside).then(|| Self::Linked { link: link.to_owned(), own, common })
    }

    /// What all worktrees of the repository share, when that is elsewhere.
    pub(super) fn common(&self) -> Option<&Path> {
        match self {
            Self::Linked { common, .. } => Some(common),
            Self::Within { .. } | Self::Elsewhere { .. } => None,
        }
    }

    /// Opens it, except for what decides which programs git runs and what belongs to other worktrees.
    pub(super) fn open(self, lay: &mut Laying<'_>, how: &How) -> Result<(), String> {
        match self {
            Self::Within { dir, link } => {
                guard(lay, &dir)?;
                guard_modules(lay, &dir)?;
                lay.fix(dir.join("worktrees"))?;
                lay.keep(link);
                lay.ground.writable.push(dir);
            }
            Self::Linked { link, own, common } => {
                lay.ground.settled.push(link.clone());
                lay.keep([link, own.join(COMMON), own.join("gitdir")]);
                if let Some(settings) = own_settings(&common, &own) {
                    lay.fix(settings)?;
                }
                guard_modules(lay, &own)?;
                match () {
                    () if how.named => {
                        guard(lay, &common)?;
                        lay.keep(["worktrees", "modules"].map(|name| common.join(name)));
                        lay.ground.writable.push(common);
                    }
                    () if how.keeps => share(lay, &common)?,
                    () => share_branch(lay.ground, &common, &own),
                }
                lay.ground.writable.push(own);
            }
            Self::Elsewhere { link } if link.is_symlink() => lay.fix(link)?,
            Self::Elsewhere { link } => {
                // One that leads nowhere yet may lead to something that a command makes.
                lay.ground.settled.extend(led(&link).map(|_| link.clone()));
                lay.keep([link]);
            }
        }
        Ok(())
    }
}

/// Where git looks for what several worktrees share. It writes this only for linked ones; anywhere else it leads astray.
pub(super) const COMMON: &str = "commondir";
/// Folders of a repository that hold none of a submodule.
const OF_GIT: &[&str] = &["objects", "refs", "logs", "info", "hooks", "worktrees", "lfs"];
/// Far more than a repository with many submodules has.
const MOST_OF_MODULES: usize = 1_000;

/// Whatever decides which programs git runs in one of its directories.
fn guard(lay: &mut Laying<'_>, dir: &Path) -> Result<(), String> {
    if lay.ground.guarded.iter().any(|guarded| guarded == dir) {
        return Ok(());
    }
    lay.ground.guarded.push(dir.to_owned());
    included(lay, &dir.join("config"));
    for name in ["hooks", "config", COMMON] {
        lay.fix(dir.join(name))?;
    }
    own_settings(dir, dir).map_or(Ok(()), |path| lay.fix(path))
}

/// Repositories of submodules: those that are there can be worked with, others cannot be put beside them.
fn guard_modules(lay: &mut Laying<'_>, dir: &Path) -> Result<(), String> {
    lay.fix(dir.join("modules"))?;
    for module in modules(dir)? {
        guard(lay, &module)?;
        lay.fix(module.join("modules"))?;
        lay.ground.writable.push(module);
    }
    Ok(())
}

pub(crate) fn modules(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let (mut found, mut folders) = (Vec::new(), vec![dir.join("modules")]);
    let mut left = MOST_OF_MODULES;
    folders.retain(|folder| is_plain(folder));
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !is_dir || OF_GIT.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            left = left.checked_sub(1).ok_or_else(|| {
                let place = dir.join("modules");
                format!("there are more than {MOST_OF_MODULES} folders in `{}`: tidy it up", place.display())
            })?;
            let path = entry.path();
            found.extend(Some(path.clone()).filter(|path| path.join("HEAD").exists()));
            folders.push(path);
        }
    }
    Ok(found)
}

/// Which directory git uses at a place, as far as it can tell.
pub(crate) enum Site {
    /// It looks further up.
    Nothing,
    Dir(PathBuf),
    /// The file leads to this directory, if it is there.
    Led {
        link: PathBuf,
        to: Option<PathBuf>,
    },
    /// Neither a folder nor a file.
    Odd(PathBuf),
}

pub(crate) fn site(place: &Path) -> Site {
    let link = place.join(".git");
    match fs::symlink_metadata(&link) {
        Err(_) if may_be_repository(place) => Site::Dir(place.to_owned()),
        Err(_) => Site::Nothing,
        Ok(found) if found.is_dir() => Site::Dir(link),
        Ok(found) if found.is_file() => Site::Led { to: led(&link), link },
        Ok(_) => Site::Odd(link),
    }
}

/// Where such a file leads.
fn led(link: &Path) -> Option<PathBuf> {
    link.parent()?.join(line_of(link)?.strip_prefix("gitdir:")?.trim()).canonicalize().ok()
}

/// A repository that the user's git looks into, beside that of the worktree: it can be worked with, and stays where it is.
pub(super) fn other(place: &Path, root: &Path, lay: &mut Laying<'_>) -> Result<(), String> {
    // Git looks into none behind a link.
    if place.canonicalize().is_ok_and(|real| real != place) {
        return Ok(());
    }
    let dir = match site(place) {
        Site::Nothing => return Ok(()),
        Site::Odd(link) => return lay.fix(link),
        Site::Dir(dir) => Some(dir),
        Site::Led { link, to } => {
            let dir = to.clone().filter(|dir| dir.starts_with(root));
            lay.ground.settled.extend(to.filter(|_| dir.is_none()).map(|_| link.clone()));
            lay.keep([link]);
            dir
        }
    };
    let held = place.ancestors().take_while(|above| *above != root && above.starts_with(root));
    lay.ground.writable.extend(held.map(Path::to_owned));
    let open = |dir: &PathBuf| !lay.ground.guarded.contains(dir);
    if let Some(dir) = dir.filter(open) {
        guard(lay, &dir)?;
        guard_modules(lay, &dir)?;
        lay.fix(dir.join("worktrees"))?;
        lay.ground.writable.push(dir);
    }
    Ok(())
}

/// Files that settings include: they are settings as well, wherever in the workspace they are.
fn included(lay: &mut Laying<'_>, settings: &Path) {
    let mut left = vec![settings.to_owned()];
    for _ in 0..MOST_INCLUDED {
        let Some(file) = left.pop() else { return };
        let Some((folder, text)) = file.parent().zip(text_of(&file, MOST_SETTINGS)) else { continue };
        let paths = text.lines().filter_map(|line| line.split_once('=')).filter(|(key, _)| is_path(key));
        let paths = paths
            .map(|(_, value)| folder.join(value.split(['#', ';']).next().unwrap_or(value).trim().trim_matches('"')));
        let real: Vec<PathBuf> =
            paths.filter_map(|path| path.canonicalize().ok()).filter(|path| path.is_file()).collect();
        lay.keep(real.iter().cloned());
        left.extend(real);
    }
}

/// Settings that are looked through for others they include.
const MOST_INCLUDED: usize = 20;

/// `path` is what an `[include]` says; a section may stand on the same line.
fn is_path(key: &str) -> bool {
    let key = key.rsplit(']').next().unwrap_or(key).trim();
    key.eq_ignore_ascii_case("path")
}

/// Whether this is one of git's directories, made as git makes them.
pub(crate) fn is_repository(dir: &Path) -> bool {
    is_plain(&dir.join("HEAD")) && ["objects", "refs"].iter().all(|name| dir.join(name).is_dir())
}

/// Whether git could take this for one of its directories: `HEAD` may be a link, and the rest may be anything that is
/// there, or elsewhere.
pub(crate) fn may_be_repository(dir: &Path) -> bool {
    let has = |name: &str| dir.join(name).symlink_metadata().is_ok();
    has("HEAD") && (has(COMMON) || has("objects") && has("refs"))
}

/// Where the index of a working tree is.
pub(crate) fn index_of(place: &Path) -> Option<PathBuf> {
    let link = place.join(".git");
    let found = fs::symlink_metadata(&link).ok()?;
    match () {
        () if found.is_dir() => Some(link.join("index")),
        () if found.is_file() => Some(place.join(line_of(&link)?.strip_prefix("gitdir:")?.trim()).join("index")),
        () => None,
    }
}

/// What a linked worktree changes of the repository it belongs to: objects, branches and their logs.
const SHARED: &[&str] = &["objects", "refs", "logs", "lfs", "rr-cache"];
/// What it needs to see of the rest.
const SEEN: &[&str] = &[
    "HEAD",
    "config",
    masks::SETTINGS,
    "hooks",
    "info",
    "index",
    "packed-refs",
    "shallow",
    "worktrees",
    "modules",
    "branches",
];

/// The rest is not there: git makes its locks in an empty place of the sandbox's own, and nothing of the main worktree
/// can be reached.
fn share(lay: &mut Laying<'_>, common: &Path) -> Result<(), String> {
    let there = |name: &&&str| is_plain(&common.join(name));
    lay.ground.writable.extend(SHARED.iter().filter(there).map(|name| common.join(name)));
    lay.ground.fixed.extend(SEEN.iter().filter(there).map(|name| common.join(name)));
    // What must not be made there, since it would be lost with the sandbox.
    let absent = |name: &str| Some(common.join(name)).filter(|path| path.symlink_metadata().is_err());
    lay.ground.empty_files.extend(absent("packed-refs"));
    lay.ground.empty_files.extend(absent("shallow").map(|path| path.with_extension("lock")));
    lay.ground.empty_folders.extend(absent("lfs"));
    lay.ground.blank.push(common.to_owned());
    match checked_out(common).filter(|_| !is_bare(common)) {
        Some(branch) => keep_branch(lay, common, &branch),
        None => Ok(()),
    }
}

/// The branch of the main worktree stays where it is.
fn keep_branch(lay: &mut Laying<'_>, common: &Path, branch: &Path) -> Result<(), String> {
    let path = common.join(branch);
    let above = path.ancestors().skip(1).take_while(|above| **above != *common.join("refs"));
    let mut parts: Vec<&Path> = above.collect();
    parts.reverse();
    parts.push(&path);
    // One that is among the packed ones: an empty folder in its place, or above it, says nothing to git.
    let absent = |part: &&&Path| part.symlink_metadata().is_err() || lay.is_stand_in(part);
    let first = parts.iter().find(absent).copied().unwrap_or(&path);
    let held = parts.iter().take_while(|part| **part != first).map(|part| part.to_path_buf());
    lay.ground.writable.extend(held);
    lay.fix(first.to_owned())?;
    lay.keep([common.join("logs/HEAD"), common.join("logs").join(branch)]);
    Ok(())
}

/// There is no main worktree whose branch could be moved.
fn is_bare(common: &Path) -> bool {
    let says = |line: &str| line.replace([' ', '\t'], "").eq_ignore_ascii_case("bare=true");
    text_of(&common.join("config"), MOST_SETTINGS).is_some_and(|text| text.lines().any(says))
}

/// Where no file can be kept inside of an open folder, that of its own branch is open and no other.
fn share_branch(ground: &mut Ground, common: &Path, own: &Path) {
    let places = ["objects", "lfs", "rr-cache"].map(|name| common.join(name));
    let branch = checked_out(own).and_then(|branch| Some(branch.parent()?.to_owned()));
    let of_branch = branch.iter().flat_map(|folder| [common.join(folder), common.join("logs").join(folder)]);
    ground.writable.extend(places.into_iter().chain(of_branch).filter(|path| path.is_dir() && is_plain(path)));
}

/// The branch that is checked out in the worktree with this git directory, as a path below what is shared.
fn checked_out(git_dir: &Path) -> Option<PathBuf> {
    let branch = PathBuf::from(line_of(&git_dir.join("HEAD"))?.strip_prefix("ref:")?.trim());
    let plain = branch.components().all(|part| matches!(part, Component::Normal(_)));
    (plain && branch.starts_with("refs/heads")).then_some(branch)
}

/// The settings of one worktree: where they are, or would be read.
fn own_settings(common: &Path, own: &Path) -> Option<PathBuf> {
    let settings = || text_of(&common.join("config"), MOST_SETTINGS);
    let read = || settings().is_some_and(|text| text.to_lowercase().contains("worktreeconfig"));
    Some(own.join(masks::SETTINGS)).filter(|path| path.symlink_metadata().is_ok() || read())
}

/// Far more than the settings of a repository are.
const MOST_SETTINGS: u64 = 1 << 20;
/// The longest path that leads from one file of git to another.
const MOST_LINE: u64 = 8 << 10;

fn line_of(path: &Path) -> Option<String> {
    text_of(path, MOST_LINE)
}

/// The beginning of a plain file.
fn text_of(path: &Path, most: u64) -> Option<String> {
    let (file, _) = crate::files::open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// There, and no link to something else.
pub(super) fn is_plain(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink())
}
