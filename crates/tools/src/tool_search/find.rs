//! The search itself: a query and a catalogue in, tools out. Pure, and the same answer every time.

use super::card::{ToolCard, key, words};
use std::cmp::Reverse;

/// Words of a query that count; more of them no longer say what is wanted.
const MAX_WORDS: usize = 32;
/// Names of one `select:`.
const MAX_NAMES: usize = 100;
/// How many similar names a miss is answered with.
const NEAREST: usize = 3;

/// The usual constants of BM25: how soon a repeated word stops counting more, and how much a long text is discounted.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;

/// Below this part of the best score a tool shares only words that stand everywhere.
const FAINT: f64 = 0.1;

/// Words that say nothing about a tool. In a small catalogue a rare one of them would count as telling.
const EMPTY: &str = "a an and are at be by can do for from how i in is it me my of on or that the thi to want what when \
                     where which who with you";

/// What is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// `select:a,b`: these, by name.
    Select(Vec<String>),
    /// Words; those with `+` have to be in the name.
    Words { text: String, must: Vec<String> },
}

/// What was found, best first, and what was not.
#[derive(Debug, Default)]
pub struct Found<'a> {
    pub cards: Vec<&'a ToolCard>,
    pub missing: Vec<Missing<'a>>,
}

/// A name or a query nothing answers to, with the names most like it.
#[derive(Debug, PartialEq, Eq)]
pub struct Missing<'a> {
    pub wanted: String,
    pub nearest: Vec<&'a str>,
}

impl Query {
    /// `None` when it asks for nothing.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(names) = strip_select(text) {
            let mut wanted: Vec<String> = Vec::new();
            for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()).take(MAX_NAMES) {
                if !wanted.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                    wanted.push(name.to_owned());
                }
            }
            return (!wanted.is_empty()).then_some(Self::Select(wanted));
        }
        let must = text.split_whitespace().filter_map(|word| word.strip_prefix('+')).filter(|word| !word.is_empty());
        let must: Vec<String> = must.take(MAX_WORDS).map(str::to_lowercase).collect();
        let meant = text.chars().any(char::is_alphanumeric);
        meant.then(|| Self::Words { text: text.to_owned(), must })
    }
}

fn strip_select(text: &str) -> Option<&str> {
    let (form, names) = text.split_once(':')?;
    form.trim_end().eq_ignore_ascii_case("select").then_some(names)
}

/// Tools of a catalogue: by name all of them can be had, by words those that are deferred.
pub fn find<'a>(cards: &'a [ToolCard], query: &Query, most: usize) -> Found<'a> {
    match query {
        Query::Select(names) => select(cards, names),
        Query::Words { text, must } => {
            let found = ranked(cards, text, must, most);
            let missing = if found.is_empty() { vec![miss(cards, text)] } else { Vec::new() };
            Found { cards: found, missing }
        }
    }
}

fn select<'a>(cards: &'a [ToolCard], names: &[String]) -> Found<'a> {
    let mut found = Found::default();
    for name in names {
        match called(cards, name) {
            Some(card) if found.cards.iter().any(|known| known.name == card.name) => {}
            Some(card) => found.cards.push(card),
            None => found.missing.push(miss(cards, name)),
        }
    }
    found
}

/// By its own name before another product's.
fn called<'a>(cards: &'a [ToolCard], name: &str) -> Option<&'a ToolCard> {
    cards.iter().find(|card| card.name == name).or_else(|| cards.iter().find(|card| card.is_called(name)))
}

