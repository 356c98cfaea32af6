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

/// The permissions that the tools of a group ask for, each once; `None` for what is no group.
pub fn permissions(name: &str) -> Option<Vec<String>> {
    let group = name.strip_prefix("group:").filter(|group| GROUPS.iter().any(|(known, _)| known == group))?;
    let mut found: Vec<String> = Vec::new();
    for tool in expand(&format!("group:{group}")) {
        let permission = crate::find(&tool).map_or(tool, |tool| tool.spec().permission.to_owned());
        if !found.contains(&permission) {
            found.push(permission);
        }
    }
    Some(found)
}

/// Every group, by its whole name.
pub fn names() -> impl Iterator<Item = String> {
    GROUPS.iter().map(|(name, _)| format!("group:{name}"))
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
        assert_eq!(permissions("group:fs").unwrap(), ["read", "list", "glob", "grep", "edit"]);
        assert_eq!((permissions("group:unheard"), permissions("read")), (None, None));
        let rules = expand_rules(&[Rule::new("group:fs", "*", Deny)]);
        assert!(rules.contains(&Rule::new("edit", "*", Deny)) && rules.contains(&Rule::new("read", "*", Deny)));
    }
}
