//! Tests of `glob`.

use super::Glob;
use crate::testing::Place;
use serde_json::json;
use std::fs::File;
use std::time::{Duration, SystemTime};

/// A file changed so many seconds after the epoch.
fn aged(place: &Place, name: &str, seconds: u64) {
    let path = place.file(name, "");
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
        .unwrap();
}

async fn names(place: &Place, input: serde_json::Value) -> Vec<String> {
    let text = place.call(&Glob, input).await.unwrap();
    let prefix = format!("{}/", place.dir().display());
    text.lines().map(|line| line.strip_prefix(&prefix).unwrap_or(line).to_owned()).collect()
}

#[tokio::test]
async fn the_newest_come_first_and_ignored_ones_never() {
    let place = Place::new();
    aged(&place, "old.rs", 1);
    aged(&place, "src/new.rs", 3);
    aged(&place, "src/mid.rs", 2);
    aged(&place, "src/other.py", 4);
    aged(&place, "target/made.rs", 5);
    place.file(".gitignore", "/target/\n");
    assert_eq!(names(&place, json!({"pattern": "*.rs"})).await, ["src/new.rs", "src/mid.rs", "old.rs"]);
    assert_eq!(names(&place, json!({"pattern": "src/*.rs"})).await, ["src/new.rs", "src/mid.rs"]);
    assert_eq!(names(&place, json!({"pattern": "*.py", "path": "src"})).await, ["src/other.py"]);
    let absolute = format!("{}/src/*.py", place.dir().display());
    assert_eq!(names(&place, json!({"pattern": absolute})).await, ["src/other.py"]);
    assert_eq!(names(&place, json!({"pattern": "*.c"})).await, ["no file matches"]);
}

#[tokio::test]
async fn many_matches_are_bounded() {
    let place = Place::new();
    for n in 0..130 {
        aged(&place, &format!("{n}.txt"), n);
    }
    let names = names(&place, json!({"pattern": "*.txt"})).await;
    assert_eq!((names[0].as_str(), names[99].as_str()), ("129.txt", "30.txt"));
    assert_eq!(names.last().unwrap(), "(the newest 100 of 130 files: narrow the pattern to see others)");
}

#[tokio::test]
async fn symlinks_are_not_followed() {
    let place = Place::new();
    place.file("real/a.rs", "");
    std::os::unix::fs::symlink(place.dir().join("real"), place.dir().join("link")).unwrap();
    assert_eq!(names(&place, json!({"pattern": "**/a.rs"})).await, ["real/a.rs"]);
}

#[tokio::test]
async fn bad_patterns_and_places_are_told() {
    let place = Place::new();
    let tell = async |input| place.call(&Glob, input).await.unwrap_err();
    assert!(tell(json!({"pattern": "a[", "path": "."})).await.contains("bad pattern"));
    assert!(tell(json!({"pattern": "../*.rs"})).await.contains("give the folder as `path`"));
    assert!(tell(json!({"pattern": "*", "path": "nowhere"})).await.contains("does not exist"));
    let asks = place.asks(&Glob, json!({"pattern": "/etc/ssl/**/*.pem"}));
    assert_eq!(asks, ["glob /etc/ssl/**/*.pem", "external_directory /etc/ssl/*"]);
    assert_eq!(place.asks(&Glob, json!({"pattern": "*.rs"})), ["glob *.rs"]);
}
