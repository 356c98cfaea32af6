//! `list`: the tree of a folder, as deep as fits.

#[cfg(test)]
mod tests;

use crate::door::Leave;
use crate::files::{self, Purpose};
use crate::walk::walk;
use crate::{Access, Error, Output, Spec, Tool, ToolCx, tolerant};
use async_trait::async_trait;
use ignore::DirEntry;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub struct List;

const MAX_ENTRIES: usize = 200;
const MAX_DEPTH: usize = 12;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The folder: absolute, or relative to the working directory, which is also the default.
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

#[async_trait]
impl Tool for List {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("list", include_str!("prompt.md")).again().aliases(&["LS", "List"])
    }

    fn access(&self, args: &Args, cx: &ToolCx) -> Vec<Access> {
        let named = args.path.as_deref().unwrap_or(".");
        let mut accesses = files::accesses("list", &files::resolve(named, &cx.dir), Purpose::Read, cx);
        accesses.extend(files::by_name("list", named, &cx.dir, cx));
        accesses
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let shown = files::blocking("list", cx, move |cx| {
            let path = files::resolve(args.path.as_deref().unwrap_or("."), &cx.dir);
            files::permitted(&files::accesses("list", &path, Purpose::Read, cx), cx)?;
            list(&path, &cx.leave, &cx.cancel)
        });
        shown.await.map(Output::text)
    }
}

fn list(root: &Path, leave: &Arc<dyn Leave>, cancel: &CancellationToken) -> Result<String, Error> {
    let found = std::fs::metadata(root).map_err(|error| files::missing(root, &error))?;
    if !found.is_dir() {
        return Err(Error::tell(format!("`{}` is a file: use `read` to see it", root.display())));
    }
    let mut entries = level(root, 1, leave, cancel)?;
    let mut complete = false;
    // Deeper and deeper while it still fits; each attempt stops as soon as it does not.
    for depth in 2..=MAX_DEPTH {
        let deeper = level(root, depth, leave, cancel)?;
        if deeper.len() == entries.len() {
            complete = true;
            break;
        }
        if deeper.len() > MAX_ENTRIES {
            break;
        }
        entries = deeper;
    }
    Ok(render(root, &entries, complete))
}

/// Everything down to `depth`, and at most one entry more than is shown.
fn level(
    root: &Path,
    depth: usize,
    leave: &Arc<dyn Leave>,
    cancel: &CancellationToken,
) -> Result<Vec<DirEntry>, Error> {
    let walker = walk(root, leave, cancel).max_depth(Some(depth)).sort_by_file_name(Ord::cmp).build();
    let mut entries = Vec::new();
    for entry in walker.flatten().filter(|entry| entry.depth() > 0).take(MAX_ENTRIES + 1) {
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        entries.push(entry);
    }
    Ok(entries)
}

fn render(root: &Path, entries: &[DirEntry], complete: bool) -> String {
    let mut text = format!("{}/\n", root.display().to_string().trim_end_matches('/'));
    for entry in entries.iter().take(MAX_ENTRIES) {
        let slash = if entry.file_type().is_some_and(|kind| kind.is_dir()) { "/" } else { "" };
        let name = entry.file_name().to_string_lossy();
        text.push_str(&format!("{}{name}{slash}\n", "  ".repeat(entry.depth())));
    }
    if entries.is_empty() {
        text.push_str("  (nothing, or nothing that is not ignored)\n");
    } else if entries.len() > MAX_ENTRIES {
        text.push_str(&format!("\n(only the first {MAX_ENTRIES} entries are shown: use `glob` to find others)\n"));
    } else if !complete {
        text.push_str("\n(deeper levels are not shown: list a subfolder to see them)\n");
    }
    text
}
