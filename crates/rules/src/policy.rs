//! What one session may do: its own rules, and above them the ceilings nothing below can lift.

use proto::{Action, Rule};
use serde::{Deserialize, Serialize};

use crate::shell::{self, Want};
use crate::wildcard::is_everything;
use crate::{Anchors, Source, Verdict, decide, speaking_of, stricter};
use std::path::PathBuf;

/// A session's rules and its ceilings. Stored with the session, so that a restart judges as before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// The merged list of this session: defaults, the user's, the agent's, the session's.
    pub own: Vec<Rule>,
    /// The managed and the user's global sets. Each decides by itself, and counts only when it denies.
    pub denies: Vec<Vec<Rule>>,
    /// The own rules of every session above, the root first. What they would not do, this one does not do for them.
    pub ancestors: Vec<Vec<Rule>>,
    /// For which projects they were written.
    pub anchors: Anchors,
}

impl Policy {
    /// The strictest of what the session's own rules, every ancestor's, and the ceilings say, about all a request does.
    pub fn judge(&self, permission: &str, pattern: &str) -> Verdict<'_> {
        if permission != shell::PERMISSION {
            return self.strictest(|set, project| self.decide(permission, pattern, set, project));
        }
        let line = shell::read(pattern);
        line.wants.iter().map(|want| self.judge_want(want)).reduce(stricter).unwrap_or(Verdict::ASK)
    }

    /// The same about one thing a shell line does.
    pub fn judge_want(&self, want: &Want) -> Verdict<'_> {
        self.strictest(|set, _| shell::evaluate(want, &[set]))
    }

    /// The verdict after what a person answered with "always" before. That settles what would be asked, and nothing else:
    /// no deny is lifted, nor a doubt because of one.
    pub fn judge_after<'r>(&'r self, always: &'r [Rule], permission: &str, pattern: &str) -> Verdict<'r> {
        if permission != shell::PERMISSION {
            let asked = self.judge(permission, pattern);
            return settled(asked, || decide(permission, pattern, &[always]));
        }
        let line = shell::read(pattern);
        let verdicts = line.wants.iter().map(|want| self.judge_want_after(always, want));
        verdicts.reduce(stricter).unwrap_or(Verdict::ASK)
    }

    /// The same about one thing a shell line does.
    pub fn judge_want_after<'r>(&'r self, always: &'r [Rule], want: &Want) -> Verdict<'r> {
        settled(self.judge_want(want), || shell::evaluate(want, &[always]))
    }

    /// What a set says that was written for a project, by every name that this knows a file by.
    fn decide<'r>(&self, permission: &str, pattern: &str, set: &'r [Rule], project: &[PathBuf]) -> Verdict<'r> {
        let names = self.anchors.names(permission, pattern, project);
        let verdicts = names.iter().map(|name| decide(permission, name, &[set]));
        verdicts.reduce(stricter).unwrap_or(Verdict::ASK)
    }

    /// Every name that one of the sets knows a file by.
    pub fn names(&self, permission: &str, pattern: &str) -> Vec<String> {
        let projects = std::iter::once(&self.anchors.here).chain(&self.anchors.ancestors);
        let mut names: Vec<String> =
            projects.flat_map(|project| self.anchors.names(permission, pattern, project)).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Each set is asked by itself, with the project it was written for. Of equally strict ones the session's own stays: it
    /// is the one its user can change.
    fn strictest<'r>(&'r self, ask: impl Fn(&'r [Rule], &'r [PathBuf]) -> Verdict<'r>) -> Verdict<'r> {
        let here = &self.anchors.here;
        let above = |(index, set): (usize, &'r Vec<Rule>)| {
            let verdict = ask(set, self.anchors.of_ancestor(index));
            Verdict { source: Source::Ancestor(index), ..verdict }
        };
        let ceiling =
            |(index, set): (usize, &'r Vec<Rule>)| Verdict { source: Source::Ceiling(index), ..ask(set, here) };
        // The rule and not the verdict is looked at: a deny that an opaque command may hide from says "ask".
        let denies = |verdict: &Verdict| verdict.rule.is_some_and(|rule| rule.action == Action::Deny);
        let ancestors = self.ancestors.iter().enumerate().map(above);
        let ceilings = self.denies.iter().enumerate().map(ceiling).filter(denies);
        ancestors.chain(ceilings).fold(ask(&self.own, here), stricter)
    }

    /// Whether a tool that asks for this permission is worth showing to the model.
    pub fn shows(&self, permission: &str) -> bool {
        let mut sets = self.ancestors.iter().chain(&self.denies).chain([&self.own]);
        !sets.any(|set| denied_throughout(permission, set))
    }

    /// The policy of a child with these own rules: never wider than this one.
    pub fn child(&self, own: Vec<Rule>) -> Self {
        let mut ancestors = self.ancestors.clone();
        ancestors.push(self.own.clone());
        let anchors = Anchors { here: self.anchors.here.clone(), ancestors: self.anchors.above(self.ancestors.len()) };
        Self { own, denies: self.denies.clone(), ancestors, anchors }
    }

    /// This policy with rules of the session (from its creation, a patch or its spawner) after its own.
    pub fn with(&self, session: impl IntoIterator<Item = Rule>) -> Self {
        let mut policy = self.clone();
        policy.own.extend(session);
        policy
    }
}

fn settled<'r>(asked: Verdict<'r>, always: impl FnOnce() -> Verdict<'r>) -> Verdict<'r> {
    if asked.action != Action::Ask || asked.may_be_denied() {
        return asked;
    }
    let answered = always();
    if answered.action == Action::Allow { Verdict { source: Source::Always, ..answered } } else { asked }
}

/// Whether a set denies a permission whatever it is wanted for. A later rule for some narrower pattern that does not
/// deny keeps the tool useful: after "deny edit `*`, allow edit `*.md`" it is still shown.
fn denied_throughout(permission: &str, set: &[Rule]) -> bool {
    speaking_of(permission, &[set]).fold(false, |denied, (_, rule)| {
        let denies = rule.action == Action::Deny;
        if is_everything(&rule.pattern) { denies } else { denied && denies }
    })
}

#[cfg(test)]
mod tests {
    use proto::Action::{Allow, Ask, Deny};

    use super::*;
    use crate::sample::rules;

    fn root(own: &str) -> Policy {
        Policy { own: rules(own), ..Policy::default() }
    }

    fn below(ceiling: &str, own: &str) -> Policy {
        Policy { denies: vec![rules(ceiling)], ..root(own) }
    }

    #[track_caller]
    fn check(policy: &Policy, request: &str, expected: Action) {
        let (permission, pattern) = request.split_once(' ').expect("a request is a permission and a pattern");
        assert_eq!(policy.judge(permission, pattern).action, expected, "{request}");
    }

    #[test]
    fn a_child_does_nothing_its_parent_may_not() {
        let parent = root("allow * *\nask edit *\ndeny bash rm *");
        let child = parent.child(rules("allow * *"));
        check(&child, "read a.txt", Allow);
        check(&child, "edit a.txt", Ask);
        check(&child, "bash rm a.txt", Deny);
        let grandchild = child.child(rules("allow * *\ndeny read *"));
        check(&grandchild, "bash rm a.txt", Deny);
        check(&grandchild, "read a.txt", Deny);
        assert_eq!(grandchild.judge("bash", "rm a.txt").source, Source::Ancestor(0));
        assert_eq!(grandchild.judge("read", "a.txt").source, Source::Set(0));
    }

    #[test]
    fn an_ancestor_that_would_have_to_ask_is_asked_for() {
        let child = root("allow read *").child(rules("allow * *"));
        check(&child, "edit a.txt", Ask);
        let verdict = child.judge("edit", "a.txt");
        assert_eq!((verdict.rule, verdict.source), (None, Source::Ancestor(0)));
    }

    #[test]
    fn a_ceiling_counts_only_when_its_last_match_denies() {
        let policy = below("deny bash *\nallow bash git *\nask read *", "allow * *");
        check(&policy, "bash make", Deny);
        check(&policy, "bash git status", Allow);
        check(&policy, "read a.txt", Allow);
        check(&policy, "edit a.txt", Allow);
        check(&below("allow edit *", "deny edit *"), "edit a.txt", Deny);
        assert_eq!(policy.judge("bash", "make").source, Source::Ceiling(0));
    }

    #[test]
    fn a_ceiling_is_not_talked_around_with_a_semicolon() {
        let policy = below("deny bash rm *", "allow * *");
        check(&policy, "bash rm -rf .", Deny);
        check(&policy, "bash true; rm -rf .", Deny);
        check(&policy, "bash true; $X", Ask);
        check(&policy, "bash make", Allow);
        check(&below("ask bash rm *", "allow * *"), "bash true; $X", Allow);
    }

    #[test]
    fn a_doubt_because_of_a_deny_is_stricter_than_any_other_question() {
        let policy = below("deny bash rm *", "ask bash *");
        assert!(policy.judge("bash", "make; eval $X").may_be_denied());
        assert!(!policy.judge("bash", "make").may_be_denied());
        let always = rules("allow bash *");
        assert_eq!(policy.judge_after(&always, "bash", "make; eval $X").action, Ask);
        assert_eq!(policy.judge_after(&always, "bash", "make").action, Allow);
    }

    #[test]
    fn session_rules_come_last_and_stay_below_the_ceilings() {
        let policy = below("deny edit secret/*", "deny edit *").with(rules("allow edit *"));
        check(&policy, "edit a.txt", Allow);
        check(&policy, "edit secret/key", Deny);
    }

    #[test]
    fn always_settles_questions_and_lifts_no_deny() {
        let policy = below("deny bash git push*", "allow read *\nask edit *\ndeny edit *.lock");
        let always = rules("allow bash git *\nallow edit *\nallow bash make *");
        for (request, expected) in [
            ("bash git status", Allow),
            ("bash git status && make", Allow),
            ("bash git push", Deny),
            ("bash git status; rm x", Ask),
            ("bash make; $X", Ask),
            ("bash make $X", Ask),
            ("edit a.txt", Allow),
            ("edit Cargo.lock", Deny),
            ("bash make > Cargo.lock", Deny),
            ("webfetch x", Ask),
        ] {
            let (permission, pattern) = request.split_once(' ').expect("a permission and a pattern");
            assert_eq!(policy.judge_after(&always, permission, pattern).action, expected, "{request}");
        }
    }

    #[test]
    fn a_tool_denied_for_everything_is_hidden() {
        assert!(!root("allow * *\ndeny edit *").shows("edit"));
        assert!(!root("deny * *").shows("edit"));
        assert!(!root("deny edit *\ndeny edit *.md").shows("edit"));
        assert!(!root("allow edit *.md\ndeny edit *").shows("edit"));
        assert!(!root("deny edit *").child(rules("allow * *")).shows("edit"));
        assert!(!below("deny edit *", "allow * *").shows("edit"));
    }

    #[test]
    fn a_tool_that_may_still_be_of_use_is_shown() {
        assert!(root("").shows("edit"));
        assert!(root("allow * *\ndeny edit *.lock").shows("edit"));
        assert!(root("deny edit *\nallow edit *.md").shows("edit"));
        assert!(root("deny edit *\nask edit *.md").shows("edit"));
        assert!(root("deny * *\nallow grep *").shows("grep"));
        assert!(below("deny edit *\nallow edit *.md", "allow * *").shows("edit"));
    }

    #[test]
    fn rules_mean_the_project_they_were_written_for() {
        let at = |policy: Policy, here: &[&str]| {
            let here = here.iter().map(PathBuf::from).collect();
            Policy { anchors: Anchors { here, ..policy.anchors.clone() }, ..policy }
        };
        let parent = at(root("allow * *\ndeny read secrets/*\ndeny edit *\nallow edit src/*"), &["/r"]);
        check(&parent, "read secrets/key", Deny);
        check(&parent, "read sub/secrets/key", Allow);
        // In a repository inside of it, and in a directory elsewhere.
        let nested = at(parent.child(rules("allow * *")), &["/r/src/nested"]);
        check(&nested, "read /r/secrets/key", Deny);
        check(&nested, "read secrets/key", Allow);
        check(&nested, "edit a", Allow);
        check(&nested, "edit /r/a", Deny);
        let inside = at(parent.child(rules("allow * *")), &["/r/secrets"]);
        check(&inside, "read key", Deny);
        let elsewhere = at(parent.child(rules("allow * *")), &["/other"]);
        check(&elsewhere, "read secrets/key", Allow);
        check(&elsewhere, "read /r/secrets/key", Deny);
        check(&at(elsewhere.child(rules("allow * *")), &["/r/secrets"]), "read key", Deny);
        // A second checkout is the same project, wherever it lies, and so is the first one seen from there.
        for tree in ["/trees/a", "/r/.convoke/worktrees/a"] {
            let own = at(root("allow * *\ndeny read secrets/*"), &[tree, "/r"]);
            check(&own, "read secrets/key", Deny);
            check(&own, "read /r/secrets/key", Deny);
            check(&own, "read /r/other", Allow);
            let child = at(parent.child(rules("allow * *")), &[tree, "/r"]);
            check(&child, "read secrets/key", Deny);
            check(&child, "read /r/secrets/key", Deny);
            check(&child, "edit src/a", Allow);
            check(&child, "edit a", Deny);
            let sibling = at(child.child(rules("allow * *")), &["/trees/b", "/r"]);
            check(&sibling, "read secrets/key", Deny);
            check(&sibling, &format!("read {tree}/secrets/key"), Deny);
        }
    }

    #[test]
    fn a_policy_survives_being_stored() {
        let policy = below("deny bash rm *", "allow * *").child(rules("ask edit *"));
        let stored = serde_json::to_string(&policy).expect("a policy is plain data");
        assert_eq!(serde_json::from_str::<Policy>(&stored).expect("as it was written"), policy);
    }
}
