//! A refusal in words: what was refused, why, and what would change it.

use super::{Act, Reason, Visibility};

/// Says why an act on a session was refused. `name` is what the caller called it: a refusal tells nothing new about a
/// session the caller may not see.
pub fn explain(reason: Reason, act: Act, name: &str) -> String {
    match (reason, act) {
        // These three are part of the interface of `sessions_send`, word for word.
        (Reason::Sandbox, Act::Send) => "Session not visible from this sandboxed agent session.".into(),
        (Reason::AgentToAgentOff, Act::Send) => {
            "Agent-to-agent messaging is disabled. Set tools.agentToAgent.enabled=true to allow cross-agent sends."
                .into()
        }
        (Reason::PairNotAllowed, Act::Send) => "Agent-to-agent messaging denied by tools.agentToAgent.allow.".into(),
        (Reason::Sandbox, _) => {
            format!("session `{name}` cannot be {}: this sandboxed session sees only what it started", done(act))
        }
        (Reason::Visibility { has, needs }, _) => visibility(has, needs, act, name),
        (Reason::AgentToAgentOff, _) => format!(
            "session `{name}` cannot be {}: it belongs to another agent; set `tools.agentToAgent.enabled` to true",
            done(act)
        ),
        (Reason::PairNotAllowed, _) => format!(
            "session `{name}` cannot be {}: it belongs to another agent, and no entry of `tools.agentToAgent.allow` \
             fits the two; add one",
            done(act)
        ),
    }
}

fn visibility(has: Visibility, needs: Visibility, act: Act, name: &str) -> String {
    let (has, needs, kin) = (has.as_str(), needs.as_str(), kin(needs));
    let setting = format!("tools.sessions.visibility.{}", act.as_str());
    format!(
        "session `{name}` cannot be {}: visibility is `{has}`, and it is {kin}; set `{setting}` to `{needs}`",
        done(act)
    )
}

/// What a session is that takes this much to see.
fn kin(needs: Visibility) -> &'static str {
    match needs {
        Visibility::Own => "this session",
        Visibility::Tree => "below this session",
        Visibility::Agent => "not below this session",
        Visibility::All => "another agent's",
    }
}

fn done(act: Act) -> &'static str {
    match act {
        Act::List => "listed",
        Act::History => "read",
        Act::Send => "written to",
        Act::Status => "looked at",
        Act::Control => "controlled",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_session_and_the_setting_that_would_change_it() {
        let reason = Reason::Visibility { has: Visibility::Tree, needs: Visibility::All };
        assert_eq!(
            explain(reason, Act::History, "agent:plan:main"),
            "session `agent:plan:main` cannot be read: visibility is `tree`, and it is another agent's; \
             set `tools.sessions.visibility.history` to `all`"
        );
    }

    #[test]
    fn every_refusal_has_words_of_its_own() {
        let seen = Reason::Visibility { has: Visibility::Own, needs: Visibility::Tree };
        let reasons = [Reason::Sandbox, seen, Reason::AgentToAgentOff, Reason::PairNotAllowed];
        let texts: std::collections::BTreeSet<_> =
            reasons.iter().flat_map(|reason| Act::EVERY.map(|act| explain(*reason, act, "x"))).collect();
        assert_eq!(texts.len(), reasons.len() * Act::EVERY.len());
    }
}
