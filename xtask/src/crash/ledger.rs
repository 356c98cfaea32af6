//! What the store kept, folded entry by entry, and what must be true of it once everything has come to rest.
//!
//! Pure: entries and promises in, violations out. Reading the store is left to `verify`.

use super::oversight::Change;
use super::questions::Said;
use super::regret::Regret;
use super::team::Teams;
use proto::entry::{CallResult, Ended, Input, On, Reply, State, Waiting};
use proto::letter::{AskReply, Conversation, Leg};
use proto::{AskId, CallId, Code, Entry, LetterId, Millis, Outcome, RunId, SessionId};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

/// Crashes in one step after which its calls are not made again.
const ATTEMPTS: usize = 3;
/// How a call is told that a crash cut it off.
pub(super) const CUT_OFF: &str = "the gateway stopped while this call ran";

/// What is said of a worktree that is there in part.
pub(super) const HALF_GONE: &str = "lost its file";

/// Something that must not happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) kind: Kind,
    what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Lost,
    Doubled,
    Stuck,
    /// Kept, but not as it should be.
    Wrong,
}

impl Violation {
    pub(super) fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Lost => "lost",
            Kind::Doubled => "doubled",
            Kind::Stuck => "stuck",
            Kind::Wrong => "wrong",
        };
        write!(f, "{kind}: {}", self.what)
    }
}

/// What the gateway has acknowledged, and so must have kept.
#[derive(Debug, Clone, Default)]
pub(super) struct Promises {
    pub(super) prompts: Vec<(RunId, SessionId)>,
    pub(super) answers: HashMap<AskId, AskReply>,
    /// What a person said to questions, acknowledged or not.
    pub(super) said: HashMap<AskId, Said>,
    /// Runs of children, and the session that is to hear of their end.
    pub(super) hired: Vec<(RunId, SessionId)>,
    /// Tasks that a person asked for, by a session of their tree.
    pub(super) titles: Vec<(SessionId, String)>,
    /// Changes of boards that a person was told of.
    pub(super) changes: Vec<Change>,
    /// Letters from elsewhere that are held.
    pub(super) held: Vec<LetterId>,
    /// Those that a person let in, or did not.
    pub(super) decided: HashMap<LetterId, bool>,
    /// Sessions that a person stopped, or wanted to.
    pub(super) aborted: HashSet<SessionId>,
    /// What a person took back, by the folders it was in.
    pub(super) regrets: HashMap<String, Regret>,
    pub(super) teams: Teams,
}

/// The logs of all sessions.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    seqs: HashMap<SessionId, u64>,
    taken: BTreeMap<String, Taken>,
    ends: BTreeMap<String, Vec<(SessionId, Ended)>>,
    calls: BTreeMap<String, Made>,
    found: Vec<Violation>,
    /// When the gateway was killed.
    pub(super) kills: Vec<Millis>,
    /// Runs that ended since the last look.
    pub(super) fresh: Vec<(RunId, Outcome)>,
}

/// A letter in a log.
#[derive(Debug)]
struct Taken {
    session: SessionId,
    run: RunId,
    times: u32,
    conversation: Option<Conversation>,
}

/// A call in a log.
#[derive(Debug)]
struct Made {
    session: SessionId,
    tool: String,
    input: Value,
    ask: Option<AskId>,
    waits_for: Option<RunId>,
    started: bool,
    /// When it was made, and when it came to its end.
    lasted: (Millis, Millis),
    results: Vec<CallResult>,
}

/// How a session is told of the end of a run that one of its calls began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Always, once.
    Once,
    /// Once, unless the call that waits for it was stopped.
    WhileWaiting,
}

