//! Why something is decided as it is, and why a model is shown what it is shown: for people, from the rules that decide.

use crate::actor::Role;
use crate::agents::permissions;
use crate::doors::new_row;
use crate::grant::Grant;
use crate::runtime::{Inner, Runtime, directory};
use crate::settings::{Place, Settings};
use config::{Always, Layer, Loaded, Placed};
use proto::methods::{AskReason, ToolsInput, ToolsOutput, WhyInput, WhyOrigin, WhyOutput, WhyPart};
use proto::{Action, AgentId, Code, Error, Key, Rule, SessionId};
use rules::shell::{self, Want};
use rules::{Policy, Source, Verdict};
use std::path::Path;
use store::Session;
use tools::Access;
use tools::files::{self, Inside, Purpose};

/// What calls of other permissions may need besides.
const FURTHER: [&str; 3] = ["external_directory", "private_network", "protected"];

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
        let (_, role) = self.role(Whom { session, agent, cwd }).await?;
        let kept = self.settings().always().into_iter().filter(|kept| kept.project == role.inside().worktree);
        let always: Vec<Rule> = kept.map(|kept| Always::rule(&kept)).collect();
        let (inside, env) = (role.inside(), role.processes.env());
        let inquiry = Inquiry { settings: self.settings().as_ref(), role: &role, always: &always, inside, env };
        if let Some(group) = tools::groups::permissions(&input.tool) {
            return Ok(inquiry.group(&input.tool, &group, input.pattern.trim()));
        }
        Ok(inquiry.answer(permission(&input.tool)?, input.pattern.trim()))
    }

    async fn role(&self, whom: Whom<'_>) -> Result<(Session, Role), Error> {
        let row = match (whom.session, whom.agent) {
            (Some(_), Some(_)) => return Err(Error::invalid("give `session` or `agent`, not both")),
            (Some(session), None) => self.inner().find(session).await?,
            (None, agent) => {
                let cwd = whom.cwd.map_or_else(|| Ok("/".to_owned()), directory)?;
                let place = Place::found(Path::new(&cwd));
                let here = self.settings().fresh(&place)?;
                let agent = here.agents.get(agent.unwrap_or(here.agents.default_agent()))?.name.clone();
                let id = SessionId::new();
                let key = Key::chat(&AgentId::parse(&agent)?, &id);
                let mode = crate::runtime::mode(None, &here)?;
                new_row(id, &key, &agent, cwd, &Grant { mode, ..Grant::default() }.beginning(place))
            }
        };
        let role = Role::new(self.inner(), &row, &row.agent);
        Ok((row, role))
    }
}

/// Why a call has to be asked about, by the strictest of its reasons, and whether that is a deny which might match.
pub(crate) fn asked_because(rt: &Inner, role: &Role, asks: &[Access]) -> (AskReason, bool) {
    let (settings, inside, env) = (rt.settings.as_ref(), role.inside(), role.processes.env());
    let inquiry = Inquiry { settings, role, always: &[], inside, env };
    let verdict = |access: &'_ Access| role.strictest(&access.permission, &access.pattern);
    let doubtful = asks.iter().find(|access| verdict(access).may_be_denied());
    let Some(access) = doubtful.or(asks.first()) else { return (AskReason::default(), false) };
    let verdict = verdict(access);
    if verdict.action != Action::Ask {
        let text = format!("`{}` is always asked about", access.permission);
        return (AskReason { text, ..AskReason::default() }, false);
    }
    let WhyPart { rule, origin, reason: text, .. } = inquiry.part(&access.permission, &access.pattern, &verdict, None);
    let (layer, file, line) = origin.map_or((None, None, None), |at| (Some(at.layer), at.file, at.line));
    (AskReason { text, rule, layer, file, line }, doubtful.is_some())
}

/// What is asked about, and of whom.
struct Inquiry<'a> {
    settings: &'a dyn Settings,
    role: &'a Role,
    always: &'a [Rule],
    inside: Inside<'a>,
    /// What commands find in their environment.
    env: &'a [(String, String)],
}

