//! Entering: by git and by hook, and what is refused.

use super::*;
use crate::hook::Hook;
use crate::testing::{Direct, Place, repository};
use crate::worktree::{Base, Settings};
use serde_json::Value;
use serde_json::value::to_raw_value;
use std::sync::Arc;
use std::time::Duration;

fn cx(place: &Place, settings: Settings) -> ToolCx {
    let mut cx = place.cx();
    cx.processes = Arc::new(Direct::new());
    cx.worktrees.settings = Arc::new(settings);
    cx
}

async fn call(cx: &ToolCx, input: Value) -> (Value, Option<Move>) {
    let output = crate::find("EnterWorktree").unwrap().run(&to_raw_value(&input).unwrap(), cx).await.unwrap();
    (serde_json::from_str(&output.text).unwrap(), output.moves)
}

#[tokio::test]
async fn entering_moves_the_session() {
    let place = repository();
    let (result, moves) = call(&cx(&place, Settings::default()), json!({ "name": "x" })).await;
    let path = place.dir().join(".convoke/worktrees/x");
    assert_eq!((&result["status"], &result["worktreeBranch"]), (&json!("entered"), &json!("convoke/x")));
    let moves = moves.unwrap();
    assert_eq!(moves.cwd, path);
    let worktree = moves.worktree.unwrap();
    assert_eq!(worktree.original_cwd, place.dir().display().to_string());
    assert_eq!(worktree.original_branch.as_deref(), Some("main"));
    let (random, _) = call(&cx(&place, Settings { base: Base::Fresh, ..Settings::default() }), json!({})).await;
    assert_eq!(random["status"], "entered", "{random}");
}

#[tokio::test]
async fn a_bad_name_another_worktree_and_no_repository_are_refused() {
    let place = repository();
    let here = cx(&place, Settings::default());
    let (refused, moves) = call(&here, json!({ "name": "../out" })).await;
    assert_eq!((&refused["code"], moves), (&json!("invalid_input"), None));
    let (_, moves) = call(&here, json!({ "name": "x" })).await;
    let mut inside = cx(&place, Settings::default());
    let moves = moves.unwrap();
    inside.dir.clone_from(&moves.cwd);
    let (refused, _) = call(&inside, json!({})).await;
    assert!(refused["error"].as_str().unwrap().contains("is a worktree itself"), "{refused}");
    inside.worktrees.entered = moves.worktree;
    let (refused, _) = call(&inside, json!({})).await;
    assert!(refused["error"].as_str().unwrap().contains("is in the worktree `x` already"), "{refused}");
    let plain = Place::new();
    let (refused, _) = call(&cx(&plain, Settings::default()), json!({})).await;
    assert!(refused["hint"].as_str().unwrap().contains("worktree_create"), "{refused}");
}

fn hook(command: &str) -> Settings {
    let hook = Hook { command: command.into(), timeout: Duration::from_millis(500) };
    Settings { create: Some(hook), ..Settings::default() }
}

#[tokio::test]
async fn a_hook_makes_it_where_one_is_set() {
    let place = Place::new();
    let make = "mkdir -p trees/made; cat > trees/input.json; echo making; echo trees/made";
    let (result, moves) = call(&cx(&place, hook(make)), json!({ "name": "x" })).await;
    assert_eq!(result["worktreePath"], json!(place.dir().join("trees/made")), "{result}");
    assert!(moves.unwrap().worktree.unwrap().by_hook);
    let input: Value = serde_json::from_str(&place.content("trees/input.json")).unwrap();
    assert_eq!((&input["event"], &input["name"]), (&json!("worktree_create"), &json!("x")));
}

#[tokio::test]
async fn a_hook_that_fails_hangs_says_no_or_prints_nonsense_fails_the_call() {
    let place = Place::new();
    for (command, expected) in [
        ("echo no room >&2; exit 1", "no room"),
        ("sleep 60", "was ended after"),
        ("echo not today >&2; exit 2", "a hook said no: not today"),
        ("true", "printed no directory"),
        ("echo /nowhere/at/all", "/nowhere/at/all"),
        ("pwd", "where this session is already"),
    ] {
        let (refused, moves) = call(&cx(&place, hook(command)), json!({ "name": "x" })).await;
        assert!(refused["error"].as_str().unwrap().contains(expected), "{command}: {refused}");
        assert!(moves.is_none());
    }
}
