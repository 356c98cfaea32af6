//! The settings of the guard, read from a configuration as JSON.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Act, AgentToAgent, Pattern, Visibility};

/// Everything the guard is told by settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// For every agent and act that nothing below speaks about.
    pub visibility: Visibility,
    pub per_act: BTreeMap<Act, Visibility>,
    /// By the agent that owns the caller.
    pub per_agent: BTreeMap<String, Levels>,
    pub agent_to_agent: AgentToAgent,
    pub sandboxed: Clamp,
}

/// What one agent sees where it differs from the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Levels {
    pub default: Option<Visibility>,
    pub per_act: BTreeMap<Act, Visibility>,
}

/// How far sandboxed callers see: `sandbox.sessionToolsVisibility`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clamp {
    /// Only what they started.
    #[default]
    Spawned,
    /// As far as their visibility says, like anybody else.
    All,
}

/// More entries than anyone keeps by hand; each is looked at for each act on another owner's session.
const MOST_PATTERNS: usize = 1_000;

impl Settings {
    /// Reads `tools.sessions.visibility`, `tools.agentToAgent`, `sandbox.sessionToolsVisibility` and each
    /// `agent.<name>.tools.sessions.visibility` of a whole configuration; whatever else it holds is left to others.
    pub fn read(document: &Value) -> Result<Self, String> {
        let tools = section(document, "tools", "tools")?;
        let common = tools.map(|tools| visibility_of(tools, "tools")).transpose()?.unwrap_or_default();
        let agent_to_agent = tools.and_then(|tools| given(tools, "agentToAgent"));
        let sandbox = section(document, "sandbox", "sandbox")?;
        Ok(Self {
            visibility: common.default.unwrap_or_default(),
            per_act: common.per_act,
            per_agent: agents(document)?,
            agent_to_agent: agent_to_agent.map(read_agent_to_agent).transpose()?.unwrap_or_default(),
            sandboxed: sandbox.map(clamp).transpose()?.unwrap_or_default(),
        })
    }

    /// How far an agent's sessions see for an act. What is said about the agent goes before what is said about all.
    pub fn visibility(&self, agent: &str, act: Act) -> Visibility {
        let own = self.per_agent.get(agent).and_then(|levels| levels.per_act.get(&act).copied().or(levels.default));
        own.or_else(|| self.per_act.get(&act).copied()).unwrap_or(self.visibility)
    }
}

fn agents(document: &Value) -> Result<BTreeMap<String, Levels>, String> {
    let mut found = BTreeMap::new();
    for (name, agent) in section(document, "agent", "agent")?.into_iter().flatten() {
        // An agent's `tools` may also be a list of names or switches, which say nothing about visibility.
        let Some(tools) = agent.get("tools").and_then(Value::as_object) else { continue };
        let levels = visibility_of(tools, &format!("agent.{name}.tools"))?;
        if levels != Levels::default() {
            found.insert(name.trim().to_ascii_lowercase(), levels);
        }
    }
    Ok(found)
}

/// `sessions.visibility` of a section of tools.
fn visibility_of(tools: &Map<String, Value>, place: &str) -> Result<Levels, String> {
    let sessions = match given(tools, "sessions") {
        None | Some(Value::Bool(_)) => return Ok(Levels::default()),
        Some(Value::Object(sessions)) => sessions,
        Some(other) => return Err(wrong(&format!("{place}.sessions"), other, "an object")),
    };
    given(sessions, "visibility")
        .map_or(Ok(Levels::default()), |value| read_levels(value, &format!("{place}.sessions.visibility")))
}

fn read_levels(value: &Value, place: &str) -> Result<Levels, String> {
    let Value::Object(fields) = value else {
        return Ok(Levels { default: Some(read_visibility(value, place)?), ..Levels::default() });
    };
    let mut levels = Levels::default();
    for (key, value) in fields {
        let visibility = read_visibility(value, &format!("{place}.{key}"))?;
        match Act::parse(key) {
            Some(act) => drop(levels.per_act.insert(act, visibility)),
            None if key == "default" => levels.default = Some(visibility),
            None => {
                let acts = Act::EVERY.map(|act| format!("`{}`", act.as_str())).join(", ");
                return Err(format!("`{place}` has no `{}`: use `default`, {acts}", excerpt(key)));
            }
        }
    }
    Ok(levels)
}

