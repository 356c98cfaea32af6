//! A markdown file with front matter: YAML between two lines of `---`, then a body.
//!
//! Front matter becomes the same nodes a settings file is read into, so that every complaint names file, line and column.

use std::sync::Arc;

use saphyr::{LoadableYamlNode, MarkedYaml, Marker, Scalar, YamlData};
use saphyr_parser::{Event, Parser};

use crate::document::{Field, Node, Place, Value};
use crate::layer::Source;
use crate::{Error, document};

/// Bytes of front matter, and how deep it goes.
const LONGEST: usize = 64 << 10;
const DEEPEST: usize = 16;

/// A file taken apart.
pub(crate) struct Markdown {
    /// An object; empty where there is no front matter.
    pub(crate) front: Vec<Field>,
    pub(crate) body: String,
    /// Where the body starts.
    pub(crate) place: Place,
}

pub(crate) fn parse(source: &Arc<Source>, text: &str, path: &str) -> Result<Markdown, Error> {
    let place = |line| Place { source: source.clone(), line, column: 1 };
    let Some((front, rest)) = split(text) else {
        if opens(text) {
            let hint = "end the front matter with a line of `---`";
            return Err(place(1).error("the front matter has no end", hint));
        }
        return Ok(Markdown { front: Vec::new(), body: text.trim().to_owned(), place: place(1) });
    };
    let reader = Reader { source, path };
    let front_fields = reader.read(front)?;
    let blank = rest.lines().take_while(|line| line.trim().is_empty()).count();
    let body_line = 3 + front.lines().count() + blank;
    Ok(Markdown { front: front_fields, body: rest.trim().to_owned(), place: place(body_line) })
}

fn opens(text: &str) -> bool {
    text.lines().next().is_some_and(|line| line.trim_end() == "---")
}

/// What stands between the first two lines of `---`, and what comes after.
fn split(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix("---")?;
    let inner = &inner[inner.find('\n')? + 1..];
    if !opens(text) {
        return None;
    }
    let mut at = 0;
    for line in inner.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&inner[..at], &inner[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

struct Reader<'a> {
    source: &'a Arc<Source>,
    /// The setting the front matter stands for, such as `agent.reviewer`.
    path: &'a str,
}

impl Reader<'_> {
    fn read(&self, front: &str) -> Result<Vec<Field>, Error> {
        self.measure(front)?;
        let documents = MarkedYaml::load_from_str(front).or_else(|error| {
            // Other programs take a description with a colon in it for what it plainly means.
            MarkedYaml::load_from_str(&quoted(front)).map_err(|_| {
                let hint = "the front matter is YAML: `key: value` lines; quote a value that holds `: ` or ` #`";
                self.place(error.marker()).error(error.info(), hint)
            })
        })?;
        let Some(root) = documents.first() else { return Ok(Vec::new()) };
        match self.node(self.path.to_owned(), root)?.value {
            Value::Object(fields) => Ok(fields),
            Value::Null => Ok(Vec::new()),
            _ => {
                Err(self.place(&root.span.start).error("the front matter is not a list of keys", "write `key: value`"))
            }
        }
    }

    /// Refuses what would lead the loader too far: it goes down as deep as the text does, and writes out what is named
    /// twice. What is no YAML is for the loader to tell.
    fn measure(&self, front: &str) -> Result<(), Error> {
        let start = Place { source: self.source.clone(), line: 1, column: 1 };
        let hint = "front matter is a few `key: value` lines";
        if front.len() > LONGEST {
            return Err(start.error(format_args!("the front matter is longer than {LONGEST} bytes"), hint));
        }
        let (mut deep, mut values) = (0_usize, 0_usize);
        for event in Parser::new_from_str(front).map_while(Result::ok) {
            match event.0 {
                Event::SequenceStart(..) | Event::MappingStart(..) => deep += 1,
                Event::SequenceEnd | Event::MappingEnd => deep = deep.saturating_sub(1),
                Event::Scalar(..) => values += 1,
                Event::Alias(_) => return Err(self.place(&event.1.start).error("aliases are not read here", hint)),
                _ => {}
            }
            if deep > DEEPEST || values > document::MOST_VALUES {
                return Err(self.place(&event.1.start).error("the front matter is too much", hint));
            }
        }
        Ok(())
    }

    /// The front matter starts in the second line of the file.
    fn place(&self, marker: &Marker) -> Place {
        Place { source: self.source.clone(), line: marker.line() + 1, column: marker.col() + 1 }
    }

    fn node(&self, path: String, yaml: &MarkedYaml<'_>) -> Result<Node, Error> {
        let place = self.place(&yaml.span.start);
        let value = match &yaml.data {
            YamlData::Value(scalar) => self.scalar(scalar, &place)?,
            YamlData::Sequence(items) => {
                let items = items.iter().enumerate();
                Value::List(
                    items.map(|(index, item)| self.node(format!("{path}[{index}]"), item)).collect::<Result<_, _>>()?,
                )
            }
            YamlData::Mapping(fields) => Value::Object(
                fields.iter().map(|(key, value)| self.field(&path, key, value)).collect::<Result<_, _>>()?,
            ),
            _ => return Err(place.error("this kind of YAML is not read here", "write plain values")),
        };
        Ok(Node::new(path, place, value))
    }

    fn field(&self, path: &str, key: &MarkedYaml<'_>, value: &MarkedYaml<'_>) -> Result<Field, Error> {
        let place = self.place(&key.span.start);
        let YamlData::Value(Scalar::String(name)) = &key.data else {
            return Err(place.error("a key has to be a word", "write `key: value`"));
        };
        Ok(Field { key: name.to_string(), place, node: self.node(format!("{path}.{name}"), value)? })
    }

    fn scalar(&self, scalar: &Scalar<'_>, place: &Place) -> Result<Value, Error> {
        Ok(match scalar {
            Scalar::Null => Value::Null,
            Scalar::Boolean(flag) => Value::Flag(*flag),
            Scalar::Integer(whole) => Value::Number((*whole).into()),
            Scalar::FloatingPoint(number) => {
                let number = serde_json::Number::from_f64(number.into_inner());
                Value::Number(number.ok_or_else(|| place.error("not a usable number", "write a finite one"))?)
            }
            Scalar::String(text) => Value::Text(text.to_string()),
        })
    }
}