impl Ledger {
    pub(super) fn apply(&mut self, session: &SessionId, seq: u64, at: Millis, entry: Entry) {
        let last = self.seqs.entry(session.clone()).or_default();
        if seq != *last + 1 {
            let what = format!("entry {seq} of `{session}` follows {last}");
            self.found.push(Violation::new(Kind::Wrong, what));
        }
        *last = seq;
        match entry {
            Entry::Input(input) => self.took(session, input),
            Entry::Reply(reply) => self.replied(session, at, &reply),
            Entry::Started(started) => self.with(&started.call, |made| made.started = true),
            Entry::Waiting(waiting) => self.waits(waiting),
            Entry::Result(result) => self.with(&result.call.clone(), |made| {
                made.lasted.1 = at;
                made.results.push(result);
            }),
            Entry::Ended(ended) => {
                self.fresh.push((ended.run.clone(), ended.outcome));
                self.ends.entry(ended.run.to_string()).or_default().push((session.clone(), ended));
            }
            Entry::Compaction(_)
            | Entry::Switch(_)
            | Entry::Notice(_)
            | Entry::ToolsLoaded(_)
            | Entry::Todo(_)
            | Entry::Undo(_) => {}
        }
    }

    fn took(&mut self, session: &SessionId, input: Input) {
        let taken = Taken { session: session.clone(), run: input.run, times: 0, conversation: input.conversation };
        self.taken.entry(input.letter.to_string()).or_insert(taken).times += 1;
    }

    fn replied(&mut self, session: &SessionId, at: Millis, reply: &Reply) {
        for call in reply.calls() {
            let made = Made {
                session: session.clone(),
                tool: call.tool.clone(),
                input: serde_json::from_str(call.input.get()).unwrap_or_default(),
                ask: None,
                waits_for: None,
                started: false,
                lasted: (at, at),
                results: Vec::new(),
            };
            if self.calls.insert(call.id.to_string(), made).is_some() {
                self.found.push(Violation::new(Kind::Doubled, format!("call `{}` was made twice", call.id)));
            }
        }
    }

    fn waits(&mut self, waiting: Waiting) {
        self.with(&waiting.call, |made| match waiting.on {
            On::Ask { ask } => made.ask = Some(ask),
            On::Run { run, .. } => made.waits_for = Some(run),
            On::Letter { .. } | On::Timer => {}
        });
    }

    fn with(&mut self, call: &CallId, change: impl FnOnce(&mut Made)) {
        match self.calls.get_mut(call.as_str()) {
            Some(made) => change(made),
            None => {
                self.found.push(Violation::new(Kind::Wrong, format!("call `{call}` is spoken of before it was made")));
            }
        }
    }

