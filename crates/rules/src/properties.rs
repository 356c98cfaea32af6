//! What holds for any rules and any request, checked against generated ones and plain reference versions.

use proptest::prelude::*;
use proto::{Action, Rule};

use crate::shell::opaque;
use crate::wildcard::{covers, overlaps};
use crate::{Policy, Source, evaluate, expand, matches, unreachable};

// A small alphabet, so that generated rules and requests meet often enough to disagree.

fn text() -> impl Strategy<Value = String> {
    "[ab /é\n]{0,8}"
}

fn pattern() -> impl Strategy<Value = String> {
    prop_oneof![2 => Just("*".to_owned()), 6 => "[ab /é*?]{0,6}", 2 => "[ab*?]{0,3} \\*"]
}

fn permission() -> impl Strategy<Value = String> {
    prop_oneof![Just("bash"), Just("edit"), Just("*"), Just("e*"), Just("b??h")].prop_map(str::to_owned)
}

fn rule() -> impl Strategy<Value = Rule> {
    let action = prop_oneof![Just(Action::Deny), Just(Action::Ask), Just(Action::Allow)];
    (permission(), pattern(), action).prop_map(|(permission, pattern, action)| Rule { permission, pattern, action })
}

fn set() -> impl Strategy<Value = Vec<Rule>> {
    prop::collection::vec(rule(), 0..6)
}

fn policy() -> impl Strategy<Value = Policy> {
    let sets = || prop::collection::vec(set(), 0..3);
    (set(), sets(), sets()).prop_map(|(own, denies, ancestors)| Policy { own, denies, ancestors, ..Policy::default() })
}

/// A permission and what it is wanted for, opaque shell commands among them.
fn request() -> impl Strategy<Value = (&'static str, String)> {
    (prop_oneof![Just("bash"), Just("edit")], prop_oneof![text(), "[ab ;|]{0,6}"])
}

/// The definition of a wildcard, word for word; takes exponential time, which short texts forgive.
fn matches_by_definition(pattern: &[char], text: &[char]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        (['*', rest @ ..], _) => (0..=text.len()).any(|taken| matches_by_definition(rest, &text[taken..])),
        (['?', rest @ ..], [_, after @ ..]) => matches_by_definition(rest, after),
        ([wanted, rest @ ..], [found, after @ ..]) => wanted == found && matches_by_definition(rest, after),
        _ => false,
    }
}

fn matches_slowly(pattern: &str, text: &str) -> bool {
    let chars = |text: &str| text.chars().collect::<Vec<_>>();
    let whole = matches_by_definition(&chars(pattern), &chars(text));
    whole || pattern.strip_suffix(" *").is_some_and(|short| matches_by_definition(&chars(short), &chars(text)))
}

proptest! {
    // Cheap enough for many, and several of these only speak about the few cases that meet a condition.
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_matcher_is_its_definition(pattern in pattern(), text in text()) {
        prop_assert_eq!(matches(&pattern, &text), matches_slowly(&pattern, &text));
    }

    #[test]
    fn a_covering_pattern_matches_whatever_the_covered_one_does(wide in pattern(), narrow in pattern(), text in text()) {
        prop_assert!(!covers(&wide, &narrow) || !matches(&narrow, &text) || matches(&wide, &text));
    }

    #[test]
    fn patterns_that_match_one_text_overlap(one in pattern(), other in pattern(), text in text()) {
        prop_assert!(overlaps(&one, &other) || !matches(&one, &text) || !matches(&other, &text));
        prop_assert_eq!(overlaps(&one, &other), overlaps(&other, &one));
        let literal = !text.contains(['*', '?']) && !text.ends_with(" *");
        prop_assert!(!literal || overlaps(&one, &text) == matches(&one, &text));
    }

    #[test]
    fn the_last_match_decides((permission, wanted) in request(), first in set(), second in set()) {
        // A shell line is not what it says, but what it does.
        prop_assume!(permission != "bash");
        let mut expected = Action::Ask;
        for rule in first.iter().chain(&second) {
            if matches_slowly(&rule.permission, permission) && matches_slowly(&rule.pattern, &wanted) {
                expected = rule.action;
            }
        }
        prop_assert_eq!(evaluate(permission, &wanted, &[&first, &second]).action, expected);
    }

    #[test]
    fn how_a_list_is_cut_into_sets_does_not_matter((permission, wanted) in request(), first in set(), second in set()) {
        let apart = evaluate(permission, &wanted, &[&first, &second]);
        let joined = [first.clone(), second.clone()].concat();
        let joined = evaluate(permission, &wanted, &[&joined]);
        prop_assert_eq!((apart.action, apart.rule), (joined.action, joined.rule));
    }

    #[test]
    fn an_opaque_command_is_allowed_only_by_a_rule_for_everything(set in set(), command in "[ab]{0,3}[;|&]? ?[$][ab]") {
        prop_assume!(opaque(&command));
        let everything = |rule: &Rule| matches(&rule.pattern, &command) && matches(&rule.pattern, "");
        let vouched = set.iter().any(|rule| rule.action == Action::Allow && everything(rule));
        prop_assert!(vouched || evaluate("bash", &command, &[&set]).action < Action::Allow);
    }

    #[test]
    fn a_child_is_never_wider_than_its_parent(parent in policy(), own in set(), (permission, wanted) in request()) {
        let child = parent.child(own);
        prop_assert!(child.judge(permission, &wanted).action <= parent.judge(permission, &wanted).action);
        prop_assert!(parent.shows(permission) || !child.shows(permission));
    }

    #[test]
    fn a_ceiling_never_widens(policy in policy(), ceiling in set(), (permission, wanted) in request()) {
        let mut lower = policy.clone();
        lower.denies.push(ceiling);
        prop_assert!(lower.judge(permission, &wanted).action <= policy.judge(permission, &wanted).action);
    }

    #[test]
    fn a_denying_ceiling_is_never_lifted(policy in policy(), session in set(), (permission, wanted) in request()) {
        let denied = policy.denies.iter().any(|set| evaluate(permission, &wanted, &[set]).action == Action::Deny);
        let below = policy.with(session.clone()).child(session);
        prop_assert!(!denied || below.judge(permission, &wanted).action == Action::Deny);
    }

    #[test]
    fn a_hidden_tool_is_denied_whatever_it_is_wanted_for(policy in policy(), (permission, wanted) in request()) {
        prop_assert!(policy.shows(permission) || policy.judge(permission, &wanted).action == Action::Deny);
    }

    #[test]
    fn an_unreachable_rule_never_decides(set in set(), (permission, wanted) in request()) {
        let verdict = evaluate(permission, &wanted, &[&set]);
        for (index, by) in unreachable(&set) {
            prop_assert!(index < by);
            prop_assert!(!verdict.rule.is_some_and(|rule| std::ptr::eq(rule, &set[index])));
        }
    }

    #[test]
    fn nothing_panics(pattern in any::<String>(), text in any::<String>(), permission in any::<String>()) {
        let rules = expand(&[Rule::new(permission.clone(), pattern.clone(), Action::Allow)], &text);
        unreachable(&[rules.clone(), rules.clone()].concat());
        let policy = Policy::default().child(rules.clone()).with(rules);
        policy.shows(&permission);
        let verdict = policy.judge(&permission, &text);
        prop_assert!(verdict.rule.is_some() || matches!(verdict.source, Source::Default | Source::Ancestor(_)));
    }
}
