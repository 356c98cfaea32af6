//! `hooks.<event>`: commands of the user's own, run when something happens.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Error;
use crate::document::Node;
use crate::reference::{Kind, Section, When, setting};
use crate::section::Notes;

/// The commands of each event, in the order of the file.
pub type Hooks = BTreeMap<String, Vec<Hook>>;

/// One command. It gets JSON on its standard input.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hook {
    /// For the shell.
    pub command: String,
    /// A wildcard over what the event is about (a tool's or an agent's name): `match` in the file.
    #[serde(rename = "match")]
    pub only: String,
    /// How long it may take: `timeoutSeconds` in the file.
    pub timeout_ms: u64,
}

/// Everything a hook can be hung on. The last two stand in for git and print a path.
pub(crate) const EVENTS: &[&str] = &[
    "tool.before",
    "tool.after",
    "message.sent",
    "message.received",
    "agent.start",
    "agent.stop",
    "session.start",
    "session.end",
    "permission.asked",
    "compact.before",
    "compact.after",
    "worktree.create",
    "worktree.remove",
    "worktree_create",
    "worktree_remove",
];

const KEYS: &[&str] = &["command", "match", "timeoutSeconds"];

const USUAL_SECONDS: u64 = 60;

/// An hour: a hook stands in the way of whatever waits for it.
const MOST_SECONDS: u64 = 3600;

const FORMS: &str = "write a command, or a list of `{ \"command\": …, \"match\": …, \"timeoutSeconds\": … }`";

pub(crate) const SECTION: Section = Section {
    name: "hooks",
    about: "Commands of your own, run when something happens. Each is a text for the shell or `{ \"command\", \"match\", \"timeoutSeconds\" }`; `match` is a wildcard over the tool's or agent's name, the time 60 s without it. A hook gets JSON on its standard input; exit code 2 blocks, with stderr as the reason.",
    when: When::Restart,
    settings: &[
        setting("hooks.tool.before", Kind::Commands, "none", "before a tool runs"),
        setting("hooks.tool.after", Kind::Commands, "none", "after it ran"),
        setting("hooks.message.sent", Kind::Commands, "none", "a session writes to another"),
        setting("hooks.message.received", Kind::Commands, "none", "a session is written to"),
        setting("hooks.agent.start", Kind::Commands, "none", "an agent is started by another"),
        setting("hooks.agent.stop", Kind::Commands, "none", "such an agent ends"),
        setting("hooks.session.start", Kind::Commands, "none", "a session starts"),
        setting("hooks.session.end", Kind::Commands, "none", "a session ends"),
        setting("hooks.permission.asked", Kind::Commands, "none", "a person is asked"),
        setting("hooks.compact.before", Kind::Commands, "none", "before a conversation is summed up"),
        setting("hooks.compact.after", Kind::Commands, "none", "after that"),
        setting("hooks.worktree.create", Kind::Commands, "none", "a worktree was made"),
        setting("hooks.worktree.remove", Kind::Commands, "none", "a worktree was removed"),
        setting("hooks.worktree_create", Kind::Commands, "git", "makes a worktree instead of git, and prints its path"),
        setting("hooks.worktree_remove", Kind::Commands, "git", "removes one instead of git"),
    ],
};

pub(crate) fn read(node: &Node, notes: &mut Notes) -> Result<Hooks, Error> {
    let mut hooks = Hooks::new();
    for field in node.fields()? {
        if EVENTS.contains(&field.key.as_str()) {
            hooks.insert(field.key.clone(), commands(&field.node, notes)?);
        } else {
            notes.unknown(field, EVENTS);
        }
    }
    Ok(hooks)
}

/// One command or a list of them, each as a text or with more said about it.
fn commands(node: &Node, notes: &mut Notes) -> Result<Vec<Hook>, Error> {
    if node.is_list() {
        return node.list()?.iter().map(|item| hook(item, notes)).collect();
    }
    Ok(vec![hook(node, notes)?])
}

fn hook(node: &Node, notes: &mut Notes) -> Result<Hook, Error> {
    if node.is_text() {
        return Ok(Hook { command: command(node)?, only: "*".into(), timeout_ms: USUAL_SECONDS * 1000 });
    }
    let (mut found, mut only, mut seconds) = (None, "*".to_owned(), USUAL_SECONDS);
    for field in node.fields().map_err(|_| node.wrong("a command or an object", FORMS))? {
        match field.key.as_str() {
            "command" => found = Some(command(&field.node)?),
            "match" => field.node.text()?.clone_into(&mut only),
            "timeoutSeconds" => seconds = field.node.whole(1, MOST_SECONDS)?,
            _ => notes.unknown(field, KEYS),
        }
    }
    let command = found.ok_or_else(|| node.refuse("has no `command`", FORMS))?;
    Ok(Hook { command, only, timeout_ms: seconds * 1000 })
}

fn command(node: &Node) -> Result<String, Error> {
    let text = node.text()?;
    if text.trim().is_empty() {
        return Err(node.refuse("is empty", "write the command to run, or leave the hook out"));
    }
    Ok(text.to_owned())
}
