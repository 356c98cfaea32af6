//! `convoke tree`: a root session and all below it.

use super::block_on;
use crate::failure::Failure;
use crate::home::Home;
use crate::local::read;
use crate::terminal;
use proto::methods::{SessionsTree, TreeInput, TreeOutput, TreeRow};
use proto::{Code, SessionId};
use serde_json::json;
use std::collections::HashMap;
use std::fmt::Write;

/// Show a session with everything it started; the newest one unless another is named
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Any session of the tree: an id (or its last 4 characters), a key, a name or a label
    #[arg(value_name = "REF")]
    reference: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    let newest = args.reference.is_none();
    let input = TreeInput { reference: args.reference };
    let tree = match block_on(read::<SessionsTree>(&home, input)) {
        Ok(tree) => Some(tree),
        // An empty home is no mistake of the caller.
        Err(failure) if newest && failure.error.code == Code::NotFound => None,
        Err(failure) => return Err(failure),
    };
    match tree {
        Some(tree) if args.json => terminal::print_json(&tree),
        Some(tree) => draw(&tree).lines().for_each(|line| terminal::print(&terminal::within(line))),
        None if args.json => terminal::print_json(&json!({ "root": null, "sessions": [] })),
        None => terminal::say("there is no session yet"),
    }
    Ok(0)
}

/// The tree as lines, children below their parent.
pub(super) fn draw(tree: &TreeOutput) -> String {
    let mut children: HashMap<&SessionId, Vec<&TreeRow>> = HashMap::new();
    for row in &tree.sessions {
        if let Some(parent) = &row.parent_id {
            children.entry(parent).or_default().push(row);
        }
    }
    let mut out = String::new();
    // A stack of its own: depth is somebody else's setting.
    let root = tree.sessions.iter().find(|row| row.session_id == tree.root);
    let mut open: Vec<(&TreeRow, String, String)> =
        root.map(|row| (row, String::new(), String::new())).into_iter().collect();
    while let Some((row, first, rest)) = open.pop() {
        let title = terminal::one_line(row.title.as_deref().unwrap_or(""), 60);
        let line = format!("{first}{} {} {}  {title}", who(row), row.status.as_str(), row.session_id);
        writeln!(out, "{}", line.trim_end()).expect("writing to a string does not fail");
        let below = children.remove(&row.session_id).unwrap_or_default();
        for (index, child) in below.iter().enumerate().rev() {
            let last = index + 1 == below.len();
            let (branch, bar) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            open.push((child, format!("{rest}{branch}"), format!("{rest}{bar}")));
        }
    }
    out
}

/// What a session is called, and the agent it runs as.
fn who(row: &TreeRow) -> String {
    let agent = terminal::flat(&row.agent);
    match row.name.as_ref().or(row.label.as_ref()) {
        Some(name) => format!("{} ({agent})", terminal::one_line(name, 40)),
        None => agent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, parent: Option<&str>, agent: &str) -> TreeRow {
        TreeRow {
            session_id: SessionId::parse(id).unwrap(),
            key: String::new(),
            parent_id: parent.map(|parent| SessionId::parse(parent).unwrap()),
            agent: agent.into(),
            name: None,
            label: None,
            status: proto::Status::Done,
            title: None,
        }
    }

    #[test]
    fn children_stand_below_their_parent_in_order() {
        let root = SessionId::parse("ses_a").unwrap();
        let sessions = vec![
            row("ses_a", None, "build"),
            row("ses_b", Some("ses_a"), "explore"),
            TreeRow { name: Some("writer".into()), ..row("ses_c", Some("ses_a"), "general") },
            row("ses_d", Some("ses_b"), "explore"),
        ];
        let drawn = draw(&TreeOutput { root, sessions });
        assert_eq!(
            drawn,
            "build done ses_a\n├─ explore done ses_b\n│  └─ explore done ses_d\n└─ writer (general) done ses_c\n"
        );
    }
}
