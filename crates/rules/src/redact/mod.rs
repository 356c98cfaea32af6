//! Secrets taken out of what is shown: transcripts, exports, answers to readers. What is stored is touched by
//! [`Redactor::conceal`] alone, which takes out the keys this process holds from what tools bring.
//!
//! Two nets. Values known to the process are found exactly, wherever they stand: this is the part that never misses.
//! Well-known shapes of keys, headers and assignments are found by rule: this is the part that helps with strangers'
//! secrets, and it errs on the side of leaving prose alone.
//!
//! Text is read as it stands and also with its JSON escapes undone, layer by layer, so that `sk\u002dabc` inside a cut
//! piece of JSON inside a string is seen for what it is. What is found is masked where it stood, whole escapes at a
//! time. Masking goes on until nothing is found any more, so doing it twice is doing it once.
//!
//! Work grows with the length of the text and nothing else: rules look ahead a bounded distance or consume what they
//! looked at, and layers and passes are counted.

mod escapes;
mod json;
mod names;
mod pem;
mod shapes;
mod spans;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use aho_corasick::AhoCorasick;

use escapes::Layer;
use spans::Spans;

/// What stands in place of a secret.
pub const MASK: &str = "***";

/// Shorter values are too likely to be ordinary words.
const SHORTEST: usize = 8;

/// JSON inside JSON inside JSON, and two more; each layer reads the text once.
const MOST_LAYERS: usize = 5;

/// Masking can join what stood apart into something that is found in turn. Two passes are usual, more take known values
/// that hold a mask themselves.
const MOST_PASSES: usize = 8;

/// Finds secrets and masks them.
#[derive(Clone)]
pub struct Redactor {
    known: Option<AhoCorasick>,
    /// The values with line breaks.
    lines: Arc<[String]>,
}

impl Redactor {
    /// Takes the secrets this process knows; those shorter than eight characters are left out.
    pub fn new(known: impl IntoIterator<Item = String>) -> Self {
        let mut values = BTreeSet::new();
        for value in known {
            // Files end with a line break that is not part of the secret and does not follow it around.
            let trimmed = value.trim().to_owned();
            values.extend([value, trimmed].into_iter().filter(|value| is_long(value)));
        }
        let automaton = || AhoCorasick::new(&values).expect("the secrets of a process are far below 2 GiB");
        let known = (!values.is_empty()).then(automaton);
        Self { known, lines: values.into_iter().filter(|value| value.contains('\n')).collect() }
    }

    /// The text without secrets; the same text when there are none.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut current = Cow::Borrowed(text);
        for _ in 0..MOST_PASSES {
            match self.pass(&current) {
                Some(masked) => current = Cow::Owned(masked),
                None => return current,
            }
        }
        // Whatever keeps turning up is not worth showing any of it.
        Cow::Borrowed(MASK)
    }

    /// The text without the values known to this process, and nothing else changed: for what is kept, where a guess by
    /// shape would do harm.
    pub fn conceal<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(known) = self.known.as_ref().filter(|known| known.is_match(text)) else { return Cow::Borrowed(text) };
        let mut spans = Spans::default();
        known.find_overlapping_iter(text).for_each(|found| spans.push(found.range()));
        spans.mask(text).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// The last place, not after the end of a line at `at`, where a text that goes on may be cut. Most secrets end with
    /// their line. A private key and a known value with line breaks do not: the cut is before one that goes through it,
    /// and before the beginning of one that may go on after this text.
    pub fn cut(&self, text: &str, at: usize) -> usize {
        if at == 0 {
            return 0;
        }
        let begun = |value: &String| {
            let first = &value[..value.find('\n')? + 1];
            text.match_indices(first).map(|(at, _)| at).find(|at| value.starts_with(&text[*at..]))
        };
        let begun = self.lines.iter().filter_map(begun).chain(pem::open(text)).min();
        let mut spans = Spans::default();
        if !self.lines.is_empty()
            && let Some(known) = &self.known
        {
            known.find_overlapping_iter(text).for_each(|found| spans.push(found.range()));
        }
        pem::find(text, &mut spans);
        let at = begun.map_or(at, |begun| begun.min(at));
        // From the last one back: what was in the way of an earlier place is passed on the way.
        spans.into_sorted().into_iter().rev().fold(
            at,
            |at, span| {
                if span.start < at && at < span.end { span.start } else { at }
            },
        )
    }

    /// Masks what is found at once; nothing when there is nothing.
    fn pass(&self, text: &str) -> Option<String> {
        let layers = escapes::layers(text, MOST_LAYERS);
        let mut spans = Spans::default();
        for span in self.find(text).into_sorted() {
            spans.push(layers.first().map_or(span.clone(), |layer| layer.whole(span)));
        }
        for (depth, layer) in layers.iter().enumerate() {
            for span in self.find(layer.text()).into_sorted() {
                spans.push(layers[..=depth].iter().rev().fold(span, |span, layer: &Layer| layer.outside(span)));
            }
        }
        spans.mask(text)
    }

    fn find(&self, text: &str) -> Spans {
        let mut spans = Spans::default();
        if let Some(known) = &self.known {
            // Overlapping, because of two secrets that share a piece neither may be left with the rest.
            known.find_overlapping_iter(text).for_each(|found| spans.push(found.range()));
        }
        shapes::find(text, &mut spans);
        pem::find(text, &mut spans);
        spans
    }

    fn knows_part_of(&self, text: &str) -> bool {
        self.known.as_ref().is_some_and(|known| known.is_match(text))
    }
}

/// Tells how many values there are, never which.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("known", &self.known.as_ref().map_or(0, AhoCorasick::patterns_len)).finish()
    }
}

fn is_long(value: &str) -> bool {
    value.chars().nth(SHORTEST - 1).is_some()
}
