//! The `Tool` door: what a tool is, what it is given, and what it gives back.
//!
//! A tool never sees a session. It gets a [`ToolCx`] with the doors it may knock at; what it wants posted or spawned is
//! collected by the session and committed together with its result.

use crate::doors::{Background, Board, Catalogue, Directory, Office, Spawner};
use crate::ignored::Ignored;
use crate::process::{Live, Processes};
use async_trait::async_trait;
use proto::entry::{On, Waiting};
use proto::letter::Finished;
use proto::{CallId, Question, SessionId};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Why a tool call has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The model can do something about it: it is told, and the turn goes on.
    #[error("{0}")]
    Tell(String),
    /// Nobody in the conversation can: the model is told that it broke, and the operator why.
    #[error("tool `{tool}` broke: {source}")]
    Broken { tool: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
    /// The call was cancelled while it ran.
    #[error("cancelled")]
    Cancelled,
}

impl Error {
    pub fn tell(message: impl Into<String>) -> Self {
        Self::Tell(message.into())
    }
}

/// Something a tool can do, with typed arguments. `BUILTIN` lists them as [`AnyTool`], which every `Tool` is.
#[async_trait]
pub trait Tool: Send + Sync {
    type Args: DeserializeOwned + JsonSchema + Send + 'static;

    /// Name, description and schema. Must not change between calls: the request's prefix is cached by its bytes.
    fn spec(&self) -> Spec;

    /// A description that depends on who is shown it; `None` keeps the one of `spec`.
    fn describe(&self, _: &Audience) -> Option<String> {
        None
    }

    /// What `rules` judges before the call runs. Must not touch anything but names of files.
    fn access(&self, args: &Self::Args, cx: &ToolCx) -> Vec<Access>;

    /// What the call would make of files, as a unified diff, for a person who is asked about it. Must not change anything;
    /// nothing where that is not known.
    fn preview(&self, _: &Self::Args, _: &ToolCx) -> Option<String> {
        None
    }

    /// What it wants to know from a person. Such a call does not run: what they say is its result.
    fn asks(&self, _: Self::Args) -> Result<Vec<Question>, Error> {
        Ok(Vec::new())
    }

    /// Words for what they said: a list of answers for each question.
    fn answered(&self, _: Self::Args, answers: &[Vec<String>]) -> Output {
        Output::text(answers.concat().join("\n"))
    }

    /// Does it. Must stop soon after `cx.cancel` fires and leave nothing running behind.
    async fn run(&self, args: Self::Args, cx: &ToolCx) -> Result<Output, Error>;

    /// Words for the end of what a call waited for ([`Output::wait`]).
    fn settle(&self, _: Self::Args, waited: &Waited<'_>) -> Output {
        Output::text(waited.finished.text.clone())
    }

    /// Words for a wait that came to its own end first.
    fn give_up(&self, _: Self::Args, _: &Waiting) -> Output {
        Output::text("the wait ended before there was an answer").failed()
    }
}

/// The end of what a call waited for.
pub struct Waited<'a> {
    pub waiting: &'a Waiting,
    pub finished: &'a Finished,
}

/// What the model is shown of a tool.
#[derive(Debug, Clone)]
pub struct Spec {
    pub name: &'static str,
    pub description: &'static str,
    /// Makes the JSON Schema of the arguments. Not the schema itself: names are looked up with every call, schemas are not.
    pub schema: fn() -> Box<RawValue>,
    /// Names of other products for the same thing, accepted in calls and rules.
    pub aliases: &'static [&'static str],
    /// The permission its calls ask for (`edit` for write and edit); used to hide the tool when that is denied whole.
    pub permission: &'static str,
    /// Such a call only waits, and does not count against the calls that run at once.
    pub waits: bool,
    /// It answers in JSON, refusals too.
    pub json: bool,
    /// The model is told its name only, and loads it by `tool_search` or by calling it.
    pub defer: bool,
    /// Never deferred, whatever else is said.
    pub always_load: bool,
    /// A call that a crash cut off is made again: it only reads, or what it does is stored together with its result.
    pub again: bool,
    /// What it does stays when the session's changes are undone, and whoever undoes them is told.
    pub lasting: bool,
}

