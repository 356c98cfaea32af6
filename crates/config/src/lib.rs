//! What is set: the settings file, typed as read, and where things live.
//!
//! The only crate that reads the environment. Others get the section they need, never the file.
//!
//! - [`Paths`]: directories, the database, the socket.
//! - [`Environment`]: a snapshot of the variables.
//! - [`load`]: the file into a [`Config`]. What is wrong in it is an [`Error`] with `file:line:column`; what is merely
//!   odd is a warning.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests know what they wrote"))]

mod agent;
mod always;
mod auth;
mod compaction;
mod document;
mod edit;
mod environment;
mod error;
mod expand;
mod files;
mod gather;
mod hash;
mod hooks;
mod layer;
mod limits;
mod merge;
mod named;
mod organisation;
mod paths;
mod peers;
mod permission;
mod private;
mod provider;
mod read;
mod reference;
mod resolve;
mod sandbox;
mod secret;
mod section;
mod session;
mod show;
mod tls;
mod tools;
mod trust;
mod visibility;
mod worktree;

#[cfg(test)]
mod layered;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proto::Rule;
use serde::Serialize;
use serde_json::Value;

pub use agent::{Agent, Mode};
pub use always::{Always, always, keep_always, revoke_always};
pub use auth::{Keys, keys, login, logout};
pub use compaction::Compaction;
pub use edit::{Edited, edit};
pub use environment::Environment;
pub use error::Error;
pub use files::commands::{Command, Commands};
pub use files::instructions::Instructions;
pub use files::skills::Skill;
pub use gather::Spot;
pub use hooks::{Hook, Hooks};
pub use layer::{Layer, Origin};
pub use limits::Limits;
pub use named::{Named, Of};
pub use organisation::Organisation;
pub use paths::Paths;
pub use peers::{Inbound, Peer};
pub use permission::{Ceilings, Placed};
pub use provider::{Cost, Effort, ModelLimits, Pace, Provider, Reasoning, VENDORS, Variant, Wire};
pub use read::{Reader, Readers};
pub use reference::{reference, schema};
pub use sandbox::{Env, Held, Sandbox, SandboxMode};
pub use secret::Secret;
pub use show::Shown;
pub use tls::Tls;
pub use tools::Search;
pub use trust::{Repository, Trusted};
pub use worktree::{Base, Worktree};

use document::Node;
use section::Notes;

/// Everything a user can set.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Config {
    /// `provider/model`.
    pub model: Option<String>,
    /// `provider/model` for small work beside the conversation: names of sessions.
    pub small_model: Option<String>,
    pub default_agent: Option<String>,
    /// The permission mode of new sessions.
    pub permission_mode: Option<&'static str>,
    pub provider: BTreeMap<String, Provider>,
    /// The rules for every agent, layer by layer, each in the order of its file.
    pub permission: Vec<Rule>,
    /// What of them nothing below can lift.
    pub ceilings: Ceilings,
    /// By name, in lower case.
    pub agent: BTreeMap<String, Agent>,
    pub limits: Limits,
    pub sandbox: Sandbox,
    /// Gateways on other machines.
    pub peers: Vec<Peer>,
    /// What becomes of mail from other gateways; unset: accepted from this user on this machine, held from elsewhere.
    pub inbound: Option<Inbound>,
    pub hooks: Hooks,
    /// `tools.search`.
    pub search: Search,
    /// Turns two sessions take after a message that is announced (`session.agentToAgent.maxPingPongTurns`).
    pub turns: Option<u32>,
    pub worktree: Worktree,
    pub compaction: Compaction,
    pub tls: Option<Tls>,
    pub organisation: Organisation,
    /// Files with instructions for every agent, besides those that are found by their name.
    pub instructions: Vec<String>,
    /// Sections that are accepted and not typed yet, as they were written.
    pub other: BTreeMap<String, Value>,
}

/// Settings, and what is to be said about them.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    pub config: Config,
    pub warnings: Vec<String>,
    /// SHA-256 of the files read, those of repositories apart: another one means that settings may have changed.
    pub text_hash: String,
    /// Variables that the same files name, or beginnings of names with `*`.
    pub variables: BTreeSet<String>,
    /// Every rule for all agents, with where it stands.
    pub rule_places: Vec<Placed>,
    /// The same for the rules of each agent.
    pub agent_rule_places: BTreeMap<String, Vec<Placed>>,
    /// Names of tools and models, with where they stand.
    pub named: Vec<Named>,
    /// What everybody who works in the directory is to know, the nearest last.
    pub instructions: Vec<Instructions>,
    pub commands: Commands,
    pub skills: Vec<Skill>,
    /// Keys that were given to `convoke auth login`, by provider.
    pub keys: Keys,
    /// The repository that holds the directory, where it has settings.
    pub repository: Option<Repository>,
    /// Bytes of agents, instructions and what they name: it takes a multiple of that to keep.
    pub weight: u64,
    strays: Vec<section::Stray>,
    seen: Vec<read::Seen>,
    tree: resolve::Tree,
}

