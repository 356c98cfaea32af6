//! Where hooks hang in the life of a session: before a run and its calls, and after what was kept.
//!
//! What can still be stopped waits for its hooks as it would wait for a model: in a task, while letters are read. What is
//! merely told is told after its commit, in order, by tasks that outlive the actor.

use super::calls::Judged;
use super::runs::Ending;
use super::think::Asked;
use super::{Actor, GRACE, Outcome, Stop};
use crate::hooks::{Happening, Hooks, On, Scene};
use crate::view::{OpenState, View};
use futures_util::future::join_all;
use llm::Part;
use proto::entry::{CompactionState, Decision, Entry, On as WaitsOn, State};
use proto::letter::{AskReply, InputPart};
use proto::{AskId, Call, CallId, Code, Status};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use std::sync::Arc;
use store::{Ask, AskChange, Batch};
use tokio_util::sync::CancellationToken;
use tools::{Error, Output};

/// A reply whose calls hooks have looked at.
pub(super) struct Weighed {
    pub(super) reply: llm::Reply,
    pub(super) model: String,
    pub(super) asked: Asked,
    /// One for each part.
    pub(super) remarks: Vec<Option<Remark>>,
}

/// What hooks made of one call.
pub(super) struct Remark {
    pub(super) call: CallId,
    /// Why it must not run.
    pub(super) stopped: Option<String>,
    /// The input it is to run with instead.
    pub(super) changed: Option<Box<RawValue>>,
}

impl Default for Remark {
    fn default() -> Self {
        Self { call: CallId::new(), stopped: None, changed: None }
    }
}

/// What a commit brought that hooks are told.
pub(super) struct News {
    entries: Vec<Entry>,
    asks: Vec<Ask>,
    status: Option<Status>,
    before: View,
}

impl Actor {
    fn scene(&self) -> Scene {
        Scene::of(&self.row)
    }

    /// Starts what hangs on the beginning of a run. True while that has to be waited for.
    pub(super) fn greet(&mut self) -> bool {
        if self.role.hooks.is_empty() {
            return false;
        }
        let Some(now) = self.view.answering() else { return false };
        let (run, steps) = (now.run.clone(), now.steps);
        if self.greeted.as_ref() == Some(&run) {
            return false;
        }
        self.greeted = Some(run.clone());
        let agent = self.role.profile.name.clone();
        // What was answered before a restart has begun long ago.
        let heard = |on: &On| steps == 0 && self.role.hooks.hear(*on, &agent);
        let new = std::mem::take(&mut self.new).then_some(On::SessionStart);
        let begins: Vec<On> = new.into_iter().chain([On::AgentStart]).filter(heard).collect();
        if begins.is_empty() {
            return false;
        }
        let (hooks, scene, cancel) = (self.role.hooks.clone(), self.scene(), self.work.clone());
        self.thinking = true;
        self.tasks.spawn(async move {
            for on in begins {
                let happening = Happening { on, about: agent.clone(), fields: json!({ "runId": run }) };
                let said = hooks.run(&scene, happening, &cancel).await;
                if said.stopped.is_some() {
                    return Outcome::Greeted(said.stopped);
                }
            }
            Outcome::Greeted(None)
        });
        true
    }

    pub(super) async fn greeted(&mut self, stopped: Option<String>) -> Result<(), Stop> {
        self.thinking = false;
        let Some(why) = stopped else { return Ok(()) };
        let hint = Some("`convoke hooks` lists the hooks there are");
        self.end(Ending::error(Code::Denied, &format!("a hook stopped this run: {why}"), hint)).await
    }

    /// Lets hooks look at the calls of a reply before anything is made of it: they may change an input or say no. What
    /// the rules refuse anyway is not shown to them; what they change is judged like any other input.
    pub(super) async fn weigh(&mut self, reply: llm::Reply, model: String, asked: Asked) -> Result<(), Stop> {
        let mut waits: Vec<Option<(CallId, Happening)>> = Vec::with_capacity(reply.parts.len());
        for part in &reply.parts {
            waits.push(self.before_call(part, asked).await);
        }
        if waits.iter().all(Option::is_none) {
            return self.record(Weighed { reply, model, asked, remarks: Vec::new() }).await;
        }
        let (hooks, scene, cancel) = (self.role.hooks.clone(), self.scene(), self.work.clone());
        self.thinking = true;
        self.tasks.spawn(async move {
            let run = async |wait: Option<(CallId, Happening)>| {
                let (call, happening) = wait?;
                let said = hooks.run(&scene, happening, &cancel).await;
                let changed = said.changed.and_then(|input| to_raw_value(&input).ok());
                Some(Remark { call, stopped: said.stopped, changed })
            };
            let remarks = join_all(waits.into_iter().map(run)).await;
            Outcome::Weighed(Box::new(Weighed { reply, model, asked, remarks }))
        });
        Ok(())
    }

