//! Waiting for a run, whichever gateway finishes it.

use crate::failure::Failure;
use crate::home::Home;
use crate::local::read;
use crate::patience::Patience;
use crate::reach::reach;
use client::Client;
use proto::methods::{AgentWait, WaitInput, WaitStatus, Waited};
use proto::{Code, RunId};
use std::time::{Duration, Instant};

/// What is known about a run now. Nothing is started for it.
pub(crate) async fn look(home: &Home, run: &RunId) -> Result<Waited, Failure> {
    read::<AgentWait>(home, input(run, Some(Duration::ZERO))).await
}

/// Waits for a run's end, at most this long. One that has ended needs no gateway; one that has not is gone on with.
pub(crate) async fn until_over(home: &Home, run: &RunId, limit: Option<Duration>) -> Result<Waited, Failure> {
    let now = look(home, run).await?;
    if now.status != WaitStatus::Timeout || limit == Some(Duration::ZERO) {
        return Ok(now);
    }
    wait(home, reach(home).await?, run, limit).await
}

/// The same, with a gateway that is known already.
pub(crate) async fn wait(
    home: &Home,
    mut client: Client,
    run: &RunId,
    limit: Option<Duration>,
) -> Result<Waited, Failure> {
    let started = Instant::now();
    let mut patience = Patience::default();
    loop {
        let left = limit.map(|limit| limit.saturating_sub(started.elapsed()));
        match client.call::<AgentWait>(input(run, left)).await {
            Ok(waited) => return Ok(waited),
            Err(error) if error.is_lost() => {
                patience.lose();
                client = patience.next(home, error).await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn input(run: &RunId, limit: Option<Duration>) -> WaitInput {
    let timeout_ms = limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
    WaitInput { run_id: run.clone(), timeout_ms, tree: false }
}

/// The exit code that says how a run ended.
pub(crate) fn exit_code(status: WaitStatus) -> u8 {
    match status {
        WaitStatus::Ok => 0,
        WaitStatus::Error | WaitStatus::Cancelled | WaitStatus::Timeout => crate::failure::FAILED,
    }
}

/// The answer on stdout, and what else there is to say on stderr.
pub(crate) fn show(waited: &Waited) {
    if let Some(text) = waited.text.as_deref().filter(|text| !text.is_empty()) {
        crate::terminal::print_answer(text);
    }
    if let Some(error) = &waited.error {
        Failure { error: error.clone(), exit: 0 }.print();
    }
    if waited.status == WaitStatus::Timeout {
        let error = proto::Error::new(Code::Timeout, format!("the run `{}` is not over yet", waited.run_id));
        Failure { error: error.hint("it goes on; wait again, or `convoke kill` it"), exit: 0 }.print();
    }
}
