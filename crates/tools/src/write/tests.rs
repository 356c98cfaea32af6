//! Tests of `write`.

use super::Write;
use crate::read::Read;
use crate::testing::Place;
use serde_json::json;

#[tokio::test]
async fn a_new_file_is_made_with_its_folders() {
    let place = Place::new();
    let text = place.call(&Write, json!({"filePath": "a/b.txt", "content": "one\ntwo\n"})).await.unwrap();
    assert!(text.starts_with("made `") && text.ends_with("2 lines, 8 bytes"), "{text}");
    assert_eq!(place.content("a/b.txt"), "one\ntwo\n");
    place.call(&Write, json!({"path": "a/b.txt", "content": "three"})).await.unwrap();
    assert_eq!(place.content("a/b.txt"), "three", "what one wrote oneself one knows");
}

#[tokio::test]
async fn an_existing_file_must_have_been_read_as_it_is() {
    let place = Place::new();
    place.file("a", "old");
    let write = async |content: &str| place.call(&Write, json!({"filePath": "a", "content": content})).await;
    assert!(write("new").await.unwrap_err().ends_with("read it first"));
    place.call(&Read, json!({"filePath": "a"})).await.unwrap();
    place.file("a", "somebody else's");
    assert!(write("new").await.unwrap_err().ends_with("read it again first"));
    assert_eq!(place.content("a"), "somebody else's");
    place.call(&Read, json!({"filePath": "a"})).await.unwrap();
    assert!(write("new").await.unwrap().starts_with("replaced"));
    assert_eq!(place.content("a"), "new");
}

#[tokio::test]
async fn line_endings_of_the_old_file_are_kept() {
    let place = Place::new();
    place.file("a", "\u{feff}one\r\ntwo\r\n");
    place.call(&Read, json!({"filePath": "a"})).await.unwrap();
    place.call(&Write, json!({"filePath": "a", "content": "x\ny\n"})).await.unwrap();
    assert_eq!(place.content("a"), "\u{feff}x\r\ny\r\n");
}

#[tokio::test]
async fn a_symlink_stays_and_what_it_leads_to_is_written() {
    let place = Place::new();
    let link = place.dir().join("link");
    std::os::unix::fs::symlink("real", &link).unwrap();
    place.call(&Write, json!({"filePath": "link", "content": "x"})).await.unwrap();
    assert!(link.is_symlink());
    assert_eq!(place.content("real"), "x");
}

#[tokio::test]
async fn what_is_no_file_is_told_and_places_are_asked_for() {
    let place = Place::new();
    let error = place.call(&Write, json!({"filePath": ".", "content": ""})).await.unwrap_err();
    assert!(error.contains("is a directory"), "{error}");
    assert_eq!(place.asks(&Write, json!({"filePath": "a/../b", "content": ""})), ["edit b"]);
    let asks = place.asks(&Write, json!({"filePath": "/etc/x", "content": ""}));
    assert_eq!(asks, ["edit /etc/x", "external_directory /etc/*"]);
}
