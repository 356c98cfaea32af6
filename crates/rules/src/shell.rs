//! Shell commands nobody has read: what to say about `git status && rm -rf ~` while there is no shell parser.
//!
//! A wildcard sees text, not commands: `git *` matches `git status; rm -rf ~`. So a command with a sign by which one
//! command can hold another is *opaque*. About such a command only a rule for everything may speak; no narrower allow
//! can vouch for it.
//!
//! A narrower rule that is stricter still counts, as a doubt. Whoever writes "allow `*`, deny `rm *`" means that `rm` is
//! not run, and nobody can say that an opaque command does not run it: it is asked. So a deny is at worst a question,
//! and never undone by adding `; true` to a command.

use proto::{Action, Rule};

use crate::wildcard::{covers, is_everything};
use crate::{Source, Verdict, speaking_of};

/// The permission whose patterns are shell commands.
pub(crate) const PERMISSION: &str = "bash";

/// Whether a shell command may hold other commands than the one it starts with.
pub fn opaque(command: &str) -> bool {
    command.contains([';', '|', '&', '<', '>', '$', '(', ')', '{', '}', '`', '\n'])
}

/// Judges an opaque command. Which one does not matter: no rule could tell it from another.
pub(crate) fn evaluate<'r>(sets: &[&'r [Rule]]) -> Verdict<'r> {
    let (mut wide, mut doubts) = (None, Vec::new());
    for (set, rule) in speaking_of(PERMISSION, sets) {
        // What a later rule takes over completely can neither decide nor be a reason to doubt.
        doubts.retain(|(_, held): &(usize, &Rule)| !covers(&rule.pattern, &held.pattern));
        if is_everything(&rule.pattern) {
            wide = Some((set, rule));
        } else if rule.action < Action::Allow {
            doubts.push((set, rule));
        }
    }
    let doubt = doubts.into_iter().min_by_key(|(_, rule)| rule.action);
    let (action, (set, rule)) = match (wide, doubt) {
        (Some(wide), _) if wide.1.action == Action::Deny => (Action::Deny, wide),
        (_, Some(doubt)) => (Action::Ask, doubt),
        (Some(wide), None) => (wide.1.action, wide),
        (None, None) => return Verdict::ASK,
    };
    Verdict { action, rule: Some(rule), source: Source::Set(set) }
}

#[cfg(test)]
mod tests {
    use proto::Action::{Allow, Ask, Deny};

    use super::*;
    use crate::sample::rules;

    #[track_caller]
    fn check(list: &str, command: &str, expected: Action) {
        assert_eq!(crate::evaluate(PERMISSION, command, &[&rules(list)]).action, expected, "{command}");
    }

    #[test]
    fn a_narrow_allow_does_not_vouch_for_what_follows_it() {
        for command in [
            "git status; rm -rf .",
            "git status | sh",
            "git status & rm -rf .",
            "git log > src/main.rs",
            "git log < secret",
            "git $(rm -rf .)",
            "git `rm -rf .`",
            "git ${IFS}",
            "git status\nrm -rf .",
        ] {
            check("allow bash git *", command, Ask);
        }
        check("allow bash git *", "git status", Allow);
    }

    #[test]
    fn a_rule_for_everything_speaks_about_it() {
        check("allow bash *", "ls | wc -l", Allow);
        check("deny bash *", "ls | wc -l", Deny);
        check("allow * *", "ls | wc -l", Allow);
        check("deny bash *\nallow bash ls *", "ls | wc -l", Deny);
        check("ask bash *", "ls | wc -l", Ask);
        check("", "ls | wc -l", Ask);
    }

    #[test]
    fn a_stricter_rule_behind_it_makes_it_a_question() {
        check("allow bash *\ndeny bash rm *", "true; rm -rf .", Ask);
        check("allow bash *\nask bash git push*", "true; git push", Ask);
        check("allow bash *\nallow bash git *", "true; git push", Allow);
        check("allow * *\ndeny edit *.md", "true; git push", Allow);
        // One that a later rule makes unreachable casts no doubt either.
        check("deny bash rm *\nallow bash *", "true; rm -rf .", Allow);
        check("allow bash *\ndeny bash git push\nallow bash git *", "true; git push", Allow);
    }

    #[test]
    fn the_strictest_doubt_is_the_one_named() {
        let list = rules("allow bash *\nask bash git push*\ndeny bash rm *\nask bash dd *");
        let verdict = evaluate(&[&list]);
        assert_eq!((verdict.action, verdict.rule), (Ask, Some(&list[2])));
    }

    #[test]
    fn only_shell_commands_are_opaque() {
        let list = rules("allow webfetch https://example.org/*");
        assert_eq!(crate::evaluate("webfetch", "https://example.org/?a=1&b=2", &[&list]).action, Allow);
    }
}
