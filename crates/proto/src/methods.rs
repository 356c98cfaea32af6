//! The table of methods: everything a person or an agent can do, with typed input and output, declared once.
//!
//! Every door serves this table and every client speaks it. A row names a method, the type that stands for it, its
//! input, its output and the scope it needs, and the fields that need another scope as well; [`Handle`] is how a gateway
//! answers one. [`dispatch`] asks for all of them, so a row that nobody answers does not compile.

use crate::message::History;
use crate::nearest::nearest;
use crate::shape::{self, AgentName, Chosen, Directory, Label, PageCursor, Ref, ShortWords, Title, Words};
use crate::{BoardTask, Error, Millis, Outcome, Rule, RunId, SessionId, Status, Usage};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::future::Future;

mod board;
mod lives;
mod mail;
mod permissions;
mod questions;
mod settings;
mod tools;
mod undo;

pub use board::*;
pub use lives::*;
pub use mail::*;
pub use permissions::*;
pub use questions::*;
pub use settings::*;
pub use tools::*;
pub use undo::*;

/// A row of the table, as a type.
pub trait Method: 'static {
    const NAME: &'static str;
    const SCOPE: Scope;
    type Input: Serialize + DeserializeOwned + JsonSchema + Send;
    type Output: Serialize + DeserializeOwned + JsonSchema + Send;
}

/// Answers one method.
pub trait Handle<M: Method> {
    fn handle(&self, input: M::Input) -> impl Future<Output = Result<M::Output, Error>> + Send;
}

/// What was sent with a call, until it is decoded: a large one need not be kept for as long as the call takes.
pub trait Sent: Send {
    fn decode<T: DeserializeOwned + Send + 'static>(self) -> impl Future<Output = Result<T, Error>> + Send;
}

impl Sent for &[u8] {
    async fn decode<T: DeserializeOwned + Send + 'static>(self) -> Result<T, Error> {
        decode(self)
    }
}

/// What a caller must be allowed to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    Read,
    Write,
    Approve,
    Admin,
}

/// A row of the table, as data: for documents and permission checks.
pub struct Row {
    pub name: &'static str,
    pub about: &'static str,
    pub scope: Scope,
    /// Fields that need another scope as well, by their names in JSON.
    pub raised: &'static [(&'static str, Scope)],
    pub input: fn(&mut SchemaGenerator) -> Schema,
    pub output: fn(&mut SchemaGenerator) -> Schema,
}

/// Whether a caller has a scope. It says why not.
pub type Permit<'a> = &'a (dyn Fn(Scope) -> Result<(), Error> + Sync);

