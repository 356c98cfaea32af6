//! Paths a model names: where they really lead, how rules see them, and whether they leave the session's place.

use super::MAX_EDITED;
use crate::sandbox::Hiding;
use crate::{Access, Error, ToolCx};
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// Symlinks followed in one path; the kernel's own limit.
const MAX_LINKS: usize = 40;
/// Entries of a folder looked at for a name like the one that is missing.
const MAX_CANDIDATES: usize = 2000;

/// Where `path` leads, seen from `dir`: absolute, with every symlink followed and every `..` taken, also where the rest
/// of the path does not exist yet. Rules must judge this and nothing else.
pub fn resolve(path: impl AsRef<Path>, dir: &Path) -> PathBuf {
    let mut at = PathBuf::from("/");
    let mut links = 0;
    // The next part is at the end.
    let mut parts = parts(&dir.join(path));
    while let Some(part) = parts.pop() {
        match part.as_os_str().to_str() {
            Some("/") => at = PathBuf::from("/"),
            Some("..") => _ = at.pop(),
            Some(".") => {}
            _ => {
                at.push(&part);
                // What is longer than the kernel takes names nothing, and asking would take longer with every part.
                let short = at.as_os_str().len() < foreign::LONGEST_PATH && links < MAX_LINKS;
                if let Some(target) = short.then(|| fs::read_link(&at).ok()).flatten() {
                    links += 1;
                    at.pop();
                    parts.extend(self::parts(&target));
                }
            }
        }
    }
    at
}

fn parts(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part: Component<'_>| part.as_os_str().to_owned()).collect()
}

/// A resolved path as rules see it: relative to the worktree, or whole when it is outside.
pub fn relative(path: &Path, worktree: &Path) -> String {
    match path.strip_prefix(worktree) {
        Ok(rest) if rest.as_os_str().is_empty() => ".".into(),
        Ok(rest) => rest.display().to_string(),
        Err(_) => path.display().to_string(),
    }
}

/// What a path is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Read,
    Write,
}

/// What counts as inside of a session's place.
#[derive(Debug, Clone, Copy)]
pub struct Inside<'a> {
    pub dir: &'a Path,
    pub worktree: &'a Path,
    pub outputs: &'a Path,
}

impl<'a> From<&'a ToolCx> for Inside<'a> {
    fn from(cx: &'a ToolCx) -> Self {
        Self { dir: &cx.dir, worktree: &cx.worktree, outputs: &cx.outputs }
    }
}

/// The further access to ask for when a resolved path is outside of the session's directory and worktree.
pub fn outside<'a>(path: &Path, purpose: Purpose, inside: impl Into<Inside<'a>>) -> Option<Access> {
    let inside = inside.into();
    // What was saved for the model to read later needs no asking.
    let saved = purpose == Purpose::Read && path.starts_with(inside.outputs);
    if saved || path.starts_with(inside.dir) || path.starts_with(inside.worktree) {
        return None;
    }
    let dir = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    let pattern = format!("{}/*", dir.display().to_string().trim_end_matches('/'));
    Some(Access::new("external_directory", &pattern).always(pattern))
}

/// The name by which a path was asked for, when it leads elsewhere by a symlink: rules may speak of either.
pub fn by_name<'a>(permission: &str, path: &str, dir: &Path, inside: impl Into<Inside<'a>>) -> Option<Access> {
    let mut named = PathBuf::new();
    for part in dir.join(path).components() {
        match part {
            Component::ParentDir => _ = named.pop(),
            Component::CurDir => {}
            other => named.push(other),
        }
    }
    let leads = resolve(path, dir);
    (named != leads).then(|| access(permission, &named, inside.into().worktree))
}

/// The same for all that is below a folder.
pub fn below_name<'a>(permission: &str, path: &str, dir: &Path, inside: impl Into<Inside<'a>>) -> Option<Access> {
    let Access { pattern, .. } = by_name(permission, path, dir, inside)?;
    let below = format!("{pattern}/*");
    Some(Access::new(permission, &below).always(below))
}

