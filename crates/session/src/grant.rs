//! What a session was given: its own rules and its parents' ceilings, as kept in its row.
//!
//! The agent's rules are not kept here: they are read from the configuration when a session wakes, so that a changed
//! setting holds for old sessions too. What parents could do is kept, since it must never grow.

use crate::agents::{Agents, Profile};
use crate::settings::{Place, project};
use proto::{Action, Rule, Worktree};
use rules::mode::Mode;
use rules::{Anchors, Policy};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tools::sandbox::Reach;

/// What a child does not get by default (S13, A10).
const CLOSED_TO_CHILDREN: [&str; 14] = [
    "task",
    "todoread",
    "todowrite",
    "sessions_list",
    "sessions_history",
    "sessions_send",
    "sessions_spawn",
    "gateway",
    "agents_list",
    "whatsapp_login",
    "session_status",
    "cron",
    "memory_search",
    "memory_get",
];

/// The tools that start a child by the permission `task` alone.
const SPAWNING: [&str; 2] = ["task", "agent"];

/// The tools that a name stands for, by the names they have here.
fn spelt(name: &str) -> Vec<String> {
    let own = |name: String| tools::find(&name).map_or(name, |tool| tool.spec().name.to_owned());
    tools::groups::expand(name.trim()).into_iter().map(own).collect()
}

/// Rules that only ever take away: whatever they do not speak of is none of their business.
fn narrowed(rules: &[Rule]) -> Vec<Rule> {
    std::iter::once(Rule::new("*", "*", Action::Allow)).chain(rules.iter().cloned()).collect()
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Grant {
    /// From creation, a patch, the spawner, or an "always".
    pub rules: Vec<Rule>,
    /// The rules of every session above, as of the spawn.
    pub ancestors: Vec<Vec<Rule>>,
    /// For which projects those were written, by index ([`rules::Anchors`]).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub anchors: Vec<Vec<PathBuf>>,
    /// The project that the session began in, and the main checkout of its repository where that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub main: Option<PathBuf>,
    /// The permission mode.
    pub mode: Mode,
    /// It was started inside a sandbox, or below a session that was: for good, whatever the settings say later.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sandboxed: bool,
    /// How far the commands of the session above reached when it started this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reach: Option<Reach>,
    /// It was put into a worktree of its own, or was started by a session that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<Apart>,
    /// Tools it is not offered, whatever its rules say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// Who the session is, in words for its model: as of the spawn, so that the same bytes are sent after a restart.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// What stands in the place of its agent's prompt, and what behind the system part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub append: String,
}

/// Where an isolated session works, and what it leaves alone for that: it and everything it starts change no file of
/// other checkouts, unless a rule names them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Apart {
    pub own: PathBuf,
    pub others: Vec<PathBuf>,
}

impl Apart {
    /// For a worktree that was made for a session below one with `above`.
    pub(crate) fn of(worktree: &Worktree, above: Option<Self>) -> Self {
        let own = PathBuf::from(&worktree.path);
        let mut others = above.map_or_else(Vec::new, |above| [above.others, vec![above.own]].concat());
        others.push(project(Path::new(&worktree.original_cwd)));
        // Those of git are below the main checkout.
        let below = Path::new(".convoke/worktrees").join(&worktree.name);
        if own.ends_with(&below) {
            others.extend(own.ancestors().nth(below.components().count()).map(Path::to_owned));
        }
        others.sort();
        others.dedup();
        Self { own, others }
    }

    /// Whether a path belongs to a checkout that it is kept from.
    pub(crate) fn holds(&self, path: &Path, policy: &Policy) -> bool {
        let theirs = !path.starts_with(&self.own) && self.others.iter().any(|other| path.starts_with(other));
        theirs && !tools::sandbox::named(policy, &self.own).iter().any(|named| path.starts_with(named))
    }
}

