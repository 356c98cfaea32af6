//! `bash`: one shell command, to its end or in the background.

mod aliases;
mod prefix;
mod reach;
mod spread;
#[cfg(test)]
mod tests;

pub use reach::accesses;

use crate::files::{self, Purpose};
use crate::process::{self, Command, Finished};
use crate::{Access, Error, Output, Spec, Tool, ToolCx, output, tolerant};
use async_trait::async_trait;
use proto::JobNews;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub struct Bash;

const DEFAULT_TIMEOUT: u64 = 120_000;
const MAX_TIMEOUT: u64 = 600_000;
/// The longest life of a job: whatever a session forgot is gone the next day.
const MAX_JOB: u64 = 24 * 3_600_000;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The command, as you would type it.
    #[serde(alias = "cmd", alias = "script")]
    command: String,
    /// What it does, in five to ten words, for whoever is asked to allow it.
    #[serde(default)]
    #[expect(dead_code, reason = "for readers of the transcript; nothing acts on it")]
    description: Option<String>,
    /// Milliseconds it may take: 120000 unless given, 600000 at most. In the background a day, unless given.
    #[serde(default, deserialize_with = "tolerant::number", alias = "timeoutMs", alias = "timeout_ms")]
    #[schemars(with = "Option<u64>")]
    timeout: Option<u64>,
    /// The folder to run it in; the working directory unless given.
    #[serde(
        default,
        alias = "work_dir",
        alias = "workDir",
        alias = "cwd",
        alias = "path",
        deserialize_with = "tolerant::maybe_path"
    )]
    #[schemars(with = "Option<String>")]
    workdir: Option<String>,
    /// Start it and go on: for servers and long work. You are told when it ends; its output goes to a file.
    #[serde(default, deserialize_with = "tolerant::truth", alias = "run_in_background")]
    background: bool,
}

/// What a reader of the result can rely on.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Facts {
    exit_code: Option<i32>,
    signal: Option<i32>,
    timed_out: bool,
    bytes: u64,
    ms: u64,
    /// How far it reached: `off`, `read-only` or `workspace`.
    sandbox: &'static str,
    /// What of its sandbox was not enforced, or had to be put right.
    #[serde(skip_serializing_if = "Option::is_none")]
    notice: Option<String>,
}

#[async_trait]
impl Tool for Bash {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("bash", include_str!("prompt.md")).lasting().aliases(&["Bash"])
    }

    fn access(&self, args: &Args, cx: &ToolCx) -> Vec<Access> {
        let mut accesses = accesses(&args.command, &args.dir(cx), cx.into(), cx.processes.env());
        let dir = files::outside(&args.dir(cx), Purpose::Write, cx);
        accesses.extend(dir.filter(|access| !accesses.contains(access)));
        accesses
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        if args.command.trim().is_empty() {
            return Err(Error::tell("`command` is empty"));
        }
        if args.background {
            return start(&args, cx).await;
        }
        let spill = output::file(cx);
        let finished = cx.processes.run(args.command(cx, &spill), &cx.cancel).await.map_err(broken)?;
        if finished.cancelled {
            return Err(Error::Cancelled);
        }
        let facts = facts(&finished, cx);
        let mut end = ending(&finished, args.timeout());
        if let Some(notice) = &finished.notice {
            end.push_str(&format!("\n({notice})"));
        }
        let printed = printed(finished, spill, cx).await?;
        let printed = printed.trim_end();
        let text = if printed.is_empty() { format!("(no output)\n{end}") } else { format!("{printed}\n\n{end}") };
        Ok(Output::text(text).with(&facts))
    }
}

impl Args {
    fn dir(&self, cx: &ToolCx) -> PathBuf {
        files::resolve(self.workdir.as_deref().unwrap_or("."), &cx.dir)
    }

    fn timeout(&self) -> Duration {
        let (usual, most) = if self.background { (MAX_JOB, MAX_JOB) } else { (DEFAULT_TIMEOUT, MAX_TIMEOUT) };
        Duration::from_millis(self.timeout.unwrap_or(usual).clamp(1, most))
    }

    fn command(&self, cx: &ToolCx, spill: &Path) -> Command {
        let env = cx.processes.env().to_vec();
        Command {
            program: process::shell(&env).into(),
            args: vec!["-c".into(), self.command.clone()],
            dir: self.dir(cx),
            env,
            timeout: self.timeout(),
            limit: output::MAX_BYTES,
            spill: Some(spill.to_owned()),
            live: Some(cx.live.clone()),
            confine: cx.confine.clone(),
            input: None,
        }
    }
}

/// Starts it as a job, which is answered at once.
async fn start(args: &Args, cx: &ToolCx) -> Result<Output, Error> {
    let command = Command { limit: 0, spill: None, live: None, ..args.command(cx, Path::new("")) };
    let job = cx.background.start(command, &args.command).await.map_err(|error| Error::tell(error.message))?;
    let text = format!(
        "The job `{}` runs in the background, and you are told when it ends. What it prints goes to `{}`: look at it with \
         `read` and an offset, or with `jobs`, which also stops it.",
        job.id, job.file
    );
    Ok(Output::text(text).with(&JobNews { job, over: false }))
}

fn broken(error: process::Error) -> Error {
    match error {
        process::Error::Start { .. } | process::Error::Refused { .. } | process::Error::Lost { .. } => {
            Error::tell(error.to_string())
        }
        process::Error::Reaper(_) => Error::Broken { tool: "bash", source: Box::new(error) },
    }
}

fn facts(finished: &Finished, cx: &ToolCx) -> Facts {
    Facts {
        exit_code: finished.code,
        signal: finished.signal,
        timed_out: finished.timed_out,
        bytes: finished.total,
        ms: finished.ms,
        sandbox: cx.confine.as_ref().map_or("off", |confine| confine.reach.mode.as_str()),
        notice: finished.notice.clone(),
    }
}

fn ending(finished: &Finished, timeout: Duration) -> String {
    match (finished.timed_out, finished.code, finished.signal) {
        (true, ..) => format!(
            "(ended after {} s, its time limit, with everything it started; give a longer `timeout` if it needs one)",
            timeout.as_secs_f64()
        ),
        (_, Some(code), _) => format!("(exit code {code})"),
        (_, None, Some(signal)) => format!("(killed by signal {signal})"),
        (_, None, None) => "(ended, but how is not known)".into(),
    }
}

/// What it printed, cut when it is long.
async fn printed(finished: Finished, spill: PathBuf, cx: &ToolCx) -> Result<String, Error> {
    let head = String::from_utf8_lossy(&finished.output).into_owned();
    if !finished.truncated {
        return Ok(output::cut(head, cx).await);
    }
    let total = finished.total;
    files::blocking("bash", cx, move |_| {
        Ok(match tail(&spill) {
            Ok(tail) => output::excerpt(&head, &tail, &output::about(total, Some(&spill))),
            Err(_) => output::excerpt(&head, "", &output::about(total, None)),
        })
    })
    .await
}

fn tail(path: &Path) -> std::io::Result<String> {
    let mut file = foreign::file(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(output::MAX_BYTES as u64)))?;
    let mut bytes = Vec::new();
    file.take(output::MAX_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
