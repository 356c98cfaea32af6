//! Tests of `list`.

use super::List;
use crate::testing::Place;
use serde_json::json;

#[tokio::test]
async fn a_small_folder_is_shown_whole_without_what_is_ignored() {
    let place = Place::new();
    for name in ["src/main.rs", "src/deep/a.rs", ".github/ci.yml", ".git/config", "target/x", "Cargo.toml"] {
        place.file(name, "");
    }
    place.file(".gitignore", "target\n");
    let text = place.call(&List, json!({})).await.unwrap();
    let expected =
        "/\n  .github/\n    ci.yml\n  .gitignore\n  Cargo.toml\n  src/\n    deep/\n      a.rs\n    main.rs\n";
    assert_eq!(text, format!("{}{expected}", place.dir().display()));
}

#[tokio::test]
async fn the_upper_levels_come_first() {
    let place = Place::new();
    for n in 0..150 {
        place.file(&format!("a/{n}"), "");
        place.file(&format!("b/{n}"), "");
    }
    let text = place.call(&List, json!({"path": "."})).await.unwrap();
    assert!(text.ends_with("/\n  a/\n  b/\n\n(deeper levels are not shown: list a subfolder to see them)\n"), "{text}");
    let text = place.call(&List, json!({"path": "a"})).await.unwrap();
    assert_eq!(text.lines().count(), 151);
}

#[tokio::test]
async fn a_huge_folder_is_bounded() {
    let place = Place::new();
    for n in 0..300 {
        place.file(&n.to_string(), "");
    }
    let text = place.call(&List, json!({})).await.unwrap();
    assert!(text.contains("only the first 200 entries") && text.lines().count() == 203, "{text}");
}

#[tokio::test]
async fn what_is_no_folder_is_told() {
    let place = Place::new();
    place.file("a", "");
    assert!(place.call(&List, json!({"path": "a"})).await.unwrap_err().contains("use `read`"));
    assert!(place.call(&List, json!({"path": "b"})).await.unwrap_err().contains("does not exist"));
    assert_eq!(place.asks(&List, json!({})), ["list ."]);
    assert_eq!(place.asks(&List, json!({"path": "/etc"})), ["list /etc", "external_directory /etc/*"]);
}
