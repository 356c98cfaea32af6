//! Tests of `grep`.

use super::Grep;
use crate::testing::Place;
use serde_json::json;

fn place() -> Place {
    let place = Place::new();
    place.file("src/a.rs", "fn one() {}\n// todo\nfn two() {}\n");
    place.file("src/b.py", "def one(): pass\n");
    place.file("target/c.rs", "fn one() {}\n");
    place.file("blob", b"fn one()\0\x01\x02");
    place.file(".gitignore", "target\n");
    place
}

async fn grep(place: &Place, input: serde_json::Value) -> String {
    place.call(&Grep, input).await.unwrap().replace(&format!("{}/", place.dir().display()), "")
}

#[tokio::test]
async fn matches_come_with_file_and_line() {
    let place = place();
    let text = grep(&place, json!({"pattern": r"\bone\("})).await;
    assert_eq!(text, "src/a.rs:\n  1: fn one() {}\nsrc/b.py:\n  1: def one(): pass\n");
    assert_eq!(
        grep(&place, json!({"pattern": "fn [a-z]+", "include": "*.rs"})).await,
        "src/a.rs:\n  1: fn one() {}\n  3: fn two() {}\n"
    );
    assert_eq!(grep(&place, json!({"pattern": "one", "path": "src/b.py"})).await, "src/b.py:\n  1: def one(): pass\n");
    assert_eq!(grep(&place, json!({"pattern": "nowhere"})).await, "nothing matches");
}

#[tokio::test]
async fn many_matches_and_long_lines_are_bounded() {
    let place = Place::new();
    place.file("a", "hit\n".repeat(60));
    place.file("b", "hit\n".repeat(60));
    let text = grep(&place, json!({"pattern": "hit"})).await;
    assert!(text.contains("b:\n  1: hit") && text.contains("  40: hit\n\n(only the first 100"), "{text}");
    assert!(!text.contains("  41: hit\n  42: hit\n\n"), "{text}");
    place.file("wide", format!("needle{}\n", "x".repeat(100_000)));
    let text = grep(&place, json!({"pattern": "needle"})).await;
    assert!(text.len() < 600 && text.ends_with("(line cut)\n"), "{}", text.len());
}

#[tokio::test]
async fn exactly_as_many_as_are_shown_is_not_too_many() {
    let place = Place::new();
    place.file("a", "hit\n".repeat(100));
    let text = grep(&place, json!({"pattern": "hit"})).await;
    assert!(text.ends_with("  100: hit\n"), "{text}");
}

#[tokio::test]
async fn bad_patterns_are_told_and_places_are_asked_for() {
    let place = place();
    let error = place.call(&Grep, json!({"pattern": "foo("})).await.unwrap_err();
    assert!(error.contains("bad pattern") && error.contains("Escape"), "{error}");
    assert!(place.call(&Grep, json!({"pattern": "x", "include": "["})).await.unwrap_err().contains("bad `include`"));
    assert_eq!(place.asks(&Grep, json!({"pattern": "x"})), ["grep x"]);
    assert_eq!(place.asks(&Grep, json!({"pattern": "x", "path": "/etc"})), ["grep x", "external_directory /etc/*"]);
}
