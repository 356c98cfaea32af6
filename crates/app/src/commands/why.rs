//! `convoke why`: what would be decided, by which rule, and where that rule stands.

use crate::failure::Failure;
use crate::home::Home;
use crate::{settings, terminal};
use config::{Always, Layer, Loaded, Placed};
use proto::{Action, Rule};
use rules::shell::{self, Want};
use rules::{Policy, Source, Verdict};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Say what would be decided about a call, by which rule, and where that rule stands
///
/// A shell line is taken apart, and each part explained. Paths that lead outside the project are asked about besides
/// (`external_directory`).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The tool or the permission, such as `bash` or `edit`
    #[arg(value_name = "TOOL")]
    tool: String,
    /// What it is wanted for: a command, a path, a name
    #[arg(value_name = "PATTERN")]
    pattern: String,
    /// The agent that would do it; the default one without it
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// What holds in this directory
    #[arg(short = 'C', long = "dir", value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<u8, Failure> {
    let directory = PathBuf::from(super::run::directory(args.directory)?);
    let home = Home::open_at(&directory)?;
    if !args.json {
        home.warn();
    }
    let agents = settings::agents(&home.loaded, &home.env)?;
    let agent = args.agent.as_deref().unwrap_or(agents.default_agent());
    let (agent, policy) = (agents.get(agent)?.name.clone(), agents.policy(agent)?);
    let project = session::project(&directory);
    let kept: Vec<Always> = config::always(&home.paths).into_iter().filter(|kept| kept.project == project).collect();
    let always: Vec<Rule> = kept.iter().map(Always::rule).collect();
    let permission = tools::find(&args.tool).map_or(args.tool.as_str(), |tool| tool.spec().permission);
    let asked = Asked { home: &home, agent: &agent, policy: &policy, always: &always };
    let answer = asked.answer(permission, args.pattern.trim());
    if args.json {
        terminal::print_json(&answer.json(&agent));
    } else {
        terminal::print(&answer.words());
    }
    Ok(0)
}

/// What is asked about, and of whom.
struct Asked<'a> {
    home: &'a Home,
    agent: &'a str,
    policy: &'a Policy,
    always: &'a [Rule],
}

/// One decision.
struct Part {
    permission: String,
    pattern: String,
    action: Action,
    rule: Option<Rule>,
    origin: Option<Value>,
    reason: String,
}

struct Answer {
    whole: Part,
    /// Of a shell line.
    parts: Vec<Part>,
}

impl Asked<'_> {
    fn answer(&self, permission: &str, pattern: &str) -> Answer {
        let whole = self.policy.judge_after(self.always, permission, pattern);
        let whole = self.part(permission, pattern, &whole, None);
        if permission != "bash" {
            return Answer { whole, parts: Vec::new() };
        }
        let line = shell::read(pattern);
        let part = |want: &Want| {
            let verdict = self.policy.judge_want_after(self.always, want);
            let opaque = line.opaque.filter(|_| want.kind == shell::Kind::Opaque);
            self.part(want.permission(), &want.source, &verdict, opaque)
        };
        let parts: Vec<Part> = line.wants.iter().map(part).collect();
        // Where the whole is no stricter than a part, the reason of that part is the reason.
        let reason = parts.iter().find(|part| part.action == whole.action).map(|part| part.reason.clone());
        Answer { whole: Part { reason: reason.unwrap_or(whole.reason), ..whole }, parts }
    }

    fn part(&self, permission: &str, pattern: &str, verdict: &Verdict, opaque: Option<&str>) -> Part {
        let mut reason = reason(verdict).to_owned();
        if let Some(why) = opaque {
            reason = format!("nobody can say what the line runs ({why}); {reason}");
        }
        Part {
            permission: permission.to_owned(),
            pattern: pattern.to_owned(),
            action: verdict.action,
            rule: verdict.rule.cloned(),
            origin: self.origin(verdict),
            reason,
        }
    }

    /// Where the rule stands. Rules that are nowhere in the settings are built in.
    fn origin(&self, verdict: &Verdict) -> Option<Value> {
        let rule = verdict.rule?;
        if verdict.source == Source::Always {
            let file = self.home.paths.always().display().to_string();
            return Some(json!({ "layer": "always", "file": file, "line": null }));
        }
        let counts = |placed: &&Placed| match verdict.source {
            Source::Ceiling(_) => !placed.narrows,
            Source::Ancestor(_) => placed.narrows,
            Source::Set(_) | Source::Always | Source::Default => !placed.narrows,
        };
        let found = places(&self.home.loaded, self.agent).rev().filter(counts).find(|placed| self.is(placed, rule));
        Some(match found {
            Some(Placed { origin, .. }) => {
                json!({ "layer": origin.layer.name(), "file": origin.file, "line": origin.line })
            }
            None => json!({ "layer": Layer::Builtin.name(), "file": null, "line": null }),
        })
    }

    /// Whether a rule of the settings became this one, with `~` and groups of tools written out.
    fn is(&self, placed: &Placed, rule: &Rule) -> bool {
        settings::written_out(std::slice::from_ref(&placed.rule), &self.home.env).contains(rule)
    }
}

