//! An actor with nothing around it: moments that a whole runtime meets only by chance.

use super::calls::Called;
use super::runs::Ending;
use super::{Actor, Handle};
use crate::doors::{Effects, new_row};
use crate::grant::Grant;
use crate::settings::Fixed;
use crate::{Agents, Between, Deps, Hub, Runtime};
use async_trait::async_trait;
use proto::entry::{Call, Decision, Finish, Input, On, Reply, ReplyPart, State, Waiting};
use proto::letter::{Abort, Prompt, Reason, Sender};
use proto::{AgentId, Body, CallId, Class, Code, Entry, Key, Letter, LetterId, RunId, SessionId, Status, Usage};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{Batch, Fence, Mail, Memory, Post, RowChange, Session, WaitChange};
use tokio_util::sync::CancellationToken;
use tools::Output;
use tools::process::{Command, Finished, Processes};

struct NoProcesses;

#[async_trait]
impl Processes for NoProcesses {
    async fn run(&self, _: Command, _: &CancellationToken) -> Result<Finished, tools::process::Error> {
        Err(tools::process::Error::Lost { program: "none".into() })
    }
}

fn runtime() -> Runtime {
    let hub = Hub::default();
    let models = llm::Models::new("scripts".into(), BTreeMap::new());
    let agents = Agents::new(&BTreeMap::new(), None, &[]).unwrap();
    Runtime::new(Deps {
        search: config::Search::On,
        courier: Arc::new(crate::courier::Nowhere),
        store: Arc::new(Memory::new(hub.on_kept())),
        hub,
        settings: Fixed::new(agents, Arc::new(models), "offline/plain"),
        limits: config::Limits::default(),
        processes: Arc::new(NoProcesses),
        private: Vec::new(),
        outputs: std::env::temp_dir(),
        journal: std::env::temp_dir().join("convoke-test-journal"),
        between: Between::default(),
        worktrees: tools::worktree::Settings::default(),
    })
}

fn row() -> Session {
    let id = SessionId::new();
    let key = Key::chat(&AgentId::parse("build").unwrap(), &id);
    new_row(id, &key, "build", "/".into(), &Grant::default())
}

/// A log that ends with a call under way.
fn calling(call: &CallId, tool: &str) -> Vec<Entry> {
    let run = RunId::new();
    let input = Input {
        letter: run.letter(),
        run,
        parts: Prompt::text("go").parts,
        agent: "build".into(),
        name: None,
        model: "offline/plain".into(),
        provenance: None,
        conversation: None,
        until: None,
        purse: None,
        shutdown: None,
        compact: None,
    };
    let input_json = serde_json::value::RawValue::from_string("{}".into()).unwrap();
    let call = Call {
        id: call.clone(),
        tool: tool.into(),
        input: input_json,
        changed: None,
        decision: Decision::Run,
        wire_id: None,
    };
    let reply = Reply {
        step: 1,
        parts: vec![ReplyPart::Call(call)],
        usage: Usage::default(),
        finish: Finish::ToolCalls,
        model: "offline/plain".into(),
        deferred: Vec::new(),
    };
    vec![Entry::Input(input), Entry::Reply(reply)]
}

async fn stored(rt: &Runtime, batch: Batch) -> Session {
    let row = row();
    let mail = Mail { open: vec![row.clone()], ..Mail::default() };
    rt.store().deliver(mail).await.unwrap();
    rt.store().commit(&row.id, Fence::Claim, batch).await.unwrap();
    row
}

async fn actor(rt: &Runtime, session: &SessionId) -> Actor {
    let awake = rt.store().wake(session).await.unwrap();
    Actor::of(rt.inner().clone(), Arc::new(Handle::default()), awake)
}

fn letter(to: &SessionId, class: Class, body: Body) -> Post {
    let letter = Letter {
        id: LetterId::new(),
        to: to.clone(),
        from: Sender::Person,
        class,
        body,
        provenance: None,
        conversation: None,
        report: None,
        expires: None,
    };
    Post { letter, person: false, queue: None }
}

/// What a stopped call is told about, and in which state.
async fn told(effects: Effects) -> (State, String) {
    let (rt, call) = (runtime(), CallId::new());
    let row = stored(&rt, Batch { entries: calling(&call, "sessions_spawn"), ..Batch::default() }).await;
    let actor = actor(&rt, &row.id).await;
    let result = Ok(Output::text("started"));
    let called = vec![Called { call, result, effects, ms: 1 }];
    let entries = actor.stopped_entries(&mut Batch::default(), called, &[], "stopped");
    let [Entry::Result(result)] = &entries[..] else { panic!("{entries:?}") };
    (result.state, result.output.clone())
}

#[tokio::test]
async fn a_stopped_call_does_not_say_that_it_did_what_is_not_done_any_more() {
    assert_eq!(told(Effects::default()).await, (State::Ok, "started".into()));
    let child = Effects { open: vec![row()], ..Effects::default() };
    assert_eq!(told(child).await, (State::Interrupted, "stopped".into()));
    let abort = Body::Abort(Abort { reason: Reason::User, run: None, wave: None });
    let sent = Effects { post: vec![letter(&SessionId::new(), Class::Control, abort)], ..Effects::default() };
    assert_eq!(told(sent).await, (State::Interrupted, "stopped".into()));
}

