//! Why something is decided as it is, and why a model is shown what it is shown: for people, from the rules that decide.

use crate::actor::Role;
use crate::doors::new_row;
use crate::grant::Grant;
use crate::runtime::{Runtime, directory};
use crate::settings::{Settings, project};
use config::{Always, Layer, Loaded, Placed};
use proto::methods::{ToolsInput, ToolsOutput, WhyInput, WhyOrigin, WhyOutput, WhyPart};
use proto::{AgentId, Error, Key, Rule, SessionId};
use rules::shell::{self, Want};
use rules::{Policy, Source, Verdict};
use std::path::Path;
use store::Session;

/// Whom a question is about.
struct Whom<'a> {
    session: Option<&'a str>,
    agent: Option<&'a str>,
    cwd: Option<&'a str>,
}

impl Runtime {
    /// What a model is shown: in a session, or in a new one of an agent.
    pub async fn tools(&self, input: &ToolsInput) -> Result<ToolsOutput, Error> {
        let (session, agent, cwd) = (input.session.as_deref(), input.agent.as_deref(), input.cwd.as_deref());
        let (_, role) = self.role(Whom { session, agent, cwd }).await?;
        Ok(ToolsOutput { tools: role.tools(), agent: role.profile.name })
    }

    /// What would be decided, by which rule, and where that rule stands.
    pub async fn why(&self, input: &WhyInput) -> Result<WhyOutput, Error> {
        let (session, agent, cwd) = (input.session.as_deref(), input.agent.as_deref(), input.cwd.as_deref());
        let (row, role) = self.role(Whom { session, agent, cwd }).await?;
        let project = project(Path::new(&row.cwd));
        let kept = self.settings().always().into_iter().filter(|kept| kept.project == project);
        let always: Vec<Rule> = kept.map(|kept| Always::rule(&kept)).collect();
        let permission = tools::find(&input.tool).map_or(input.tool.as_str(), |tool| tool.spec().permission);
        let inquiry = Inquiry { settings: self.settings().as_ref(), role: &role, always: &always };
        Ok(inquiry.answer(permission, input.pattern.trim()))
    }

    async fn role(&self, whom: Whom<'_>) -> Result<(Session, Role), Error> {
        let row = match (whom.session, whom.agent) {
            (Some(_), Some(_)) => return Err(Error::invalid("give `session` or `agent`, not both")),
            (Some(session), None) => self.inner().find(session, None).await?,
            (None, agent) => {
                let cwd = whom.cwd.map_or_else(|| Ok("/".to_owned()), directory)?;
                let here = self.settings().fresh(Path::new(&cwd))?;
                let agent = here.agents.get(agent.unwrap_or(here.agents.default_agent()))?.name.clone();
                let id = SessionId::new();
                let key = Key::chat(&AgentId::parse(&agent)?, &id);
                let mode = crate::runtime::mode(None, &here)?;
                new_row(id, &key, &agent, cwd, &Grant { mode, ..Grant::default() })
            }
        };
        let role = Role::new(self.inner(), &row, &row.agent);
        Ok((row, role))
    }
}

/// What is asked about, and of whom.
struct Inquiry<'a> {
    settings: &'a dyn Settings,
    role: &'a Role,
    always: &'a [Rule],
}

impl Inquiry<'_> {
    fn policy(&self) -> &Policy {
        &self.role.policy
    }

    fn answer(&self, permission: &str, pattern: &str) -> WhyOutput {
        let agent = self.role.profile.name.clone();
        let whole = self.policy().judge_after(self.always, permission, pattern);
        let whole = self.part(permission, pattern, &whole, None);
        if permission != shell::PERMISSION {
            return WhyOutput { whole, agent, parts: Vec::new() };
        }
        let line = shell::read(pattern);
        let part = |want: &Want| {
            let verdict = self.policy().judge_want_after(self.always, want);
            let opaque = line.opaque.filter(|_| want.kind == shell::Kind::Opaque);
            self.part(want.permission(), &want.source, &verdict, opaque)
        };
        let parts: Vec<WhyPart> = line.wants.iter().map(part).collect();
        // Where the whole is no stricter than a part, the reason of that part is the reason.
        let reason = parts.iter().find(|part| part.action == whole.action).map(|part| part.reason.clone());
        WhyOutput { whole: WhyPart { reason: reason.unwrap_or(whole.reason), ..whole }, agent, parts }
    }

    fn part(&self, permission: &str, pattern: &str, verdict: &Verdict<'_>, opaque: Option<&str>) -> WhyPart {
        let action = self.role.mode.settle(permission, verdict);
        let mut reason = reason(verdict).to_owned();
        if let Some(why) = opaque {
            reason = format!("nobody can say what the line runs ({why}); {reason}");
        }
        if action != verdict.action {
            reason = format!("the permission mode `{}` asks nobody about it", self.role.mode.as_str());
        }
        let (permission, pattern) = (permission.to_owned(), pattern.to_owned());
        WhyPart { permission, pattern, action, rule: verdict.rule.cloned(), origin: self.origin(verdict), reason }
    }

    /// Where the rule stands. Rules that are nowhere in the settings are built in.
    fn origin(&self, verdict: &Verdict<'_>) -> Option<WhyOrigin> {
        let rule = verdict.rule?;
        if verdict.source == Source::Always {
            let file = self.settings.always_file().map(|file| file.display().to_string());
            return Some(WhyOrigin { layer: "always".into(), file, line: None });
        }
        let counts = |placed: &&Placed| match verdict.source {
            Source::Ceiling(_) => !placed.narrows,
            Source::Ancestor(_) => placed.narrows,
            Source::Set(_) | Source::Always | Source::Default => !placed.narrows,
        };
        let is = |placed: &&Placed| self.settings.written_out(&placed.rule).contains(rule);
        let found = places(&self.role.here.loaded, &self.role.profile.name).rev().filter(counts).find(is);
        Some(match found {
            Some(Placed { origin, .. }) => WhyOrigin {
                layer: origin.layer.name().into(),
                file: Some(origin.file.clone()),
                line: u64::try_from(origin.line).ok(),
            },
            None => WhyOrigin { layer: Layer::Builtin.name().into(), file: None, line: None },
        })
    }
}

/// Rules for all agents, then those for this one: in the order in which they decide.
fn places<'l>(loaded: &'l Loaded, agent: &str) -> impl DoubleEndedIterator<Item = &'l Placed> {
    loaded.rule_places.iter().chain(loaded.agent_rule_places.get(agent).into_iter().flatten())
}

fn reason(verdict: &Verdict<'_>) -> &'static str {
    let doubt = verdict.rule.is_some_and(|rule| rule.action < verdict.action);
    match verdict.source {
        _ if doubt => "a stricter rule may speak about it, which is known only when it runs",
        Source::Default => "no rule speaks about it, so a person is asked",
        Source::Set(_) => "the last rule that speaks about it decides",
        Source::Ceiling(_) => "nothing below lifts this deny",
        Source::Ancestor(_) if verdict.rule.is_none() => "no rule of a repository speaks about it",
        Source::Ancestor(_) => {
            "what is above (a session, the mode, a repository that is not trusted) may forbid, and the stricter counts"
        }
        Source::Always => "a person answered `always` before",
    }
}
