//! `edit`: replaces a piece of text in a file.

mod replace;
#[cfg(test)]
mod tests;

use crate::files::{self, MAX_EDITED, Stamp, State, Text};
use crate::{Access, Error, Output, Spec, Tool, ToolCx, tolerant};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use similar::{ChangeTag, TextDiff};
use std::fs::Metadata;
use std::path::Path;
use std::time::Duration;

pub struct Edit;

/// Lines of the diff that are shown: the model knows what it asked for.
const MAX_DIFF: usize = 80;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The file: absolute, or relative to the working directory.
    #[serde(
        rename = "filePath",
        alias = "file_path",
        alias = "path",
        alias = "filepath",
        deserialize_with = "tolerant::path"
    )]
    #[schemars(with = "String")]
    file_path: String,
    /// The text to replace, as it is in the file.
    #[serde(rename = "oldString", alias = "old_string", alias = "old_str")]
    old_string: String,
    /// The text to put in its place.
    #[serde(rename = "newString", alias = "new_string", alias = "new_str")]
    new_string: String,
    /// Replace every occurrence instead of exactly one.
    #[serde(rename = "replaceAll", alias = "replace_all", default, deserialize_with = "tolerant::truth")]
    replace_all: bool,
}

/// What a reader of the result can rely on.
#[derive(Debug, Serialize)]
struct Facts {
    path: String,
    added: usize,
    removed: usize,
}

#[async_trait]
impl Tool for Edit {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("edit", include_str!("prompt.md")).aliases(&["Edit"])
    }

    fn access(&self, args: &Args, cx: &ToolCx) -> Vec<Access> {
        let mut accesses = files::changes(&files::resolve(&args.file_path, &cx.dir), cx, cx.rules());
        accesses.extend(files::by_name("edit", &args.file_path, &cx.dir, cx));
        accesses
    }

    fn preview(&self, args: &Args, cx: &ToolCx) -> Option<String> {
        let path = files::resolve(&args.file_path, &cx.dir);
        let (text, body, _) = edited(&path, args, cx).ok()?;
        Some(files::unified(&files::relative(&path, &cx.worktree), Some(&text.body), Some(&body)))
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let edit = move |cx: &ToolCx| {
            let path = files::resolve(&args.file_path, &cx.dir);
            files::permitted(&files::changes(&path, cx, cx.rules()), cx)?;
            edit(&path, &args, cx)
        };
        let (text, facts) = files::blocking("edit", cx, edit).await?;
        Ok(Output::text(text).with(&facts))
    }
}

fn edit(path: &Path, args: &Args, cx: &ToolCx) -> Result<(String, Facts), Error> {
    let seen = &cx.files;
    let _alone = seen.writing();
    let (text, body, before) = edited(path, args, cx)?;
    let stamp = files::save(path, &text.encode(&body), Some(&before), &cx.page())?;
    seen.note(path, stamp);
    Ok(describe(path, &files::relative(path, &cx.worktree), &text.body, &body))
}

/// The file as it is, and what it is to be.
fn edited(path: &Path, args: &Args, cx: &ToolCx) -> Result<(Text, String, Metadata), Error> {
    let before = files::regular(path)?;
    let tell = |why: &str| Error::tell(format!("`{}` {why}", path.display()));
    // Not read at all is fine: the old text must match.
    if cx.files.state(path, Stamp::of(&before)) == State::Changed {
        return Err(tell("was changed since you read it: read it again, then edit"));
    }
    if before.len() > MAX_EDITED {
        return Err(tell("is too large to be edited here: use `bash`"));
    }
    let bytes = files::contents(path)?;
    let text = Text::decode(bytes).ok_or_else(|| tell("is not UTF-8 text and cannot be edited here: use `bash`"))?;
    let (old, new) = (text.adopt(&args.old_string), text.adopt(&args.new_string));
    let body = replace::replace(&text.body, &old, &new, args.replace_all, &cx.cancel)?;
    Ok((text, body, before))
}

fn describe(path: &Path, shown: &str, before: &str, after: &str) -> (String, Facts) {
    // Bounded: a diff that takes longer is coarser, not better.
    let diff = TextDiff::configure().timeout(Duration::from_millis(500)).diff_lines(before, after);
    let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
    let facts =
        Facts { path: path.display().to_string(), added: count(ChangeTag::Insert), removed: count(ChangeTag::Delete) };
    let unified = diff.unified_diff().context_radius(2).to_string();
    let mut text = format!("edited `{shown}`: {} lines added, {} removed\n\n", facts.added, facts.removed);
    for line in unified.lines().take(MAX_DIFF) {
        text.push_str(&crate::output::cut_line(line, 300));
        text.push('\n');
    }
    if unified.lines().count() > MAX_DIFF {
        text.push_str("(the diff goes on)\n");
    }
    (text, facts)
}
