//! What reading a section needs besides its node: a place for warnings, and a good guess at a mistyped key.

use std::collections::BTreeSet;

use crate::document::{Field, Node, Value, excerpt};
use crate::merge::is_rules;
use crate::named::Named;

/// Warnings gathered while sections are read.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) warnings: Vec<String>,
    pub(crate) named: Vec<Named>,
    pub(crate) strays: Vec<Stray>,
}

/// A key that is no setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stray {
    /// The keys that lead to it, joined by dots.
    pub(crate) path: String,
    /// What was meant, perhaps.
    pub(crate) nearest: String,
}

impl Notes {
    pub(crate) fn warn(&mut self, field: &Field, what: impl std::fmt::Display) {
        self.warnings.push(format!("{}: {what}", field.place.line()));
    }

    pub(crate) fn stray(&mut self, field: &Field, nearest: &str) {
        self.strays.push(Stray { path: field.node.path.clone(), nearest: nearest.to_owned() });
    }

    /// A key nobody reads. Never a failure: a file may be newer than the program.
    pub(crate) fn unknown(&mut self, field: &Field, known: &[&str]) {
        let nearest = nearest(&field.key, known);
        self.stray(field, nearest);
        self.warn(
            field,
            format_args!(
                "unknown key `{}` is ignored; the nearest known key is `{nearest}`",
                excerpt(&field.node.path)
            ),
        );
    }
}

/// A variable or a setting that holds a secret, going by its name.
pub(crate) fn called_like_a_key(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH"].iter().any(|word| name.contains(word))
}

/// Keys written twice in one object, where a person surely means one of them. Rules apart: there each has its say.
pub(crate) fn repeated(node: &Node, warnings: &mut Vec<String>) {
    match &node.value {
        Value::Object(fields) => {
            let mut seen = BTreeSet::new();
            for field in fields {
                if !seen.insert(&field.key) && !is_rules(&node.path) {
                    let (line, path) = (field.place.line(), excerpt(&field.node.path));
                    warnings.push(format!("{line}: `{path}` is set twice; the later one counts"));
                }
                repeated(&field.node, warnings);
            }
        }
        Value::List(items) => items.iter().for_each(|item| repeated(item, warnings)),
        Value::Null | Value::Flag(_) | Value::Number(_) | Value::Text(_) | Value::Layers(_) => {}
    }
}

/// The known key that was surely meant: one letter is wrong, or two of a long word.
pub(crate) fn near<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    let plain = |key: &str| key.chars().filter(|&c| c != '_').flat_map(char::to_lowercase).take(64).collect::<Vec<_>>();
    let (nearest, key) = (nearest(key, known), plain(key));
    let most = if key.len() < 6 { 1 } else { 2 };
    (key.len() > 3 && distance(&key, &plain(nearest)) <= most).then_some(nearest)
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