macro_rules! methods {
    ($(
        $(#[doc = $about:literal])+
        $name:literal $method:ident($input:ty) -> $output:ty, $scope:ident
        $(, $raised:ident for $field:ident as $shown:literal if $given:path)?;
    )*) => {
        $(
            $(#[doc = $about])+
            pub struct $method;

            impl Method for $method {
                const NAME: &'static str = $name;
                const SCOPE: Scope = Scope::$scope;
                type Input = $input;
                type Output = $output;
            }
        )*

        /// All of them.
        pub static TABLE: &[Row] = &[$(Row {
            name: $name,
            about: concat!($($about),+),
            scope: Scope::$scope,
            raised: &[$(($shown, Scope::$raised))?],
            input: |generator| generator.subschema_for::<$input>(),
            output: |generator| generator.subschema_for::<$output>(),
        }),*];

        /// Decodes, answers and encodes one call, if `permit` grants the scopes that its method and its fields need. A
        /// name that is not in the table is `not_found`.
        pub async fn dispatch<G>(gateway: &G, name: &str, input: impl Sent, permit: Permit<'_>) -> Result<Vec<u8>, Error>
        where
            G: Sync $(+ Handle<$method>)*,
        {
            match name {
                $($name => {
                    permit(Scope::$scope)?;
                    let input = input.decode::<$input>().await?;
                    $(if $given(&input.$field) {
                        permit(Scope::$raised)?;
                    })?
                    // Boxed, or every call would carry the room that the largest method needs.
                    let output = Box::pin(Handle::<$method>::handle(gateway, input)).await?;
                    serde_json::to_vec(&output).map_err(|e| Error::internal(e.to_string()))
                })*
                other => Err(unknown(other)),
            }
        }
    };
}

methods! {
    /// Whether the gateway is up, which one it is, and how busy.
    "health" Health(Nothing) -> HealthReport, Read;
    /// Sessions the caller may see, newest activity first.
    "sessions.list" SessionsList(ListInput) -> ListOutput, Read;
    /// One session.
    "sessions.get" SessionsGet(Selector) -> SessionInfo, Read;
    /// The session that exactly one selector names.
    "sessions.resolve" SessionsResolve(Selector) -> Resolved, Read;
    /// A root session and all below it.
    "sessions.tree" SessionsTree(TreeInput) -> TreeOutput, Read;
    /// A session without a run.
    "sessions.create" SessionsCreate(CreateInput) -> SessionInfo, Write, Approve for permission as "permission" if has_rules;
    /// Changes a session: its title, the agent or the model of its next step; `paused` lets it take letters and start nothing.
    "sessions.patch" SessionsPatch(PatchInput) -> SessionInfo, Write, Approve for permission as "permission" if Option::is_some;
    /// A session that shares history with another one up to an entry.
    "sessions.fork" SessionsFork(ForkInput) -> SessionInfo, Write;
    /// Sums a session up to make room in its context: a run that does nothing else, or a part of the one under way.
    "sessions.compact" SessionsCompact(CompactInput) -> Accepted, Write;
    /// Says in a few sentences what a session did and how it ended. A model reads it: that of `agent.summary`, else
    /// `small_model`, else the session's own.
    "sessions.summary" SessionsSummary(SummaryInput) -> SummaryOutput, Write;
    /// Takes back what a session did: the files it changed, what was said, or both. Of the last turn, or back to an entry.
    "sessions.undo" SessionsUndo(UndoInput) -> UndoOutput, Write;
    /// Takes the newest undo back, unless something was said since.
    "sessions.redo" SessionsRedo(RedoInput) -> UndoOutput, Write;
    /// Stops a session and begins it anew: the same key, label, agent and directory, and an empty log. The old log stays
    /// readable by its id.
    "sessions.reset" SessionsReset(RetireInput) -> SessionInfo, Write;
    /// Hides an idle session with all below it: they are listed no more and take no letters, and stay readable by id.
    "sessions.archive" SessionsArchive(RetireInput) -> Retired, Write;
    /// Stops and hides a session with all below it, and gives its key and label back. Nothing is purged.
    "sessions.delete" SessionsDelete(RetireInput) -> Retired, Write;
    /// A request: starts a run of its own, in a new session unless one is named.
    "agent" Agent(AgentInput) -> Accepted, Write, Approve for permission_mode as "permissionMode" if Option::is_some;
    /// Waits for a run's end; `timeout` means only that the wait ended.
    "agent.wait" AgentWait(WaitInput) -> Waited, Read;
    /// A person's text: a request when the session is idle; when it is busy, `queue` says what becomes of it.
    "chat.send" ChatSend(ChatInput) -> Accepted, Write;
    /// A session's messages.
    "chat.history" ChatHistory(HistoryInput) -> History, Read;
    /// Stops what a session is doing, with everything below it.
    "chat.abort" ChatAbort(AbortInput) -> Aborted, Write;
    /// Writes into a session's log what its model did not say. No model is asked.
    "chat.inject" ChatInject(InjectInput) -> Injected, Admin;
    /// Starts a session that works on a task: below another one, or on its own.
    "sessions.spawn" SessionsSpawn(SpawnInput) -> SpawnOutput, Write;
    /// Sends a message into a session and waits for its answer.
    "sessions.send" SessionsSend(SendInput) -> SendOutput, Write, Admin for role as "role" if is_assistant;
    /// What a session is, does and may do.
    "sessions.status" SessionsStatus(StatusInput) -> StatusReport, Read;
    /// A session's children.
    "subagents.list" SubagentsList(ChildrenInput) -> ListOutput, Read;
    /// A word to a child, taken at its next step.
    "subagents.steer" SubagentsSteer(SteerInput) -> Done, Write;
    /// Ends what a child does, and everything below it.
    "subagents.kill" SubagentsKill(ChildInput) -> Aborted, Write;
    /// Waits until children are done.
    "subagents.wait" SubagentsWait(ChildrenWait) -> ListOutput, Read;
    /// Mail to an agent by name, to a session, or to everybody in a tree.
    "messages.send" MessagesSend(MailInput) -> MailOutput, Write, Approve for message as "message.type: plan_approval_response" if answers_a_plan;
    /// Mail between sessions, and what is held for a person to decide; newest first.
    "messages.list" MessagesList(MessagesInput) -> MessagesOutput, Read;
    /// Lets a held message in.
    "messages.accept" MessagesAccept(AcceptInput) -> MessageRow, Approve;
    /// Keeps a held message out for good.
    "messages.refuse" MessagesRefuse(RefuseInput) -> MessageRow, Approve;
    /// Mail from a session of another gateway, which is let in, held for a person, or refused.
    "messages.deliver" MessagesDeliver(DeliverInput) -> MailReceipt, Write;
    /// Whom one can write to.
    "peers.list" PeersList(PeersInput) -> PeersOutput, Read;
    /// The tasks that a tree of sessions shares.
    "board.list" BoardList(BoardListInput) -> BoardPage, Read;
    /// A new task on the board of a tree.
    "board.add" BoardAdd(BoardAddInput) -> BoardTask, Write;
    /// Changes a task.
    "board.update" BoardUpdate(BoardUpdateInput) -> BoardTask, Write;
    /// Takes a task for a person.
    "board.claim" BoardClaim(BoardClaimInput) -> BoardTask, Write;
    /// Open questions to a person.
    "permissions.list" PermissionsList(AsksInput) -> Asks, Read;
    /// One of them, open or answered, with the whole of what its call was given.
    "permissions.get" PermissionsGet(AskInput) -> AskInfo, Read;
    /// Answers one.
    "permissions.reply" PermissionsReply(AskAnswer) -> Done, Approve;
    /// Open questions of models to a person.
    "questions.list" QuestionsList(AsksInput) -> QuestionsOutput, Read;
    /// Answers one: a list for each of its questions, or no answer at all.
    "questions.reply" QuestionsReply(QuestionAnswer) -> Done, Approve;
    /// What was answered with "always", and holds until it is taken back.
    "permissions.saved" PermissionsSaved(Nothing) -> SavedOutput, Read;
    /// Takes such an answer back: from now on it is asked again.
    "permissions.revoke" PermissionsRevoke(RevokeInput) -> Done, Approve;
    /// The tools a model is shown, in a session or as an agent, and why it is not shown others.
    "tools.list" ToolsList(ToolsInput) -> ToolsOutput, Read;
    /// What would be decided about a call, by which rule, and where that rule stands.
    "tools.why" ToolsWhy(WhyInput) -> WhyOutput, Read;
    /// Agents that can be used in a directory, or everywhere.
    "agents.list" AgentsList(InDirectory) -> AgentsOutput, Read;
    /// Models that can be named in a directory, or everywhere, and which one is used when nobody names one.
    "models.list" ModelsList(InDirectory) -> ModelsOutput, Read;
    /// The settings that hold in a directory, or everywhere. Secrets are blanked.
    "config.get" ConfigGet(ConfigInput) -> ConfigOutput, Admin;
    /// Every setting that holds there, with where it came from. Secrets are blanked.
    "config.origin" ConfigOrigin(ConfigInput) -> OriginOutput, Admin;
    /// The hooks that are set, and how each has fared since the gateway started.
    "hooks.list" HooksList(Nothing) -> HooksOutput, Read;
    /// The worktrees of a repository, who is in them, and the snapshots of removed ones.
    "worktrees.list" WorktreesList(WorktreesInput) -> WorktreesOutput, Read;
    /// Brings a removed worktree back from a snapshot.
    "worktrees.restore" WorktreesRestore(WorktreeInput) -> WorktreeRestored, Write;
    /// Removes a worktree, after a snapshot; with changes only on purpose.
    "worktrees.remove" WorktreesRemove(WorktreeRemoval) -> WorktreeRemoved, Write;
    /// Ends the gateway: at once when nothing is busy, else only with `force`.
    "gateway.stop" GatewayStop(StopInput) -> Done, Admin;
}

fn has_rules(rules: &[Rule]) -> bool {
    !rules.is_empty()
}

/// What a model did not say is put into its mouth, as by `chat.inject`.
fn is_assistant(role: &SendRole) -> bool {
    *role == SendRole::Assistant
}

/// The answer to a plan answers a permission request, and any other one that it names.
fn answers_a_plan(message: &Value) -> bool {
    message["type"] == "plan_approval_response"
}

/// Reads an input. No input at all is an empty one; a field that is not known is told apart from one that is mistyped.
pub fn decode<T: DeserializeOwned>(input: &[u8]) -> Result<T, Error> {
    let input = match input.trim_ascii() {
        b"" => b"{}",
        input if input.starts_with(b"{") => input,
        // The decoder would take a list of values for the fields in their order.
        _ => return Err(misfit("it is not an object")),
    };
    let error = match serde_json::from_slice(input) {
        Ok(read) => return Ok(read),
        Err(error) => error,
    };
    let again = if error.is_data() { with_whole_numbers(input) } else { None };
    again.ok_or_else(|| misfit(&error.to_string()))
}

/// An integer may be written as `1.0` or `1e3`, says JSON Schema. Few do, so it is looked at only when nothing else fits.
fn with_whole_numbers<T: DeserializeOwned>(input: &[u8]) -> Option<T> {
    let mut value = serde_json::from_slice(input).ok()?;
    make_whole(&mut value).then(|| serde_json::from_value(value).ok()).flatten()
}

/// True when a number was written anew.
fn make_whole(value: &mut Value) -> bool {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|_| number.is_f64()).and_then(whole);
            if let Some(whole) = whole {
                *value = whole.into();
            }
            whole.is_some()
        }
        Value::Array(items) => items.iter_mut().fold(false, |changed, item| make_whole(item) | changed),
        Value::Object(fields) => fields.values_mut().fold(false, |changed, field| make_whole(field) | changed),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// Beyond 2^53 a float does not say which integer it means.
fn whole(number: f64) -> Option<i64> {
    let fits = number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole and small enough")]
    fits.then_some(number as i64)
}

/// Longer messages quote the input itself.
const LONGEST_MISFIT: usize = 500;

fn misfit(why: &str) -> Error {
    let shown: String = why.chars().take(LONGEST_MISFIT).collect();
    let error = Error::invalid(format!("the input does not fit: {shown}"));
    match misnamed(why) {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// What to write instead of a field that is not known, or is not there, from the words of the decoder.
fn misnamed(why: &str) -> Option<String> {
    if let Some((missing, _)) = why.strip_prefix("missing field `").and_then(|rest| rest.split_once('`')) {
        return Some(format!("add `{missing}`"));
    }
    let (wrong, known) = why.strip_prefix("unknown field `")?.rsplit_once("`, expected ")?;
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    Some(match nearest(wrong, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there is: {}", known.join(", ")),
    })
}

fn unknown(name: &str) -> Error {
    let names = || TABLE.iter().map(|row| row.name);
    let resource = name.split('.').next().unwrap_or_default();
    let near: Vec<&str> = names().filter(|n| n.starts_with(resource)).collect();
    let shown: String = name.chars().take(80).collect();
    let error = Error::not_found(format!("there is no method `{shown}`"));
    if let Some(near) = nearest(name, names()) {
        return error.hint(format!("did you mean `{near}`?"));
    }
    let choices = if near.is_empty() || resource.is_empty() { names().collect() } else { near };
    error.hint(format!("there is: {}", choices.join(", ")))
}

/// No input.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// It was done.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Done {
    pub ok: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthReport {
    pub ok: bool,
    pub version: String,
    /// Of the program, its settings and its environment, so that a caller can tell whether it would start the same one.
    pub fingerprint: String,
    pub pid: u32,
    /// Started by a command that needed one, not by a person.
    pub implicit: bool,
    /// Sessions with something under way.
    pub busy: u64,
    /// Sessions in memory.
    pub awake: u64,
    pub uptime_ms: u64,
}

/// Names a session by exactly one of these.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(extend("oneOf" = shape::exactly_one(&["sessionId", "key", "label", "ref", "newestIn"])))]
pub struct Selector {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Ref>")]
    pub session_id: Option<String>,
    /// A key; display keys and `main` too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Ref>")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Label>")]
    pub label: Option<String>,
    /// Whatever a person typed: an id (or its last 4 characters), a key, a name or a label.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Ref>")]
    pub reference: Option<String>,
    /// The newest root session of a directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest_in: Option<String>,
    /// Narrows a label to one owner agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AgentName>")]
    pub agent_id: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resolved {
    pub session_id: SessionId,
    pub key: String,
    pub display_key: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListInput {
    pub kinds: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_minutes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_limit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<PageCursor>")]
    pub cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AgentName>")]
    pub agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Ref>")]
    pub spawned_by: Option<String>,
    /// Only sessions that go by this name in their tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only sessions in one of these states.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<Status>,
    /// Only sessions in this directory or below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListOutput {
    pub count: usize,
    pub sessions: Vec<SessionInfo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A session as lists show it (S4).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    pub key: String,
    pub display_key: String,
    pub kind: String,
    pub channel: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What the agents of its tree call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    pub updated_at: Millis,
    #[serde(default)]
    pub created_at: Millis,
    pub session_id: SessionId,
    /// The shortest end of the id that means this session and no other; for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SessionId>,
    pub owner: String,
    pub agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub cwd: String,
    pub model: String,
    /// How hard the model is to think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<String>,
    pub context_tokens: u64,
    pub total_tokens: u64,
    pub estimated_cost_usd: f64,
    pub status: Status,
    /// The run under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_ms: Option<u64>,
    /// A model has read its instructions.
    #[serde(default)]
    pub system_sent: bool,
    /// Its last run was stopped.
    #[serde(default)]
    pub aborted_last_run: bool,
    /// `allow`, or `deny` when only a person's message starts it again.
    #[serde(default)]
    pub send_policy: String,
    #[serde(default)]
    pub child_sessions: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<crate::message::Message>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TreeInput {
    /// Any session of the tree; the newest root without it.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Ref>")]
    pub reference: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TreeOutput {
    pub root: SessionId,
    pub sessions: Vec<TreeRow>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TreeRow {
    pub session_id: SessionId,
    pub key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SessionId>,
    pub agent: String,
    /// What the agents of its tree call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CreateInput {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AgentName>")]
    pub agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard the model is to think: one of its variants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Directory>")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Label>")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Title>")]
    pub title: Option<String>,
    /// Rules on top of the agent's.
    pub permission: Vec<Rule>,
    /// In the place of the agent's own prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Words>")]
    pub system_prompt: Option<String>,
    /// Behind the system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Words>")]
    pub append_system_prompt: Option<String>,
    /// The same key again names the same session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Chosen>")]
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PatchInput {
    #[serde(rename = "ref")]
    #[schemars(with = "Ref")]
    pub reference: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Title>")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AgentName>")]
    pub agent_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard the model is to think: one of its variants; an empty one is as its server likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// Among the sessions of its agent; an empty one takes it away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Label>")]
    pub label: Option<String>,
    /// The permission mode: `ask`, `accept-edits`, `plan` or `auto`; also called `permissionMode`.
    #[serde(default, alias = "permissionMode", skip_serializing_if = "Option::is_none")]
    pub permission: Option<String>,
    /// The same key again changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Chosen>")]
    pub idempotency_key: Option<String>,
    /// Takes letters and starts nothing, until it is false again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForkInput {
    #[serde(rename = "ref")]
    #[schemars(with = "Ref")]
    pub reference: String,
    /// The last entry both share; the newest without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// The same key again names the same session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Chosen>")]
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SummaryInput {
    #[serde(rename = "ref")]
    #[schemars(with = "Ref")]
    pub reference: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SummaryOutput {
    pub session_id: SessionId,
    /// Who said it.
    pub model: String,
    pub text: String,
    /// What it cost; counted as the session's.
    pub usage: Usage,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompactInput {
    #[serde(rename = "ref")]
    #[schemars(with = "Ref")]
    pub reference: String,
    /// What the summary is to look after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Becomes the run's id: the same key again starts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Chosen>")]
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("not" = shape::given(&["sessionId", "sessionKey"])))]
pub struct AgentInput {
    #[schemars(with = "Words")]
    pub message: String,
    /// An existing session, by id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Ref>")]
    pub session_id: Option<String>,
    /// An existing session, by key; an agent's `main` is made on first use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Ref>")]
    pub session_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AgentName>")]
    pub agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard the model is to think: one of its variants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// Of a new session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Directory>")]
    pub cwd: Option<String>,
    /// Of a new session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Label>")]
    pub label: Option<String>,
    /// The run's id, verbatim; a second call with the same one starts nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Chosen>")]
    pub idempotency_key: Option<String>,
    /// The permission mode from here on: `ask`, `accept-edits`, `plan` or `auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// Images, PDFs and texts to look at; 5 MiB in all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileInput>,
    /// Model calls that the run may make; the last one concludes. At least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// What the run and all it starts may cost, in US dollars, where `limits.costUsd` is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_budget_usd: Option<f64>,
}

/// A file that comes with a prompt.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileInput {
    pub name: String,
    /// Such as `image/png`.
    pub mime: String,
    /// In base64.
    pub data: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    pub run_id: RunId,
    pub session_id: SessionId,
    pub session_key: String,
    pub agent: String,
    pub model: String,
    pub accepted_at: Millis,
    /// Watch from here to see all that follows from this call.
    pub cursor: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitInput {
    pub run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Not before every session below is quiet too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tree: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waited {
    pub run_id: RunId,
    pub status: WaitStatus,
    pub session_id: SessionId,
    pub session_key: String,
    /// The run's final answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default)]
    pub usage: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Millis>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Millis>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WaitStatus {
    Ok,
    Error,
    Cancelled,
    Timeout,
}

impl From<Outcome> for WaitStatus {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Ok => Self::Ok,
            Outcome::Error => Self::Error,
            Outcome::Cancelled => Self::Cancelled,
        }
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChatInput {
    /// An id, a key or a label.
    #[serde(rename = "ref")]
    #[schemars(with = "Ref")]
    pub reference: String,
    #[schemars(with = "Words")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AgentName>")]
    pub agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard the model is to think: one of its variants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// What becomes of it while a run is under way.
    #[serde(default)]
    pub queue: Queue,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Chosen>")]
    pub idempotency_key: Option<String>,
}

/// What becomes of a person's text while a run is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Queue {
    /// Taken at the next step, in the same run.
    #[default]
    Steer,
    /// A run of its own, after the one under way.
    Followup,
    /// The run under way is stopped; this is a run of its own, after those that wait already.
    Interrupt,
}

/// A child, or a root of its own, with its first task (S8).
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpawnInput {
    #[schemars(with = "Words")]
    pub task: String,
    /// The session above it: an id (or its last 4 characters), a key, a name or a label.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Ref>")]
    pub parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AgentName>")]
    pub agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Label>")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How hard the model is to think: one of its variants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Directory>")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_timeout_seconds: Option<u64>,
    /// `run`: done after its first answer; `session`: stays open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<SpawnMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Chosen>")]
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpawnMode {
    #[default]
    Run,
    Session,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpawnOutput {
    pub status: String,
    pub run_id: RunId,
    pub child_session_key: String,
    pub session_id: SessionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub mode: SpawnMode,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A message into a session (S6).
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("oneOf" = shape::exactly_one(&["sessionKey", "label"])))]
pub struct SendInput {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Ref>")]
    pub session_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Label>")]
    pub label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AgentName>")]
    pub agent_id: Option<String>,
    #[schemars(with = "Words")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// What follows the answer. With `announce` the session tells its channel.
    #[serde(default)]
    pub delivery: Delivery,
    /// `assistant` writes the message into the log as the session's own answer, and no model is asked.
    #[serde(default)]
    pub role: SendRole,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Chosen>")]
    pub idempotency_key: Option<String>,
}

/// What follows a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// The answer comes back.
    #[default]
    Reply,
    /// The two talk it over, and the receiver tells its channel.
    Announce,
    None,
}

/// Who says a message, as the receiver's log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SendRole {
    #[default]
    User,
    Assistant,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SendOutput {
    pub run_id: RunId,
    /// `sent`, `ok`, `error` or `timeout`.
    pub status: String,
    pub session_key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    pub delivery: DeliveryState,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryState {
    /// `pending`, `done` or `skipped`.
    pub status: String,
    pub mode: Delivery,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StatusInput {
    /// An id, a key or a label.
    #[serde(alias = "ref")]
    #[schemars(with = "Ref")]
    pub session_key: String,
}

/// What a session is, does and may do (S10).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusReport {
    pub session_key: String,
    pub session_id: SessionId,
    pub owner: String,
    pub agent: String,
    pub kind: String,
    pub channel: String,
    pub model: String,
    /// How hard the model is to think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<String>,
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    pub usage: Usage,
    /// How much of the model's window the last request filled, 0 to 1.
    pub context_share: f64,
    pub tools: Vec<ToolRow>,
    pub permission: Vec<RuleRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    pub children: Vec<String>,
    /// Letters that wait.
    pub queue: u32,
    pub budget: Budget,
    /// The worktree it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<crate::Worktree>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolRow {
    pub name: String,
    pub allowed: bool,
    /// Which step of the policy decided: `rules`, `profile`, `child`, `parent` or `settings`.
    pub step: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RuleRow {
    #[serde(flatten)]
    pub rule: Rule,
    /// `agent`, `session`, `parent` or `settings`.
    pub origin: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Sessions that may still be started.
    pub agents: u64,
    /// US dollars that are left.
    pub cost_usd: f64,
    /// Tokens that are left, where they are bounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// What there was to begin with.
    #[serde(default)]
    pub limits: crate::letter::Allotment,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChildrenInput {
    /// The parent: an id (or its last 4 characters), a key, a name or a label.
    #[serde(rename = "ref")]
    #[schemars(with = "Ref")]
    pub reference: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChildInput {
    /// The child: an id (or its last 4 characters), a key, a name or a label.
    #[serde(rename = "ref")]
    #[schemars(with = "Ref")]
    pub reference: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SteerInput {
    /// The child: an id (or its last 4 characters), a key, a name or a label.
    #[serde(rename = "ref")]
    #[schemars(with = "Ref")]
    pub reference: String,
    #[schemars(with = "ShortWords")]
    pub message: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChildrenWait {
    /// The parent: an id (or its last 4 characters), a key, a name or a label.
    #[serde(rename = "ref")]
    #[schemars(with = "Ref")]
    pub reference: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Until one of those that are busy now is done, not all.
    #[serde(default)]
    pub any: bool,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HistoryInput {
    /// An id, a key or a label.
    #[serde(alias = "ref")]
    #[schemars(with = "Ref")]
    pub session_key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    #[serde(default)]
    pub include_tools: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AbortInput {
    #[serde(rename = "ref")]
    #[schemars(with = "Ref")]
    pub reference: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Aborted {
    pub session_id: SessionId,
    /// Whether anything was under way.
    pub aborted: bool,
    /// The sessions that were stopped: this one, if it was busy, then those below it.
    #[serde(default)]
    pub stopped: Vec<StoppedRow>,
}

/// A session that was stopped.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoppedRow {
    pub session_id: SessionId,
    /// The name it goes by in its tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub agent: String,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AsksInput {
    /// Any session of a tree; all trees without it.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Ref>")]
    pub reference: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct SavedOutput {
    pub saved: Vec<SavedRule>,
}

/// Something a person allowed for good.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavedRule {
    pub id: String,
    /// The directory it holds in.
    pub project: String,
    pub permission: String,
    pub pattern: String,
    pub created_at: Millis,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RevokeInput {
    pub id: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AgentsOutput {
    pub agents: Vec<AgentRow>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentRow {
    pub name: String,
    pub description: String,
    pub mode: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How its model is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    pub native: bool,
    pub hidden: bool,
    /// Model calls a run may make.
    #[serde(default)]
    pub steps: Option<u32>,
    #[serde(default)]
    pub temperature: Option<f64>,
    #[serde(default)]
    pub top_p: Option<f64>,
    #[serde(default)]
    pub color: Option<String>,
    /// What narrows the tools it is shown: the last one that matches a name decides. Empty: all.
    #[serde(default)]
    pub tools: Map<String, Value>,
    /// Its rules, the last one that matches decides: those of the program, the user's, its own.
    #[serde(default)]
    pub permission: Vec<Rule>,
    /// Fields for each request to its model.
    #[serde(default)]
    pub options: Map<String, Value>,
    /// What a client shows when a conversation begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub welcome_message: Option<String>,
    /// Where it is set, its prompt above all; none for one that nobody changed.
    #[serde(default)]
    pub file: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct HooksOutput {
    pub hooks: Vec<HookRow>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookRow {
    /// What it hangs on, such as `tool.before`.
    pub event: String,
    /// A wildcard over what the event is about.
    #[serde(rename = "match")]
    pub only: String,
    pub command: String,
    pub timeout_ms: u64,
    /// How often it was started.
    pub runs: u64,
    pub failures: u64,
    /// Why it failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StopInput {
    pub force: bool,
}

/// Which repository is meant.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WorktreesInput {
    /// A directory in the repository; the caller's home without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorktreesOutput {
    pub count: usize,
    pub worktrees: Vec<WorktreeRow>,
    pub snapshots: Vec<SnapshotRow>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorktreeRow {
    pub name: String,
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that is checked out.
    pub head: String,
    /// The commit it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// `busy`: a session works in it. `open`: a session is in it, and rests. `kept`: left on purpose. `orphan`: nobody is
    /// in it, and nobody said so. `missing`: its directory is gone. `unfinished`: cut short while it was made.
    pub state: String,
    /// Keys of the sessions in it.
    pub sessions: Vec<String>,
    /// What can be done about it.
    pub hint: String,
}

/// What a removed worktree held.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotRow {
    pub name: String,
    #[serde(rename = "ref")]
    pub reference: String,
    pub commit: String,
    /// The worktree it was taken of.
    pub worktree: String,
    pub taken_at: Millis,
    pub expires_at: Millis,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WorktreeInput {
    /// A snapshot, or a worktree whose newest one is meant.
    pub name: String,
    /// A directory in the repository; the caller's home without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorktreeRestored {
    pub name: String,
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    pub snapshot: SnapshotRow,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WorktreeRemoval {
    pub name: String,
    /// A directory in the repository; the caller's home without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Also with uncommitted files, or commits that are not on the original branch.
    #[serde(alias = "discard_changes")]
    pub discard_changes: bool,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorktreeRemoved {
    pub name: String,
    pub snapshot: SnapshotRow,
    pub discarded_files: usize,
    pub discarded_commits: usize,
    /// Names of the tmux sessions that ended with it.
    pub tmux_sessions: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn hint<T: DeserializeOwned + std::fmt::Debug>(input: &str, expected: Option<&str>) {
        assert_eq!(decode::<T>(input.as_bytes()).unwrap_err().hint.as_deref(), expected, "{input}");
    }

    #[test]
    fn an_unknown_field_is_refused_with_the_nearest_known_one() {
        hint::<AgentInput>(r#"{"mesage": "x"}"#, Some("did you mean `message`?"));
        hint::<AgentInput>(r#"{"session_key": "x"}"#, Some("did you mean `sessionKey`?"));
        hint::<StopInput>(r#"{"colour": 1}"#, Some("there is: force"));
        hint::<Nothing>(r#"{"a": 1}"#, None);
        hint::<StopInput>(r#"{"force": 1}"#, None);
        hint::<AgentInput>("{}", Some("add `message`"));
        assert!(decode::<Nothing>(b" \n").is_ok());
        assert!(decode::<StopInput>(b"[true]").is_err());
    }

    #[test]
    fn a_whole_number_is_an_integer_however_it_is_written() {
        let limit = |input: &str| decode::<ListInput>(input.as_bytes()).ok().and_then(|input| input.limit);
        assert_eq!((limit(r#"{"limit": 2.0}"#), limit(r#"{"limit": 1e2}"#)), (Some(2), Some(100)));
        for bad in [r#"{"limit": 1.5}"#, r#"{"limit": -1.0}"#, r#"{"limit": 1e300}"#, r#"{"limit": "2"}"#] {
            assert_eq!(limit(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_unknown_method_is_told_with_the_nearest_ones() {
        assert_eq!(unknown("session.list").hint.as_deref(), Some("did you mean `sessions.list`?"));
        assert!(unknown("chat.wave").hint.is_some_and(|hint| hint.contains("chat.send")));
    }

    /// A new field is added to the list of harmless ones here, or gets a scope in the table.
    #[test]
    fn a_field_that_widens_permissions_needs_a_scope_of_its_own() {
        // An agent is harmless: a caller with the scope `write` can start a session with it anyway. Whose visibility a
        // message tells counts over the socket alone.
        const HARMLESS: &str = "sessionId key label ref newestIn agentId kinds limit activeMinutes messageLimit cursor \
            spawnedBy model thinking title idempotencyKey seq instructions message sessionKey files runId timeoutMs \
            tree queue paused includeTools before after task parent runTimeoutSeconds mode timeoutSeconds any to session \
            summary state reason id from name agent visibility socket hops local states owner number description blockedBy version \
            addBlockedBy note cwd path what discardChanges force tool args input delivery \
            maxTurns maxBudgetUsd systemPrompt appendSystemPrompt";
        let harmless: Vec<&str> = HARMLESS.split_whitespace().collect();
        // All of the method needs the scope.
        let whole = |row: &Row| matches!(row.scope, Scope::Approve | Scope::Admin);
        let mut generator = schemars::generate::SchemaSettings::draft2020_12().into_generator();
        for row in TABLE.iter().filter(|row| !whole(row)) {
            let schema = (row.input)(&mut generator).to_value();
            let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
            let fields = generator.definitions()[name]["properties"].as_object().cloned().unwrap_or_default();
            for field in fields.keys() {
                let raised = row.raised.iter().any(|(raised, _)| raised.split('.').next() == Some(field));
                let read = row.scope == Scope::Read;
                assert!(raised || read || harmless.contains(&field.as_str()), "`{field}` of `{}`", row.name);
            }
            for (raised, _) in row.raised {
                let field = raised.split('.').next().unwrap_or_default();
                assert!(fields.contains_key(field), "`{}` has no `{field}`", row.name);
            }
        }
        let raised: Vec<_> =
            TABLE.iter().flat_map(|row| row.raised.iter().map(|(field, _)| (row.name, *field))).collect();
        let expected = [
            ("sessions.create", "permission"),
            ("sessions.patch", "permission"),
            ("agent", "permissionMode"),
            ("sessions.send", "role"),
            ("messages.send", "message.type: plan_approval_response"),
        ];
        assert_eq!(raised, expected);
    }

    #[test]
    fn a_misfit_does_not_repeat_a_large_input() {
        let input = format!(r#"{{"{}": 1}}"#, "x".repeat(1 << 20));
        assert!(decode::<StopInput>(input.as_bytes()).unwrap_err().message.len() < 1000);
    }
}
