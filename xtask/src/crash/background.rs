//! Commands in the background: what their sessions were told of their ends. Folded entry by entry, and what must be true
//! of it once everything has come to rest.
//!
//! Pure, as `ledger` is. That a command has its effect once is the ledger's own check.

use super::ledger::{Kind, Violation};
use proto::entry::{CallResult, Input, Reply};
use proto::letter::InputPart;
use proto::{Entry, JobId, JobNews, Millis, SessionId};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};

/// How a letter begins that tells of an end.
const TOLD: &str = "[notice from the runtime, not from a person] The job `";
/// What it says of a command that did all it should, and of one that was cut off.
const DONE: &str = "ended with exit code 0";
const GONE: &str = "is gone";

#[derive(Debug, Default)]
pub(super) struct Background {
    /// Tokens of calls that have no result yet.
    open: HashMap<String, String>,
    started: BTreeMap<JobId, Started>,
    told: BTreeMap<JobId, Vec<Told>>,
    /// When a session's model last replied.
    replied: HashMap<SessionId, Millis>,
    /// When the gateway was killed with work under way.
    pub(super) kills: Vec<Millis>,
}

/// A command, as the result of its call tells of it.
#[derive(Debug)]
struct Started {
    session: SessionId,
    token: String,
    at: Millis,
    /// It ran until a call stopped it.
    stopped: bool,
}

/// A letter about an end.
#[derive(Debug)]
struct Told {
    session: SessionId,
    at: Millis,
    text: String,
}

impl Started {
    /// A child's commands end with it, and nobody is told before it goes on.
    fn is_childs(&self) -> bool {
        self.token.contains('.')
    }
}

impl Background {
    pub(super) fn apply(&mut self, session: &SessionId, at: Millis, entry: &Entry) {
        match entry {
            Entry::Input(input) => self.heard(session, at, input),
            Entry::Reply(reply) => self.replied(session, at, reply),
            Entry::Result(result) => self.came_back(session, at, result),
            Entry::Started(_)
            | Entry::Waiting(_)
            | Entry::Ended(_)
            | Entry::Compaction(_)
            | Entry::Switch(_)
            | Entry::Notice(_)
            | Entry::ToolsLoaded(_)
            | Entry::Todo(_)
            | Entry::Undo(_) => {}
        }
    }

    fn heard(&mut self, session: &SessionId, at: Millis, input: &Input) {
        for part in &input.parts {
            let InputPart::Text { text } = part else { continue };
            // By what it says, and not by its id: a second letter of another name is a second one all the same.
            let Some((id, _)) = text.strip_prefix(TOLD).and_then(|rest| rest.split_once('`')) else { continue };
            if let Ok(job) = JobId::parse(id) {
                let told = Told { session: session.clone(), at, text: text.clone() };
                self.told.entry(job).or_default().push(told);
            }
        }
    }

    fn replied(&mut self, session: &SessionId, at: Millis, reply: &Reply) {
        self.replied.insert(session.clone(), at);
        for call in reply.calls().filter(|call| call.tool == "bash") {
            let input: Value = serde_json::from_str(call.input.get()).unwrap_or_default();
            let words = input["command"].as_str().unwrap_or_default().split_whitespace();
            if let Some(token) = words.into_iter().find(|word| word.starts_with("token-")) {
                self.open.insert(call.id.to_string(), token.trim_end_matches(';').to_owned());
            }
        }
    }

    fn came_back(&mut self, session: &SessionId, at: Millis, result: &CallResult) {
        let token = self.open.remove(result.call.as_str());
        let Some(JobNews { job, over }) = JobNews::of(result) else { return };
        if !over {
            let (session, token) = (session.clone(), token.unwrap_or_default());
            self.started.insert(job.id, Started { session, token, at, stopped: false });
        } else if let Some(started) = self.started.get_mut(&job.id) {
            let said: Value = serde_json::from_str(&result.output).unwrap_or_default();
            started.stopped |= said["state"] == "stopped";
        }
    }

    /// How many there were, and how many of them a crash or a stop cut off.
    pub(super) fn counts(&self) -> (usize, usize) {
        let gone = |told: &&Told| told.text.contains(GONE);
        (self.started.len(), self.told.values().flatten().filter(gone).count())
    }

    /// `aborted` are sessions that a person stopped: their commands end with that.
    pub(super) fn check(&self, aborted: &HashSet<SessionId>, tokens: &HashMap<String, u32>) -> Vec<Violation> {
        let mut found = Vec::new();
        for (job, started) in &self.started {
            let told = self.told.get(job).map(Vec::as_slice).unwrap_or_default();
            let what = |what: &str| format!("job `{job}` of `{}` (`{}`) {what}", started.session, started.token);
            let mut wrong = |kind, words: &str| found.push(Violation::new(kind, what(words)));
            let left_alone = !started.is_childs() && !aborted.contains(&started.session);
            match told {
                [] if started.stopped => {}
                [] if self.is_due(started, left_alone) => wrong(Kind::Lost, "is over, and its session was not told"),
                [] => {}
                [one] => self.check_letter(started, one, left_alone, tokens, &mut wrong),
                more => wrong(Kind::Doubled, &format!("is over, and that was told {} times", more.len())),
            }
        }
        found
    }

