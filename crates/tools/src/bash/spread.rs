//! What a pattern for names of files stands for: `/e*/passwd` is `/etc/passwd`.

use std::path::{Component, Path, PathBuf};

use globset::{Glob, GlobMatcher};

/// Paths that one pattern may stand for, and names of a folder that are looked at. Of more, the folder is taken in which
/// they are.
const MOST_PATHS: usize = 16;
const MOST_NAMES: usize = 10_000;

/// The paths that are there. A path without a pattern is itself.
pub(super) fn paths(path: &Path) -> Vec<PathBuf> {
    let parts: Vec<Component> = path.components().collect();
    let Some(first) = parts.iter().position(is_pattern) else { return vec![path.to_owned()] };
    let stem: PathBuf = parts[..first].iter().collect();
    let mut found = vec![stem.clone()];
    for part in &parts[first..] {
        if !is_pattern(part) {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        }
        match found.iter().map(|dir| names(dir, part)).collect::<Option<Vec<_>>>().map(|paths| paths.concat()) {
            Some(paths) if paths.len() <= MOST_PATHS => found = paths,
            _ => return vec![stem],
        }
    }
    found.retain(|path| path.symlink_metadata().is_ok());
    found
}

fn is_pattern(part: &Component) -> bool {
    part.as_os_str().to_string_lossy().contains(['*', '?', '['])
}

/// What a folder has by such names; nothing when that takes too long to say.
fn names(dir: &Path, pattern: &Component) -> Option<Vec<PathBuf>> {
    let Ok(entries) = dir.read_dir() else { return Some(Vec::new()) };
    let pattern = matcher(&pattern.as_os_str().to_string_lossy())?;
    let mut paths = Vec::new();
    for (at, entry) in entries.filter_map(Result::ok).enumerate() {
        if at == MOST_NAMES || paths.len() > MOST_PATHS {
            return None;
        }
        if pattern.is_match(Path::new(&entry.file_name())) {
            paths.push(entry.path());
        }
    }
    Some(paths)
}

fn matcher(pattern: &str) -> Option<GlobMatcher> {
    // The shell writes a class that is turned round with `^` as well.
    Glob::new(&pattern.replace("[^", "[!")).ok().map(|glob| glob.compile_matcher())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_the_paths_that_are_there() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["one/a", "one/b", "two/a"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let found = |pattern: &str| {
            let mut found = paths(&dir.path().join(pattern));
            found.sort();
            found.iter().map(|path| path.strip_prefix(dir.path()).unwrap().display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(found("one/a"), ["one/a"]);
        assert_eq!(found("gone/a"), ["gone/a"], "not a pattern");
        assert_eq!(found("o*/a"), ["one/a"]);
        assert_eq!(found("*/?"), ["one/a", "one/b", "two/a"]);
        assert_eq!(found("[^o]*/[ab]"), ["two/a"]);
        assert_eq!(found("*/c"), [""; 0]);
        for at in 0..=MOST_PATHS {
            std::fs::write(dir.path().join("one").join(format!("many{at}")), "").unwrap();
        }
        assert_eq!(found("o*/many*"), [""], "the folder in which they are");
    }
}
