//! `tool_search`: fetches what a model knows by name only (C8).
//!
//! [`Candidate`] says which tools those are, [`find`] looks for them. What is found is loaded with the call's
//! result: the session adds it to the end of the request's tool list.

mod card;
mod defer;
mod find;
#[cfg(test)]
mod tests;

use crate::{Access, Error, Output, Spec, Tool, ToolCx, output, tolerant};
use async_trait::async_trait;
pub use card::{ToolCard, functions};
pub use defer::Candidate;
pub use find::{Found, Missing, Query, find};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct ToolSearch;

/// Tools found by words unless told otherwise.
const USUAL: u64 = 5;
/// More would be no search.
const MOST: u64 = 50;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// `select:NAME,NAME` for tools you know the name of, or words to look for; `+word` has to be in the name.
    query: String,
    /// How many tools words may find: 5 unless given, 50 at most.
    #[serde(default, deserialize_with = "tolerant::number", alias = "maxResults", alias = "limit")]
    #[schemars(with = "Option<u64>")]
    max_results: Option<u64>,
}

/// What a reader of the result can rely on.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Facts<'a> {
    query: &'a str,
    matches: Vec<&'a str>,
    missing: Vec<&'a str>,
    total_deferred_tools: usize,
}

#[async_trait]
impl Tool for ToolSearch {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("tool_search", include_str!("prompt.md")).again().aliases(&["ToolSearch"])
    }

    /// Reading about a tool touches nothing; whether it may be used is judged with its call.
    fn access(&self, _: &Args, _: &ToolCx) -> Vec<Access> {
        Vec::new()
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let query = Query::parse(&args.query).ok_or_else(|| {
            Error::tell("`query` asks for nothing: send `select:NAME`, or words that say what the tool should do")
        })?;
        let most = args.max_results.unwrap_or(USUAL).clamp(1, MOST) as usize;
        Ok(answer(cx.catalogue.cards(), &args.query, &query, most))
    }
}

/// What the model is told, and what is loaded with it.
pub fn answer(cards: &[ToolCard], text: &str, query: &Query, most: usize) -> Output {
    let mut found = find(cards, query, most);
    let left = cut(&mut found);
    let mut parts = Vec::new();
    if !found.cards.is_empty() {
        parts.push(functions(found.cards.iter().copied()));
    }
    if left > 0 {
        parts.push(format!("{left} more did not fit: ask for fewer at once."));
    }
    parts.extend(found.missing.iter().map(|missing| told(missing, query)));
    let facts = Facts {
        query: text,
        matches: found.cards.iter().map(|card| card.name.as_str()).collect(),
        missing: found.missing.iter().map(|missing| missing.wanted.as_str()).collect(),
        total_deferred_tools: cards.iter().filter(|card| card.deferred).count(),
    };
    let mut output = Output::text(parts.join("\n")).with(&facts);
    output.loads = found.cards.iter().filter(|card| card.deferred).map(|card| card.name.clone()).collect();
    // Finding nothing is an answer; a name that does not exist is a mistake.
    output.failed = found.cards.is_empty() && matches!(query, Query::Select(_));
    output
}

/// What a result says beside the functions it describes.
pub fn beside(output: &str) -> &str {
    output.rsplit_once(card::END).map_or(output, |(_, beside)| beside.trim())
}

/// Keeps what a result may hold, and says how many are left out.
fn cut(found: &mut Found<'_>) -> usize {
    let mut room = output::MAX_BYTES;
    let fits = |card: &&ToolCard| {
        let size = card.name.len() + card.description.len() + card.schema.get().len();
        room = room.saturating_sub(size);
        room > 0
    };
    // At least one, however long it is.
    let keep = found.cards.iter().copied().take_while(fits).count().max(1);
    let left = found.cards.len().saturating_sub(keep);
    found.cards.truncate(keep);
    left
}

fn told(missing: &Missing<'_>, query: &Query) -> String {
    let wanted = &missing.wanted;
    let what = match query {
        Query::Select(_) => format!("There is no tool `{wanted}`"),
        Query::Words { .. } => format!("No tool that could be loaded matches `{wanted}`"),
    };
    if missing.nearest.is_empty() {
        return format!("{what}, and none has a name like it: try other words.");
    }
    format!("{what}; the nearest are: {}.", missing.nearest.join(", "))
}
