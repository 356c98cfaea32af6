//! The built-in agents (A2). Their prompts are the markdown files beside this one.

use super::Profile;
use config::Mode;
use proto::Action::{Allow, Ask, Deny};
use proto::{Action, Rule};
use std::collections::{BTreeMap, BTreeSet};

struct Builtin {
    name: &'static str,
    description: &'static str,
    mode: Mode,
    hidden: bool,
    /// Its commands are held to reading.
    looks: bool,
    prompt: &'static str,
    rules: &'static [(&'static str, &'static str, Action)],
}

/// Under every agent's own rules.
const DEFAULTS: &[(&str, &str, Action)] = &[
    ("*", "*", Allow),
    ("doom_loop", "*", Ask),
    ("external_directory", "*", Ask),
    ("private_network", "*", Deny),
    ("protected", "*", Ask),
    ("question", "*", Deny),
    ("plan_enter", "*", Deny),
    ("plan_exit", "*", Deny),
    ("read", "*", Allow),
    ("read", "*.env", Ask),
    ("read", "*.env.*", Ask),
    ("read", "*.env.example", Allow),
];

/// Every permission there is: what tools ask for, and what the rules of our own agents speak of besides.
pub fn permissions() -> BTreeSet<&'static str> {
    let tools = tools::BUILTIN.iter().map(|tool| tool.spec().permission);
    let rules = BUILTIN.iter().flat_map(|agent| agent.rules).chain(DEFAULTS).map(|(permission, ..)| *permission);
    tools.chain(rules).filter(|permission| *permission != "*").collect()
}

const BUILTIN: &[Builtin] = &[
    Builtin {
        name: "build",
        description: "Does the work: reads, edits, runs commands, and hands pieces to other agents.",
        mode: Mode::Primary,
        hidden: false,
        looks: false,
        prompt: include_str!("build.md"),
        rules: &[("question", "*", Allow), ("plan_enter", "*", Allow)],
    },
    Builtin {
        name: "plan",
        description: "Thinks a change through and writes the plan; changes nothing but markdown.",
        mode: Mode::Primary,
        hidden: false,
        looks: true,
        prompt: include_str!("plan.md"),
        rules: &[
            ("question", "*", Allow),
            ("plan_exit", "*", Allow),
            ("edit", "*", Deny),
            ("edit", "*.md", Allow),
            // Nowhere but in the project, and nothing that decides what runs.
            ("edit", "/*", Deny),
            ("protected", "*", Deny),
            ("enter_worktree", "*", Deny),
            ("exit_worktree", "remove*", Deny),
        ],
    },
    Builtin {
        name: "explore",
        description: "Finds its way around a code base, read-only: where things are, how they hang together.",
        mode: Mode::Subagent,
        hidden: false,
        looks: true,
        prompt: include_str!("explore.md"),
        rules: &[
            ("*", "*", Deny),
            ("grep", "*", Allow),
            ("glob", "*", Allow),
            ("list", "*", Allow),
            ("bash", "*", Allow),
            ("webfetch", "*", Allow),
            ("read", "*", Allow),
            ("read", "*.env", Ask),
            ("read", "*.env.*", Ask),
            ("read", "*.env.example", Allow),
        ],
    },
    Builtin {
        name: "general",
        description: "Works on a piece of a larger task by itself, with all tools, and reports back.",
        mode: Mode::Subagent,
        hidden: false,
        looks: false,
        prompt: include_str!("general.md"),
        rules: &[("todoread", "*", Deny), ("todowrite", "*", Deny)],
    },
    Builtin {
        name: "compaction",
        description: "Sums a conversation up so that it can go on.",
        mode: Mode::Primary,
        hidden: true,
        looks: false,
        prompt: include_str!("compaction.md"),
        rules: &[("*", "*", Deny)],
    },
    Builtin {
        name: "title",
        description: "Names a conversation.",
        mode: Mode::Primary,
        hidden: true,
        looks: false,
        prompt: include_str!("title.md"),
        rules: &[("*", "*", Deny)],
    },
    Builtin {
        name: "summary",
        description: "Says what a session did.",
        mode: Mode::Primary,
        hidden: true,
        looks: false,
        prompt: include_str!("summary.md"),
        rules: &[("*", "*", Deny)],
    },
];

pub(super) fn profiles(user_rules: &[Rule]) -> BTreeMap<String, Profile> {
    BUILTIN.iter().map(|builtin| (builtin.name.to_owned(), profile(builtin, user_rules))).collect()
}

/// What a user's own agent starts from.
pub(super) fn custom(name: &str, user_rules: &[Rule]) -> Profile {
    let blank = Builtin {
        name: "",
        description: "",
        mode: Mode::All,
        hidden: false,
        looks: false,
        prompt: include_str!("general.md"),
        rules: &[],
    };
    let description = format!("The agent `{name}` of this configuration.");
    Profile { name: name.to_owned(), description, native: false, ..profile(&blank, user_rules) }
}

fn profile(builtin: &Builtin, user_rules: &[Rule]) -> Profile {
    let own = rules(builtin.rules);
    let mut all = rules(DEFAULTS);
    all.extend(user_rules.iter().cloned());
    all.extend(own.iter().cloned());
    Profile {
        name: builtin.name.into(),
        description: builtin.description.into(),
        mode: builtin.mode,
        native: true,
        hidden: builtin.hidden,
        model: None,
        variant: None,
        prompt: builtin.prompt.trim().into(),
        temperature: None,
        top_p: None,
        worktree: false,
        permission_mode: None,
        color: None,
        options: serde_json::Map::new(),
        welcome_message: None,
        steps: None,
        rules: all,
        tools: Vec::new(),
        ceilings: config::Ceilings::default(),
        main: Vec::new(),
        isolated: None,
        looks: builtin.looks,
        held: config::Held::default(),
        named: own,
    }
}

fn rules(table: &[(&str, &str, Action)]) -> Vec<Rule> {
    table.iter().map(|(permission, pattern, action)| Rule::new(*permission, *pattern, *action)).collect()
}
