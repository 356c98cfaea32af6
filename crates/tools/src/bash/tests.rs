//! Tests of what `bash` asks for and refuses; running commands is tested with real processes in `tests/processes`.

use super::Bash;
use crate::AnyTool;
use crate::testing::Place;
use serde_json::json;
use serde_json::value::to_raw_value;

fn asks(command: &str) -> Vec<String> {
    Place::new().asks(&Bash, json!({"command": command}))
}

#[test]
fn the_whole_command_is_asked_for() {
    assert_eq!(asks(" git status "), ["bash git status"]);
    assert_eq!(asks("make && git push"), ["bash make && git push"]);
}

#[test]
fn always_offers_a_stable_prefix() {
    let place = Place::new();
    let input = to_raw_value(&json!({"command": "git diff HEAD"})).unwrap();
    let accesses = AnyTool::access(&Bash, &input, &place.cx()).unwrap();
    assert_eq!(accesses[0].always, "git diff *");
}

#[test]
fn a_folder_outside_is_asked_for() {
    let asks = Place::new().asks(&Bash, json!({"command": "ls", "workdir": "/etc"}));
    assert_eq!(asks, ["bash ls", "external_directory /etc/*"]);
}

#[tokio::test]
async fn what_cannot_be_run_is_told() {
    let place = Place::new();
    let error = place.call(&Bash, json!({"command": "ls", "background": true})).await.unwrap_err();
    assert!(error.contains("not available yet"), "{error}");
    assert!(place.call(&Bash, json!({"command": " "})).await.unwrap_err().contains("empty"));
    let error = place.call(&Bash, json!({"cmd": 3})).await.unwrap_err();
    assert!(error.contains("do not fit at `cmd`") && error.contains("\"properties\""), "{error}");
}
