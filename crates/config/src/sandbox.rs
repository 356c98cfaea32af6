//! `sandbox`, and `agent.<name>.sandbox`: what commands of agents are kept in.

use serde::Serialize;

use crate::Error;
use crate::document::Node;
use crate::reference::{Kind, Section, When, setting};
use crate::section::Notes;

/// What tools are kept in.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sandbox {
    /// For agents that have nothing of their own.
    #[serde(flatten)]
    pub held: Held,
    /// Sessions of every agent that says nothing itself reach nothing but what they start.
    pub isolated: Option<bool>,
    /// How far isolated sessions see: `spawned` (what they started) or `all` (as far as others do).
    pub session_tools_visibility: Option<&'static str>,
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

pub(crate) const KEYS: &[&str] = &["mode", "network", "isolated", "sessionToolsVisibility"];
const AGENT_KEYS: &[&str] = &["mode", "network", "isolated"];

pub(crate) const SECTION: Section = Section {
    name: "sandbox",
    about: "What commands of agents are kept in (docs/sandbox.md). `mode` and `network` count from the next run on.",
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
                "sessionToolsVisibility" => sandbox.session_tools_visibility = Some(field.node.choice(CLAMPS)?),
                _ => notes.unknown(field, KEYS),
            }
        }
        Ok(sandbox)
    }
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
