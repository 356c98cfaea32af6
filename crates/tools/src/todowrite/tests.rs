//! Tests of `todowrite` and `todoread`.

use super::TodoWrite;
use crate::testing::Place;
use crate::todoread::TodoRead;
use crate::{AnyTool, ToolCx};
use serde_json::json;
use serde_json::value::to_raw_value;
use std::sync::Arc;

#[track_caller]
fn refused(result: Result<String, String>, why: &str) {
    let error = result.expect_err(why);
    assert!(error.contains(why), "{error}");
}

#[tokio::test]
async fn a_list_is_taken_as_models_write_it() {
    let place = Place::new();
    let todos = json!([
        {"content": "read  the\ncode", "status": "done", "priority": "high"},
        {"content": "mend it", "status": "in-progress"},
        {"content": "test it"},
    ]);
    let input = to_raw_value(&json!({ "todos": todos })).unwrap();
    let output = AnyTool::run(&TodoWrite, &input, &place.cx()).await.unwrap();
    assert_eq!(output.text, "The list is kept: 2 of 3 left.");
    let lines: Vec<String> = output.todo.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["[x] read the code (high)", "[>] mend it", "[ ] test it"]);
}

#[tokio::test]
async fn what_cannot_be_a_list_is_refused() {
    let place = Place::new();
    refused(place.call(&TodoWrite, json!({"todos": [{"content": " "}]})).await, "point 1 says nothing");
    refused(place.call(&TodoWrite, json!({"todos": [{"content": "x".repeat(501)}]})).await, "in one line");
    refused(place.call(&TodoWrite, json!({"todos": vec![json!({"content": "a"}); 101]})).await, "100 points at most");
    refused(place.call(&TodoWrite, json!({"todos": [{"content": "a", "status": "soon"}]})).await, "todos[0].status");
    let two = json!([{"content": "a", "status": "in_progress"}, {"content": "b", "status": "in_progress"}]);
    let said = place.call(&TodoWrite, json!({ "todos": two })).await.unwrap();
    assert!(said.contains("one at a time"), "{said}");
    assert_eq!(place.asks(&TodoWrite, json!({"todos": []})), ["todowrite *"]);
}

#[tokio::test]
async fn the_list_is_read_as_it_was_written() {
    let place = Place::new();
    let empty = place.call(&TodoRead, json!({})).await.unwrap();
    assert!(empty.contains("nothing on the list"), "{empty}");
    let items = serde_json::from_value(json!([{"content": "a", "status": "completed"}, {"content": "b"}])).unwrap();
    let cx = ToolCx { todo: Arc::new(items), ..place.cx() };
    let output = AnyTool::run(&TodoRead, &to_raw_value(&json!({})).unwrap(), &cx).await.unwrap();
    assert_eq!(output.text, "[x] a\n[ ] b");
    assert_eq!(place.asks(&TodoRead, json!({})), ["todoread *"]);
}
