//! `agent.<name>`: a profile of the user's own, or changes to a built-in one.

use proto::Rule;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::document::{Field, Node, Place, excerpt};
use crate::permission::{self, Ceilings, Placed};
use crate::reference::{Kind, Section, When, setting};
use crate::section::{Notes, near};
use crate::{Error, Held, Of, PERMISSION_MODES, model, sandbox, visibility};

/// What the file says about an agent; what it does not say is left to the built-in profile or the defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Agent {
    /// `provider/model`.
    pub model: Option<String>,
    pub variant: Option<String>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub prompt: Option<String>,
    /// Takes the agent away, a built-in one too.
    pub disable: bool,
    pub description: Option<String>,
    pub mode: Option<Mode>,
    pub hidden: Option<bool>,
    /// Handed to the provider; keys of the agent that mean nothing to us end up here as well.
    pub options: Map<String, Value>,
    pub color: Option<String>,
    /// Its sessions work in a worktree of their own when another agent starts them.
    pub worktree: bool,
    /// The permission mode of its sessions when another agent starts them.
    pub permission_mode: Option<&'static str>,
    /// What a client shows when a conversation begins.
    pub welcome_message: Option<String>,
    /// How many agents are named before it in the settings.
    #[serde(skip)]
    pub order: usize,
    /// A hard limit on model calls in one run.
    pub steps: Option<u32>,
    pub permission: Vec<Rule>,
    /// What of them nothing below can lift; `user` is of no use here, since rules of an agent are no ceiling.
    pub ceilings: Ceilings,
    /// Which tools the agent is shown: wildcards in order, the last one that matches a name decides. The list form
    /// `["read", "grep"]` is kept as "nothing but these".
    pub tools: Vec<(String, bool)>,
    /// `tools.sessions` as it was written: how far this agent's sessions see.
    pub sessions: Option<Value>,
    /// `sandbox`: how far its commands reach.
    pub held: Held,
    /// `sandbox.isolated`: sessions of this agent reach nothing but what they start.
    pub isolated: Option<bool>,
}

/// Where an agent may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// As the agent a person talks to.
    Primary,
    /// As a child of another one.
    Subagent,
    All,
}

const MODES: &[(&str, Mode)] = &[("primary", Mode::Primary), ("subagent", Mode::Subagent), ("all", Mode::All)];

const ISOLATION: &[(&str, bool)] = &[("worktree", true), ("none", false)];

/// More model calls than any run makes; a longer number is a slip of the finger.
const MOST_STEPS: u64 = 1_000_000;

pub(crate) const SECTION: Section = Section {
    name: "agent",
    about: "Profiles of your own, or changes to built-in ones. Keys that are not known become `options`.",
    when: When::NextRun,
    settings: &[
        setting("agent.<name>.description", Kind::Text, "none", "what it is for: other agents choose by that"),
        setting(
            "agent.<name>.mode",
            Kind::Choice(&["primary", "subagent", "all"]),
            "`all`",
            "whether people talk to it, other agents start it, or both",
        ),
        setting("agent.<name>.prompt", Kind::Text, "a general one", "what it is told first"),
        setting("agent.<name>.model", Kind::Text, "`model`", "as `provider/model`"),
        setting("agent.<name>.variant", Kind::Text, "none", "how its model is asked, such as `high`"),
        setting("agent.<name>.temperature", Kind::Number, "the server's", "0 to 2"),
        setting("agent.<name>.top_p", Kind::Number, "the server's", "0 to 1"),
        setting(
            "agent.<name>.steps",
            Kind::Whole,
            "no limit",
            "model calls a run may make; in the last one it has to conclude",
        ),
        setting("agent.<name>.permission", Kind::Rules, "none", "rules after those for every agent"),
        setting(
            "agent.<name>.tools",
            Kind::Tools,
            "all",
            "which tools it is shown; `sessions` among the switches may be an object that says how far its sessions see",
        ),
        setting(
            "agent.<name>.sandbox",
            Kind::Any,
            "`sandbox`",
            "`mode` and `network`: how far its commands reach; `isolated`: its sessions reach nothing but what they start",
        ),
        setting(
            "agent.<name>.isolation",
            Kind::Choice(&["worktree", "none"]),
            "`none`",
            "`worktree`: it gets a worktree of its own when another agent starts it",
        ),
        setting(
            "agent.<name>.permission_mode",
            Kind::Choice(&["ask", "accept-edits", "plan", "auto"]),
            "`ask`",
            "its permission mode when another agent starts it; never one that asks less than that agent's",
        ),
        setting("agent.<name>.color", Kind::Text, "none", "how it is shown"),
        setting(
            "agent.<name>.welcome_message",
            Kind::Text,
            "none",
            "what a client shows when you start to talk with it",
        ),
        setting("agent.<name>.hidden", Kind::Flag, "`false`", "not offered to people or models"),
        setting("agent.<name>.disable", Kind::Flag, "`false`", "takes it away, a built-in one too"),
        setting(
            "agent.<name>.options",
            Kind::Any,
            "none",
            "fields that are added to each request to the model, as its provider's API names them",
        ),
    ],
};

