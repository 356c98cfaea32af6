//! Every setting there is, described once beside the code that reads it: the reference page and the schema are made from
//! that.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::{agent, compaction, hooks, limits, organisation, peers, permission, provider, tls, tools, worktree};

/// A group of settings.
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) when: When,
    pub(crate) settings: &'static [Setting],
}

/// When a change counts.
pub(crate) enum When {
    /// From the next run on.
    NextRun,
    /// When the gateway starts again.
    Restart,
}

/// One setting. `<name>` in its path stands for any key, `[]` for each of a list.
pub(crate) struct Setting {
    pub(crate) path: &'static str,
    pub(crate) kind: Kind,
    pub(crate) usual: &'static str,
    pub(crate) about: &'static str,
}

pub(crate) enum Kind {
    Text,
    Flag,
    Whole,
    Number,
    Choice(&'static [&'static str]),
    Texts,
    /// An action, or an object of tools.
    Rules,
    /// A command, or a list of commands.
    Commands,
    /// Names of tools, or switches.
    Tools,
    /// Whatever somebody else understands.
    Any,
}

pub(crate) const fn setting(path: &'static str, kind: Kind, usual: &'static str, about: &'static str) -> Setting {
    Setting { path, kind, usual, about }
}

/// What stands at the top and belongs to no section.
const GENERAL: Section = Section {
    name: "general",
    about: "What is used when nobody says otherwise.",
    when: When::NextRun,
    settings: &[
        setting(
            "model",
            Kind::Text,
            "the first provider with a key, else `offline/plain`",
            "the model, as `provider/model`",
        ),
        setting(
            "small_model",
            Kind::Text,
            "none: a session is called by the first words it was told",
            "a cheap model that names sessions, as `provider/model`; `agent.title.model` comes first",
        ),
        setting("default_agent", Kind::Text, "`build`", "who answers when nobody is named: a primary agent"),
        setting(
            "permission_mode",
            Kind::Choice(&["ask", "accept-edits", "plan", "auto"]),
            "`ask`",
            "of new sessions: what the rules ask about is asked, changes to files are not asked about, nothing but markdown is changed until a plan is approved, or nothing is asked about. No mode lifts a deny",
        ),
        setting(
            "instructions",
            Kind::Texts,
            "none",
            "files every agent is told of, besides `AGENTS.md` (else `CLAUDE.md`); lists of all layers are joined",
        ),
        setting("$schema", Kind::Text, "none", "for editors; `convoke config schema` prints the schema"),
    ],
};

const SESSION: Section = Section {
    name: "session",
    about: "How sessions behave towards each other.",
    when: When::Restart,
    settings: &[setting(
        "session.agentToAgent.maxPingPongTurns",
        Kind::Whole,
        "5",
        "turns two sessions take after a message that is announced, 0 to 5",
    )],
};

const LATER: Section = Section {
    name: "later",
    about: "Accepted, with a warning: nothing uses them yet.",
    when: When::Restart,
    settings: &[
        setting("mcp", Kind::Any, "none", "MCP servers"),
        setting("store", Kind::Any, "none", "another database than the one below the home"),
        setting("durability", Kind::Any, "none", "how much a power cut may take"),
    ],
};

/// In the order of the page.
pub(crate) const SECTIONS: &[&Section] = &[
    &GENERAL,
    &provider::SECTION,
    &agent::SECTION,
    &permission::SECTION,
    &crate::sandbox::SECTION,
    &tools::SECTION,
    &limits::SECTION,
    &hooks::SECTION,
    &worktree::SECTION,
    &compaction::SECTION,
    &SESSION,
    &peers::SECTION,
    &tls::SECTION,
    &organisation::SECTION,
    &LATER,
];

const HEAD: &str = "\
# Settings

<!-- Made by `cargo xtask docs` from the tables in `crates/config`. Change those. -->

Settings are JSON with comments and trailing commas. Eight layers are laid over each other; later wins:

