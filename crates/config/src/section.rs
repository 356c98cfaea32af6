//! What reading a section needs besides its node: a place for warnings, and a good guess at a mistyped key.

use std::collections::BTreeSet;

use crate::document::{Field, excerpt};

/// Warnings gathered while sections are read.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) warnings: Vec<String>,
}

impl Notes {
    pub(crate) fn warn(&mut self, field: &Field, what: impl std::fmt::Display) {
        self.warnings.push(format!("{}: {what}", field.place.line()));
    }

    /// A key nobody reads. Never a failure: a file may be newer than the program.
    pub(crate) fn unknown(&mut self, field: &Field, known: &[&str]) {
        let nearest = nearest(&field.key, known);
        self.warn(
            field,
            format_args!(
                "unknown key `{}` is ignored; the nearest known key is `{nearest}`",
                excerpt(&field.node.path)
            ),
        );
    }

    /// A key written twice, where a person surely means one of them.
    pub(crate) fn repeated(&mut self, fields: &[Field]) {
        let mut seen = BTreeSet::new();
        for field in fields.iter().filter(|field| !seen.insert(&field.key)) {
            self.warn(field, format_args!("`{}` is set twice; the later one counts", excerpt(&field.node.path)));
        }
    }
}

/// The known key with the fewest changes to the one written; case and `_` do not count.
fn nearest<'k>(key: &str, known: &[&'k str]) -> &'k str {
    let plain = |key: &str| key.chars().filter(|&c| c != '_').flat_map(char::to_lowercase).take(64).collect::<Vec<_>>();
    let key = plain(key);
    known.iter().copied().min_by_key(|candidate| distance(&key, &plain(candidate))).unwrap_or_default()
}

/// How many letters must be added, dropped or replaced to get from one word to the other.
fn distance(from: &[char], to: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_the_one_that_was_meant() {
        let known = ["model", "default_agent", "permission", "provider"];
        for (written, meant) in [
            ("permision", "permission"),
            ("defaultAgent", "default_agent"),
            ("modle", "model"),
            ("providers", "provider"),
        ] {
            assert_eq!(nearest(written, &known), meant);
        }
    }

    #[test]
    fn the_distance_counts_changes() {
        let count = |a: &str, b: &str| distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        assert_eq!((count("", "abc"), count("abc", "abc"), count("kitten", "sitting")), (3, 0, 3));
    }
}