impl Grant {
    pub(crate) fn read(text: &str) -> Self {
        // A grant that cannot be read grants nothing.
        serde_json::from_str(text).unwrap_or_else(|_| Self {
            rules: vec![Rule::new("*", "*", Action::Deny)],
            sandboxed: true,
            reach: Some(Reach::LOOKING),
            ..Self::default()
        })
    }

    pub(crate) fn write(&self) -> String {
        serde_json::to_string(self).expect("rules are JSON")
    }

    /// How far commands of the session reach while it runs as `profile`: no further than those of whoever started it, and
    /// not to writing while it plans.
    pub(crate) fn reach(&self, profile: &Profile, all: config::Held) -> Reach {
        let own = profile.reach(all);
        let own = if self.mode == Mode::Plan { own.within(Reach::LOOKING) } else { own };
        self.reach.map_or(own, |above| own.within(above))
    }

    /// The same for a session that begins in this place.
    pub(crate) fn beginning(self, place: Place) -> Self {
        Self { project: Some(place.project), main: place.main, ..self }
    }

    /// All that decides what the session may do while it runs as `profile`, in a project with these checkouts.
    pub(crate) fn policy(&self, profile: &Profile, agents: &Agents, roots: Vec<PathBuf>) -> Policy {
        let mut own = profile.rules.clone();
        own.extend(self.rules.iter().cloned());
        let (all, one) = (agents.ceilings(), &profile.ceilings);
        let managed = [&all.managed, &one.managed].into_iter().filter(|rules| !rules.is_empty());
        let denies = std::iter::once(&all.user).chain(managed).cloned().collect();
        let narrowing = [&all.narrowing, &one.narrowing, &agents.main, &profile.main];
        let narrowing = narrowing.into_iter().filter(|rules| !rules.is_empty()).map(|rules| narrowed(rules));
        let mut ancestors: Vec<Vec<Rule>> = self.ancestors.iter().cloned().chain(narrowing).collect();
        let mut anchors = Anchors { ancestors: self.anchors.clone(), here: roots };
        anchors.ancestors.resize(ancestors.len(), anchors.here.clone());
        for (root, rules) in &agents.around {
            ancestors.push(narrowed(rules));
            anchors.ancestors.push(vec![root.clone()]);
        }
        // What a mode says of elsewhere it says of other checkouts, too.
        anchors.ancestors.push(anchors.here.iter().take(1).cloned().collect());
        let ancestors = ancestors.into_iter().chain(self.mode.ceiling()).collect();
        Policy { own, denies, ancestors, anchors }
    }

