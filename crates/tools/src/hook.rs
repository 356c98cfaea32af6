//! One hook: a command of the user's own that is told of something in JSON and may say no.
//!
//! It gets the JSON on its standard input. Exit code 2 blocks what it was asked about, with its standard error as the
//! reason; any other failure is told as a failure. It has its time limit and the reaper's care, like every command.

use crate::process::{Command, Processes, shell};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The time limit of a hook that sets none.
pub const USUAL: Duration = Duration::from_secs(60);
/// The most that is kept of what a hook prints.
const PRINTED: usize = 64 << 10;
/// The most that is told of why it failed.
const REASON: usize = 4000;

/// A command for the shell, and how long it may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    pub command: String,
    pub timeout: Duration,
}

/// Where a hook runs.
pub struct Stage<'a> {
    pub processes: &'a dyn Processes,
    pub cancel: &'a CancellationToken,
    /// The directory it starts in.
    pub dir: &'a Path,
}

/// How a hook ended when it did not simply succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It said no.
    #[error("{0}")]
    Blocked(String),
    #[error("{0}")]
    Failed(String),
    #[error("cancelled")]
    Cancelled,
}

impl Hook {
    pub fn new(command: impl Into<String>) -> Self {
        Self { command: command.into(), timeout: USUAL }
    }

    /// Runs it with `input`. What it printed is the answer.
    pub async fn run(&self, input: &Value, stage: &Stage<'_>) -> Result<String, Error> {
        let env = stage.processes.env().to_vec();
        let command = Command {
            program: shell(&env).into(),
            args: vec!["-c".into(), self.command.clone()],
            dir: stage.dir.to_owned(),
            env,
            timeout: self.timeout,
            limit: PRINTED,
            spill: None,
            live: None,
            confine: None,
            input: Some(input.to_string()),
        };
        let finished = stage.processes.run(command, stage.cancel).await;
        let finished = finished.map_err(|error| Error::Failed(format!("the hook `{}`: {error}", self.shown())))?;
        if finished.cancelled {
            return Err(Error::Cancelled);
        }
        if finished.timed_out {
            let limit = self.timeout.as_secs_f64();
            return Err(Error::Failed(format!("the hook `{}` was ended after {limit} s", self.shown())));
        }
        match finished.code {
            Some(0) => Ok(String::from_utf8_lossy(&finished.output).into_owned()),
            Some(2) => Err(Error::Blocked(reason(&finished.errors))),
            code => {
                let code = code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
                let why = reason(&finished.errors);
                Err(Error::Failed(format!("the hook `{}` failed with {code}: {why}", self.shown())))
            }
        }
    }

    fn shown(&self) -> String {
        self.command.chars().take(80).collect()
    }
}

fn reason(errors: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(errors).trim().chars().take(REASON).collect();
    if text.is_empty() { "it gives no reason".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Direct, Place};
    use serde_json::json;

    async fn run(command: &str, timeout: Duration) -> Result<String, Error> {
        let place = Place::new();
        let (processes, cancel) = (Direct::new(), CancellationToken::new());
        let stage = Stage { processes: &processes, cancel: &cancel, dir: place.dir() };
        Hook { command: command.into(), timeout }.run(&json!({ "name": "x" }), &stage).await
    }

    #[tokio::test]
    async fn a_hook_is_told_in_json_and_answers_by_printing() {
        assert_eq!(run("cat; echo aside >&2", USUAL).await.unwrap(), r#"{"name":"x"}"#);
    }

    #[tokio::test]
    async fn exit_code_2_blocks_and_other_failures_are_told_apart() {
        let no = run("echo not now >&2; exit 2", USUAL).await.unwrap_err();
        assert!(matches!(&no, Error::Blocked(why) if why == "not now"), "{no}");
        let failed = run("echo broken >&2; exit 3", USUAL).await.unwrap_err();
        assert!(matches!(&failed, Error::Failed(why) if why.contains("exit code 3") && why.contains("broken")));
    }

    #[tokio::test]
    async fn a_hook_that_hangs_is_ended() {
        let hung = run("sleep 60", Duration::from_millis(50)).await.unwrap_err();
        assert!(matches!(&hung, Error::Failed(why) if why.contains("was ended after")), "{hung}");
    }
}
