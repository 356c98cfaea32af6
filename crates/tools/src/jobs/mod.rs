//! `jobs`: the caller's commands in the background (A11): which there are, what they print, and their end.

use crate::doors::{JobInfo, JobState};
use crate::files::blocking;
use crate::read::lines::Lines;
use crate::{Access, Error, Output, Spec, Tool, ToolCx, answer, output, tolerant};
use async_trait::async_trait;
use proto::JobNews;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::BufReader;
use std::path::Path;

pub struct Jobs;

/// Lines of output unless more are wanted.
const LINES: u64 = 200;
/// Characters shown of one line.
const MAX_LINE: usize = 2000;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// What to do: `list`, or `output` when a job is named, unless given.
    #[serde(default)]
    action: Option<Action>,
    /// Which job, for `output` and `stop`.
    #[serde(default, deserialize_with = "tolerant::text", alias = "bash_id", alias = "shell_id", alias = "job_id")]
    id: Option<String>,
    /// The line to start with; the first is 1.
    #[serde(default, deserialize_with = "tolerant::number")]
    #[schemars(with = "Option<u64>")]
    offset: Option<u64>,
    /// How many lines at most: 200 unless given, 2000 at most.
    #[serde(default, deserialize_with = "tolerant::number")]
    #[schemars(with = "Option<u64>")]
    limit: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    List,
    Output,
    #[serde(alias = "kill")]
    Stop,
}

#[derive(Debug, Serialize)]
struct List {
    jobs: Vec<Row>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    id: String,
    command: String,
    file: String,
    /// `running`, `ended` or `stopped`.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    timed_out: bool,
    ms: u64,
}

/// A part of what a job printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    #[serde(flatten)]
    row: Row,
    output: String,
    next_offset: u64,
    /// Lines follow already.
    more: bool,
}

#[derive(Debug, Serialize)]
struct Stopped {
    // In front: by it the log knows that the job is over.
    #[serde(flatten)]
    news: JobNews,
    #[serde(flatten)]
    row: Row,
}

#[async_trait]
impl Tool for Jobs {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("jobs", include_str!("prompt.md")).aliases(&["BashOutput"]).json().defer()
    }

    fn access(&self, _: &Args, _: &ToolCx) -> Vec<Access> {
        // They are the caller's own, and were allowed when they were started.
        Vec::new()
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let known = cx.background.jobs();
        let usual = if args.id.is_some() { Action::Output } else { Action::List };
        let action = args.action.unwrap_or(usual);
        let id = match (args.id.as_deref(), action) {
            (Some(id), _) => id,
            (None, Action::List) => return Ok(Output::json(&List { jobs: known.iter().map(Row::of).collect() })),
            (None, Action::Output | Action::Stop) => return Err(Error::tell("say which job with `id`")),
        };
        let Some(job) = known.into_iter().find(|known| known.job.id.as_str() == id) else {
            return Ok(answer::refused(&unknown(id, cx)));
        };
        match action {
            Action::List => Ok(Output::json(&Row::of(&job))),
            Action::Output => page(&args, job, cx).await,
            Action::Stop => Ok(match cx.background.stop(id).await {
                Some(job) => Output::json(&Stopped { row: Row::of(&job), news: JobNews { job: job.job, over: true } }),
                None => answer::refused(&unknown(id, cx)),
            }),
        }
    }
}

fn unknown(id: &str, cx: &ToolCx) -> proto::Error {
    let shown: String = id.chars().take(64).collect();
    let hint = format!("`list` shows those there are; what older ones printed may be in `{}`", cx.outputs.display());
    proto::Error::not_found(format!("this session has no job `{shown}`")).hint(hint)
}

impl Row {
    fn of(known: &JobInfo) -> Self {
        let (id, command, file) = (known.job.id.to_string(), known.job.command.clone(), known.job.file.clone());
        let (state, end, ms) = match known.state {
            JobState::Running { ms } => ("running", Default::default(), ms),
            JobState::Ended(end) => (if end.stopped { "stopped" } else { "ended" }, end, end.ms),
        };
        let (exit_code, signal, timed_out) = (end.code, end.signal, end.timed_out);
        Self { id, command, file, state, exit_code, signal, timed_out, ms }
    }
}

async fn page(args: &Args, job: JobInfo, cx: &ToolCx) -> Result<Output, Error> {
    let first = args.offset.unwrap_or(1).max(1);
    let count = args.limit.unwrap_or(LINES).clamp(1, output::MAX_LINES as u64);
    let over = matches!(job.state, JobState::Ended(_));
    blocking("jobs", cx, move |_| {
        let (output, next_offset, more) = lines(Path::new(&job.job.file), first, count, over)
            .map_err(|error| Error::tell(format!("cannot read `{}`: {error}", job.job.file)))?;
        Ok(Output::json(&Page { row: Row::of(&job), output, next_offset, more }))
    })
    .await
}

/// Lines from an offset, the offset of the next one, and whether that is there already. The last line of a job that goes
/// on is left for later while it has no end.
fn lines(path: &Path, first: u64, count: u64, over: bool) -> std::io::Result<(String, u64, bool)> {
    let mut lines = Lines::new(BufReader::with_capacity(64 << 10, foreign::file(path)?));
    let (mut text, mut next) = (String::new(), 1);
    while let Some(line) = lines.next(MAX_LINE)? {
        if !over && !lines.whole() {
            break;
        }
        let full = text.len() + line.len() > output::MAX_BYTES && !text.is_empty();
        if next >= first && (next - first >= count || full) {
            return Ok((text, next, true));
        }
        if next >= first {
            text.push_str(&line);
            text.push('\n');
        }
        next += 1;
    }
    // Nothing is there yet: the same question is asked again.
    Ok((text, next.max(first), false))
}

#[cfg(test)]
mod tests;
