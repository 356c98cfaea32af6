//! `permission`: rules as people write them. The order of the file is the order of the rules.

use proto::{Action, Rule};

use crate::Error;
use crate::document::{Node, Place};

/// A rule and the `file:line` it stands in.
pub type Placed = (Rule, String);

const ACTIONS: &[(&str, Action)] = &[("allow", Action::Allow), ("ask", Action::Ask), ("deny", Action::Deny)];

/// Reads `"allow"`, `{tool: action}` and `{tool: {pattern: action}}`, the last two also mixed.
pub(crate) fn read(node: &Node) -> Result<Vec<Placed>, Error> {
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
    (Rule::new(permission, pattern, action), place.line())
}

/// The rules alone.
pub(crate) fn rules(placed: &[Placed]) -> Vec<Rule> {
    placed.iter().map(|(rule, _)| rule.clone()).collect()
}
