//! `glob`: files by name, the newest first.

#[cfg(test)]
mod tests;

use crate::door::Leave;
use crate::files::{self, Purpose};
use crate::walk::{pattern, walk};
use crate::{Access, Error, Output, Spec, Tool, ToolCx, output, tolerant};
use async_trait::async_trait;
use globset::GlobMatcher;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tokio_util::sync::CancellationToken;

pub struct Glob;

const MAX_FILES: usize = 100;
/// Matches held at once before the oldest are dropped.
const MAX_HELD: usize = 10_000;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// Pattern of paths, such as `src/**/*.rs`.
    #[serde(deserialize_with = "tolerant::pattern")]
    #[schemars(with = "String")]
    pattern: String,
    /// The folder to look in; the working directory unless given.
    #[serde(
        default,
        alias = "filePath",
        alias = "file_path",
        alias = "dir",
        alias = "directory",
        deserialize_with = "tolerant::maybe_path"
    )]
    #[schemars(with = "Option<String>")]
    path: Option<String>,
}

impl Args {
    /// The folder to walk and the pattern below it. An absolute pattern brings its own folder.
    fn split(&self, dir: &Path) -> (PathBuf, String) {
        if !self.pattern.starts_with('/') {
            return (files::resolve(self.path.as_deref().unwrap_or("."), dir), self.pattern.clone());
        }
        let special = self.pattern.find(['*', '?', '[', '{']).unwrap_or(self.pattern.len());
        let slash = self.pattern[..special].rfind('/').unwrap_or(0);
        // The slash goes along as `./`, so that a bare name stays at this level.
        (files::resolve(&self.pattern[..=slash], dir), format!("./{}", &self.pattern[slash + 1..]))
    }
}

#[async_trait]
impl Tool for Glob {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("glob", include_str!("prompt.md")).again().aliases(&["Glob"])
    }

    fn access(&self, args: &Args, cx: &ToolCx) -> Vec<Access> {
        let (root, _) = args.split(&cx.dir);
        let mut accesses = vec![Access::new("glob", &args.pattern)];
        accesses.extend(files::outside(&root, Purpose::Read, cx));
        accesses
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let found = files::blocking("glob", cx, move |cx| {
            let (root, text) = args.split(&cx.dir);
            if text.split('/').any(|part| part == "..") {
                return Err(Error::tell("a pattern cannot have `..`: give the folder as `path`"));
            }
            files::permitted(files::outside(&root, Purpose::Read, cx).as_slice(), cx)?;
            let matcher = pattern(&text).map_err(|error| Error::tell(format!("bad pattern: {error}")))?;
            find(&root, &matcher, &cx.leave, &cx.cancel)
        });
        Ok(Output::text(output::cut(found.await?, cx).await))
    }
}

fn find(
    root: &Path,
    matcher: &GlobMatcher,
    leave: &Arc<dyn Leave>,
    cancel: &CancellationToken,
) -> Result<String, Error> {
    std::fs::metadata(root).map_err(|error| files::missing(root, &error))?;
    let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
    let mut total = 0_usize;
    for entry in walk(root, leave, cancel).build().flatten() {
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        if leave.is_private(entry.path()) {
            continue;
        }
        let below = entry.path().strip_prefix(root).unwrap_or(entry.path());
        if entry.file_type().is_none_or(|kind| kind.is_dir()) || !matcher.is_match(below) {
            continue;
        }
        let changed = entry.metadata().ok().and_then(|meta| meta.modified().ok()).unwrap_or(SystemTime::UNIX_EPOCH);
        found.push((changed, entry.into_path()));
        total += 1;
        if found.len() >= MAX_HELD {
            keep_newest(&mut found);
        }
    }
    keep_newest(&mut found);
    Ok(render(&found, total))
}

fn keep_newest(found: &mut Vec<(SystemTime, PathBuf)>) {
    found.sort_by(|(a, left), (b, right)| b.cmp(a).then_with(|| left.cmp(right)));
    found.truncate(MAX_FILES);
}

fn render(found: &[(SystemTime, PathBuf)], total: usize) -> String {
    if found.is_empty() {
        return "no file matches".into();
    }
    let mut text: String = found.iter().map(|(_, path)| format!("{}\n", path.display())).collect();
    if total > found.len() {
        text.push_str(&format!("\n(the newest {} of {total} files: narrow the pattern to see others)\n", found.len()));
    }
    text
}
