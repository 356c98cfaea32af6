//! What models want to know from a person: the person who answers, and what must have become of each answer.

use super::ledger::{CUT_OFF, Kind, Violation};
use super::load::Load;
use crate::random::Random;
use anyhow::bail;
use proto::entry::{CallResult, On, State};
use proto::methods::{AsksInput, QuestionAnswer, QuestionInfo, QuestionsList, QuestionsReply};
use proto::{AskId, Code, Entry, SessionId};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// What there is to choose from.
const CHOICES: [&str; 3] = ["red", "green", "blue"];

/// What was said to a question, or that nobody says anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    answers: Option<Vec<Vec<String>>>,
    /// It was acknowledged.
    told: bool,
}

/// One that is answered in free words, and one to choose from.
pub(super) fn input(token: &str) -> Value {
    let choices: Vec<Value> = CHOICES.iter().map(|label| json!({ "label": label })).collect();
    json!({ "questions": [
        { "question": format!("what about {token}?") },
        { "question": format!("which of these for {token}?"), "options": choices, "multiple": true },
    ] })
}

/// Follows from the question alone, so that it is the same when a crash cut it off.
fn answer(asked: &QuestionInfo) -> Option<Vec<Vec<String>>> {
    let mut random = Random::named(asked.id.as_str());
    let said = |question: &proto::Question| match question.options.len() {
        0 => vec![format!("words for {}", asked.id)],
        most => question.options.iter().take(1 + random.below(most as u64) as usize).map(|o| o.label.clone()).collect(),
    };
    let answers = asked.questions.iter().map(said).collect();
    (!random.percent(20)).then_some(answers)
}

impl Load {
    /// Answers what is open.
    pub(super) async fn reply(&self) -> anyhow::Result<()> {
        let Some(open) = self.try_call::<QuestionsList>(AsksInput::default()).await? else { return Ok(()) };
        for asked in open.questions {
            let answers = answer(&asked);
            // Said before it is acknowledged: what a crash cuts off may be kept all the same.
            let said = Said { answers: answers.clone(), told: false };
            self.promises().said.entry(asked.id.clone()).or_insert(said);
            self.posted.notify_waiters();
            let input = || QuestionAnswer {
                id: asked.id.clone(),
                answers: answers.clone().unwrap_or_default(),
                reject: answers.is_none(),
                message: None,
            };
            match self.call::<QuestionsReply>(input).await? {
                Ok(_) => {}
                // Kept before the crash that cut its acknowledgement off, or before it is taken from the list.
                Err(error) if error.code == Code::Conflict => {}
                // Its call was stopped meanwhile.
                Err(error) if error.code == Code::NotFound => continue,
                Err(error) => bail!("`questions.reply` refused `{}`: {error}", asked.id),
            }
            if let Some(said) = self.promises().said.get_mut(&asked.id) {
                said.told = true;
            }
        }
        Ok(())
    }
}

/// The calls that ask. Folded entry by entry; pure.
#[derive(Debug, Default)]
pub(super) struct Questions {
    calls: BTreeMap<String, Asked>,
}

#[derive(Debug)]
struct Asked {
    session: SessionId,
    ask: Option<AskId>,
    result: Option<(State, String, Value)>,
}

impl Questions {
    pub(super) fn apply(&mut self, session: &SessionId, entry: &Entry) {
        match entry {
            Entry::Reply(reply) => {
                for call in reply.calls().filter(|call| call.tool == "question") {
                    let asked = Asked { session: session.clone(), ask: None, result: None };
                    self.calls.insert(call.id.to_string(), asked);
                }
            }
            Entry::Waiting(waiting) => {
                if let (Some(asked), On::Ask { ask }) = (self.calls.get_mut(waiting.call.as_str()), &waiting.on) {
                    asked.ask = Some(ask.clone());
                }
            }
            Entry::Result(result) => self.came_back(result),
            Entry::Input(_)
            | Entry::Started(_)
            | Entry::Ended(_)
            | Entry::Compaction(_)
            | Entry::Switch(_)
            | Entry::Notice(_)
            | Entry::ToolsLoaded(_)
            | Entry::Todo(_)
            | Entry::Undo(_) => {}
        }
    }

    fn came_back(&mut self, result: &CallResult) {
        if let Some(asked) = self.calls.get_mut(result.call.as_str()) {
            let data = result.data.as_ref().and_then(|data| serde_json::from_str(data.get()).ok());
            // That there is one only is the ledger's to say.
            asked.result = Some((result.state, result.output.clone(), data.unwrap_or_default()));
        }
    }

