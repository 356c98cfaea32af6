//! `tools.search`: whether models are shown every tool, or find some by searching. The rest of `tools` says who may
//! reach whom and is read by its own guard.

use serde::Serialize;

use crate::Error;
use crate::document::{Node, excerpt};
use crate::reference::{Kind, Section, When, setting};

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
