//! A list of rules as a person wrote it: lines that can never decide, and patterns that start at home.

use proto::Rule;

use crate::wildcard::covers;

/// Rules that never decide, each with the first later one that takes every request of theirs: `(rule, by)`.
pub fn unreachable(rules: &[Rule]) -> Vec<(usize, usize)> {
    let taken_by = |index: usize, rule: &Rule| {
        let later = rules.iter().enumerate().skip(index + 1);
        later.filter(|(_, wide)| covers_rule(wide, rule)).map(|(by, _)| (index, by)).next()
    };
    rules.iter().enumerate().filter_map(|(index, rule)| taken_by(index, rule)).collect()
}

fn covers_rule(wide: &Rule, narrow: &Rule) -> bool {
    covers(&wide.permission, &narrow.permission) && covers(&wide.pattern, &narrow.pattern)
}

/// The same rules with `~` and `$HOME` at the start of a pattern written out.
pub fn expand(rules: &[Rule], home: &str) -> Vec<Rule> {
    rules.iter().map(|rule| Rule { pattern: at_home(&rule.pattern, home), ..rule.clone() }).collect()
}

/// Only a whole first segment means home: `~user` and `$HOMEPAGE` are something else.
fn at_home(pattern: &str, home: &str) -> String {
    let rest = ["~", "$HOME"].into_iter().find_map(|name| pattern.strip_prefix(name));
    match rest {
        Some("") => home.to_owned(),
        Some(rest) if rest.starts_with('/') => format!("{}{rest}", home.trim_end_matches('/')),
        _ => pattern.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::rules;

    #[track_caller]
    fn check(list: &str, expected: &[(usize, usize)]) {
        assert_eq!(unreachable(&rules(list)), expected, "{list}");
    }

    #[test]
    fn a_later_wider_rule_takes_everything_from_an_earlier_one() {
        check("allow bash git *\ndeny bash *", &[(0, 1)]);
        check("allow bash git *\nallow edit *.md\ndeny * *", &[(0, 2), (1, 2)]);
        check("ask edit *\nallow edit *\ndeny edit *", &[(0, 1), (1, 2)]);
        check("allow bash git\ndeny bash git *", &[(0, 1)]);
    }

    #[test]
    fn a_reviewer_meant_to_read_only_may_do_nothing_when_the_star_comes_last() {
        check("allow read *\nallow grep *\nallow glob *\ndeny * *", &[(0, 3), (1, 3), (2, 3)]);
        check("deny * *\nallow read *\nallow grep *\nallow glob *", &[]);
    }

    #[test]
    fn a_rule_that_still_decides_something_is_not_reported() {
        check("deny bash *\nallow bash git *", &[]);
        check("allow edit *.md\ndeny edit docs/*", &[]);
        check("allow bash *\ndeny edit *", &[]);
        check("deny * *.env\nallow read *", &[]);
        check("", &[]);
    }

    #[test]
    fn home_is_written_out_where_a_pattern_starts_with_it() {
        for (pattern, expected) in [
            ("~/notes/*", "/home/ada/notes/*"),
            ("$HOME/notes/*", "/home/ada/notes/*"),
            ("~", "/home/ada"),
            ("$HOME", "/home/ada"),
            ("~bob/*", "~bob/*"),
            ("$HOMEPAGE/*", "$HOMEPAGE/*"),
            ("cat ~/*", "cat ~/*"),
            ("*", "*"),
        ] {
            let expanded = expand(&rules(&format!("allow read {pattern}")), "/home/ada");
            assert_eq!(expanded, rules(&format!("allow read {expected}")));
        }
        assert_eq!(expand(&rules("allow read ~/a"), "/"), rules("allow read /a"));
    }
}
