//! The conversation as the offline model keeps it, and the part of it that matters: what came since the newest prompt.

use crate::{CallRef, Message, Said};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How many messages are looked at when a whole conversation is to be put into few words.
const OVERVIEW: usize = 40;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kept {
    User { text: String },
    Assistant { text: String, calls: Vec<KeptCall> },
    Results(Vec<KeptResult>),
}

#[derive(Serialize, Deserialize)]
struct KeptResult {
    call: String,
    output: String,
    failed: bool,
}

#[derive(Serialize, Deserialize)]
struct KeptCall {
    id: String,
    tool: String,
    input: Value,
}

/// How every user message starts on this wire, so that the newest is found without reading the others.
const USER: &[u8] = b"{\"user\":";

pub(super) fn encode(message: &Message<'_>) -> Bytes {
    let kept = match message {
        Message::User { text, files } if files.is_empty() => Kept::User { text: (*text).to_owned() },
        Message::User { text, files } => {
            let names: Vec<&str> = files.iter().map(|file| file.name).collect();
            Kept::User { text: format!("{text}\n[files that this model cannot look at: {}]", names.join(", ")) }
        }
        Message::Assistant(said) => {
            let text = said.iter().filter_map(|part| if let Said::Text(text) = part { Some(*text) } else { None });
            let calls = said.iter().filter_map(|part| if let Said::Call(call) = part { Some(call) } else { None });
            Kept::Assistant { text: text.collect(), calls: calls.map(kept_call).collect() }
        }
        Message::Results(results) => Kept::Results(
            results
                .iter()
                .map(|result| KeptResult {
                    call: result.call.to_owned(),
                    output: result.output.to_owned(),
                    failed: result.failed,
                })
                .collect(),
        ),
    };
    Bytes::from(serde_json::to_vec(&kept).expect("strings and JSON values always serialise"))
}

fn kept_call(call: &CallRef<'_>) -> KeptCall {
    let input = serde_json::from_str(call.input.get()).unwrap_or(Value::Null);
    KeptCall { id: call.id.to_owned(), tool: call.tool.to_owned(), input }
}

/// What came since the newest prompt, and that prompt.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pub(super) prompt: String,
    /// How many assistant messages followed it.
    pub(super) said: usize,
    /// Their calls, in order.
    pub(super) calls: Vec<Made>,
}

/// A call that was made and what it returned.
#[derive(Debug, Clone, Default)]
pub(super) struct Made {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) input: Value,
    pub(super) output: String,
    pub(super) failed: bool,
}

impl Turn {
    pub(super) fn read(messages: &[Bytes]) -> Self {
        (0..messages.len())
            .rev()
            .find(|at| is_prompt(messages, *at))
            .map(|at| Self::since(messages, at))
            .unwrap_or_default()
    }

    /// What came since the prompt at this place, and that prompt.
    fn since(messages: &[Bytes], at: usize) -> Self {
        let mut turn = Self::default();
        if let Ok(Kept::User { text }) = serde_json::from_slice(&messages[at]) {
            turn.prompt = text;
        }
        turn.said = at.checked_sub(1).map_or(0, |before| summed_up(&messages[before]));
        let made = Made { tool: FORGOTTEN.into(), output: "(what came back was summed up)".into(), ..Made::default() };
        turn.calls = vec![made; turn.said];
        for message in &messages[at + 1..] {
            match serde_json::from_slice(message) {
                Ok(Kept::Assistant { calls, .. }) => turn.answer(calls),
                Ok(Kept::Results(results)) => {
                    results.into_iter().for_each(|result| turn.settle(&result.call, result.output, result.failed));
                }
                Ok(Kept::User { .. }) | Err(_) => {}
            }
        }
        turn
    }

    /// What the newest call that came back said.
    pub(super) fn last(&self) -> &str {
        self.calls.last().map_or("", |made| made.output.as_str())
    }

    fn answer(&mut self, calls: Vec<KeptCall>) {
        self.said += 1;
        let made =
            calls.into_iter().map(|call| Made { id: call.id, tool: call.tool, input: call.input, ..Made::default() });
        self.calls.extend(made);
    }

    fn settle(&mut self, id: &str, output: String, failed: bool) {
        if let Some(made) = self.calls.iter_mut().rev().find(|made| made.id == id) {
            made.output = output;
            made.failed = failed;
        }
    }
}

/// A call of which nothing is known but that it was made.
pub(super) const FORGOTTEN: &str = "";

/// Replies to the prompt behind a summary that are in the summary.
fn summed_up(message: &Bytes) -> usize {
    let Ok(Kept::User { text }) = serde_json::from_slice(message) else { return 0 };
    if !is_aside(&text) {
        return 0;
    }
    let steps = text.split_once("<summary steps=\"").and_then(|(_, rest)| rest.split_once('"'));
    steps.and_then(|(steps, _)| steps.parse().ok()).unwrap_or(0)
}

/// The prompts that had fewer than so many replies since, the newest first.
pub(super) fn recent(messages: &[Bytes], replies: usize) -> impl Iterator<Item = Turn> {
    let prompts = (0..messages.len()).rev().filter(|at| is_prompt(messages, *at));
    prompts.map(|at| Turn::since(messages, at)).take_while(move |turn| turn.said < replies)
}

/// The opening words of the newest messages, for whoever is to summarise them.
pub(super) fn overview(messages: &[Bytes]) -> Vec<String> {
    let newest = &messages[messages.len().saturating_sub(OVERVIEW)..];
    let lines = newest.iter().filter_map(|message| match serde_json::from_slice(message) {
        Ok(Kept::User { text }) => Some(("user", text)),
        Ok(Kept::Assistant { text, .. }) if !text.is_empty() => Some(("assistant", text)),
        _ => None,
    });
    lines.map(|(who, text)| format!("{who}: {}", text.trim().lines().next().unwrap_or_default())).collect()
}

/// A conversation that is to be summed up, as one prompt holds it: who spoke, and the opening words.
pub(super) fn conversation(prompt: &str) -> Option<Vec<(&str, &str)>> {
    let (_, rest) = prompt.split_once("<conversation>\n")?;
    let (text, _) = rest.rsplit_once("</conversation>")?;
    let lines: Vec<&str> = text.lines().collect();
    let who = |line: &str| line.strip_prefix('[')?.strip_suffix(']').filter(|who| SPEAKERS.contains(who)).map(str::len);
    let spoken = lines.windows(2).filter_map(|pair| who(pair[0]).map(|end| (&pair[0][1..=end], pair[1])));
    Some(spoken.collect())
}

const SPEAKERS: &[&str] = &["summary of what came before", "user", "assistant", "call"];

/// What a person or another session wrote; or the runtime, when its words opened a run because nothing was under way.
fn is_prompt(messages: &[Bytes], at: usize) -> bool {
    if !messages[at].starts_with(USER) {
        return false;
    }
    let Ok(Kept::User { text }) = serde_json::from_slice(&messages[at]) else { return false };
    let before = at.checked_sub(1).map(|before| serde_json::from_slice(&messages[before]));
    // News of an agent is answered whatever came before it: whoever yielded for it ended on a call.
    !is_aside(&text)
        || text.contains("<agent-result>")
        || matches!(before, Some(Ok(Kept::Assistant { calls, .. })) if calls.is_empty())
}

/// The runtime speaking: to be known, not to be obeyed.
pub(super) fn is_aside(text: &str) -> bool {
    ["[notice from the runtime", "<system-reminder"].iter().any(|start| text.trim_start().starts_with(start))
}
