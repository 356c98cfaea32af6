//! Which tools a model knows by name only, until it asks for them (C8).

use crate::Spec;

/// What decides about one tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct Candidate<'a> {
    pub name: &'a str,
    pub always_load: bool,
    /// It comes from an MCP server.
    pub mcp: bool,
    /// The tool's own flag.
    pub defer: bool,
}

impl<'a> Candidate<'a> {
    pub fn of(spec: &'a Spec) -> Self {
        Self { name: spec.name, always_load: spec.always_load, mcp: false, defer: spec.defer }
    }

    /// The first line that fits decides. `forking`: the session may fork itself by `agent`.
    pub fn is_deferred(&self, forking: bool) -> bool {
        match self.name {
            _ if self.always_load => false,
            _ if self.mcp => true,
            "tool_search" => false,
            "agent" if forking => false,
            "send_message" | "sessions_send" => false,
            _ => self.defer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, traits: &str, expected: bool) {
        let has = |word: &str| traits.split(' ').any(|own| own == word);
        let candidate = Candidate { name, always_load: has("always"), mcp: has("mcp"), defer: has("defer") };
        assert_eq!(candidate.is_deferred(has("forking")), expected, "{name} {traits}");
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        check("x", "always mcp defer", false);
        check("x", "mcp", true);
        check("tool_search", "mcp", true);
        check("send_message", "mcp", true);
        check("tool_search", "defer", false);
        check("agent", "defer forking", false);
        check("agent", "defer", true);
        check("agent", "forking", false);
        check("send_message", "defer", false);
        check("sessions_send", "defer", false);
        check("x", "defer forking", true);
        check("x", "forking", false);
        check("x", "", false);
    }

    #[test]
    fn our_own_tools_are_shown_or_deferred_as_the_spec_says() {
        let shown = [
            "read",
            "list",
            "glob",
            "grep",
            "bash",
            "write",
            "edit",
            "task",
            "agent",
            "send_message",
            "plan_enter",
            "plan_exit",
            "sessions_send",
            "tool_search",
        ];
        let deferred = [
            "sessions_list",
            "sessions_history",
            "sessions_spawn",
            "sessions_yield",
            "session_status",
            "subagents",
            "agents_list",
            "list_peers",
        ];
        for (names, expected) in [(&shown[..], false), (&deferred[..], true)] {
            for name in names {
                let spec = crate::find(name).expect("a tool of ours").spec();
                assert_eq!(Candidate::of(&spec).is_deferred(true), expected, "{name}");
            }
        }
    }
}
