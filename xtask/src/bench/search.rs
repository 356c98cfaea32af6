//! How long `tool_search` takes in a catalogue of two thousand tools.

use super::Bench;
use super::measure::{median, millis};
use super::report::Row;
use anyhow::{Context, ensure};
use serde_json::value::RawValue;
use std::time::Instant;
use tools::tool_search::{Query, ToolCard, answer};

const TOOLS: usize = 2_000;
const ROUNDS: usize = 50;

/// Names, words, a word that has to be there, and a miss: the slowest of them counts.
const QUERIES: [&str; 4] = [
    "select:mcp_server7_create_issue1207,mcp_server12_search_page412",
    "search the pages of a wiki for a title",
    "+server3 create issue with labels",
    "select:mcp_sevrer7_craete_isue",
];

pub(super) fn search(_: &Bench) -> anyhow::Result<Vec<Row>> {
    let cards: Vec<ToolCard> = (0..TOOLS).map(card).collect::<anyhow::Result<_>>()?;
    let mut slowest: f64 = 0.0;
    for text in QUERIES {
        let query = Query::parse(text).context("a query asks for something")?;
        let mut times = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let output = answer(&cards, text, &query, 5);
            times.push(millis(start.elapsed()));
            ensure!(!output.text.is_empty(), "`{text}` was not answered");
        }
        slowest = slowest.max(median(times)?);
    }
    Ok(vec![Row::info("tool_search_2000", slowest, "ms").at_most(2.0)])
}

/// As MCP servers have them: a name of four parts, two sentences, and three arguments.
fn card(n: usize) -> anyhow::Result<ToolCard> {
    let verb = ["create", "search", "update", "delete", "list"][n % 5];
    let noun = ["issue", "page", "event", "message", "file", "order", "label"][n % 7];
    let server = n % 20;
    let description = format!(
        "{verb}s a {noun} in the workspace that server {server} is connected to. Use it when the person asks for the \
         {noun} by its title or number {n}, and say afterwards what was done and where it can be seen."
    );
    let schema = format!(
        r#"{{"type":"object","properties":{{"{noun}Id":{{"type":"string"}},"title":{{"type":"string"}},"workspace{server}":{{"type":"string"}}}}}}"#
    );
    let schema = RawValue::from_string(schema)?;
    Ok(ToolCard::new(format!("mcp_server{server}_{verb}_{noun}{n}"), Vec::new(), description, schema, true))
}
