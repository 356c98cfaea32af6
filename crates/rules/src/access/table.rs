//! Every relation × visibility × agent-to-agent × sandbox × act, with what is expected written out.

use proto::Code;

use super::sample::party;
use super::{Act, AgentToAgent, Clamp, Decision, Levels, Party, Pattern, Settings, Visibility, decide};

/// A target of the caller `r/a`, owned by `build`, and what is expected of acts on it. Each row has a sign for each of
/// `self`, `tree`, `agent`, `all`: `+` allowed, `v` refused by visibility, `2` whatever agent-to-agent says, `s` refused
/// by the sandbox.
struct Case {
    place: &'static str,
    owner: &'static str,
    named: bool,
    /// Any act but mail.
    see: &'static str,
    mail: &'static str,
    /// The same two for a sandboxed caller that is held to what it started.
    clamped: &'static str,
    clamped_mail: &'static str,
}

type Row = (&'static str, &'static str, bool, &'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const CASES: &[Row] = &[
    // place,      owner,   named, see,    mail,   clamped, clamped mail
    ("r/a",        "build", false, "++++", "++++", "++++",  "++++"), // itself
    ("r/a/b",      "build", false, "v+++", "v+++", "v+++",  "v+++"), // a child
    ("r/a/b",      "plan",  false, "v+++", "v+++", "v+++",  "v+++"),
    ("r/a/b",      "plan",  true,  "v+++", "++++", "v+++",  "++++"),
    ("r/a/b/c/d",  "plan",  false, "v+++", "v+++", "v+++",  "v+++"), // far below
    ("r/a/b/c/d",  "build", true,  "v+++", "++++", "v+++",  "++++"),
    ("r",          "build", false, "vv++", "++++", "ssss",  "ssss"), // the parent
    ("r",          "plan",  false, "vvv2", "++++", "ssss",  "ssss"),
    ("r",          "plan",  true,  "vvv2", "++++", "ssss",  "ssss"),
    ("r/b",        "build", false, "vv++", "vv++", "ssss",  "ssss"), // a sibling
    ("r/b",        "build", true,  "vv++", "++++", "ssss",  "ssss"),
    ("r/b",        "plan",  false, "vvv2", "vvv2", "ssss",  "ssss"),
    ("r/b/c",      "plan",  true,  "vvv2", "++++", "ssss",  "ssss"), // a sibling's child
    ("q",          "build", false, "vv++", "vv++", "ssss",  "ssss"), // another tree
    ("q/b",        "build", true,  "vv++", "vv++", "ssss",  "ssss"),
    ("q",          "plan",  false, "vvv2", "vvv2", "ssss",  "ssss"),
    ("q/b",        "plan",  true,  "vvv2", "vvv2", "ssss",  "ssss"),
];

/// Agent-to-agent settings, and what they mean for `build` reaching `plan`: nothing is allowed.
const BETWEEN: &[(bool, &[&str], bool)] = &[
    (false, &["*"], false),
    (true, &[], false),
    (true, &["build", "docs"], false),
    (true, &["build", "pl*"], true),
    (true, &["build -> plan"], true),
    (true, &["plan -> build"], false),
];

/// Whether the caller is sandboxed, how such callers are treated, and which columns count.
const SANDBOXES: &[(bool, Clamp, bool)] = &[
    (false, Clamp::Spawned, false),
    (false, Clamp::All, false),
    (true, Clamp::All, false),
    (true, Clamp::Spawned, true),
];

