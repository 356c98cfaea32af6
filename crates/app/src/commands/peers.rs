//! `convoke peers`: live sessions one can write to (C4).

use super::block_on;
use crate::failure::Failure;
use crate::home::Home;
use crate::local::read;
use crate::terminal;
use proto::methods::{PeerRow, PeersInput, PeersList, Place};

/// List the live sessions one can write to
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whom this session can write to, instead of every live session
    #[arg(value_name = "REF")]
    reference: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let home = Home::open()?;
    let input = PeersInput { session: args.reference, local: false };
    let list = block_on(read::<PeersList>(&home, input))?;
    if args.json {
        terminal::print_json(&list);
        return Ok(0);
    }
    let rows: Vec<Vec<String>> = list.peers.iter().map(row).collect();
    terminal::print(&terminal::table(
        &["NAME", "LABEL", "STATUS", "AGENT", "WHERE", "ADDRESS", "TITLE"],
        &rows,
        &["LABEL", "TITLE"],
    ));
    Ok(0)
}

fn row(peer: &PeerRow) -> Vec<String> {
    let place = match peer.place {
        Place::Tree => "tree",
        Place::Machine => "machine",
        Place::Remote => "remote",
    };
    vec![
        peer.name.clone().unwrap_or_else(|| "-".into()),
        peer.label.as_deref().map_or_else(|| "-".into(), |label| terminal::one_line(label, 30)),
        peer.status.as_str().into(),
        peer.agent.clone(),
        place.into(),
        peer.address.clone(),
        terminal::one_line(peer.title.as_deref().unwrap_or(""), 50),
    ]
}
