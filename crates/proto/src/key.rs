//! Session keys, the agents that own them, and the ways to refer to a session (rows S1 and S2).

use crate::{Error, SessionId};
use std::fmt;

/// The name of an agent: a letter or digit, then letters, digits, `_`, `-`; at most 64; lower-case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(String);

impl AgentId {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        let ok = text.len() <= 64
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        if ok {
            Ok(Self(text.to_ascii_lowercase()))
        } else {
            Err(Error::invalid(format!("`{}` is not an agent's name", excerpt(text)))
                .hint("use a letter or digit, then letters, digits, `_` or `-`, at most 64 in all"))
        }
    }

    /// The nearest valid name; repairing twice changes nothing more.
    pub fn repair(text: &str) -> Self {
        let kept = text.trim().chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' });
        let mut name: String = kept.skip_while(|c| !c.is_ascii_alphanumeric()).take(64).collect();
        name.make_ascii_lowercase();
        Self(if name.is_empty() { "agent".into() } else { name })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A canonical key, `agent:<agent-id>:<rest>`. Its agent owns the session and never changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    agent: AgentId,
    rest: String,
}

/// What a session is for, as lists show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Main,
    Group,
    Cron,
    Hook,
    Node,
    Other,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Group => "group",
            Self::Cron => "cron",
            Self::Hook => "hook",
            Self::Node => "node",
            Self::Other => "other",
        }
    }
}

impl Key {
    /// Reads a canonical key, whatever the case of its agent.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        let bad = |why: &str| {
            Error::invalid(format!("`{}` is not a session key: {why}", excerpt(text)))
                .hint("a key is `agent:<agent>:<rest>`, for example `agent:build:main`")
        };
        let mut parts = text.splitn(3, ':');
        let (prefix, agent, rest) = (parts.next(), parts.next(), parts.next());
        if !prefix.is_some_and(|p| p.eq_ignore_ascii_case("agent")) {
            return Err(bad("it does not start with `agent:`"));
        }
        let (Some(agent), Some(rest)) = (agent, rest) else { return Err(bad("a part is missing")) };
        let ok = (1..=512).contains(&rest.len())
            && !rest.chars().any(|c| c.is_control() || c.is_whitespace())
            && rest.split(':').all(|segment| !segment.is_empty());
        if !ok {
            return Err(bad("what follows the agent is empty, too long, or holds spaces"));
        }
        Ok(Self { agent: AgentId::parse(agent)?, rest: rest.into() })
    }

    pub fn main(agent: &AgentId) -> Self {
        Self { agent: agent.clone(), rest: "main".into() }
    }

    /// A session started by run, the terminal, the page, the API or an editor.
    pub fn chat(agent: &AgentId, session: &SessionId) -> Self {
        Self { agent: agent.clone(), rest: format!("chat:{}", bare(session)) }
    }

    /// A child. The last part is the child's own id, so that its display key leads back to it.
    pub fn subagent(agent: &AgentId, parent: &SessionId, child: &SessionId) -> Self {
        Self { agent: agent.clone(), rest: format!("subagent:{parent}:{}", bare(child)) }
    }

    pub fn agent(&self) -> &AgentId {
        &self.agent
    }

    pub fn rest(&self) -> &str {
        &self.rest
    }

    /// The kind by the key alone; a kind stored on the session goes before it.
    pub fn kind(&self) -> Kind {
        let has = |part: &str| self.rest.split(':').any(|segment| segment == part);
        match self.rest.split(':').next().unwrap_or_default() {
            "global" => Kind::Other,
            "main" => Kind::Main,
            "cron" => Kind::Cron,
            "hook" => Kind::Hook,
            "node" => Kind::Node,
            "subagent" | "chat" | "acp" | "mcp" => Kind::Other,
            _ if has("group") || has("channel") => Kind::Group,
            _ => Kind::Other,
        }
    }

    /// What models are shown: short where it is unmistakable.
    pub fn display(&self, default_agent: &str) -> String {
        if self.rest == "main" && self.agent.0 == default_agent {
            return "main".into();
        }
        match self.rest.strip_prefix("subagent:").and_then(|rest| rest.rsplit_once(':')) {
            Some((_, spawn)) => format!("subagent:{spawn}"),
            None => self.to_string(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "agent:{}:{}", self.agent, self.rest)
    }
}

/// What a caller wrote to name a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    Id(SessionId),
    Key(Key),
    /// `main`: the default agent's main session.
    Main,
    /// `current`: the caller's own.
    Current,
    /// An agent's name, a label, or the end of an id.
    Word(String),
}

