//! What a watcher without the scope `admin` is shown: events without secrets, as histories are.
//!
//! An entry is masked whole, once for all such watchers. Live text comes in pieces, and a secret may be cut between two
//! of them: a line is held back until it is complete, since every shape of a secret ends with its line. Private keys and
//! known values with line breaks are held back to their end. What is held back is bounded: text that passes the bound is
//! not shown live any more, but with its entry.

use crate::hub::Seen;
use rules::redact::Redactor;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// The most that is held back of one text: twice the longest private key that is recognised.
const LONGEST: usize = 32 * 1024;

/// Texts under way at once. With more of them, what was held back is not shown live.
const MOST: usize = 1024;

/// Masks events for one watcher.
pub struct Shown {
    redactor: Redactor,
    tails: HashMap<Of, Tail>,
}

/// Something to pass on.
pub enum Passed {
    /// The event, masked.
    Masked(Arc<Seen>),
    /// A live event with what may be shown of its text.
    Live(String),
}

/// Whose text it is: an answer's, a thought's, or the output of a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Of {
    session: String,
    thought: bool,
    call: Option<String>,
}

impl Of {
    fn answer(session: &str) -> Self {
        Self { session: session.to_owned(), thought: false, call: None }
    }

    fn thought(session: &str) -> Self {
        Self { thought: true, ..Self::answer(session) }
    }

    fn output(session: &str, call: &str) -> Self {
        Self { call: Some(call.to_owned()), ..Self::answer(session) }
    }
}

/// As much of a live event as has to be known.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Live {
    r#type: String,
    session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<String>,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<u64>,
}

/// As much of any other event.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    r#type: String,
    #[serde(default)]
    session_id: String,
    entry: Option<EntryHead>,
}

#[derive(Deserialize)]
struct EntryHead {
    r#type: String,
    call: Option<serde_json::Value>,
}

