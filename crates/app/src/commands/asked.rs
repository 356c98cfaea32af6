//! What an agent asks leave for, as a person has to see it before they say yes: all of it, and what `always` would keep.

use crate::terminal::{flat, shown};
use proto::Rule;

/// More of one question than this nobody reads on a terminal.
const MOST: usize = 4_000;

/// What is wanted: every pattern in full, each on a line of its own. What follows a line break stands further in.
pub(super) fn wanted(patterns: &[String]) -> Vec<String> {
    let (mut lines, mut left) = (Vec::new(), MOST);
    for (at, pattern) in patterns.iter().enumerate() {
        let text = shown(pattern);
        let fits: String = text.chars().take(left).collect();
        left -= fits.chars().count();
        let pieces = fits.split('\n').enumerate();
        lines.extend(pieces.map(|(piece, line)| format!("{}{line}", if piece == 0 { "    " } else { "      " })));
        let more = |text: &String| text.chars().count();
        let cut = more(&text) - more(&fits) + patterns[at + 1..].iter().map(|rest| more(&shown(rest))).sum::<usize>();
        if left == 0 && cut > 0 {
            lines.push(format!("    NOT ALL IS SHOWN: {cut} more characters; `convoke approve --json` has them"));
            break;
        }
    }
    lines
}

/// What `always` would keep, or nothing where it can keep nothing. Rules of other permissions say which.
pub(super) fn kept(permission: &str, rules: &[Rule]) -> Option<String> {
    let mut told: Vec<String> = Vec::new();
    for rule in rules.iter().filter(|rule| !rule.pattern.is_empty()) {
        let pattern = flat(&rule.pattern);
        let text = match rule.permission == permission {
            true => format!("`{pattern}`"),
            false => format!("`{}` for `{pattern}`", rule.permission),
        };
        if !told.contains(&text) {
            told.push(text);
        }
    }
    (!told.is_empty()).then(|| told.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::Action;

    #[test]
    fn everything_that_is_asked_for_is_shown() {
        let long = format!("echo {} && rm -rf here", "x ".repeat(200));
        let patterns = [long.clone(), "cat <<E\n\x1b[2Jhidden\u{202e}\nE".to_owned()];
        let lines = wanted(&patterns);
        let expected = [&format!("    {long}"), "    cat <<E", "      \\u{1b}[2Jhidden\\u{202e}", "      E"];
        assert_eq!(lines, expected);
    }

    #[test]
    fn what_is_too_long_says_so() {
        let lines = wanted(&["x".repeat(MOST + 5), "abc".into()]);
        assert_eq!(lines.len(), 2);
        assert!(lines[1].contains(" 8 more characters; `convoke approve --json`"), "{}", lines[1]);
        assert_eq!(wanted(&["x".repeat(MOST)]).len(), 1);
    }

    #[test]
    fn what_always_keeps_is_said_with_its_permission() {
        let rule = |permission: &str, pattern: &str| Rule::new(permission, pattern, Action::Allow);
        let rules = [rule("bash", "uname *"), rule("bash", "uname *"), rule("external_directory", "/x/*")];
        assert_eq!(kept("bash", &rules).as_deref(), Some("`uname *`, `external_directory` for `/x/*`"));
        assert_eq!(kept("doom_loop", &[rule("doom_loop", "")]), None);
    }
}