/// What touching a file asks for. "Always" is for this file, or for its folder.
pub fn access(permission: &str, path: &Path, worktree: &Path) -> Access {
    let file = relative(path, worktree);
    if !matches!(permission, "read" | "edit") {
        return Access::new(permission, file);
    }
    let folder = file.rsplit_once('/').map_or_else(|| "*".to_owned(), |(folder, _)| format!("{folder}/*"));
    // As a rule, a wildcard in a name would allow more than this.
    let plain = |name: &str| !name.contains(['*', '?']);
    let this = Some(file.clone()).filter(|file| plain(file));
    let around = Some(folder.clone()).filter(|_| plain(folder.trim_end_matches('*')));
    Access::new(permission, file).always_one_of(this.into_iter().chain(around))
}

/// All that touching a resolved path asks for: the permission itself, and leave to go outside.
pub fn accesses<'a>(permission: &str, path: &Path, purpose: Purpose, inside: impl Into<Inside<'a>>) -> Vec<Access> {
    let inside = inside.into();
    let mut accesses = vec![access(permission, path, inside.worktree)];
    accesses.extend(outside(path, purpose, inside));
    if purpose == Purpose::Write {
        accesses.extend(protected(path, inside.worktree));
    }
    accesses
}

/// All that changing a file asks for which is there: what it holds is shown by the way, or goes on under another name. So
/// one that a rule keeps from being read asks for that as well; a rule for all reading is about the tool, and not meant.
pub fn changes<'a>(path: &Path, inside: impl Into<Inside<'a>>, rules: Option<&rules::Policy>) -> Vec<Access> {
    let inside = inside.into();
    let mut accesses = accesses("edit", path, Purpose::Write, inside);
    if rules.is_none_or(|rules| Hiding::of(rules).hides(path, inside.worktree)) {
        accesses.push(access("read", path, inside.worktree));
    }
    accesses
}

/// Folders whose files decide what runs later: settings, agents, hooks. A sandbox keeps commands from changing them.
const DECIDING: [&str; 4] = [".git", ".convoke", ".claude", ".opencode"];
const SETTINGS: [&str; 2] = ["convoke.json", "convoke.jsonc"];

/// The further access to ask for when a resolved path is one that decides what runs later.
pub fn protected(path: &Path, worktree: &Path) -> Option<Access> {
    let below = path.strip_prefix(worktree).unwrap_or(path);
    let parts: Vec<&str> = below.iter().map(|part| part.to_str().unwrap_or_default()).collect();
    // Worktrees of other sessions hold ordinary files.
    let tree = parts.windows(2).position(|pair| DECIDING.contains(&pair[0]) && pair[1] == "worktrees");
    let parts = &parts[tree.filter(|at| parts[*at] != ".git").map_or(0, |at| parts.len().min(at + 3))..];
    let named = parts.last().is_some_and(|name| SETTINGS.contains(name));
    let decides = named || parts.iter().any(|part| DECIDING.contains(part));
    decides.then(|| {
        let pattern = relative(path, worktree);
        Access::new("protected", &pattern).always(pattern)
    })
}

/// Whether a path that was resolved just now is one this call may touch. What was judged when the call was made may have
/// led elsewhere.
pub(crate) fn permitted(accesses: &[Access], cx: &ToolCx) -> Result<(), Error> {
    match accesses.iter().find(|access| !cx.leave.has(&access.permission, &access.pattern)) {
        None => Ok(()),
        Some(Access { permission, pattern, .. }) => Err(Error::tell(format!(
            "it leads elsewhere than when this call was judged: there is no leave for `{permission}` of `{pattern}`"
        ))),
    }
}

/// A plain file, opened for reading.
pub(crate) fn open(path: &Path) -> Result<(File, Metadata), Error> {
    regular(path)?;
    open_known(path)
}

/// One that was a plain file a moment ago. Opening a device can set it in motion, so anything else is looked at first.
pub(crate) fn open_known(path: &Path) -> Result<(File, Metadata), Error> {
    let file = foreign::open(path).map_err(|error| missing(path, &error))?;
    // What was looked at may have been replaced meanwhile.
    let found = file.metadata().map_err(|error| missing(path, &error))?;
    plain(path, &found)?;
    Ok((file, found))
}