| layer | is |
|---|---|
| `builtin` | what the program does by itself |
| `organisation` | `/.well-known/convoke` of `organisation.url` (of the user's file) or `CONVOKE_ORG`. Fetched when it is older than ten minutes, kept below the home; a server that cannot be reached is a warning |
| `user` | `~/.config/convoke/convoke.jsonc`; with `CONVOKE_HOME` set, `config/convoke.jsonc` below it |
| `file` | the file that `CONVOKE_CONFIG` names |
| `project` | `convoke.jsonc` or `convoke.json`, from the root of the repository down to the directory |
| `directory` | `.convoke/convoke.jsonc`: the user's (`~/.convoke`, or `$CONVOKE_HOME/.convoke`), then from the root of the repository down; with them the agents, commands and skills of these places |
| `content` | the text in `CONVOKE_CONFIG_CONTENT` |
| `managed` | `/etc/convoke/convoke.jsonc` (macOS: `/Library/Application Support/convoke`), for whoever looks after the machine |

Objects merge, arrays replace, lists of instructions append. Rules of a later layer come after those of an earlier one.
In texts `{env:NAME}` is a variable and `{file:path}` what a file holds, without the line break at its end; a relative
path starts where the file that names it is. A key, a permission or a tool nobody knows is a warning with the nearest
known one; a wrong type or value is an error with file, line and column, and exit code 2. Files that a
repository's own settings, agents, commands, skills or instructions lead to this way, and those files themselves, have to
be allowed by the rules of `read`, trusted or not, links followed; where a rule asks, they count as denied. What is left
out for that is named in a warning. Your own settings and the administrator's may name any file.

- `convoke config show` prints what counts here, `--origin` each value with where it came from, what is built in too.
  Secrets are `***`.
- `convoke config edit KEY VALUE` changes the user's file and keeps its comments; `--unset` takes a key out. A key that is
  no setting is refused. One that holds a dot is quoted: `provider.x.models.\"gpt-4.1\".context`.
- `convoke config schema` prints a JSON schema.

## Settings of a repository

What comes with a repository (`project`, and `directory` below its root) is data until you run `convoke trust` there.
Until then it may say an agent's `description`, `prompt`, `steps`, `temperature` and `color`, name `instructions` inside
the repository, and make permissions stricter. Everything else is ignored with a warning that names file and line. Trust
is bound to the content of every file concerned and of the files they name: a change asks again. A directory outside any
repository counts as one of its own. `.env` files are never read.

A relative path in a rule means the project that the rule was written for: the repository a session was started in. It
goes on to mean that when a repository is created inside it, when a child session works in another directory, and in a
worktree, where the rules of the main checkout's files apply as well, whether or not git tracks those files.

In a repository inside another one, what the outer one's files deny or ask about, and what you deny by a path relative to
it, applies as well: `git init` in a folder doesn't lift a rule. Submodules and linked worktrees are projects of their own.

`limits`, `tools`, `session`, `hooks`, `worktree`, `peers`, `inbound`, `tls`, `organisation`, `sandbox.isolated` and
`sandbox.sessionToolsVisibility` hold for a whole gateway, which serves many directories: a repository cannot set them,
trusted or not.

## Agents, commands, skills, instructions

Beside each `.convoke/convoke.jsonc`, and at the same places in the repository:

| what | where | how |
|---|---|---|
| agents | `.convoke/agents/**/*.md`, `.opencode/agents/*.md`, `.claude/agents/*.md` | front matter with the keys of `agent.<name>`, the body is the prompt; named after the file unless `name` says otherwise. In files of Claude Code `model` (also `sonnet`, `opus`, `haiku`, `inherit`), `maxTurns`, `isolation: worktree`, `permissionMode` (`default`, `acceptEdits`, `plan`) and `color` mean what they mean there, and a warning tells of what is not done. A bad file is named and only that agent is left out. Of two with one name at one place the first in this row counts |
| commands | `.convoke/commands/**/*.md`, `.opencode/commands/*.md`, `.claude/commands/**/*.md` | `convoke run \"/name and arguments\"`; `git/tidy.md` is `/git:tidy`. `$ARGUMENTS`, `$1`, `$2`, …; front matter: `description`, `agent`, `model`, `subtask` |
| skills | `SKILL.md` in a folder of `.convoke/skills`, `.opencode/skills`, `.claude/skills` | agents are told `name`, `description` and path, and read the file when they need it. Commands and skills of a repository count once it is trusted |
| instructions | `AGENTS.md`, else `CLAUDE.md`, in the directory of the user's file, then from the root of the repository down | told to every agent, the nearest last |

## When a change counts

A gateway looks whether a file has changed whenever a run starts. What is marked *next run* counts from then on; the rest
when the gateway starts again (`convoke stop`; one that a command started by itself does that when it is idle).
";

/// The reference page.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    for section in SECTIONS {
        let when = match section.when {
            When::NextRun => "*next run*",
            When::Restart => "*restart*",
        };
        let _ = write!(
            page,
            "\n## {}\n\n{} Changes: {when}.\n\n| setting | takes | without it | means |\n|---|---|---|---|\n",
            section.name, section.about
        );
        for setting in section.settings {
            let takes = takes(&setting.kind).replace('|', "\\|");
            let _ = writeln!(page, "| `{}` | {takes} | {} | {} |", setting.path, setting.usual, setting.about);
        }
    }
    page
}

