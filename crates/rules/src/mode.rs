//! Permission modes: named presets that a person picks for a session, and a spawner for a child (A6).
//!
//! A mode only ever decides what would be asked, or denies more. None of them lifts a deny.

use crate::Verdict;
use proto::{Action, Rule};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Nothing but the rules. (Declared in order of how much goes unasked; plan stands apart.)
    #[default]
    Ask,
    /// Changes to files are not asked about.
    AcceptEdits,
    /// Look and think: nothing but markdown is changed, until the plan is approved.
    Plan,
    /// Nothing is asked about.
    Auto,
}

/// Every mode, as people and models name them.
pub const MODES: [&str; 4] = ["ask", "accept-edits", "plan", "auto"];

impl Mode {
    pub fn parse(name: &str) -> Option<Self> {
        let words = name.trim().to_ascii_lowercase().replace('_', "-");
        Some(match words.as_str() {
            "ask" | "default" => Self::Ask,
            "accept-edits" | "acceptedits" => Self::AcceptEdits,
            "plan" => Self::Plan,
            "auto" => Self::Auto,
            _ => return None,
        })
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ask => MODES[0],
            Self::AcceptEdits => MODES[1],
            Self::Plan => MODES[2],
            Self::Auto => MODES[3],
        }
    }

    /// Rules above those of the session: the stricter of both counts, so that none of these lifts a deny.
    pub fn ceiling(self) -> Option<Vec<Rule>> {
        match self {
            Self::Ask | Self::AcceptEdits | Self::Auto => None,
            Self::Plan => Some(vec![
                // What it does not speak of is none of its business.
                Rule::new("*", "*", Action::Allow),
                Rule::new("edit", "*", Action::Deny),
                Rule::new("edit", "*.md", Action::Allow),
                // Nowhere but in the project, and nothing that decides what runs.
                Rule::new("edit", "/*", Action::Deny),
                Rule::new("protected", "*", Action::Deny),
                Rule::new("plan_enter", "*", Action::Deny),
            ]),
        }
    }

    /// What becomes of a verdict in this mode. Where nobody is asked, what may be denied is.
    pub fn settle(self, permission: &str, verdict: &Verdict) -> Action {
        let unasked = match self {
            Self::Ask | Self::Plan => false,
            Self::AcceptEdits => permission == "edit",
            // Whether a plan is good is never taken for granted.
            Self::Auto => permission != "plan_exit",
        };
        match verdict.action {
            Action::Ask if unasked && verdict.may_be_denied() => Action::Deny,
            Action::Ask if unasked => Action::Allow,
            said => said,
        }
    }

    /// Whether a session in this mode may start a child in that one: a child is never asked less than its parent.
    pub fn may_start(self, child: Self) -> bool {
        match child {
            Self::Ask | Self::Plan => true,
            Self::AcceptEdits => matches!(self, Self::AcceptEdits | Self::Auto),
            Self::Auto => self == Self::Auto,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use proto::Action::{Allow, Ask, Deny};

    #[test]
    fn names_read_back() {
        for name in MODES {
            assert_eq!(Mode::parse(name).map(Mode::as_str), Some(name));
        }
        assert_eq!(Mode::parse("acceptEdits"), Some(Mode::AcceptEdits));
        assert_eq!(Mode::parse("yolo"), None);
    }

    /// What a session in a mode decides whose other rules say this.
    fn decided(mode: Mode, permission: &str, pattern: &str, said: Action) -> Action {
        let own = vec![Rule::new("*", "*", said)];
        let policy = Policy { own, ancestors: mode.ceiling().into_iter().collect(), ..Policy::default() };
        mode.settle(permission, &policy.judge(permission, pattern))
    }

    #[test]
    fn every_mode_with_every_decision() {
        const TABLE: &[(&str, &str, [[Action; 3]; 4])] = &[
            // For each of ask, accept-edits, plan and auto: what comes of a deny, an ask and an allow.
            ("edit", "src/a.rs", [[Deny, Ask, Allow], [Deny, Allow, Allow], [Deny, Deny, Deny], [Deny, Allow, Allow]]),
            ("edit", "plan.md", [[Deny, Ask, Allow], [Deny, Allow, Allow], [Deny, Ask, Allow], [Deny, Allow, Allow]]),
            // A command that looks may run while planning: its sandbox lets it write nothing.
            ("bash", "make", [[Deny, Ask, Allow], [Deny, Ask, Allow], [Deny, Ask, Allow], [Deny, Allow, Allow]]),
            ("read", "a.env", [[Deny, Ask, Allow], [Deny, Ask, Allow], [Deny, Ask, Allow], [Deny, Allow, Allow]]),
            ("plan_exit", "*", [[Deny, Ask, Allow], [Deny, Ask, Allow], [Deny, Ask, Allow], [Deny, Ask, Allow]]),
            ("plan_enter", "*", [[Deny, Ask, Allow], [Deny, Ask, Allow], [Deny, Deny, Deny], [Deny, Allow, Allow]]),
        ];
        for (permission, pattern, modes) in TABLE {
            for (name, expected) in MODES.iter().zip(modes) {
                let mode = Mode::parse(name).unwrap();
                let is = [Deny, Ask, Allow].map(|said| decided(mode, permission, pattern, said));
                assert_eq!(is, *expected, "{name}: {permission} {pattern}");
            }
        }
    }

    #[test]
    fn no_mode_lifts_a_ceiling() {
        for name in MODES {
            let mode = Mode::parse(name).unwrap();
            let (own, deny) = (vec![Rule::new("*", "*", Allow)], vec![Rule::new("*", "*", Deny)]);
            let ancestors: Vec<Vec<Rule>> = mode.ceiling().into_iter().collect();
            let below = ancestors.iter().cloned().chain([deny.clone()]).collect();
            for policy in [
                Policy { own: own.clone(), denies: vec![deny], ancestors, ..Policy::default() },
                Policy { own: own.clone(), ancestors: below, ..Policy::default() },
            ] {
                for (permission, pattern) in [("edit", "a.md"), ("bash", "ls"), ("read", "a")] {
                    let action = mode.settle(permission, &policy.judge(permission, pattern));
                    assert_eq!(action, Deny, "{name}: {permission}");
                }
            }
        }
    }

    #[test]
    fn what_may_be_denied_is_asked_or_denied_and_never_taken_for_granted() {
        let rule = |pattern: &str, action| Rule::new("bash", pattern, action);
        let policy = Policy { own: vec![rule("*", Allow), rule("rm *", Deny)], ..Policy::default() };
        for (mode, expected) in [(Mode::Ask, Ask), (Mode::AcceptEdits, Ask), (Mode::Plan, Ask), (Mode::Auto, Deny)] {
            assert_eq!(mode.settle("bash", &policy.judge("bash", "eval rm victim")), expected, "{}", mode.as_str());
            assert_eq!(mode.settle("bash", &policy.judge("bash", "make")), Allow, "{}", mode.as_str());
        }
        let asks = Policy { own: vec![rule("*", Allow), rule("rm *", Ask)], ..Policy::default() };
        assert_eq!(Mode::Auto.settle("bash", &asks.judge("bash", "eval rm victim")), Allow);
    }

    #[test]
    fn a_child_is_never_asked_less_than_its_parent() {
        let allowed = |parent: Mode| MODES.map(|child| parent.may_start(Mode::parse(child).unwrap()));
        assert_eq!(allowed(Mode::Ask), [true, false, true, false]);
        assert_eq!(allowed(Mode::Plan), [true, false, true, false]);
        assert_eq!(allowed(Mode::AcceptEdits), [true, true, true, false]);
        assert_eq!(allowed(Mode::Auto), [true, true, true, true]);
    }
}