    pub(super) async fn weighed(&mut self, weighed: Weighed) -> Result<(), Stop> {
        self.thinking = false;
        self.record(weighed).await
    }

    async fn before_call(&self, part: &Part, asked: Asked) -> Option<(CallId, Happening)> {
        let Part::Call { tool, .. } = part else { return None };
        let name = tools::find(tool)?.spec().name;
        if !self.role.hooks.hear(On::ToolBefore, name) {
            return None;
        }
        let Judged { call, .. } =
            self.judged(part, asked, None).await.filter(|judged| judged.call.decision != Decision::Deny)?;
        let input: Value = serde_json::from_str(call.input.get()).ok()?;
        let fields = json!({ "tool": name, "callId": call.id, "input": input });
        Some((call.id, Happening { on: On::ToolBefore, about: name.into(), fields }))
    }

    /// What hooks are to be told once a batch is kept; nothing is copied when there are none.
    pub(super) fn news(&self, batch: &Batch) -> Option<News> {
        if self.role.hooks.is_empty() {
            return None;
        }
        let opened = |change: &AskChange| match change {
            AskChange::Open(ask) => Some((**ask).clone()),
            AskChange::Close { .. } => None,
        };
        Some(News {
            entries: batch.entries.clone(),
            asks: batch.asks.iter().filter_map(opened).collect(),
            status: batch.row.status,
            before: self.view.clone(),
        })
    }

    pub(super) fn tell_hooks(&mut self, news: News) {
        let agent = self.role.profile.name.clone();
        let mut view = news.before;
        for (entry, seq) in news.entries.iter().zip(1..) {
            let happening = happened(entry, &view, &agent);
            view.apply(seq, entry);
            happening.into_iter().for_each(|happening| self.tell(happening, None));
            let rests = |status: Status| !status.is_busy();
            if let (Entry::Ended(ended), Some(status)) = (entry, news.status.filter(|status| rests(*status))) {
                let fields = json!({ "runId": ended.run, "status": status });
                self.tell(Happening { on: On::SessionEnd, about: agent.clone(), fields }, None);
            }
        }
        for ask in news.asks {
            let fields = json!({
                "askId": ask.id, "callId": ask.call, "tool": ask.tool,
                "permission": ask.permission, "patterns": ask.patterns,
            });
            let happening = Happening { on: On::PermissionAsked, about: ask.tool.clone(), fields };
            self.tell(happening, Some(ask.id));
        }
    }

    /// Tells hooks of something, after all that this session told them before. Whoever says no to a question has
    /// answered it.
    fn tell(&mut self, happening: Happening, ask: Option<AskId>) {
        if !self.role.hooks.hear(happening.on, &happening.about) {
            return;
        }
        let (rt, scene, before) = (self.rt.clone(), self.scene(), self.telling.take());
        let hooks = self.role.hooks.clone();
        self.telling = Some(self.rt.spawn(async move {
            if let Some(before) = before {
                let _ = before.await;
            }
            let cancel = CancellationToken::new();
            let said = tokio::select! {
                said = hooks.run(&scene, happening, &cancel) => said,
                // A gateway that stops gives them a moment.
                () = rt.stopping(GRACE) => return,
            };
            if let (Some(ask), Some(why)) = (ask, said.stopped)
                && let Err(error) = rt.answer(&ask, AskReply::Reject, Some(format!("a hook said no: {why}"))).await
            {
                tracing::debug!(%ask, %error, "a hook's no came late");
            }
        }));
    }
}