    /// How many prompts, runs and calls there are.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        (self.taken.len(), self.ends.len(), self.calls.len())
    }

    /// Runs that were given up because of too many restarts in one step.
    pub(super) fn given_up(&self) -> usize {
        self.ends.values().flatten().filter(|(_, ended)| ended.code == Some(Code::Interrupted)).count()
    }

    /// Calls that enter or leave a worktree, and how many of them a crash cut off.
    pub(super) fn moves(&self) -> (usize, usize) {
        let moves = self.calls.values().filter(|made| made.tool.ends_with("_worktree"));
        let cut_off = |made: &&Made| made.results.iter().any(|result| result.output.contains(CUT_OFF));
        (moves.clone().count(), moves.filter(cut_off).count())
    }

    /// The run of this name was answered by `run`, as the log tells it.
    pub(super) fn answered_by(&self, letter: &RunId) -> Option<&RunId> {
        self.taken.get(letter.as_str()).map(|taken| &taken.run)
    }

    /// Changes of boards that calls were told of.
    pub(super) fn board_changes(&self) -> impl Iterator<Item = Change> {
        self.calls.values().filter_map(Made::changed)
    }

    /// Titles of tasks that calls asked for, with who did.
    pub(super) fn board_titles(&self) -> impl Iterator<Item = (&SessionId, &str)> {
        let adds = self.calls.values().filter(|made| made.tool == "board_add");
        adds.filter_map(|made| Some((&made.session, made.input["title"].as_str()?)))
    }

    /// Files that calls were told are written, with what they hold.
    pub(super) fn written(&self) -> impl Iterator<Item = (&str, &str)> {
        let done = |made: &&Made| made.tool == "write" && made.results.iter().any(|result| result.state == State::Ok);
        let written = self.calls.values().filter(done);
        written.filter_map(|made| Some((made.input["filePath"].as_str()?, made.input["content"].as_str()?)))
    }

    /// Everything that is not as it must be when nothing is under way.
    pub(super) fn check(&self, promises: &Promises, tokens: &HashMap<String, u32>) -> Vec<Violation> {
        let mut found = self.found.clone();
        self.check_prompts(promises, &mut found);
        self.check_runs(&mut found);
        for (id, made) in &self.calls {
            self.check_call(id, made, &mut found);
            self.check_answer(id, made, promises, &mut found);
            self.check_told(id, made, &mut found);
            self.check_again(id, made, &mut found);
        }
        self.check_tokens(tokens, &mut found);
        self.check_conversations(&mut found);
        found
    }

    /// A leg that came to a good end is followed by the next one, until the announcement.
    fn check_conversations(&self, found: &mut Vec<Violation>) {
        for taken in self.taken.values() {
            let Some(leg) = taken.conversation.as_ref().filter(|leg| leg.leg != Leg::Announce) else { continue };
            let ended_well = |(_, ended): &(SessionId, Ended)| ended.outcome == Outcome::Ok;
            if !self.ends.get(taken.run.as_str()).is_some_and(|ends| ends.iter().any(ended_well)) {
                continue;
            }
            let next = if leg.turn < leg.max { (leg.turn + 1).to_string() } else { format!("a{}", leg.turn) };
            let letter = format!("talk_{}_{next}", leg.id);
            if !self.taken.contains_key(&letter) {
                let what = format!("`{letter}`, which follows `{}` of `{}`", taken.run, taken.session);
                found.push(Violation::new(Kind::Lost, what));
            }
        }
    }

    fn check_prompts(&self, promises: &Promises, found: &mut Vec<Violation>) {
        for (run, session) in &promises.prompts {
            match self.taken.get(run.as_str()) {
                None => found.push(Violation::new(Kind::Lost, format!("prompt `{run}` to `{session}`"))),
                Some(taken) if &taken.session != session => {
                    let what = format!("prompt `{run}` to `{session}` is in the log of `{}`", taken.session);
                    found.push(Violation::new(Kind::Wrong, what));
                }
                Some(_) => {}
            }
        }
        for (run, parent) in &promises.hired {
            let told = self.taken.get(LetterId::derived("end_", run.as_str()).as_str());
            if told.is_none_or(|told| &told.session != parent) {
                found.push(Violation::new(Kind::Lost, format!("the end of `{run}`, of which `{parent}` is to hear")));
            }
        }
        for (letter, taken) in self.taken.iter().filter(|(_, taken)| taken.times > 1) {
            let what = format!("letter `{letter}` is {} times in the log of `{}`", taken.times, taken.session);
            found.push(Violation::new(Kind::Doubled, what));
        }
    }

    fn check_runs(&self, found: &mut Vec<Violation>) {
        for (letter, taken) in &self.taken {
            let ends = self.ends.get(taken.run.as_str()).map_or(0, Vec::len);
            if ends == 0 {
                let what = format!("run `{}` of `{}` (letter `{letter}`) has no end", taken.run, taken.session);
                found.push(Violation::new(Kind::Stuck, what));
            }
        }
        for (run, ends) in &self.ends {
            let (session, ended) = &ends[0];
            if ends.len() > 1 {
                let what = format!("run `{run}` of `{session}` ended {} times", ends.len());
                found.push(Violation::new(Kind::Doubled, what));
            }
            if self.taken.get(run).is_none_or(|taken| &taken.session != session || taken.run.as_str() != run) {
                found.push(Violation::new(Kind::Wrong, format!("run `{run}` of `{session}` ended and never began")));
            }
            if ended.outcome == Outcome::Error && ended.code != Some(Code::Interrupted) {
                let why = ended.message.as_deref().unwrap_or_default();
                found.push(Violation::new(Kind::Wrong, format!("run `{run}` of `{session}` failed: {why}")));
            }
        }
    }

    fn check_call(&self, id: &str, made: &Made, found: &mut Vec<Violation>) {
        let (tool, session) = (&made.tool, &made.session);
        match made.results.len() {
            0 => found.push(Violation::new(Kind::Stuck, format!("call `{id}` of `{session}` ({tool}) has no result"))),
            1 => {}
            n => found
                .push(Violation::new(Kind::Doubled, format!("call `{id}` of `{session}` ({tool}) has {n} results"))),
        }
        if let Some(why) = made.trouble().filter(|_| !self.may_not_yet(made) && !self.does_not_fit(made)) {
            found.push(Violation::new(Kind::Wrong, format!("call `{id}` of `{session}` ({tool}): {why}")));
        }
        let told_of = made.waits_for.as_ref().map(RunId::to_string).or_else(|| made.promised_run());
        if let Some(run) = told_of.filter(|run| !self.taken.contains_key(run)) {
            let what = format!("run `{run}`, which call `{id}` of `{session}` ({tool}) was told of, does not exist");
            found.push(Violation::new(Kind::Lost, what));
        }
    }

    /// Whoever plans, and has no plan approved, changes nothing.
    fn may_not_yet(&self, made: &Made) -> bool {
        let mut plans =
            self.calls.values().filter(|of| of.session == made.session && of.tool == "plan_exit").peekable();
        let denied = made.tool == "write" && made.results.iter().all(|result| result.state == State::Denied);
        denied && plans.peek().is_some() && plans.all(|plan| plan.results.iter().all(|one| one.state != State::Ok))
    }

    /// A patch of files that an earlier one was to make, which crashes cut off or did not let come to it.
    fn does_not_fit(&self, made: &Made) -> bool {
        let cut_off = |of: &Made| of.results.iter().any(|result| result.state == State::Interrupted);
        let mut patches = self.calls.values().filter(|of| of.session == made.session && of.tool == "apply_patch");
        let given_up =
            |(session, ended): &(SessionId, Ended)| *session == made.session && ended.code == Some(Code::Interrupted);
        made.tool == "apply_patch" && (patches.any(cut_off) || self.ends.values().flatten().any(given_up))
    }

    /// A person's answer decides, unless the call was stopped first.
    fn check_answer(&self, id: &str, made: &Made, promises: &Promises, found: &mut Vec<Violation>) {
        let Some(reply) = made.ask.as_ref().and_then(|ask| promises.answers.get(ask)) else { return };
        let Some(result) = made.results.first() else { return };
        let kept = match (reply, result.state) {
            (_, State::Interrupted) => true,
            (AskReply::Reject, state) => state == State::Denied,
            (AskReply::Once | AskReply::Always, state) => made.started && state != State::Denied,
        };
        if !kept {
            let what = format!("the answer {reply:?} to call `{id}` of `{}`: it is {:?}", made.session, result.state);
            found.push(Violation::new(Kind::Lost, what));
        }
    }

    /// The end of what a call began reaches its session once: as its result, or as a letter.
    fn check_told(&self, id: &str, made: &Made, found: &mut Vec<Violation>) {
        let Ok(call) = CallId::parse(id) else { return };
        let run = LetterId::derived("run_", id);
        let Some(told) = made.told().filter(|_| self.taken.contains_key(run.as_str())) else { return };
        let letters = [LetterId::derived("late_", call.as_str()), LetterId::derived("end_", run.as_str())];
        let heard = letters.iter().filter_map(|letter| self.taken.get(letter.as_str()));
        let elsewhere = heard.clone().any(|taken| taken.session != made.session);
        let times = heard.map(|taken| taken.times).sum::<u32>() + u32::from(made.settled());
        let what = || format!("the end of `{run}`, begun by call `{id}` of `{}` ({})", made.session, made.tool);
        match (times, told) {
            (0, Told::WhileWaiting) if made.results.iter().all(|result| result.state == State::Interrupted) => {}
            (0, _) => found.push(Violation::new(Kind::Lost, what())),
            (1, _) if elsewhere => {
                found.push(Violation::new(Kind::Wrong, format!("{} was told somebody else", what())));
            }
            (1, _) => {}
            (times, _) => found.push(Violation::new(Kind::Doubled, format!("{}, told {times} times", what()))),
        }
    }

    /// What does no harm is done again after a crash, unless it may be what takes the gateway down.
    fn check_again(&self, id: &str, made: &Made, found: &mut Vec<Violation>) {
        let cut_off = |result: &CallResult| result.state == State::Interrupted && result.output.contains(CUT_OFF);
        let again = tools::find(&made.tool).is_some_and(|tool| tool.spec().again);
        if !again || !made.results.iter().any(cut_off) {
            return;
        }
        let crashes = self.kills.iter().filter(|at| (made.lasted.0..=made.lasted.1).contains(*at)).count();
        if crashes <= ATTEMPTS {
            let what =
                format!("call `{id}` of `{}` ({}) was not made again after {crashes} crashes", made.session, made.tool);
            found.push(Violation::new(Kind::Lost, what));
        }
    }

    /// Effects: never without a stored call, never twice, and once when the call came to a good end.
    fn check_tokens(&self, tokens: &HashMap<String, u32>, found: &mut Vec<Violation>) {
        let mut known: HashMap<String, &Made> = HashMap::new();
        for (id, made) in &self.calls {
            let Some(token) = made.token() else { continue };
            if let Some(other) = known.insert(token.clone(), made) {
                let what = format!("`{token}` was asked for by calls of `{}` and `{}`", other.session, made.session);
                found.push(Violation::new(Kind::Doubled, what));
            }
            let (times, done) = (tokens.get(&token).copied().unwrap_or(0), made.exited_well());
            match times {
                0 if done => {
                    found
                        .push(Violation::new(Kind::Lost, format!("the effect of call `{id}`, which is ok: `{token}`")));
                }
                0 | 1 => {}
                n => found
                    .push(Violation::new(Kind::Doubled, format!("the effect of call `{id}`: `{token}`, {n} times"))),
            }
        }
        for token in tokens.keys().filter(|token| !known.contains_key(*token)) {
            found.push(Violation::new(Kind::Wrong, format!("`{token}` is the effect of a call that was never stored")));
        }
    }
}

