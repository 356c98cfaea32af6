//! The model of a crash run: answers from the request alone, so that a step that a crash cut off is asked and answered
//! again in the same way.

use super::answers;
use super::job::{Exit, Job, Manner, Step};
use super::questions;
use super::regret;
use super::team;
use crate::random::Random;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use testkit::{Received, Reply};

/// What the answers refer to.
#[derive(Clone)]
pub(super) struct Script {
    /// Where tokens are left.
    pub(super) tokens: PathBuf,
    /// Which life of the gateway it is: a process that outlives its life is found by it.
    pub(super) life: Arc<AtomicU32>,
    /// Names the strays of this run of the suite.
    pub(super) nonce: u32,
}

/// Keeps what was written in a worktree on its branch.
const COMMIT: &str = "git add --all && git -c user.name=crash -c user.email=crash@localhost commit --quiet -m work";

/// The argument of a stray's `sleep` that names the run and the life it was started in.
pub(super) fn marker(nonce: u32, life: u32) -> String {
    format!("0.{nonce}7{life:05}")
}

impl Script {
    pub(super) fn reply(&self, received: &Received) -> Reply {
        let body = received.body();
        let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some((job, step)) = position(messages) else { return Reply::text("nothing to do") };
        // A different wait for each step, the same whenever it is asked again.
        let delay = Duration::from_millis(Random::named(&job.token(step)).below(25));
        let due = answers::due(messages, &job);
        let reply = match job.plan.get(step) {
            _ if !due.is_empty() => Reply::calls(due),
            None => Reply::text(format!("done {}", job.id)),
            Some(Step::Halt) => Reply::calls([halt(messages)]),
            Some(planned) => Reply::calls(self.calls(&job, step, planned)),
        };
        reply.delay(delay).usage(100, 10)
    }

    fn calls(&self, job: &Job, step: usize, planned: &Step) -> Vec<(&'static str, Value)> {
        let token = job.token(step);
        let leave = format!("printf '%s\\n' {token} >> {}", self.tokens.display());
        let bash = |command: String| ("bash", json!({ "command": command }));
        let read = ("read", json!({ "filePath": "README.md" }));
        let task = |n: u64| {
            let piece = job.piece(&format!("{step}-{n}"));
            ("task", json!({ "description": "A piece", "prompt": piece.to_string(), "subagent_type": "general" }))
        };
        let spawn = |background: bool| {
            let piece = job.piece(&format!("{step}-s"));
            ("sessions_spawn", json!({ "task": piece.to_string(), "agentId": "general", "background": background }))
        };
        let send = |peer: &str, piece: Job, wait: u64| {
            ("sessions_send", json!({ "label": peer, "message": piece.to_string(), "timeoutSeconds": wait }))
        };
        let message = format!("{step}-m");
        let agent = |name: &str, piece: &Job, more: Value| {
            let mut input =
                json!({ "description": "A piece", "prompt": piece.to_string(), "subagent_type": "general" });
            if !name.is_empty() {
                input["name"] = json!(name);
            }
            more.as_object().into_iter().flatten().for_each(|(key, value)| input[key] = value.clone());
            ("agent", input)
        };
        let mail = |to: &str, message: Value| ("send_message", json!({ "to": to, "message": message }));
        let member = |manner: Manner| job.member(manner).0;
        match planned {
            Step::Bash => vec![bash(leave)],
            Step::Slow => vec![bash(format!("sleep 0.03; {leave}; sleep 0.03"))],
            Step::Linger => vec![bash(format!("{leave}; sleep 1.3"))],
            Step::Stray => vec![bash(format!("setsid sleep 300 {} & {leave}; sleep 0.1", self.marker()))],
            Step::Background(ms) => {
                let command = format!("{leave}; sleep {:.3}", Duration::from_millis(*ms).as_secs_f64());
                vec![("bash", json!({ "command": command, "background": true }))]
            }
            // Which one it is follows from the conversation.
            Step::Halt => Vec::new(),
            Step::Read => vec![read],
            Step::Write => vec![("write", json!({ "filePath": format!("out/{token}.txt"), "content": token }))],
            Step::Secret => vec![("read", json!({ "filePath": ".env" }))],
            Step::Question => vec![("question", questions::input(&token))],
            Step::Tasks(count) => (0..*count).map(task).collect(),
            Step::Spawn => vec![spawn(true)],
            Step::SpawnAndWait => vec![spawn(false)],
            Step::Send(peer) => vec![send(peer, job.piece(&message), 25)],
            Step::Tell(peer) => vec![send(peer, job.piece(&message), 0)],
            Step::Hurry(peer) => vec![send(peer, job.slow_piece(&message), 1)],
            Step::Talk(peer) => {
                let (tool, mut input) = send(peer, job.piece(&message), 0);
                input["delivery"] = json!("announce");
                vec![(tool, input)]
            }
            Step::Board => vec![
                ("board_add", json!({ "title": token })),
                ("board_claim", json!({})),
                ("board_update", json!({ "number": 1, "note": token })),
            ],
            Step::Draft(version) => vec![("apply_patch", json!({ "patch": regret::patch(&job.id, *version) }))],
            Step::Mixed => vec![bash(leave), read, task(0), spawn(true)],
            Step::Mail(peer) => vec![mail(peer, json!(token))],
            Step::Crew => {
                let members = Manner::ALL.into_iter().map(|manner| job.member(manner));
                members.map(|(name, piece)| agent(&name, &piece, json!({}))).collect()
            }
            Step::Team(stops) => {
                let members = (0..team::MEMBERS).map(|n| team::member(job, *stops, n));
                members.map(|(name, piece)| agent(&name, &piece, json!({}))).collect()
            }
            Step::Again(member) => vec![mail(member, json!(token))],
            Step::Shout => vec![mail(&member(Manner::Agrees), json!(token)), mail("*", json!(token))],
            Step::Dismiss => {
                let ask = |manner| mail(&member(manner), json!({ "type": "shutdown_request" }));
                Manner::ALL.into_iter().map(ask).collect()
            }
            Step::Planner => {
                let (name, piece) = job.planned();
                vec![agent(&name, &piece, json!({ "mode": "plan" }))]
            }
            Step::Plan(version) => vec![("plan_exit", json!({ "plan": answers::plan(&token, *version) }))],
            Step::Enter => vec![("enter_worktree", json!({ "name": token }))],
            // Elsewhere it would be everybody's work, and everybody at once.
            Step::Commit => vec![bash(format!("case $PWD in */worktrees/*) {COMMIT} ;; esac; {leave}"))],
            Step::Exit(exit) => {
                let action = if *exit == Exit::Keep { "keep" } else { "remove" };
                vec![("exit_worktree", json!({ "action": action, "discard_changes": *exit == Exit::Discard }))]
            }
            Step::Isolated(changes) => {
                let piece = job.alone(&format!("{step}-alone"), *changes);
                let more = json!({ "isolation": "worktree", "run_in_background": *changes });
                vec![agent("", &piece, more)]
            }
        }
    }

