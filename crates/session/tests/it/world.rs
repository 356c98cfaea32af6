//! A whole runtime for one test: a real store, a scripted model at the HTTP edge, a small project to work in.

use async_trait::async_trait;
use convoke_session::courier::Nowhere;
use convoke_session::{Agents, Courier, Deps, Hub, NewPrompt, NewSession, Posted, Runtime, Target};
use llm::{Configured, Endpoint, Wire};
use proto::entry::{Entry, ReplyPart};
use proto::letter::{AskReply, InputPart};
use proto::{RunId, SessionId};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use store::{Run, Session, Span, Store};
use testkit::{FakeModel, Received, Reply, RepoDir};
use tools::process::{Command, Finished, Processes};

pub(crate) struct World {
    pub(crate) rt: Runtime,
    pub(crate) hub: Hub,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) fake: Arc<FakeModel>,
    pub(crate) repo: Arc<RepoDir>,
    pub(crate) limits: config::Limits,
    pub(crate) agents: BTreeMap<String, config::Agent>,
    /// `tools.sessions.visibility`.
    sight: Value,
    pub(crate) hooks: config::Hooks,
    pub(crate) processes: Arc<dyn Processes>,
    courier: Arc<dyn Courier>,
}

/// These tests start no processes; the reaper has tests of its own.
struct NoProcesses;

#[async_trait]
impl Processes for NoProcesses {
    async fn run(
        &self,
        _: Command,
        cancel: &tokio_util::sync::CancellationToken,
    ) -> Result<Finished, tools::process::Error> {
        cancel.cancelled().await;
        Err(tools::process::Error::Lost { program: "none".into() })
    }
}

impl World {
    pub(crate) async fn new(script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::with(config::Limits::default(), BTreeMap::new(), script).await
    }

    pub(crate) async fn with(
        limits: config::Limits,
        agents: BTreeMap<String, config::Agent>,
        script: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::made(limits, agents, config::Hooks::new(), Arc::new(NoProcesses), script)
    }

    /// With hooks, whose commands `processes` plays.
    pub(crate) fn hooked(
        hooks: config::Hooks,
        processes: Arc<dyn Processes>,
        script: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::made(config::Limits::default(), BTreeMap::new(), hooks, processes, script)
    }

    fn made(
        limits: config::Limits,
        agents: BTreeMap<String, config::Agent>,
        hooks: config::Hooks,
        processes: Arc<dyn Processes>,
        script: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let hub = Hub::default();
        let store: Arc<dyn Store> = Arc::new(store::memory::Memory::new(hub.on_kept()));
        let fake = Arc::new(FakeModel::scripted(script));
        let repo = Arc::new(RepoDir::new());
        let sight = json!({ "default": "all" });
        let courier: Arc<dyn Courier> = Arc::new(Nowhere);
        let set = Set { limits: &limits, agents: &agents, hooks: &hooks, sight: &sight, courier: &courier };
        let rt = runtime(&store, &hub, &fake, &processes, &set);
        Self { rt, hub, store, fake, repo, limits, agents, hooks, processes, sight, courier }
    }

    /// Another visibility for one act, from the next gateway on, which takes over at once.
    pub(crate) async fn allow(&mut self, act: &str, visibility: &str) {
        self.sight[act] = json!(visibility);
        self.restart().await;
    }

    /// Other gateways, from the next gateway on, which takes over at once.
    pub(crate) async fn neighbours(&mut self, courier: Arc<dyn Courier>) {
        self.courier = courier;
        self.restart().await;
    }

    /// A runtime over the same store.
    fn again(&self) -> Runtime {
        let Self { store, hub, fake, limits, agents, hooks, processes, sight, courier, .. } = self;
        runtime(store, hub, fake, processes, &Set { limits, agents, hooks, sight, courier })
    }

    /// The gateway stops in mid-work and a new one takes over: same store, nothing else.
    pub(crate) async fn restart(&mut self) {
        self.rt.stop().await;
        self.rt = self.again();
        self.rt.resume().await.unwrap();
    }

    /// A new gateway takes over while the old one still believes it owns the sessions.
    pub(crate) async fn take_over(&mut self) {
        self.rt = self.again();
        self.rt.resume().await.unwrap();
    }