/// Rules for all agents, then those for this one: in the order in which they decide.
fn places<'l>(loaded: &'l Loaded, agent: &str) -> impl DoubleEndedIterator<Item = &'l Placed> {
    loaded.rule_places.iter().chain(loaded.agent_rule_places.get(agent).into_iter().flatten())
}

fn reason(verdict: &Verdict) -> &'static str {
    let doubt = verdict.rule.is_some_and(|rule| rule.action < verdict.action);
    match verdict.source {
        _ if doubt => "a stricter rule may speak about it, which is known only when it runs",
        Source::Default => "no rule speaks about it, so a person is asked",
        Source::Set(_) => "the last rule that speaks about it decides",
        Source::Ceiling(_) => "nothing below lifts this deny",
        Source::Ancestor(_) if verdict.rule.is_none() => "no rule of a repository speaks about it",
        Source::Ancestor(_) => "a repository that is not trusted may forbid, and the stricter answer counts",
        Source::Always => "a person answered `always` before",
    }
}

impl Part {
    fn json(&self) -> Value {
        json!({
            "permission": self.permission,
            "pattern": self.pattern,
            "action": self.action,
            "rule": self.rule,
            "origin": self.origin,
            "reason": self.reason,
        })
    }

    /// The rule and its place on a line, as far as there is one.
    fn because(&self) -> String {
        let Some(rule) = &self.rule else { return self.reason.clone() };
        let origin = self.origin.as_ref().map_or(&Value::Null, |origin| origin);
        let at = match (&origin["file"], &origin["line"]) {
            (Value::String(file), Value::Number(line)) => format!("{file}:{line}"),
            (Value::String(file), _) => file.clone(),
            _ => "built in".into(),
        };
        let said = serde_json::to_value(rule.action).unwrap_or_default();
        let (permission, pattern) = (&rule.permission, &rule.pattern);
        let said = said.as_str().unwrap_or_default();
        format!("{said} `{permission}` `{}`  {at}: {}", terminal::harmless(pattern), self.reason)
    }

    fn words(&self) -> String {
        let action = match self.action {
            Action::Allow => "allow",
            Action::Ask => "ask",
            Action::Deny => "deny",
        };
        format!("{action:<5}  {} {}", self.permission, terminal::one_line(&self.pattern, 100))
    }
}

impl Answer {
    fn json(&self, agent: &str) -> Value {
        let mut answer = self.whole.json();
        answer["agent"] = json!(agent);
        if !self.parts.is_empty() {
            answer["parts"] = self.parts.iter().map(Part::json).collect();
        }
        answer
    }

    fn words(&self) -> String {
        let mut lines = vec![self.whole.words(), format!("       {}", self.whole.because())];
        if self.parts.len() > 1 {
            for part in &self.parts {
                lines.push(format!("  {}", part.words()));
                lines.push(format!("         {}", part.because()));
            }
        }
        lines.join("\n")
    }
}
