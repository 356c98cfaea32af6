//! Tests of `edit` as a whole; how text is found is tested beside that.

use super::Edit;
use crate::read::Read;
use crate::testing::Place;
use serde_json::json;

#[tokio::test]
async fn a_change_is_made_and_shown() {
    let place = Place::new();
    place.file("a.txt", "one\ntwo\nthree\n");
    let text = place.call(&Edit, json!({"filePath": "a.txt", "oldString": "two", "newString": "2"})).await.unwrap();
    assert_eq!(place.content("a.txt"), "one\n2\nthree\n");
    assert_eq!(text, "edited `a.txt`: 1 lines added, 1 removed\n\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n");
}

#[tokio::test]
async fn other_spellings_of_the_arguments_are_taken() {
    let place = Place::new();
    place.file("a.txt", "x x");
    let input = json!({"path": "a.txt", "old_string": "x", "new_string": "y", "replace_all": "true"});
    place.call(&Edit, input).await.unwrap();
    assert_eq!(place.content("a.txt"), "y y");
}

#[tokio::test]
async fn line_endings_and_mode_are_kept() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let path = place.file("a.txt", "\u{feff}one\r\ntwo\r\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    place.call(&Edit, json!({"filePath": "a.txt", "oldString": "one\ntwo", "newString": "1\n2\n3"})).await.unwrap();
    assert_eq!(place.content("a.txt"), "\u{feff}1\r\n2\r\n3\r\n");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o755);
}

#[tokio::test]
async fn a_file_somebody_changed_must_be_read_again() {
    let place = Place::new();
    place.file("a.txt", "one");
    place.call(&Read, json!({"filePath": "a.txt"})).await.unwrap();
    place.file("a.txt", "one and more");
    let edit = async || place.call(&Edit, json!({"filePath": "a.txt", "oldString": "one", "newString": "two"})).await;
    assert!(edit().await.unwrap_err().contains("read it again, then edit"));
    assert_eq!(place.content("a.txt"), "one and more");
    place.call(&Read, json!({"filePath": "a.txt"})).await.unwrap();
    edit().await.unwrap();
    assert_eq!(place.content("a.txt"), "two and more");
}

#[tokio::test]
async fn edits_at_once_do_not_undo_each_other() {
    let place = Place::new();
    place.file("a.txt", (0..20).map(|n| format!("<{n}>\n")).collect::<String>());
    place.call(&Read, json!({"filePath": "a.txt"})).await.unwrap();
    let mut edits = tokio::task::JoinSet::new();
    for n in 0..20 {
        let cx = place.cx();
        let input = json!({"filePath": "a.txt", "oldString": format!("<{n}>"), "newString": format!("[{n}]")});
        let input = serde_json::value::to_raw_value(&input).unwrap();
        edits.spawn(async move { crate::AnyTool::run(&Edit, &input, &cx).await.unwrap() });
    }
    assert_eq!(edits.join_all().await.len(), 20);
    assert_eq!(place.content("a.txt"), (0..20).map(|n| format!("[{n}]\n")).collect::<String>());
}

#[tokio::test]
async fn what_cannot_be_edited_is_told() {
    let place = Place::new();
    place.file("blob", [0xff, 0xfe, 0]);
    let edit = async |path: &str| {
        place.call(&Edit, json!({"filePath": path, "oldString": "a", "newString": "b"})).await.unwrap_err()
    };
    assert!(edit("blob").await.contains("not UTF-8"));
    assert!(edit("missing").await.contains("does not exist"));
    let input = json!({"filePath": "src/a.rs", "oldString": "a", "newString": "b"});
    assert_eq!(place.asks(&Edit, input), ["edit src/a.rs", "read src/a.rs"]);
}
