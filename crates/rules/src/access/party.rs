//! The two ends of an act, and how they are related.

use proto::SessionId;

/// What the guard needs to know about a session; all of it stands in the session's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    pub session: SessionId,
    /// The top of its tree.
    pub root: SessionId,
    /// Ids from the root down to this one, each followed by `/`.
    pub path: String,
    /// The key's agent, not the one it runs as now: switching profiles must not widen anything.
    pub owner: String,
    /// Started with a required sandbox, run by an isolated agent, or below one that is.
    pub sandboxed: bool,
    /// Has a name in its tree, so that mail may be addressed to it.
    pub named: bool,
}

/// What a target is to a caller: the first that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Relation {
    Own,
    /// The caller started it, or something that started it.
    Descendant,
    Ancestor,
    /// Elsewhere in the caller's tree.
    SameTree,
    SameOwner,
    Other,
}

pub fn relation(caller: &Party, target: &Party) -> Relation {
    if caller.session == target.session {
        Relation::Own
    } else if caller.is_above(target) {
        Relation::Descendant
    } else if target.is_above(caller) {
        Relation::Ancestor
    } else if caller.root == target.root {
        Relation::SameTree
    } else if caller.owner == target.owner {
        Relation::SameOwner
    } else {
        Relation::Other
    }
}

impl Party {
    /// The prefix of every path below this session and of its own. A path that does not end with this session's id
    /// gives none: an empty or cut one would be a prefix of strangers.
    pub(super) fn prefix(&self) -> Option<&str> {
        let above = self.path.strip_suffix('/')?.strip_suffix(self.session.as_str())?;
        (above.is_empty() || above.ends_with('/')).then_some(&self.path)
    }

    fn is_above(&self, other: &Self) -> bool {
        self.root == other.root && self.prefix().is_some_and(|prefix| other.path.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::sample::party;

    #[track_caller]
    fn check(caller: &str, target: &str, expected: Relation) {
        assert_eq!(relation(&party(caller, "build"), &party(target, "build")), expected, "{caller} and {target}");
    }

    #[test]
    fn depth_does_not_matter_in_a_line() {
        check("r/a", "r/a", Relation::Own);
        check("r/a", "r/a/b", Relation::Descendant);
        check("r/a", "r/a/b/c/d", Relation::Descendant);
        check("r/a/b/c/d", "r/a", Relation::Ancestor);
        check("r/a/b", "r", Relation::Ancestor);
    }

    #[test]
    fn elsewhere_in_the_tree_is_neither_above_nor_below() {
        check("r/a", "r/b", Relation::SameTree);
        check("r/a/c", "r/b/d", Relation::SameTree);
        check("r", "q", Relation::SameOwner);
    }

    #[test]
    fn an_id_that_begins_like_another_is_not_below_it() {
        check("r/a", "r/ab", Relation::SameTree);
        check("r", "rr/a", Relation::SameOwner);
    }

    #[test]
    fn another_owner_is_other_unless_the_tree_is_shared() {
        assert_eq!(relation(&party("r", "build"), &party("q", "plan")), Relation::Other);
        assert_eq!(relation(&party("r", "build"), &party("r/a", "plan")), Relation::Descendant);
    }

    #[test]
    fn a_broken_path_is_above_nobody() {
        for path in ["", "/", "r/", "r/a", "r/xa/"] {
            let broken = Party { path: path.into(), ..party("r/a", "build") };
            assert_eq!(relation(&broken, &party("r/a/b", "build")), Relation::SameTree, "`{path}`");
        }
    }
}
