//! `worktree`: where work that is kept apart starts from.

use serde::Serialize;

use crate::Error;
use crate::document::Node;
use crate::reference::{Kind, Section, When, setting};
use crate::section::Notes;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Worktree {
    pub base: Base,
}

/// What a new worktree starts from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Base {
    /// What the session's directory has checked out.
    #[default]
    Head,
    /// What the remote has as its main branch.
    Fresh,
}

const BASES: &[(&str, Base)] = &[("head", Base::Head), ("fresh", Base::Fresh)];
pub(crate) const KEYS: &[&str] = &["base"];

pub(crate) const SECTION: Section = Section {
    name: "worktree",
    about: "Where work that is kept apart starts from.",
    when: When::Restart,
    settings: &[setting(
        "worktree.base",
        Kind::Choice(&["head", "fresh"]),
        "`head`",
        "what a new worktree starts from: what the directory has checked out, or the main branch of the remote",
    )],
};

impl Worktree {
    pub(crate) fn read(node: &Node, notes: &mut Notes) -> Result<Self, Error> {
        let mut worktree = Self::default();
        for field in node.fields()? {
            match field.key.as_str() {
                "base" => worktree.base = field.node.choice(BASES)?,
                _ => notes.unknown(field, KEYS),
            }
        }
        Ok(worktree)
    }
}
