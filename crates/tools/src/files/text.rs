//! A text file as a model sees it, and back as it was written: byte order mark and line endings are kept.

const MARK: &str = "\u{feff}";

/// The text of a file, with `\n` at the ends of lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Text {
    pub(crate) body: String,
    mark: bool,
    endings: Endings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Endings {
    #[default]
    Lf,
    Crlf,
    /// Both kinds: lines that are not touched must stay as they are, so nothing is converted.
    Mixed,
}

impl Text {
    /// `None` when it is not UTF-8.
    pub(crate) fn decode(bytes: Vec<u8>) -> Option<Self> {
        let text = String::from_utf8(bytes).ok()?;
        let (mark, body) = match text.strip_prefix(MARK) {
            Some(rest) => (true, rest),
            None => (false, text.as_str()),
        };
        let (all, crlf) = (body.matches('\n').count(), body.matches("\r\n").count());
        let endings = match crlf {
            0 => Endings::Lf,
            _ if crlf == all => Endings::Crlf,
            _ => Endings::Mixed,
        };
        let body = if endings == Endings::Crlf { body.replace("\r\n", "\n") } else { body.to_owned() };
        Some(Self { body, mark, endings })
    }

    /// A piece of text a model sent, with the line endings `body` has.
    pub(crate) fn adopt(&self, piece: &str) -> String {
        match self.endings {
            Endings::Lf | Endings::Crlf => piece.replace("\r\n", "\n"),
            Endings::Mixed => piece.to_owned(),
        }
    }

    /// The bytes of the same file with another body.
    pub(crate) fn encode(&self, body: &str) -> Vec<u8> {
        let body = body.strip_prefix(MARK).filter(|_| self.mark).unwrap_or(body);
        let body = match self.endings {
            // A body that already has them keeps them, rather than getting them twice.
            Endings::Crlf => body.replace("\r\n", "\n").replace('\n', "\r\n"),
            Endings::Lf | Endings::Mixed => body.to_owned(),
        };
        if self.mark { format!("{MARK}{body}").into_bytes() } else { body.into_bytes() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(file: &str, seen: &str, body: &str, written: &str) {
        let text = Text::decode(file.as_bytes().to_vec()).unwrap();
        assert_eq!(text.body, seen);
        assert_eq!(String::from_utf8(text.encode(body)).unwrap(), written);
    }

    #[test]
    fn marks_and_line_endings_are_kept() {
        check("a\nb\n", "a\nb\n", "x\n", "x\n");
        check("a\r\nb\r\n", "a\nb\n", "x\ny\n", "x\r\ny\r\n");
        check("\u{feff}a\r\n", "a\n", "\u{feff}x\r\n", "\u{feff}x\r\n");
        check("a\r\nb\n", "a\r\nb\n", "a\r\nc\n", "a\r\nc\n");
        check("", "", "x\r\n", "x\r\n");
    }

    #[test]
    fn what_is_not_utf8_is_no_text() {
        assert_eq!(Text::decode(vec![0xff, 0xfe]), None);
    }
}
