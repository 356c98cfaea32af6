//! Permission requests as front ends read them: one projection for the event, the lists and the answer of
//! `permissions.get`, so that no front end has to find out anything about a call by itself.

use crate::actor::Role;
use crate::runtime::{Inner, Runtime};
use proto::entry::ReplyPart;
use proto::methods::{AskAbout, AskInfo, QuestionInfo};
use proto::{Action, AskId, Entry, Error, Event, Rule};
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::Arc;
use store::{Ask, Session, Span};
use tools::Access;

/// What a request carries of its call's input: a request with that is no large event.
const MOST_INPUT: usize = 16 * 1024;
/// What is stored of a diff, and what an event or a list shows of it.
const MOST_DIFF: usize = 256 * 1024;
const MOST_DIFF_SHOWN: usize = 24 * 1024;

/// What an ask says about its call.
pub(crate) fn about(rt: &Inner, role: &Role, row: &Session, asks: &[Access], call: Made<'_>) -> AskAbout {
    let (reason, may_be_denied) = crate::why::asked_because(rt, role, asks);
    let whole: Value = serde_json::from_str(call.input.get()).unwrap_or(Value::Null);
    let input_bytes = call.input.get().len();
    let mut left = MOST_INPUT;
    let input = if input_bytes > MOST_INPUT { cut(&whole, &mut left) } else { whole };
    let (diff, diff_cut) = call.diff.map_or((None, false), |diff| {
        let short = shortened(&diff, MOST_DIFF).map(str::to_owned);
        (Some(short.clone().unwrap_or(diff)), short.is_some())
    });
    AskAbout {
        path: call.path,
        name: row.name.clone(),
        // The entry that is written next has the reply with its calls.
        seq: Some(row.seq + 1),
        input,
        input_bytes: input_bytes as u64,
        input_cut: input_bytes > MOST_INPUT,
        reason: Some(reason),
        may_be_denied,
        diff,
        diff_cut,
    }
}

/// The call that is asked about.
pub(crate) struct Made<'a> {
    pub(crate) input: &'a RawValue,
    pub(crate) diff: Option<String>,
    pub(crate) path: String,
}

