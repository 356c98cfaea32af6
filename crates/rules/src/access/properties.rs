//! What holds for any two sessions and any settings.

use proptest::prelude::*;

use super::sample::party;
use super::{Act, AgentToAgent, Clamp, Levels, Party, Pattern, Scope, Settings, Visibility, decide, relation, scope};

// Few places and few owners, so that generated parties are often related.

fn someone() -> impl Strategy<Value = Party> {
    let place = prop::sample::select(vec!["r", "r/a", "r/b", "r/a/c", "r/a/c/d", "r/ab", "q", "q/e"]);
    let owner = prop::sample::select(vec!["build", "plan", "team-a"]);
    (place, owner, any::<bool>(), any::<bool>()).prop_map(|(place, owner, sandboxed, named)| Party {
        sandboxed,
        named,
        ..party(place, owner)
    })
}

fn act() -> impl Strategy<Value = Act> {
    prop::sample::select(Act::EVERY.to_vec())
}

fn visibility() -> impl Strategy<Value = Visibility> {
    prop::sample::select(Visibility::EVERY.to_vec())
}

fn levels() -> impl Strategy<Value = Levels> {
    (prop::option::of(visibility()), prop::collection::btree_map(act(), visibility(), 0..3))
        .prop_map(|(default, per_act)| Levels { default, per_act })
}

fn agent_to_agent() -> impl Strategy<Value = AgentToAgent> {
    let entry = prop::sample::select(vec!["*", "build", "plan", "team-*", "build -> plan", "* -> team-?", "plan -> *"]);
    let allow = prop::collection::vec(entry.prop_map(|text| Pattern::parse(text).unwrap()), 0..4);
    (any::<bool>(), allow).prop_map(|(enabled, allow)| AgentToAgent { enabled, allow })
}

fn settings() -> impl Strategy<Value = Settings> {
    let agents =
        prop::collection::btree_map(prop::sample::select(vec!["build".to_owned(), "plan".into()]), levels(), 0..3);
    let clamp = prop::sample::select(vec![Clamp::Spawned, Clamp::All]);
    (levels(), agents, agent_to_agent(), clamp).prop_map(|(common, per_agent, agent_to_agent, sandboxed)| Settings {
        visibility: common.default.unwrap_or_default(),
        per_act: common.per_act,
        per_agent,
        agent_to_agent,
        sandboxed,
    })
}

/// The same settings with every visibility at most this wide.
fn narrowed(settings: &Settings, most: Visibility) -> Settings {
    let mut narrow = settings.clone();
    narrow.visibility = narrow.visibility.min(most);
    let agents = narrow.per_agent.values_mut();
    for levels in agents {
        levels.default = levels.default.map(|level| level.min(most));
        levels.per_act.values_mut().for_each(|level| *level = (*level).min(most));
    }
    narrow.per_act.values_mut().for_each(|level| *level = (*level).min(most));
    narrow
}

fn allowed(caller: &Party, target: &Party, act: Act, settings: &Settings) -> bool {
    decide(caller, target, act, settings).is_allowed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_clamp_never_widens(caller in someone(), target in someone(), act in act(), settings in settings()) {
        let free = Party { sandboxed: false, ..caller.clone() };
        let held = Party { sandboxed: true, ..caller };
        for sandboxed in [Clamp::Spawned, Clamp::All] {
            let settings = Settings { sandboxed, ..settings.clone() };
            prop_assert!(!allowed(&held, &target, act, &settings) || allowed(&free, &target, act, &settings));
        }
    }

    #[test]
    fn a_clamped_caller_reaches_only_itself_and_what_it_started(
        caller in someone(), target in someone(), act in act(), settings in settings(),
    ) {
        let held = Party { sandboxed: true, ..caller };
        let settings = Settings { sandboxed: Clamp::Spawned, ..settings };
        prop_assert!(!allowed(&held, &target, act, &settings) || target.path.starts_with(&held.path));
    }

    #[test]
    fn narrowing_visibility_never_allows_more(
        caller in someone(), target in someone(), act in act(), settings in settings(), most in visibility(),
    ) {
        let narrow = narrowed(&settings, most);
        prop_assert!(!allowed(&caller, &target, act, &narrow) || allowed(&caller, &target, act, &settings));
    }

    #[test]
    fn agent_to_agent_off_never_allows_more(
        caller in someone(), target in someone(), act in act(), settings in settings(),
    ) {
        let with = |enabled| {
            let agent_to_agent = AgentToAgent { enabled, ..settings.agent_to_agent.clone() };
            Settings { agent_to_agent, ..settings.clone() }
        };
        prop_assert!(!allowed(&caller, &target, act, &with(false)) || allowed(&caller, &target, act, &with(true)));
    }

    #[test]
    fn another_entry_never_allows_less(
        caller in someone(), target in someone(), act in act(), settings in settings(), more in agent_to_agent(),
    ) {
        let mut wider = settings.clone();
        wider.agent_to_agent.allow.extend(more.allow);
        prop_assert!(!allowed(&caller, &target, act, &settings) || allowed(&caller, &target, act, &wider));
    }

    #[test]
    fn a_scope_misses_nothing_that_is_allowed(
        caller in someone(), target in someone(), act in act(), settings in settings(),
    ) {
        let covered = scope(&caller, &settings, act).iter().any(|scope| scope.covers(&target));
        prop_assert!(covered || !allowed(&caller, &target, act, &settings));
    }

    #[test]
    fn a_scope_gives_nothing_that_is_refused_unless_it_is_everything(
        caller in someone(), target in someone(), act in act(), settings in settings(),
    ) {
        // Mail reads a whole tree, of which only some is named.
        prop_assume!(act != Act::Send);
        let scopes = scope(&caller, &settings, act);
        prop_assume!(scopes != [Scope::All]);
        let covered = scopes.iter().any(|scope| scope.covers(&target));
        prop_assert!(!covered || allowed(&caller, &target, act, &settings));
    }

    #[test]
    fn reading_settings_never_panics(text in "[a-z{}\\[\\]\": ,>*-]{0,80}", word in any::<String>()) {
        let document = serde_json::from_str(&text).unwrap_or_else(|_| {
            serde_json::json!({"tools": {"sessions": {"visibility": word}, "agentToAgent": {"allow": [word]}}})
        });
        let _ = Settings::read(&document);
        let _ = relation(&party("r", &word), &party("q", &word));
    }
}
