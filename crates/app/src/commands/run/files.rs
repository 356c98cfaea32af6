//! Files that go along with a prompt: read here, so that they mean what they mean to whoever typed their name.

use crate::failure::Failure;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proto::Error;
use proto::methods::FileInput;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What a gateway takes of one prompt.
const LARGEST: u64 = 5 * 1024 * 1024;

pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<FileInput>, Failure> {
    paths.iter().map(|path| Ok(file(path)?)).collect()
}

fn file(path: &Path) -> Result<FileInput, Error> {
    let shown = path.display();
    let cannot = |error: std::io::Error| Error::invalid(format!("cannot read `{shown}`: {error}"));
    let mut bytes = Vec::new();
    // It may be a pipe, as in `-f <(command)`.
    let note = format!("note: reading `{shown}` until it ends");
    let read = || std::fs::File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes);
    super::input::patiently(note, read).map_err(cannot)?;
    if bytes.len() as u64 > LARGEST {
        return Err(Error::invalid(format!("`{shown}` is larger than 5 MiB"))
            .hint("make it smaller, or name its path in the prompt"));
    }
    let name = path.file_name().map_or_else(|| "file".into(), |name| name.to_string_lossy().into_owned());
    Ok(FileInput { name, mime: mime(&bytes).to_owned(), data: STANDARD.encode(bytes) })
}

/// By how it begins: names lie more often.
fn mime(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        [b'%', b'P', b'D', b'F', ..] => "application/pdf",
        _ if str::from_utf8(bytes).is_ok() => "text/plain",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_it_begins_like() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n"[..], "image/png"),
            (b"\xff\xd8\xff\xe0", "image/jpeg"),
            (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
            (b"RIFF\x00\x00\x00\x00WAVE\xff", "application/octet-stream"),
            (b"%PDF-1.7", "application/pdf"),
            ("grüße".as_bytes(), "text/plain"),
            (b"", "text/plain"),
        ] {
            assert_eq!(mime(bytes), expected, "{bytes:?}");
        }
    }
}
