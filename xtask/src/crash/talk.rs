//! What sessions wrote to each other: mail, plans and their answers, and the question whether one may be shut down.
//! Folded entry by entry, and what must be true of it once everything has come to rest.
//!
//! Pure, as `ledger` is.

use super::ledger::{Kind, Violation};
use proto::entry::{CallResult, Input, On, Reply, State};
use proto::letter::AskReply;
use proto::methods::{MailReceipt, MailState};
use proto::{AskId, Entry, SessionId};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};

#[derive(Debug, Default)]
pub(super) struct Talk {
    /// Calls that have no result yet.
    open: HashMap<String, Said>,
    /// Letters in logs, by their ids.
    read: BTreeMap<String, Read>,
    posted: Vec<Posted>,
    /// What leads answered to plans.
    answers: HashMap<String, bool>,
    /// Plans that were put to somebody, and what became of the calls.
    plans: Vec<(AskId, State)>,
    /// Sessions that agreed to end, and have not yet.
    agreed: HashSet<SessionId>,
    found: Vec<Violation>,
    pub(super) counts: Counts,
}

/// How much of it there was.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) letters: usize,
    pub(super) plans: usize,
    pub(super) agreed: usize,
    pub(super) ended: usize,
}

#[derive(Debug)]
struct Said {
    tool: String,
    input: Value,
    ask: Option<AskId>,
}

/// Where a letter is.
#[derive(Debug)]
struct Read {
    session: SessionId,
    seq: u64,
}

/// A letter that its sender was told is on its way.
#[derive(Debug)]
struct Posted {
    letter: String,
    from: SessionId,
    /// Where the sender's log says so.
    seq: u64,
    to: SessionId,
}

impl Talk {
    pub(super) fn apply(&mut self, session: &SessionId, seq: u64, entry: &Entry) {
        match entry {
            Entry::Input(input) => self.heard(session, seq, input),
            Entry::Reply(reply) => self.replied(session, reply),
            Entry::Waiting(waiting) => {
                if let (Some(said), On::Ask { ask }) = (self.open.get_mut(waiting.call.as_str()), &waiting.on) {
                    said.ask = Some(ask.clone());
                }
            }
            Entry::Result(result) => self.came_back(session, seq, result),
            Entry::Notice(notice) => {
                self.counts.ended += usize::from(notice.text.contains("asked to end and did not answer"));
            }
            Entry::Ended(_) => {
                self.agreed.remove(session);
            }
            Entry::Started(_)
            | Entry::Compaction(_)
            | Entry::Switch(_)
            | Entry::ToolsLoaded(_)
            | Entry::Todo(_)
            | Entry::Undo(_) => {}
        }
    }

    fn heard(&mut self, session: &SessionId, seq: u64, input: &Input) {
        let by_tool = |from: &proto::letter::Provenance| {
            from.source_tool.as_deref() == Some("send_message") && from.source_session_id.is_some()
        };
        if input.provenance.as_ref().is_some_and(by_tool) {
            // That it is there once is the ledger's to say.
            self.read.insert(input.letter.to_string(), Read { session: session.clone(), seq });
        }
    }

    fn replied(&mut self, session: &SessionId, reply: &Reply) {
        if self.agreed.contains(session) {
            let what = format!("`{session}` agreed to end, and its model was asked again");
            self.found.push(Violation::new(Kind::Wrong, what));
        }
        for call in reply.calls().filter(|call| matches!(call.tool.as_str(), "send_message" | "plan_exit")) {
            let input = serde_json::from_str(call.input.get()).unwrap_or_default();
            self.open.insert(call.id.to_string(), Said { tool: call.tool.clone(), input, ask: None });
        }
    }

    fn came_back(&mut self, session: &SessionId, seq: u64, result: &CallResult) {
        let Some(said) = self.open.remove(result.call.as_str()) else { return };
        if said.tool == "plan_exit" {
            self.plans.extend(said.ask.map(|ask| (ask, result.state)));
            return;
        }
        if result.state != State::Ok {
            return;
        }
        if result.shutdown == Some(true) {
            self.agreed.insert(session.clone());
            self.counts.agreed += 1;
        }
        let message = &said.input["message"];
        if let (Some("plan_approval_response"), Some(request)) =
            (message["type"].as_str(), message["request_id"].as_str())
        {
            // It is no letter in a log: it shows in what becomes of the plan.
            self.answers.insert(request.to_owned(), message["approve"] == true);
            return;
        }
        let output: Value = serde_json::from_str(&result.output).unwrap_or_default();
        let receipts: Vec<MailReceipt> = serde_json::from_value(output["receipts"].clone()).unwrap_or_default();
        for receipt in receipts.into_iter().filter(|receipt| receipt.state == MailState::Queued) {
            let (Some(letter), Some(to)) = (receipt.message_id, receipt.session_id) else { continue };
            // One whose turn is done is shut down by a control letter, which is in no log.
            if letter.starts_with("stop_") {
                continue;
            }
            self.posted.push(Posted { letter, from: session.clone(), seq, to });
        }
    }