/// The same front matter with plain one-line values that hold a colon in quotes.
fn quoted(front: &str) -> String {
    let mend = |line: &str| {
        let (key, value) = line.split_once(": ")?;
        let plain_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        let plain_value = !value.starts_with(['"', '\'', '|', '>', '[', '{', '&', '*', '!']);
        (plain_key && plain_value && value.contains([':', '#']))
            .then(|| format!("{key}: '{}'", value.trim().replace('\'', "''")))
    };
    let lines = front.lines().map(|line| mend(line).unwrap_or_else(|| line.to_owned()) + "\n");
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Markdown, Error> {
        parse(&Source::named("a.md"), text, "agent.a")
    }

    #[test]
    fn front_matter_and_body_know_their_lines() {
        let read = read("---\ndescription: reads\nsteps: 4\n---\n\nBe kind.\n").unwrap();
        let keys: Vec<_> = read.front.iter().map(|f| (f.key.as_str(), f.place.to_string())).collect();
        assert_eq!(keys, [("description", "a.md:2:1".to_owned()), ("steps", "a.md:3:1".to_owned())]);
        assert_eq!((read.body.as_str(), read.place.line), ("Be kind.", 6));
        assert_eq!(read.front[1].node.path, "agent.a.steps");
    }

    #[test]
    fn a_file_without_front_matter_is_all_body() {
        let read = read("# Title\n\n---\n\ntext").unwrap();
        assert!(read.front.is_empty());
        assert_eq!(read.body, "# Title\n\n---\n\ntext");
    }

    #[test]
    fn windows_lines_and_colons_are_fine() {
        let read = read("---\r\ndescription: Use this when: asked #1\r\ntools: Read, Grep\r\n---\r\nbody").unwrap();
        assert_eq!(read.front[0].node.text().unwrap(), "Use this when: asked #1");
        assert_eq!(read.body, "body");
    }

    #[test]
    fn broken_front_matter_is_refused_with_its_place() {
        let deep = format!("---\na: {}x\n---\n", "- ".repeat(30_000));
        let flow = format!("---\na: {}\n---\n", "[".repeat(250));
        let keys = format!("---\n{}\n---\n", "? ".repeat(30_000));
        let bomb = "---\na: &a [x, x]\nb: [*a, *a]\n---\n";
        let long = format!("---\na: {}\n---\n", "x".repeat(100_000));
        for text in [&deep, &flow, &keys, bomb, &long] {
            assert!(read(text).is_err());
        }
        for (text, place) in
            [("---\na: [1\n---\nx", "a.md:"), ("---\na: 1\n", "a.md:1:1"), ("---\n- a\n---\n", "a.md:2:1")]
        {
            let error = read(text).map(|_| ()).unwrap_err();
            assert!(error.message.starts_with(place) && !error.hint.is_empty(), "{error:?}");
        }
    }
}
