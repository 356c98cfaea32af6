//! The board and the mail of a home, from the command line and from agents, across a kill.

use crate::World;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use testkit::Reply;

#[test]
fn a_board_is_shared_by_people_and_agents_and_survives_a_kill() {
    let world = World::new();
    let empty = world.convoke(["board", "--json"]).code(0).json();
    assert_eq!(empty, json!({ "root": null, "count": 0, "tasks": [] }));
    world.convoke(["board"]).code(0).says("no session was started");
    world.convoke(["board", "add", "draw"]).code(2).says("no session was started in");
    let child = json!({ "description": "a piece", "prompt": "take one", "subagent_type": "general" });
    world.model.push(Reply::calls([("board_add", json!({ "title": "draw", "description": "a map" }))]));
    world.model.push(Reply::calls([("task", child)]));
    world.model.push(Reply::calls([("board_claim", json!({}))]));
    world.model.push(Reply::text("I forgot to finish."));
    world.model.push(Reply::text("Split."));
    let ran = world.convoke(["run", "--label", "lead", "--format", "json", "split the work"]).code(0);
    let board = |event: &&Value| event["type"] == "board";
    let lines = ran.lines();
    let states: Vec<&Value> = lines.iter().filter(board).map(|event| &event["task"]["state"]).collect();
    assert_eq!(states, [&json!("pending"), &json!("in_progress"), &json!("pending")], "{lines:#?}");

    let added = world.convoke(["board", "add", "paint", "it", "--blocked-by", "1", "--json"]).code(0).json();
    assert_eq!((&added["number"], &added["title"], &added["waitingFor"]), (&json!(2), &json!("paint it"), &json!([1])));
    world.convoke(["board", "claim", "2"]).code(2).says("task 2 is blocked by task 1");
    let claimed = world.convoke(["board", "claim", "--json"]).code(0).json();
    assert_eq!((&claimed["number"], &claimed["owner"], &claimed["version"]), (&json!(1), &json!("person"), &json!(4)));
    kill_process(world.gateway_pid(), Signal::KILL).unwrap();
    // The next one knows all of it.
    let stale = ["board", "update", "1", "--state", "done", "--if-version", "3"];
    world.convoke(stale).code(2).says("has version 4 now");
    let kept = world.convoke(["board", "list", "--session", "lead", "--json"]).code(0).json();
    assert_eq!((&kept["tasks"][0], &kept["count"]), (&claimed, &json!(2)));
    let done = world.convoke(["board", "update", "1", "--state", "done", "--note", "in ink", "--json"]).code(0).json();
    assert_eq!((&done["state"], &done["note"], &done["owner"]), (&json!("done"), &json!("in ink"), &json!("person")));
    let open = world.convoke(["board", "list", "--state", "pending", "--json"]).code(0).json();
    assert_eq!((&open["tasks"][0]["number"], &open["tasks"][0]["waitingFor"]), (&json!(2), &json!([])));
    assert!(world.convoke(["board"]).code(0).stdout.contains("done"));
    world.convoke(["board", "update", "1", "--state", "lost"]).code(2);
    world.convoke(["board", "update", "9", "--note", "x"]).code(2).says("no task 9");
    world.convoke(["board", "add", " "]).code(2).says("title");
}

#[test]
fn mail_between_agents_is_listed_and_nothing_unknown_is_accepted() {
    let world = World::new();
    world.convoke(["mail"]).code(0).says("there is no such mail");
    assert_eq!(world.convoke(["mail", "--json"]).code(0).json(), json!({ "count": 0, "messages": [] }));
    let child = json!({ "description": "a piece", "prompt": "count", "subagent_type": "general" });
    world.model.push(Reply::calls([("task", child)]));
    world.model.push(Reply::text("42"));
    world.model.push(Reply::text("It is 42."));
    world.convoke(["run", "--label", "lead", "count"]).code(0);
    let page = world.convoke(["mail", "list", "--session", "lead", "--state", "delivered", "--json"]).code(0).json();
    assert_eq!(page["count"], 1, "{page}");
    let message = &page["messages"][0];
    assert!(message["deliveredAt"].is_i64() && message["from"].is_string(), "{page}");
    // Also what was taken into a log stays readable, with who wrote it and what it is.
    assert_eq!((&message["kind"], &message["fromName"]), (&json!("task"), &json!("lead")), "{page}");
    assert!(message["text"].as_str().is_some_and(|text| text.contains("count")), "{page}");
    assert_eq!(world.convoke(["mail", "list", "--state", "held", "--json"]).code(0).json()["count"], 0);
    let id = message["id"].as_str().unwrap();
    world.convoke(["mail", "accept", id]).code(2).says("no held message");
    world.convoke(["mail", "refuse", "no id", "--reason", "x"]).code(2).says("is not an id");
}