impl Reference {
    /// Decides in the order id, key, word.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        if SessionId::looks_like(text) {
            return SessionId::parse(text).map(Self::Id).map_err(|e| Error::invalid(e.to_string()));
        }
        match text {
            "main" => return Ok(Self::Main),
            "current" => return Ok(Self::Current),
            "global" | "unknown" => return Err(Error::not_found(format!("there is no session `{text}`"))),
            _ => {}
        }
        if let Some(spawn) = text.strip_prefix("subagent:") {
            return SessionId::parse(&format!("{}{spawn}", SessionId::PREFIX))
                .map(Self::Id)
                .map_err(|e| Error::invalid(e.to_string()));
        }
        if text.contains(':') { Key::parse(text).map(Self::Key) } else { label(text).map(Self::Word) }
    }
}

/// Characters of the longest label.
pub const LONGEST_LABEL: usize = 512;

/// A label someone may give: 1–512 characters that cannot be mistaken for an id or a key.
pub fn label(text: &str) -> Result<String, Error> {
    let text = text.trim();
    let reserved = matches!(text, "main" | "current" | "global" | "unknown");
    if text.is_empty() || text.chars().count() > LONGEST_LABEL || text.chars().any(char::is_control) {
        return Err(Error::invalid("a label has 1 to 512 characters and no control characters"));
    }
    if reserved || text.contains(':') || SessionId::looks_like(text) {
        return Err(Error::invalid(format!("`{}` cannot be a label: it reads like an id or a key", excerpt(text)))
            .hint("choose a name without `:` that is not `main`, `current`, `global` or `unknown`"));
    }
    Ok(text.into())
}

/// A title someone may give: one line that a list can show.
pub fn title(text: &str) -> Result<String, Error> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > 512 || text.chars().any(char::is_control) {
        return Err(Error::invalid("a title has 1 to 512 characters and no control characters"));
    }
    Ok(text.into())
}

fn bare(session: &SessionId) -> &str {
    session.as_str().strip_prefix(SessionId::PREFIX).unwrap_or(session.as_str())
}

fn excerpt(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn kind(key: &str, expected: &str) {
        assert_eq!(Key::parse(key).unwrap().kind().as_str(), expected, "{key}");
    }

    #[test]
    fn the_kind_is_read_from_the_key() {
        kind("agent:build:main", "main");
        kind("agent:build:telegram:user:123", "other");
        kind("agent:build:discord:channel:9", "group");
        kind("agent:build:whatsapp:group:7", "group");
        kind("agent:build:cron:nightly", "cron");
        kind("agent:build:hook:1", "hook");
        kind("agent:build:node:1", "node");
        kind("agent:build:global", "other");
        kind("agent:build:subagent:ses_1:2", "other");
    }

    #[test]
    fn display_keys_are_short_and_resolve() {
        let (parent, child) = (SessionId::new(), SessionId::new());
        let key = Key::subagent(&AgentId::parse("Explore").unwrap(), &parent, &child);
        let shown = key.display("build");
        assert!(shown.starts_with("subagent:") && shown.len() < 45);
        assert_eq!(Reference::parse(&shown).unwrap(), Reference::Id(child));
        assert_eq!(Key::parse("AGENT:Build:main").unwrap().display("build"), "main");
        assert_eq!(Key::parse("agent:plan:main").unwrap().display("build"), "agent:plan:main");
        assert_eq!(Reference::parse("main").unwrap(), Reference::Main);
    }

    #[test]
    fn labels_cannot_be_mistaken_for_something_else() {
        for bad in ["", "main", "a:b", "ses_0190", "x\ny", &"x".repeat(513)] {
            assert!(label(bad).is_err(), "{bad}");
        }
        assert_eq!(label("  the writer ").unwrap(), "the writer");
    }

    proptest! {
        #[test]
        fn printing_and_parsing_a_key_is_the_identity(agent in "[A-Za-z0-9][A-Za-z0-9_-]{0,63}", rest in "[!-9;-~]{1,20}(:[!-9;-~]{1,20}){0,3}") {
            let key = Key::parse(&format!("agent:{agent}:{rest}")).unwrap();
            prop_assert_eq!(Key::parse(&key.to_string()).unwrap(), key);
        }

        #[test]
        fn no_text_panics_and_repair_is_idempotent(text in "\\PC{0,80}") {
            let _ = (Key::parse(&text), Reference::parse(&text), label(&text));
            let once = AgentId::repair(&text);
            prop_assert_eq!(&AgentId::repair(once.as_str()), &once);
            prop_assert!(AgentId::parse(once.as_str()).is_ok());
        }
    }
}
