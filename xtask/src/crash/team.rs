//! A lead and its team of five. One kind of team is asked a second question, and written to after one of its members was
//! archived; the other is stopped as a whole while its lead is idle.
//!
//! Folded entry by entry, as `talk` is; the client that plays the person is here as well.

use super::job::{Job, Step};
use super::ledger::{Kind, Promises, Violation};
use super::load::{Load, Peer};
use crate::random::Random;
use anyhow::Context;
use proto::entry::{CallResult, Input, Reply};
use proto::letter::Provenance;
use proto::methods::{
    AbortInput, AgentWait, ChatAbort, RetireInput, SessionsArchive, SessionsTree, TreeInput, WaitInput,
};
use proto::{Code, Entry, LetterId, Millis, Outcome, RunId, SessionId};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant, SystemTime};

/// Members of a team.
pub(super) const MEMBERS: usize = 5;
/// Steps of a member that is to be stopped: more than crashes can cut short before it is.
const STEPS: usize = 60;
/// How long the person waits for a lead or a member, crashes included.
const PATIENCE: Duration = Duration::from_secs(8);
/// How a member is called that is archived, and one that is stopped.
const ARCHIVED: &str = ".ask-1";
const STOPPED: &str = ".stop-";

/// The name of a member, and what it is to do.
pub(super) fn member(job: &Job, stops: bool, n: usize) -> (String, Job) {
    let name = format!("{}.{}-{n}", job.id, if stops { "stop" } else { "ask" });
    let plan = if stops { vec![Step::Linger; STEPS] } else { vec![Step::Read] };
    (name.clone(), Job { id: name, plan })
}

/// What a person was told of a team.
#[derive(Debug, Clone, Default)]
pub(super) struct Teams {
    /// Leads that hear of the end of what their mail began.
    asking: HashSet<SessionId>,
    /// Teams that were stopped, by the job of their lead, and when that was acknowledged.
    stopped: HashMap<String, Millis>,
}

impl Load {
    /// Leads team after team, until the round is over.
    pub(super) async fn lead(self, name: String, peers: Vec<Peer>) -> anyhow::Result<()> {
        let mut random = Random::named(&format!("{}-{name}", self.seed));
        let mut count = 0_u32;
        while !self.over.is_cancelled() {
            count += 1;
            let id = format!("{name}-{count}");
            if random.percent(50) {
                self.ask_team(&id, random.pick(&peers)).await?;
            } else {
                self.stop_team(&id).await?;
            }
        }
        Ok(())
    }

    /// A team is started, one member is archived, and one is asked again.
    async fn ask_team(&self, id: &str, peer: &Peer) -> anyhow::Result<()> {
        let job = Job { id: id.to_owned(), plan: vec![Step::Team(false), Step::Mail(peer.label.clone())] };
        let lead = self.begin(&job, None).await?;
        let archived = self.archive(&lead, &format!("{id}{ARCHIVED}")).await?;
        let mut plan = vec![Step::Again(format!("{id}.ask-0"))];
        plan.extend(archived.then(|| Step::Again(format!("{id}{ARCHIVED}"))));
        self.promises().teams.asking.insert(lead.clone());
        self.begin(&Job { id: format!("{id}-again"), plan }, Some(&lead)).await?;
        Ok(())
    }

    /// A team is started, and stopped while its lead has nothing to do.
    async fn stop_team(&self, id: &str) -> anyhow::Result<()> {
        let job = Job { id: id.to_owned(), plan: vec![Step::Team(true)] };
        let lead = self.begin(&job, None).await?;
        self.promises().aborted.insert(lead.clone());
        self.posted.notify_waiters();
        let stop = || AbortInput { reference: lead.to_string(), run_id: None };
        self.call::<ChatAbort>(stop).await?.context("`chat.abort` was refused")?;
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("the clock is before 1970")?;
        self.promises().teams.stopped.insert(id.to_owned(), Millis::try_from(since.as_millis())?);
        Ok(())
    }

