//! Sessions that begin anew, are hidden, deleted or written into.

use crate::World;
use proto::methods::dispatch;
use serde_json::{Value, json};

async fn call(world: &World, method: &str, input: Value) -> Value {
    let answer = dispatch(&world.gateway, method, input.to_string().as_bytes(), &|_| Ok(())).await;
    serde_json::from_slice(&answer.unwrap_or_else(|error| panic!("{method}: {error:?}"))).unwrap()
}

async fn refused(world: &World, method: &str, input: Value) -> Value {
    json!(dispatch(&world.gateway, method, input.to_string().as_bytes(), &|_| Ok(())).await.unwrap_err().code)
}

#[tokio::test]
async fn a_session_begins_anew_is_hidden_and_is_deleted() {
    let world = World::new().await;
    let made = call(&world, "sessions.create", json!({ "label": "ci" })).await;
    let (id, key) = (made["sessionId"].clone(), made["key"].clone());
    let run = call(&world, "chat.inject", json!({ "ref": id, "message": "I was never said" })).await["runId"].clone();
    call(&world, "agent.wait", json!({ "runId": run, "timeoutMs": 10_000 })).await;
    let history = call(&world, "chat.history", json!({ "sessionKey": key })).await;
    assert_eq!(history["messages"][0]["content"], json!("I was never said"), "{history}");

    let again = json!({ "ref": key, "idempotencyKey": "reset-1" });
    let anew = call(&world, "sessions.reset", again.clone()).await;
    assert_eq!((&anew["key"], &anew["label"]), (&key, &json!("ci")), "{anew}");
    assert_ne!(anew["sessionId"], id);
    assert_eq!(call(&world, "sessions.reset", again).await["sessionId"], anew["sessionId"]);
    let history = call(&world, "chat.history", json!({ "sessionKey": key })).await;
    assert_eq!(history["messages"], json!([]), "{history}");
    // What was said before is still there.
    let old = call(&world, "chat.history", json!({ "sessionKey": id })).await;
    assert_eq!(old["messages"].as_array().unwrap().len(), 1, "{old}");

    call(&world, "sessions.patch", json!({ "ref": key, "label": "nightly", "permission": "accept-edits" })).await;
    let named = call(&world, "sessions.resolve", json!({ "label": "nightly" })).await;
    assert_eq!(named["sessionId"], anew["sessionId"]);
    assert_eq!(call(&world, "sessions.archive", json!({ "ref": key })).await["archived"], json!(true));
    let listed = call(&world, "sessions.list", json!({})).await;
    assert_eq!(listed["count"], json!(0), "{listed}");
    let answer = refused(&world, "chat.send", json!({ "ref": anew["sessionId"], "message": "hello" })).await;
    assert_eq!(answer, "not_found");

    let other = call(&world, "sessions.create", json!({ "label": "nightly" })).await;
    call(&world, "sessions.delete", json!({ "ref": other["sessionId"] })).await;
    assert_eq!(refused(&world, "sessions.get", json!({ "key": other["key"] })).await, "not_found");
    let models = call(&world, "models.list", json!({})).await;
    assert!(models["models"].as_array().unwrap().iter().any(|row| row["name"] == models["default"]), "{models}");
}
