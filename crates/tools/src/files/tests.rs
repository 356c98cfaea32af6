//! Security cases about files, by their ids: real symlinks, swapped while they are used.

use crate::door::Leave;
use crate::testing::Place;
use crate::{AnyTool, ToolCx, find};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_util::sync::CancellationToken;

/// Leave for what is inside, and for no file called `key`.
struct Inside;

impl Leave for Inside {
    fn has(&self, permission: &str, pattern: &str) -> bool {
        permission != "external_directory" && !Path::new(pattern).ends_with("key")
    }
}

fn tool(name: &str) -> &'static dyn AnyTool {
    find(name).unwrap()
}

async fn call(place: &Place, name: &str, input: Value) -> Result<String, String> {
    let cx = ToolCx { leave: Arc::new(Inside), ..place.cx() };
    let output = tool(name).run(&to_raw_value(&input).unwrap(), &cx).await;
    output.map(|output| output.text).map_err(|error| error.to_string())
}

/// A folder outside of the worktree with a secret in it.
fn outside(place: &Place) -> PathBuf {
    let outside = place.dir().parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "the secret\n").unwrap();
    outside
}

#[tokio::test]
async fn t24_no_tool_reaches_a_file_through_a_symlink_that_leads_out() {
    let place = Place::new();
    let outside = outside(&place);
    symlink(outside.join("file"), place.dir().join("id")).unwrap();
    symlink(&outside, place.dir().join("ssh")).unwrap();
    let patch = "*** Begin Patch\n*** Update File: id\n@@\n-the secret\n+gone\n*** End Patch";
    for (name, input) in [
        ("read", json!({ "filePath": "id" })),
        ("read", json!({ "filePath": "ssh/file" })),
        ("edit", json!({ "filePath": "id", "oldString": "secret", "newString": "gone" })),
        ("edit", json!({ "filePath": "ssh/file", "oldString": "secret", "newString": "gone" })),
        ("write", json!({ "filePath": "ssh/new", "content": "x" })),
        ("apply_patch", json!({ "patch": patch })),
        ("grep", json!({ "pattern": "secret", "path": "ssh" })),
        ("glob", json!({ "pattern": "*", "path": "ssh" })),
        ("list", json!({ "path": "ssh" })),
    ] {
        let asked = place.asks(tool(name), input.clone());
        assert!(asked.iter().any(|asked| asked.starts_with("external_directory ")), "{name} {input}: {asked:?}");
        let told = call(&place, name, input.clone()).await.unwrap_err();
        assert!(told.contains("no leave for `external_directory`"), "{name} {input}: {told}");
    }
    // A search that meets the link does not follow it.
    assert_eq!(call(&place, "grep", json!({ "pattern": "secret" })).await.unwrap(), "nothing matches");
    let listed = call(&place, "glob", json!({ "pattern": "**/file" })).await.unwrap();
    assert_eq!(listed, "no file matches");
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "the secret\n");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