fn read_visibility(value: &Value, place: &str) -> Result<Visibility, String> {
    let choices = "`self`, `tree`, `agent` or `all`";
    value.as_str().and_then(Visibility::parse).ok_or_else(|| wrong(place, value, choices))
}

fn read_agent_to_agent(value: &Value) -> Result<AgentToAgent, String> {
    let place = "tools.agentToAgent";
    let fields = value.as_object().ok_or_else(|| wrong(place, value, "an object with `enabled` and `allow`"))?;
    let mut read = AgentToAgent::default();
    for (key, value) in fields {
        let place = format!("{place}.{key}");
        match key.as_str() {
            "enabled" => read.enabled = value.as_bool().ok_or_else(|| wrong(&place, value, "true or false"))?,
            "allow" => read.allow = read_allow(value, &place)?,
            _ => return Err(format!("`tools.agentToAgent` has no `{}`: use `enabled` or `allow`", excerpt(key))),
        }
    }
    Ok(read)
}

fn read_allow(value: &Value, place: &str) -> Result<Vec<Pattern>, String> {
    let entries = value.as_array().ok_or_else(|| wrong(place, value, "a list of agents"))?;
    if entries.len() > MOST_PATTERNS {
        return Err(format!("`{place}` has {} entries: use at most {MOST_PATTERNS}, with `*`", entries.len()));
    }
    let read = |(index, entry): (usize, &Value)| {
        let place = format!("{place}[{index}]");
        let text = entry.as_str().ok_or_else(|| wrong(&place, entry, "an agent's name in quotes"))?;
        Pattern::parse(text).map_err(|why| format!("`{place}`: {why}"))
    };
    entries.iter().enumerate().map(read).collect()
}

fn clamp(sandbox: &Map<String, Value>) -> Result<Clamp, String> {
    match given(sandbox, "sessionToolsVisibility") {
        None => Ok(Clamp::default()),
        Some(Value::String(word)) if word == "spawned" => Ok(Clamp::Spawned),
        Some(Value::String(word)) if word == "all" => Ok(Clamp::All),
        Some(other) => Err(wrong("sandbox.sessionToolsVisibility", other, "`spawned` or `all`")),
    }
}

fn section<'v>(document: &'v Value, key: &str, place: &str) -> Result<Option<&'v Map<String, Value>>, String> {
    match document.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(fields)) => Ok(Some(fields)),
        Some(other) => Err(wrong(place, other, "an object")),
    }
}

/// A field that says something: a null is as good as none.
fn given<'v>(fields: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
    fields.get(key).filter(|value| !value.is_null())
}

fn wrong(place: &str, found: &Value, wanted: &str) -> String {
    format!("`{place}` is `{}`: use {wanted}", excerpt(&found.to_string()))
}

