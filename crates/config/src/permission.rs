//! `permission`: rules as people write them. The order of the file is the order of the rules, and later layers come
//! after earlier ones.

use proto::{Action, Rule};
use serde::Serialize;

use crate::Error;
use crate::document::{Node, Place};
use crate::layer::{Layer, Origin};
use crate::reference::{Kind, Section, When, setting};

/// A rule, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Placed {
    pub rule: Rule,
    pub origin: Origin,
    /// From a repository that is not trusted: it can only forbid.
    pub narrows: bool,
    /// From a repository, trusted or not.
    #[serde(skip)]
    pub of_repository: bool,
}

const ACTIONS: &[(&str, Action)] = &[("allow", Action::Allow), ("ask", Action::Ask), ("deny", Action::Deny)];

pub(crate) const SECTION: Section = Section {
    name: "permission",
    about: "Rules for every agent: `\"ask\"`, `{ \"edit\": \"ask\" }` or `{ \"bash\": { \"git *\": \"allow\" } }`. The last one that matches decides; what you or your administrator deny here, nothing below allows.",
    when: When::NextRun,
    settings: &[setting(
        "permission",
        Kind::Rules,
        "see the built-in agents",
        "what tools may do; `*` is any run of characters, `?` one, `~` and `$HOME` your home",
    )],
};

/// Reads `"allow"`, `{tool: action}` and `{tool: {pattern: action}}`, the last two also mixed, of every layer.
pub(crate) fn read(node: &Node) -> Result<Vec<Placed>, Error> {
    let mut rules = Vec::new();
    for layer in node.layers() {
        rules.append(&mut of_layer(layer)?);
    }
    Ok(rules)
}

fn of_layer(node: &Node) -> Result<Vec<Placed>, Error> {
    if node.is_text() {
        return Ok(vec![placed("*", "*", node.choice(ACTIONS)?, &node.place)]);
    }
    let forms = "write an action, or an object of tools: `{ \"edit\": \"ask\", \"bash\": { \"git *\": \"allow\" } }`";
    let fields = node.fields().map_err(|_| node.wrong("an action or an object", forms))?;
    let mut rules = Vec::new();
    for tool in fields {
        if tool.node.is_text() {
            rules.push(placed(&tool.key, "*", tool.node.choice(ACTIONS)?, &tool.place));
            continue;
        }
        for pattern in tool.node.fields().map_err(|_| tool.node.wrong("an action or an object", forms))? {
            rules.push(placed(&tool.key, &pattern.key, pattern.node.choice(ACTIONS)?, &pattern.place));
        }
    }
    Ok(rules)
}

fn placed(permission: &str, pattern: &str, action: Action, place: &Place) -> Placed {
    let narrows = place.source.repository.is_some();
    let of_repository = place.source.came_with.is_some();
    Placed { rule: Rule::new(permission, pattern, action), origin: place.origin(), narrows, of_repository }
}

/// What nothing below can lift. Each decides by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Ceilings {
    /// The user's: what they deny stays denied.
    pub user: Vec<Rule>,
    /// The administrator's: the same.
    pub managed: Vec<Rule>,
    /// Those of a repository that is not trusted: the stricter of theirs and all others counts.
    pub narrowing: Vec<Rule>,
}

impl Ceilings {
    pub(crate) fn of(placed: &[Placed]) -> Self {
        let is_managed = |placed: &Placed| placed.origin.layer == Layer::Managed;
        Self {
            user: some(placed, |placed| !placed.narrows && !is_managed(placed)),
            managed: some(placed, is_managed),
            narrowing: some(placed, |placed| placed.narrows),
        }
    }
}

/// The rules that decide, those that can only narrow apart.
pub(crate) fn all(placed: &[Placed]) -> Vec<Rule> {
    some(placed, |placed| !placed.narrows)
}

fn some(placed: &[Placed], wanted: impl Fn(&Placed) -> bool) -> Vec<Rule> {
    placed.iter().filter(|placed| wanted(placed)).map(|placed| placed.rule.clone()).collect()
}