    /// A prompt to a lead, and the end of its turn.
    async fn begin(&self, job: &Job, lead: Option<&SessionId>) -> anyhow::Result<SessionId> {
        let accepted = self.ask(&format!("crash-{}-{}", self.seed, job.id), job, lead).await?;
        self.promises().prompts.push((accepted.run_id.clone(), accepted.session_id.clone()));
        self.finished(&accepted.run_id).await?;
        Ok(accepted.session_id)
    }

    async fn finished(&self, run: &RunId) -> anyhow::Result<()> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let input = WaitInput { run_id: run.clone(), timeout_ms: Some(500), tree: false };
            match self.try_call::<AgentWait>(input).await? {
                Some(waited) if waited.status != proto::methods::WaitStatus::Timeout => return Ok(()),
                _ => tokio::time::sleep(Duration::from_millis(3)).await,
            }
        }
        Ok(())
    }

    /// Archives a member once it has nothing to do. False when it was not in time.
    async fn archive(&self, lead: &SessionId, name: &str) -> anyhow::Result<bool> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let tree = TreeInput { reference: Some(lead.to_string()) };
            let Some(tree) = self.try_call::<SessionsTree>(tree).await? else { continue };
            let named = tree.sessions.into_iter().find(|row| row.name.as_deref() == Some(name));
            let Some(row) = named.filter(|row| !row.status.is_busy()) else { continue };
            self.posted.notify_waiters();
            let key = format!("archive-{}-{name}", self.seed);
            let retire = || RetireInput { reference: row.session_id.to_string(), idempotency_key: Some(key.clone()) };
            match self.call::<SessionsArchive>(retire).await? {
                Ok(_) => return Ok(true),
                // It has got something to do meanwhile.
                Err(error) if error.code == Code::Conflict => {}
                Err(error) => return Err(error).with_context(|| format!("`sessions.archive` refused `{name}`")),
            }
        }
        Ok(false)
    }
}

/// What logs say of teams.
#[derive(Debug, Default)]
pub(super) struct Team {
    /// Runs that mail opened: who wrote it.
    opened: HashMap<RunId, SessionId>,
    /// Those of them that came to a good end.
    ended: Vec<RunId>,
    /// Who was told of the end of which run.
    told: HashMap<String, SessionId>,
    /// Calls that write to a member that is archived.
    late: HashSet<String>,
    /// When a member of a team that is to be stopped came to the end of its work.
    done: Vec<(String, Millis)>,
    found: Vec<Violation>,
}

impl Team {
    pub(super) fn apply(&mut self, session: &SessionId, at: Millis, entry: &Entry) {
        match entry {
            Entry::Input(input) => self.heard(session, input),
            Entry::Reply(reply) => self.replied(at, reply),
            Entry::Result(result) => self.came_back(session, result),
            Entry::Ended(ended) if ended.outcome == Outcome::Ok && self.opened.contains_key(&ended.run) => {
                self.ended.push(ended.run.clone());
            }
            _ => {}
        }
    }

    fn heard(&mut self, session: &SessionId, input: &Input) {
        let mail = |from: &&Provenance| from.source_tool.as_deref() == Some("send_message");
        let from = input.provenance.as_ref().filter(mail).and_then(|from| from.source_session_id.clone());
        if let Some(from) = from.filter(|_| input.letter == input.run.letter()) {
            self.opened.insert(input.run.clone(), from);
        }
        if input.letter.as_str().starts_with("end_") {
            self.told.insert(input.letter.to_string(), session.clone());
        }
    }

    fn replied(&mut self, at: Millis, reply: &Reply) {
        if let Some(job) = reply.text().strip_prefix("done ").filter(|job| job.contains(STOPPED)) {
            self.done.push((job.to_owned(), at));
        }
        for call in reply.calls().filter(|call| call.tool == "send_message") {
            let input: Value = serde_json::from_str(call.input.get()).unwrap_or_default();
            if input["to"].as_str().is_some_and(|to| to.ends_with(ARCHIVED)) {
                self.late.insert(call.id.to_string());
            }
        }
    }