/// Calls a tool while a folder changes places with a symlink that leads out, as fast as can be: until that happened
/// 25,000 times, and one call at least came to where it should.
async fn while_swapped(name: &str, came: &str, input: impl Fn(usize) -> Value) -> Vec<String> {
    let place = Place::new();
    let outside = outside(&place);
    let (folder, link) = (place.dir().join("folder"), place.dir().join("link"));
    place.file("folder/file", "harmless\n");
    symlink(&outside, &link).unwrap();
    let (swaps, stop) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
    let swapper = std::thread::spawn({
        let (swaps, stop) = (Arc::clone(&swaps), stop.clone());
        move || {
            while !stop.is_cancelled() {
                renameat_with(CWD, &folder, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let _stop = stop.drop_guard();
    let mut said: Vec<String> = Vec::new();
    while swaps.load(Ordering::Relaxed) < 25_000 || !said.iter().any(|said| said.contains(came)) {
        said.push(call(&place, name, input(said.len())).await.unwrap_or_else(|told| told));
        assert!(!swapper.is_finished(), "nobody swaps any more");
    }
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "the secret\n", "{name} changed what is outside");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "{name} made something outside");
    said
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t25_a_folder_swapped_for_a_symlink_never_leads_out() {
    for (name, came, input) in [
        ("read", "harmless", json!({ "filePath": "folder/file" })),
        ("grep", "harmless", json!({ "pattern": "the|harm", "path": "folder" })),
        ("grep", "harmless", json!({ "pattern": "the|harm" })),
        ("edit", "edited", json!({ "filePath": "folder/file", "oldString": "harmless", "newString": "harmless." })),
    ] {
        let said = while_swapped(name, came, |_| input.clone()).await;
        assert!(said.iter().all(|said| !said.contains("secret")), "{name} read what is outside");
    }
    while_swapped("write", "made", |n| json!({ "filePath": format!("folder/deep/new{n}"), "content": "x" })).await;
}

#[tokio::test]
async fn a_search_shows_nothing_of_files_that_may_not_be_read() {
    let place = Place::new();
    place.file("a.txt", "token = 1\n");
    place.file("key", "token = 2\n");
    let found = call(&place, "grep", json!({ "pattern": "token" })).await.unwrap();
    assert!(found.contains("token = 1") && !found.contains("token = 2"), "{found}");
    assert!(found.contains("need leave"), "{found}");
}

#[tokio::test]
async fn pipes_devices_and_endless_files_hold_nothing_up() {
    use rustix::fs::{FileType, Mode, mknodat};
    let place = Place::new();
    let pipe = place.dir().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(place.dir().join("socket")).unwrap();
    place.file("plain.txt", "harmless\n");
    for path in ["pipe", "socket", "/dev/zero", "/dev/tty", "/proc/self/mem/x"] {
        for (name, input) in [
            ("read", json!({ "filePath": path })),
            ("write", json!({ "filePath": path, "content": "x" })),
            ("edit", json!({ "filePath": path, "oldString": "a", "newString": "b" })),
        ] {
            let told = place.call(tool(name), input).await.unwrap_err();
            assert!(!told.is_empty() && !told.contains("broke"), "{name} {path}: {told}");
        }
    }
    // A search passes by what is no plain file.
    let found = place.call(tool("grep"), json!({ "pattern": "harmless" })).await.unwrap();
    assert!(found.contains("plain.txt"), "{found}");
    let found = place.call(tool("grep"), json!({ "pattern": ".", "path": "pipe" })).await.unwrap();
    assert_eq!(found, "nothing matches");
}

#[tokio::test]
async fn names_that_are_no_text_are_shown_as_well_as_can_be() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let odd = place.dir().join(OsStr::from_bytes(b"odd-\xff.txt"));
    fs::write(&odd, "harmless\n").unwrap();
    for (name, input) in
        [("glob", json!({ "pattern": "*.txt" })), ("list", json!({})), ("grep", json!({ "pattern": "harm" }))]
    {
        let told = place.call(tool(name), input).await.unwrap();
        assert!(told.contains("odd-\u{fffd}.txt"), "{name}: {told}");
    }
}

#[tokio::test]
async fn a_folder_that_vanishes_is_told() {
    let place = Place::new();
    place.file("gone/a.txt", "x");
    let cx = ToolCx { dir: place.dir().join("gone"), ..place.cx() };
    fs::remove_dir_all(place.dir().join("gone")).unwrap();
    for (name, input) in [
        ("list", json!({})),
        ("glob", json!({ "pattern": "*" })),
        ("grep", json!({ "pattern": "x" })),
        ("read", json!({ "filePath": "a.txt" })),
        ("edit", json!({ "filePath": "a.txt", "oldString": "x", "newString": "y" })),
    ] {
        let told = tool(name).run(&to_raw_value(&input).unwrap(), &cx).await.unwrap_err().to_string();
        assert!(told.contains("does not exist"), "{name}: {told}");
    }
}