/// All of a plain file, up to what is edited or kept.
pub(crate) fn contents(path: &Path) -> Result<Vec<u8>, Error> {
    let (file, found) = open(path)?;
    let most = MAX_EDITED.max(crate::journal::MOST as u64);
    let mut bytes = Vec::with_capacity(usize::try_from(found.len().min(most)).unwrap_or_default());
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| missing(path, &error))?;
    if bytes.len() as u64 > most {
        return Err(Error::tell(format!("`{}` has more than {most} bytes by now: use `bash`", path.display())));
    }
    Ok(bytes)
}

/// The metadata of a plain file; anything else is told with what to do about it.
pub(crate) fn regular(path: &Path) -> Result<Metadata, Error> {
    let found = foreign::look(path).map_err(|error| missing(path, &error))?;
    plain(path, &found)?;
    Ok(found)
}

/// What is there, if anything is.
pub(crate) fn found(path: &Path) -> io::Result<Option<Metadata>> {
    match foreign::look(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

fn plain(path: &Path, found: &Metadata) -> Result<(), Error> {
    if found.is_dir() {
        return Err(Error::tell(format!("`{}` is a directory: use `list` to see what is in it", path.display())));
    }
    if !found.is_file() {
        return Err(Error::tell(format!("`{}` is not a plain file and cannot be read or written", path.display())));
    }
    Ok(())
}

/// Whether a symlink was in the way of an opening.
pub(super) fn swapped(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    code == Some(rustix::io::Errno::LOOP)
}

pub(super) fn elsewhere(path: &Path) -> Error {
    let path = path.display();
    Error::tell(format!(
        "`{path}` leads elsewhere than a moment ago: a symlink was put in its way, so it was not touched"
    ))
}

/// Why a file cannot be opened, with names that may have been meant.
pub(crate) fn missing(path: &Path, error: &io::Error) -> Error {
    if swapped(error) {
        return elsewhere(path);
    }
    if error.kind() != io::ErrorKind::NotFound {
        return Error::tell(format!("cannot open `{}`: {error}", path.display()));
    }
    let similar = similar_names(path);
    if similar.is_empty() {
        return Error::tell(format!("`{}` does not exist: look for it with `glob`", path.display()));
    }
    Error::tell(format!("`{}` does not exist. Did you mean `{}`?", path.display(), similar.join("` or `")))
}

fn similar_names(path: &Path) -> Vec<String> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Vec::new() };
    let name = name.to_string_lossy().to_lowercase();
    let entries = fs::read_dir(parent).into_iter().flatten().flatten().take(MAX_CANDIDATES);
    let names: Vec<(String, String)> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .map(|name| (name.to_lowercase(), name))
        .collect();
    let lower: Vec<&str> = names.iter().map(|(lower, _)| lower.as_str()).collect();
    let close = similar::get_close_matches(name.as_str(), &lower, 3, 0.6);
    let original = |close: &&str| names.iter().find(|(lower, _)| lower == close).map(|(_, name)| name);
    close.iter().filter_map(original).map(|name| parent.join(name).display().to_string()).collect()
}