impl Made {
    /// Whether somebody is told of the end of the run that this call began.
    fn told(&self) -> Option<Told> {
        match self.tool.as_str() {
            "task" => Some(Told::WhileWaiting),
            "agent" if self.input["run_in_background"] == Value::Bool(false) => Some(Told::WhileWaiting),
            "sessions_spawn" if self.input["background"] == Value::Bool(false) => Some(Told::WhileWaiting),
            // What is talked over comes back as a turn of the conversation.
            "sessions_send" if self.input["delivery"] == "announce" => None,
            "agent" | "sessions_spawn" | "sessions_send" => Some(Told::Once),
            _ => None,
        }
    }

    /// The result is the end of the run, and not a refusal, a stop, or the end of patience.
    fn settled(&self) -> bool {
        let Some(result) = self.results.first() else { return false };
        let ended = matches!(result.state, State::Ok | State::Error);
        let output = self.output();
        ended
            && match self.tool.as_str() {
                "task" | "agent" => self.waits_for.is_some(),
                "sessions_spawn" => output.get("outcome").is_some(),
                _ => output["delivery"]["status"] == "done",
            }
    }

    /// The run that the result speaks of, if it is a good one.
    fn promised_run(&self) -> Option<String> {
        let result = self.results.first()?;
        let good =
            result.state == State::Ok && matches!(self.tool.as_str(), "agent" | "sessions_spawn" | "sessions_send");
        good.then(|| self.output()["runId"].as_str().map(str::to_owned)).flatten()
    }

