//! Groups: names for several tools at once, good wherever a tool's name is (S13).

use proto::Rule;

const GROUPS: &[(&str, &[&str])] = &[
    (
        "sessions",
        &[
            "sessions_list",
            "sessions_history",
            "sessions_send",
            "sessions_spawn",
            "session_status",
            "sessions_yield",
            "subagents",
        ],
    ),
    ("fs", &["read", "list", "glob", "grep", "write", "edit", "apply_patch"]),
    ("runtime", &["bash", "jobs"]),
    ("web", &["webfetch"]),
    ("memory", &["memory_search", "memory_get"]),
    ("messaging", &["send_message", "sessions_send", "list_peers"]),
    ("automation", &["cron", "gateway"]),
    ("agents", &["task", "agent", "agents_list", "subagents"]),
    ("board", &["board_add", "board_list", "board_claim", "board_update"]),
    ("worktree", &["enter_worktree", "exit_worktree"]),
    ("mcp", &["mcp_*"]),
];

/// The tools a name stands for: those of a group, or itself. A group nobody knows stays as it is and matches nothing.
pub fn expand(name: &str) -> Vec<String> {
    let members = name.strip_prefix("group:").and_then(|group| GROUPS.iter().find(|(known, _)| *known == group));
    match members {
        Some((_, tools)) => tools.iter().map(|tool| (*tool).to_owned()).collect(),
        None => vec![name.to_owned()],
    }
}

/// Rules with every group spelt out, in the same order. Tools that ask for another permission than their name are meant
/// by it.
pub fn expand_rules(rules: &[Rule]) -> Vec<Rule> {
    let permission = |name: String| match crate::find(&name) {
        Some(tool) if name != "*" => tool.spec().permission.to_owned(),
        _ => name,
    };
    let mut out: Vec<Rule> = Vec::with_capacity(rules.len());
    for rule in rules {
        if !rule.permission.starts_with("group:") {
            out.push(rule.clone());
            continue;
        }
        for name in expand(&rule.permission) {
            let spelt = Rule::new(permission(name), &rule.pattern, rule.action);
            if out.last() != Some(&spelt) {
                out.push(spelt);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::Action::Deny;

    #[test]
    fn a_group_stands_for_its_tools() {
        assert_eq!(expand("group:runtime"), ["bash", "jobs"]);
        assert_eq!(expand("read"), ["read"]);
        assert_eq!(expand("group:unheard"), ["group:unheard"]);
        let rules = expand_rules(&[Rule::new("group:fs", "*", Deny)]);
        assert!(rules.contains(&Rule::new("edit", "*", Deny)) && rules.contains(&Rule::new("read", "*", Deny)));
    }
}
