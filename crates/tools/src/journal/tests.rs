//! Tests of the journal: what file tools do is taken back.

use super::{Journal, KEPT, MOST};
use crate::apply_patch::ApplyPatch;
use crate::edit::Edit;
use crate::files::Seen;
use crate::testing::Place;
use crate::write::Write;
use proptest::prelude::*;
use proto::{FileState, FileUndone};
use serde_json::json;
use std::collections::HashSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::SystemTime;

/// Takes back what the place's one call changed: `state name` for each file.
fn undo(place: &Place) -> Vec<String> {
    back(place, place.cx().call.as_str(), "undo_1")
}

fn redo(place: &Place) -> Vec<String> {
    back(place, "undo_1", "redo_1")
}

fn back(place: &Place, by: &str, letter: &str) -> Vec<String> {
    let done = place.journal().take_back(&HashSet::from([by]), letter, &Seen::default()).unwrap();
    let line = |file: &FileUndone| {
        let state = serde_json::to_value(file.state).unwrap();
        let path = Path::new(&file.path).strip_prefix(place.dir()).unwrap();
        format!("{} {}", state.as_str().unwrap(), path.display())
    };
    done.iter().map(line).collect()
}

async fn write(place: &Place, name: &str, content: &str) {
    place.call(&Write, json!({ "filePath": name, "content": content })).await.unwrap();
}

async fn edit(place: &Place, name: &str, old: &str, new: &str) {
    place.call(&Edit, json!({ "filePath": name, "oldString": old, "newString": new })).await.unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn what_was_made_goes_and_what_was_changed_is_as_before_and_back_again() {
    let place = Place::new();
    let path = place.file("run.sh", "one\r\ntwo\r\n");
    fs::set_permissions(&path, Permissions::from_mode(0o751)).unwrap();
    write(&place, "deep/er/new.txt", "new").await;
    edit(&place, "run.sh", "two", "2").await;
    edit(&place, "run.sh", "one", "1").await;
    assert_eq!(place.content("run.sh"), "1\r\n2\r\n");
    assert_eq!(undo(&place), ["removed deep/er/new.txt", "restored run.sh"]);
    assert_eq!((place.content("run.sh").as_str(), mode(&path)), ("one\r\ntwo\r\n", 0o751));
    assert!(!place.dir().join("deep").exists(), "folders that were made for it go with it");
    assert_eq!(redo(&place), ["recreated deep/er/new.txt", "restored run.sh"]);
    assert_eq!((place.content("run.sh").as_str(), mode(&path)), ("1\r\n2\r\n", 0o751));
    assert_eq!(place.content("deep/er/new.txt"), "new");
}

#[tokio::test]
async fn a_patch_is_taken_back_whole() {
    let place = Place::new();
    place.file("old.txt", "a\nb\n");
    let gone = place.file("gone.sh", "bye\n");
    fs::set_permissions(&gone, Permissions::from_mode(0o700)).unwrap();
    place.file("changed.txt", "x\ny\n");
    let patch = "*** Begin Patch\n*** Add File: made.txt\n+made\n*** Delete File: gone.sh\n*** Update File: changed.txt\n\
                 -x\n+X\n*** Update File: old.txt\n*** Move to: sub/new.txt\n-a\n+A\n*** End Patch\n";
    place.call(&ApplyPatch, json!({ "patch": patch })).await.unwrap();
    assert_eq!(place.content("sub/new.txt"), "A\nb\n");
    let undone = undo(&place);
    let expected =
        ["restored changed.txt", "recreated gone.sh", "removed made.txt", "recreated old.txt", "removed sub/new.txt"];
    assert_eq!(undone, expected);
    assert_eq!((place.content("gone.sh").as_str(), mode(&gone)), ("bye\n", 0o700));
    assert_eq!((place.content("old.txt").as_str(), place.content("changed.txt").as_str()), ("a\nb\n", "x\ny\n"));
    assert!(!place.dir().join("sub").exists() && !place.dir().join("made.txt").exists());
    assert_eq!(redo(&place).len(), 5);
    assert_eq!(place.content("sub/new.txt"), "A\nb\n");
    assert!(!gone.exists() && !place.dir().join("old.txt").exists());
}

#[tokio::test]
async fn what_others_changed_stays() {
    let place = Place::new();
    place.file("a", "1\n2\n3\n4\n5\n");
    edit(&place, "a", "2", "two").await;
    place.file("a", "1\ntwo\n3\n4\nfive\n");
    assert_eq!(undo(&place), ["merged a"]);
    assert_eq!(place.content("a"), "1\n2\n3\n4\nfive\n");
    place.file("a", "1\n2\n3\n4\nfive\nsix\n");
    assert_eq!(redo(&place), ["merged a"]);
    assert_eq!(place.content("a"), "1\ntwo\n3\n4\nfive\nsix\n");
}

#[tokio::test]
async fn a_second_session_keeps_its_changes() {
    let place = Place::new();
    place.file("a", "1\n2\n3\n4\n5\n");
    edit(&place, "a", "1", "one").await;
    // As another session does it, between two edits of this one.
    place.file("a", "one\n2\ntheirs\n4\n5\n");
    place.call(&crate::read::Read, json!({ "filePath": "a" })).await.unwrap();
    edit(&place, "a", "5", "five").await;
    assert_eq!(undo(&place), ["merged a"]);
    assert_eq!(place.content("a"), "1\n2\ntheirs\n4\n5\n");
}

#[tokio::test]
async fn what_cannot_be_merged_is_left_as_it_is() {
    let place = Place::new();
    for name in ["lines", "bytes", "gone", "dir", "folder/x", "linked/x", "sealed"] {
        place.file(name, "old\n");
        edit(&place, name, "old", "new").await;
    }
    write(&place, "made", "made").await;
    place.file("lines", "newer\n");
    place.file("bytes", [b'n', 0xff, 0xfe]);
    place.file("made", "made, and more");
    fs::remove_file(place.dir().join("gone")).unwrap();
    fs::remove_file(place.dir().join("dir")).unwrap();
    fs::create_dir(place.dir().join("dir")).unwrap();
    fs::remove_dir_all(place.dir().join("folder")).unwrap();
    // Somebody puts a link in the way that leads out.
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("x"), "new\n").unwrap();
    fs::remove_dir_all(place.dir().join("linked")).unwrap();
    symlink(outside.path(), place.dir().join("linked")).unwrap();
    fs::remove_file(place.dir().join("sealed")).unwrap();
    symlink(outside.path().join("x"), place.dir().join("sealed")).unwrap();
    let expected = [
        "conflict bytes",
        "skipped dir",
        "conflict folder/x",
        "conflict gone",
        "conflict lines",
        "skipped linked/x",
        "conflict made",
        "skipped sealed",
    ];
    assert_eq!(undo(&place), expected);
    assert_eq!(place.content("lines"), "newer\n");
    assert_eq!(place.content("made"), "made, and more");
    assert_eq!(fs::read_to_string(outside.path().join("x")).unwrap(), "new\n");
}

