//! What can be done: the `Tool` door, the built-in tools behind it, and the processes they start.
//!
//! A tool is a folder here and one line in [`BUILTIN`]. None of them knows a session, a store or a model.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests know what they wrote"))]

pub mod agent;
pub mod agents_list;
pub mod answer;
pub mod apply_patch;
pub mod bash;
pub mod board_add;
pub mod board_claim;
pub mod board_list;
pub mod board_update;
pub mod door;
pub mod doors;
pub mod edit;
pub mod enter_worktree;
pub mod exit_worktree;
pub mod files;
pub mod git;
pub mod glob;
pub mod grep;
pub mod groups;
pub mod hook;
mod ignored;
pub mod jobs;
pub mod journal;
pub mod list;
pub mod list_peers;
pub mod output;
pub mod plan;
pub mod process;
pub mod question;
pub mod read;
pub mod sandbox;
pub mod send_message;
pub mod session_status;
pub mod sessions_history;
pub mod sessions_list;
pub mod sessions_send;
pub mod sessions_spawn;
pub mod sessions_yield;
pub mod subagents;
pub mod task;
#[cfg(test)]
mod testing;
pub mod todoread;
pub mod todowrite;
mod tolerant;
pub mod tool_search;
mod walk;
pub mod webfetch;
pub mod worktree;
pub mod write;

pub use door::{Access, AgentInfo, AnyTool, Audience, Error, Move, Output, Spec, Tool, ToolCx, Wait, Waited};
pub use doors::{Background, Board, Catalogue, Directory, Office, Spawn, Spawned, Spawner};

/// Every built-in tool, in the order a model is shown them.
pub static BUILTIN: &[&dyn AnyTool] = &[
    &read::Read,
    &list::List,
    &glob::Glob,
    &grep::Grep,
    &bash::Bash,
    &jobs::Jobs,
    &write::Write,
    &edit::Edit,
    &apply_patch::ApplyPatch,
    &webfetch::WebFetch,
    &task::Task,
    &agent::Agent,
    &send_message::SendMessage,
    &plan::PlanEnter,
    &plan::PlanExit,
    &question::Question,
    &todowrite::TodoWrite,
    &todoread::TodoRead,
    &sessions_list::SessionsList,
    &sessions_history::SessionsHistory,
    &sessions_send::SessionsSend,
    &sessions_spawn::SessionsSpawn,
    &sessions_yield::SessionsYield,
    &session_status::SessionStatus,
    &subagents::Subagents,
    &agents_list::AgentsList,
    &list_peers::ListPeers,
    &board_add::BoardAdd,
    &board_list::BoardList,
    &board_claim::BoardClaim,
    &board_update::BoardUpdate,
    &tool_search::ToolSearch,
    &enter_worktree::EnterWorktree,
    &exit_worktree::ExitWorktree,
];

/// The built-in tool a call means: by its name, by another product's name for it, or by either in other letters.
pub fn find(name: &str) -> Option<&'static dyn AnyTool> {
    let specs: Vec<(Spec, &dyn AnyTool)> = BUILTIN.iter().map(|tool| (tool.spec(), *tool)).collect();
    let same = |other: &&str| other.eq_ignore_ascii_case(name);
    let by_name = specs.iter().find(|(spec, _)| spec.name == name);
    let by_alias = || specs.iter().find(|(spec, _)| spec.aliases.contains(&name));
    let by_letters = || specs.iter().find(|(spec, _)| same(&spec.name) || spec.aliases.iter().any(same));
    by_name.or_else(by_alias).or_else(by_letters).map(|(_, tool)| *tool)
}

/// What is wrong with a label that no session can have; a session that may not exist is told apart from one that cannot.
pub(crate) fn label_is_too_long(label: &str) -> Option<String> {
    let (length, most) = (label.chars().count(), proto::key::LONGEST_LABEL);
    (length > most).then(|| format!("`label` has {length} characters, and {most} is the most: send a shorter one"))
}

/// Up to `n` built-in tools whose names are most like this one, best first.
pub fn nearest(name: &str, n: usize) -> Vec<&'static str> {
    let names: Vec<&'static str> = BUILTIN.iter().map(|tool| tool.spec().name).collect();
    similar::get_close_matches(name.to_lowercase().as_str(), &names, n, 0.4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_tool_is_listed_properly() {
        let mut names = BTreeSet::new();
        for tool in BUILTIN {
            let spec = tool.spec();
            assert!(names.insert(spec.name), "`{}` is listed twice", spec.name);
            for alias in spec.aliases {
                assert!(names.insert(alias), "`{alias}` of `{}` is taken", spec.name);
            }
            assert!(spec.description.trim().len() > 40, "`{}` has no prompt", spec.name);
            let schema: serde_json::Value = serde_json::from_str((spec.schema)().get()).unwrap();
            assert_eq!(schema["type"], "object", "`{}`", spec.name);
            for (name, property) in schema["properties"].as_object().unwrap() {
                assert!(property["description"].is_string(), "`{name}` of `{}` is not described", spec.name);
            }
        }
    }

    #[test]
    fn the_inputs_are_named_as_the_spec_names_them() {
        let inputs = |name: &str| -> Vec<String> {
            let schema: serde_json::Value = serde_json::from_str((find(name).unwrap().spec().schema)().get()).unwrap();
            schema["properties"].as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(inputs("read"), ["filePath", "offset", "limit"]);
        assert_eq!(inputs("list"), ["path"]);
        assert_eq!(inputs("glob"), ["pattern", "path"]);
        assert_eq!(inputs("grep"), ["pattern", "path", "include"]);
        assert_eq!(inputs("bash"), ["command", "description", "timeout", "workdir", "background"]);
        assert_eq!(inputs("write"), ["filePath", "content"]);
        assert_eq!(inputs("edit"), ["filePath", "oldString", "newString", "replaceAll"]);
        assert_eq!(inputs("question"), ["questions"]);
        assert_eq!((inputs("todowrite"), inputs("todoread")), (vec!["todos".to_owned()], vec![]));
    }

    #[test]
    fn a_tool_is_found_by_any_of_its_names() {
        for (name, expected) in [("read", "read"), ("LS", "list"), ("ls", "list"), ("BASH", "bash"), ("Task", "task")] {
            assert_eq!(find(name).map(|tool| tool.spec().name), Some(expected), "{name}");
        }
        assert!(find("reed").is_none());
        assert_eq!(nearest("reed", 1), ["read"]);
        assert!(nearest("zzzz", 3).is_empty());
    }
}