    /// Why the call did not do what it always does: nothing in a crash makes it fail otherwise.
    fn trouble(&self) -> Option<&str> {
        let result = self.results.first()?;
        let expected = match (result.state, self.tool.as_str()) {
            (State::Interrupted, _) => true,
            // A person approved its first plan: whoever does not plan has none to put to anybody.
            (State::Denied, "plan_exit") => true,
            (State::Denied, _) => self.ask.is_some(),
            (State::Ok, "bash") => self.exited_well() || self.input["background"] == true,
            (State::Ok, "exit_worktree") => self.input["discard_changes"] == true || !self.discarded(),
            (State::Ok, _) => true,
            // Somebody was faster, or there is nothing to take.
            (State::Error, "board_claim" | "board_update") => {
                matches!(self.output()["code"].as_str(), Some("not_found" | "conflict" | "denied"))
            }
            // What was to be stopped went with the gateway.
            (State::Error, "jobs") => self.output()["code"] == "not_found",
            // Whoever is written to has ended or never began, or somebody else answered first; a worktree holds work.
            (State::Error, "send_message" | "enter_worktree" | "exit_worktree") => {
                let half_gone = result.output.contains(HALF_GONE);
                !half_gone && matches!(self.output()["code"].as_str(), Some("not_found" | "conflict"))
            }
            // A child or a peer that was stopped or given up is told as an error.
            (State::Error, _) => self.settled(),
        };
        (!expected).then_some(result.output.as_str())
    }

