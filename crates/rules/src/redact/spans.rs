//! Places in a text, gathered in any order and masked together.

use std::ops::Range;

use super::MASK;

#[derive(Debug, Default)]
pub(super) struct Spans(Vec<Range<usize>>);

impl Spans {
    pub(super) fn push(&mut self, mut span: Range<usize>) {
        // Overlapping finds of a repeated value come by the million; joining them here keeps the list short.
        while let Some(last) = self.0.pop_if(|last| last.start <= span.end && span.start <= last.end) {
            span = last.start.min(span.start)..last.end.max(span.end);
        }
        self.0.push(span);
    }

    /// In order, apart from each other.
    pub(super) fn into_sorted(self) -> Vec<Range<usize>> {
        let mut spans = self.0;
        spans.sort_unstable_by_key(|span| span.start);
        let mut joined = Self::default();
        spans.into_iter().for_each(|span| joined.push(span));
        joined.0
    }

    /// The text with each span masked; nothing when that changes nothing.
    pub(super) fn mask(self, text: &str) -> Option<String> {
        let mut masked = String::new();
        let mut done = 0;
        for span in self.into_sorted() {
            masked.push_str(&text[done..span.start]);
            masked.push_str(MASK);
            done = span.end;
        }
        masked.push_str(&text[done..]);
        (done > 0 && masked != text).then_some(masked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(spans: &[Range<usize>], expected: Option<&str>) {
        let mut all = Spans::default();
        spans.iter().for_each(|span| all.push(span.clone()));
        assert_eq!(all.mask("abcdefghij").as_deref(), expected, "{spans:?}");
    }

    #[test]
    fn order_and_overlap_do_not_matter() {
        check(&[], None);
        check(&[2..3, 3..4], Some("ab***efghij"));
        check(&[6..8, 2..4], Some("ab***ef***ij"));
        check(&[2..4, 6..8, 3..7], Some("ab***ij"));
        check(&[2..4, 4..6], Some("ab***ghij"));
        check(&[3..4, 7..8, 0..10], Some("***"));
    }

    #[test]
    fn a_mask_in_place_of_a_mask_is_no_change() {
        let mut spans = Spans::default();
        spans.push(1..4);
        assert_eq!(spans.mask("a***b"), None);
    }
}
