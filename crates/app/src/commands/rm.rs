//! `convoke rm`: sessions that are no longer wanted.

use super::block_on;
use crate::failure::Failure;
use crate::home::Home;
use crate::reach::reach;
use crate::terminal;
use client::Client;
use proto::methods::{RetireInput, Retired, SessionsDelete, SessionsTree, TreeInput, TreeRow};
use proto::{Code, Error, RunId, SessionId};
use serde_json::{Value, json};

/// Remove sessions with their descendants
///
/// They are listed no more, take no messages, and give their keys, labels and names back. Their history stays readable by
/// the whole id.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Each session: an id (or its last 4 characters), a key, a name or a label
    #[arg(value_name = "REF", required = true)]
    references: Vec<String>,
    /// Stop a session first that is at work
    #[arg(long, short)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    block_on(async {
        let client = reach(&home).await?;
        // All are looked up first: a word that means nothing removes nothing.
        let mut meant = Vec::new();
        for reference in &args.references {
            meant.push(below(&client, reference).await?);
        }
        let busy = meant.iter().flatten().find(|row| row.status.is_busy());
        if let Some(busy) = busy.filter(|_| !args.force) {
            return Err(Error::new(Code::Conflict, format!("{} is {}", called(busy), busy.status.as_str()))
                .hint("stop it with `convoke kill`, or pass `--force`")
                .into());
        }
        let mut removed: Vec<Value> = Vec::new();
        for rows in meant.iter().filter(|rows| !rows.is_empty()) {
            let retired = remove(&client, &rows[0].session_id).await?;
            let names: Vec<String> = rows.iter().map(called).collect();
            if !args.json {
                let count = if rows.len() == 1 { "1 session".into() } else { format!("{} sessions", rows.len()) };
                terminal::say(&format!("removed {count}: {}", names.join(", ")));
            }
            let ids: Vec<&SessionId> = rows.iter().map(|row| &row.session_id).collect();
            removed.push(json!({ "sessionId": retired.session_id, "archived": retired.archived, "sessions": ids }));
        }
        if args.json {
            terminal::print_json(&json!({ "removed": removed }));
        }
        Ok(0)
    })
}

/// A session and its descendants, itself first.
async fn below(client: &Client, reference: &str) -> Result<Vec<TreeRow>, Failure> {
    let selector = proto::methods::Selector { reference: Some(reference.to_owned()), ..Default::default() };
    let top = client.call::<proto::methods::SessionsResolve>(selector).await?.session_id;
    let tree = client.call::<SessionsTree>(TreeInput { reference: Some(top.to_string()) }).await?;
    let mut rows: Vec<TreeRow> = tree.sessions.iter().filter(|row| row.session_id == top).cloned().collect();
    // Parents stand before their children, so one look is enough.
    for row in &tree.sessions {
        if row.parent_id.as_ref().is_some_and(|parent| rows.iter().any(|above| above.session_id == *parent)) {
            rows.push(row.clone());
        }
    }
    Ok(rows)
}

async fn remove(client: &Client, session: &SessionId) -> Result<Retired, Failure> {
    let input = RetireInput { reference: session.to_string(), idempotency_key: Some(RunId::new().to_string()) };
    Ok(client.call::<SessionsDelete>(input).await?)
}

fn called(row: &TreeRow) -> String {
    let name = row.name.as_ref().or(row.label.as_ref()).map(|name| terminal::one_line(name, 40));
    let id = row.session_id.as_str();
    name.unwrap_or_else(|| format!("{} …{}", terminal::flat(&row.agent), &id[id.len().saturating_sub(6)..]))
}
