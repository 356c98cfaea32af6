//! What is allowed: a list of rules and a request go in, a verdict comes out.
//!
//! Pure: no clock, no files, no environment. A request is a *permission* (`edit`, `bash`, `task`, …) and a *pattern*,
//! the thing it is wanted for (a path, a command, an agent's name). Both sides of a rule are wildcards. The last rule
//! that matches decides, and where none does, a person is asked.
//!
//! - [`matches`](matches()): one wildcard against one text.
//! - [`evaluate`]: one request against lists of rules.
//! - [`Policy`]: what a session may do, below the ceilings it inherited.
//! - [`unreachable()`], [`expand`]: what a configuration needs to know about a list before it is used.
//! - [`shell`]: what a shell line does, so that rules for commands can be asked about each part of it.
//! - [`access`]: which sessions a session may list, read, write to, look at and control.
//! - [`redact`]: secrets taken out of what is shown.

pub mod access;
pub mod redact;

mod anchor;
mod list;
pub mod mode;
mod policy;
pub mod shell;
mod web;
mod wildcard;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod sample;

pub use anchor::Anchors;
pub use list::{expand, unreachable};
pub use policy::Policy;
pub use web::{carried, must_be_named, tells_secrets};
pub use wildcard::{matches, place};

use proto::{Action, Rule};

/// What was decided, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict<'r> {
    pub action: Action,
    /// The rule behind the decision. Its own action is stricter than the verdict's in one case: a command that
    /// is known only in part is asked because of a deny that nobody can rule out.
    pub rule: Option<&'r Rule>,
    pub source: Source,
}

/// Where a verdict came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// No rule matched, so a person is asked.
    Default,
    /// One of the sets given to [`evaluate`], by its index; a [`Policy`] has one such set, its own.
    Set(usize),
    /// One of [`Policy::ancestors`], by its index. Without a rule: that ancestor would have to ask.
    Ancestor(usize),
    /// One of [`Policy::denies`], by its index.
    Ceiling(usize),
    /// A person answered "always" before.
    Always,
}

impl Verdict<'_> {
    /// The answer to a request no rule speaks about.
    pub const ASK: Self = Self { action: Action::Ask, rule: None, source: Source::Default };

    /// Whether a person is asked because of a deny that nobody can rule out. Without a person it is a deny.
    pub fn may_be_denied(&self) -> bool {
        self.action == Action::Ask && self.rule.is_some_and(|rule| rule.action == Action::Deny)
    }
}

/// Judges one request by all sets, read as one list: the last rule that matches decides. A shell line is as good as the
/// strictest verdict about what it does.
pub fn evaluate<'r>(permission: &str, pattern: &str, sets: &[&'r [Rule]]) -> Verdict<'r> {
    if permission != shell::PERMISSION {
        return decide(permission, pattern, sets);
    }
    let line = shell::read(pattern);
    let verdicts = line.wants.iter().map(|want| shell::evaluate(want, sets));
    verdicts.reduce(stricter).unwrap_or(Verdict::ASK)
}

/// Judges one request whose pattern is what it says.
fn decide<'r>(permission: &str, pattern: &str, sets: &[&'r [Rule]]) -> Verdict<'r> {
    speaking_of(permission, sets)
        .rev()
        .find(|(_, rule)| speaks(rule, permission, pattern))
        .map_or(Verdict::ASK, |(set, rule)| Verdict { action: rule.action, rule: Some(rule), source: Source::Set(set) })
}

/// Of two equally strict verdicts the first stays, but a question because of a deny is stricter than any other.
fn stricter<'r>(held: Verdict<'r>, next: Verdict<'r>) -> Verdict<'r> {
    let strictness = |verdict: &Verdict| (verdict.action, !verdict.may_be_denied());
    if strictness(&next) < strictness(&held) { next } else { held }
}

/// Whether a rule about a permission says something about what is asked for. What has to be named, a wildcard denies,
/// and neither allows nor asks about.
fn speaks(rule: &Rule, permission: &str, asked: &str) -> bool {
    let named = permission != web::PRIVATE || rule.action == Action::Deny || web::covers_host(&rule.pattern, asked);
    named && fits(permission, &rule.pattern, asked)
}

/// Whether a rule's pattern takes what is asked for.
fn fits(permission: &str, pattern: &str, asked: &str) -> bool {
    if permission == web::PERMISSION { web::matches(pattern, asked) } else { matches(pattern, asked) }
}