    /// How many were put to the person.
    pub(super) fn count(&self) -> usize {
        self.calls.values().filter(|asked| asked.ask.is_some()).count()
    }

    /// An answer that was acknowledged is the result of the call that asked, word for word; there is none that nobody gave.
    pub(super) fn check(&self, said: &HashMap<AskId, Said>) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut known: HashMap<&AskId, u32> = HashMap::new();
        for (id, Asked { session, ask, result }) in &self.calls {
            let Some((state, output, data)) = result else { continue };
            let words = ask.as_ref().and_then(|ask| said.get(ask));
            ask.iter().for_each(|ask| *known.entry(ask).or_default() += 1);
            let fits = |words: &Said| match &words.answers {
                Some(answers) => *state == State::Ok && data["answers"] == json!(answers),
                None => *state == State::Denied,
            };
            let kind = match (state, words) {
                // Who waits for a person goes on waiting after a crash.
                (State::Interrupted, _) => (ask.is_some() && output.contains(CUT_OFF)).then_some(Kind::Lost),
                (_, Some(words)) if fits(words) => None,
                (_, Some(words)) if words.told => Some(Kind::Lost),
                (_, _) => Some(Kind::Wrong),
            };
            if let Some(kind) = kind {
                let what = format!("question `{id}` of `{session}`, answered with {words:?}: it is {state:?}, {data}");
                found.push(Violation::new(kind, what));
            }
        }
        for (ask, _) in said.iter().filter(|(_, said)| said.told) {
            match known.get(ask).copied().unwrap_or(0) {
                0 => found.push(Violation::new(Kind::Lost, format!("the question `{ask}`, whose answer was kept"))),
                1 => {}
                n => found.push(Violation::new(Kind::Doubled, format!("the question `{ask}` was put by {n} calls"))),
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One call that asked, what was said to it, and what came of it.
    #[track_caller]
    fn check(said: Option<(&[&str], bool)>, result: &Value, expected: &[Kind]) {
        let ask = AskId::parse("ask_1").unwrap();
        let call = json!({ "type": "call", "id": "call_1", "tool": "question", "input": {}, "decision": "ask" });
        let log = [
            json!({ "type": "reply", "step": 1, "parts": [call], "usage": {}, "finish": "tool-calls", "model": "m" }),
            json!({ "type": "waiting", "call": "call_1", "on": { "kind": "ask", "ask": "ask_1" } }),
            result.clone(),
        ];
        let mut questions = Questions::default();
        for entry in log {
            questions.apply(&SessionId::parse("ses_1").unwrap(), &serde_json::from_value(entry).unwrap());
        }
        let said = said.map(|(words, told)| {
            let answers = (!words.is_empty()).then(|| vec![words.iter().map(|word| (*word).to_owned()).collect()]);
            (ask, Said { answers, told })
        });
        let found = questions.check(&said.into_iter().collect());
        assert_eq!(found.iter().map(|violation| violation.kind).collect::<Vec<_>>(), expected, "{found:?}");
    }

    fn result(state: &str, output: &str, data: &Value) -> Value {
        json!({ "type": "result", "call": "call_1", "state": state, "output": output, "data": data })
    }

    #[test]
    fn an_answer_is_the_result_word_for_word() {
        let (blue, denied) = (result("ok", "", &json!({ "answers": [["blue"]] })), result("denied", "", &json!({})));
        check(Some((&["blue"], true)), &blue, &[]);
        check(Some((&["blue"], false)), &blue, &[]);
        check(Some((&["red"], true)), &blue, &[Kind::Lost]);
        check(Some((&["red"], false)), &blue, &[Kind::Wrong]);
        check(Some((&["blue"], true)), &denied, &[Kind::Lost]);
        check(Some((&[], true)), &denied, &[]);
        check(Some((&[], true)), &blue, &[Kind::Lost]);
        check(None, &blue, &[Kind::Wrong]);
        check(None, &denied, &[Kind::Wrong]);
    }

    #[test]
    fn a_crash_does_not_end_a_question_and_a_stop_does() {
        check(None, &result("interrupted", "the call was stopped", &json!({})), &[]);
        check(Some((&["red"], true)), &result("interrupted", "the call was stopped", &json!({})), &[]);
        check(None, &result("interrupted", CUT_OFF, &json!({})), &[Kind::Lost]);
    }

    #[test]
    fn an_answer_that_was_kept_belongs_to_a_call() {
        let said = HashMap::from([(AskId::parse("ask_2").unwrap(), Said { answers: None, told: true })]);
        assert_eq!(Questions::default().check(&said)[0].kind, Kind::Lost);
    }
}
