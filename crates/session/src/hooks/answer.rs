//! What a hook said, by how it ended and what it printed. Pure.

use super::On;
use serde_json::Value;
use tools::process::Finished;

/// The exit code that says no.
const NO: i32 = 2;
/// The most of a reason or an error that is passed on.
const WORDS: usize = 4096;

#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    Nothing,
    Change(Value),
    Stop(String),
    Failed(String),
}

pub(super) fn answer(finished: &Finished, on: On, hook: &config::Hook) -> Answer {
    if finished.cancelled {
        return Answer::Nothing;
    }
    if finished.timed_out {
        return Answer::Failed(format!("it was ended after {} s, its time limit", hook.timeout_ms as f64 / 1000.0));
    }
    match finished.code {
        Some(0) => change(finished, on),
        Some(NO) if on.can_be_stopped() => Answer::Stop(words(&finished.errors).unwrap_or_else(|| {
            let command = &hook.command;
            format!("`{command}` gave no reason")
        })),
        Some(NO) => Answer::Failed(format!("it said no to what has happened already{}", told(finished))),
        Some(code) => Answer::Failed(format!("it ended with exit code {code}{}", told(finished))),
        None => Answer::Failed(format!("it was killed{}", told(finished))),
    }
}

/// The one field that may be changed, if the hook printed a JSON object that has it. Other text is nobody's business.
fn change(finished: &Finished, on: On) -> Answer {
    let Some(field) = on.changes() else { return Answer::Nothing };
    let printed = finished.output.trim_ascii();
    if !printed.starts_with(b"{") {
        return Answer::Nothing;
    }
    if finished.truncated {
        return Answer::Failed("it printed more than 4 MiB".into());
    }
    match serde_json::from_slice::<Value>(printed).map(|mut printed| printed.get_mut(field).map(Value::take)) {
        Ok(None) => Answer::Nothing,
        Ok(Some(value)) if fits(on, &value) => Answer::Change(value),
        Ok(Some(_)) if on == On::ToolBefore => Answer::Failed("the `input` it printed is no object".into()),
        Ok(Some(_)) => Answer::Failed(format!("the `{field}` it printed is no text, or an empty one")),
        Err(error) => Answer::Failed(format!("what it printed is not JSON: {error}")),
    }
}

fn fits(on: On, value: &Value) -> bool {
    match on {
        On::ToolBefore => value.is_object(),
        _ => value.as_str().is_some_and(|text| !text.trim().is_empty()),
    }
}

fn told(finished: &Finished) -> String {
    words(&finished.errors).map(|words| format!(": {words}")).unwrap_or_default()
}

fn words(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim();
    (!text.is_empty()).then(|| text[..text.floor_char_boundary(WORDS)].to_owned())
}