/// Whether the first bytes of a file look like text.
pub(crate) fn is_text(head: &[u8]) -> bool {
    let odd = head.iter().filter(|byte| **byte < 9 || (14..27).contains(*byte) || (28..32).contains(*byte)).count();
    // A NUL settles it; a few stray control characters (a log with colours, a form feed) do not.
    !head.contains(&0) && odd * 10 <= head.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Place;
    use std::os::unix::fs::symlink;

    #[test]
    fn files_that_decide_what_runs_later_are_asked_for_by_a_name_of_their_own() {
        let place = Place::new();
        let protected = |path: &str| protected(&place.dir().join(path), place.dir()).map(|access| access.pattern);
        for path in [
            ".git",
            ".git/config",
            "sub/.git/hooks/pre-commit",
            ".git/worktrees/one/config.worktree",
            ".convoke/agents/a.md",
            "sub/.convoke/convoke.json",
            "convoke.json",
            "sub/convoke.jsonc",
            ".claude/settings.json",
            ".opencode/agents/a.md",
            ".convoke/worktrees/one/.git",
            ".convoke/worktrees/one/convoke.json",
            "/home/me/.convoke/agents/a.md",
        ] {
            assert!(protected(path).is_some(), "{path}");
        }
        for path in
            ["src/a.rs", ".gitignore", ".github/workflows/a.yml", "AGENTS.md", ".convoke/worktrees/one/src/a.rs"]
        {
            assert_eq!(protected(path), None, "{path}");
        }
        // A worktree is where its files are, wherever it lies.
        let tree = place.dir().join(".convoke/worktrees/one");
        assert!(super::protected(&tree.join("a.rs"), &tree).is_none());
        assert!(super::protected(&tree.join(".git"), &tree).is_some());
    }

    #[test]
    fn paths_are_resolved_before_anyone_judges_them() {
        let place = Place::new();
        let dir = place.dir();
        fs::create_dir(dir.join("real")).unwrap();
        symlink("real", dir.join("link")).unwrap();
        symlink("/etc/nowhere", dir.join("dangling")).unwrap();
        symlink("loop", dir.join("loop")).unwrap();
        let cases = [
            ("a.rs", dir.join("a.rs")),
            ("./link/../b", dir.join("b")),
            ("link/new/file", dir.join("real/new/file")),
            ("missing/../link/x", dir.join("real/x")),
            ("dangling", "/etc/nowhere".into()),
            ("../../../../../../../../etc/hosts", "/etc/hosts".into()),
            ("/etc/../etc/./hosts", "/etc/hosts".into()),
            ("loop/x", dir.join("loop/x")),
        ];
        for (path, expected) in cases {
            assert_eq!(resolve(path, dir), expected, "{path}");
        }
    }

    #[test]
    fn outside_is_asked_for_and_inside_is_not() {
        let place = Place::new();
        let cx = place.cx();
        let pattern = |path: &Path, purpose| outside(path, purpose, &cx).map(|access| access.pattern);
        assert_eq!(pattern(&cx.dir.join("x"), Purpose::Write), None);
        assert_eq!(pattern(&cx.worktree, Purpose::Read), None);
        assert_eq!(pattern(&cx.outputs.join("call.txt"), Purpose::Read), None);
        let outputs = Some(format!("{}/*", cx.outputs.display()));
        assert_eq!(pattern(&cx.outputs.join("call.txt"), Purpose::Write), outputs);
        assert_eq!(pattern(Path::new("/etc/hosts"), Purpose::Read).as_deref(), Some("/etc/*"));
        assert_eq!(pattern(Path::new("/etc"), Purpose::Read).as_deref(), Some("/etc/*"));
        assert_eq!(pattern(Path::new("/x"), Purpose::Write).as_deref(), Some("/*"));
    }

    #[test]
    fn rules_see_names_relative_to_the_worktree() {
        assert_eq!(relative(Path::new("/w/src/a.rs"), Path::new("/w")), "src/a.rs");
        assert_eq!(relative(Path::new("/w"), Path::new("/w")), ".");
        assert_eq!(relative(Path::new("/work"), Path::new("/w")), "/work");
    }

    #[test]
    fn a_missing_file_names_its_neighbours() {
        let place = Place::new();
        place.file("Readme.md", "");
        let error = regular(&place.dir().join("README.md")).unwrap_err().to_string();
        assert!(error.contains("Readme.md`?"), "{error}");
        let error = regular(&place.dir().join("zzz")).unwrap_err().to_string();
        assert!(error.contains("`glob`"), "{error}");
    }

    #[test]
    fn text_is_told_from_the_rest() {
        assert!(is_text(b"") && is_text("grün\r\n\x1b[1mfett".as_bytes()) && is_text(&[0xff, b'a', b'b']));
        assert!(!is_text(b"\x7fELF\0\0") && !is_text(&[1, 2, 3, 4, 5]));
    }
}