    pub(crate) async fn prompt(&self, text: &str) -> Posted {
        let cwd = self.repo.path().to_str().unwrap().to_owned();
        self.send(Target::New(NewSession { cwd, ..NewSession::default() }), text).await
    }

    pub(crate) async fn send(&self, target: Target, text: &str) -> Posted {
        let text = text.to_owned();
        self.rt.prompt(NewPrompt { target, text, agent: None, model: None, run: None, steer: true }).await.unwrap()
    }

    /// The run's end, and the quiet of its tree.
    pub(crate) async fn end(&self, run: &RunId) -> Run {
        self.rt.wait(run, true, Some(Duration::from_secs(20))).await.unwrap().expect("the run ended in time")
    }

    /// The run's end, whatever the tree does.
    pub(crate) async fn end_of(&self, run: &RunId) -> Run {
        self.rt.wait(run, false, Some(Duration::from_secs(20))).await.unwrap().expect("the run ended in time")
    }

    pub(crate) async fn log(&self, session: &SessionId) -> Vec<Entry> {
        let entries = self.store.entries(session, Span::After { seq: 0, limit: 10_000 }).await.unwrap();
        entries.into_iter().map(|stored| stored.entry).collect()
    }

    /// What a person would see: one line per entry.
    pub(crate) async fn transcript(&self, session: &SessionId) -> String {
        let mut out = String::new();
        let mut tools = BTreeMap::new();
        for entry in self.log(session).await {
            match entry {
                Entry::Input(input) => {
                    for part in input.parts {
                        if let InputPart::Text { text } = part {
                            writeln!(out, "user    {text}").unwrap();
                        }
                    }
                }
                Entry::Reply(reply) => {
                    for part in reply.parts {
                        match part {
                            ReplyPart::Text(text) => writeln!(out, "model   {}", text.text).unwrap(),
                            ReplyPart::Reasoning(_) | ReplyPart::Block(_) => {}
                            ReplyPart::Call(call) => {
                                tools.insert(call.id, (call.tool.clone(), call.input.get().to_owned()));
                            }
                        }
                    }
                }
                Entry::Result(result) => {
                    let (tool, input) = &tools[&result.call];
                    let state = serde_json::to_value(result.state).unwrap();
                    let first = result.output.lines().next().unwrap_or_default();
                    writeln!(out, "{tool:<8}{input} -> {}: {}", state.as_str().unwrap(), hide(first.trim())).unwrap();
                }
                Entry::Ended(ended) => {
                    let outcome = serde_json::to_value(ended.outcome).unwrap();
                    let why = ended.message.map(|why| format!(" ({why})")).unwrap_or_default();
                    writeln!(out, "run     ended: {}{why}", outcome.as_str().unwrap()).unwrap();
                }
                Entry::Notice(notice) => {
                    writeln!(out, "notice  {}", notice.text.replace(session.as_str(), "ses_own")).unwrap();
                }
                Entry::Started(_) => writeln!(out, "started").unwrap(),
                Entry::Todo(list) => {
                    let items: Vec<String> = list.items.iter().map(ToString::to_string).collect();
                    writeln!(out, "todo    {}", items.join("; ")).unwrap();
                }
                Entry::Undo(undone) => writeln!(out, "undo    back to {}", undone.to).unwrap(),
                Entry::Waiting(_) | Entry::Compaction(_) | Entry::Switch(_) | Entry::ToolsLoaded(_) => {}
            }
        }
        out
    }

    pub(crate) async fn children(&self, root: &SessionId) -> Vec<Session> {
        let mut tree = self.store.tree(root, 5000).await.unwrap();
        tree.remove(0);
        tree
    }

    pub(crate) async fn answer(&self, root: &SessionId, reply: AskReply) {
        let ask = self.asked(root).await;
        self.rt.answer(&ask.id, reply, None).await.unwrap();
    }

