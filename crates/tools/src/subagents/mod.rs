//! `subagents`: look after the sessions one has started (S11).

mod target;

use crate::{Access, Error, Output, Spec, Tool, ToolCx, answer, tolerant};
use async_trait::async_trait;
use proto::methods::SessionInfo;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

pub struct Subagents;

/// The target that means whichever child is done first.
const ANY: &str = "any";
/// The longest word to a child.
const MAX_WORDS: usize = 4_000;
/// How long `wait` waits, unless said otherwise.
const WAIT_SECONDS: u64 = 60;
const MOST_SECONDS: u64 = 600;

#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// What to do with them.
    action: Action,
    /// Which child: its number in the list, its name, label, key or run id (or the beginning of one), the end of its id
    /// (at least 4 characters), `last` or `all`; with `wait` also `any`, until the first of them is done.
    #[serde(default, deserialize_with = "tolerant::text")]
    target: Option<String>,
    /// What to tell it, with `steer`.
    #[serde(default, deserialize_with = "tolerant::text")]
    message: Option<String>,
    /// Until the first of them is done, with `wait`.
    #[serde(default, deserialize_with = "tolerant::truth")]
    any: bool,
    /// Seconds to wait at most, with `wait`.
    #[serde(default, deserialize_with = "tolerant::number")]
    #[schemars(with = "Option<u64>")]
    timeout: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Action {
    List,
    Steer,
    Kill,
    Wait,
}

#[async_trait]
impl Tool for Subagents {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("subagents", include_str!("prompt.md")).again().json().waits().defer()
    }

    fn access(&self, args: &Args, _: &ToolCx) -> Vec<Access> {
        let action = match args.action {
            Action::List => "list",
            Action::Steer => "steer",
            Action::Kill => "kill",
            Action::Wait => "wait",
        };
        vec![Access::new("subagents", action)]
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let children = match cx.directory.children().await {
            Ok(children) => children,
            Err(error) => return Ok(answer::refused(&error)),
        };
        if args.action == Action::List {
            let rows: Vec<Value> = children.iter().zip(1..).map(|(child, n)| row(n, child)).collect();
            return Ok(Output::json(&json!({ "status": "ok", "count": rows.len(), "children": rows })));
        }
        let any = args.action == Action::Wait && (args.any || args.target.as_deref() == Some(ANY));
        let target = args.target.as_deref().filter(|target| !any || *target != ANY);
        let meant = match target::find(&children, target.unwrap_or(if any { "all" } else { "last" })) {
            Ok(meant) => meant,
            Err(error) => return Ok(answer::refused(&error)),
        };
        match args.action {
            Action::Steer => steer(&args, &meant, cx).await,
            Action::Kill => kill(&meant, cx).await,
            Action::Wait | Action::List => wait(&args, &meant, any, cx).await,
        }
    }
}

fn row(number: usize, child: &SessionInfo) -> Value {
    json!({
        "number": number,
        "key": child.display_key,
        "sessionId": child.session_id,
        "name": child.name,
        "label": child.label,
        "agent": child.agent,
        "status": child.status,
        "title": child.title,
        "runtimeMs": child.runtime_ms,
    })
}

async fn steer(args: &Args, meant: &[&SessionInfo], cx: &ToolCx) -> Result<Output, Error> {
    let text = args.message.as_deref().map(str::trim).unwrap_or_default();
    if text.is_empty() || text.chars().count() > MAX_WORDS {
        return Err(Error::tell(format!("`message` must have 1 to {MAX_WORDS} characters")));
    }
    for child in meant {
        if let Err(error) = cx.office.steer(&child.session_id, text).await {
            return Ok(answer::refused(&error));
        }
    }
    Ok(Output::json(&json!({ "status": "ok", "steered": keys(meant) })))
}

async fn kill(meant: &[&SessionInfo], cx: &ToolCx) -> Result<Output, Error> {
    let mut killed = Vec::new();
    for child in meant {
        match cx.office.kill(&child.session_id).await {
            Ok(true) => killed.push(child.display_key.clone()),
            Ok(false) => {}
            Err(error) => return Ok(answer::refused(&error)),
        }
    }
    Ok(Output::json(&json!({ "status": "ok", "killed": killed })))
}

/// Looks again until all that are meant are idle, or with `any` one that was busy is; or until the time is over.
async fn wait(args: &Args, meant: &[&SessionInfo], any: bool, cx: &ToolCx) -> Result<Output, Error> {
    let limit = Duration::from_secs(args.timeout.unwrap_or(WAIT_SECONDS).min(MOST_SECONDS));
    let end = Instant::now() + limit;
    // One that ended while the model wrote this call is news that waits in the inbox.
    let news = any && cx.directory.status(None).await.is_ok_and(|own| own.queue > 0);
    loop {
        let now = match cx.directory.children().await {
            Ok(children) => children,
            Err(error) => return Ok(answer::refused(&error)),
        };
        let same = |child: &&SessionInfo| meant.iter().any(|m| m.session_id == child.session_id);
        let rows: Vec<&SessionInfo> = now.iter().filter(same).collect();
        let busy = rows.iter().filter(|child| child.status.is_busy()).count();
        let done = busy == 0 || news || (any && rows.iter().any(|child| ended(child, meant)));
        if done || Instant::now() >= end {
            let status = if done { "ok" } else { "timeout" };
            let rows: Vec<Value> = rows.iter().zip(1..).map(|(child, n)| row(n, child)).collect();
            return Ok(Output::json(&json!({ "status": status, "busy": busy, "children": rows })));
        }
        tokio::select! {
            () = cx.cancel.cancelled() => return Err(Error::Cancelled),
            () = tokio::time::sleep(Duration::from_millis(200)) => {}
        }
    }
}

/// Whether a child that was busy is so no more.
fn ended(now: &SessionInfo, before: &[&SessionInfo]) -> bool {
    let was_busy = before.iter().any(|child| child.session_id == now.session_id && child.status.is_busy());
    was_busy && !now.status.is_busy()
}

fn keys(meant: &[&SessionInfo]) -> Vec<String> {
    meant.iter().map(|child| child.display_key.clone()).collect()
}
