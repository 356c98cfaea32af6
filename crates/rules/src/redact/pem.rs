//! Private keys between their marks, whole or cut short.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::spans::Spans;

/// A key of 16,384 bits takes 13 KiB; marks further apart belong to code that speaks about keys.
const LONGEST: usize = 16 << 10;

static MARK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new("-----(BEGIN|END) [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----").expect("the pattern is tested")
});

/// Long runs of base64 with little between them (line breaks, line numbers, headers), and the start of one more line
/// where the text ends in it.
static BODY: LazyLock<Regex> = LazyLock::new(|| {
    let body = r"\A(?s:.{0,80}?[A-Za-z0-9+/=]{32,})+(?:[ \t\r\n]{0,8}[A-Za-z0-9+/=]{1,31}\z)?";
    Regex::new(body).expect("the pattern is tested")
});

struct Mark {
    begins: bool,
    place: Range<usize>,
}

pub(super) fn find(text: &str, spans: &mut Spans) {
    let marks: Vec<Mark> = MARK.captures_iter(text).map(|found| mark(&found)).collect();
    for (index, mark) in marks.iter().enumerate().filter(|(_, mark)| mark.begins) {
        let start = mark.place.start;
        match marks.get(index + 1) {
            Some(end) if !end.begins && end.place.start - mark.place.end <= LONGEST => spans.push(start..end.place.end),
            next => {
                // Never past the next mark, so that no part of the text is looked at twice.
                let rest = &text[mark.place.end..next.map_or(text.len(), |next| next.place.start)];
                let body = BODY.find(rest).map(|body| start..mark.place.end + body.end());
                body.into_iter().for_each(|span| spans.push(span));
            }
        }
    }
}

/// The place of a mark whose key is not at its end.
pub(super) fn open(text: &str) -> Option<usize> {
    let last = MARK.captures_iter(text).last().map(|found| mark(&found))?;
    last.begins.then_some(last.place.start)
}

fn mark(found: &regex::Captures<'_>) -> Mark {
    let place = found.get(0).map_or(0..0, |whole| whole.range());
    Mark { begins: found.get(1).is_some_and(|word| word.as_str() == "BEGIN"), place }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let mut spans = Spans::default();
        find(text, &mut spans);
        assert_eq!(spans.mask(text).as_deref().unwrap_or(text), expected);
    }

    fn line() -> String {
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC".repeat(2)
    }

    #[test]
    fn a_block_is_masked_from_mark_to_mark() {
        for kind in ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "] {
            let key = format!("-----BEGIN {kind}PRIVATE KEY-----\n{}\nab==\n-----END {kind}PRIVATE KEY-----", line());
            check(&format!("before\n{key}\nafter"), "before\n***\nafter");
        }
        check("-----BEGIN PRIVATE KEY-----\nc2hvcnQ=\n-----END PRIVATE KEY-----", "***");
        let block = format!("-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{}\n-----END PGP PRIVATE KEY BLOCK-----", line());
        check(&block, "***");
    }

    #[test]
    fn a_block_cut_short_is_masked_as_far_as_it_goes() {
        let key = format!("-----BEGIN PRIVATE KEY-----\n{}\n{}\n", line(), line());
        check(&key, "***\n");
        check(&format!("{key}MIIEvQ"), "***");
        check(&format!("{key}\n[cut]"), "***\n\n[cut]");
        let numbered = format!("1| -----BEGIN PRIVATE KEY-----\n2| {}\n3| {}\n", line(), line());
        check(&numbered, "1| ***\n");
    }

    #[test]
    fn two_blocks_are_two_masks() {
        let key = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----", line());
        check(&format!("{key} and {key}"), "*** and ***");
    }

    #[test]
    fn certificates_and_talk_of_keys_stay() {
        for text in [
            "-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END CERTIFICATE-----",
            "a file that starts with -----BEGIN PRIVATE KEY----- holds a key",
            "-----END PRIVATE KEY-----",
        ] {
            check(text, text);
        }
    }
}