    /// `decided` is what a person answered, and was told that it counts.
    pub(super) fn check(&mut self, decided: &HashMap<AskId, AskReply>) -> Vec<Violation> {
        let mut found = self.found.clone();
        self.check_letters(&mut found);
        self.check_order(&mut found);
        self.check_plans(decided, &mut found);
        (self.counts.letters, self.counts.plans) = (self.posted.len(), self.plans.len());
        found
    }

    /// What a receipt speaks of is in the log of whom it names, and nothing is in a log that no receipt speaks of.
    fn check_letters(&self, found: &mut Vec<Violation>) {
        let mut known = HashSet::new();
        for Posted { letter, from, to, .. } in &self.posted {
            known.insert(letter);
            match self.read.get(letter) {
                None => found.push(Violation::new(Kind::Lost, format!("letter `{letter}` from `{from}` to `{to}`"))),
                Some(read) if &read.session != to => {
                    let what = format!("letter `{letter}` to `{to}` is in the log of `{}`", read.session);
                    found.push(Violation::new(Kind::Wrong, what));
                }
                Some(_) => {}
            }
        }
        for (letter, read) in self.read.iter().filter(|(letter, _)| !known.contains(letter)) {
            let what =
                format!("letter `{letter}` to `{}`, though the call that wrote it did not succeed", read.session);
            found.push(Violation::new(Kind::Wrong, what));
        }
    }

    /// Whoever gets several letters of one sender reads them as they were written.
    fn check_order(&self, found: &mut Vec<Violation>) {
        let mut last: HashMap<(&SessionId, &SessionId), (u64, &str)> = HashMap::new();
        let mut posted: Vec<&Posted> = self.posted.iter().collect();
        posted.sort_by_key(|posted| posted.seq);
        for Posted { letter, from, to, .. } in posted {
            let Some(read) = self.read.get(letter) else { continue };
            if let Some((before, earlier)) = last.insert((from, to), (read.seq, letter))
                && before > read.seq
            {
                let what = format!("`{to}` read `{letter}` of `{from}` before `{earlier}`, which was written first");
                found.push(Violation::new(Kind::Wrong, what));
            }
        }
    }