impl Spec {
    pub fn of<A: JsonSchema>(name: &'static str, description: &'static str) -> Self {
        Self {
            name,
            description,
            schema: schema::<A>,
            aliases: &[],
            permission: name,
            waits: false,
            json: false,
            defer: false,
            always_load: false,
            again: false,
            lasting: false,
        }
    }

    #[must_use]
    pub fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    #[must_use]
    pub fn permission(mut self, permission: &'static str) -> Self {
        self.permission = permission;
        self
    }

    #[must_use]
    pub fn waits(mut self) -> Self {
        self.waits = true;
        self
    }

    #[must_use]
    pub fn json(mut self) -> Self {
        self.json = true;
        self
    }

    #[must_use]
    pub fn defer(mut self) -> Self {
        self.defer = true;
        self
    }

    #[must_use]
    pub fn always_load(mut self) -> Self {
        self.always_load = true;
        self
    }

    #[must_use]
    pub fn again(mut self) -> Self {
        self.again = true;
        self
    }

    #[must_use]
    pub fn lasting(mut self) -> Self {
        self.lasting = true;
        self
    }
}

/// The schema a model is sent: plain, inlined, without the draft's own address.
fn schema<A: JsonSchema>() -> Box<RawValue> {
    let mut settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    schema.remove("title");
    // Some servers refuse a schema without it.
    if schema.get("properties").is_none() {
        schema.insert("properties".into(), serde_json::json!({}));
    }
    serde_json::value::to_raw_value(&schema).expect("a schema is JSON")
}

/// Who is shown a tool's description.
#[derive(Debug, Clone, Default)]
pub struct Audience {
    /// Agents this caller may start, with what each is for.
    pub agents: Vec<AgentInfo>,
    /// It has no tools but those that direct others.
    pub coordinates: bool,
}

#[derive(Debug, Clone)]
pub struct AgentInfo {
    pub name: String,
    pub description: String,
}

/// One thing a call wants to touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    pub permission: String,
    pub pattern: String,
    /// Patterns an "always" answer could allow, the narrowest first; none where that would allow more than is asked.
    pub always: Vec<String>,
}

impl Access {
    /// With `*` as what "always" would allow.
    pub fn new(permission: impl Into<String>, pattern: impl Into<String>) -> Self {
        Self { permission: permission.into(), pattern: pattern.into(), always: vec!["*".into()] }
    }

    /// With this as what "always" would allow; an empty one is none.
    #[must_use]
    pub fn always(self, pattern: impl Into<String>) -> Self {
        self.always_one_of([pattern.into()])
    }

    /// With a choice of them.
    #[must_use]
    pub fn always_one_of(mut self, patterns: impl IntoIterator<Item = String>) -> Self {
        self.always = patterns.into_iter().filter(|pattern| !pattern.is_empty()).collect();
        self
    }
}

/// What a call brought.
#[derive(Debug, Default)]
pub struct Output {
    pub text: String,
    /// Structured facts beside the text.
    pub data: Option<Box<RawValue>>,
    /// What the model is shown beside the text, where it can look at things.
    pub files: Vec<proto::entry::File>,
    /// Not done yet: the call waits for this, and [`Tool::settle`] finishes it.
    pub wait: Option<Wait>,
    /// The call did not do what it was asked, and the text says why.
    pub failed: bool,
    /// The turn is over with this call.
    pub ends_turn: bool,
    /// The session's answer to the question whether it may be shut down.
    pub shutdown: Option<bool>,
    /// What the session is from here on.
    pub becomes: Option<Becomes>,
    /// The plan that was approved with that.
    pub plan: Option<String>,
    /// Deferred tools the model may call from here on.
    pub loads: Vec<String>,
    /// The session's list of what is left to do, from here on.
    pub todo: Option<Vec<proto::Todo>>,
    /// The session works somewhere else from here on: in the commit that stores this result.
    pub moves: Option<Move>,
}

/// What a call makes of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Becomes {
    /// Look and think, change nothing.
    Planning,
    /// The plan was approved.
    Working,
}

