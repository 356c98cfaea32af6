//! `read`: a text file, or a part of it, with line numbers; an image or a PDF to look at.

pub(crate) mod lines;
#[cfg(test)]
mod tests;

use crate::files::{self, Purpose, Seen, Stamp};
use crate::{Access, Error, Output, Spec, Tool, ToolCx, output, tolerant};
use async_trait::async_trait;
use base64::Engine;
use lines::Lines;
use proto::entry::File;
use schemars::JsonSchema;
use serde::Deserialize;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use tokio_util::sync::CancellationToken;

pub struct Read;

/// Characters shown of one line.
const MAX_LINE: usize = 2000;
/// The largest image or document: what the vendors take.
const MAX_PICTURE: u64 = 5 << 20;

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
        let mut accesses = files::accesses("read", &files::resolve(&args.file_path, &cx.dir), Purpose::Read, cx);
        accesses.extend(files::by_name("read", &args.file_path, &cx.dir, cx));
        accesses
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let first = args.offset.unwrap_or(1).max(1);
        let count = args.limit.map_or(output::MAX_LINES, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let count = count.clamp(1, output::MAX_LINES);
        let read = move |cx: &ToolCx| {
            let path = files::resolve(&args.file_path, &cx.dir);
            files::permitted(&files::accesses("read", &path, Purpose::Read, cx), cx)?;
            read(&path, first, count, &cx.files, &cx.cancel)
        };
        files::blocking("read", cx, read).await
    }
}

fn read(path: &Path, first: u64, count: usize, seen: &Seen, cancel: &CancellationToken) -> Result<Output, Error> {
    let (file, found) = files::open(path)?;
    let cannot = |error: std::io::Error| Error::tell(format!("cannot read `{}`: {error}", path.display()));
    let mut reader = BufReader::with_capacity(64 << 10, file);
    let head = reader.fill_buf().map_err(cannot)?;
    if let Some(mime) = picture(head) {
        return look(path, mime, found.len(), reader);
    }
    if !files::is_text(&head[..head.len().min(8 << 10)]) {
        return Err(Error::tell(format!("`{}` is a binary file and cannot be shown", path.display())));
    }
    let shown = show(Lines::new(reader), first, count, cancel)?;
    seen.note(path, Stamp::of(&found));
    Ok(Output::text(shown))
}

/// Something to look at, whole.
fn look(path: &Path, mime: &str, size: u64, reader: impl std::io::Read) -> Result<Output, Error> {
    let cannot = |why: String| Error::tell(format!("cannot show `{}`: {why}", path.display()));
    if size > MAX_PICTURE {
        return Err(cannot(format!("it has {size} bytes, and {MAX_PICTURE} can be shown: make it smaller")));
    }
    let mut bytes = Vec::new();
    reader.take(MAX_PICTURE).read_to_end(&mut bytes).map_err(|error| cannot(error.to_string()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = format!("`{name}`: {mime}, {} bytes", bytes.len());
    let file = File { name, mime: mime.into(), data: base64::engine::general_purpose::STANDARD.encode(bytes) };
    Ok(Output { files: vec![file], ..Output::text(text) })
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

/// What models with eyes can look at, by how it begins.
fn picture(head: &[u8]) -> Option<&'static str> {
    match head {
        _ if head.starts_with(b"\x89PNG\r\n\x1a\n") => Some("image/png"),
        _ if head.starts_with(b"\xff\xd8\xff") => Some("image/jpeg"),
        _ if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") => Some("image/gif"),
        _ if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") => Some("image/webp"),
        _ if head.starts_with(b"%PDF-") => Some("application/pdf"),
        _ => None,
    }
}