    /// What is asked, once something is.
    pub(crate) async fn asked(&self, root: &SessionId) -> store::Ask {
        for _ in 0..500 {
            if let Some(ask) = self.store.asks(Some(root)).await.unwrap().first() {
                return ask.clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("nobody asked");
    }
}

/// What a world is set to.
struct Set<'a> {
    limits: &'a config::Limits,
    agents: &'a BTreeMap<String, config::Agent>,
    hooks: &'a config::Hooks,
    sight: &'a Value,
    courier: &'a Arc<dyn Courier>,
}

fn runtime(
    store: &Arc<dyn Store>,
    hub: &Hub,
    fake: &FakeModel,
    processes: &Arc<dyn Processes>,
    set: &Set<'_>,
) -> Runtime {
    let Set { limits, agents, hooks, sight, courier } = *set;
    let limits_of_all = llm::Limits { context: 1_000_000, output: 1000 };
    let on = |wire: Wire, base_url: String| Configured::new(wire.provider(Endpoint::at(base_url)), limits_of_all);
    let one_at_a_time = Endpoint { concurrency: Some(1), ..Endpoint::at(fake.base_url()) };
    let narrow = Configured::new(Wire::OpenAiChat.provider(one_at_a_time), limits_of_all);
    let two_a_minute = llm::PerMinute { requests: Some(2), tokens: None };
    let slowly = Endpoint { per_minute: two_a_minute, ..Endpoint::at(fake.base_url()) };
    let slow = Configured::new(Wire::OpenAiChat.provider(slowly), limits_of_all);
    let little = llm::Limits { context: 30_000, output: 2_000 };
    let small = Configured::new(Wire::OpenAiChat.provider(Endpoint::at(fake.base_url())), little);
    let mut deferring = on(Wire::Anthropic, fake.origin());
    let defers = llm::Model { defers: true, ..llm::Model::new("m1", 1_000_000, 1000) };
    deferring.models.insert("m1".to_owned(), defers);
    let mut thinker = on(Wire::OpenAiChat, fake.base_url());
    let thinks = llm::Model { reasoning: llm::Reasoning::Effort, ..llm::Model::new("m1", 1_000_000, 1000) };
    thinker.models.insert("m1".to_owned(), thinks);
    let mut providers = BTreeMap::from([
        ("fake".to_owned(), on(Wire::OpenAiChat, fake.base_url())),
        ("openai-chat".to_owned(), on(Wire::OpenAiChat, fake.base_url())),
        ("openai-responses".to_owned(), on(Wire::OpenAiResponses, fake.base_url())),
        ("anthropic".to_owned(), on(Wire::Anthropic, fake.origin())),
        ("narrow".to_owned(), narrow),
        ("small".to_owned(), small),
        ("slow".to_owned(), slow),
        ("deferring".to_owned(), deferring),
        ("thinker".to_owned(), thinker),
    ]);
    for wire in ["openai-chat", "openai-responses", "anthropic"] {
        let sees = llm::Model { images: true, ..llm::Model::new("m1", 1_000_000, 1000) };
        providers.get_mut(wire).expect("it is there").models.insert("m1".to_owned(), sees);
    }
    let models = llm::Models::new("scripts".into(), providers);
    let agents = Agents::new(agents, None, &[]).unwrap();
    let mut loaded = config::Loaded::default();
    loaded.config.hooks.clone_from(hooks);
    Runtime::new(Deps {
        store: store.clone(),
        hub: hub.clone(),
        settings: convoke_session::Fixed::with(agents, Arc::new(models), "fake/m1", loaded),
        limits: limits.clone(),
        processes: processes.clone(),
        private: Vec::new(),
        outputs: std::env::temp_dir().join("convoke-test-outputs"),
        journal: journal(),
        search: config::Search::default(),
        courier: courier.clone(),
        between: convoke_session::Between {
            access: rules::access::Settings::read(&serde_json::json!({
                "tools": { "sessions": { "visibility": sight }, "agentToAgent": { "enabled": true, "allow": ["*"] } },
            }))
            .unwrap(),
            isolated: false,
            child_tools: Vec::new(),
            ping_pong: 5,
            redactor: rules::redact::Redactor::new(["hunter2-hunter2".to_owned()]),
        },
        worktrees: tools::worktree::Settings::default(),
    })
}

/// Where it is kept what files were.
pub(crate) fn journal() -> std::path::PathBuf {
    std::env::temp_dir().join("convoke-test-journal")
}

/// Ids differ from run to run.
fn hide(text: &str) -> String {
    let mut pieces = text.split("ses_");
    let begin = pieces.next().unwrap_or_default().to_owned();
    let rest = |piece: &str| piece.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).to_owned();
    pieces.fold(begin, |all, piece| format!("{all}SESSION{}", rest(piece)))
}
