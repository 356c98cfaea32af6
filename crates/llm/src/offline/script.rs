//! Script files: what `offline/<script>` plays. The format is described in `mod.rs`.

use super::Play;
use super::tail::{Turn, recent};
use crate::{Error, Part};
use bytes::Bytes;
use proto::entry::Thought;
use serde_json::Value;
use std::time::Duration;

/// No script needs to wait longer.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(super) struct Script {
    file: String,
    sections: Vec<Section>,
}

#[derive(Debug, Default)]
struct Section {
    played: Played,
    steps: Vec<Step>,
}

/// What a section is played for.
#[derive(Debug, Default, PartialEq)]
enum Played {
    /// A prompt that no other is for.
    #[default]
    Otherwise,
    /// The newest prompt, when it contains these words.
    When(String),
    /// Every letter that contains these words, beside whatever else is played.
    On(String),
}

impl Played {
    fn is_on(&self) -> bool {
        matches!(self, Self::On(_))
    }
}

impl Section {
    fn new(played: Played) -> Self {
        Self { played, steps: Vec::new() }
    }
}

type Step = Vec<Action>;

#[derive(Debug)]
enum Action {
    Say(String),
    Think(String),
    Call { tool: String, input: Value },
    Wait(Duration),
    Fail(Failure),
    Usage(u64, u64),
}

#[derive(Debug, Clone, Copy)]
enum Failure {
    Network,
    Auth,
    Overflow,
    Rate,
}

/// A line with what was continued below it, and where it stands.
struct Line {
    number: usize,
    text: String,
}

pub(super) fn parse(text: &str, file: &str) -> Result<Script, Error> {
    let mut sections = vec![Section::default()];
    for line in logical_lines(text) {
        let section = sections.last_mut().expect("there is always one");
        if let Some(words) = line.text.strip_prefix("when:") {
            sections.push(Section::new(Played::When(words.trim().to_owned())));
        } else if let Some(words) = line.text.strip_prefix("on:") {
            sections.push(Section::new(Played::On(words.trim().to_owned())));
        } else if line.text.trim_end() == "---" {
            section.steps.push(Step::new());
        } else {
            let wrong = |reason: String| Error::Refused(format!("script {file}:{}: {reason}", line.number));
            let action = action(&line.text).map_err(wrong)?;
            match section.steps.last_mut() {
                Some(step) => step.push(action),
                None => section.steps.push(vec![action]),
            }
        }
    }
    for section in &mut sections {
        // A `---` at the very end begins nothing.
        if section.steps.last().is_some_and(Vec::is_empty) {
            section.steps.pop();
        }
    }
    sections.retain(|section| section.played != Played::Otherwise || !section.steps.is_empty());
    Ok(Script { file: file.to_owned(), sections })
}

fn logical_lines(text: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let indent = line.starts_with([' ', '\t']);
        match lines.last_mut().filter(|_| indent) {
            Some(above) => {
                above.text.push('\n');
                above.text.push_str(line.strip_prefix("  ").or(line.strip_prefix('\t')).unwrap_or(line.trim_start()));
            }
            None => lines.push(Line { number: at + 1, text: line.trim_start().to_owned() }),
        }
    }
    lines
}

fn action(line: &str) -> Result<Action, String> {
    if let Some(rest) = line.strip_prefix("call ") {
        return call(rest.trim());
    }
    let expected = "expected `when:`, `on:`, `say:`, `think:`, `call TOOL {json}`, `wait:`, `fail:`, `usage:` or `---`";
    let (word, value) = line.split_once(':').ok_or(expected)?;
    let value = value.strip_prefix(' ').unwrap_or(value);
    match word {
        "say" => Ok(Action::Say(value.to_owned())),
        "think" => Ok(Action::Think(value.to_owned())),
        "wait" => duration(value.trim()).map(Action::Wait),
        "fail" => failure(value.trim()).map(Action::Fail),
        "usage" => usage(value),
        _ => Err(expected.to_owned()),
    }
}

fn call(rest: &str) -> Result<Action, String> {
    let (tool, json) = rest.split_once(|c: char| c.is_whitespace()).unwrap_or((rest, "{}"));
    let input: Value =
        serde_json::from_str(json).map_err(|error| format!("the input of `{tool}` is not JSON: {error}"))?;
    Ok(Action::Call { tool: tool.to_owned(), input })
}

fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time such as `50ms` or `2s`".to_owned();
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 0.001),
        None => (text.strip_suffix('s').ok_or_else(wrong)?, 1.0),
    };
    let seconds: f64 = number.trim().parse().map_err(|_| wrong())?;
    let wait = Duration::try_from_secs_f64(seconds * unit).map_err(|_| wrong())?;
    Ok(wait.min(LONGEST_WAIT))
}

fn failure(text: &str) -> Result<Failure, String> {
    match text {
        "network" => Ok(Failure::Network),
        "auth" => Ok(Failure::Auth),
        "overflow" => Ok(Failure::Overflow),
        "rate" => Ok(Failure::Rate),
        _ => Err("expected `network`, `auth`, `overflow` or `rate`".to_owned()),
    }
}

fn usage(text: &str) -> Result<Action, String> {
    let numbers: Option<Vec<u64>> = text.split_whitespace().map(|number| number.parse().ok()).collect();
    match numbers.as_deref() {
        Some([input, output]) => Ok(Action::Usage(*input, *output)),
        _ => Err("expected two numbers: tokens in and tokens out".to_owned()),
    }
}