impl Shown {
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self { redactor, tails: HashMap::new() }
    }

    /// What is shown for one event, in order.
    pub fn pass(&mut self, seen: Arc<Seen>) -> Vec<Passed> {
        if seen.cursor.is_none() && is_live(&seen.json) {
            return self.live(&seen.json).map(Passed::Live).into_iter().collect();
        }
        let mut passed: Vec<Passed> = self.complete(&seen.json).into_iter().map(Passed::Live).collect();
        passed.push(Passed::Masked(seen));
        passed
    }

    /// Events were missed: the next piece of a text does not continue what is held back.
    pub fn missed(&mut self) {
        self.tails.values_mut().for_each(|tail| *tail = Tail::Closed);
    }

    /// Masks an event, if that was not done before. Takes as long as its text is.
    pub fn mask<'s>(&self, seen: &'s Seen) -> &'s str {
        seen.masked(|json| mask(&self.redactor, json))
    }

    pub fn redactor(&self) -> Redactor {
        self.redactor.clone()
    }

    fn live(&mut self, json: &str) -> Option<String> {
        let mut live: Live = serde_json::from_str(json).ok()?;
        let of =
            Of { session: live.session_id.clone(), thought: live.r#type == "reasoning", call: live.call_id.clone() };
        if self.tails.len() >= MOST && !self.tails.contains_key(&of) {
            self.missed();
            return None;
        }
        let tail = self.tails.entry(of).or_default();
        if live.dropped.is_some_and(|dropped| dropped > 0) {
            tail.skip();
        }
        live.text = tail.push(&live.text, &self.redactor)?;
        serde_json::to_string(&live).ok()
    }

    /// An entry completes the texts that led to it.
    fn complete(&mut self, json: &str) -> Vec<String> {
        if self.tails.is_empty() {
            return Vec::new();
        }
        let Ok(Head { r#type, session_id: session, entry }) = serde_json::from_str(json) else { return Vec::new() };
        match (r#type.as_str(), entry) {
            ("entry", Some(entry)) if entry.r#type == "reply" => {
                let thought = self.finish(&Of::thought(&session), "reasoning");
                thought.into_iter().chain(self.finish(&Of::answer(&session), "delta")).collect()
            }
            ("entry", Some(EntryHead { r#type, call: Some(serde_json::Value::String(call)) }))
                if r#type == "result" =>
            {
                self.finish(&Of::output(&session, &call), "output").into_iter().collect()
            }
            // What was said so far is void, or nothing follows.
            ("entry", Some(entry)) if entry.r#type == "ended" => {
                self.tails.retain(|of, _| of.session != session);
                Vec::new()
            }
            ("retry", _) => {
                self.tails.remove(&Of::thought(&session));
                self.tails.remove(&Of::answer(&session));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// The rest of a text that is at its end, as an event of this type.
    fn finish(&mut self, of: &Of, r#type: &str) -> Option<String> {
        let text = self.tails.remove(of)?.finish(&self.redactor)?;
        let (session_id, call_id, dropped) = (of.session.clone(), of.call.clone(), of.call.as_ref().map(|_| 0));
        serde_json::to_string(&Live { r#type: r#type.to_owned(), session_id, call_id, text, dropped }).ok()
    }
}

fn is_live(json: &str) -> bool {
    json.starts_with(r#"{"type":"delta""#)
        || json.starts_with(r#"{"type":"reasoning""#)
        || json.starts_with(r#"{"type":"output""#)
}

/// A whole event without secrets.
pub fn mask(redactor: &Redactor, json: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(json) {
        Ok(mut value) => {
            if redactor.redact_json(&mut value) {
                value.to_string()
            } else {
                json.to_owned()
            }
        }
        // An event is JSON; what is none is not shown.
        Err(_) => "{}".to_owned(),
    }
}

/// The end of a text that may be the beginning of a secret.
enum Tail {
    /// What was not shown yet.
    Open(String),
    /// The beginning of this line is not known.
    Skipping,
    /// Nothing more of this text is shown live.
    Closed,
}

impl Default for Tail {
    fn default() -> Self {
        Self::Open(String::new())
    }
}

impl Tail {
    fn skip(&mut self) {
        if !matches!(self, Self::Closed) {
            *self = Self::Skipping;
        }
    }

    /// What can be shown now, if anything.
    fn push(&mut self, text: &str, redactor: &Redactor) -> Option<String> {
        match self {
            Self::Closed => return None,
            Self::Skipping => {
                let (_, rest) = text.split_once('\n')?;
                *self = Self::Open(rest.to_owned());
            }
            Self::Open(held) => held.push_str(text),
        }
        let Self::Open(held) = self else { return None };
        let lines = held.rfind('\n').map_or(0, |end| end + 1);
        let ready: String = held.drain(..redactor.cut(held, lines)).collect();
        if held.len() > LONGEST {
            *self = Self::Closed;
        }
        (!ready.is_empty()).then(|| redactor.redact(&ready).into_owned())
    }

    /// The text is at its end.
    fn finish(self, redactor: &Redactor) -> Option<String> {
        match self {
            Self::Open(held) if !held.is_empty() => Some(redactor.redact(&held).into_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &str = "correct horse battery";
    const LINES: &str = "first line of it\nsecond line of it";
    const SHAPED: &str = concat!("sk-", "AbCdEfGh12345678IjKl");

    fn redactor() -> Redactor {
        Redactor::new([KNOWN.to_owned(), LINES.to_owned()])
    }

    /// Everything shown of a text that comes in pieces of so many characters.
    fn shown(text: &str, size: usize) -> String {
        let mut tail = Tail::default();
        let chars: Vec<char> = text.chars().collect();
        let mut out: String =
            chars.chunks(size).filter_map(|piece| tail.push(&piece.iter().collect::<String>(), &redactor())).collect();
        out.extend(tail.finish(&redactor()));
        out
    }

    #[test]
    fn a_secret_that_is_cut_between_pieces_is_masked_wherever_it_is_cut() {
        let key = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            ["QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0NTY3ODk5"; 30].join("\n")
        );
        let text = format!(
            "one\nthe key is {SHAPED} and\nAuthorization: Bearer abcdefgh12345678\npassword = \"a b c d e f\"\n\
             say {KNOWN}!\nthen {LINES} and\n{key}the end"
        );
        let whole = redactor().redact(&text).into_owned();
        for size in [1, 2, 3, 5, 7, 11, 40, 1000] {
            let shown = shown(&text, size);
            for secret in ["AbCdEfGh", "abcdefgh12345678", "a b c d", "horse", "second line", "QUJDREVG"] {
                assert!(!shown.contains(secret), "{secret} in pieces of {size}: {shown}");
            }
            assert_eq!(shown, whole, "in pieces of {size}");
        }
    }

    #[test]
    fn text_without_secrets_comes_line_by_line_and_nothing_is_lost() {
        let mut tail = Tail::default();
        assert_eq!(tail.push("one ", &redactor()), None);
        assert_eq!(tail.push("line\nand", &redactor()).as_deref(), Some("one line\n"));
        assert_eq!(tail.finish(&redactor()).as_deref(), Some("and"));
        assert_eq!(shown("a\n\nbé\nc", 1), "a\n\nbé\nc");
    }

    #[test]
    fn what_is_held_back_is_bounded_and_not_shown_later() {
        let mut tail = Tail::default();
        for _ in 0..10 {
            assert_eq!(tail.push(&"x".repeat(10_000), &redactor()), None);
        }
        assert!(matches!(tail, Tail::Closed));
        assert_eq!(tail.push("y\nz\n", &redactor()), None);
    }

    fn seen(json: serde_json::Value) -> Arc<Seen> {
        let cursor = (json["type"] == "entry").then_some(1);
        Arc::new(Seen::new(cursor, json.to_string()))
    }

    fn all(shown: &mut Shown, json: serde_json::Value) -> Vec<String> {
        let passed = shown.pass(seen(json));
        let text = |passed: Passed| match passed {
            Passed::Live(json) => json,
            Passed::Masked(seen) => shown.mask(&seen).to_owned(),
        };
        passed.into_iter().map(text).collect()
    }

    #[test]
    fn the_entry_of_an_answer_comes_after_the_rest_of_its_text() {
        use serde_json::json;
        let mut shown = Shown::new(redactor());
        let delta = |session: &str, text: &str| json!({"type": "delta", "sessionId": session, "text": text});
        assert!(all(&mut shown, delta("ses_1", "it is correct ho")).is_empty());
        assert!(all(&mut shown, delta("ses_2", "elsewhere")).is_empty());
        assert!(all(&mut shown, delta("ses_1", "rse battery")).is_empty());
        let reply = json!({"type": "entry", "sessionId": "ses_1", "seq": 1, "at": 1,
            "entry": {"type": "reply", "parts": [{"text": "it is correct horse battery"}]}});
        let told = all(&mut shown, reply);
        assert_eq!(told[0], r#"{"type":"delta","sessionId":"ses_1","text":"it is ***"}"#);
        assert!(told[1].contains("it is ***") && !told[1].contains("horse"), "{told:?}");
    }

    #[test]
    fn a_thought_is_held_back_beside_the_answer() {
        use serde_json::json;
        let mut shown = Shown::new(redactor());
        let piece = |of: &str, text: &str| json!({"type": of, "sessionId": "ses_1", "text": text});
        assert!(all(&mut shown, piece("reasoning", "correct ho")).is_empty());
        assert_eq!(all(&mut shown, piece("delta", "rse battery\n")).len(), 1, "of another text");
        assert!(all(&mut shown, piece("reasoning", "rse battery")).is_empty());
        let reply = json!({"type": "entry", "sessionId": "ses_1", "seq": 1, "at": 1, "entry": {"type": "reply"}});
        assert_eq!(all(&mut shown, reply)[0], r#"{"type":"reasoning","sessionId":"ses_1","text":"***"}"#);
    }

    #[test]
    fn output_whose_beginning_was_dropped_begins_with_the_next_line() {
        use serde_json::json;
        let mut shown = Shown::new(redactor());
        let output = |text: &str, dropped: u64| json!({"type": "output", "sessionId": "ses_1", "callId": "call_1", "text": text, "dropped": dropped});
        assert_eq!(all(&mut shown, output("a\ncorrect", 0)).len(), 1);
        let told = all(&mut shown, output("orse battery\nb\n", 9));
        assert_eq!(told.len(), 1);
        assert!(told[0].contains(r#""text":"b\n""#) && !told[0].contains("orse"), "{told:?}");
        assert!(all(&mut shown, output("c", 0)).is_empty());
        let result = json!({"type": "entry", "sessionId": "ses_1", "seq": 1, "at": 1,
            "entry": {"type": "result", "call": "call_1", "output": "c"}});
        assert_eq!(all(&mut shown, result).len(), 2);
    }
}