    /// A worktree was removed with work in it.
    fn discarded(&self) -> bool {
        let output = self.output();
        ["discardedFiles", "discardedCommits"].iter().any(|count| output[count].as_u64().is_some_and(|count| count > 0))
    }

    /// The change of a board that a good result speaks of.
    fn changed(&self) -> Option<Change> {
        let changes = matches!(self.tool.as_str(), "board_add" | "board_claim" | "board_update");
        let result = self.results.first().filter(|result| changes && result.state == State::Ok)?;
        let task: Value = serde_json::from_str(&result.output).ok()?;
        let (number, version) = (task["number"].as_u64()?, task["version"].as_u64()?);
        Some(Change { session: self.session.clone(), number, version })
    }

    fn output(&self) -> Value {
        self.results.first().and_then(|result| serde_json::from_str(&result.output).ok()).unwrap_or_default()
    }

    fn token(&self) -> Option<String> {
        let command = self.input["command"].as_str().filter(|_| self.tool == "bash")?;
        let word = command.split_whitespace().find(|word| word.starts_with("token-"))?;
        Some(word.trim_end_matches(';').to_owned())
    }

    fn exited_well(&self) -> bool {
        self.results.iter().any(|result| result.state == State::Ok && result.output.ends_with("(exit code 0)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const INPUT: &str = r#"{"type":"input","letter":"p1","run":"p1","parts":[],"agent":"build","model":"m"}"#;
    const ENDED: &str = r#"{"type":"ended","run":"p1","outcome":"ok"}"#;

    fn call(id: &str, tool: &str, input: &Value) -> String {
        let call = json!({ "type": "call", "id": id, "tool": tool, "input": input, "decision": "run" });
        json!({ "type": "reply", "step": 1, "parts": [call], "usage": {}, "finish": "tool-calls", "model": "m" })
            .to_string()
    }

    fn result(id: &str, state: &str, output: &str) -> String {
        json!({ "type": "result", "call": id, "state": state, "output": output }).to_string()
    }

    fn input(letter: &str, run: &str) -> String {
        INPUT.replace("\"letter\":\"p1\",\"run\":\"p1\"", &format!("\"letter\":\"{letter}\",\"run\":\"{run}\""))
    }

    /// The kinds of what is wrong with one session's log, when prompt `p1` was acknowledged.
    #[track_caller]
    fn check(log: &[&str], tokens: &[(&str, u32)], expected: &[Kind]) {
        let session = SessionId::parse("ses_1").unwrap();
        let mut ledger = Ledger::default();
        for (entry, seq) in log.iter().zip(1..) {
            ledger.apply(&session, seq, 10 * seq as Millis, serde_json::from_str(entry).unwrap());
        }
        let promises = Promises { prompts: vec![(RunId::parse("p1").unwrap(), session)], ..Promises::default() };
        let tokens = tokens.iter().map(|(token, times)| ((*token).to_owned(), *times)).collect();
        let found = ledger.check(&promises, &tokens);
        assert_eq!(found.iter().map(|violation| violation.kind).collect::<Vec<_>>(), expected, "{found:?}");
    }

    #[test]
    fn a_prompt_is_kept_once_and_its_run_ends_once() {
        check(&[INPUT, ENDED], &[], &[]);
        check(&[], &[], &[Kind::Lost]);
        check(&[INPUT, INPUT, ENDED], &[], &[Kind::Doubled]);
        check(&[INPUT], &[], &[Kind::Stuck]);
        check(&[INPUT, ENDED, ENDED], &[], &[Kind::Doubled]);
        check(&[INPUT, ENDED, &ENDED.replace("p1", "p2")], &[], &[Kind::Wrong]);
    }

    #[test]
    fn a_call_has_one_result() {
        let made = call("call_1", "read", &json!({}));
        let done = result("call_1", "ok", "");
        check(&[INPUT, &made, &done, ENDED], &[], &[]);
        check(&[INPUT, &made, ENDED], &[], &[Kind::Stuck]);
        check(&[INPUT, &made, &done, &done, ENDED], &[], &[Kind::Doubled]);
        check(&[INPUT, &done, ENDED], &[], &[Kind::Wrong]);
        check(&[INPUT, &made, &result("call_1", "error", "no"), ENDED], &[], &[Kind::Wrong]);
    }

    #[test]
    fn an_effect_has_an_intent_and_happens_once() {
        let made = call("call_1", "bash", &json!({ "command": "printf token-a-0 >> f; sleep 1" }));
        let made = made.replace("printf token-a-0", "printf '%s' token-a-0");
        let done = result("call_1", "ok", "(exit code 0)");
        let cut_off = result("call_1", "interrupted", "");
        check(&[INPUT, &made, &done, ENDED], &[("token-a-0", 1)], &[]);
        check(&[INPUT, &made, &done, ENDED], &[], &[Kind::Lost]);
        check(&[INPUT, &made, &done, ENDED], &[("token-a-0", 2)], &[Kind::Doubled]);
        check(&[INPUT, &made, &cut_off, ENDED], &[("token-a-0", 1)], &[]);
        check(&[INPUT, &made, &cut_off, ENDED], &[], &[]);
        check(&[INPUT, ENDED], &[("token-a-0", 1)], &[Kind::Wrong]);
    }

    #[test]
    fn the_end_of_a_background_child_is_told_once() {
        let made = call("call_1", "sessions_spawn", &json!({ "background": true }));
        let done = result("call_1", "ok", r#"{"runId":"run_call_1"}"#);
        let child = input("run_call_1", "run_call_1");
        let child_ended = ENDED.replace("p1", "run_call_1");
        let told = input("end_run_call_1", "p1");
        let before = [INPUT, &made, &done, &child, &child_ended];
        check(&[&before[..], &[&told, ENDED]].concat(), &[], &[]);
        check(&[&before[..], &[ENDED]].concat(), &[], &[Kind::Lost]);
        check(&[&before[..], &[&told, &input("late_call_1", "p1"), ENDED]].concat(), &[], &[Kind::Doubled]);
        // Its result speaks of a run that is nowhere.
        check(&[INPUT, &made, &done, ENDED], &[], &[Kind::Lost]);
    }

    #[test]
    fn a_reply_comes_as_the_result_or_as_a_late_letter() {
        let made = call("call_1", "sessions_send", &json!({ "timeoutSeconds": 1 }));
        let (peer, peer_ended) = (input("run_call_1", "run_call_1"), ENDED.replace("p1", "run_call_1"));
        let in_time = result("call_1", "ok", r#"{"runId":"run_call_1","status":"ok","delivery":{"status":"done"}}"#);
        let out_of_time =
            result("call_1", "ok", r#"{"runId":"run_call_1","status":"timeout","delivery":{"status":"pending"}}"#);
        let late = input("late_call_1", "p1");
        check(&[INPUT, &made, &peer, &peer_ended, &in_time, ENDED], &[], &[]);
        check(&[INPUT, &made, &peer, &out_of_time, &peer_ended, &late, ENDED], &[], &[]);
        check(&[INPUT, &made, &peer, &out_of_time, &peer_ended, ENDED], &[], &[Kind::Lost]);
        check(&[INPUT, &made, &peer, &peer_ended, &in_time, &late, ENDED], &[], &[Kind::Doubled]);
    }

    #[test]
    fn a_good_result_speaks_of_a_change_and_a_board_may_refuse() {
        let session = SessionId::parse("ses_1").unwrap();
        let made = call("call_1", "board_add", &json!({ "title": "draw" }));
        let done = result("call_1", "ok", r#"{"number":1,"version":1}"#);
        let mut ledger = Ledger::default();
        for (entry, seq) in [INPUT, &made, &done, ENDED].iter().zip(1..) {
            ledger.apply(&session, seq, 10 * seq as Millis, serde_json::from_str(entry).unwrap());
        }
        let expected = Change { session: session.clone(), number: 1, version: 1 };
        assert_eq!(ledger.board_changes().collect::<Vec<_>>(), [expected]);
        assert_eq!(ledger.board_titles().collect::<Vec<_>>(), [(&session, "draw")]);
        let claim = call("call_1", "board_claim", &json!({}));
        check(&[INPUT, &claim, &result("call_1", "error", r#"{"code":"not_found"}"#), ENDED], &[], &[]);
        check(&[INPUT, &claim, &result("call_1", "error", r#"{"code":"internal"}"#), ENDED], &[], &[Kind::Wrong]);
    }

    #[test]
    fn only_whoever_has_no_plan_approved_may_be_denied_to_write() {
        let (plan, write) = (call("call_1", "plan_exit", &json!({})), call("call_2", "write", &json!({})));
        let became = |state: &str| result("call_1", state, "");
        let denied = result("call_2", "denied", "");
        check(&[INPUT, &plan, &became("denied"), &write, &denied, ENDED], &[], &[]);
        check(&[INPUT, &plan, &became("ok"), &write, &denied, ENDED], &[], &[Kind::Wrong]);
        check(&[INPUT, &write, &denied, ENDED], &[], &[Kind::Wrong]);
    }

    #[test]
    fn a_worktree_with_work_in_it_goes_only_on_purpose() {
        let leave = |discard: bool| call("call_1", "exit_worktree", &json!({ "discard_changes": discard }));
        let left = |files: u32| result("call_1", "ok", &json!({ "discardedFiles": files }).to_string());
        check(&[INPUT, &leave(false), &left(0), ENDED], &[], &[]);
        check(&[INPUT, &leave(false), &left(1), ENDED], &[], &[Kind::Wrong]);
        check(&[INPUT, &leave(true), &left(1), ENDED], &[], &[]);
    }

    #[test]
    fn what_does_no_harm_is_done_again_unless_the_step_crashes_again_and_again() {
        let session = SessionId::parse("ses_1").unwrap();
        let not_again = |tool: &str, why: &str, crashes: usize| {
            let (made, cut_off) = (call("call_1", tool, &json!({})), result("call_1", "interrupted", why));
            let mut ledger = Ledger { kills: vec![25; crashes], ..Ledger::default() };
            for (entry, seq) in [INPUT, &made, &cut_off, ENDED].iter().zip(1..) {
                ledger.apply(&session, seq, 10 * seq as Millis, serde_json::from_str(entry).unwrap());
            }
            !ledger.check(&Promises::default(), &HashMap::new()).is_empty()
        };
        assert!(not_again("send_message", CUT_OFF, 1) && not_again("send_message", CUT_OFF, 3));
        assert!(!not_again("send_message", CUT_OFF, 4));
        assert!(!not_again("bash", CUT_OFF, 1));
        assert!(!not_again("send_message", "the call was stopped", 1));
    }

    #[test]
    fn an_answer_decides() {
        let made = call("call_1", "read", &json!({})).replace("run\"}", "ask\"}");
        let waits = r#"{"type":"waiting","call":"call_1","on":{"kind":"ask","ask":"ask_1"}}"#;
        let started = r#"{"type":"started","call":"call_1"}"#;
        let session = SessionId::parse("ses_1").unwrap();
        let lost = |reply: AskReply, log: &[&str]| {
            let mut ledger = Ledger::default();
            for (entry, seq) in [INPUT, &made, waits].iter().chain(log).chain(&[ENDED]).zip(1..) {
                ledger.apply(&session, seq, 10 * seq as Millis, serde_json::from_str(entry).unwrap());
            }
            let answers = HashMap::from([(AskId::parse("ask_1").unwrap(), reply)]);
            let found = ledger.check(&Promises { answers, ..Promises::default() }, &HashMap::new());
            found.iter().any(|violation| violation.kind == Kind::Lost)
        };
        let (ok, denied) = (result("call_1", "ok", ""), result("call_1", "denied", ""));
        assert!(!lost(AskReply::Once, &[started, &ok]));
        assert!(lost(AskReply::Once, &[&denied]));
        assert!(!lost(AskReply::Reject, &[&denied]));
        assert!(lost(AskReply::Reject, &[started, &ok]));
        assert!(!lost(AskReply::Reject, &[&result("call_1", "interrupted", "")]));
    }
}
