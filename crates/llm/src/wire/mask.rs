//! Keeps secrets out of messages: a server may quote the key it was sent, and a message may be cut inside it.

use crate::Error;

/// The most of a server's words that is passed on.
const EXCERPT: usize = 500;

/// Shorter values are words rather than secrets, and blotting them out would make messages unreadable.
const SHORTEST_SECRET: usize = 8;

/// What must never be shown.
#[derive(Clone, Default)]
pub(crate) struct Masks(Vec<String>);

impl Masks {
    pub(crate) fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let long_enough = secrets.into_iter().filter(|secret| secret.len() >= SHORTEST_SECRET);
        Self(long_enough.map(str::to_owned).collect())
    }

    pub(crate) fn text(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for secret in &self.0 {
            out = out.replace(secret.as_str(), "***");
            out = without_cut_secret(out, secret);
        }
        out
    }

    pub(crate) fn error(&self, error: Error) -> Error {
        match error {
            Error::Overflow(text) => Error::Overflow(self.text(&text)),
            Error::RateLimited { message, retry_after } => {
                Error::RateLimited { message: self.text(&message), retry_after }
            }
            Error::Auth(text) => Error::Auth(self.text(&text)),
            Error::NoKey(text) => Error::NoKey(self.text(&text)),
            Error::Network(text) => Error::Network(self.text(&text)),
            Error::Refused(text) => Error::Refused(self.text(&text)),
            Error::Declined(text) => Error::Declined(self.text(&text)),
            Error::Garbage(text) => Error::Garbage(self.text(&text)),
        }
    }
}

/// An excerpt may end in the middle of the secret: half a key is still too much.
fn without_cut_secret(text: String, secret: &str) -> String {
    let kept = text.trim_end_matches('…');
    let longest = (SHORTEST_SECRET / 2..secret.len())
        .rev()
        .find(|&length| secret.is_char_boundary(length) && kept.ends_with(&secret[..length]));
    match longest {
        Some(length) => format!("{}***", &kept[..kept.len() - length]),
        None => text,
    }
}

/// The start of what a server sent, on one line and readable.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(EXCERPT * 4)];
    let text = String::from_utf8_lossy(head);
    let mut out = String::new();
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.extend(word.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }));
    }
    let cut = out.char_indices().nth(EXCERPT - 1).map(|(at, _)| at);
    if let Some(at) = cut {
        out.truncate(at);
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_key_is_blotted_out_and_a_short_word_is_not() {
        let masks = Masks::new(["sk-secret-0123456789", "x"]);
        assert_eq!(masks.text("bad key sk-secret-0123456789, axe"), "bad key ***, axe");
    }

    #[test]
    fn a_key_cut_at_the_end_is_blotted_out_too() {
        let masks = Masks::new(["sk-secret-0123456789"]);
        assert_eq!(masks.text("bad key sk-secret-01…"), "bad key ***");
        assert_eq!(masks.text("I was asked…"), "I was asked…");
    }

    #[test]
    fn an_excerpt_is_one_short_line() {
        assert_eq!(excerpt(b"  {\n \"a\":\t1\x07}\n"), "{ \"a\": 1\u{fffd}}");
        assert_eq!(excerpt("é".repeat(9_000).as_bytes()).chars().count(), 500);
        assert_eq!(excerpt(b""), "");
    }
}