/// What "always" could keep for all that is asked: the narrowest of each, then the next. Nothing where one of them cannot
/// be kept.
pub(crate) fn choices(asks: &[Access]) -> Vec<Vec<Rule>> {
    let most = asks.iter().map(|access| access.always.len()).max().unwrap_or_default();
    let choice = |at: usize| {
        let mut rules: Vec<Rule> = Vec::new();
        for access in asks {
            let pattern = access.always.get(at).or(access.always.last())?;
            let rule = Rule::new(&access.permission, pattern, Action::Allow);
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        Some(rules)
    };
    let mut choices: Vec<Vec<Rule>> = (0..most).filter_map(choice).collect();
    choices.dedup();
    choices
}

/// A choice in words: patterns, with their permission where it is another one.
pub(crate) fn told(permission: &str, choice: &[Rule]) -> String {
    let text = |rule: &Rule| match rule.permission == permission {
        true => rule.pattern.clone(),
        false => format!("{} {}", rule.permission, rule.pattern),
    };
    choice.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// As lists and events show it.
pub fn info(ask: &Ask) -> AskInfo {
    let mut info = whole(ask);
    let short = info.about.diff.as_deref().and_then(|diff| shortened(diff, MOST_DIFF_SHOWN)).map(str::to_owned);
    if short.is_some() {
        (info.about.diff, info.about.diff_cut) = (short, true);
    }
    info
}

/// The event that tells of an ask.
pub(crate) fn event(ask: &Ask) -> Event {
    if ask.questions.is_empty() {
        return Event::Ask(Box::new(info(ask)));
    }
    Event::Question(Box::new(question(ask)))
}

/// Questions of a model as lists and events show them.
pub fn question(ask: &Ask) -> QuestionInfo {
    QuestionInfo {
        id: ask.id.clone(),
        session_id: ask.session.clone(),
        agent: ask.agent.clone(),
        path: ask.about.path.clone(),
        name: ask.about.name.clone(),
        questions: ask.questions.clone(),
        created_at: ask.created,
        until: ask.until,
    }
}

fn whole(ask: &Ask) -> AskInfo {
    let keeps = ask.choices();
    let mut about = ask.about.clone();
    // What an older program asked says nothing of that, so it must not be relied on.
    about.may_be_denied |= about.reason.is_none();
    AskInfo {
        ask_id: ask.id.clone(),
        session_id: ask.session.clone(),
        agent: ask.agent.clone(),
        call_id: Some(ask.call.clone()),
        tool: ask.tool.clone(),
        permission: ask.permission.clone(),
        patterns: ask.patterns.clone(),
        always: keeps.iter().map(|choice| told(&ask.permission, choice)).collect(),
        keeps,
        rules: ask.rules.clone(),
        about,
        created_at: ask.created,
        until: ask.until,
        to: ask.to.clone(),
        reply: ask.reply,
    }
}

impl Runtime {
    /// One permission request with all there is to know about it: what was cut is read from the log.
    pub async fn ask(&self, id: &AskId) -> Result<AskInfo, Error> {
        let found = self.store().ask(id).await?.filter(|ask| ask.questions.is_empty());
        let missing = || Error::not_found(format!("no permission request `{id}`"));
        let ask = found.ok_or_else(|| missing().hint("`permissions.list` lists the open ones"))?;
        let mut info = whole(&ask);
        if let Some(seq) = ask.about.seq.filter(|_| ask.about.input_cut)
            && let Some(input) = self.given(&ask, seq).await?
        {
            (info.about.input, info.about.input_cut) = (input, false);
        }
        Ok(info)
    }

    async fn given(&self, ask: &Ask, seq: u64) -> Result<Option<Value>, Error> {
        let span = Span::After { seq: seq.saturating_sub(1), limit: 1 };
        let entries = self.store().entries(&ask.session, span).await?;
        let Some(Entry::Reply(reply)) = entries.first().map(|stored| &stored.entry) else { return Ok(None) };
        let call = reply.parts.iter().find_map(|part| match part {
            ReplyPart::Call(call) if call.id == ask.call => Some(call),
            _ => None,
        });
        Ok(call.and_then(|call| serde_json::from_str(call.given().get()).ok()))
    }
}

impl Inner {
    /// Where a session stands in its tree, by the names a person knows.
    pub(crate) async fn place_of(self: &Arc<Self>, row: &Session) -> String {
        let mut names = Vec::new();
        for id in row.path.split('/').filter(|id| !id.is_empty() && *id != row.id.as_str()) {
            let above = match proto::SessionId::parse(id) {
                Ok(id) => self.store.session(&id).await.ok().flatten(),
                Err(_) => None,
            };
            names.push(above.as_ref().map_or_else(|| id.to_owned(), called));
        }
        names.push(called(row));
        names.join("/")
    }
}

fn called(row: &Session) -> String {
    row.name.as_ref().or(row.label.as_ref()).unwrap_or(&row.agent).clone()
}

/// The same with less text: what does not fit any more is left out, deep inside first to last.
fn cut(value: &Value, left: &mut usize) -> Value {
    match value {
        Value::String(text) => {
            let short = shortened(text, *left).unwrap_or(text);
            *left -= short.len();
            Value::String(short.to_owned())
        }
        Value::Array(items) => {
            let fits = items.iter().map_while(|item| (*left > 0).then(|| cut(item, left)));
            Value::Array(fits.collect())
        }
        Value::Object(fields) => {
            let mut out = serde_json::Map::new();
            for (name, field) in fields {
                if *left <= name.len() {
                    break;
                }
                *left -= name.len();
                out.insert(name.clone(), cut(field, left));
            }
            Value::Object(out)
        }
        other => {
            *left = left.saturating_sub(8);
            other.clone()
        }
    }
}

/// The beginning of a text that is longer than that.
fn shortened(text: &str, most: usize) -> Option<&str> {
    (text.len() > most).then(|| &text[..text.floor_char_boundary(most)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_long_input_is_cut_and_stays_json() {
        let value = json!({ "a": "x".repeat(30), "b": ["ä".repeat(30), 1, "more"], "c": "rest" });
        let mut left = 60;
        let short = cut(&value, &mut left);
        assert_eq!(short["a"], value["a"]);
        assert_eq!(short["b"], json!(["ä".repeat(14)]));
        assert!(short.get("c").is_none());
    }

    #[test]
    fn choices_are_the_narrowest_of_all_that_is_asked_then_the_next() {
        let file = Access::new("edit", "src/a").always_one_of(["src/a".into(), "src/*".into()]);
        let command = Access::new("bash", "ls -l").always("ls *");
        let both = choices(&[command.clone(), file.clone()]);
        let texts: Vec<String> = both.iter().map(|choice| told("bash", choice)).collect();
        assert_eq!(texts, ["ls *, edit src/a", "ls *, edit src/*"]);
        assert_eq!(choices(&[file, Access::new("bash", "rm *").always("")]), Vec::<Vec<Rule>>::new());
        assert_eq!(choices(&[command.clone(), command]).len(), 1);
    }
}