    /// An answer decides, whoever gave it. When two did, nobody knows which came first.
    fn check_plans(&self, decided: &HashMap<AskId, AskReply>, found: &mut Vec<Violation>) {
        for (ask, state) in &self.plans {
            let person = decided.get(ask).map(|reply| *reply != AskReply::Reject);
            let answers = [self.answers.get(ask.as_str()).copied(), person];
            let fits = |approve: bool| match state {
                State::Interrupted => true,
                State::Denied => !approve,
                State::Ok | State::Error => approve && *state == State::Ok,
            };
            let given: Vec<bool> = answers.into_iter().flatten().collect();
            if given.is_empty() && !matches!(state, State::Interrupted) {
                found.push(Violation::new(Kind::Wrong, format!("plan `{ask}` is {state:?}, and nobody answered it")));
            } else if !given.is_empty() && !given.iter().any(|approve| fits(*approve)) {
                let what = format!("the answer to plan `{ask}`, {given:?}: it is {state:?}");
                found.push(Violation::new(Kind::Lost, what));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A conversation of `ses_a` (the sender) and `ses_b`, as pairs of who and what.
    #[track_caller]
    fn check(log: &[(&str, Value)], expected: &[Kind]) {
        let mut talk = Talk::default();
        for ((who, entry), seq) in log.iter().zip(1..) {
            let entry: Entry = serde_json::from_value(entry.clone()).unwrap_or_else(|error| panic!("{error}: {entry}"));
            talk.apply(&SessionId::parse(&format!("ses_{who}")).unwrap(), seq, &entry);
        }
        let found = talk.check(&HashMap::new());
        assert_eq!(found.iter().map(|violation| violation.kind).collect::<Vec<_>>(), expected, "{found:?}");
    }

    fn says(id: &str, tool: &str, message: Value) -> Value {
        let input = json!({ "to": "b", "message": message });
        let call = json!({ "type": "call", "id": id, "tool": tool, "input": input, "decision": "run" });
        json!({ "type": "reply", "step": 1, "parts": [call], "usage": {}, "finish": "tool-calls", "model": "m" })
    }

    fn sent(id: &str, state: &str) -> Value {
        let receipt = json!({ "to": "b", "sessionId": "ses_b", "messageId": format!("mail_{id}"), "state": "queued" });
        let output = json!({ "receipts": [receipt] }).to_string();
        json!({ "type": "result", "call": id, "state": state, "output": output })
    }

    fn read(letter: &str) -> Value {
        let from = json!({ "kind": "inter_session", "sourceTool": "send_message", "sourceSessionId": "ses_a" });
        json!({
            "type": "input", "letter": letter, "run": letter, "parts": [], "agent": "a", "model": "m", "provenance": from,
        })
    }

    #[test]
    fn a_letter_with_a_receipt_is_read_and_one_without_is_not() {
        let (says, ok) = (says("call_1", "send_message", json!("hello")), sent("call_1", "ok"));
        check(&[("a", says.clone()), ("a", ok.clone()), ("b", read("mail_call_1"))], &[]);
        check(&[("a", says.clone()), ("a", ok.clone())], &[Kind::Lost]);
        check(&[("a", says.clone()), ("a", ok), ("c", read("mail_call_1"))], &[Kind::Wrong]);
        let cut_off = sent("call_1", "interrupted");
        check(&[("a", says.clone()), ("a", cut_off.clone())], &[]);
        check(&[("a", says), ("a", cut_off), ("b", read("mail_call_1"))], &[Kind::Wrong]);
    }

    #[test]
    fn letters_are_read_in_the_order_they_were_written() {
        let say = |id: &str| [("a", says(id, "send_message", json!("hello"))), ("a", sent(id, "ok"))];
        let written = [say("call_1"), say("call_2")].concat();
        let (one, two) = (("b", read("mail_call_1")), ("b", read("mail_call_2")));
        check(&[&written[..], &[one.clone(), two.clone()]].concat(), &[]);
        check(&[&written[..], &[two, one]].concat(), &[Kind::Wrong]);
    }

    #[test]
    fn the_answer_to_a_plan_decides() {
        let put = [
            ("b", says("call_1", "plan_exit", json!(""))),
            ("b", json!({ "type": "waiting", "call": "call_1", "on": { "kind": "ask", "ask": "ask_1" } })),
        ];
        let answer = |approve: bool| {
            let message = json!({ "type": "plan_approval_response", "request_id": "ask_1", "approve": approve });
            [("a", says("call_2", "send_message", message)), ("a", sent("call_2", "ok"))]
        };
        let became = |state: &str| [("b", json!({ "type": "result", "call": "call_1", "state": state, "output": "" }))];
        check(&[&put[..], &answer(true), &became("ok")].concat(), &[]);
        check(&[&put[..], &answer(false), &became("denied")].concat(), &[]);
        check(&[&put[..], &answer(false), &became("ok")].concat(), &[Kind::Lost]);
        check(&[&put[..], &answer(true), &became("denied")].concat(), &[Kind::Lost]);
        check(&[&put[..], &answer(true), &became("interrupted")].concat(), &[]);
        check(&[&put[..], &became("ok")].concat(), &[Kind::Wrong]);
    }

    #[test]
    fn whoever_agreed_to_end_is_not_asked_again() {
        let agrees = json!({ "type": "shutdown_response", "request_id": "r", "approve": true });
        let mut agreed = json!({ "type": "result", "call": "call_1", "state": "ok", "output": "{}" });
        agreed["shutdown"] = json!(true);
        let before = [("a", says("call_1", "send_message", agrees)), ("a", agreed)];
        let (more, ended) =
            (("a", says("call_2", "read", json!(""))), ("a", json!({ "type": "ended", "run": "r", "outcome": "ok" })));
        check(&[&before[..], &[ended, more.clone()]].concat(), &[]);
        check(&[&before[..], &[more]].concat(), &[Kind::Wrong]);
    }
}
