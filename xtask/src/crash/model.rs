//! The model of a crash run: answers from the request alone, so that a step that a crash cut off is asked and answered
//! again in the same way.

use super::job::{Job, Step};
use super::random::Random;
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

/// The argument of a stray's `sleep` that names the run and the life it was started in.
pub(super) fn marker(nonce: u32, life: u32) -> String {
    format!("0.{nonce}7{life:05}")
}

impl Script {
    pub(super) fn reply(&self, received: &Received) -> Reply {
        let body = received.body();
        let Some((job, step)) = position(&body["messages"]) else { return Reply::text("nothing to do") };
        // A different wait for each step, the same whenever it is asked again.
        let delay = Duration::from_millis(Random::named(&job.token(step)).below(25));
        let reply = match job.plan.get(step) {
            None => Reply::text(format!("done {}", job.id)),
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
        match planned {
            Step::Bash => vec![bash(leave)],
            Step::Slow => vec![bash(format!("sleep 0.03; {leave}; sleep 0.03"))],
            Step::Linger => vec![bash(format!("{leave}; sleep 1.3"))],
            Step::Stray => vec![bash(format!("setsid sleep 300 {} & {leave}; sleep 0.1", self.marker()))],
            Step::Read => vec![read],
            Step::Write => vec![("write", json!({ "filePath": format!("out/{token}.txt"), "content": token }))],
            Step::Secret => vec![("read", json!({ "filePath": ".env" }))],
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
            Step::Mixed => vec![bash(leave), read, task(0), spawn(true)],
        }
    }

    fn marker(&self) -> String {
        marker(self.nonce, self.life.load(Ordering::SeqCst))
    }
}

/// The newest job of a conversation, and how many replies it has had.
fn position(messages: &Value) -> Option<(Job, usize)> {
    let mut replies = 0;
    for message in messages.as_array()?.iter().rev() {
        if message["role"] == "assistant" {
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
        let messages = json!([
            { "role": "user", "content": "job id=a plan=bash" },
            { "role": "assistant", "content": "done a" },
            { "role": "user", "content": "job id=b plan=bash,read" },
            { "role": "assistant", "content": "" },
            { "role": "tool", "content": "ok" },
            { "role": "user", "content": "a notice" },
        ]);
        let (job, step) = position(&messages).unwrap();
        assert_eq!((job.id.as_str(), step), ("b", 1));
        assert!(position(&json!([{ "role": "user", "content": "hello" }])).is_none());
    }
}
