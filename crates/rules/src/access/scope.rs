//! What a list may read for a caller, as index ranges, so that a page costs a page.
//!
//! The ranges are the widest there can be: nothing that [`decide`](super::decide()) allows lies outside them, and each
//! row they give is still judged by it. They may overlap, so a list that reads several drops what it has seen.

use proto::SessionId;

use super::agents::Glob;
use super::decide::clamped;
use super::{Act, Party, Settings, Visibility};

/// One range of the index of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    Session(SessionId),
    /// Every path with this prefix.
    Below(String),
    /// One tree, by its root.
    Tree(SessionId),
    Owner(String),
    All,
}

/// More single owners than this are read as everything: one range is cheaper to merge than many.
const MOST_OWNERS: usize = 16;

impl Scope {
    pub fn covers(&self, party: &Party) -> bool {
        match self {
            Self::Session(session) => party.session == *session,
            Self::Below(prefix) => party.path.starts_with(prefix.as_str()),
            Self::Tree(root) => party.root == *root,
            Self::Owner(owner) => party.owner == *owner,
            Self::All => true,
        }
    }
}

/// The ranges a list of what this caller may do this to has to read.
pub fn scope(caller: &Party, settings: &Settings, act: Act) -> Vec<Scope> {
    let clamped = clamped(caller, settings);
    let has = settings.visibility(&caller.owner, act);
    let mut scopes = vec![kin(caller, has, act, clamped)];
    if clamped || has < Visibility::Agent {
        return scopes;
    }
    scopes.push(Scope::Owner(caller.owner.clone()));
    if has == Visibility::All && settings.agent_to_agent.enabled {
        let Some(owners) = single_owners(settings.agent_to_agent.targets(&caller.owner), &caller.owner) else {
            return vec![Scope::All];
        };
        scopes.extend(owners);
    }
    scopes
}

/// The caller's own line, or for mail its whole tree, where names and ancestors are.
fn kin(caller: &Party, has: Visibility, act: Act, clamped: bool) -> Scope {
    if act == Act::Send && !clamped {
        return Scope::Tree(caller.root.clone());
    }
    let below = has >= Visibility::Tree || act == Act::Send;
    match caller.prefix().filter(|_| below) {
        Some(prefix) => Scope::Below(prefix.to_owned()),
        None => Scope::Session(caller.session.clone()),
    }
}

/// The other owners that may be reached, or nothing when they are too many or not known by name.
fn single_owners<'g>(globs: impl Iterator<Item = &'g Glob>, own: &str) -> Option<Vec<Scope>> {
    let mut owners = Vec::new();
    for glob in globs {
        let owner = glob.literal()?;
        let scope = Scope::Owner(owner.to_owned());
        if owner != own && !owners.contains(&scope) {
            owners.push(scope);
        }
        if owners.len() > MOST_OWNERS {
            return None;
        }
    }
    Some(owners)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::sample::{party, settings};

    #[track_caller]
    fn check(document: &str, act: Act, expected: &[Scope]) {
        assert_eq!(scope(&party("r/a", "build"), &settings(document), act), expected, "{document}");
    }

    fn below() -> Scope {
        Scope::Below("r/a/".into())
    }

    fn owner(name: &str) -> Scope {
        Scope::Owner(name.into())
    }

    #[test]
    fn each_visibility_is_a_few_ranges() {
        let own = Scope::Session(SessionId::parse("a").unwrap());
        check(r#"{"tools": {"sessions": {"visibility": "self"}}}"#, Act::List, &[own]);
        check("{}", Act::List, &[below()]);
        check(r#"{"tools": {"sessions": {"visibility": "agent"}}}"#, Act::List, &[below(), owner("build")]);
        check(r#"{"tools": {"sessions": {"visibility": "all"}}}"#, Act::List, &[below(), owner("build")]);
    }

    #[test]
    fn other_owners_are_read_by_name_where_names_are_given() {
        let with = |allow: &str| {
            format!(
                r#"{{"tools": {{"sessions": {{"visibility": "all"}}, "agentToAgent": {{"enabled": true, "allow": {allow}}}}}}}"#
            )
        };
        check(&with(r#"["build", "plan"]"#), Act::List, &[below(), owner("build"), owner("plan")]);
        check(&with(r#"["build -> plan", "plan -> docs"]"#), Act::List, &[below(), owner("build"), owner("plan")]);
        check(&with(r#"["plan", "docs"]"#), Act::List, &[below(), owner("build")]);
        check(&with(r#"["build -> team-*"]"#), Act::List, &[Scope::All]);
        let many: Vec<String> = (0..17).map(|number| format!("build -> a{number}")).collect();
        check(&with(&serde_json::to_string(&many).unwrap()), Act::List, &[Scope::All]);
    }

    #[test]
    fn mail_reads_the_tree_and_a_sandboxed_caller_only_what_is_below_it() {
        check("{}", Act::Send, &[Scope::Tree(SessionId::parse("r").unwrap())]);
        let sandboxed = Party { sandboxed: true, ..party("r/a", "build") };
        let wide = settings(r#"{"tools": {"sessions": {"visibility": "all"}}}"#);
        for act in Act::EVERY {
            assert_eq!(scope(&sandboxed, &wide, act), [below()]);
        }
    }

    #[test]
    fn a_broken_path_is_not_a_range() {
        let broken = Party { path: String::new(), ..party("r/a", "build") };
        let own = Scope::Session(broken.session.clone());
        assert_eq!(scope(&broken, &Settings::default(), Act::List), [own]);
    }
}
