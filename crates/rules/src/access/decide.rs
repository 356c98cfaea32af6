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
