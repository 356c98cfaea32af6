//! `write`: a whole file, atomically.

#[cfg(test)]
mod tests;

use crate::files::{self, MAX_EDITED, Purpose, Seen, Stamp, State, Text};
use crate::journal::Page;
use crate::{Access, Error, Output, Spec, Tool, ToolCx, tolerant};
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fs::{self, Metadata};
use std::path::Path;

pub struct Write;

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
    /// All that the file shall hold.
    #[serde(alias = "contents", alias = "text")]
    content: String,
}

#[async_trait]
impl Tool for Write {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("write", include_str!("prompt.md")).aliases(&["Write"]).permission("edit")
    }

    fn access(&self, args: &Args, cx: &ToolCx) -> Vec<Access> {
        let mut accesses = files::accesses("edit", &files::resolve(&args.file_path, &cx.dir), Purpose::Write, cx);
        accesses.extend(files::by_name("edit", &args.file_path, &cx.dir, cx));
        accesses
    }

    fn preview(&self, args: &Args, cx: &ToolCx) -> Option<String> {
        let path = files::resolve(&args.file_path, &cx.dir);
        let name = files::relative(&path, &cx.worktree);
        let Some(before) = existing(&path).ok()? else {
            return Some(files::unified(&name, None, Some(&args.content)));
        };
        let bytes = if before.len() > MAX_EDITED { return None } else { files::contents(&path).ok()? };
        let text = Text::decode(bytes)?;
        Some(files::unified(&name, Some(&text.body), Some(&text.adopt(&args.content))))
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let write = move |cx: &ToolCx| {
            let path = files::resolve(&args.file_path, &cx.dir);
            files::permitted(&files::accesses("edit", &path, Purpose::Write, cx), cx)?;
            cx.processes.give_way(&path);
            write(&path, &args.content, &cx.files, &cx.page())
        };
        files::blocking("write", cx, write).await.map(Output::text)
    }
}

fn write(path: &Path, content: &str, seen: &Seen, page: &Page) -> Result<String, Error> {
    let _alone = seen.writing();
    let before = existing(path)?;
    let style = match &before {
        Some(before) => style(path, before, seen)?,
        None => Text::default(),
    };
    let stamp = files::save(path, &style.encode(content), before.as_ref(), page)?;
    seen.note(path, stamp);
    let what = if before.is_some() { "replaced" } else { "made" };
    let lines = content.lines().count();
    Ok(format!("{what} `{}`: {lines} lines, {} bytes", path.display(), content.len()))
}

fn existing(path: &Path) -> Result<Option<Metadata>, Error> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        _ => files::regular(path).map(Some),
    }
}

/// The line endings to keep, once it is clear that the model knows what it replaces.
fn style(path: &Path, before: &Metadata, seen: &Seen) -> Result<Text, Error> {
    let refuse = |why: &str| Err(Error::tell(format!("`{}` {why}", path.display())));
    match seen.state(path, Stamp::of(before)) {
        State::Fresh => {}
        State::Unread => return refuse("exists and you have not read it: read it first"),
        State::Changed => return refuse("was changed since you read it: read it again first"),
    }
    if before.len() > MAX_EDITED {
        return refuse("is too large to be replaced here: use `bash`");
    }
    let bytes = files::contents(path)?;
    Ok(Text::decode(bytes).unwrap_or_default())
}