/// A tool that is called exactly so, then by BM25, then as the catalogue has them.
fn ranked<'a>(cards: &'a [ToolCard], text: &str, must: &[String], most: usize) -> Vec<&'a ToolCard> {
    let exact = called(cards, text);
    let fits = |card: &&ToolCard| {
        let has = |part: &String| card.names().any(|name| name.to_lowercase().contains(part.as_str()));
        card.deferred && exact.is_none_or(|exact| exact.name != card.name) && must.iter().all(has)
    };
    let candidates: Vec<&ToolCard> = cards.iter().filter(fits).collect();
    let mut scored = scores(&candidates, text);
    scored.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let best = scored.first().map_or(0.0, |(_, score)| *score);
    // A word that has to be in the name is reason enough, also where it is only a part of one.
    let enough = |score: f64| !must.is_empty() || (score > 0.0 && score >= best * FAINT);
    let found = scored.into_iter().filter(|(_, score)| enough(*score)).map(|(card, _)| card);
    exact.into_iter().chain(found).take(most).collect()
}

fn scores<'a>(cards: &[&'a ToolCard], text: &str) -> Vec<(&'a ToolCard, f64)> {
    let mut terms: Vec<String> = words(text).into_iter().filter(|word| !is_empty(word)).collect();
    terms.truncate(MAX_WORDS);
    terms.sort();
    terms.dedup();
    let count = cards.len() as f64;
    let usual = cards.iter().map(|card| f64::from(card.length())).sum::<f64>() / count.max(1.0);
    let mut scored: Vec<(&ToolCard, f64)> = cards.iter().map(|card| (*card, 0.0)).collect();
    for term in &terms {
        let key = key(term);
        let weights: Vec<f64> = cards.iter().map(|card| f64::from(card.weight(key))).collect();
        let with = weights.iter().filter(|weight| **weight > 0.0).count() as f64;
        let rarity = (1.0 + (count - with + 0.5) / (with + 0.5)).ln();
        for ((card, score), weight) in scored.iter_mut().zip(weights) {
            let discount = 1.0 - LENGTH + LENGTH * f64::from(card.length()) / usual.max(1.0);
            *score += rarity * weight * (SATURATION + 1.0) / (weight + SATURATION * discount);
        }
    }
    scored
}

fn is_empty(word: &str) -> bool {
    EMPTY.split(' ').any(|empty| empty == word)
}

fn miss<'a>(cards: &'a [ToolCard], wanted: &str) -> Missing<'a> {
    let wanted: String = wanted.chars().take(64).collect();
    Missing { nearest: nearest(cards, &wanted), wanted }
}

/// Names that share the most pairs of letters with what was asked for: also where its words are turned around.
fn nearest<'a>(cards: &'a [ToolCard], wanted: &str) -> Vec<&'a str> {
    let mut asked = [false; PAIRS];
    let mut count = 0;
    pairs(wanted, |pair| count += usize::from(!std::mem::replace(&mut asked[pair], true)));
    let likeness = |name: &str| {
        let (mut own, mut common) = (0, 0);
        pairs(name, |pair| {
            own += 1;
            common += usize::from(asked[pair]);
        });
        // In thousandths, so that equal ones stay in the catalogue's order.
        2000 * common / (own + count).max(1)
    };
    let mut scored: Vec<(usize, &str)> = cards.iter().map(|card| (likeness(&card.name), card.name.as_str())).collect();
    scored.sort_by_key(|(likeness, _)| Reverse(*likeness));
    let best = scored.first().map_or(0, |(likeness, _)| *likeness);
    // One that is half as like would only distract.
    scored.retain(|(likeness, _)| *likeness > 0 && *likeness * 2 >= best);
    scored.into_iter().take(NEAREST).map(|(_, name)| name).collect()
}

/// Letters and digits in either case, and one place for all that is neither: names of tools are plain.
const LETTERS: usize = 37;
const PAIRS: usize = LETTERS * LETTERS;

/// Every two letters that stand side by side, as a number below [`PAIRS`].
fn pairs(text: &str, mut each: impl FnMut(usize)) {
    let plain = |c: char| c.to_digit(36).map_or(LETTERS - 1, |digit| digit as usize);
    let mut letters = text.chars().filter(|c| c.is_alphanumeric()).map(plain);
    let Some(mut before) = letters.next() else { return };
    for letter in letters {
        each(before * LETTERS + letter);
        before = letter;
    }
}