impl Agent {
    pub(crate) fn read(node: &Node, notes: &mut Notes) -> Result<(Self, Vec<Placed>), Error> {
        let (mut agent, mut places) = (Self::default(), Vec::new());
        let owned = |node: &Node| node.text().map(|text| Some(text.to_owned()));
        for field in node.fields()? {
            let node = &field.node;
            match field.key.as_str() {
                "model" => agent.model = Some(model(node, notes)?),
                "variant" => agent.variant = owned(node)?,
                "temperature" => agent.temperature = Some(node.number(0.0, 2.0)?),
                "top_p" => agent.top_p = Some(node.number(0.0, 1.0)?),
                "prompt" => agent.prompt = owned(node)?,
                "disable" => agent.disable = node.flag()?,
                "description" => agent.description = owned(node)?,
                "mode" => agent.mode = Some(node.choice(MODES)?),
                "hidden" => agent.hidden = Some(node.flag()?),
                "options" => {
                    agent.options.extend(node.fields()?.iter().map(|option| (option.key.clone(), option.node.json())));
                }
                "isolation" => agent.worktree = node.choice(ISOLATION)?,
                "permission_mode" => agent.permission_mode = Some(node.choice(PERMISSION_MODES)?),
                "color" => agent.color = owned(node)?,
                "welcome_message" => agent.welcome_message = owned(node)?,
                "steps" => agent.steps = u32::try_from(node.whole(1, MOST_STEPS)?).ok(),
                "permission" => places = permission::read(node)?,
                "tools" => (agent.tools, agent.sessions) = read_tools(node, notes)?,
                "sandbox" => (agent.held, agent.isolated) = sandbox::of_agent(node, notes)?,
                _ => {
                    mistyped(field, notes);
                    agent.options.insert(field.key.clone(), node.json());
                }
            }
        }
        agent.permission = permission::all(&places);
        agent.ceilings = Ceilings::of(&places);
        Ok((agent, places))
    }
}

/// Keys of its own; the tables for people are in [`SECTION`].
const KEYS: &[&str] = &[
    "model",
    "variant",
    "temperature",
    "top_p",
    "prompt",
    "disable",
    "description",
    "mode",
    "hidden",
    "options",
    "color",
    "isolation",
    "permission_mode",
    "welcome_message",
    "steps",
    "permission",
    "tools",
    "sandbox",
];

/// A key that is none of ours goes to the provider, unless it looks like one of ours: then somebody should know.
fn mistyped(field: &Field, notes: &mut Notes) {
    // What providers do know.
    let theirs = ["top_k", "top_n"].contains(&field.key.as_str());
    if let Some(meant) = near(&field.key, KEYS).filter(|_| !theirs) {
        let path = excerpt(&field.node.path);
        notes.stray(field, meant);
        notes.warn(
            field,
            format_args!("unknown key `{path}` is only an option for the provider; the nearest known key is `{meant}`"),
        );
    }
}

/// An agent's name as sessions are keyed by it: in lower case.
pub(crate) fn name(key: &str, place: &Place) -> Result<String, Error> {
    proto::AgentId::parse(key).map(|id| id.as_str().to_owned()).map_err(|_| {
        let hint = "use a letter or digit, then letters, digits, `_` or `-`, at most 64 in all";
        place.error(format_args!("`{}` is not an agent's name", excerpt(key)), hint)
    })
}

type Tools = (Vec<(String, bool)>, Option<Value>);

/// Names or switches; among the switches `sessions` may be an object, which says how far sessions see.
fn read_tools(node: &Node, notes: &mut Notes) -> Result<Tools, Error> {
    if node.is_list() {
        for tool in node.list()? {
            notes.names(Of::Tool, &node.path, tool.text()?, tool);
        }
        let shown = node.texts()?.into_iter().map(|tool| (tool, true));
        return Ok((std::iter::once(("*".to_owned(), false)).chain(shown).collect(), None));
    }
    let forms = "write `[\"read\", \"grep\"]` or `{ \"bash\": false }`";
    let fields = node.fields().map_err(|_| node.wrong("an array or an object", forms))?;
    let (mut switches, mut sessions) = (Vec::new(), None);
    for field in fields {
        if field.key == "sessions" && field.node.is_object() {
            sessions = Some(visibility::read(&field.node, notes)?);
        } else {
            notes.names(Of::Tool, &node.path, &field.key, &field.node);
            switches.push((field.key.clone(), field.node.flag()?));
        }
    }
    Ok((switches, sessions))
}
