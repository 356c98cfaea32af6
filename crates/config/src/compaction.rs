//! `compaction`: how room is made in a conversation that fills its model's context.

use serde::Serialize;

use crate::Error;
use crate::document::Node;
use crate::reference::{Kind, Section, When, setting};
use crate::section::Notes;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Compaction {
    /// By itself, when the context is full.
    pub auto: bool,
    /// By leaving out old output of tools, where that is enough.
    pub prune: bool,
    /// Tokens that are held back for an answer; unset: what the model may answer.
    pub reserved: Option<u64>,
}

impl Default for Compaction {
    fn default() -> Self {
        Self { auto: true, prune: true, reserved: None }
    }
}

pub(crate) const KEYS: &[&str] = &["auto", "prune", "reserved"];

pub(crate) const SECTION: Section = Section {
    name: "compaction",
    about: "How room is made in a conversation that fills its model's context.",
    when: When::NextRun,
    settings: &[
        setting(
            "compaction.auto",
            Kind::Flag,
            "`true`",
            "a conversation that fills the context is summed up by itself",
        ),
        setting(
            "compaction.prune",
            Kind::Flag,
            "`true`",
            "where leaving out old output of tools is enough, nothing is summed up",
        ),
        setting(
            "compaction.reserved",
            Kind::Whole,
            "what the model may answer",
            "tokens that are held back for an answer, half of the context at most",
        ),
    ],
};

impl Compaction {
    pub(crate) fn read(node: &Node, notes: &mut Notes) -> Result<Self, Error> {
        let mut compaction = Self::default();
        for field in node.fields()? {
            match field.key.as_str() {
                "auto" => compaction.auto = field.node.flag()?,
                "prune" => compaction.prune = field.node.flag()?,
                "reserved" => compaction.reserved = Some(field.node.whole(0, 100_000_000)?),
                _ => notes.unknown(field, KEYS),
            }
        }
        Ok(compaction)
    }
}
