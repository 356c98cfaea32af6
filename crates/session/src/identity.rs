//! Who a session is that another one started, in words for its model: its name, its lead, and who else works on the task.
//!
//! Written when it is started and kept in its row, so that a restart sends the same bytes. A fork shares its parent's system
//! part, so it reads this in its first message instead.

use crate::runtime::Inner;
use proto::Error;
use std::fmt::Write;
use store::{Find, Session};

/// Other agents that are named.
const NAMED: usize = 30;

/// What a session is called: its name; for one that another session started, else its label.
pub(crate) fn called(row: &Session) -> Option<&String> {
    row.name.as_ref().or_else(|| row.label.as_ref().filter(|_| row.parent.is_some()))
}

impl Inner {
    /// Nothing for a session that a person started.
    pub(crate) async fn identity(&self, own: &Session, lead: Option<&Session>) -> Result<String, Error> {
        let Some(lead) = lead else { return Ok(String::new()) };
        let members = self.store.find(&Find::Members { root: own.root.clone(), limit: NAMED + 3 }).await?;
        Ok(words(own, lead, &members))
    }
}

fn words(own: &Session, lead: &Session, members: &[Session]) -> String {
    let name = own.name.as_ref().map(|name| format!(" named `{name}`")).unwrap_or_default();
    let mut text = format!(
        "You are the agent `{}`{name}, session `{}`. You were started by {}: it is your lead and gets your final answer. Its \
         address for messages is `lead`.",
        own.agent,
        own.id,
        address(lead)
    );
    let others = members.iter().filter(|row| row.id != own.id && row.id != lead.id);
    let others: Vec<String> = others.map(|row| format!("{} ({})", address(row), row.agent)).collect();
    if !others.is_empty() {
        let more = if others.len() > NAMED { " and more (`list_peers`)" } else { "" };
        let shown = &others[..others.len().min(NAMED)];
        write!(text, " Other agents of this task: {}{more}.", shown.join(", ")).ok();
    }
    text
}

fn address(row: &Session) -> String {
    match &row.name {
        Some(name) => format!("`{name}`"),
        None if row.parent.is_none() => "`main`".into(),
        None => format!("the session `{}`", row.id),
    }
}
