//! `tools.search`: whether models are shown every tool, or find some by searching. The rest of `tools` says who may
//! reach whom and is read by its own guard.

use serde::Serialize;

use crate::Error;
use crate::document::{Node, excerpt};

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