/// The session once its run has failed, with such a letter in the inbox that the actor has not read.
async fn status_with(class: Class, body: Body) -> Status {
    let (rt, call) = (runtime(), CallId::new());
    let row = RowChange { status: Some(Status::Running), ..RowChange::default() };
    let session = stored(&rt, Batch { entries: calling(&call, "bash"), row, ..Batch::default() }).await;
    let mut actor = actor(&rt, &session.id).await;
    let post = vec![letter(&session.id, class, body)];
    rt.store().deliver(Mail { post, ..Mail::default() }).await.unwrap();
    actor.end(Ending::error(Code::Provider, "no answer", None)).await.unwrap();
    rt.store().session(&session.id).await.unwrap().unwrap().status
}

#[tokio::test]
async fn a_failed_run_leaves_its_session_queued_for_mail_and_idle_for_anything_else() {
    let text = || Body::Prompt(Prompt::text("and this?"));
    assert_eq!(status_with(Class::Request, text()).await, Status::Queued);
    assert_eq!(status_with(Class::Steer, text()).await, Status::Queued);
    let abort = Body::Abort(Abort { reason: Reason::User, run: Some(RunId::new()), wave: None });
    assert_eq!(status_with(Class::Control, abort).await, Status::Idle);
}

#[tokio::test]
async fn a_circle_that_a_crash_left_behind_is_found() {
    let rt = runtime();
    let calls = [CallId::new(), CallId::new()];
    let [one, two] = [row(), row()];
    rt.store().deliver(Mail { open: vec![one.clone(), two.clone()], ..Mail::default() }).await.unwrap();
    for (call, (own, other)) in calls.iter().zip([(&one, &two), (&two, &one)]) {
        let mut entries = calling(call, "sessions_send");
        let on = On::Run { run: RunId::new(), session: other.id.clone() };
        entries.push(Entry::Waiting(Waiting { call: call.clone(), on, until: None, note: None }));
        let waits = vec![WaitChange::Add { call: call.clone(), on: other.id.clone() }];
        rt.store().commit(&own.id, Fence::Claim, Batch { entries, waits, ..Batch::default() }).await.unwrap();
    }
    let mut first = actor(&rt, &one.id).await;
    first.recover().await.unwrap();
    assert!(first.view.open().is_empty(), "{:?}", first.view.open());
    assert!(!rt.store().waits_for(&one.id, &one.id).await.unwrap());
    let mut second = actor(&rt, &two.id).await;
    second.recover().await.unwrap();
    assert_eq!(second.view.open().len(), 1, "with the circle gone the other one goes on waiting");
}

#[tokio::test]
async fn a_parent_keeps_waiting_for_a_child_that_closed_a_circle() {
    let (rt, calls) = (runtime(), [CallId::new(), CallId::new()]);
    let parent = row();
    let child = row();
    let path = format!("{}{}/", parent.path, child.id);
    let child = Session { parent: Some(parent.id.clone()), root: parent.id.clone(), path, depth: 1, ..child };
    rt.store().deliver(Mail { open: vec![parent.clone(), child.clone()], ..Mail::default() }).await.unwrap();
    for (call, (own, other)) in calls.iter().zip([(&parent, &child), (&child, &parent)]) {
        let mut entries = calling(call, "task");
        let on = On::Run { run: RunId::new(), session: other.id.clone() };
        entries.push(Entry::Waiting(Waiting { call: call.clone(), on, until: None, note: None }));
        let waits = vec![WaitChange::Add { call: call.clone(), on: other.id.clone() }];
        rt.store().commit(&own.id, Fence::Claim, Batch { entries, waits, ..Batch::default() }).await.unwrap();
    }
    let mut above = actor(&rt, &parent.id).await;
    above.recover().await.unwrap();
    assert_eq!(above.view.open().len(), 1);
    let mut below = actor(&rt, &child.id).await;
    below.recover().await.unwrap();
    assert!(below.view.open().is_empty());
}

#[tokio::test]
async fn an_end_is_told_to_nobody_when_whoever_asked_is_hidden() {
    let (rt, call) = (runtime(), CallId::new());
    let hidden = Session { archived: true, ..row() };
    rt.store().deliver(Mail { open: vec![hidden.clone()], ..Mail::default() }).await.unwrap();
    let session = stored(&rt, Batch { entries: calling(&call, "bash"), ..Batch::default() }).await;
    let mut actor = actor(&rt, &session.id).await;
    actor.report = Some(proto::letter::Report { session: hidden.id, call: None, late: false });
    actor.end(Ending::error(Code::Provider, "no answer", None)).await.unwrap();
    assert_eq!(rt.store().session(&session.id).await.unwrap().unwrap().status, Status::Idle);
}
