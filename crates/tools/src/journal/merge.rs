//! Three versions of a text made into one: what two sides changed in different places. Pure.

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};
use std::ops::Range;
use std::time::{Duration, Instant};

/// A diff that takes longer is coarser, and so rather a conflict than a wrong merge.
const PATIENCE: Duration = Duration::from_secs(2);

/// `ours` with what `theirs` changed in `base`. `None` when both changed the same place, or lines beside each other, and
/// not in the same way.
pub(super) fn merge(base: &str, ours: &str, theirs: &str) -> Option<String> {
    let [base, ours, theirs] = [base, ours, theirs].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
    let (mine, other) = (hunks(&base, &ours), hunks(&base, &theirs));
    let (mut out, mut at, mut i, mut j) = (Vec::<&str>::new(), 0, 0, 0);
    while let Some(start) = mine.get(i).into_iter().chain(other.get(j)).map(|hunk| hunk.old.start).min() {
        out.extend(&base[at..start]);
        // All that touches, of either side.
        let (mut end, from) = (start, (i, j));
        loop {
            if let Some(hunk) = mine.get(i).filter(|hunk| hunk.old.start <= end) {
                (end, i) = (end.max(hunk.old.end), i + 1);
            } else if let Some(hunk) = other.get(j).filter(|hunk| hunk.old.start <= end) {
                (end, j) = (end.max(hunk.old.end), j + 1);
            } else {
                break;
            }
        }
        let (my, their) = (side(&mine[from.0..i], start..end), side(&other[from.1..j], start..end));
        match (my, their) {
            (Some(my), None) => out.extend(&ours[my]),
            (None, Some(their)) => out.extend(&theirs[their]),
            (Some(my), Some(their)) if ours[my.clone()] == theirs[their.clone()] => out.extend(&ours[my]),
            _ => return None,
        }
        at = end;
    }
    out.extend(&base[at..]);
    Some(out.concat())
}

/// Lines of the base and what stands there instead.
struct Hunk {
    old: Range<usize>,
    new: Range<usize>,
}

fn hunks(base: &[&str], other: &[&str]) -> Vec<Hunk> {
    let ops = capture_diff_slices_deadline(Algorithm::Myers, base, other, Some(Instant::now() + PATIENCE));
    let changes = ops.iter().filter(|op| !matches!(op, DiffOp::Equal { .. }));
    changes.map(|op| Hunk { old: op.old_range(), new: op.new_range() }).collect()
}

/// The lines of one side that stand for a stretch of the base; `None` when it changed nothing there.
fn side(hunks: &[Hunk], stretch: Range<usize>) -> Option<Range<usize>> {
    let (first, last) = (hunks.first()?, hunks.last()?);
    Some(first.new.start - (first.old.start - stretch.start)..last.new.end + (stretch.end - last.old.end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Words are lines.
    fn lines(words: &str) -> String {
        words.split_whitespace().map(|word| format!("{word}\n")).collect()
    }

    #[track_caller]
    fn check(base: &str, ours: &str, theirs: &str, expected: Option<&str>) {
        let merged = merge(&lines(base), &lines(ours), &lines(theirs));
        assert_eq!(merged, expected.map(lines), "{base} | {ours} | {theirs}");
    }

    #[test]
    fn what_is_apart_is_merged_and_what_meets_is_not() {
        check("a b c d e", "a b c d e", "a b X d e", Some("a b X d e"));
        check("a b c d e", "A b c d e", "a b c d E", Some("A b c d E"));
        check("a b c d e", "a b c d e f", "x a b c d e", Some("x a b c d e f"));
        check("a b c d e", "a c d e", "a b c d", Some("a c d"));
        check("a b c", "a X c", "a X c", Some("a X c"));
        check("a b c d e", "a X c d E", "a X c d e", Some("a X c d E"));
        check("a b c", "a X c", "a Y c", None);
        check("a b c", "a X c", "a c", None);
        check("a b c d", "a X c d", "a b Y d", None);
        check("a b", "a X b", "a Y b", None);
        check("", "x", "y", None);
        check("", "x", "", Some("x"));
        check("a b c", "", "a b c", Some(""));
        check("a b c", "", "a X c", None);
    }

    #[test]
    fn the_ends_of_lines_stay_as_they_are() {
        assert_eq!(merge("a\r\nb\r\nc", "A\r\nb\r\nc", "a\r\nb\r\nC").as_deref(), Some("A\r\nb\r\nC"));
        assert_eq!(merge("a\nb\nc", "a\nb\nc", "a\nb\nc\n").as_deref(), Some("a\nb\nc\n"));
        assert_eq!(merge("a\nb\nc", "a\nb\nc\n", "a\nb\nC"), None);
    }

    proptest! {
        /// A session and a person change every line but some that lie between: taking the session's changes out again
        /// leaves the person's.
        #[test]
        fn changes_in_different_places_do_not_meet(kinds in prop::collection::vec((0u8..5, 0u8..3), 1..40)) {
            let (mut original, mut theirs, mut session, mut both) = <(String, String, String, String)>::default();
            for (n, (kind, how)) in kinds.iter().enumerate() {
                let line = format!("line {n}\n");
                let changed = match how { 0 => String::new(), 1 => format!("changed {n}\n"), _ => format!("{line}new {n}\n") };
                let by_person = *kind == 1;
                let by_session = *kind == 2;
                original.push_str(&line);
                theirs.push_str(if by_person { &changed } else { &line });
                session.push_str(if by_session { &changed } else { &line });
                both.push_str(if by_person || by_session { &changed } else { &line });
                // Nobody touches what lies between.
                for text in [&mut original, &mut theirs, &mut session, &mut both] {
                    text.push_str(&format!("between {n}\n"));
                }
            }
            prop_assert_eq!(merge(&session, &both, &original), Some(theirs.clone()));
            prop_assert_eq!(merge(&original, &theirs, &session), Some(both));
            prop_assert_eq!(merge(&original, &theirs, &original), Some(theirs));
        }

        #[test]
        fn any_three_texts_are_merged_or_not_and_one_that_changed_nothing_has_no_say(
            base in "[ab\n]{0,30}", ours in "[ab\n]{0,30}", theirs in "[ab\n]{0,30}",
        ) {
            merge(&base, &ours, &theirs);
            prop_assert_eq!(merge(&base, &ours, &base), Some(ours.clone()));
            prop_assert_eq!(merge(&base, &base, &theirs), Some(theirs.clone()));
            prop_assert_eq!(merge(&base, &ours, &ours), Some(ours));
        }
    }
}
