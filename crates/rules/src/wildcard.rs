//! Wildcards: `*` is any run of characters, `?` is any one, and everything else is itself.
//!
//! A pattern speaks about the whole text. A run may cross `/` and line ends: a command or a URL is one text, and a deny
//! that stopped at a slash would be a hole. A trailing ` *` may be missing, so that `ls *` also means a bare `ls`.

use std::str::Chars;

/// Whether the pattern matches the whole text. Takes at most pattern × text steps and no memory, whatever they hold.
pub fn matches(pattern: &str, text: &str) -> bool {
    // Most are the same, or differ from the first sign on.
    if pattern == text {
        return true;
    }
    if let (Some(first), Some(found)) = (pattern.as_bytes().first(), text.as_bytes().first())
        && first != found
        && !b"*?".contains(first)
    {
        return false;
    }
    variants(pattern).any(|pattern| walk(pattern, text, |_| true))
}

/// Whether `wide` matches whatever `narrow` matches. May miss a case (`?*` and `*?`), never invents one.
pub(crate) fn covers(wide: &str, narrow: &str) -> bool {
    // The narrow pattern is read as a text in which `*` stands for many characters: only another `*` can take it.
    variants(narrow).all(|narrow| variants(wide).any(|wide| walk(wide, narrow, |taken| taken != '*')))
}

/// Whether some text is matched by both. Takes at most one pattern × the other steps.
pub(crate) fn overlaps(one: &str, other: &str) -> bool {
    variants(one).any(|one| variants(other).any(|other| meet(one, other)))
}

/// Row by row: `row[i]` says whether the first `i` characters of `other` can be the same text as what was read of `one`.
fn meet(one: &str, other: &str) -> bool {
    let other: Vec<char> = other.chars().collect();
    let skips = |row: &mut [bool]| (0..other.len()).for_each(|i| row[i + 1] |= row[i] && other[i] == '*');
    let mut row = vec![false; other.len() + 1];
    row[0] = true;
    skips(&mut row);
    for left in one.chars() {
        let mut next = vec![false; row.len()];
        for i in 0..row.len() {
            // `*` of the one takes nothing, or any one character of the other; and the other way round.
            next[i] |= row[i] && left == '*';
            let Some(right) = other.get(i) else { continue };
            next[i] |= row[i] && *right == '*';
            next[i + 1] |= row[i] && (left == '?' || *right == '?' || left == *right);
            next[i + 1] |= (row[i] || next[i]) && left == '*';
        }
        skips(&mut next);
        row = next;
    }
    row[other.len()]
}

/// Whether the pattern matches every text.
pub(crate) fn is_everything(pattern: &str) -> bool {
    covers(pattern, "*")
}

/// The pattern as written and, where it ends with ` *`, without that.
fn variants(pattern: &str) -> impl Iterator<Item = &str> {
    [Some(pattern), pattern.strip_suffix(" *")].into_iter().flatten()
}

/// Walks both texts at once. After a mismatch only the newest `*` takes one character more: whatever an older one could
/// take instead, the newest can reach as well, and this is what keeps the work from exploding.
fn walk(pattern: &str, text: &str, any_one: impl Fn(char) -> bool) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    let mut newest: Option<(Chars, Chars)> = None;
    loop {
        let here = text.clone();
        match (pattern.next(), text.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                text = here;
                newest = Some((pattern.clone(), text.clone()));
            }
            (Some(_), None) => return false,
            (Some('?'), Some(taken)) if any_one(taken) => {}
            (Some(wanted), Some(found)) if wanted == found && wanted != '?' => {}
            _ => {
                let Some((after, from)) = &mut newest else { return false };
                if from.next().is_none() {
                    return false;
                }
                (pattern, text) = (after.clone(), from.clone());
            }
        }
    }
}

/// The file or folder that a pattern of paths begins with, if it names one.
pub fn place(pattern: &str) -> Option<&str> {
    let named = match pattern.find(['*', '?']) {
        None => pattern,
        Some(at) => &pattern[..=pattern[..at].rfind('/')?],
    };
    Some(named.trim_end_matches('/')).filter(|named| !named.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, text: &str, expected: bool) {
        assert_eq!(matches(pattern, text), expected, "`{pattern}` and `{text}`");
    }

    #[test]
    fn a_pattern_speaks_about_the_whole_text() {
        check("git", "git", true);
        check("git", "git status", false);
        check("git", "legit", false);
        check("", "", true);
        check("", "git", false);
    }

    #[test]
    fn a_star_is_any_run_and_crosses_slashes_and_lines() {
        check("*", "", true);
        check("*", "src/main.rs", true);
        check("*.rs", "src/deep/main.rs", true);
        check("src/*/main.rs", "src/a/b/main.rs", true);
        check("git*", "git log\nrm -rf .", true);
        check("*a*b", "xaxbxab", true);
        check("*a*b", "xaxbxa", false);
    }

    #[test]
    fn a_question_mark_is_one_character_of_any_width() {
        check("?", "é", true);
        check("?", "查", true);
        check("?", "", false);
        check("?", "ab", false);
        check("v?.?", "v1.2", true);
        check("?*", "", false);
    }

    #[test]
    fn a_trailing_space_and_star_may_be_missing() {
        check("ls *", "ls", true);
        check("ls *", "ls -la", true);
        check("ls *", "lsof", false);
        check("ls*", "lsof", true);
        check("git * *", "git status", true);
        check("git * *", "git", false);
    }

    #[test]
    fn other_signs_are_themselves() {
        check("a.c", "abc", false);
        check("[ab]", "a", false);
        check("[ab]", "[ab]", true);
        check("C:\\*", "C:\\work", true);
    }

    #[test]
    fn many_stars_take_no_longer_than_their_product() {
        let text = "a".repeat(20_000);
        check(&"a*".repeat(30), &text, true);
        check(&("a*".repeat(30) + "b"), &text, false);
    }

    #[test]
    fn a_wider_pattern_covers_a_narrower_one() {
        for (wide, narrow) in [
            ("*", "git *"),
            ("*", "*"),
            ("git *", "git push *"),
            ("git *", "git"),
            ("ls *", "ls *"),
            ("?.md", "a.md"),
            ("?", "?"),
            ("*.md", "docs/*.md"),
        ] {
            assert!(covers(wide, narrow), "`{wide}` covers `{narrow}`");
        }
        for (wide, narrow) in
            [("git push *", "git *"), ("?", "*"), ("git", "git *"), ("*.md", "*"), ("a", "?"), ("", "*")]
        {
            assert!(!covers(wide, narrow), "`{wide}` does not cover `{narrow}`");
        }
    }

    #[test]
    fn everything_may_be_written_in_several_ways() {
        for pattern in ["*", "**", "* *"] {
            assert!(is_everything(pattern), "`{pattern}`");
        }
        for pattern in ["", "?", "?*", "*.md", " *"] {
            assert!(!is_everything(pattern), "`{pattern}`");
        }
    }

    #[test]
    fn a_pattern_names_a_place_up_to_its_first_wildcard() {
        for (pattern, expected) in [
            ("/etc/passwd", Some("/etc/passwd")),
            ("/etc/*", Some("/etc")),
            ("src/a*.rs", Some("src")),
            ("/home/me/", Some("/home/me")),
            ("/*", None),
            ("*", None),
            ("*.env", None),
        ] {
            assert_eq!(place(pattern), expected, "{pattern}");
        }
    }
}