    /// Whether its session must have heard of its end: nothing cut it off, or the session's model was asked since.
    fn is_due(&self, started: &Started, left_alone: bool) -> bool {
        let asked = self.replied.get(&started.session).copied().unwrap_or_default();
        let cut_off = |since: Millis| self.kills.iter().any(|kill| (started.at..since).contains(kill));
        (left_alone && !cut_off(Millis::MAX)) || cut_off(asked)
    }

    fn check_letter(
        &self,
        started: &Started,
        told: &Told,
        left_alone: bool,
        tokens: &HashMap<String, u32>,
        wrong: &mut impl FnMut(Kind, &str),
    ) {
        if told.session != started.session {
            wrong(Kind::Wrong, &format!("is over, which `{}` was told", told.session));
        }
        if started.stopped {
            wrong(Kind::Wrong, "was stopped by a call, and its session was told again");
        }
        let killed = self.kills.iter().any(|kill| (started.at..told.at).contains(kill));
        if told.text.contains(GONE) {
            if left_alone && !killed {
                wrong(Kind::Wrong, "is said to be gone, and nothing ended it");
            }
        } else if !told.text.contains(DONE) {
            wrong(Kind::Wrong, &format!("came to a bad end: {}", told.text));
        } else if !tokens.contains_key(&started.token) {
            wrong(Kind::Lost, "is said to have ended well, and its effect is nowhere");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bash(id: &str, token: &str) -> Value {
        let input = json!({ "command": format!("printf {token}; sleep 1"), "background": true });
        let call = json!({ "type": "call", "id": id, "tool": "bash", "input": input, "decision": "run" });
        json!({ "type": "reply", "step": 1, "parts": [call], "usage": {}, "finish": "tool-calls", "model": "m" })
    }

    fn result(id: &str, state: &str) -> Value {
        let job = json!({ "id": "job_1", "command": "c", "file": "f" });
        let data = if state == "running" { json!({ "job": job }) } else { json!({ "job": job, "over": true }) };
        let output = json!({ "state": state }).to_string();
        json!({ "type": "result", "call": id, "state": "ok", "output": output, "data": data })
    }

    fn told(how: &str) -> Value {
        let text = format!("{TOLD}job_1` (`c`) {how}.");
        json!({
            "type": "input", "letter": "end_job_1", "run": "r", "agent": "a", "model": "m",
            "parts": [{ "type": "text", "text": text }],
        })
    }

    fn text(words: &str) -> Value {
        let part = json!({ "type": "text", "text": words });
        json!({ "type": "reply", "step": 2, "parts": [part], "usage": {}, "finish": "stop", "model": "m" })
    }

    /// One session with one job, whose entries are 10 ms apart from 10 on; the effect is there unless `token` is `none`.
    #[track_caller]
    fn check(token: &str, log: &[Value], kills: &[Millis], expected: &[Kind]) {
        let session = SessionId::parse("ses_1").unwrap();
        let mut background = Background { kills: kills.to_vec(), ..Background::default() };
        let before = [bash("call_1", token), result("call_1", "running")];
        for (entry, at) in before.iter().chain(log).zip((10..).step_by(10)) {
            let entry: Entry = serde_json::from_value(entry.clone()).unwrap_or_else(|error| panic!("{error}: {entry}"));
            background.apply(&session, at, &entry);
        }
        let tokens = HashMap::from([("token-1".to_owned(), 1), ("token-1.child".to_owned(), 1)]);
        let found = background.check(&HashSet::new(), &tokens);
        assert_eq!(found.iter().map(|violation| violation.kind).collect::<Vec<_>>(), expected, "{found:?}");
    }

    #[test]
    fn an_end_is_told_once() {
        let done = told("ended with exit code 0 after 0.1 s");
        check("token-1", std::slice::from_ref(&done), &[], &[]);
        check("token-1", &[], &[], &[Kind::Lost]);
        check("token-1", &[done.clone(), done.clone()], &[], &[Kind::Doubled]);
        check("token-1", &[told("was killed by signal 9 after 0.1 s")], &[], &[Kind::Wrong]);
        check("token-none", &[done], &[], &[Kind::Lost]);
    }

    #[test]
    fn what_a_crash_cut_off_is_told_when_the_session_goes_on() {
        let gone = told("is gone: it was ended with the gateway");
        check("token-1", &[], &[25], &[]);
        check("token-1", &[text("hello")], &[25], &[Kind::Lost]);
        check("token-1", &[text("hello")], &[35], &[]);
        check("token-1", &[gone.clone(), text("hello")], &[25], &[]);
        check("token-1", &[gone.clone(), gone.clone()], &[25], &[Kind::Doubled]);
        check("token-1", &[gone], &[35], &[Kind::Wrong]);
        // A child's end is one of its commands' too.
        check("token-1.child", &[text("hello")], &[], &[]);
        check("token-1.child", &[text("hello")], &[25], &[Kind::Lost]);
    }

    #[test]
    fn what_a_call_stopped_is_not_told() {
        let done = told("ended with exit code 0 after 0.1 s");
        check("token-1", &[result("call_2", "stopped")], &[], &[]);
        check("token-1", &[result("call_2", "stopped"), done.clone()], &[], &[Kind::Wrong]);
        check("token-1", &[result("call_2", "ended")], &[], &[Kind::Lost]);
        check("token-1", &[result("call_2", "ended"), done], &[], &[]);
    }
}
