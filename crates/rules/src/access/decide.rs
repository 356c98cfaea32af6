//! The guard itself: relation, sandbox, mail, owner; in this order.

use proto::Code;

use super::{Act, Clamp, Party, Relation, Settings, Visibility, relation};

/// What the guard says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    Allowed,
    Denied { code: Code, reason: Reason },
}

/// Why an act is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A sandboxed caller did not start it. Says nothing about whether it exists.
    Sandbox,
    /// The caller sees as far as `has`; this takes `needs`.
    Visibility {
        has: Visibility,
        needs: Visibility,
    },
    AgentToAgentOff,
    PairNotAllowed,
}

impl Reason {
    pub fn code(self) -> Code {
        match self {
            Self::Sandbox => Code::ForbiddenSandbox,
            Self::Visibility { .. } => Code::ForbiddenVisibility,
            Self::AgentToAgentOff | Self::PairNotAllowed => Code::ForbiddenA2a,
        }
    }
}

impl Decision {
    /// What a sandboxed caller is told about anything it did not start, and about anything that does not exist.
    pub const HIDDEN: Self = Self::Denied { code: Code::ForbiddenSandbox, reason: Reason::Sandbox };

    pub fn is_allowed(self) -> bool {
        self == Self::Allowed
    }

    fn denied(reason: Reason) -> Self {
        Self::Denied { code: reason.code(), reason }
    }
}

/// Whether the caller may do this to the target.
pub fn decide(caller: &Party, target: &Party, act: Act, settings: &Settings) -> Decision {
    let relation = relation(caller, target);
    if relation == Relation::Own {
        return Decision::Allowed;
    }
    // Before everything else, so that a refusal is the same whatever else is set and whoever is asked about.
    if relation != Relation::Descendant && clamped(caller, settings) {
        return Decision::HIDDEN;
    }
    if act == Act::Send && takes_mail(relation, target) {
        return Decision::Allowed;
    }
    let has = settings.visibility(&caller.owner, act);
    let needs = needed(relation, caller, target);
    if has < needs {
        return Decision::denied(Reason::Visibility { has, needs });
    }
    // What a session started is its own affair, whoever owns it.
    let refused = match relation {
        Relation::Descendant => None,
        _ => settings.agent_to_agent.refuses(&caller.owner, &target.owner),
    };
    refused.map_or(Decision::Allowed, Decision::denied)
}

/// What becomes of a message that one session writes to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    Posted,
    /// Nothing but visibility is in its way: the user decides.
    Held(Reason),
    Refused(Reason),
}

/// The same guard for a message. A session of another tree belongs to the same user, so a caller that does not see it
/// reaches it through the user, like a session of another gateway. A sandboxed caller and a pair of agents that may not
/// write to each other stay refused.
pub fn deliver(caller: &Party, target: &Party, settings: &Settings) -> Delivery {
    let Decision::Denied { reason, .. } = decide(caller, target, Act::Send, settings) else { return Delivery::Posted };
    let neighbour = matches!(relation(caller, target), Relation::SameOwner | Relation::Other);
    match reason {
        Reason::Visibility { .. } if neighbour => {
            let refused = settings.agent_to_agent.refuses(&caller.owner, &target.owner);
            refused.map_or(Delivery::Held(reason), Delivery::Refused)
        }
        reason => Delivery::Refused(reason),
    }
}

/// Whether the caller is held to what it started.
pub(super) fn clamped(caller: &Party, settings: &Settings) -> bool {
    caller.sandboxed && settings.sandboxed == Clamp::Spawned
}

/// Whether mail goes there by kinship alone.
fn takes_mail(relation: Relation, target: &Party) -> bool {
    match relation {
        Relation::Own | Relation::Ancestor => true,
        Relation::Descendant | Relation::SameTree => target.named,
        Relation::SameOwner | Relation::Other => false,
    }
}

fn needed(relation: Relation, caller: &Party, target: &Party) -> Visibility {
    match relation {
        Relation::Own => Visibility::Own,
        Relation::Descendant => Visibility::Tree,
        _ if caller.owner == target.owner => Visibility::Agent,
        _ => Visibility::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::sample::party;
    use crate::access::{AgentToAgent, Pattern};

    fn settings(visibility: Visibility, pair: Option<&str>) -> Settings {
        let allow = pair.map(|pair| Pattern::parse(pair).unwrap()).into_iter().collect();
        let agent_to_agent = AgentToAgent { enabled: pair.is_some(), allow };
        Settings { visibility, agent_to_agent, ..Settings::default() }
    }

    #[test]
    fn a_message_to_another_tree_is_posted_held_or_refused() {
        let (caller, own, other) = (party("r", "build"), party("q", "build"), party("p", "plan"));
        let reason = |has, needs| Reason::Visibility { has, needs };
        let (tree, agent, all) = (Visibility::Tree, Visibility::Agent, Visibility::All);
        for (target, visibility, pair, expected) in [
            (&own, all, None, Delivery::Posted),
            (&own, agent, None, Delivery::Posted),
            (&own, tree, None, Delivery::Held(reason(tree, agent))),
            (&other, tree, None, Delivery::Refused(Reason::AgentToAgentOff)),
            (&other, tree, Some("plan -> build"), Delivery::Refused(Reason::PairNotAllowed)),
            (&other, tree, Some("build -> plan"), Delivery::Held(reason(tree, all))),
            (&other, agent, Some("build -> plan"), Delivery::Held(reason(agent, all))),
            (&other, all, Some("build -> plan"), Delivery::Posted),
            (&other, all, None, Delivery::Refused(Reason::AgentToAgentOff)),
        ] {
            assert_eq!(deliver(&caller, target, &settings(visibility, pair)), expected, "{visibility:?} {pair:?}");
        }
    }

    #[test]
    fn nothing_is_held_within_a_tree_or_for_a_sandboxed_caller() {
        let hidden = Delivery::Refused(Reason::Sandbox);
        let boxed = Party { sandboxed: true, ..party("r", "build") };
        assert_eq!(deliver(&boxed, &party("q", "build"), &settings(Visibility::Tree, None)), hidden);
        assert_eq!(deliver(&boxed, &party("q", "build"), &settings(Visibility::All, None)), hidden);
        let sibling = deliver(&party("r/a", "build"), &party("r/b", "build"), &settings(Visibility::Tree, None));
        assert!(matches!(sibling, Delivery::Refused(Reason::Visibility { .. })), "{sibling:?}");
    }
}