#[tokio::test]
async fn a_file_whose_folder_is_gone_does_not_come_back() {
    let place = Place::new();
    place.file("sub/a", "a\n");
    let patch = "*** Begin Patch\n*** Delete File: sub/a\n*** End Patch\n";
    place.call(&ApplyPatch, json!({ "patch": patch })).await.unwrap();
    fs::remove_dir(place.dir().join("sub")).unwrap();
    assert_eq!(undo(&place), ["skipped sub/a"]);
    assert!(!place.dir().join("sub").exists());
}

#[tokio::test]
async fn bytes_that_are_no_text_come_back_as_they_were() {
    let place = Place::new();
    let path = place.file("blob", [0xff, 0xfe, b'a']);
    let patch = "*** Begin Patch\n*** Delete File: blob\n*** End Patch\n";
    place.call(&ApplyPatch, json!({ "patch": patch })).await.unwrap();
    assert_eq!(undo(&place), ["recreated blob"]);
    assert_eq!(fs::read(path).unwrap(), [0xff, 0xfe, b'a']);
}

#[tokio::test]
async fn a_file_that_is_too_large_to_be_kept_is_named() {
    let place = Place::new();
    place.file("large", format!("old\n{}", "x".repeat(MOST)));
    edit(&place, "large", "old", "new").await;
    let done = place.journal().take_back(&HashSet::from([place.cx().call.as_str()]), "undo_1", &Seen::default());
    let file = done.unwrap().remove(0);
    assert_eq!(file.state, FileState::Skipped);
    assert!(file.reason.unwrap().contains("too large"));
    assert!(place.content("large").starts_with("new"));
}

#[tokio::test]
async fn doing_it_again_changes_nothing_and_says_the_same() {
    let place = Place::new();
    place.file("a", "1\n2\n3\n");
    edit(&place, "a", "1", "one").await;
    place.file("a", "one\n2\nthree\n");
    write(&place, "b", "b").await;
    let first = undo(&place);
    assert_eq!(undo(&place), first, "a crash came before anybody was told");
    assert_eq!(place.content("a"), "1\n2\nthree\n");
    assert_eq!(back(&place, place.cx().call.as_str(), "undo_2"), [] as [&str; 0], "there is nothing left to take back");
}

