//! What a session was given: its own rules and its parents' ceilings, as kept in its row.
//!
//! The agent's rules are not kept here: they are read from the configuration when a session wakes, so that a changed
//! setting holds for old sessions too. What parents could do is kept, since it must never grow.

use crate::agents::{Agents, Profile};
use proto::{Action, Rule};
use rules::Policy;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Grant {
    /// From creation, a patch, the spawner, or an "always".
    pub rules: Vec<Rule>,
    /// The rules of every session above, as of the spawn.
    pub ancestors: Vec<Vec<Rule>>,
}

impl Grant {
    pub(crate) fn read(text: &str) -> Self {
        // A grant that cannot be read grants nothing.
        serde_json::from_str(text)
            .unwrap_or_else(|_| Self { rules: vec![Rule::new("*", "*", Action::Deny)], ancestors: Vec::new() })
    }

    pub(crate) fn write(&self) -> String {
        serde_json::to_string(self).expect("rules are JSON")
    }

    /// All that decides what the session may do while it runs as `profile`.
    pub(crate) fn policy(&self, profile: &Profile, agents: &Agents) -> Policy {
        let mut own = profile.rules.clone();
        own.extend(self.rules.iter().cloned());
        Policy { own, denies: vec![agents.global().to_vec()], ancestors: self.ancestors.clone() }
    }

    /// For a child that runs as `profile` below a session with `policy`: no spawning and no todo lists, unless the
    /// child's own rules speak of them.
    pub(crate) fn child(policy: &Policy, profile: &Profile) -> Self {
        let closed = ["task", "todoread", "todowrite"].into_iter().filter(|permission| !profile.names(permission));
        let rules = closed.map(|permission| Rule::new(permission, "*", Action::Deny)).collect();
        Self { rules, ancestors: policy.child(Vec::new()).ancestors }
    }
}
