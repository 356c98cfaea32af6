//! Leaving: kept, removed, refused, and when there is nothing to leave.

use super::*;
use crate::hook::Hook;
use crate::testing::{Direct, Place, repository};
use crate::worktree::Settings;
use serde_json::value::to_raw_value;

/// A context in a worktree of that name, which is entered first.
async fn inside(place: &Place, settings: Settings) -> ToolCx {
    let mut cx = place.cx();
    cx.processes = Arc::new(Direct::new());
    cx.worktrees.settings = Arc::new(settings);
    let input = to_raw_value(&json!({ "name": "x" })).unwrap();
    let moves = crate::find("enter_worktree").unwrap().run(&input, &cx).await.unwrap().moves.unwrap();
    (cx.dir, cx.worktrees.entered) = (moves.cwd, moves.worktree);
    cx
}

async fn call(cx: &ToolCx, input: Value) -> (Value, Option<Move>) {
    let output = crate::find("ExitWorktree").unwrap().run(&to_raw_value(&input).unwrap(), cx).await.unwrap();
    (serde_json::from_str(&output.text).unwrap(), output.moves)
}

#[tokio::test]
async fn without_a_worktree_nothing_happens() {
    let place = repository();
    let (result, moves) = call(&place.cx(), json!({ "action": "remove", "discard_changes": true })).await;
    assert_eq!((&result["status"], moves), (&json!("nothing"), None));
}

#[tokio::test]
async fn keeping_goes_back_and_leaves_it() {
    let place = repository();
    let cx = inside(&place, Settings::default()).await;
    let (result, moves) = call(&cx, json!({ "action": "keep" })).await;
    assert_eq!(result["action"], "keep");
    assert_eq!(moves.unwrap(), Move { cwd: place.dir().to_owned(), worktree: None });
    assert!(cx.dir.join("a.txt").exists());
}

#[tokio::test]
async fn removing_is_refused_over_changes_and_names_its_snapshot() {
    let place = repository();
    let cx = inside(&place, Settings::default()).await;
    std::fs::write(cx.dir.join("a.txt"), "changed").unwrap();
    let (refused, moves) = call(&cx, json!({ "action": "remove" })).await;
    assert!(moves.is_none() && refused["details"]["files"] == json!(["M a.txt"]), "{refused}");
    let (removed, moves) = call(&cx, json!({ "action": "remove", "discard_changes": "true" })).await;
    assert_eq!((&removed["discardedFiles"], &removed["discardedCommits"]), (&json!(1), &json!(0)));
    assert!(removed["snapshot"].as_str().unwrap().starts_with("refs/convoke/snapshots/x-"), "{removed}");
    assert!(moves.is_some() && !cx.dir.exists());
    // Again, as after a crash before the move was stored.
    let (again, moves) = call(&cx, json!({ "action": "remove" })).await;
    assert!(moves.is_some() && again["message"].as_str().unwrap().contains("gone already"), "{again}");
}

#[tokio::test]
async fn a_hooks_worktree_is_removed_by_a_hook_and_only_on_purpose_when_git_does_not_know_it() {
    let place = Place::new();
    let settings = |remove: Option<&str>| Settings {
        create: Some(Hook::new("mkdir -p made; echo made")),
        remove: remove.map(Hook::new),
        ..Settings::default()
    };
    let cx = inside(&place, settings(None)).await;
    let (refused, _) = call(&cx, json!({ "action": "remove", "discard_changes": true })).await;
    assert!(refused["hint"].as_str().unwrap().contains("hooks.worktree_remove"), "{refused}");
    let cx = inside(&place, settings(Some("rm -r made"))).await;
    let (refused, _) = call(&cx, json!({ "action": "remove" })).await;
    assert!(refused["error"].as_str().unwrap().contains("nobody can tell"), "{refused}");
    let (removed, moves) = call(&cx, json!({ "action": "remove", "discard_changes": true })).await;
    assert!(moves.is_some() && !place.dir().join("made").exists(), "{removed}");
    let cx = inside(&place, settings(Some("exit 1"))).await;
    let (failed, moves) = call(&cx, json!({ "action": "remove", "discard_changes": true })).await;
    assert!(moves.is_none() && place.dir().join("made").exists(), "{failed}");
}

#[tokio::test]
async fn a_hooks_worktree_that_git_knows_is_checked_and_kept_as_a_snapshot() {
    let place = repository();
    let settings = Settings {
        create: Some(Hook::new("git clone --quiet . ../clone >&2; echo ../clone")),
        remove: Some(Hook::new("rm -r ../clone/a.txt")),
        ..Settings::default()
    };
    let cx = inside(&place, settings).await;
    std::fs::write(cx.dir.join("a.txt"), "changed").unwrap();
    let (refused, _) = call(&cx, json!({ "action": "remove" })).await;
    assert_eq!(refused["details"]["files"], json!(["M a.txt"]), "{refused}");
    let (removed, _) = call(&cx, json!({ "action": "remove", "discard_changes": true })).await;
    let reference = removed["snapshot"].as_str().unwrap_or_else(|| panic!("{removed}"));
    assert_eq!(crate::testing::git_in(&cx.dir, &format!("show {reference}:a.txt")), "changed");
}
