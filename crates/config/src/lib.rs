//! What is set: the settings file, typed as read, and where things live.
//!
//! The only crate that reads the environment. Others get the section they need, never the file.
//!
//! - [`Paths`]: directories, the database, the socket.
//! - [`Environment`]: a snapshot of the variables.
//! - [`load`]: the file into a [`Config`]. What is wrong in it is an [`Error`] with `file:line:column`; what is merely
//!   odd is a warning.

mod agent;
mod document;
mod environment;
mod error;
mod hash;
mod hooks;
mod limits;
mod organisation;
mod paths;
mod peers;
mod permission;
mod provider;
mod secret;
mod section;
mod tls;
mod tools;
mod visibility;
mod worktree;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io, io::Read};

use proto::Rule;
use serde::Serialize;
use serde_json::Value;

pub use agent::{Agent, Mode};
pub use environment::Environment;
pub use error::Error;
pub use hooks::{Hook, Hooks};
pub use limits::Limits;
pub use organisation::Organisation;
pub use paths::Paths;
pub use peers::{Inbound, Peer};
pub use permission::Placed;
pub use provider::{Cost, Effort, ModelLimits, Provider, VENDORS, Wire};
pub use secret::Secret;
pub use tls::Tls;
pub use tools::Search;
pub use worktree::{Base, Worktree};

use document::Node;
use section::Notes;

/// Everything a user can set.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Config {
    /// `provider/model`.
    pub model: Option<String>,
    pub default_agent: Option<String>,
    pub provider: BTreeMap<String, Provider>,
    /// The user's global rules, in the order of the file.
    pub permission: Vec<Rule>,
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
    pub worktree: Worktree,
    pub tls: Option<Tls>,
    pub organisation: Organisation,
    /// Files with instructions for every agent, besides those that are found by their name.
    pub instructions: Vec<String>,
    /// Sections that are accepted and not typed yet, as they were written.
    pub other: BTreeMap<String, Value>,
}

/// What tools are kept in.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sandbox {
    /// Unset: what suits the agent.
    pub mode: Option<SandboxMode>,
    /// Sessions of every agent that says nothing itself reach nothing but what they start.
    pub isolated: Option<bool>,
    /// How far isolated sessions see: `spawned` (what they started) or `all` (as far as others do).
    pub session_tools_visibility: Option<&'static str>,
}

/// How far a command of an agent may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// As far as this user does.
    Off,
    /// It reads, and writes nothing but temporary files.
    ReadOnly,
    /// It writes in the directory of its session as well.
    Workspace,
}

/// Settings, and what is to be said about them.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    pub config: Config,
    pub warnings: Vec<String>,
    /// SHA-256 of the files read: another one means that settings may have changed.
    pub text_hash: String,
    /// `config.permission` again, each rule with its `file:line`.
    pub rule_places: Vec<Placed>,
    /// The same for the rules of each agent.
    pub agent_rule_places: BTreeMap<String, Vec<Placed>>,
}

const TYPED: &[&str] = &[
    "model",
    "default_agent",
    "provider",
    "permission",
    "agent",
    "limits",
    "sandbox",
    "peers",
    "inbound",
    "hooks",
    "tools",
    "worktree",
    "tls",
    "organisation",
    "instructions",
];

const UNTYPED: &[&str] = &["session", "durability", "store", "mcp", "$schema"];

const SANDBOX_MODES: &[(&str, SandboxMode)] =
    &[("off", SandboxMode::Off), ("read-only", SandboxMode::ReadOnly), ("workspace", SandboxMode::Workspace)];
const CLAMPS: &[(&str, &str)] = &[("spawned", "spawned"), ("all", "all")];

const SANDBOX_KEYS: &[&str] = &["mode", "isolated", "sessionToolsVisibility"];

/// Far above any settings file; protects against a wrong path.
const LARGEST_FILE: u64 = 1 << 20;

/// Reads the user's settings. No file is no settings.
pub fn load(paths: &Paths, env: &Environment) -> Result<Loaded, Error> {
    let file = paths.config_file();
    let text = read_text(&file)?;
    let mut hasher = hash::Hasher::default();
    hasher.add(text.as_bytes());
    let mut loaded = parse(&file.display().to_string(), &text, env)?;
    loaded.text_hash = hasher.finish();
    let unread = paths.config.join("convoke.json");
    if file != unread && unread.exists() {
        loaded.warnings.push(format!("{}: not read, because `convoke.jsonc` is there as well", unread.display()));
    }
    Ok(loaded)
}

