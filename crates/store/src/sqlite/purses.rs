//! Purses: what runs were given and what is gone of it, added up when somebody asks. Each run writes to its own row alone,
//! so that nothing is written by many at once.

use super::fault::Result;
use super::value::{from_word, unsigned};
use crate::{Purse, Used};
use proto::RunId;
use proto::letter::Allotment;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row};

/// Deeper than any tree is; a circle, which nobody makes, would end here too.
const DEEPEST: usize = 64;

fn prepare<'c>(connection: &'c Connection, sql: &str) -> Result<CachedStatement<'c>> {
    super::read::prepare(connection, sql)
}

/// A run's purse and those above it.
pub(super) fn chain(connection: &Connection, run: &RunId) -> Result<Vec<Purse>> {
    let mut purses = Vec::new();
    let mut next = own_purse(connection, run)?;
    while let Some(run) = next.take().filter(|_| purses.len() < DEEPEST) {
        let sql = "SELECT allotted_cost, allotted_tokens, allotted_agents, above FROM runs WHERE id = ?1";
        let mut statement = prepare(connection, sql)?;
        let mut rows = statement.query([run.as_str()])?;
        let Some(row) = rows.next()? else { break };
        let (allotted, above) = (allotment(row, 0)?, row.get::<_, Option<String>>(3)?);
        let used = used(connection, &run, 0)?;
        next = above.as_deref().map(from_word).transpose()?;
        purses.push(Purse { run, allotted, used });
    }
    Ok(purses)
}

/// The run whose purse this one spends from.
fn own_purse(connection: &Connection, run: &RunId) -> Result<Option<RunId>> {
    let sql = "SELECT coalesce(purse, id) FROM runs WHERE id = ?1";
    let found: Option<String> = prepare(connection, sql)?.query_row([run.as_str()], |row| row.get(0)).optional()?;
    found.as_deref().map(from_word).transpose()
}

fn used(connection: &Connection, run: &RunId, depth: usize) -> Result<Used> {
    let mut used = spent(connection, run)?;
    if depth >= DEEPEST {
        return Ok(used);
    }
    let sql =
        "SELECT id, fresh, ended IS NULL, allotted_cost, allotted_tokens, allotted_agents FROM runs WHERE above = ?1";
    let mut statement = prepare(connection, sql)?;
    let mut rows = statement.query([run.as_str()])?;
    while let Some(row) = rows.next()? {
        let id: RunId = from_word(&row.get::<_, String>(0)?)?;
        let below = self::used(connection, &id, depth + 1)?;
        // The end returns the rest: from then on only what was used counts.
        used += if row.get(2)? { below.reserved(allotment(row, 3)?) } else { below };
        used.agents += u64::from(row.get::<_, bool>(1)?);
    }
    Ok(used)
}

/// What the runs of a purse used themselves. The run that has it was started from above, and counts there.
fn spent(connection: &Connection, run: &RunId) -> Result<Used> {
    let sql = "SELECT coalesce(sum(cost), 0.0), coalesce(sum(input + output + cache_read + cache_write), 0), \
               coalesce(sum(CASE WHEN id = ?1 THEN 0 ELSE fresh END), 0) FROM runs WHERE purse = ?1";
    let mut statement = prepare(connection, sql)?;
    let mut rows = statement.query([run.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(Used::default()) };
    Ok(Used { cost_usd: row.get(0)?, tokens: unsigned(row, 1)?, agents: unsigned(row, 2)? })
}

fn allotment(row: &Row<'_>, first: usize) -> Result<Allotment> {
    let count = |column| row.get(column).map(|count: Option<i64>| count.map(|count| count.max(0) as u64));
    Ok(Allotment { cost_usd: row.get(first)?, tokens: count(first + 1)?, agents: count(first + 2)? })
}