impl Inquiry<'_> {
    fn policy(&self) -> &Policy {
        &self.role.policy
    }

    fn answer(&self, permission: &str, pattern: &str) -> WhyOutput {
        let agent = self.role.profile.name.clone();
        let accesses = self.accesses(permission, pattern);
        let is_line = permission == shell::PERMISSION;
        // As rules see it: a path as where it leads, an address written out.
        let seen = accesses.iter().find(|access| !is_line && access.permission == permission);
        let pattern = seen.map_or(pattern, |access| access.pattern.as_str());
        let whole = self.policy().judge_after(self.always, permission, pattern);
        let mut whole = self.part(permission, pattern, &whole, None);
        let mut parts = if is_line { self.commands(pattern) } else { Vec::new() };
        // Where the whole is no stricter than a part, the reason of that part is the reason.
        if let Some(part) = parts.iter().find(|part| part.action == whole.action) {
            whole.reason.clone_from(&part.reason);
        }
        let wants = if is_line { shell::read(pattern.trim()).wants } else { Vec::new() };
        // What an alias stands for is not in the line.
        let is_hidden = |access: &Access| {
            access.permission == shell::PERMISSION
                && !access.pattern.starts_with(['<', '>'])
                && wants.iter().all(|want| want.source != access.pattern)
        };
        let is_further = |access: &Access| match is_line {
            true => FURTHER.contains(&&*access.permission) || is_hidden(access),
            false => access.permission != permission || access.pattern != pattern,
        };
        let further: Vec<WhyPart> = accesses
            .iter()
            .filter(|access| is_further(access))
            .map(|access| {
                let verdict = self.policy().judge_after(self.always, &access.permission, &access.pattern);
                self.part(&access.permission, &access.pattern, &verdict, None)
            })
            .collect();
        if !further.is_empty() && parts.is_empty() {
            parts.push(whole.clone());
        }
        for part in &further {
            if part.action < whole.action {
                (whole.action, whole.rule, whole.origin) = (part.action, part.rule.clone(), part.origin.clone());
                whole.reason = format!("it also needs `{}` of `{}`: {}", part.permission, part.pattern, part.reason);
            }
        }
        parts.extend(further);
        let names = || self.env.iter().map(|(name, _)| name.clone());
        let environment = if is_line { names().collect() } else { Vec::new() };
        WhyOutput { whole, agent, parts, environment }
    }

    /// What each permission of a group comes to. The strictest answer stands for all of them.
    fn group(&self, name: &str, permissions: &[String], pattern: &str) -> WhyOutput {
        let parts: Vec<WhyPart> = permissions.iter().map(|permission| self.answer(permission, pattern).whole).collect();
        let strictest = parts.iter().min_by_key(|part| part.action).expect("a group has tools").clone();
        let reason = format!("`{}` is decided most strictly of the group: {}", strictest.permission, strictest.reason);
        let whole = WhyPart { permission: name.to_owned(), pattern: pattern.to_owned(), reason, ..strictest };
        WhyOutput { whole, agent: self.role.profile.name.clone(), parts, environment: Vec::new() }
    }

    /// What a call asks for, as its tool tells it.
    fn accesses(&self, permission: &str, pattern: &str) -> Vec<Access> {
        // A pattern is about many files.
        let one = !pattern.contains(['*', '?']);
        let path = || one.then(|| files::resolve(pattern, self.inside.dir));
        let file =
            |purpose| path().map(|path| files::accesses(permission, &path, purpose, self.inside)).unwrap_or_default();
        let by_name = || one.then(|| files::by_name(permission, pattern, self.inside.dir, self.inside)).flatten();
        match permission {
            shell::PERMISSION => tools::bash::accesses(pattern, self.inside.dir, self.inside, self.env),
            "edit" if path().is_some_and(|path| path.exists()) => {
                let changes = path().map(|path| files::changes(&path, self.inside, Some(self.policy())));
                changes.into_iter().flatten().chain(by_name()).collect()
            }
            "edit" => file(Purpose::Write).into_iter().chain(by_name()).collect(),
            "read" | "list" => file(Purpose::Read).into_iter().chain(by_name()).collect(),
            "webfetch" => tools::webfetch::accesses(pattern),
            _ => Vec::new(),
        }
    }

    /// What a shell line asks for, part by part.
    fn commands(&self, pattern: &str) -> Vec<WhyPart> {
        let line = shell::read(pattern);
        let part = |want: &Want| {
            let verdict = self.policy().judge_want_after(self.always, want);
            let opaque = line.opaque.filter(|_| want.kind == shell::Kind::Opaque);
            self.part(want.permission(), &want.source, &verdict, opaque)
        };
        line.wants.iter().map(part).collect()
    }

    fn part(&self, permission: &str, pattern: &str, verdict: &Verdict<'_>, opaque: Option<&str>) -> WhyPart {
        let action = self.role.mode.settle(permission, verdict);
        let mut reason = reason(verdict).to_owned();
        if let Some(why) = opaque {
            reason = format!("nobody can say what the line runs ({why}); {reason}");
        }
        if action != verdict.action {
            let doubt = if action == Action::Deny { "a deny may speak about it, and " } else { "" };
            reason = format!("{doubt}the permission mode `{}` asks nobody about it", self.role.mode.as_str());
        }
        let (rule, origin) = (verdict.rule.cloned(), self.origin(verdict));
        let part =
            WhyPart { permission: permission.to_owned(), pattern: pattern.to_owned(), action, rule, origin, reason };
        if self.role.is_ours(permission, pattern) {
            let reason = "it is a file of Convoke's own, which no tool reads or writes".to_owned();
            return WhyPart { action: Action::Deny, rule: None, origin: None, reason, ..part };
        }
        if self.role.is_apart(permission, pattern) {
            let reason = "the session is isolated in a worktree, and no rule of `external_directory` names this place"
                .to_owned();
            return WhyPart { action: Action::Deny, rule: None, origin: None, reason, ..part };
        }
        part
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
            None => {
                let layer = match verdict.source {
                    Source::Ancestor(index) if index < self.role.above => "parent",
                    Source::Set(_) if !self.role.profile.rules.contains(rule) => "session",
                    _ => Layer::Builtin.name(),
                };
                WhyOrigin { layer: layer.into(), file: None, line: None }
            }
        })
    }
}

/// The permission that a tool asks for, or one by its own name.
fn permission(name: &str) -> Result<&str, Error> {
    if let Some(tool) = tools::find(name) {
        return Ok(tool.spec().permission);
    }
    let known = permissions();
    if known.contains(name) {
        return Ok(name);
    }
    let groups: Vec<String> = tools::groups::names().collect();
    let names = tools::BUILTIN.iter().map(|tool| tool.spec().name).chain(known);
    let near = proto::nearest::nearest(name, names.chain(groups.iter().map(String::as_str)));
    let error = Error::new(Code::NotFound, format!("no tool or permission is called `{name}`"));
    Err(match near {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("`convoke tools` shows what there is"),
    })
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
