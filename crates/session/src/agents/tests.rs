//! The built-in agents may do what row A2 says, and the user's settings land where row A3 says.

use super::*;
use proto::Action;
use rules::Policy;

fn agents() -> Agents {
    Agents::new(&BTreeMap::new(), None, &[]).unwrap()
}

#[track_caller]
fn check(agent: &str, permission: &str, pattern: &str, expected: Action) {
    let agents = agents();
    let policy = Policy { own: agents.get(agent).unwrap().rules.clone(), ..Policy::default() };
    assert_eq!(policy.judge(permission, pattern).action, expected, "{agent}: {permission} {pattern}");
}

#[test]
fn the_built_in_agents_may_do_what_they_are_for() {
    use Action::{Allow, Ask, Deny};
    check("build", "edit", "src/a.rs", Allow);
    check("build", "bash", "cargo test; ls", Allow);
    check("build", "read", ".env", Ask);
    check("build", "read", "a/.env.example", Allow);
    check("build", "external_directory", "/etc/*", Ask);
    check("build", "question", "*", Allow);
    check("plan", "edit", "src/a.rs", Deny);
    check("plan", "edit", "docs/plan.md", Allow);
    check("plan", "bash", "ls", Allow);
    check("plan", "bash", "ls > a.txt", Deny);
    check("explore", "grep", "x", Allow);
    check("explore", "read", "src/a.rs", Allow);
    check("explore", "read", ".env", Ask);
    check("explore", "edit", "a.md", Deny);
    check("explore", "bash", "ls", Allow);
    check("explore", "bash", "ls > a.txt", Deny);
    check("explore", "task", "general", Deny);
    check("general", "edit", "a.rs", Allow);
    check("general", "todowrite", "*", Deny);
    check("title", "read", "a", Deny);
}

#[test]
fn names_are_unique_and_every_agent_has_words() {
    for profile in agents().list() {
        assert!(!profile.prompt.is_empty() && !profile.description.is_empty(), "{}", profile.name);
        assert_eq!(proto::AgentId::parse(&profile.name).unwrap().as_str(), profile.name);
    }
}

#[test]
fn the_default_agent_must_be_one_that_answers_people() {
    let none = BTreeMap::new();
    assert_eq!(agents().default_agent(), "build");
    assert_eq!(Agents::new(&none, Some("plan"), &[]).unwrap().default_agent(), "plan");
    for bad in ["explore", "title", "nobody"] {
        assert!(Agents::new(&none, Some(bad), &[]).is_err(), "{bad}");
    }
    let off = config::Agent { disable: true, ..config::Agent::default() };
    let agents = Agents::new(&BTreeMap::from([("build".to_owned(), off)]), None, &[]).unwrap();
    assert_eq!(agents.default_agent(), "plan");
}

#[test]
fn who_only_looks_is_held_to_that_by_nothing_but_its_own_section() {
    use config::{Held, SandboxMode};
    use tools::sandbox::{Mode, Reach};
    let held = |mode, network| Held { mode, network };
    let (off, open) = (held(Some(SandboxMode::Off), None), Held::default());
    let mut config = BTreeMap::new();
    config.insert("plan".to_owned(), config::Agent { held: off, ..config::Agent::default() });
    config.insert("lab".to_owned(), config::Agent { held: held(None, Some(false)), ..config::Agent::default() });
    let agents = Agents::new(&config, None, &[]).unwrap();
    let reach = |agent: &str, all: Held| agents.get(agent).unwrap().reach(all);
    assert_eq!(reach("build", open), Reach::USUAL);
    assert_eq!(reach("build", off), Reach { mode: Mode::Off, network: true, asked: true });
    assert_eq!(reach("explore", open), Reach::LOOKING);
    assert_eq!(reach("explore", off), Reach::LOOKING);
    assert_eq!(reach("plan", open), Reach { mode: Mode::Off, network: false, asked: true });
    assert_eq!(reach("lab", open), Reach { mode: Mode::Workspace, network: false, asked: true });
}