/// Where a session goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Absolute and free of symlinks.
    pub cwd: PathBuf,
    /// The worktree it is in from then on, if it is one.
    pub worktree: Option<proto::Worktree>,
    /// The worktree it was in, when that is gone now.
    pub removed: Option<proto::Worktree>,
}

/// What a call waits for, and how long.
#[derive(Debug)]
pub struct Wait {
    pub on: On,
    pub limit: Option<Duration>,
    /// What [`Tool::settle`] and [`Tool::give_up`] need to know beside the arguments; kept in the log.
    pub note: Option<String>,
}

impl Output {
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    #[must_use]
    pub fn with(mut self, data: &impl serde::Serialize) -> Self {
        self.data = serde_json::value::to_raw_value(data).ok();
        self
    }

    /// A JSON result: text for the model, and the same as data.
    pub fn json(value: &impl serde::Serialize) -> Self {
        let raw = serde_json::value::to_raw_value(value).expect("a result is JSON");
        Self { text: raw.get().to_owned(), data: Some(raw), ..Self::default() }
    }

    #[must_use]
    pub fn moving(mut self, to: Move) -> Self {
        self.moves = Some(to);
        self
    }

    #[must_use]
    pub fn failed(mut self) -> Self {
        self.failed = true;
        self
    }

    pub fn waiting(on: On) -> Self {
        Self { wait: Some(Wait { on, limit: None, note: None }), ..Self::default() }
    }

    #[must_use]
    pub fn at_most(mut self, limit: Duration) -> Self {
        if let Some(wait) = &mut self.wait {
            wait.limit = Some(limit);
        }
        self
    }

    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        if let Some(wait) = &mut self.wait {
            wait.note = Some(note.into());
        }
        self
    }
}

/// Whether a call may touch something, asked when it is about to: what it named may lead elsewhere by then, and a search
/// meets files nobody named.
pub trait Leave: Send + Sync {
    fn has(&self, permission: &str, pattern: &str) -> bool;

    /// Whether a file or folder is one of this program's own, which a search passes by without naming it.
    fn is_private(&self, _: &Path) -> bool {
        false
    }
}

/// Leave for everything: where nothing is judged.
pub struct Freely;

impl Leave for Freely {
    fn has(&self, _: &str, _: &str) -> bool {
        true
    }
}

/// What a call may use.
#[derive(Clone)]
pub struct ToolCx {
    pub session: SessionId,
    pub call: CallId,
    /// The agent profile the session runs as.
    pub agent: String,
    /// The session's directory: absolute and free of symlinks.
    pub dir: PathBuf,
    /// The root of what counts as inside: the repository that holds `dir`, or `dir` itself.
    pub worktree: PathBuf,
    /// Where output too long for the model is saved whole.
    pub outputs: PathBuf,
    pub cancel: CancellationToken,
    pub leave: Arc<dyn Leave>,
    pub processes: Arc<dyn Processes>,
    pub spawner: Arc<dyn Spawner>,
    pub directory: Arc<dyn Directory>,
    pub office: Arc<dyn Office>,
    pub board: Arc<dyn Board>,
    pub background: Arc<dyn Background>,
    pub catalogue: Arc<dyn Catalogue>,
    /// Who works on files for it.
    pub hands: crate::files::Hands,
    /// What this session has read, so that an edit can tell when a file changed under it.
    pub files: Arc<crate::files::Seen>,
    /// What files were before this session changed them.
    pub journal: crate::journal::Journal,
    pub worktrees: crate::worktree::Here,
    /// What its commands are kept in; nothing unless given.
    pub confine: Option<Arc<crate::sandbox::Confine>>,
    /// The session's list of what is left to do.
    pub todo: Arc<Vec<proto::Todo>>,
    /// What is put there is shown to whoever watches, and never kept.
    pub live: Live,
}

impl ToolCx {
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The rules it is held to, where there are some.
    pub(crate) fn rules(&self) -> Option<&rules::Policy> {
        self.confine.as_ref().map(|confine| confine.rules.as_ref())
    }

    /// Where this call notes what it changes.
    pub(crate) fn page(&self) -> crate::journal::Page {
        self.journal.page(self.call.as_str())
    }

