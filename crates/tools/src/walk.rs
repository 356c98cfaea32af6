//! Walking a folder as the searching tools do: ignores respected, symlinks not followed.

use ignore::{DirEntry, WalkBuilder};
use std::path::Path;

/// Entries below `root`, hidden ones too (`.github` matters), but nothing that is ignored and nothing of `.git` itself.
pub(crate) fn walk(root: &Path) -> WalkBuilder {
    let mut builder = WalkBuilder::new(root);
    builder.hidden(false).follow_links(false).require_git(false).filter_entry(|entry| !is_git(entry));
    builder
}

fn is_git(entry: &DirEntry) -> bool {
    entry.depth() > 0 && entry.file_name() == ".git"
}

/// A pattern as people write them: without a slash it is about names at any depth.
pub(crate) fn pattern(text: &str) -> Result<globset::GlobMatcher, globset::Error> {
    let anywhere = match text.strip_prefix("./") {
        Some(here) => here.to_owned(),
        None if text.contains('/') => text.to_owned(),
        None => format!("**/{text}"),
    };
    let glob = globset::GlobBuilder::new(&anywhere).literal_separator(true).build()?;
    Ok(glob.compile_matcher())
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn patterns_mean_what_people_mean() {
        for (text, path, expected) in [
            ("*.rs", "a/b.rs", true),
            ("src/*.rs", "src/b.rs", true),
            ("src/*.rs", "src/a/b.rs", false),
            ("src/**/*.rs", "src/a/b.rs", true),
            ("./src/**", "src/a/b.rs", true),
            ("./*.rs", "a/b.rs", false),
            ("*.{ts,tsx}", "x.tsx", true),
        ] {
            assert_eq!(pattern(text).unwrap().is_match(path), expected, "{text} {path}");
        }
    }
}