fn read_text(file: &Path) -> Result<String, Error> {
    let name = file.display().to_string();
    let bytes = match read_bytes(file) {
        Ok(bytes) => bytes,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(cause) => {
            let hint = "make it readable for this user, or move it away";
            return Err(Error::new(format!("{name}: cannot be read: {cause}"), hint));
        }
    };
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(Error::new(format!("{name}: larger than 1 MiB"), "check that this is the settings file"));
    }
    let text = String::from_utf8(bytes).map_err(|error| not_text(&name, &error))?;
    // Some editors start a file with a mark that is no part of its text.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Stops one byte behind the largest file: enough to know.
fn read_bytes(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(file)?.take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn not_text(name: &str, error: &std::string::FromUtf8Error) -> Error {
    let offset = error.utf8_error().valid_up_to();
    let before = String::from_utf8_lossy(&error.as_bytes()[..offset]);
    document::place(name, &before, offset).error("not UTF-8", "save the file as UTF-8")
}

fn parse(file: &str, text: &str, env: &Environment) -> Result<Loaded, Error> {
    let mut notes = Notes::default();
    let mut root = document::parse(file, text)?;
    root.expand(env, &mut notes.warnings);
    let mut loaded = Loaded::default();
    notes.repeated(root.fields()?);
    for field in root.fields()? {
        let (node, config) = (&field.node, &mut loaded.config);
        match field.key.as_str() {
            "model" => config.model = Some(model(node)?),
            "default_agent" => config.default_agent = Some(agent::name(node.text()?, &node.place)?),
            "provider" => config.provider = read_providers(node, &mut notes)?,
            "permission" => loaded.rule_places = permission::read(node)?,
            "agent" => read_agents(node, &mut notes, &mut loaded)?,
            "limits" => config.limits = Limits::read(node, &mut notes)?,
            "sandbox" => config.sandbox = Sandbox::read(node, &mut notes)?,
            "peers" => config.peers = peers::read(node, &mut notes)?,
            "inbound" => config.inbound = Some(peers::inbound(node)?),
            "hooks" => config.hooks = hooks::read(node, &mut notes)?,
            "tools" => read_tools(node, &mut notes, config)?,
            "worktree" => config.worktree = Worktree::read(node, &mut notes)?,
            "tls" => config.tls = Tls::read(node, &mut notes)?,
            "organisation" => config.organisation = Organisation::read(node, &mut notes)?,
            "instructions" => config.instructions = node.texts()?,
            other if UNTYPED.contains(&other) => drop(config.other.insert(other.to_owned(), node.json())),
            _ => notes.unknown(field, &[TYPED, UNTYPED].concat()),
        }
    }
    loaded.config.permission = permission::rules(&loaded.rule_places);
    loaded.warnings = notes.warnings;
    Ok(loaded)
}

impl Sandbox {
    fn read(node: &Node, notes: &mut Notes) -> Result<Self, Error> {
        let mut sandbox = Self::default();
        for field in node.fields()? {
            match field.key.as_str() {
                "mode" => sandbox.mode = Some(field.node.choice(SANDBOX_MODES)?),
                "isolated" => sandbox.isolated = Some(field.node.flag()?),
                "sessionToolsVisibility" => sandbox.session_tools_visibility = Some(field.node.choice(CLAMPS)?),
                _ => notes.unknown(field, SANDBOX_KEYS),
            }
        }
        Ok(sandbox)
    }
}

/// `search` is ours; the guard between sessions reads the section as it was written.
fn read_tools(node: &Node, notes: &mut Notes, config: &mut Config) -> Result<(), Error> {
    notes.repeated(node.fields()?);
    for field in node.fields()? {
        match field.key.as_str() {
            "search" => config.search = tools::search(&field.node)?,
            other if tools::KEYS.contains(&other) => {}
            _ => notes.unknown(field, tools::KEYS),
        }
    }
    config.other.insert("tools".into(), node.json());
    Ok(())
}

fn read_providers(node: &Node, notes: &mut Notes) -> Result<BTreeMap<String, Provider>, Error> {
    let mut providers = BTreeMap::new();
    notes.repeated(node.fields()?);
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
    notes.repeated(node.fields()?);
    for field in node.fields()? {
        let name = agent::name(&field.key, &field.place)?;
        let (agent, places) = Agent::read(&field.node, notes)?;
        loaded.config.agent.insert(name.clone(), agent);
        loaded.agent_rule_places.insert(name, places);
    }
    Ok(())
}

/// A model's full name. What stands behind the first slash is the provider's own business.
fn model(node: &Node) -> Result<String, Error> {
    let text = node.text()?;
    match text.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => Ok(text.to_owned()),
        _ => Err(node.refuse(
            format_args!("cannot be `{}`", document::excerpt(text)),
            "name the provider and the model, as in `local/llama-3`",
        )),
    }
}
