//! `read`: a text file, or a part of it, with line numbers.

mod lines;
#[cfg(test)]
mod tests;

use crate::files::{self, Purpose, Seen, Stamp};
use crate::{Access, Error, Output, Spec, Tool, ToolCx, output, tolerant};
use async_trait::async_trait;
use lines::Lines;
use schemars::JsonSchema;
use serde::Deserialize;
use std::io::{BufRead, BufReader};
use std::path::Path;
use tokio_util::sync::CancellationToken;

pub struct Read;

/// Characters shown of one line.
const MAX_LINE: usize = 2000;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The file: absolute, or relative to the working directory.
    #[serde(rename = "filePath", alias = "file_path", alias = "path", alias = "filepath")]
    file_path: String,
    /// The line to start with; the first is 1.
    #[serde(default, deserialize_with = "tolerant::number")]
    #[schemars(with = "Option<u64>")]
    offset: Option<u64>,
    /// How many lines at most.
    #[serde(default, deserialize_with = "tolerant::number")]
    #[schemars(with = "Option<u64>")]
    limit: Option<u64>,
}

#[async_trait]
impl Tool for Read {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("read", include_str!("prompt.md")).again().aliases(&["Read"])
    }

    fn access(&self, args: &Args, cx: &ToolCx) -> Vec<Access> {
        files::accesses("read", &files::resolve(&args.file_path, &cx.dir), Purpose::Read, cx)
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let path = files::resolve(&args.file_path, &cx.dir);
        files::permitted(&files::accesses("read", &path, Purpose::Read, cx), cx)?;
        let first = args.offset.unwrap_or(1).max(1);
        let count = args.limit.map_or(output::MAX_LINES, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let count = count.clamp(1, output::MAX_LINES);
        let (seen, cancel) = (std::sync::Arc::clone(&cx.files), cx.cancel.clone());
        let text = files::blocking("read", move || read(&path, first, count, &seen, &cancel)).await?;
        Ok(Output::text(text))
    }
}

fn read(path: &Path, first: u64, count: usize, seen: &Seen, cancel: &CancellationToken) -> Result<String, Error> {
    let (file, found) = files::open(path)?;
    let cannot = |error: std::io::Error| Error::tell(format!("cannot read `{}`: {error}", path.display()));
    let mut reader = BufReader::with_capacity(64 << 10, file);
    let head = reader.fill_buf().map_err(cannot)?;
    if !files::is_text(&head[..head.len().min(8 << 10)]) {
        return Err(Error::tell(format!("`{}` is {} and cannot be shown as text", path.display(), kind(head))));
    }
    let shown = show(Lines::new(reader), first, count, cancel)?;
    seen.note(path, Stamp::of(&found));
    Ok(shown)
}

fn show(mut lines: Lines, first: u64, count: usize, cancel: &CancellationToken) -> Result<String, Error> {
    let cannot = |error: std::io::Error| Error::tell(format!("cannot read on: {error}"));
    let mut text = String::new();
    let mut last = 0_u64;
    while let Some(line) = lines.next(MAX_LINE).map_err(cannot)? {
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let number = last + 1;
        let shown = number.saturating_sub(first);
        if number >= first && (shown >= count as u64 || text.len() + line.len() > output::MAX_BYTES) {
            text.push_str(&format!("\n(more lines follow: read on with offset {number})"));
            return Ok(text);
        }
        last = number;
        if number >= first {
            text.push_str(&format!("{number:>6}\t{line}\n"));
        }
    }
    match last {
        0 => Ok("(the file is empty)".into()),
        _ if text.is_empty() => Err(Error::tell(format!("there is no line {first}: the file has {last} lines"))),
        _ => Ok(format!("{text}\n(end of the file: {last} lines)")),
    }
}

fn kind(head: &[u8]) -> &'static str {
    let image = [&b"\x89PNG"[..], b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM"];
    match head {
        _ if image.iter().any(|magic| head.starts_with(magic)) => "an image",
        _ if head.starts_with(b"%PDF") => "a PDF",
        _ => "a binary file",
    }
}
