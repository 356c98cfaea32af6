//! Permission modes: named presets that a person picks for a session, and a spawner for a child (A6).
//!
//! A mode only ever decides what would be asked, or denies more. None of them lifts a deny.

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

    /// Rules that hold after all others of the session.
    pub fn rules(self) -> Vec<Rule> {
        match self {
            Self::Ask | Self::AcceptEdits | Self::Auto => Vec::new(),
            Self::Plan => vec![
                Rule::new("edit", "*", Action::Deny),
                Rule::new("edit", "*.md", Action::Allow),
                Rule::new("plan_enter", "*", Action::Deny),
            ],
        }
    }

    /// What becomes of a decision in this mode.
    pub fn settle(self, permission: &str, action: Action) -> Action {
        let unasked = match self {
            Self::Ask | Self::Plan => false,
            Self::AcceptEdits => permission == "edit",
            // Whether a plan is good is never taken for granted.
            Self::Auto => permission != "plan_exit",
        };
        if action == Action::Ask && unasked { Action::Allow } else { action }
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
    use proto::Action::{Allow, Ask, Deny};

    #[test]
    fn names_read_back() {
        for name in MODES {
            assert_eq!(Mode::parse(name).map(Mode::as_str), Some(name));
        }
        assert_eq!(Mode::parse("acceptEdits"), Some(Mode::AcceptEdits));
        assert_eq!(Mode::parse("yolo"), None);
    }

    #[test]
    fn no_mode_lifts_a_deny() {
        for mode in MODES.map(|name| Mode::parse(name).unwrap()) {
            for permission in ["edit", "bash", "plan_exit"] {
                assert_eq!(mode.settle(permission, Deny), Deny, "{mode:?}");
                assert_eq!(mode.settle(permission, Allow), Allow, "{mode:?}");
            }
        }
        assert_eq!(Mode::Auto.settle("bash", Ask), Allow);
        assert_eq!(Mode::Auto.settle("plan_exit", Ask), Ask);
        assert_eq!(Mode::AcceptEdits.settle("edit", Ask), Allow);
        assert_eq!(Mode::AcceptEdits.settle("bash", Ask), Ask);
        assert_eq!(Mode::Ask.settle("edit", Ask), Ask);
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
