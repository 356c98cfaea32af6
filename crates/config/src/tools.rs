//! `tools.search`: whether models are shown every tool, or find some by searching. The rest of `tools` says who may
//! reach whom: its form is checked here, and it is read by its own guard.

use serde::Serialize;

use crate::document::{Node, Value, excerpt};
use crate::reference::{Kind, Section, When, setting};
use crate::section::Notes;
use crate::{Error, Of};

/// When tools are left out of the list and found by `tool_search`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Search {
    #[default]
    On,
    Off,
    /// Once what could be left out takes more than so many percent of the context: `auto` or `auto:N`.
    Auto(u8),
}

/// What `auto` alone means, in percent.
const USUAL_SHARE: u8 = 10;

/// Keys of `tools` that somebody reads.
pub(crate) const KEYS: &[&str] = &["search", "sessions", "agentToAgent", "subagents"];

pub(crate) const SECTION: Section = Section {
    name: "tools",
    about: "Which tools are shown, and which sessions reach which.",
    when: When::Restart,
    settings: &[
        setting(
            "tools.search",
            Kind::Choice(&["on", "off", "auto", "auto:N"]),
            "`on`",
            "rarely used tools are found by searching; `auto` once they would take more than 10 (or N) percent of the context",
        ),
        setting(
            "tools.sessions",
            Kind::Any,
            "`{ \"visibility\": \"tree\" }`",
            "how far sessions see: `self`, `tree`, `agent` or `all`, also for each of `list`, `history`, `send`, `status`, `control`",
        ),
        setting(
            "tools.agentToAgent",
            Kind::Any,
            "`{ \"enabled\": false }`",
            "whether sessions of different agents may reach each other, and which: `allow` holds patterns or `a -> b`",
        ),
        setting(
            "tools.subagents",
            Kind::Any,
            "none",
            "`{ \"allow\": [ … ] }`: tools that children get though they are closed to children",
        ),
    ],
};

/// `enabled` and `allow`; what the patterns of `allow` mean is the guard's business.
pub(crate) fn agent_to_agent(node: &Node) -> Result<(), Error> {
    for field in node.fields()? {
        match field.key.as_str() {
            "enabled" => drop(field.node.flag()?),
            "allow" => drop(field.node.texts()?),
            _ => return Err(field.node.refuse("is not known", "use `enabled` or `allow`")),
        }
    }
    Ok(())
}

/// `allow`: names of tools.
pub(crate) fn subagents(node: &Node, notes: &mut Notes) -> Result<(), Error> {
    for field in node.fields()? {
        match field.key.as_str() {
            "allow" => {
                for name in field.node.list()? {
                    notes.names(Of::Tool, &field.node.path, name.text()?, name);
                }
            }
            _ => notes.unknown(field, &["allow"]),
        }
    }
    Ok(())
}

/// A section that is no object says nothing, or is wrong.
pub(crate) fn section_or_nothing(node: &Node) -> Result<(), Error> {
    let says_nothing = matches!(node.value, Value::Null | Value::Flag(_));
    if says_nothing { Ok(()) } else { node.fields().map(drop) }
}

pub(crate) fn search(node: &Node) -> Result<Search, Error> {
    let text = node.text()?;
    let share = |percent: &str| percent.parse().ok().filter(|percent| (1..=100).contains(percent));
    let found = match text {
        "on" => Some(Search::On),
        "off" => Some(Search::Off),
        "auto" => Some(Search::Auto(USUAL_SHARE)),
        _ => text.strip_prefix("auto:").and_then(share).map(Search::Auto),
    };
    found.ok_or_else(|| {
        let hint = "use `on`, `off`, `auto`, or `auto:20` for 20 percent of the context";
        node.refuse(format_args!("cannot be `{}`", excerpt(text)), hint)
    })
}