    fn came_back(&mut self, session: &SessionId, result: &CallResult) {
        if !self.late.contains(result.call.as_str()) {
            return;
        }
        let output: Value = serde_json::from_str(&result.output).unwrap_or_default();
        let states: Vec<&str> = output["receipts"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|receipt| receipt["state"].as_str())
            .collect();
        if states.iter().any(|state| matches!(*state, "queued" | "delivered")) {
            let what = format!("a message of `{session}` to an archived member was taken: {states:?}");
            self.found.push(Violation::new(Kind::Wrong, what));
        }
    }

    pub(super) fn check(&self, promises: &Promises) -> Vec<Violation> {
        let mut found = self.found.clone();
        for run in &self.ended {
            let Some(from) = self.opened.get(run).filter(|from| promises.teams.asking.contains(*from)) else {
                continue;
            };
            let told = self.told.get(LetterId::derived("end_", run.as_str()).as_str());
            if told != Some(from) {
                let what = format!("the end of `{run}`, which mail of `{from}` began, is told to {told:?}");
                found.push(Violation::new(Kind::Lost, what));
            }
        }
        for (job, at) in &self.done {
            let team = job.split_once(STOPPED).map_or("", |(team, _)| team);
            if promises.teams.stopped.get(team).is_some_and(|acknowledged| at > acknowledged) {
                let what = format!("`{job}` went on to its end after its team was stopped");
                found.push(Violation::new(Kind::Wrong, what));
            }
        }
        found
    }

    /// Answers to second questions, and messages to archived members.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.ended.len(), self.late.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn session(name: &str) -> SessionId {
        SessionId::parse(&format!("ses_{name}")).unwrap()
    }

    #[track_caller]
    fn check(log: &[(&str, Value)], expected: &[Kind]) {
        let (mut team, mut promises) = (Team::default(), Promises::default());
        promises.teams.asking.insert(session("lead"));
        promises.teams.stopped.insert("t1".into(), 2);
        for ((who, entry), at) in log.iter().zip(1..) {
            let entry: Entry = serde_json::from_value(entry.clone()).unwrap_or_else(|error| panic!("{error}: {entry}"));
            team.apply(&session(who), at, &entry);
        }
        let found = team.check(&promises);
        assert_eq!(found.iter().map(|violation| violation.kind).collect::<Vec<_>>(), expected, "{found:?}");
    }

    fn input(letter: &str, from: Value) -> Value {
        json!({ "type": "input", "letter": letter, "run": letter, "parts": [], "agent": "a", "model": "m", "provenance": from })
    }

    fn reply(part: Value) -> Value {
        json!({ "type": "reply", "step": 1, "parts": [part], "usage": {}, "finish": "stop", "model": "m" })
    }

    #[test]
    fn a_run_that_mail_opened_is_reported_to_its_sender() {
        let mail = json!({ "kind": "inter_session", "sourceTool": "send_message", "sourceSessionId": "ses_lead" });
        let opened = ("m", input("mail_1", mail));
        let ended = ("m", json!({ "type": "ended", "run": "mail_1", "outcome": "ok" }));
        let told = |who| (who, input("end_mail_1", Value::Null));
        check(&[opened.clone(), ended.clone(), told("lead")], &[]);
        check(&[opened.clone(), ended.clone()], &[Kind::Lost]);
        check(&[opened, ended, told("other")], &[Kind::Lost]);
    }

    #[test]
    fn what_was_stopped_does_not_go_on_and_the_archived_get_no_messages() {
        let done = ("m", reply(json!({ "type": "text", "text": "done t1.stop-0" })));
        check(std::slice::from_ref(&done), &[]);
        check(&[done.clone(), done.clone()], &[]);
        check(&[done.clone(), done.clone(), done], &[Kind::Wrong]);
        let call = json!({ "type": "call", "id": "call_1", "tool": "send_message", "input": { "to": "t2.ask-1" }, "decision": "run" });
        let result = |state: &str| {
            let output = json!({ "receipts": [{ "to": "t2.ask-1", "state": state }] }).to_string();
            ("lead", json!({ "type": "result", "call": "call_1", "state": "ok", "output": output }))
        };
        check(&[("lead", reply(call.clone())), result("refused")], &[]);
        check(&[("lead", reply(call)), result("queued")], &[Kind::Wrong]);
    }
}