#[test]
fn every_combination_is_decided_as_the_table_says() {
    let mut checked = 0;
    for &(place, owner, named, see, mail, clamped, clamped_mail) in CASES {
        let case = Case { place, owner, named, see, mail, clamped, clamped_mail };
        for (column, visibility) in Visibility::EVERY.into_iter().enumerate() {
            for &(enabled, allow, between) in BETWEEN {
                for &(sandboxed, clamp, held) in SANDBOXES {
                    for act in Act::EVERY {
                        let sign = case.sign(act, held, column);
                        let caller = Party { sandboxed, ..party("r/a", "build") };
                        for settings in ways_to_say(visibility, act, clamp, &agents(enabled, allow)) {
                            case.check(&caller, act, &settings, expected(sign, enabled, between));
                            checked += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(checked, CASES.len() * 4 * BETWEEN.len() * SANDBOXES.len() * 5 * 4);
}

impl Case {
    fn sign(&self, act: Act, held: bool, column: usize) -> u8 {
        let row = match (act, held) {
            (Act::Send, false) => self.mail,
            (Act::Send, true) => self.clamped_mail,
            (_, false) => self.see,
            (_, true) => self.clamped,
        };
        row.as_bytes()[column]
    }

    fn check(&self, caller: &Party, act: Act, settings: &Settings, expected: Option<Code>) {
        let target = Party { named: self.named, ..party(self.place, self.owner) };
        let found = match decide(caller, &target, act, settings) {
            Decision::Allowed => None,
            Decision::Denied { code, reason } => {
                assert_eq!(code, reason.code());
                Some(code)
            }
        };
        assert_eq!(found, expected, "{act:?} on {target:?} by {caller:?} with {settings:?}");
    }
}

/// The code of a refusal, or none where the act is allowed.
fn expected(sign: u8, enabled: bool, between: bool) -> Option<Code> {
    match sign {
        b'+' => None,
        b'v' => Some(Code::ForbiddenVisibility),
        b's' => Some(Code::ForbiddenSandbox),
        b'2' if enabled && between => None,
        b'2' => Some(Code::ForbiddenA2a),
        _ => panic!("`{}` is no sign", char::from(sign)),
    }
}

fn agents(enabled: bool, allow: &[&str]) -> AgentToAgent {
    AgentToAgent { enabled, allow: allow.iter().map(|entry| Pattern::parse(entry).unwrap()).collect() }
}

/// The same visibility for `build` and this act said in four ways, with something else said less specifically.
fn ways_to_say(visibility: Visibility, act: Act, sandboxed: Clamp, agent_to_agent: &AgentToAgent) -> [Settings; 4] {
    let other = if visibility == Visibility::Own { Visibility::All } else { Visibility::Own };
    let said = |default, per_act: Option<Visibility>, agent: Option<Levels>| Settings {
        visibility: default,
        per_act: per_act.map(|level| (act, level)).into_iter().collect(),
        per_agent: agent.map(|levels| ("build".to_owned(), levels)).into_iter().collect(),
        agent_to_agent: agent_to_agent.clone(),
        sandboxed,
    };
    let levels = |default, act_level: Option<Visibility>| Levels {
        default: Some(default),
        per_act: act_level.map(|level| (act, level)).into_iter().collect(),
    };
    [
        said(visibility, None, None),
        said(other, Some(visibility), None),
        said(other, Some(other), Some(levels(visibility, None))),
        said(other, Some(other), Some(levels(other, Some(visibility)))),
    ]
}

#[test]
fn a_refusal_says_which_check_refused() {
    use super::Reason;
    let caller = party("r/a", "build");
    let reason = |settings: &Settings| match decide(&caller, &party("q", "plan"), Act::History, settings) {
        Decision::Denied { reason, .. } => Some(reason),
        Decision::Allowed => None,
    };
    let mut settings = Settings::default();
    assert_eq!(reason(&settings), Some(Reason::Visibility { has: Visibility::Tree, needs: Visibility::All }));
    settings.visibility = Visibility::All;
    assert_eq!(reason(&settings), Some(Reason::AgentToAgentOff));
    settings.agent_to_agent.enabled = true;
    assert_eq!(reason(&settings), Some(Reason::PairNotAllowed));
    settings.agent_to_agent.allow = vec![Pattern::parse("build -> plan").unwrap()];
    assert_eq!(reason(&settings), None);
}
