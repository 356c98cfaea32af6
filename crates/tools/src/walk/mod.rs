//! Walking a folder as the searching tools do: ignores respected, symlinks not followed.

mod ignores;
mod list;

use crate::door::Leave;
use ignore::{DirEntry, WalkBuilder};
use ignores::Ignores;
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Entries below `root`, hidden ones too (`.github` matters), but nothing that is ignored, nothing of `.git` itself, and
/// nothing of this program's own. The walker reads no file: what is ignored is found by [`Ignores`], with limits.
pub(crate) fn walk(root: &Path, leave: &Arc<dyn Leave>, cancel: &CancellationToken) -> WalkBuilder {
    let leave = leave.clone();
    let mut builder = WalkBuilder::new(root);
    let ignores = Ignores::new(root, cancel.clone());
    builder.standard_filters(false).follow_links(false).filter_entry(move |entry| {
        !is_git(entry) && !leave.is_private(entry.path()) && !ignores.leaves_out(entry.path(), is_dir(entry))
    });
    builder
}

fn is_git(entry: &DirEntry) -> bool {
    entry.depth() > 0 && entry.file_name() == ".git"
}

fn is_dir(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|kind| kind.is_dir())
}

/// A pattern as people write them: without a slash it is about names at any depth.
pub(crate) fn pattern(text: &str) -> Result<globset::GlobMatcher, String> {
    if let Some(why) = foreign::text::pattern_is_too_much(text) {
        return Err(why);
    }
    let anywhere = match text.strip_prefix("./") {
        Some(here) => here.to_owned(),
        None if text.contains('/') => text.to_owned(),
        None => format!("**/{text}"),
    };
    let glob = globset::GlobBuilder::new(&anywhere).literal_separator(true).build();
    Ok(glob.map_err(|error| error.to_string())?.compile_matcher())
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