/// The rules about a permission, in order, each with the index of its set.
fn speaking_of<'r>(permission: &str, sets: &[&'r [Rule]]) -> impl DoubleEndedIterator<Item = (usize, &'r Rule)> {
    sets.iter()
        .enumerate()
        .flat_map(|(set, rules)| rules.iter().map(move |rule| (set, rule)))
        .filter(move |(_, rule)| matches(&rule.permission, permission))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::rules;
    use proto::Action::{Allow, Ask, Deny};

    /// Rules and a request as a person would write them: `allow bash git *`, and `bash git status`.
    #[track_caller]
    fn check(list: &str, request: &str, expected: Action) {
        let (permission, pattern) = request.split_once(' ').expect("a request is a permission and a pattern");
        assert_eq!(evaluate(permission, pattern, &[&rules(list)]).action, expected, "{request}");
    }

    #[test]
    fn the_last_matching_rule_wins() {
        check("allow bash git *\ndeny bash git push*", "bash git push --force", Deny);
        check("allow bash git *\ndeny bash git push*", "bash git status", Allow);
        check("deny bash git push*\nallow bash git *", "bash git push --force", Allow);
        check("deny edit *\nallow edit *.md", "edit docs/plan.md", Allow);
        check("deny edit *\nallow edit *.md", "edit src/main.rs", Deny);
    }

    #[test]
    fn what_no_rule_speaks_about_is_asked() {
        check("", "edit src/main.rs", Ask);
        check("allow read *", "edit src/main.rs", Ask);
        check("allow edit *.md", "edit src/main.rs", Ask);
    }

    #[test]
    fn a_permission_is_a_wildcard_too() {
        check("allow * *", "webfetch https://example.org", Allow);
        check("allow * *\ndeny github_* *", "github_create_issue *", Deny);
        check("allow * *\ndeny github_* *", "gitlab_create_issue *", Allow);
    }

    #[test]
    fn env_files_are_asked_and_their_examples_are_not() {
        let defaults = "allow read *\nask read *.env\nask read *.env.*\nallow read *.env.example";
        check(defaults, "read src/lib.rs", Allow);
        check(defaults, "read deploy/.env", Ask);
        check(defaults, "read .env.local", Ask);
        check(defaults, "read .env.example", Allow);
    }

    #[test]
    fn hosts_that_tell_secrets_are_allowed_by_name_alone() {
        const DEFAULTS: &str = "allow * *\ndeny private_network *\n";
        for wide in [
            "allow * *",
            "allow private_network *",
            "ask private_network *",
            "allow private_* 169.*",
            "allow private_network 169.254.169.25?",
            "allow private_network *.internal",
            "allow private_network [*",
        ] {
            let list = format!("{DEFAULTS}{wide}");
            for host in ["169.254.169.254", "[fe80::1]", "[::ffff:a9fe:a9fe]", "metadata.google.internal"] {
                check(&list, &format!("private_network {host}"), Deny);
            }
        }
        check(&format!("{DEFAULTS}allow private_network *"), "private_network localhost", Allow);
        check(&format!("{DEFAULTS}allow private_network *"), "private_network 10.1.2.3", Allow);
        let named = format!("{DEFAULTS}allow private_network 169.254.169.254\nallow private_network *");
        check(&named, "private_network 169.254.169.254", Allow);
        check(&named, "private_network 169.254.170.2", Deny);
        check(&format!("{named}\ndeny private_network 169.*"), "private_network 169.254.169.254", Deny);
        let policy = Policy { own: rules("ask private_network 169.254.169.254"), ..Policy::default() };
        let always = rules("allow private_network *");
        assert_eq!(policy.judge_after(&always, "private_network", "169.254.169.254").action, Ask);
    }

    #[test]
    fn a_verdict_names_its_rule_and_its_set() {
        let (first, second) = (rules("allow edit *\nask edit *.lock"), rules("deny edit secret/*"));
        let sets: [&[Rule]; 2] = [&first, &second];
        let verdict = evaluate("edit", "secret/key", &sets);
        assert_eq!(verdict, Verdict { action: Deny, rule: Some(&second[0]), source: Source::Set(1) });
        let verdict = evaluate("edit", "Cargo.lock", &sets);
        assert_eq!(verdict, Verdict { action: Ask, rule: Some(&first[1]), source: Source::Set(0) });
        assert_eq!(evaluate("read", "Cargo.lock", &sets), Verdict::ASK);
    }
}
