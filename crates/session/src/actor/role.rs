//! What a session runs as: its profile, what that may do, and the tools it is therefore shown.

use crate::agents::Profile;
use crate::grant::Grant;
use crate::runtime::Inner;
use crate::toolbox::{Deferral, Toolbox};
use proto::Action;
use rules::Policy;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::Session;
use tools::{AgentInfo, AnyTool, Audience};

pub(crate) struct Role {
    pub(crate) profile: Profile,
    pub(crate) policy: Arc<Policy>,
    pub(super) dir: PathBuf,
    /// The repository that holds `dir`, or `dir` itself.
    pub(super) worktree: PathBuf,
    pub(super) toolbox: Arc<Toolbox>,
}

impl Role {
    /// An agent that is gone from the configuration falls back to the default one.
    pub(crate) fn new(rt: &Inner, row: &Session, agent: &str) -> Self {
        let profile = rt.agents.get(agent).or_else(|_| rt.agents.get(rt.agents.default_agent()));
        let profile = profile.expect("the default agent exists").clone();
        let policy = Grant::read(&row.policy).policy(&profile, &rt.agents);
        let may_start =
            |agent: &Profile| agent.can_be_child() && policy.judge("task", &agent.name).action != Action::Deny;
        let info = |agent: &Profile| AgentInfo { name: agent.name.clone(), description: agent.description.clone() };
        let audience = Audience { agents: rt.agents.list().filter(|a| may_start(a)).map(info).collect() };
        let shown = |tool: &&'static dyn AnyTool| {
            let spec = tool.spec();
            policy.shows(spec.permission)
                && profile.wants(spec.name)
                && (spec.permission != "task" || !audience.agents.is_empty())
        };
        let tools = tools::BUILTIN.iter().copied().filter(|tool| shown(tool)).collect();
        let context = || rt.model(&rt.model_for(row, &profile.name)).map_or(0, |(_, model)| model.context);
        let deferral = Deferral { search: rt.search, forking: row.fork.is_none(), context: &context };
        let toolbox = Toolbox::new(tools, audience, &deferral);
        let dir = PathBuf::from(&row.cwd);
        Self { worktree: worktree(&dir), dir, toolbox: Arc::new(toolbox), policy: Arc::new(policy), profile }
    }

    /// Every tool, and which step of the policy takes it away, if one does.
    pub(crate) fn explained(&self) -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
        tools::BUILTIN.iter().map(|tool| {
            let spec = tool.spec();
            let only = |own: Vec<proto::Rule>| Policy { own, ..Policy::default() };
            let step = if self.toolbox.has(spec.name) {
                None
            } else if !self.profile.wants(spec.name) {
                Some("profile")
            } else if self.policy.ancestors.iter().any(|set| !only(set.clone()).shows(spec.permission)) {
                Some("parent")
            } else if self.policy.denies.iter().any(|set| !only(set.clone()).shows(spec.permission)) {
                Some("settings")
            } else if only(self.profile.rules.clone()).shows(spec.permission) {
                Some("child")
            } else {
                Some("rules")
            };
            (spec.name, step)
        })
    }

    /// The system part: stable for as long as the role is. `deferred` are the tools the model is told by name only.
    pub(super) fn system(&self, row: &Session, deferred: &[String]) -> String {
        let mut text = self.profile.prompt.clone();
        text.push_str(&format!("\n\nYou work in `{}`", row.cwd));
        if self.worktree != self.dir {
            text.push_str(&format!(", inside the repository `{}`", self.worktree.display()));
        }
        text.push_str(&format!(". This session is `{}`; you run as the agent `{}`.", row.id, self.profile.name));
        if let Some(parent) = &row.parent {
            text.push_str(&format!(" You were started by the session `{parent}`, which gets your final answer."));
        }
        if !deferred.is_empty() {
            text.push_str(&format!(
                "\n\nThere are more tools than the ones described to you. Fetch what you need with `tool_search` before you \
                 call it: {}.",
                deferred.join(", ")
            ));
        }
        text
    }
}

fn worktree(dir: &Path) -> PathBuf {
    dir.ancestors().find(|above| above.join(".git").exists()).unwrap_or(dir).to_owned()
}
