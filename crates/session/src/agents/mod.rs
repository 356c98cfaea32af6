//! Agents: the profiles a session can run as, built in and from the config (A1–A3).

mod builtin;

pub use builtin::permissions;
use config::{Ceilings, Mode};
use proto::{Error, Rule};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tools::sandbox::{self, Reach};

/// What a session runs as.
#[derive(Debug, Clone)]
pub struct Profile {
    pub name: String,
    pub description: String,
    pub mode: Mode,
    /// Ours, not the user's.
    pub native: bool,
    /// Not offered to people or models.
    pub hidden: bool,
    /// `provider/model`.
    pub model: Option<String>,
    /// How its model is asked.
    pub variant: Option<String>,
    pub prompt: String,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    /// It works in a worktree of its own when another agent starts it.
    pub worktree: bool,
    /// Its permission mode then.
    pub permission_mode: Option<rules::mode::Mode>,
    pub color: Option<String>,
    /// Model calls a run may make.
    pub steps: Option<u32>,
    /// Fields for each request to its model, by the names of the provider's API.
    pub options: serde_json::Map<String, serde_json::Value>,
    /// What a client shows when a conversation begins.
    pub welcome_message: Option<String>,
    /// Defaults, the user's global rules, the agent's own, the user's for this agent: in that order.
    pub rules: Vec<Rule>,
    /// Narrows the tools it is shown: the last entry that matches a name decides. Not inherited by children.
    pub tools: Vec<(String, bool)>,
    /// What of its rules nothing lifts: the administrator's, and those of a repository that is not trusted.
    pub ceilings: Ceilings,
    /// Those of the main checkout, where another one is worked in.
    pub(crate) main: Vec<Rule>,
    /// Its sessions reach nothing but what they start; unset, the settings for all say.
    pub isolated: Option<bool>,
    /// It only looks, and its commands are held to that unless its own settings say otherwise.
    pub looks: bool,
    /// How far its own settings let its commands reach.
    pub held: config::Held,
    /// Rules that were written for this agent by name; a child may only spawn when they speak of `task`.
    named: Vec<Rule>,
}

impl Profile {
    /// How far its commands reach, where `all` is set for everybody.
    pub fn reach(&self, all: config::Held) -> Reach {
        let usual = if self.looks { Reach::LOOKING } else { reach(all, Reach::USUAL) };
        reach(self.held, usual)
    }

    /// Whether the agent's own rules name a permission, which lifts a default denial for children.
    pub fn names(&self, permission: &str) -> bool {
        self.named.iter().any(|rule| rule.permission == permission)
    }

    /// Whether the profile wants the tool shown; a list of nothing but wanted tools leaves out all others.
    pub fn wants(&self, tool: &str) -> bool {
        let last = self.tools.iter().rev().find(|(name, _)| rules::matches(name, tool));
        last.map_or_else(
            || self.tools.is_empty() || self.tools.iter().any(|(_, wanted)| !wanted),
            |(_, wanted)| *wanted,
        )
    }

    /// The model it runs on where `usual` is what others run on.
    pub(crate) fn model_or(&self, usual: impl FnOnce() -> String) -> String {
        let own = proto::model::choice(self.model.clone(), self.variant.as_deref());
        proto::model::chosen(own.as_deref(), usual)
    }

    /// As lists show it.
    pub fn row(&self) -> proto::methods::AgentRow {
        let mode = match self.mode {
            Mode::Primary => "primary",
            Mode::Subagent => "subagent",
            Mode::All => "all",
        };
        proto::methods::AgentRow {
            name: self.name.clone(),
            description: self.description.clone(),
            mode: mode.into(),
            model: self.model.clone(),
            variant: self.variant.clone(),
            native: self.native,
            hidden: self.hidden,
            steps: self.steps,
            options: self.options.clone(),
            welcome_message: self.welcome_message.clone(),
            temperature: self.temperature,
            top_p: self.top_p,
            color: self.color.clone(),
            tools: self.tools.iter().map(|(name, shown)| (name.clone(), (*shown).into())).collect(),
            permission: self.rules.clone(),
            ..proto::methods::AgentRow::default()
        }
    }

    pub fn can_be_child(&self) -> bool {
        self.mode != Mode::Primary && !self.hidden
    }