    fn marker(&self) -> String {
        marker(self.nonce, self.life.load(Ordering::SeqCst))
    }
}

/// Stops the newest command in the background, or looks whether there is one.
fn halt(messages: &[Value]) -> (&'static str, Value) {
    let started = |message: &Value| {
        let text = message["content"].as_str().filter(|_| message["role"] == "tool")?;
        Some(text.strip_prefix("The job `")?.split('`').next()?.to_owned())
    };
    let input = match messages.iter().rev().find_map(started) {
        Some(id) => json!({ "action": "stop", "id": id }),
        None => json!({ "action": "list" }),
    };
    ("jobs", input)
}

/// The newest job of a conversation, and how many replies it has had.
fn position(messages: &[Value]) -> Option<(Job, usize)> {
    let mut replies = 0;
    for message in messages.iter().rev() {
        if message["role"] == "assistant" && !answers::is_answer(message) {
            replies += 1;
        }
        if message["role"] == "user"
            && let Some(job) = message["content"].as_str().and_then(Job::parse)
        {
            return Some((job, replies));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_is_the_number_of_replies_since_the_job() {
        let answer = json!({ "to": "a", "message": { "request_id": "r1" } }).to_string();
        let messages = [
            json!({ "role": "user", "content": "job id=a plan=bash" }),
            json!({ "role": "assistant", "content": "done a" }),
            json!({ "role": "user", "content": "job id=b plan=bash,read" }),
            json!({ "role": "assistant", "content": "" }),
            json!({ "role": "tool", "content": "ok" }),
            json!({ "role": "user", "content": "a notice" }),
            json!({ "role": "assistant", "tool_calls": [{ "function": { "arguments": answer } }] }),
        ];
        let (job, step) = position(&messages).unwrap();
        assert_eq!((job.id.as_str(), step), ("b", 1));
        assert!(position(&[json!({ "role": "user", "content": "hello" })]).is_none());
    }

    #[test]
    fn the_newest_command_in_the_background_is_stopped() {
        let started = |id: &str| json!({ "role": "tool", "content": format!("The job `{id}` runs in the background") });
        assert_eq!(halt(&[started("job_1"), started("job_2")]).1, json!({ "action": "stop", "id": "job_2" }));
        assert_eq!(halt(&[]).1, json!({ "action": "list" }));
    }
}
