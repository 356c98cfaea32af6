//! Who looks: a person, who sees everything, or a session, which sees what the rules let it.

use proto::{AgentId, Error};
use rules::access::{self, Act, Decision, Delivery, Party, Settings};
use std::sync::Arc;
use store::{Scope, Session};

pub(crate) enum Guard {
    Person,
    Session { caller: Arc<Session>, sandboxed: bool, settings: Arc<Settings> },
}

impl Guard {
    pub(crate) fn is_person(&self) -> bool {
        matches!(self, Self::Person)
    }

    /// The caller's own session, for `current`.
    pub(crate) fn own(&self) -> Option<&Session> {
        match self {
            Self::Person => None,
            Self::Session { caller, .. } => Some(caller),
        }
    }

    /// A sandboxed caller: what it may not see does not exist for it.
    pub(crate) fn is_boxed(&self) -> bool {
        matches!(self, Self::Session { sandboxed: true, .. })
    }

    /// The one answer to a sandboxed caller about what it may not see and about what is not there. `name` is what the
    /// caller called it, so that the answer tells nothing new.
    pub(crate) fn nothing(act: Act, name: &str) -> Error {
        let name: String = name.chars().take(80).collect();
        Error::new(access::Reason::Sandbox.code(), access::explain(access::Reason::Sandbox, act, &name))
    }

    pub(crate) fn sees(&self, target: &Session, act: Act) -> bool {
        self.decide(target, act).is_allowed()
    }

    pub(crate) fn check(&self, target: &Session, act: Act, shown: &str) -> Result<(), Error> {
        match self.decide(target, act) {
            Decision::Allowed => Ok(()),
            Decision::Denied { .. } if self.is_boxed() => Err(Self::nothing(act, shown)),
            Decision::Denied { code, reason } => Err(Error::new(code, access::explain(reason, act, shown))),
        }
    }

    /// What becomes of a message to a session; a refusal is an error. Held ones come with the reason.
    pub(crate) fn mail(&self, target: &Session, shown: &str) -> Result<Option<String>, Error> {
        let Self::Session { caller, sandboxed, settings } = self else { return Ok(None) };
        match access::deliver(&party(caller, *sandboxed), &party(target, false), settings) {
            Delivery::Posted => Ok(None),
            Delivery::Held(reason) => Ok(Some(access::explain(reason, Act::Send, shown))),
            Delivery::Refused(_) if self.is_boxed() => Err(Self::nothing(Act::Send, shown)),
            Delivery::Refused(reason) => Err(Error::new(reason.code(), access::explain(reason, Act::Send, shown))),
        }
    }

    fn decide(&self, target: &Session, act: Act) -> Decision {
        match self {
            Self::Person => Decision::Allowed,
            Self::Session { caller, sandboxed, settings } => {
                access::decide(&party(caller, *sandboxed), &party(target, false), act, settings)
            }
        }
    }

    /// The widest range of the index that can hold something this caller may see.
    pub(crate) fn scope(&self, agent: Option<&str>) -> Result<Scope, Error> {
        let owner = agent.map(|agent| AgentId::parse(agent).map(|agent| agent.as_str().to_owned())).transpose()?;
        let Self::Session { caller, sandboxed, settings } = self else {
            return Ok(owner.map_or(Scope::All, Scope::Owner));
        };
        if let Some(owner) = owner {
            return Ok(Scope::Owner(owner));
        }
        let mut widest = access::scope(&party(caller, *sandboxed), settings, Act::List);
        Ok(match widest.len() {
            1 => match widest.remove(0) {
                access::Scope::Session(_) | access::Scope::Below(_) => Scope::Below(caller.id.clone()),
                access::Scope::Tree(root) => Scope::Below(root),
                access::Scope::Owner(owner) => Scope::Owner(owner),
                access::Scope::All => Scope::All,
            },
            // Several ranges: read the whole and let the guard pick.
            _ => Scope::All,
        })
    }
}

/// A session as the guard knows it. Whether it is sandboxed counts only for whoever acts.
fn party(session: &Session, sandboxed: bool) -> Party {
    Party {
        session: session.id.clone(),
        root: session.root.clone(),
        path: session.path.clone(),
        owner: session.owner.clone(),
        sandboxed,
        named: session.name.is_some() || session.label.is_some(),
    }
}
