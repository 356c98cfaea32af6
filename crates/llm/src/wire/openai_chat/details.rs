//! `reasoning_details`: thoughts in the shape of whoever is behind a router, with signatures, which have to go back
//! unchanged. They come in pieces; what has the same type and index is one.

use crate::Part;
use proto::entry::{Block, Thought};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Fields that arrive in pieces. All others are whole.
const GROWING: &[&str] = &["text", "summary", "data"];

/// No answer has more thoughts.
const MOST: usize = 1_000;

#[derive(Default)]
pub(super) struct Details(Vec<Map<String, Value>>);

impl Details {
    /// Takes the pieces of one chunk; anything but a list is none.
    pub(super) fn take(&mut self, pieces: &Value) {
        for piece in pieces.as_array().into_iter().flatten().filter_map(Value::as_object) {
            match self.0.iter().rposition(|known| same(known, piece)) {
                Some(known) => grow(&mut self.0[known], piece),
                None if self.0.len() < MOST => self.0.push(piece.clone()),
                None => {}
            }
        }
    }

    /// Puts the block with the first thought, or before everything where no thought was readable.
    pub(super) fn add_to(self, parts: &mut Vec<Part>, from: &str) {
        if self.0.is_empty() {
            return;
        }
        let raw = serde_json::to_string(&self.0).expect("JSON values always serialise");
        let raw = RawValue::from_string(raw).expect("what was just written is JSON");
        let block = Some(Block { from: from.to_owned(), raw });
        let thought = parts.iter_mut().find_map(|part| match part {
            Part::Reasoning(thought) => Some(thought),
            _ => None,
        });
        match thought {
            Some(thought) => thought.block = block,
            None => parts.insert(0, Part::Reasoning(Thought { text: String::new(), block })),
        }
    }
}

fn same(known: &Map<String, Value>, piece: &Map<String, Value>) -> bool {
    let field = |name: &str| piece.get(name).unwrap_or(&Value::Null) == known.get(name).unwrap_or(&Value::Null);
    field("type") && field("index")
}

fn grow(known: &mut Map<String, Value>, piece: &Map<String, Value>) {
    for (name, value) in piece {
        match (known.get_mut(name), value) {
            (Some(Value::String(text)), Value::String(more)) if GROWING.contains(&name.as_str()) => text.push_str(more),
            (Some(_), Value::Null) => {}
            _ => drop(known.insert(name.clone(), value.clone())),
        }
    }
}