    /// Where this call makes or removes a worktree from.
    pub(crate) fn site(&self, dir: &Path) -> crate::worktree::Site {
        crate::worktree::Site {
            processes: Arc::clone(&self.processes),
            cancel: self.cancel.clone(),
            dir: dir.to_owned(),
            session: self.session.clone(),
            agent: self.agent.clone(),
        }
    }
}

/// A tool with its arguments' type erased.
#[async_trait]
pub trait AnyTool: Send + Sync {
    fn spec(&self) -> Spec;
    fn describe(&self, audience: &Audience) -> Option<String>;
    /// What the call would touch, or what is wrong with its arguments.
    fn access(&self, input: &RawValue, cx: &ToolCx) -> Result<Vec<Access>, Error>;
    fn preview(&self, input: &RawValue, cx: &ToolCx) -> Option<String>;
    fn asks(&self, input: &RawValue) -> Result<Vec<Question>, Error>;
    fn answered(&self, input: &RawValue, answers: &[Vec<String>]) -> Result<Output, Error>;
    async fn run(&self, input: &RawValue, cx: &ToolCx) -> Result<Output, Error>;
    fn settle(&self, input: &RawValue, waited: &Waited<'_>) -> Result<Output, Error>;
    fn give_up(&self, input: &RawValue, waiting: &Waiting) -> Result<Output, Error>;
}

#[async_trait]
impl<T: Tool> AnyTool for T {
    fn spec(&self) -> Spec {
        Tool::spec(self)
    }

    fn describe(&self, audience: &Audience) -> Option<String> {
        Tool::describe(self, audience)
    }

    fn access(&self, input: &RawValue, cx: &ToolCx) -> Result<Vec<Access>, Error> {
        Ok(Tool::access(self, &args::<T>(self, input)?.0, cx))
    }

    fn preview(&self, input: &RawValue, cx: &ToolCx) -> Option<String> {
        Tool::preview(self, &args::<T>(self, input).ok()?.0, cx)
    }

    fn asks(&self, input: &RawValue) -> Result<Vec<Question>, Error> {
        Tool::asks(self, args::<T>(self, input)?.0)
    }

    fn answered(&self, input: &RawValue, answers: &[Vec<String>]) -> Result<Output, Error> {
        let (args, ignored) = args::<T>(self, input)?;
        ignored.note(Ok(Tool::answered(self, args, answers)), Tool::spec(self).json)
    }

    async fn run(&self, input: &RawValue, cx: &ToolCx) -> Result<Output, Error> {
        let (args, ignored) = args::<T>(self, input)?;
        let result = Tool::run(self, args, cx).await;
        ignored.note(result, Tool::spec(self).json)
    }

    fn settle(&self, input: &RawValue, waited: &Waited<'_>) -> Result<Output, Error> {
        let (args, ignored) = args::<T>(self, input)?;
        ignored.note(Ok(Tool::settle(self, args, waited)), Tool::spec(self).json)
    }

    fn give_up(&self, input: &RawValue, waiting: &Waiting) -> Result<Output, Error> {
        let (args, ignored) = args::<T>(self, input)?;
        ignored.note(Ok(Tool::give_up(self, args, waiting)), Tool::spec(self).json)
    }
}

/// Reads a call's arguments and what in them nobody asked for, or says what to send instead.
fn args<T: Tool>(tool: &T, input: &RawValue) -> Result<(T::Args, Ignored), Error> {
    let mut json = serde_json::Deserializer::from_str(input.get());
    let (mut track, mut ignored) = (serde_path_to_error::Track::new(), Ignored::default());
    let json = serde_path_to_error::Deserializer::new(&mut json, &mut track);
    let read = serde_ignored::deserialize(json, |path| ignored.add(path.to_string()));
    let args = read.map_err(|error| {
        let spec = Tool::spec(tool);
        let place = track.path().to_string();
        let place = crate::output::cut_line(&place, 200);
        let place = if place == "." { String::new() } else { format!(" at `{place}`") };
        // It may hold all that was sent.
        let error = crate::output::cut_line(&error.to_string(), 500);
        Error::Tell(format!(
            "the arguments of `{}` do not fit{place}: {error}. They must be JSON of this schema: {}",
            spec.name,
            (spec.schema)().get()
        ))
    })?;
    Ok((args, ignored))
}
