//! Files in a prompt: which of them a model can look at, and how the others are put into words.

use crate::FileRef;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;

/// How a file is shown to a model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    /// As an image.
    Image,
    /// As a document.
    Pdf,
    /// Every model reads words: a text itself, or that there is something it cannot see.
    Words(Cow<'static, str>),
}

/// What models with eyes take everywhere.
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

pub(crate) fn shown(file: &FileRef<'_>) -> Shown {
    if IMAGES.contains(&file.mime) {
        return Shown::Image;
    }
    if file.mime == "application/pdf" {
        return Shown::Pdf;
    }
    let name = file.name.escape_debug();
    let text = STANDARD.decode(file.data).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    Shown::Words(Cow::Owned(match text.filter(|text| !text.contains('\0')) {
        Some(text) => format!("<file name=\"{name}\">\n{text}\n</file>"),
        None => format!("[the file `{name}` ({}) cannot be shown to a model]", file.mime.escape_debug()),
    }))
}

pub(crate) fn data_url(file: &FileRef<'_>) -> String {
    format!("data:{};base64,{}", file.mime, file.data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mime: &str, data: &str, expected: &str) {
        let words = match shown(&FileRef { name: "n", mime, data }) {
            Shown::Image => "image".into(),
            Shown::Pdf => "pdf".into(),
            Shown::Words(words) => words,
        };
        assert_eq!(words, expected);
    }

    #[test]
    fn what_cannot_be_looked_at_is_put_into_words() {
        check("image/png", "AAAA", "image");
        check("application/pdf", "AAAA", "pdf");
        check("application/json", "e30=", "<file name=\"n\">\n{}\n</file>");
        check("application/zip", "AAAA", "[the file `n` (application/zip) cannot be shown to a model]");
        check("text/plain", "not base64!", "[the file `n` (text/plain) cannot be shown to a model]");
    }
}
