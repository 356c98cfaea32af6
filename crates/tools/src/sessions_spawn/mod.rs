//! `sessions_spawn`: start a session that works on a task (S8).

mod args;

use crate::files::{self, Purpose};
use crate::output::cut_line;
use crate::{Access, Error, Output, Spec, Tool, ToolCx, Waited, answer};
use args::Args;
use async_trait::async_trait;
use proto::Outcome;
use proto::entry::{On, Waiting};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub struct SessionsSpawn;

/// Unknown tools that a note names.
const NAMED: usize = 8;

/// What a waiting call remembers of its child.
#[derive(Serialize, Deserialize)]
struct Note {
    result: Value,
    /// Names in `tools` that no tool has.
    #[serde(default)]
    strange: Vec<String>,
}

#[async_trait]
impl Tool for SessionsSpawn {
    type Args = Args;

    fn spec(&self) -> Spec {
        Spec::of::<Args>("sessions_spawn", include_str!("prompt.md"))
            .lasting()
            .again()
            .permission("sessions_spawn")
            .json()
            .waits()
            .defer()
    }

    fn access(&self, args: &Args, cx: &ToolCx) -> Vec<Access> {
        let agent = args.agent().unwrap_or_else(|| cx.directory.owner());
        let mut accesses = vec![Access::new("sessions_spawn", &agent), Access::new("task", &agent).always(&agent)];
        accesses.extend(elsewhere(args, cx));
        accesses
    }

    async fn run(&self, args: Args, cx: &ToolCx) -> Result<Output, Error> {
        let mode = args.mode();
        let elsewhere = elsewhere(&args, cx);
        let request = match args.request() {
            Ok(request) => request,
            Err(args::Problem::Malformed(what)) => return Err(Error::Tell(what)),
            Err(args::Problem::Refused(error)) => return Ok(answer::refused(&error)),
        };
        files::permitted(elsewhere.as_slice(), cx)?;
        let (waits, strange) = (request.waits, strange(&request.tools));
        let child = match cx.spawner.spawn(request).await {
            Ok(child) => child,
            Err(error) => return Ok(answer::refused(&error)),
        };
        let mut result = json!({
            "status": "ok",
            "runId": child.run,
            "childSessionKey": child.key,
            "sessionId": child.session,
            "mode": mode,
            "note": with("The session works on its own now. Its answer reaches you as a message: do not ask or wait for it.", &strange),
        });
        if let (Some(more), Some(note)) = (&child.note, result["note"].as_str()) {
            result["note"] = json!(format!("{more} {note}"));
        }
        if let Some(label) = &child.label {
            result["label"] = json!(label);
        }
        if !child.attachments.is_empty() {
            let receipt =
                |(name, path, sha256): &(String, String, String)| json!({"name": name, "path": path, "sha256": sha256});
            result["attachments"] = child.attachments.iter().map(receipt).collect();
        }
        if !waits {
            return Ok(Output::json(&result));
        }
        let note = serde_json::to_string(&Note { result, strange }).expect("a note is JSON");
        Ok(Output::waiting(On::Run { run: child.run, session: child.session }).note(note))
    }

    fn settle(&self, _: Args, waited: &Waited<'_>) -> Output {
        let finished = waited.finished;
        let note = waited.waiting.note.as_deref().and_then(|note| serde_json::from_str::<Note>(note).ok());
        let (mut result, strange) = note.map_or_else(|| (json!({}), Vec::new()), |note| (note.result, note.strange));
        result["note"] = json!(with("The session is done.", &strange));
        result["reply"] = json!(finished.text);
        result["usage"] = json!(finished.usage);
        result["outcome"] = json!(finished.outcome);
        let output = Output::json(&result);
        if finished.outcome == Outcome::Ok { output } else { output.failed() }
    }

    fn give_up(&self, _: Args, _: &Waiting) -> Output {
        Output::text("the session is still at work; its answer reaches you as a message").failed()
    }
}

/// Where the child is to work is its place to read and write: elsewhere takes the leave that going there takes.
fn elsewhere(args: &Args, cx: &ToolCx) -> Option<Access> {
    let dir = files::resolve(args.cwd()?, &cx.dir);
    files::outside(&dir, Purpose::Write, cx)
}

/// Names that stand for no tool there is. They are kept, since the tool may come later, and the model is told.
fn strange(names: &[String]) -> Vec<String> {
    let is_tool = |name: &str| {
        let is_pattern = name.contains(['*', '?']);
        crate::find(name).is_some()
            || (is_pattern && crate::BUILTIN.iter().any(|tool| rules::matches(name, tool.spec().name)))
    };
    let stands = |name: &str| crate::groups::expand(name).iter().any(|name| is_tool(name));
    names
        .iter()
        .map(|name| name.trim())
        .filter(|name| !stands(name))
        .take(NAMED)
        .map(|name| cut_line(name, 64))
        .collect()
}

/// A note, and the names in `tools` that had no effect.
fn with(note: &str, strange: &[String]) -> String {
    if strange.is_empty() {
        return note.to_owned();
    }
    let names: Vec<String> = strange.iter().map(|name| format!("`{name}`")).collect();
    format!("{note} Unknown in `tools`, so the session has no such tool: {}.", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Place;

    #[test]
    fn unknown_tools_are_named_and_groups_and_other_spellings_are_known() {
        let names = ["read", "Read", "group:fs", "board_*", "group:memory", "reed", "nothing_*"].map(str::to_owned);
        assert_eq!(strange(&names), ["group:memory", "reed", "nothing_*"]);
        assert!(with("Done.", &strange(&names)).ends_with("no such tool: `group:memory`, `reed`, `nothing_*`."));
    }

    #[test]
    fn a_child_elsewhere_asks_for_leave_to_go_there() {
        let (place, other) = (Place::new(), Place::new());
        place.file("sub/a", "x");
        let asks = |cwd: &str| place.asks(&SessionsSpawn, json!({ "task": "t", "agentId": "general", "cwd": cwd }));
        assert_eq!(asks("sub").len(), 2);
        let leave = format!("external_directory {}/*", other.dir().display());
        assert_eq!(asks(other.dir().to_str().unwrap())[2], leave);
        std::os::unix::fs::symlink(other.dir(), place.dir().join("way")).unwrap();
        assert_eq!(asks("way")[2], leave);
    }
}