/// What hooks are told of an entry, given what the log said before it.
fn happened(entry: &Entry, before: &View, agent: &str) -> Option<Happening> {
    let happening = |on: On, about: &str, fields: Value| Some(Happening { on, about: about.into(), fields });
    match entry {
        Entry::Input(input) => {
            let from = input.provenance.as_ref().filter(|from| from.kind == "inter_session")?;
            let sender = from.source_name.as_deref().or(from.source_session_key.as_deref()).unwrap_or_default();
            let text = |part: &InputPart| match part {
                InputPart::Text { text } => Some(text.clone()),
                InputPart::Subtask { .. } | InputPart::File { .. } => None,
            };
            let message = input.parts.iter().filter_map(text).collect::<Vec<_>>().join("\n");
            let fields = json!({
                "from": sender, "fromKey": from.source_session_key, "messageId": input.letter, "message": message,
            });
            happening(On::MessageReceived, sender, fields)
        }
        Entry::Result(result) => {
            // Calls that ran in a task of ours have told their hooks there.
            let open = before.find(&result.call)?;
            let OpenState::Waiting(waiting) = &open.state else { return None };
            if matches!(waiting.on, WaitsOn::Ask { .. }) {
                return None;
            }
            happening(On::ToolAfter, &open.call.tool, after(&open.call, result.state, &result.output, result.ms))
        }
        Entry::Ended(ended) => {
            let text = before.answering().and_then(|now| now.said.as_ref()).map(|(_, text)| text.to_string());
            let fields = json!({
                "runId": ended.run, "outcome": ended.outcome, "code": ended.code, "message": ended.message, "text": text,
            });
            happening(On::AgentStop, agent, fields)
        }
        Entry::Compaction(compaction) => {
            let on = match compaction.state {
                CompactionState::Pending => On::CompactBefore,
                CompactionState::Done => On::CompactAfter,
            };
            happening(on, agent, json!({ "auto": compaction.auto }))
        }
        Entry::Switch(switch) => {
            let (on, worktree) = match (&switch.worktree, &switch.removed) {
                (Some(worktree), _) => (On::WorktreeCreate, worktree),
                (None, Some(worktree)) => (On::WorktreeRemove, worktree),
                (None, None) => return None,
            };
            let fields = json!({ "name": worktree.name, "path": worktree.path, "branch": worktree.branch });
            happening(on, &worktree.name, fields)
        }
        Entry::Reply(_)
        | Entry::Started(_)
        | Entry::Waiting(_)
        | Entry::Notice(_)
        | Entry::ToolsLoaded(_)
        | Entry::Todo(_)
        | Entry::Undo(_) => None,
    }
}

/// What hooks are told of a call that is over.
fn after(call: &Call, state: State, output: &str, ms: u64) -> Value {
    let input: Value = serde_json::from_str(call.given().get()).unwrap_or_default();
    json!({ "tool": call.tool, "callId": call.id, "input": input, "state": state, "output": output, "ms": ms })
}

/// The hooks of one call's end, made before it starts.
pub(super) struct After {
    hooks: Arc<Hooks>,
    scene: Scene,
    call: Call,
}

impl Actor {
    pub(super) fn after_call(&self, call: &CallId) -> Option<After> {
        let call = &self.view.find(call)?.call;
        let hooks = &self.role.hooks;
        let heard = !hooks.is_empty() && hooks.hear(On::ToolAfter, &call.tool);
        heard.then(|| After { hooks: hooks.clone(), scene: self.scene(), call: (**call).clone() })
    }
}

impl After {
    /// Tells hooks what came of a call, and the model what they say to it. What waits or was cancelled is not over.
    pub(super) async fn run(
        self,
        result: Result<Output, Error>,
        ms: u64,
        cancel: &CancellationToken,
    ) -> Result<Output, Error> {
        let (state, output) = match &result {
            Ok(output) if output.wait.is_some() => return result,
            Err(Error::Cancelled) => return result,
            Ok(output) if output.failed => (State::Error, output.text.clone()),
            Ok(output) => (State::Ok, output.text.clone()),
            Err(error) => (State::Error, error.to_string()),
        };
        let fields = after(&self.call, state, &output, ms);
        let happening = Happening { on: On::ToolAfter, about: self.call.tool.clone(), fields };
        let said = self.hooks.run(&self.scene, happening, cancel).await;
        let Some(why) = said.stopped else { return result };
        let told = |text: &str| format!("{text}\n\n[a hook of the user says] {why}");
        match result {
            Ok(output) => Ok(Output { text: told(&output.text), ..output }),
            Err(error) => Err(Error::Tell(told(&error.to_string()))),
        }
    }
}
