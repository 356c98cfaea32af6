//! `session`: how sessions behave towards each other.

use crate::Error;
use crate::document::{Field, Node, Value};
use crate::section::Notes;

/// The most turns two sessions take after a message that is announced.
const MOST_TURNS: u32 = 5;

/// The number of those turns, where it is set. One out of range is brought into it, with a warning.
pub(crate) fn turns(session: &Node, notes: &mut Notes) -> Result<Option<u32>, Error> {
    let Some(between) = below(session, "agentToAgent") else { return Ok(None) };
    let Some(turns) = below(&between.node, "maxPingPongTurns") else { return Ok(None) };
    let hint = format!("write a whole number from 0 to {MOST_TURNS}, without quotes");
    let Value::Number(said) = &turns.node.value else { return Err(turns.node.wrong("a whole number", hint)) };
    let whole = (0..=MOST_TURNS).find(|turns| said.as_u64() == Some(u64::from(*turns)));
    // Negative numbers and fractions are brought down to the nearest one below, as numbers of tools are.
    let near = || (0..=MOST_TURNS).rev().find(|turns| said.as_f64().is_some_and(|said| f64::from(*turns) <= said));
    let taken = whole.or_else(near).unwrap_or(0);
    if whole.is_none() {
        let path = &turns.node.path;
        notes.warn(turns, format_args!("`{path}` is {said}, so {taken} is used: it goes from 0 to {MOST_TURNS}"));
    }
    Ok(Some(taken))
}

fn below<'n>(node: &'n Node, key: &str) -> Option<&'n Field> {
    node.fields().ok()?.iter().find(|field| field.key == key)
}
