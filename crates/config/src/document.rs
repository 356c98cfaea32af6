//! A settings file as it was written: every value knows its place, so that every complaint can name it.
//!
//! Sections read themselves from [`Node`]s. The questions a node answers (`text`, `whole`, `choice`, …) either give
//! the value or the error a person needs: where, which setting, what was expected, what was found.

use std::cell::Cell;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions};
use serde_json::Value as Json;

use crate::Error;
use crate::layer::{Origin, Source};

/// Where something stands in a file; printed as `file:line:column`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) source: Arc<Source>,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// A value of the file.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// The keys that lead to it, such as `agent.reviewer.mode`; empty for the whole file.
    pub(crate) path: String,
    pub(crate) place: Place,
    pub(crate) value: Value,
    /// Written out from a variable that is called like a key: never shown.
    pub(crate) secret: bool,
}

/// One entry of an object: the key, where the key stands, and the value.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) key: String,
    pub(crate) place: Place,
    pub(crate) node: Node,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Null,
    Flag(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<Node>),
    Object(Vec<Field>),
    /// The same setting of several layers, where each has its say: rules.
    Layers(Vec<Node>),
}

impl Place {
    /// Without the column: how a warning and the origin of a rule are told.
    pub(crate) fn line(&self) -> String {
        format!("{}:{}", self.source.name, self.line)
    }

    pub(crate) fn origin(&self) -> Origin {
        Origin { layer: self.source.layer, file: self.source.name.clone(), line: self.line }
    }

    pub(crate) fn error(&self, message: impl fmt::Display, hint: impl Into<String>) -> Error {
        Error::new(format!("{self}: {message}"), hint)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.source.name, self.line, self.column)
    }
}

impl Node {
    pub(crate) fn new(path: String, place: Place, value: Value) -> Self {
        Self { path, place, value, secret: false }
    }

    pub(crate) fn text(&self) -> Result<&str, Error> {
        match &self.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.wrong("a string", "put the value in double quotes")),
        }
    }

    pub(crate) fn flag(&self) -> Result<bool, Error> {
        match self.value {
            Value::Flag(flag) => Ok(flag),
            _ => Err(self.wrong("a boolean", "write `true` or `false`, without quotes")),
        }
    }

    /// A whole number within bounds.
    pub(crate) fn whole(&self, least: u64, most: u64) -> Result<u64, Error> {
        let hint = format!("write a whole number from {least} to {most}, without quotes");
        let Value::Number(number) = &self.value else { return Err(self.wrong("a whole number", hint)) };
        match number.as_u64() {
            Some(whole) if (least..=most).contains(&whole) => Ok(whole),
            _ => Err(self.refuse(format_args!("cannot be {number}"), hint)),
        }
    }

    /// Any number within bounds.
    pub(crate) fn number(&self, least: f64, most: f64) -> Result<f64, Error> {
        let hint = format!("write a number from {least} to {most}, without quotes");
        let Value::Number(number) = &self.value else { return Err(self.wrong("a number", hint)) };
        match number.as_f64() {
            Some(value) if (least..=most).contains(&value) => Ok(value),
            _ => Err(self.refuse(format_args!("cannot be {number}"), hint)),
        }
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, Error> {
        let text = self.text()?;
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
            return Ok(*value);
        }
        let names: Vec<_> = choices.iter().map(|(name, _)| format!("`{name}`")).collect();
        Err(self.refuse(format_args!("cannot be `{}`", excerpt(text)), format!("use {}", names.join(" or "))))
    }

    pub(crate) fn list(&self) -> Result<&[Node], Error> {
        match &self.value {
            Value::List(items) => Ok(items),
            _ => Err(self.wrong("an array", "write it as `[ … ]`")),
        }
    }

    /// A list of texts.
    pub(crate) fn texts(&self) -> Result<Vec<String>, Error> {
        self.list()?.iter().map(|item| item.text().map(str::to_owned)).collect()
    }

    /// The path of a file, absolute or from the directory of the file that names it.
    pub(crate) fn file(&self) -> Result<PathBuf, Error> {
        let text = self.text()?;
        if text.is_empty() || text.contains('\0') {
            return Err(self.refuse("is not a path", "name a file"));
        }
        Ok(self.place.source.directory.join(text))
    }

    pub(crate) fn fields(&self) -> Result<&[Field], Error> {
        match &self.value {
            Value::Object(fields) => Ok(fields),
            _ => Err(self.wrong("an object", "write it as `{ … }`")),
        }
    }

    pub(crate) fn is_text(&self) -> bool {
        matches!(self.value, Value::Text(_))
    }

    pub(crate) fn is_object(&self) -> bool {
        matches!(self.value, Value::Object(_))
    }

    /// Each layer's own form of a setting in which all have their say; otherwise the one there is.
    pub(crate) fn layers(&self) -> &[Node] {
        match &self.value {
            Value::Layers(layers) => layers,
            _ => std::slice::from_ref(self),
        }
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self.value, Value::List(_))
    }

    /// The value as it is, for a section that somebody else reads.
    pub(crate) fn json(&self) -> Json {
        match &self.value {
            Value::Null => Json::Null,
            Value::Flag(flag) => Json::Bool(*flag),
            Value::Number(number) => Json::Number(number.clone()),
            Value::Text(text) => Json::String(text.clone()),
            Value::List(items) => items.iter().map(Self::json).collect(),
            Value::Object(fields) => fields.iter().map(|field| (field.key.clone(), field.node.json())).collect(),
            Value::Layers(layers) => layers.last().map_or(Json::Null, Self::json),
        }
    }

    /// An error about this value: `` file:line:column: `limits.depth` cannot be -1``.
    pub(crate) fn refuse(&self, why: impl fmt::Display, hint: impl Into<String>) -> Error {
        let name = if self.path.is_empty() { "the file".to_owned() } else { format!("`{}`", self.path) };
        self.place.error(format_args!("{name} {why}"), hint)
    }

    /// An error about the type of this value, for a setting with more than one form.
    pub(crate) fn wrong(&self, expected: &str, hint: impl Into<String>) -> Error {
        let found = match self.value {
            Value::Null => "null",
            Value::Flag(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "an array",
            Value::Object(_) => "an object",
            Value::Layers(_) => "several layers",
        };
        self.refuse(format_args!("must be {expected}, not {found}"), hint)
    }
}

