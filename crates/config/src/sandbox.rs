//! `sandbox`, and `agent.<name>.sandbox`: what commands of agents are kept in.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::document::{Node, excerpt};
use crate::reference::{Kind, Section, When, setting};
use crate::section::{Notes, called_like_a_key};
use crate::{Error, Secret};

/// What tools are kept in.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sandbox {
    /// For agents that have nothing of their own.
    #[serde(flatten)]
    pub held: Held,
    /// Sessions of every agent that says nothing itself reach nothing but what they start.
    pub isolated: Option<bool>,
    /// What commands find in their environment besides the default list.
    pub env: Env,
    /// How far isolated sessions see: `spawned` (what they started) or `all` (as far as others do).
    pub session_tools_visibility: Option<&'static str>,
}

/// What commands find in their environment besides the default list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Env {
    /// Variables of the gateway, by name, or by their beginning and `*`.
    pub pass: Vec<String>,
    pub set: BTreeMap<String, Secret>,
}

/// How far commands reach. Unset: what suits the agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Held {
    pub mode: Option<SandboxMode>,
    pub network: Option<bool>,
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

const MODES: &[(&str, SandboxMode)] =
    &[("off", SandboxMode::Off), ("read-only", SandboxMode::ReadOnly), ("workspace", SandboxMode::Workspace)];
const CLAMPS: &[(&str, &str)] = &[("spawned", "spawned"), ("all", "all")];

pub(crate) const KEYS: &[&str] = &["mode", "network", "env", "isolated", "sessionToolsVisibility"];
const ENV_KEYS: &[&str] = &["pass", "set"];
const AGENT_KEYS: &[&str] = &["mode", "network", "isolated"];

pub(crate) const SECTION: Section = Section {
    name: "sandbox",
    about: "What commands of agents are kept in (docs/sandbox.md). `mode`, `network` and `env` count from the next run on.",
    when: When::Restart,
    settings: &[
        setting(
            "sandbox.mode",
            Kind::Choice(&["off", "read-only", "workspace"]),
            "`workspace`",
            "how far a command reaches: as far as you do, reading only, or writing in the session's repository. `explore` \
             and `plan` are read-only unless their own section says otherwise",
        ),
        setting(
            "sandbox.network",
            Kind::Flag,
            "`true`",
            "whether commands reach the network; those of `explore` and `plan` do not unless their own section says so",
        ),
        setting(
            "sandbox.env.pass",
            Kind::Texts,
            "none",
            "variables of your environment that commands get besides the default list (docs/sandbox.md): names, or \
             beginnings of names with `*`, which match no name that looks like a secret",
        ),
        setting(
            "sandbox.env.set",
            Kind::Any,
            "none",
            "variables that commands get with these values, as an object of strings",
        ),
        setting(
            "sandbox.isolated",
            Kind::Flag,
            "`false`",
            "sessions of every agent that says nothing itself reach nothing but what they start",
        ),
        setting(
            "sandbox.sessionToolsVisibility",
            Kind::Choice(&["spawned", "all"]),
            "`spawned`",
            "how far isolated sessions see",
        ),
    ],
};

impl Sandbox {
    pub(crate) fn read(node: &Node, notes: &mut Notes) -> Result<Self, Error> {
        let mut sandbox = Self::default();
        for field in node.fields()? {
            match field.key.as_str() {
                "mode" => sandbox.held.mode = Some(field.node.choice(MODES)?),
                "network" => sandbox.held.network = Some(field.node.flag()?),
                "isolated" => sandbox.isolated = Some(field.node.flag()?),
                "env" => sandbox.env = Env::read(&field.node, notes)?,
                "sessionToolsVisibility" => sandbox.session_tools_visibility = Some(field.node.choice(CLAMPS)?),
                _ => notes.unknown(field, KEYS),
            }
        }
        Ok(sandbox)
    }
}

impl Env {
    fn read(node: &Node, notes: &mut Notes) -> Result<Self, Error> {
        let mut env = Self::default();
        for field in node.fields()? {
            match field.key.as_str() {
                "pass" => {
                    env.pass = field.node.texts()?;
                    for name in &env.pass {
                        check(&field.node, name.strip_suffix('*').filter(|start| !start.is_empty()).unwrap_or(name))?;
                        if called_like_a_key(name) && !name.ends_with('*') {
                            let what = "looks like a secret, and every command of an agent can read it";
                            notes.warn(field, format_args!("`sandbox.env.pass`: `{name}` {what}"));
                        }
                    }
                }
                "set" => {
                    for variable in field.node.fields()? {
                        check(&variable.node, &variable.key)?;
                        env.set.insert(variable.key.clone(), Secret::new(variable.node.text()?));
                    }
                }
                _ => notes.unknown(field, ENV_KEYS),
            }
        }
        Ok(env)
    }
}

fn check(node: &Node, name: &str) -> Result<(), Error> {
    let is_name = |(at, b): (usize, u8)| b == b'_' || b.is_ascii_alphabetic() || (at > 0 && b.is_ascii_digit());
    if name.is_empty() || !name.bytes().enumerate().all(is_name) {
        let why = format!("has `{}`, which is not the name of a variable", excerpt(name));
        return Err(node.refuse(why, "use letters, digits and `_`; `pass` also takes `NAME_*`"));
    }
    Ok(())
}

/// Variables that one file of settings lets through.
pub(crate) fn passed(root: &Node) -> Vec<String> {
    let field = |node: &Node, key: &str| {
        let fields = node.fields().ok()?;
        Some(fields.iter().find(|field| field.key == key)?.node.clone())
    };
    let pass = field(root, "sandbox").and_then(|node| field(&node, "env")).and_then(|node| field(&node, "pass"));
    pass.and_then(|node| node.texts().ok()).unwrap_or_default()
}

/// The section of one agent: what its commands are kept in, and whether its sessions are isolated.
pub(crate) fn of_agent(node: &Node, notes: &mut Notes) -> Result<(Held, Option<bool>), Error> {
    let (mut held, mut isolated) = (Held::default(), None);
    for field in node.fields()? {
        match field.key.as_str() {
            "mode" => held.mode = Some(field.node.choice(MODES)?),
            "network" => held.network = Some(field.node.flag()?),
            "isolated" => isolated = Some(field.node.flag()?),
            _ => notes.unknown(field, AGENT_KEYS),
        }
    }
    Ok((held, isolated))
}