const TYPED: &[&str] = &[
    "model",
    "small_model",
    "default_agent",
    "provider",
    "permission",
    "permission_mode",
    "agent",
    "limits",
    "sandbox",
    "peers",
    "inbound",
    "hooks",
    "tools",
    "worktree",
    "compaction",
    "tls",
    "organisation",
    "instructions",
];

const UNTYPED: &[&str] = &["session", "durability", "store", "mcp", "$schema"];

const PERMISSION_MODES: &[(&str, &str)] =
    &[("ask", "ask"), ("accept-edits", "accept-edits"), ("plan", "plan"), ("auto", "auto")];

/// Settings that are read by nobody yet.
const UNUSED: &[&str] = &["durability", "store", "mcp"];

/// Reads the settings that hold for a gateway, whatever directory a session works in: all layers but those of
/// repositories. No file is no settings.
pub fn load(paths: &Paths, env: &Environment) -> Result<Loaded, Error> {
    resolve::resolve(paths, env, None, &reads_all)
}

/// Reads the settings that hold in a directory: all eight layers. What of a repository its own files may put into a
/// prompt is for `readers` to say, who knows what rules mean.
pub fn load_at<'a>(
    paths: &Paths,
    env: &Environment,
    spot: impl Into<Spot<'a>>,
    readers: Readers<'_>,
) -> Result<Loaded, Error> {
    resolve::resolve(paths, env, Some(spot.into()), readers)
}

/// For where there are no rules.
pub fn reads_all(_: &Config) -> Reader {
    Box::new(|_, _| true)
}

/// Where an organisation's settings are to be fetched from, if one is set; what comes from there is written to
/// [`Paths::organisation`].
pub fn organisation(paths: &Paths, env: &Environment) -> Result<Option<String>, Error> {
    let text = read::read_text(&paths.config_file(), &mut read::Reading::default())?.unwrap_or_default();
    let source = layer::Source::file(Layer::User, &paths.config_file());
    let url = organisation::url_of(&document::parse(&source, &text)?);
    Ok(organisation::address(url.as_deref(), env))
}

/// Checks a text from an organisation, and keeps it.
pub fn keep_organisation(paths: &Paths, address: &str, text: &str) -> Result<(), Error> {
    let source = layer::Source::text(Layer::Organisation, address, &paths.config);
    document::parse(&source, text)?;
    private::hold(&paths.organisation(address))?.write(text)
}

/// Lets the settings of the repository that holds a directory count, as they are now.
pub fn trust(paths: &Paths, env: &Environment, directory: &Path) -> Result<Option<Repository>, Error> {
    let Some(repository) = repository(paths, env, directory)? else { return Ok(None) };
    trust::add(paths, &repository.root, &repository.hash)?;
    Ok(Some(Repository { trusted: true, ..repository }))
}

/// What of a repository would count, and whether it is trusted.
pub fn repository(paths: &Paths, env: &Environment, directory: &Path) -> Result<Option<Repository>, Error> {
    resolve::repository(paths, env, directory)
}

/// Every repository that is trusted.
pub fn trusted(paths: &Paths) -> Vec<Trusted> {
    trust::list(paths, &mut read::Reading::default())
}

/// Takes trust back from the repository that holds a directory. False when there was none.
pub fn distrust(paths: &Paths, directory: &Path) -> Result<bool, Error> {
    let root = gather::chain(directory.into()).first().cloned().unwrap_or_else(|| directory.to_owned());
    trust::revoke(paths, &root)
}

impl Loaded {
    /// Whether every file that was looked at is still what it was, and none has come or gone.
    pub fn is_current(&self) -> bool {
        self.seen.iter().all(read::Seen::is_current)
    }

    /// From now on these are current only if those are.
    pub fn hangs_on(&mut self, other: &Loaded) {
        self.seen.extend(other.seen.iter().cloned());
    }

    /// Every value that counts, with where it came from. Secrets are `***`.
    pub fn origins(&self) -> Vec<Shown> {
        show::leaves(&self.tree.0)
    }

    /// Where a setting such as `default_agent` stands, as `file:line:column`.
    pub fn place(&self, path: &str) -> Option<String> {
        show::find(&self.tree.0, path).map(|node| node.place.to_string())
    }

    /// The layer, the file and the line of a setting.
    pub fn origin(&self, path: &str) -> Option<Origin> {
        show::find(&self.tree.0, path).map(|node| node.place.origin())
    }

    /// The settings as one object. Secrets are `***`.
    pub fn shown(&self) -> Value {
        show::object(&self.tree.0)
    }
}

