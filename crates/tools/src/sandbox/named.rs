//! Which files rules of one permission speak of by name, and what their verdict hangs on.

use proto::{Action, Rule};
use std::path::Path;

/// What rules say about one permission that is not about everything: a rule for `*` speaks of the tool and not of files.
pub(super) struct Named<'r> {
    policy: &'r rules::Policy,
    permission: &'static str,
    /// The mildest verdict that counts.
    mildest: Action,
    rules: Vec<&'r Rule>,
    /// Those that may take files out again.
    exceptions: Vec<&'r Rule>,
    /// All rules were written for one checkout, in which a file has one name.
    one_name: bool,
}

impl<'r> Named<'r> {
    pub(super) fn of(policy: &'r rules::Policy, permission: &'static str, mildest: Action) -> Self {
        let sets = policy.ancestors.iter().chain(&policy.denies).chain([&policy.own]);
        let narrow = sets.flatten().filter(|rule| is_narrow(rule) && rules::matches(&rule.permission, permission));
        let (rules, exceptions) = narrow.partition(|rule| rule.action <= mildest);
        let one_name = policy.anchors.roots().len() < 2;
        Self { policy, permission, mildest, rules, exceptions, one_name }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Somebody denied files by name, and relies on it.
    pub(super) fn is_strict(&self) -> bool {
        self.rules.iter().any(|rule| rule.action == Action::Deny)
    }

    /// Where files may be that rules were written for.
    pub(super) fn roots(&self) -> Vec<&'r Path> {
        self.policy.anchors.roots()
    }

    pub(super) fn patterns(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.pattern.as_str())
    }

    pub(super) fn holds(&self, name: &str) -> bool {
        self.verdict(name).is_some()
    }

    /// Whether whatever comes into this folder would be held.
    pub(super) fn holds_all_in(&self, folder: &str) -> bool {
        // No pattern has such a name but by a wildcard.
        let below = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        self.holds(&below("\u{1}new")) && {
            let taken_out = |rule: &&Rule| {
                let last = rule.pattern.rsplit('/').next().unwrap_or_default();
                let inside = rule.pattern.starts_with(&below(""));
                !self.holds(&below(last)) || (inside && !self.holds(&rule.pattern))
            };
            !self.exceptions.iter().any(taken_out)
        }
    }

    /// Whether the verdict would be another if a folder above had another name.
    pub(super) fn leans_on_folders(&self, name: &str) -> bool {
        let own = name.rsplit('/').next().unwrap_or(name);
        let anywhere =
            self.verdict(own).is_some_and(|rule| rule.pattern.starts_with('*') && !rule.pattern.contains('/'));
        // One that only looks at how a name ends says the same wherever that is.
        let of_endings =
            |rule: &&Rule| rule.pattern.strip_prefix('*').is_some_and(|end| !end.contains(['*', '?', '/']));
        !anywhere || !self.exceptions.iter().all(of_endings)
    }

    /// The rule that holds it.
    fn verdict(&self, name: &str) -> Option<&'r Rule> {
        // Most files match none of these, and a verdict takes longer.
        let speaks = |name: &str| self.rules.iter().any(|rule| rules::matches(&rule.pattern, name));
        let known = match self.one_name {
            true => speaks(name),
            false => self.policy.names(self.permission, name).iter().any(|name| speaks(name)),
        };
        if !known {
            return None;
        }
        let verdict = self.policy.judge(self.permission, name);
        verdict.rule.filter(|rule| verdict.action <= self.mildest && is_narrow(rule))
    }
}

fn is_narrow(rule: &Rule) -> bool {
    !rule.pattern.trim_matches('*').is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::Action::{Allow, Ask, Deny};

    fn policy(own: &[(&str, &str, Action)]) -> rules::Policy {
        let own = own.iter().map(|(permission, pattern, action)| Rule::new(*permission, *pattern, *action)).collect();
        rules::Policy { own, ..rules::Policy::default() }
    }

    #[test]
    fn a_folder_is_held_as_a_whole_when_nothing_in_it_is_an_exception() {
        let prot = ("edit", "prot/*", Deny);
        for (own, folder, whole) in [
            (vec![prot], "prot", true),
            (vec![prot], "prot/deeper", true),
            (vec![prot], "", false),
            (vec![prot], "other", false),
            (vec![("edit", "*.lock", Deny)], "prot", false),
            (vec![("edit", "prot/a*", Deny)], "prot", false),
            (vec![("edit", "prot/?", Deny)], "prot", false),
            (vec![("edit", "*", Deny)], "prot", false),
            (vec![("edit", "prot/*", Ask)], "prot", false),
            (vec![prot, ("edit", "prot/ok/*", Allow)], "prot", false),
            (vec![prot, ("edit", "prot/ok/*", Allow)], "prot/other", true),
            (vec![prot, ("edit", "*.md", Allow)], "prot", false),
            (vec![("edit", "*.md", Allow), prot], "prot", true),
            (vec![prot, ("edit", "src/*", Allow)], "prot", true),
        ] {
            let policy = policy(&own);
            assert_eq!(Named::of(&policy, "edit", Deny).holds_all_in(folder), whole, "{own:?} {folder}");
        }
    }

    #[test]
    fn a_rule_for_an_ending_holds_wherever_a_file_is_moved() {
        let env = ("read", "*.env", Ask);
        for (own, name, leans) in [
            (vec![env], "a/.env", false),
            (vec![env, ("read", "*.env.example", Allow)], "a/.env", false),
            (vec![env, ("read", "examples/*", Allow)], "a/.env", true),
            (vec![env, ("read", "*example*", Allow)], "a/.env", true),
            (vec![("read", "secrets/*", Deny)], "secrets/key", true),
            (vec![("read", "*secret*", Deny)], "secrets/key", true),
            (vec![("read", "*secret*", Deny)], "a/secret.txt", false),
            (vec![("read", "key", Deny)], "key", true),
        ] {
            let policy = policy(&own);
            assert_eq!(Named::of(&policy, "read", Ask).leans_on_folders(name), leans, "{own:?} {name}");
        }
    }
}