    pub fn can_be_root(&self) -> bool {
        self.mode != Mode::Subagent && !self.hidden
    }
}

/// What is set, over what is usual.
fn reach(set: config::Held, usual: Reach) -> Reach {
    let mode = set.mode.map(|mode| match mode {
        config::SandboxMode::Off => sandbox::Mode::Off,
        config::SandboxMode::ReadOnly => sandbox::Mode::ReadOnly,
        config::SandboxMode::Workspace => sandbox::Mode::Workspace,
    });
    Reach {
        mode: mode.unwrap_or(usual.mode),
        network: set.network.unwrap_or(usual.network),
        asked: usual.asked || set.mode.is_some() || set.network.is_some(),
    }
}

/// All profiles, and which one answers when nobody else is asked for.
#[derive(Debug, Clone)]
pub struct Agents {
    profiles: BTreeMap<String, Profile>,
    default: String,
    /// Rules for all agents that nothing below can lift.
    ceilings: Ceilings,
    /// Those of the main checkout, where another one is worked in: the stricter answer counts.
    pub(crate) main: Vec<Rule>,
    /// Those of repositories around this one, each with its root: the same.
    pub(crate) around: Vec<(PathBuf, Vec<Rule>)>,
}

impl Agents {
    pub fn new(
        config: &BTreeMap<String, config::Agent>,
        default_agent: Option<&str>,
        user_rules: &[Rule],
    ) -> Result<Self, Error> {
        let user_rules = &tools::groups::expand_rules(user_rules);
        let mut profiles = builtin::profiles(user_rules);
        for (name, agent) in config {
            let name = proto::AgentId::parse(name)?.as_str().to_owned();
            if agent.disable {
                profiles.remove(&name);
                continue;
            }
            let base = profiles.remove(&name).unwrap_or_else(|| builtin::custom(&name, user_rules));
            profiles.insert(name, configured(base, agent));
        }
        let default = default_of(&profiles, default_agent, config)?;
        let ceilings = Ceilings { user: user_rules.clone(), ..Ceilings::default() };
        Ok(Self { profiles, default, ceilings, main: Vec::new(), around: Vec::new() })
    }

    /// The same agents on models by their whole names. One whose model has none runs on what it would run on without one.
    pub fn on(mut self, full: impl Fn(&str) -> Option<String>) -> Self {
        for profile in self.profiles.values_mut() {
            profile.model = profile.model.take().and_then(|model| full(&model));
        }
        self
    }

    /// The same agents below these ceilings instead of the user's rules alone.
    pub fn under(mut self, ceilings: &Ceilings) -> Self {
        self.ceilings = expanded(ceilings);
        self
    }

    /// The same agents in a second checkout of a repository whose main one has these rules, for all and for each.
    pub fn beside(mut self, all: &[Rule], each: &BTreeMap<String, Vec<Rule>>) -> Self {
        self.main = tools::groups::expand_rules(all);
        for (name, rules) in each {
            if let Some(profile) = self.profiles.get_mut(name) {
                profile.main = tools::groups::expand_rules(rules);
            }
        }
        self
    }

    /// The same agents in a repository inside another one, which has these rules.
    pub fn within(mut self, root: &Path, rules: &[Rule]) -> Self {
        if !rules.is_empty() {
            self.around.push((root.to_owned(), tools::groups::expand_rules(rules)));
        }
        self
    }

    /// Lays one more set of rules over everything: the stricter answer counts.
    pub(crate) fn narrow(&mut self, rules: &[Rule]) {
        self.ceilings.narrowing.extend_from_slice(rules);
    }

    pub fn list(&self) -> impl Iterator<Item = &Profile> {
        self.profiles.values()
    }

    pub fn default_agent(&self) -> &str {
        &self.default
    }

    /// Rules for all agents that nothing below can lift.
    pub fn ceilings(&self) -> &Ceilings {
        &self.ceilings
    }

    /// The name of an agent that work can be handed to.
    pub(crate) fn child(&self, name: &str) -> Result<&str, Error> {
        let profile = self.get(name)?;
        if !profile.can_be_child() {
            let why = format!("`{}` is an agent one talks to; work cannot be handed to it", profile.name);
            return Err(Error::invalid(why).hint("name a subagent, such as `general`"));
        }
        Ok(&profile.name)
    }