fn read_sections(root: &Node) -> Result<Loaded, Error> {
    let mut notes = Notes::default();
    let mut loaded = Loaded::default();
    for field in root.fields()? {
        let (node, config) = (&field.node, &mut loaded.config);
        match field.key.as_str() {
            "model" => config.model = Some(model(node, &mut notes)?),
            "small_model" => config.small_model = Some(model(node, &mut notes)?),
            "default_agent" => config.default_agent = Some(agent::name(node.text()?, &node.place)?),
            "provider" => config.provider = read_providers(node, &mut notes)?,
            "permission" => loaded.rule_places = permission::read(node)?,
            "permission_mode" => config.permission_mode = Some(node.choice(PERMISSION_MODES)?),
            "agent" => read_agents(node, &mut notes, &mut loaded)?,
            "limits" => config.limits = Limits::read(node, &mut notes)?,
            "sandbox" => config.sandbox = Sandbox::read(node, &mut notes)?,
            "peers" => config.peers = peers::read(node, &mut notes)?,
            "inbound" => config.inbound = Some(peers::inbound(node)?),
            "hooks" => config.hooks = hooks::read(node, &mut notes)?,
            "tools" => read_tools(node, &mut notes, config)?,
            "worktree" => config.worktree = Worktree::read(node, &mut notes)?,
            "compaction" => config.compaction = Compaction::read(node, &mut notes)?,
            "tls" => config.tls = Tls::read(node, &mut notes)?,
            "organisation" => config.organisation = Organisation::read(node, &mut notes)?,
            "instructions" => config.instructions = node.texts()?,
            other if UNTYPED.contains(&other) => {
                if UNUSED.contains(&other) {
                    notes.warn(field, format_args!("`{other}` is accepted, but nothing uses it yet"));
                }
                if other == "session" {
                    config.turns = session::turns(node, &mut notes)?;
                }
                config.other.insert(other.to_owned(), node.json());
            }
            _ => notes.unknown(field, &[TYPED, UNTYPED].concat()),
        }
    }
    loaded.config.permission = permission::all(&loaded.rule_places);
    loaded.config.ceilings = Ceilings::of(&loaded.rule_places);
    (loaded.warnings, loaded.named, loaded.strays) = (notes.warnings, notes.named, notes.strays);
    Ok(loaded)
}

/// `search` is ours; what the guard between sessions reads is checked here, where its place is known.
fn read_tools(node: &Node, notes: &mut Notes, config: &mut Config) -> Result<(), Error> {
    for field in node.fields()? {
        match field.key.as_str() {
            "search" => config.search = tools::search(&field.node)?,
            "sessions" if field.node.is_object() => drop(visibility::read(&field.node, notes)?),
            "agentToAgent" if field.node.is_object() => tools::agent_to_agent(&field.node)?,
            "subagents" if field.node.is_object() => tools::subagents(&field.node, notes)?,
            other if tools::KEYS.contains(&other) => tools::section_or_nothing(&field.node)?,
            _ => notes.unknown(field, tools::KEYS),
        }
    }
    config.other.insert("tools".into(), node.json());
    Ok(())
}

fn read_providers(node: &Node, notes: &mut Notes) -> Result<BTreeMap<String, Provider>, Error> {
    let mut providers = BTreeMap::new();
    for field in node.fields()? {
        if field.key.is_empty() || field.key.contains(|c: char| c == '/' || c.is_whitespace()) {
            let hint = "a model is named `provider/model`: use a name without `/` and blanks";
            return Err(field
                .place
                .error(format_args!("`{}` is not a provider's name", document::excerpt(&field.key)), hint));
        }
        providers.insert(field.key.clone(), Provider::read(&field.node, notes)?);
    }
    Ok(providers)
}

fn read_agents(node: &Node, notes: &mut Notes, loaded: &mut Loaded) -> Result<(), Error> {
    for (order, field) in node.fields()?.iter().enumerate() {
        let name = agent::name(&field.key, &field.place)?;
        let (mut agent, places) = Agent::read(&field.node, notes)?;
        agent.order = order;
        loaded.config.agent.insert(name.clone(), agent);
        loaded.agent_rule_places.insert(name, places);
    }
    Ok(())
}

/// A model's full name. What stands behind the first slash is the provider's own business.
fn model(node: &Node, notes: &mut Notes) -> Result<String, Error> {
    let text = node.text()?;
    if proto::model::is_short(text) {
        notes.names(Of::Model, &node.path, text, node);
        return Ok(text.to_owned());
    }
    match text.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
            notes.names(Of::Model, &node.path, text, node);
            Ok(text.to_owned())
        }
        _ => Err(node.refuse(
            format_args!("cannot be `{}`", document::excerpt(text)),
            "name the provider and the model, as in `local/llama-3`",
        )),
    }
}