/// A crash between what is kept and what is done, and one in the middle of a line.
#[tokio::test]
async fn a_change_that_was_only_announced_is_none() {
    let place = Place::new();
    place.file("a", "old\n");
    edit(&place, "a", "old", "new").await;
    place.file("a", "old\n");
    assert_eq!(undo(&place), [] as [&str; 0]);
    let changes = place.journal().dir.join("changes");
    let mut torn = fs::read(&changes).unwrap();
    torn.truncate(torn.len() - 20);
    fs::write(&changes, torn).unwrap();
    assert_eq!(undo(&place), [] as [&str; 0]);
    place.call(&crate::read::Read, json!({ "filePath": "a" })).await.unwrap();
    edit(&place, "a", "old", "newer").await;
    assert_eq!(undo(&place), ["restored a"], "the line after a torn one counts");
    assert_eq!(place.content("a"), "old\n");
}

#[tokio::test]
async fn the_journal_is_this_users_alone_and_copies_are_kept_once() {
    let place = Place::new();
    place.file("a", "same\n");
    place.file("b", "same\n");
    edit(&place, "a", "same", "other").await;
    edit(&place, "b", "same", "other").await;
    let dir = place.journal().dir;
    let files: Vec<_> = fs::read_dir(dir.join("files")).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(files.iter().chain([&dir.join("changes")]).all(|file| mode(file) == 0o600));
    assert_eq!((mode(&dir), mode(&dir.join("files"))), (0o700, 0o700));
}

#[tokio::test]
async fn what_cannot_be_kept_is_not_changed() {
    let place = Place::new();
    place.file("a", "old\n");
    let dir = place.journal().dir;
    fs::create_dir_all(dir.parent().unwrap()).unwrap();
    fs::write(&dir, "in the way").unwrap();
    let input = json!({ "filePath": "a", "oldString": "old", "newString": "new" });
    let error = place.call(&Edit, input).await.unwrap_err();
    assert!(error.contains("cannot be kept"), "{error}");
    assert_eq!(place.content("a"), "old\n");
}

#[tokio::test]
async fn copies_that_take_too_much_room_are_forgotten_and_that_is_told() {
    let place = Place::new();
    write(&place, "a", "aaaa").await;
    write(&place, "b", "bbbb").await;
    write(&place, "b", "cccccc").await;
    let journal = place.journal();
    assert_eq!(journal.kept().unwrap(), 14);
    // Whatever the clock of the disk shows.
    let touched = |content: &[u8], at: u64| {
        let copy = fs::File::options().write(true).open(journal.dir.join("files").join(super::hash(content))).unwrap();
        copy.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(at)).unwrap();
    };
    touched(b"aaaa", 1);
    touched(b"bbbb", 2);
    assert_eq!(journal.make_room(6).unwrap(), 6);
    let done = journal.take_back(&HashSet::from([place.cx().call.as_str()]), "undo_1", &Seen::default()).unwrap();
    let told: Vec<_> = done.iter().map(|file| (file.state, file.reason.as_deref())).collect();
    assert_eq!(told, [(FileState::Removed, None), (FileState::Skipped, Some("what it was is no longer kept"))]);
    assert_eq!(place.content("b"), "cccccc");
}

#[tokio::test]
async fn old_journals_are_forgotten() {
    let place = Place::new();
    write(&place, "a", "a").await;
    let root = place.journal().dir.parent().unwrap().to_owned();
    Journal::sweep(&root, SystemTime::now());
    assert!(place.journal().dir.exists());
    Journal::sweep(&root, SystemTime::now() + KEPT * 2);
    assert!(!place.journal().dir.exists());
    assert_eq!(undo(&place), [] as [&str; 0]);
}

/// Which lines a session and a person change, in turns.
fn turns() -> impl Strategy<Value = Vec<(bool, usize, u8)>> {
    prop::collection::vec((any::<bool>(), 0..8usize, 0..3u8), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Each has lines of its own, with one between that nobody touches.
    #[test]
    fn undo_leaves_a_persons_edits_on_the_original(turns in turns()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let place = Place::new();
        let original: Vec<String> = (0..8).map(|n| format!("s{n}\nbetween {n}\np{n}\nbehind {n}\n")).collect();
        place.file("a", original.concat());
        let mut persons = original.concat();
        for (turn, (by_session, n, how)) in turns.into_iter().enumerate() {
            let now = place.content("a");
            let who = if by_session { 's' } else { 'p' };
            // Whatever the line became; one that was taken out stays out.
            let Some(line) = now.lines().find(|line| line.starts_with(&format!("{who}{n}"))) else { continue };
            let new = match how {
                0 => String::new(),
                1 => format!("{who}{n} changed in {turn}\n"),
                _ => format!("{line}\n+ more in {turn} by {who}{n}\n"),
            };
            let change = |text: &str| text.replacen(&format!("{line}\n"), &new, 1);
            if by_session {
                let input = json!({ "filePath": "a", "content": change(&now) });
                runtime.block_on(place.call(&crate::read::Read, json!({ "filePath": "a" }))).unwrap();
                runtime.block_on(place.call(&Write, input)).unwrap();
            } else {
                persons = change(&persons);
                place.file("a", change(&now));
            }
        }
        undo(&place);
        prop_assert_eq!(place.content("a"), persons);
    }
}