/// Enough of a text to recognise it in a message, on one line.
pub(crate) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

/// Where a byte of a text stands, for what is found before there is a document.
pub(crate) fn place(source: &Arc<Source>, text: &str, offset: usize) -> Place {
    Lines::new(source, text).place(offset)
}

/// Reads JSON with comments and trailing commas. An empty file is an empty object.
pub(crate) fn parse(source: &Arc<Source>, text: &str) -> Result<Node, Error> {
    let source = Lines::new(source, text);
    let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &strict()).map_err(|error| {
        let what = error.kind().to_string();
        let mut letters = what.chars();
        let what: String = letters.next().into_iter().flat_map(char::to_lowercase).chain(letters).collect();
        source.place(error.range().start).error(what, "the file is JSON; comments and trailing commas are fine")
    })?;
    let root = match parsed.value {
        Some(value) => source.node(String::new(), &value)?,
        None => Node::new(String::new(), source.place(0), Value::Object(Vec::new())),
    };
    root.fields()?;
    Ok(root)
}

/// Comments and trailing commas, and nothing else that is not JSON: another program should read the file alike.
pub(crate) fn strict() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// Values in one file: far more than anybody sets, and few enough that going through them again and again is nothing.
pub(crate) const MOST_VALUES: usize = 10_000;
const LONGEST_LINE: usize = 4096;

struct Lines<'a> {
    source: Arc<Source>,
    text: &'a str,
    /// Values that may still come.
    left: Cell<usize>,
    /// Where each line starts, so that a place is found without reading the file again.
    lines: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(source: &Arc<Source>, text: &'a str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let left = Cell::new(MOST_VALUES);
        Self {
            source: source.clone(),
            text,
            left,
            lines: std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect(),
        }
    }

    fn place(&self, offset: usize) -> Place {
        let line = self.lines.partition_point(|&start| start <= offset);
        let start = self.lines[line - 1];
        let before = self.text.get(start..offset).unwrap_or_default();
        // Nobody counts along a line this long, and doing it for each value of one takes time.
        let column = if before.len() > LONGEST_LINE { before.len() } else { before.chars().count() } + 1;
        Place { source: self.source.clone(), line, column }
    }

    fn node(&self, path: String, value: &ast::Value<'_>) -> Result<Node, Error> {
        let place = self.place(value.start());
        let Some(left) = self.left.get().checked_sub(1) else {
            let hint = "check that this is the file you mean";
            return Err(place.error(format_args!("more than {MOST_VALUES} values in one file"), hint));
        };
        self.left.set(left);
        let value = match value {
            ast::Value::NullKeyword(_) => Value::Null,
            ast::Value::BooleanLit(flag) => Value::Flag(flag.value),
            ast::Value::StringLit(text) => Value::Text(text.value.clone().into_owned()),
            ast::Value::NumberLit(number) => Value::Number(number.value.parse().map_err(|_| {
                place.error(format_args!("`{}` is not a usable number", excerpt(number.value)), "write a smaller one")
            })?),
            ast::Value::Array(array) => {
                let items = array.elements.iter().enumerate();
                Value::List(
                    items.map(|(index, item)| self.node(format!("{path}[{index}]"), item)).collect::<Result<_, _>>()?,
                )
            }
            ast::Value::Object(object) => {
                Value::Object(object.properties.iter().map(|field| self.field(&path, field)).collect::<Result<_, _>>()?)
            }
        };
        Ok(Node::new(path, place, value))
    }

    fn field(&self, path: &str, field: &ast::ObjectProp<'_>) -> Result<Field, Error> {
        let key = field.name.as_str().to_owned();
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        Ok(Field { key, place: self.place(field.name.start()), node: self.node(path, &field.value)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Node {
        super::parse(&Source::named("f"), text).unwrap()
    }

    #[test]
    fn comments_and_trailing_commas_are_fine() {
        let node = parse("// why\n{ /* yes */ \"a\": [1, true, null, \"x\",], }");
        assert_eq!(node.json().to_string(), r#"{"a":[1,true,null,"x"]}"#);
        assert_eq!(parse("").json().to_string(), "{}");
    }

    #[test]
    fn a_value_knows_its_place_and_its_path() {
        let node = parse("{\n  \"é\": {\n    \"b\": [1, 2] } }");
        let inner = &node.fields().unwrap()[0];
        let list = &inner.node.fields().unwrap()[0];
        let second = &list.node.list().unwrap()[1];
        assert_eq!((inner.place.to_string(), inner.node.place.to_string()), ("f:2:3".into(), "f:2:8".into()));
        assert_eq!((second.path.as_str(), second.place.to_string()), ("é.b[1]", "f:3:14".into()));
    }
}
