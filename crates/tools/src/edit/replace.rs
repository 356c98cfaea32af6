//! Finding the text to replace: exactly first, then by lines with less and less weight on white space.

use crate::Error;
use crate::files::MAX_EDITED;
use std::ops::Range;
use tokio_util::sync::CancellationToken;

/// The text with `old` replaced by `new`, or why not and what to do.
pub(super) fn replace(
    text: &str,
    old: &str,
    new: &str,
    all: bool,
    cancel: &CancellationToken,
) -> Result<String, Error> {
    if old.is_empty() {
        return Err(Error::tell("`oldString` is empty: give the text to replace, or use `write` for a whole file"));
    }
    if old == new {
        return Err(Error::tell("`oldString` and `newString` are the same: there is nothing to change"));
    }
    let mut places: Vec<Place> = text.match_indices(old).map(|(at, found)| (at..at + found.len(), None)).collect();
    for likeness in [Likeness::LineEnds, Likeness::Indentation] {
        if places.is_empty() {
            places = similar(text, old, likeness, cancel)?;
        }
    }
    match places.len() {
        0 => Err(not_found(text, old)),
        2.. if !all => Err(ambiguous(text, &places)),
        _ => splice(text, old, new, &places),
    }
}

/// Where the old text is, and the indentation to give the new one there, if that differs.
type Place<'t> = (Range<usize>, Option<&'t str>);

fn splice(text: &str, old: &str, new: &str, places: &[Place<'_>]) -> Result<String, Error> {
    let mut result = String::with_capacity(text.len());
    let mut at = 0;
    for (place, found) in places {
        result.push_str(&text[at..place.start]);
        match found {
            Some(found) => result.push_str(&shifted(new, old, found)),
            None => result.push_str(new),
        }
        at = place.end;
        if result.len() as u64 > MAX_EDITED {
            return Err(Error::tell("the file would become too large to be edited here: use `bash`"));
        }
    }
    result.push_str(&text[at..]);
    Ok(result)
}

/// What two lines may differ in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Likeness {
    /// White space at their ends.
    LineEnds,
    /// White space at either side: the new text is shifted to fit.
    Indentation,
}

impl Likeness {
    fn key(self, line: &str) -> &str {
        match self {
            Self::LineEnds => line.trim_end(),
            Self::Indentation => line.trim(),
        }
    }
}

/// Runs of whole lines that are like the lines of `old`, not overlapping.
fn similar<'t>(
    text: &'t str,
    old: &str,
    likeness: Likeness,
    cancel: &CancellationToken,
) -> Result<Vec<Place<'t>>, Error> {
    let wanted: Vec<&str> = old.trim_end_matches('\n').split('\n').map(|line| likeness.key(line)).collect();
    // Blank lines alone are like too much.
    if wanted.iter().all(|line| line.is_empty()) {
        return Ok(Vec::new());
    }
    let lines: Vec<(usize, &str)> = text
        .split_inclusive('\n')
        .scan(0, |at, line| {
            let start = *at;
            *at += line.len();
            Some((start, line))
        })
        .collect();
    let mut places = Vec::new();
    let mut at = 0;
    while at + wanted.len() <= lines.len() {
        // Lines that are all the same make this as long as one file times the other.
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let window = &lines[at..at + wanted.len()];
        if !window.iter().zip(&wanted).all(|((_, line), wanted)| likeness.key(line) == *wanted) {
            at += 1;
            continue;
        }
        let (last, line) = window[wanted.len() - 1];
        // The end of the last line is part of the match only if `old` had it.
        let end = last + if old.ends_with('\n') { line.len() } else { line.trim_end_matches('\n').len() };
        places.push((window[0].0..end, (likeness == Likeness::Indentation).then_some(window[0].1)));
        at += wanted.len();
    }
    Ok(places)
}

/// `new` with the indentation of the first line of `old` exchanged for that of the line it matched.
fn shifted(new: &str, old: &str, found: &str) -> String {
    let (had, has) = (indentation(old), indentation(found));
    let shift = |line: &str| match line.strip_prefix(had) {
        Some(rest) if !line.trim().is_empty() => format!("{has}{rest}"),
        _ => line.to_owned(),
    };
    new.split_inclusive('\n').map(shift).collect()
}

fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn ambiguous(text: &str, places: &[Place<'_>]) -> Error {
    let lines: Vec<String> = places.iter().take(5).map(|(place, _)| line_of(text, place.start).to_string()).collect();
    Error::tell(format!(
        "`oldString` is there {} times (line {}{}): add lines around it until it is there once, or set `replaceAll`",
        places.len(),
        lines.join(", "),
        if places.len() > 5 { ", …" } else { "" },
    ))
}

fn not_found(text: &str, old: &str) -> Error {
    if old.lines().all(looks_numbered) {
        return Error::tell("`oldString` is not in the file: leave out the line numbers that `read` puts in front");
    }
    let first = old.lines().map(str::trim).find(|line| line.len() > 3);
    let near = first.and_then(|first| text.lines().position(|line| line.contains(first)));
    match near {
        Some(line) => Error::tell(format!(
            "`oldString` is not in the file; its first line is at line {}, so a later one differs: read it again",
            line + 1
        )),
        None => Error::tell("`oldString` is not in the file: read it again and copy the text as it is"),
    }
}

fn looks_numbered(line: &str) -> bool {
    line.trim_start().split_once('\t').is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replace(text: &str, old: &str, new: &str, all: bool) -> Result<String, Error> {
        super::replace(text, old, new, all, &CancellationToken::new())
    }

    #[track_caller]
    fn check(text: &str, old: &str, new: &str, expected: &str) {
        assert_eq!(replace(text, old, new, false).unwrap(), expected);
    }

    #[track_caller]
    fn refused(text: &str, old: &str, new: &str, says: &str) {
        let error = replace(text, old, new, false).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }

    #[test]
    fn an_exact_match_wins() {
        check("a b c", "b", "x", "a x c");
        check("if x {\n    y\n}\n", "    y\n", "", "if x {\n}\n");
        check("  a\na\n", "\na\n", "\nb\n", "  a\nb\n");
    }

    #[test]
    fn white_space_at_line_ends_is_forgiven() {
        check("one  \ntwo\nthree\n", "one\ntwo", "1\n2", "1\n2\nthree\n");
        check("one\ntwo\n", "one \ntwo \n", "1\n", "1\n");
    }

    #[test]
    fn indentation_is_forgiven_and_kept() {
        check(
            "fn f() {\n        a();\n        b();\n}\n",
            "a();\nb();",
            "a();\nif x {\n    b();\n}",
            "fn f() {\n        a();\n        if x {\n            b();\n        }\n}\n",
        );
        check("\tone\n\ttwo\n", "    one\n    two\n", "    1\n", "\t1\n");
    }

    #[test]
    fn all_are_replaced_when_asked() {
        assert_eq!(replace("a a a", "a", "aa", true).unwrap(), "aa aa aa");
        assert_eq!(replace(" x\n\tx\n", "x ", "y", true).unwrap(), " y\n\ty\n");
    }

    #[test]
    fn what_is_not_clear_is_refused_with_advice() {
        refused("a\nb\na\n", "a", "x", "2 times (line 1, 3)");
        refused("a", "", "x", "use `write`");
        refused("a", "a", "a", "nothing to change");
        refused("a", "b", "x", "read it again");
        refused("begin\nmiddle\n", "begin\nend", "x", "first line is at line 1");
        refused("one\ntwo\n", "     1\tone\n     2\ttwo", "x", "line numbers");
        refused("a\n\n\nb", "\n\n\n\n", "x", "not in the file");
    }
}