fn takes(kind: &Kind) -> String {
    match kind {
        Kind::Text => "a text".into(),
        Kind::Flag => "`true` or `false`".into(),
        Kind::Whole => "a whole number".into(),
        Kind::Number => "a number".into(),
        Kind::Choice(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Kind::Texts => "a list of texts".into(),
        Kind::Rules => "`allow`, `ask` or `deny`, or an object".into(),
        Kind::Commands => "a command, or a list".into(),
        Kind::Tools => "a list of names, or an object of switches".into(),
        Kind::Any => "anything".into(),
    }
}

/// The schema of a settings file, for editors and for checks elsewhere.
pub fn schema() -> Value {
    let mut root = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Convoke settings",
        "type": "object",
    });
    for section in SECTIONS {
        for setting in section.settings {
            let place = descend(&mut root, setting.path);
            if let (Some(place), Value::Object(leaf)) = (place.as_object_mut(), leaf(setting)) {
                place.extend(leaf);
            }
        }
    }
    root
}

/// The schema of one key, made on the way if need be.
fn descend<'s>(root: &'s mut Value, path: &str) -> &'s mut Value {
    let mut at = root;
    // Events are called `tool.before`: what stands behind `hooks.` is one key.
    let keys: Vec<&str> = match path.strip_prefix("hooks.") {
        Some(event) => vec!["hooks", event],
        None => path.split('.').collect(),
    };
    for key in keys {
        let (key, of_list) = key.strip_suffix("[]").map_or((key, false), |key| (key, true));
        at = if key.starts_with('<') { child(at, "additionalProperties") } else { child(child(at, "properties"), key) };
        if of_list {
            at = child(set_type(at, "array"), "items");
        }
        // Only what turns out to hold keys becomes an object, in `child`.
    }
    at
}

fn child<'s>(schema: &'s mut Value, key: &str) -> &'s mut Value {
    if key == "properties" || key == "additionalProperties" {
        set_type(schema, "object");
    }
    let object = schema.as_object_mut().expect("a schema is an object");
    object.entry(key).or_insert_with(|| Value::Object(Map::new()))
}

fn set_type<'s>(schema: &'s mut Value, kind: &str) -> &'s mut Value {
    let object = schema.as_object_mut().expect("a schema is an object");
    object.entry("type").or_insert_with(|| kind.into());
    schema
}