/// Enough to recognise, not enough to flood a terminal.
fn excerpt(text: &str) -> String {
    text.trim_matches('"').chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::sample::settings;
    use Visibility::{Agent, All, Own, Tree};

    #[test]
    fn nothing_said_is_the_careful_default() {
        for document in ["{}", r#"{"tools": {}}"#, r#"{"tools": null, "agent": {}}"#, r#"{"model": "x"}"#] {
            assert_eq!(settings(document), Settings::default(), "{document}");
        }
        assert_eq!(Settings::default().visibility("build", Act::List), Tree);
        assert!(!Settings::default().agent_to_agent.enabled);
        assert_eq!(Settings::default().sandboxed, Clamp::Spawned);
    }

    #[test]
    fn a_word_is_for_every_act_and_an_object_for_each() {
        let word = settings(r#"{"tools": {"sessions": {"visibility": "all"}}}"#);
        assert!(Act::EVERY.iter().all(|act| word.visibility("build", *act) == All));
        let each = settings(r#"{"tools": {"sessions": {"visibility": {"default": "self", "list": "all"}}}}"#);
        assert_eq!((each.visibility("build", Act::List), each.visibility("build", Act::Send)), (All, Own));
        let partly = settings(r#"{"tools": {"sessions": {"visibility": {"send": "agent"}}}}"#);
        assert_eq!((partly.visibility("build", Act::Send), partly.visibility("build", Act::List)), (Agent, Tree));
    }

    #[test]
    fn what_is_said_about_an_agent_goes_first() {
        let settings = settings(
            r#"{
                "tools": {"sessions": {"visibility": {"default": "agent", "list": "all"}}},
                "agent": {
                    "Build": {"tools": {"bash": false, "sessions": {"visibility": "self"}}},
                    "plan": {"tools": {"sessions": {"visibility": {"status": "tree"}}}},
                    "docs": {"tools": ["read"]},
                    "lead": {"tools": {"sessions": true}}
                }
            }"#,
        );
        let seen = |agent| [Act::List, Act::Status, Act::Control].map(|act| settings.visibility(agent, act));
        assert_eq!(seen("build"), [Own, Own, Own]);
        assert_eq!(seen("plan"), [All, Tree, Agent]);
        for agent in ["docs", "lead", "unheard-of"] {
            assert_eq!(seen(agent), [All, Agent, Agent], "{agent}");
        }
    }

    #[test]
    fn agent_to_agent_and_the_clamp_are_read() {
        let settings = settings(
            r#"{"tools": {"agentToAgent": {"enabled": true, "allow": ["Build", "lead -> team-*"]}},
                "sandbox": {"mode": "on", "sessionToolsVisibility": "all"}}"#,
        );
        assert!(settings.agent_to_agent.enabled);
        let shown: Vec<String> = settings.agent_to_agent.allow.iter().map(Pattern::to_string).collect();
        assert_eq!(shown, ["build", "lead -> team-*"]);
        assert_eq!(settings.sandboxed, Clamp::All);
    }

    #[track_caller]
    fn refuses(document: &str, expected: &str) {
        assert_eq!(Settings::read(&serde_json::from_str(document).unwrap()).unwrap_err(), expected);
    }

    #[test]
    fn a_mistake_is_named_with_its_place_and_the_choices() {
        refuses(
            r#"{"tools": {"sessions": {"visibility": "everyone"}}}"#,
            "`tools.sessions.visibility` is `everyone`: use `self`, `tree`, `agent` or `all`",
        );
        refuses(
            r#"{"agent": {"plan": {"tools": {"sessions": {"visibility": {"list": 3}}}}}}"#,
            "`agent.plan.tools.sessions.visibility.list` is `3`: use `self`, `tree`, `agent` or `all`",
        );
        refuses(
            r#"{"tools": {"sessions": {"visibility": {"read": "all"}}}}"#,
            "`tools.sessions.visibility` has no `read`: use `default`, `list`, `history`, `send`, `status`, `control`",
        );
        refuses(
            r#"{"tools": {"agentToAgent": {"enabled": "yes"}}}"#,
            "`tools.agentToAgent.enabled` is `yes`: use true or false",
        );
        refuses(
            r#"{"tools": {"agentToAgent": {"allow": ["build", "a b"]}}}"#,
            "`tools.agentToAgent.allow[1]`: `a b` is not an agent's name or pattern: write `build`, `team-*` or \
             `lead -> team-*`",
        );
        refuses(
            r#"{"tools": {"agentToAgent": {"deny": []}}}"#,
            "`tools.agentToAgent` has no `deny`: use `enabled` or `allow`",
        );
        refuses(
            r#"{"sandbox": {"sessionToolsVisibility": "tree"}}"#,
            "`sandbox.sessionToolsVisibility` is `tree`: use `spawned` or `all`",
        );
        refuses(r#"{"tools": []}"#, "`tools` is `[]`: use an object");
    }
}