    /// For a child that runs as `profile` below a session with `policy`: without the tools that children do not get,
    /// unless its own rules speak of them, the settings re-allow them, or the spawn call asks for them. What the parent
    /// may not do stays denied by its ceiling. `only` narrows the rest.
    pub(crate) fn child(policy: &Policy, profile: &Profile, only: &[String], allowed: &[String]) -> Self {
        let only: Vec<String> = only.iter().flat_map(|name| spelt(name)).collect();
        let allowed: Vec<String> = allowed.iter().flat_map(|name| spelt(name)).collect();
        let open = |permission: &&str| {
            profile.names(permission) || only.iter().chain(&allowed).any(|name| rules::matches(name, permission))
        };
        // Starting a session with `sessions_spawn` takes the permission `task` too. Where only the tool was named, the
        // others that ask for that permission are not offered.
        let may_spawn = open(&"sessions_spawn")
            && (only.is_empty() || only.iter().any(|name| rules::matches(name, "sessions_spawn")));
        let hidden: Vec<String> =
            if may_spawn && !open(&"task") { SPAWNING.map(String::from).into() } else { Vec::new() };
        let closed = CLOSED_TO_CHILDREN
            .iter()
            .filter(|permission| !open(permission) && (**permission != "task" || hidden.is_empty()));
        let mut rules: Vec<Rule> = closed.map(|permission| Rule::new(*permission, "*", Action::Deny)).collect();
        if !only.is_empty() {
            let unwanted = tools::BUILTIN.iter().map(|tool| tool.spec()).filter(|spec| {
                !only.iter().any(|name| rules::matches(name, spec.name) || spec.aliases.contains(&name.as_str()))
            });
            // By permission, unless a wanted tool asks for the same one.
            let wanted: Vec<&str> = tools::BUILTIN
                .iter()
                .map(|tool| tool.spec())
                .filter(|spec| only.contains(&spec.name.to_owned()))
                .map(|spec| spec.permission)
                .collect();
            rules.extend(
                unwanted
                    .filter(|spec| !wanted.contains(&spec.permission) && !hidden.iter().any(|name| name == spec.name))
                    .map(|spec| Rule::new(spec.permission, "*", Action::Deny)),
            );
        }
        let Policy { ancestors, anchors, .. } = policy.child(Vec::new());
        Self { rules, ancestors, anchors: anchors.ancestors, hidden, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tools::sandbox::Mode as Held;

    #[test]
    fn an_isolated_session_leaves_other_checkouts_alone_unless_a_rule_names_them() {
        let worktree = |path: &str, from: &str| Worktree {
            name: path.rsplit('/').next().unwrap().into(),
            path: path.into(),
            branch: None,
            base: None,
            original_branch: None,
            original_cwd: from.into(),
            by_hook: false,
            isolated: true,
        };
        let one = Apart::of(&worktree("/m/.convoke/worktrees/a", "/m/src"), None);
        let two = Apart::of(&worktree("/m/.convoke/worktrees/b", "/m/.convoke/worktrees/a"), Some(one.clone()));
        let rule = |pattern: &str| Rule::new("external_directory", pattern, Action::Allow);
        let everything = Policy { own: vec![rule("*")], ..Policy::default() };
        let holds = |apart: &Apart, path: &str| apart.holds(Path::new(path), &everything);
        assert!(
            holds(&one, "/m/src/a.rs") && holds(&one, "/m/.git/config") && holds(&one, "/m/.convoke/worktrees/b/x")
        );
        assert!(!holds(&one, "/m/.convoke/worktrees/a/x") && !holds(&one, "/elsewhere"));
        assert!(holds(&two, "/m/x") && holds(&two, "/m/.convoke/worktrees/a/x"));
        assert!(!holds(&two, "/m/.convoke/worktrees/b/x"));
        let main = tempfile::tempdir().unwrap();
        let main = main.path().canonicalize().unwrap();
        std::fs::create_dir(main.join("src")).unwrap();
        let here = Apart { own: "/own".into(), others: vec![main.clone()] };
        let named = Policy { own: vec![rule("*"), rule(&format!("{}/src/*", main.display()))], ..Policy::default() };
        assert!(here.holds(&main.join("a.rs"), &named) && !here.holds(&main.join("src/a.rs"), &named));
    }

    #[test]
    fn commands_reach_no_further_than_those_of_whoever_started_it() {
        let agents = Agents::new(&BTreeMap::new(), None, &[]).unwrap();
        let reach = |grant: &Grant, agent: &str| grant.reach(agents.get(agent).unwrap(), config::Held::default());
        let root = Grant::default();
        assert_eq!(reach(&root, "build"), Reach::USUAL);
        assert_eq!(reach(&Grant { mode: Mode::Plan, ..Grant::default() }, "build"), Reach::LOOKING);
        let below = Grant { reach: Some(reach(&root, "plan")), ..Grant::default() };
        assert_eq!(reach(&below, "general"), Reach::LOOKING);
        // It survives the way through the store, and rows of before say nothing.
        assert_eq!(reach(&Grant::read(&below.write()), "build"), Reach::LOOKING);
        assert_eq!(reach(&Grant::read("{}"), "build").mode, Held::Workspace);
        assert_eq!(reach(&Grant::read("not JSON"), "build"), Reach::LOOKING);
    }
}
