//! JSON escapes undone, remembering where each character came from.
//!
//! Works on any text, JSON or not, whole or cut: what is no escape stands for itself.

use std::ops::Range;

/// A text with one layer of escapes undone.
pub(super) struct Layer {
    text: String,
    escapes: Vec<Escape>,
}

/// One escape: where it stood, and where what it stands for is now.
struct Escape {
    source: usize,
    source_len: u8,
    target: usize,
    target_len: u8,
}

impl Escape {
    fn source(&self) -> Range<usize> {
        self.source..self.source + usize::from(self.source_len)
    }

    fn target(&self) -> Range<usize> {
        self.target..self.target + usize::from(self.target_len)
    }
}

/// The text read once, twice, … for as long as that changes anything.
pub(super) fn layers(text: &str, most: usize) -> Vec<Layer> {
    let mut layers: Vec<Layer> = Vec::new();
    while layers.len() < most {
        match unescape(layers.last().map_or(text, Layer::text)) {
            Some(layer) => layers.push(layer),
            None => break,
        }
    }
    layers
}

impl Layer {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The place in the source of a place in this text.
    pub(super) fn outside(&self, span: Range<usize>) -> Range<usize> {
        self.source_of(span.start, |escape| escape.source().start)..self.source_of_end(span.end)
    }

    /// A place in the source, widened so that it cuts no escape in two.
    pub(super) fn whole(&self, span: Range<usize>) -> Range<usize> {
        let cut = |place: usize| {
            let after = self.escapes.partition_point(|escape| escape.source < place);
            let escape = self.escapes[..after].last().map(Escape::source)?;
            (place < escape.end).then_some(escape)
        };
        let start = cut(span.start).map_or(span.start, |escape| escape.start);
        let end = cut(span.end).map_or(span.end, |escape| escape.end);
        start..end
    }

    /// Where the character before this place ends in the source.
    fn source_of_end(&self, place: usize) -> usize {
        match place.checked_sub(1) {
            Some(last) if self.escape_at(last).is_some_and(|escape| escape.target().contains(&last)) => {
                self.source_of(last, |escape| escape.source().end)
            }
            _ => self.source_of(place, |escape| escape.source().start),
        }
    }

    fn source_of(&self, place: usize, within: impl Fn(&Escape) -> usize) -> usize {
        match self.escape_at(place) {
            None => place,
            Some(escape) if escape.target().contains(&place) => within(escape),
            Some(escape) => escape.source().end + (place - escape.target().end),
        }
    }

    /// The last escape that begins at or before a place in this text.
    fn escape_at(&self, place: usize) -> Option<&Escape> {
        let after = self.escapes.partition_point(|escape| escape.target <= place);
        self.escapes[..after].last()
    }
}

fn unescape(source: &str) -> Option<Layer> {
    let mut layer = Layer { text: String::new(), escapes: Vec::new() };
    let mut copied = 0;
    let mut from = 0;
    while let Some(found) = source[from..].find('\\') {
        let at = from + found;
        let Some((meant, source_len)) = escape(&source.as_bytes()[at..]) else {
            from = at + 1;
            continue;
        };
        layer.text.push_str(&source[copied..at]);
        let target_len = u8::try_from(meant.len_utf8()).expect("a character has at most four bytes");
        layer.escapes.push(Escape { source: at, source_len, target: layer.text.len(), target_len });
        layer.text.push(meant);
        from = at + usize::from(source_len);
        copied = from;
    }
    layer.text.push_str(&source[copied..]);
    (!layer.escapes.is_empty()).then_some(layer)
}

/// What the escape at the start of these bytes stands for, and its length.
fn escape(bytes: &[u8]) -> Option<(char, u8)> {
    let meant = match bytes.get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode(bytes),
        _ => return None,
    };
    Some((meant, 2))
}

fn unicode(bytes: &[u8]) -> Option<(char, u8)> {
    let high = unit(bytes)?;
    if let Some(meant) = char::from_u32(high) {
        return Some((meant, 6));
    }
    let low = unit(&bytes[6..]).filter(|low| (0xDC00..0xE000).contains(low) && high < 0xDC00);
    let pair = low.and_then(|low| char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)));
    // Half a pair stands for nothing, but it is an escape all the same.
    Some(pair.map_or((char::REPLACEMENT_CHARACTER, 6), |meant| (meant, 12)))
}

/// The number in `\uXXXX`.
fn unit(bytes: &[u8]) -> Option<u32> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |number, digit| Some(number * 16 + char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &[&str]) {
        let read: Vec<String> = layers(source, 5).into_iter().map(|layer| layer.text).collect();
        assert_eq!(read, expected, "{source}");
    }

    #[test]
    fn each_layer_undoes_one_level() {
        check("plain", &[]);
        check(r"a\u002db\/c\n", &["a-b/c\n"]);
        check(r#"{\"a\": \"\\u002d\"}"#, &[r#"{"a": "\u002d"}"#, r#"{"a": "-"}"#]);
        check(r"\ud83d\ude00 \uD83D!", &["\u{1f600} \u{fffd}!"]);
    }

    #[test]
    fn what_is_no_escape_stands_for_itself() {
        check(r"C:\dir \x41 \u00 \uzzzz \", &[]);
        check(r"\é\n", &["\\é\n"]);
        check(r"\u00é\t", &["\\u00é\t"]);
    }

    #[test]
    fn places_lead_back_to_where_they_came_from() {
        let source = r"ab\u002dcd\/é\n.";
        let layer = unescape(source).unwrap();
        assert_eq!(layer.text, "ab-cd/é\n.");
        for (inside, outside) in [
            ("ab-cd/é\n.", source),
            ("-", r"\u002d"),
            ("b-", r"b\u002d"),
            ("-c", r"\u002dc"),
            ("cd/", r"cd\/"),
            ("/é\n", r"\/é\n"),
            (".", "."),
        ] {
            let start = layer.text.find(inside).unwrap();
            assert_eq!(&source[layer.outside(start..start + inside.len())], outside);
        }
    }

    #[test]
    fn a_place_that_cuts_an_escape_takes_it_whole() {
        let source = r"ab\u002dcd";
        let layer = unescape(source).unwrap();
        assert_eq!(layer.whole(3..9), 2..9);
        assert_eq!(layer.whole(0..4), 0..8);
        assert_eq!(layer.whole(0..2), 0..2);
        assert_eq!(layer.whole(8..10), 8..10);
    }
}