fn leaf(setting: &Setting) -> Value {
    let action = json!({ "enum": ["allow", "ask", "deny"] });
    let patterns = json!({ "type": "object", "additionalProperties": action });
    let rule = json!({ "anyOf": [action, patterns] });
    let hook = json!({ "anyOf": [
        { "type": "string" },
        { "type": "object", "required": ["command"], "additionalProperties": false, "properties": {
            "command": { "type": "string" }, "match": { "type": "string" }, "timeoutSeconds": { "type": "integer" },
        } },
    ] });
    let mut leaf = match &setting.kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Whole => json!({ "type": "integer", "minimum": 0 }),
        Kind::Number => json!({ "type": "number" }),
        Kind::Choice(words) if words.iter().any(|word| word.contains('N')) => json!({ "type": "string" }),
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Rules => json!({ "anyOf": [action, { "type": "object", "additionalProperties": rule }] }),
        Kind::Commands => json!({ "anyOf": [hook, { "type": "array", "items": hook }] }),
        Kind::Tools => json!({ "anyOf": [{ "type": "array", "items": { "type": "string" } }, { "type": "object" }] }),
        Kind::Any => json!({}),
    };
    leaf["description"] = setting.about.into();
    leaf
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Environment, resolve};

    /// A value of the right kind.
    fn sample(setting: &Setting) -> Value {
        match &setting.kind {
            Kind::Text if setting.path.contains("url") => "https://example.org".into(),
            Kind::Text => "a/b".into(),
            Kind::Flag => true.into(),
            Kind::Whole | Kind::Number => 1.into(),
            Kind::Choice(words) => words[0].into(),
            Kind::Texts | Kind::Tools => json!(["a"]),
            Kind::Rules => "ask".into(),
            Kind::Commands => "true".into(),
            Kind::Any => json!({}),
        }
    }

    /// The setting alone in a file.
    fn file(setting: &Setting) -> Value {
        let keys: Vec<&str> = match setting.path.strip_prefix("hooks.") {
            Some(event) => vec!["hooks", event],
            None => setting.path.split('.').collect(),
        };
        keys.iter().rev().fold(sample(setting), |value, key| {
            let value = if key.ends_with("[]") { json!([value]) } else { value };
            let name = if key.starts_with('<') { "a" } else { key.trim_end_matches("[]") };
            json!({ name: value })
        })
    }

    #[test]
    fn everything_described_is_known_to_the_program() {
        for setting in SECTIONS.iter().flat_map(|section| section.settings) {
            let text = file(setting).to_string();
            match resolve::parse("f", &text, &Environment::default()) {
                Ok(loaded) => {
                    let unknown = loaded.warnings.iter().any(|warning| warning.contains("unknown"));
                    assert!(!unknown, "{text}: {:?}", loaded.warnings);
                }
                // Something else is missing in such a file, or the sample is no agent; but the key was understood.
                Err(error) => assert!(!error.message.contains("unknown"), "{text}: {error}"),
            }
        }
    }

    #[test]
    fn everything_known_is_described() {
        let paths: Vec<&str> = SECTIONS.iter().flat_map(|section| section.settings).map(|s| s.path).collect();
        let check = |prefix: &str, keys: &[&str]| {
            for key in keys {
                let path = format!("{prefix}{key}");
                let known = paths.iter().any(|described| {
                    let rest = described.strip_prefix(&path);
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
                });
                assert!(known, "`{path}` is described nowhere");
            }
        };
        check("", &[crate::TYPED, crate::UNTYPED].concat());
        check("limits.", limits::KEYS);
        check("tools.", tools::KEYS);
        check("hooks.", hooks::EVENTS);
        check("provider.<name>.", provider::KEYS);
        check("provider.<name>.limits.", provider::LIMIT_KEYS);
        check("provider.<name>.models.<model>.", provider::MODEL_KEYS);
        check("peers[].", peers::KEYS);
        check("tls.", tls::KEYS);
        check("worktree.", worktree::KEYS);
        check("compaction.", compaction::KEYS);
        check("sandbox.", crate::sandbox::KEYS);
    }

    #[test]
    fn the_reference_page_is_fresh() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
        let kept = std::fs::read_to_string(page).unwrap_or_default();
        assert!(kept == reference(), "docs/config.md is older than the code: run `cargo xtask docs`");
    }

    #[test]
    fn the_schema_knows_every_setting() {
        let schema = schema();
        assert_eq!(schema["properties"]["limits"]["properties"]["depth"]["type"], "integer");
        let provider = &schema["properties"]["provider"]["additionalProperties"]["properties"];
        assert_eq!(provider["wire"]["enum"][0], "anthropic");
        assert_eq!(schema["properties"]["peers"]["items"]["properties"]["url"]["type"], "string");
        assert!(schema["properties"]["hooks"]["properties"]["tool.before"]["anyOf"].is_array());
    }
}
