//! Which agents may reach each other's sessions: `tools.agentToAgent`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Reason;
use crate::matches;

/// Whether agents may reach sessions of other owners, and which.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentToAgent {
    pub enabled: bool,
    /// Nothing listed is nobody allowed.
    pub allow: Vec<Pattern>,
}

/// One entry of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Pattern {
    /// Agents that may reach, and be reached by, any other agent so listed.
    Agent(Glob),
    /// `a -> b`: the left may reach the right, and not the other way round.
    Pair { from: Glob, to: Glob },
}

/// An agent's name with `*` and `?`, in lower case as names are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(String);

/// The longest name of an agent (S1).
const LONGEST: usize = 64;

impl AgentToAgent {
    /// Why one owner may not reach another's sessions; nothing when it may. The same owner always may.
    pub fn refuses(&self, from: &str, to: &str) -> Option<Reason> {
        if from == to {
            None
        } else if !self.enabled {
            Some(Reason::AgentToAgentOff)
        } else if !self.targets(from).any(|target| target.matches(to)) {
            Some(Reason::PairNotAllowed)
        } else {
            None
        }
    }

    /// Whom an owner may reach, turned on or not.
    pub(super) fn targets(&self, from: &str) -> impl Iterator<Item = &Glob> {
        let listed = self.allow.iter().any(|pattern| matches!(pattern, Pattern::Agent(glob) if glob.matches(from)));
        self.allow.iter().filter_map(move |pattern| match pattern {
            Pattern::Agent(glob) => listed.then_some(glob),
            Pattern::Pair { from: left, to } => left.matches(from).then_some(to),
        })
    }
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((from, to)) = text.split_once("->") else { return Glob::parse(text).map(Self::Agent) };
        Ok(Self::Pair { from: Glob::parse(from)?, to: Glob::parse(to)? })
    }
}

impl Glob {
    fn parse(text: &str) -> Result<Self, String> {
        let name = text.trim();
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'*' | b'?');
        if (1..=LONGEST).contains(&name.len()) && name.bytes().all(known) {
            return Ok(Self(name.to_ascii_lowercase()));
        }
        let shown: String = name.chars().take(80).collect();
        Err(format!("`{shown}` is not an agent's name or pattern: write `build`, `team-*` or `lead -> team-*`"))
    }

    fn matches(&self, agent: &str) -> bool {
        matches(&self.0, agent)
    }

    /// The one name it stands for, if it is only one.
    pub(super) fn literal(&self) -> Option<&str> {
        (!self.0.contains(['*', '?'])).then_some(&self.0)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(glob) => f.write_str(&glob.0),
            Self::Pair { from, to } => write!(f, "{} -> {}", from.0, to.0),
        }
    }
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowing(entries: &[&str]) -> AgentToAgent {
        let allow = entries.iter().map(|entry| Pattern::parse(entry).unwrap()).collect();
        AgentToAgent { enabled: true, allow }
    }

    #[track_caller]
    fn check(entries: &[&str], from: &str, to: &str, allowed: bool) {
        let reason = (!allowed).then_some(Reason::PairNotAllowed);
        assert_eq!(allowing(entries).refuses(from, to), reason, "{from} to {to} by {entries:?}");
    }

    #[test]
    fn both_ends_must_be_listed() {
        check(&["build", "plan"], "build", "plan", true);
        check(&["build", "plan"], "plan", "build", true);
        check(&["build"], "build", "plan", false);
        check(&["plan"], "build", "plan", false);
        check(&["team-*"], "team-a", "team-b", true);
        check(&["team-?"], "team-a", "team-bc", false);
        check(&["*"], "build", "plan", true);
    }

    #[test]
    fn a_pair_has_a_direction() {
        check(&["lead -> team-*"], "lead", "team-a", true);
        check(&["lead->team-*"], "lead", "team-a", true);
        check(&["lead -> team-*"], "team-a", "lead", false);
        check(&["lead -> team-*"], "team-a", "team-b", false);
        check(&["* -> help"], "build", "help", true);
    }

    #[test]
    fn the_ends_of_a_pair_are_not_entries_of_their_own() {
        check(&["lead -> plan", "build"], "build", "plan", false);
        check(&["lead -> plan", "build"], "lead", "build", false);
    }

    #[test]
    fn nothing_listed_is_nobody_and_off_is_off() {
        check(&[], "build", "plan", false);
        let off = AgentToAgent { enabled: false, ..allowing(&["*"]) };
        assert_eq!(off.refuses("build", "plan"), Some(Reason::AgentToAgentOff));
        assert_eq!(off.refuses("build", "build"), None);
    }

    #[test]
    fn a_pattern_reads_back_as_it_is_shown() {
        for (text, shown) in [("Team-*", "team-*"), (" a->b ", "a -> b"), ("? -> *", "? -> *")] {
            let pattern = Pattern::parse(text).unwrap();
            assert_eq!(pattern.to_string(), shown);
            assert_eq!(Pattern::parse(shown), Ok(pattern));
        }
    }

    #[test]
    fn what_is_no_pattern_is_named() {
        for bad in ["", "  ", "a b", "a -> b -> c", "-> b", "a ->", "a:b", "agent/x", "é", &"x".repeat(65)] {
            let error = Pattern::parse(bad).unwrap_err();
            assert!(error.contains("write `build`"), "{error}");
        }
    }
}