    pub fn get(&self, name: &str) -> Result<&Profile, Error> {
        let wanted = name.trim().to_ascii_lowercase();
        let elsewhere = || tools::agent::elsewhere(&wanted).and_then(|name| self.profiles.get(name));
        self.profiles.get(&wanted).or_else(elsewhere).ok_or_else(|| {
            let known: Vec<&str> = self.list().filter(|p| !p.hidden).map(|p| p.name.as_str()).collect();
            let shown: String = name.chars().take(64).collect();
            Error::not_found(format!("there is no agent `{shown}`")).hint(format!("there is: {}", known.join(", ")))
        })
    }

    /// What a new session may do that runs as an agent.
    pub fn policy(&self, agent: &str) -> Result<rules::Policy, Error> {
        Ok(crate::grant::Grant::default().policy(self.get(agent)?, self, Vec::new()))
    }

    /// Agents a mention may call.
    pub fn mentionable(&self) -> Vec<&str> {
        self.list().filter(|profile| !profile.hidden).map(|profile| profile.name.as_str()).collect()
    }
}

/// The user's settings on top of a profile.
fn configured(mut base: Profile, agent: &config::Agent) -> Profile {
    base.description = agent.description.clone().unwrap_or(base.description);
    base.mode = agent.mode.unwrap_or(base.mode);
    base.hidden = agent.hidden.unwrap_or(base.hidden);
    base.model = agent.model.clone().or(base.model);
    base.variant = agent.variant.clone().or(base.variant);
    base.prompt = agent.prompt.clone().unwrap_or(base.prompt);
    base.temperature = agent.temperature.or(base.temperature);
    base.top_p = agent.top_p.or(base.top_p);
    base.steps = agent.steps.or(base.steps);
    base.worktree |= agent.worktree;
    base.permission_mode = agent.permission_mode.and_then(rules::mode::Mode::parse).or(base.permission_mode);
    base.color = agent.color.clone().or(base.color);
    base.options.extend(agent.options.clone());
    base.welcome_message = agent.welcome_message.clone().or(base.welcome_message);
    base.isolated = agent.isolated.or(base.isolated);
    base.held = agent.held;
    let names = |(name, wanted): &(String, bool)| {
        tools::groups::expand(name).into_iter().map(|name| (tool(name), *wanted)).collect::<Vec<_>>()
    };
    base.tools.extend(agent.tools.iter().flat_map(names));
    let own = tools::groups::expand_rules(&agent.permission);
    base.ceilings = expanded(&agent.ceilings);
    base.rules.extend(own.iter().cloned());
    base.named.extend(own);
    base
}

/// A tool by the name it has here: other programs write `Read` and `LS`.
fn tool(name: String) -> String {
    tools::find(&name).map_or(name, |tool| tool.spec().name.to_owned())
}

fn expanded(ceilings: &Ceilings) -> Ceilings {
    let expand = |rules: &[Rule]| tools::groups::expand_rules(rules);
    Ceilings {
        user: expand(&ceilings.user),
        managed: expand(&ceilings.managed),
        narrowing: expand(&ceilings.narrowing),
    }
}

fn default_of(
    profiles: &BTreeMap<String, Profile>,
    wanted: Option<&str>,
    config: &BTreeMap<String, config::Agent>,
) -> Result<String, Error> {
    if let Some(name) = wanted {
        return match profiles.get(name) {
            Some(profile) if profile.can_be_root() => Ok(name.to_owned()),
            found => {
                let why = if found.is_some() { "is hidden or a subagent" } else { "does not exist" };
                Err(Error::invalid(format!("`default_agent` is `{name}`, which {why}"))
                    .hint("name a primary agent, such as `build`"))
            }
        };
    }
    // In the order of the settings, which is not that of the names.
    let mut custom: Vec<(&String, &config::Agent)> = config.iter().collect();
    custom.sort_by_key(|(_, agent)| agent.order);
    let first_custom = custom.into_iter().map(|(name, _)| name.as_str());
    ["build"]
        .into_iter()
        .chain(first_custom)
        .chain(["plan"])
        .find(|name| profiles.get(*name).is_some_and(Profile::can_be_root))
        .map(str::to_owned)
        .ok_or_else(|| Error::invalid("no agent is left to answer").hint("do not disable every primary agent"))
}

#[cfg(test)]
mod tests;