impl Script {
    /// The next step of the newest prompt's section, and of each letter's that has one of its own.
    pub(super) fn play(&self, messages: &[Bytes]) -> Result<Play, Error> {
        let mut playing = Vec::new();
        let (mut prompted, listens) = (false, self.sections.iter().any(|section| section.played.is_on()));
        for turn in recent(messages, self.longest()) {
            match self.section_on(&turn.prompt) {
                Some(section) => playing.push((section, turn)),
                None if prompted => {}
                None => {
                    prompted = true;
                    playing.push((self.section_for(&turn.prompt)?, turn));
                }
            }
            if prompted && !listens {
                break;
            }
        }
        let mut play = None;
        // In the order they came.
        for (section, turn) in playing.iter().rev() {
            if let Some(step) = section.steps.get(turn.said) {
                self.perform(step, turn, play.get_or_insert_default())?;
            }
        }
        Ok(play.unwrap_or_else(|| Play::say("(end of script)")))
    }

    /// Steps of the longest section: what had as many replies is over.
    fn longest(&self) -> usize {
        self.sections.iter().map(|section| section.steps.len()).max().unwrap_or(0).max(1)
    }

    fn section_on(&self, letter: &str) -> Option<&Section> {
        self.sections.iter().find(|section| matches!(&section.played, Played::On(words) if letter.contains(words)))
    }

    fn section_for(&self, prompt: &str) -> Result<&Section, Error> {
        let fits = |section: &&Section| matches!(&section.played, Played::When(words) if prompt.contains(words));
        let otherwise = |section: &&Section| section.played == Played::Otherwise;
        let section = self.sections.iter().find(fits).or_else(|| self.sections.iter().find(otherwise));
        section.ok_or_else(|| {
            let reason = "no section matches the prompt: add steps without `when:` at the top";
            Error::Refused(format!("script {}: {reason}", self.file))
        })
    }

    fn perform(&self, step: &Step, turn: &Turn, play: &mut Play) -> Result<(), Error> {
        for action in step {
            match action {
                Action::Say(text) => say(play, fill(text, turn)),
                Action::Think(text) => play.parts.push(Part::Reasoning(Thought::new(fill(text, turn)))),
                Action::Call { tool, input } => {
                    let input = fill_json(input, turn).to_string();
                    play.parts.push(Part::Call { id: None, tool: tool.clone(), input });
                }
                Action::Wait(wait) => play.wait += *wait,
                Action::Usage(input, output) => play.usage = Some((*input, *output)),
                Action::Fail(failure) => return Err(self.fail(*failure)),
            }
        }
        Ok(())
    }

    fn fail(&self, failure: Failure) -> Error {
        let message = format!("script {} says so", self.file);
        match failure {
            Failure::Network => Error::Network(message),
            Failure::Auth => Error::Auth(message),
            Failure::Overflow => Error::Overflow(message),
            Failure::Rate => Error::RateLimited { message, retry_after: None },
        }
    }
}

/// Several `say:` lines in a row are one text.
fn say(play: &mut Play, text: String) {
    match play.parts.last_mut() {
        Some(Part::Text(above)) => {
            above.push('\n');
            above.push_str(&text);
        }
        _ => play.parts.push(Part::Text(text)),
    }
}

fn fill(text: &str, turn: &Turn) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, placeholder, after)) = next_placeholder(rest) {
        out.push_str(before);
        match value_of(placeholder, turn) {
            Some(Value::String(value)) => out.push_str(&value),
            Some(value) => out.push_str(&value.to_string()),
            // Not one of ours: it is text.
            None => out.push_str(&rest[before.len()..rest.len() - after.len()]),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

fn fill_json(value: &Value, turn: &Turn) -> Value {
    match value {
        Value::String(text) => match next_placeholder(text) {
            Some(("", placeholder, "")) => value_of(placeholder, turn).unwrap_or_else(|| value.clone()),
            _ => Value::String(fill(text, turn)),
        },
        Value::Array(items) => items.iter().map(|item| fill_json(item, turn)).collect(),
        Value::Object(fields) => fields.iter().map(|(key, field)| (key.clone(), fill_json(field, turn))).collect(),
        other => other.clone(),
    }
}

/// What stands before the next `{{...}}`, inside it, and behind it.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{{")?;
    let (inside, after) = rest.split_once("}}")?;
    Some((before, inside.trim(), after))
}

/// The last text that follows a mark, up to the next quotation mark.
fn quoted(text: &str, mark: &str) -> String {
    let rest = text.rsplit_once(mark).map_or("", |(_, rest)| rest);
    rest.split('"').next().unwrap_or_default().to_owned()
}

fn value_of(placeholder: &str, turn: &Turn) -> Option<Value> {
    match placeholder {
        "prompt" => Some(Value::String(turn.prompt.clone())),
        "last" => Some(Value::String(turn.last().to_owned())),
        // What an answer to mail has to repeat.
        "prompt.request_id" => Some(Value::String(quoted(&turn.prompt, "\"request_id\":\""))),
        "prompt.from" => Some(Value::String(quoted(&turn.prompt, "<cross-session-message from=\""))),
        _ => {
            let path = placeholder.strip_prefix("last.")?;
            let result: Value = serde_json::from_str(turn.last()).unwrap_or_default();
            let field = path.split('.').try_fold(&result, |value, name| match name.parse::<usize>() {
                Ok(index) if value.is_array() => value.get(index),
                _ => value.get(name),
            });
            Some(field.cloned().unwrap_or_else(|| Value::String(String::new())))
        }
    }
}
