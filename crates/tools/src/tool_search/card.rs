//! A tool as the search knows it: what a model is shown of it, and the words it is found by.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// How much a word counts where it stands: a name says most about what a tool is for.
const IN_NAME: u32 = 5;
const IN_ARGUMENT: u32 = 2;
const IN_DESCRIPTION: u32 = 1;

/// The most of a description that is looked at: what a tool is for stands at its beginning.
const DESCRIPTION: usize = 4 << 10;

/// One tool of a catalogue.
#[derive(Debug, Clone)]
pub struct ToolCard {
    pub name: String,
    /// Other names it answers to.
    pub aliases: Vec<String>,
    pub description: String,
    pub schema: Box<RawValue>,
    /// The model knows it by name only, until it is loaded.
    pub deferred: bool,
    /// What its words are looked up by, with their weights, sorted.
    words: Vec<(u64, u32)>,
    /// All of those weights.
    length: u32,
}

impl ToolCard {
    pub fn new(
        name: impl Into<String>,
        aliases: Vec<String>,
        description: impl Into<String>,
        schema: Box<RawValue>,
        deferred: bool,
    ) -> Self {
        let (name, description) = (name.into(), description.into());
        let mut weights: BTreeMap<u64, u32> = BTreeMap::new();
        let mut add = |text: &str, weight: u32| {
            for word in words(text) {
                *weights.entry(key(&word)).or_default() += weight;
            }
        };
        add(&name, IN_NAME);
        aliases.iter().for_each(|alias| add(alias, IN_NAME));
        add(&description[..description.floor_char_boundary(DESCRIPTION)], IN_DESCRIPTION);
        arguments(&schema).iter().for_each(|argument| add(argument, IN_ARGUMENT));
        let length = weights.values().sum();
        Self { name, aliases, description, schema, deferred, words: weights.into_iter().collect(), length }
    }

    /// Whether it is called so: by its own name or another one, in whatever letters.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.names().any(|own| own.eq_ignore_ascii_case(name))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }

    /// How much a word counts here; 0 where it does not stand.
    pub(super) fn weight(&self, key: u64) -> u32 {
        self.words.binary_search_by_key(&key, |(own, _)| *own).map_or(0, |at| self.words[at].1)
    }

    pub(super) fn length(&self) -> u32 {
        self.length
    }

    /// As the tool list has it.
    pub fn function(&self) -> String {
        let function = Function { description: &self.description, name: &self.name, parameters: &self.schema };
        format!("<function>{}</function>", serde_json::to_string(&function).expect("text and JSON are JSON"))
    }
}

#[derive(Serialize)]
struct Function<'a> {
    description: &'a str,
    name: &'a str,
    parameters: &'a RawValue,
}

/// What stands behind the last function of a result.
pub(super) const END: &str = "</functions>";

/// Cards in the encoding of the tool list, one a line.
pub fn functions<'a>(cards: impl IntoIterator<Item = &'a ToolCard>) -> String {
    let lines: Vec<String> = cards.into_iter().map(ToolCard::function).collect();
    format!("<functions>\n{}\n{END}", lines.join("\n"))
}

fn arguments(schema: &RawValue) -> Vec<String> {
    #[derive(Deserialize)]
    struct Schema {
        #[serde(default)]
        properties: BTreeMap<String, IgnoredAny>,
    }
    serde_json::from_str::<Schema>(schema.get()).map_or_else(|_| Vec::new(), |s| s.properties.into_keys().collect())
}

/// What a word is looked up by: FNV-1a, the same in every process. Numbers compare faster than texts, and of a few
/// thousand words no two will meet.
pub(super) fn key(word: &str) -> u64 {
    word.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The words of a text, as they are compared: `sessionsList`, `sessions_list` and `Session List` have the same.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut word = String::new();
    let mut lower = false;
    for c in text.chars() {
        // A capital after a small letter begins a word.
        if !c.is_alphanumeric() || (lower && c.is_uppercase()) {
            end(&mut out, &mut word);
        }
        lower = c.is_lowercase();
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
    }
    end(&mut out, &mut word);
    out
}

fn end(out: &mut Vec<String>, word: &mut String) {
    let mut word = std::mem::take(word);
    // One and many are the same to whoever looks for them.
    if word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") {
        word.pop();
    }
    if !word.is_empty() {
        out.push(word);
    }
}
