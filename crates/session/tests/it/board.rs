//! The board of a tree: what agents put on it, take from it, and may change of it.

use crate::turns::step;
use crate::world::World;
use convoke_session::Target;
use convoke_session::hub::{Watching, What};
use proto::entry::{Entry, State};
use proto::methods::{BoardAddInput, BoardClaimInput, BoardListInput, BoardUpdateInput};
use proto::{BoardTask, Code, Holder, SessionId, TaskState};
use serde_json::{Value, json};
use testkit::{Gate, Received, Reply};

fn user(received: &Received) -> String {
    received.last("user").unwrap_or_default()
}

fn child(prompt: &str) -> (&'static str, Value) {
    ("task", json!({"description": "a piece", "prompt": prompt, "subagent_type": "general"}))
}

async fn results(world: &World, session: &SessionId) -> Vec<(State, Value)> {
    let result = |entry: Entry| match entry {
        Entry::Result(result) => Some((result.state, serde_json::from_str(&result.output).unwrap_or_default())),
        _ => None,
    };
    world.log(session).await.into_iter().filter_map(result).collect()
}

async fn tasks(world: &World, root: &SessionId) -> Vec<BoardTask> {
    let board = world.rt.board(Some(root.as_str())).await.unwrap();
    board.list(&BoardListInput::default()).await.unwrap().tasks
}

/// What watchers heard of the board.
fn told(heard: &Watching) -> Vec<Value> {
    let mut events = Vec::new();
    while let Ok(Some(seen)) = heard.take() {
        let event: Value = serde_json::from_str(&seen.json).unwrap();
        if event["type"] == "board" {
            events.push(event);
        }
    }
    events
}

#[tokio::test]
async fn agents_of_a_tree_share_its_board_and_watchers_hear_of_it() {
    let world = World::new(|received| match (user(received).as_str(), step(received)) {
        ("split", 0) => Reply::calls([("board_add", json!({"title": "draw", "description": "a map"}))]),
        ("split", 1) => Reply::calls([("TaskCreate", json!({"subject": "paint", "blocked_by": ["1"]}))]),
        ("split", 2) => Reply::calls([child("work")]),
        ("split", 3) => Reply::calls([("board_list", json!({})), ("board_list", json!({"number": 1}))]),
        ("work", 0) => Reply::calls([("board_claim", json!({"number": 2}))]),
        ("work", 1) => Reply::calls([("board_claim", json!({}))]),
        ("work", 2) => Reply::calls([(
            "TaskUpdate",
            json!({"taskId": "1", "status": "completed", "note": "in ink", "version": 2}),
        )]),
        _ => Reply::text("done"),
    })
    .await;
    let heard = world.hub.watch(What::Everything);
    let posted = world.prompt("split").await;
    world.end(&posted.run).await;
    let root = &posted.session.id;
    let worker = world.children(root).await.remove(0);
    let answered = results(&world, &worker.id).await;
    assert_eq!((answered[0].0, &answered[0].1["code"]), (State::Error, &json!("conflict")));
    assert_eq!(answered[0].1["details"]["task"]["waitingFor"], json!([1]));
    assert_eq!((&answered[1].1["number"], &answered[1].1["owner"]), (&json!(1), &json!(worker.id)));
    assert_eq!((&answered[2].1["state"], &answered[2].1["version"]), (&json!("done"), &json!(3)));
    let board = tasks(&world, root).await;
    assert_eq!((board[0].state, board[0].note.as_deref()), (TaskState::Done, Some("in ink")));
    assert_eq!((board[1].title.as_str(), board[1].waiting_for.len()), ("paint", 0));
    let seen = results(&world, root).await;
    let (page, one) = (&seen[3].1, &seen[4].1);
    assert_eq!((&page["count"], &page["tasks"][0]["description"]), (&json!(2), &Value::Null));
    assert_eq!(one["tasks"][0]["description"], "a map");
    let events: Vec<String> = told(&heard)
        .iter()
        .inspect(|event| assert_eq!(event["sessionId"], json!(root)))
        .map(|event| format!("{} {}", event["task"]["number"], event["task"]["state"].as_str().unwrap()))
        .collect();
    assert_eq!(events, ["1 pending", "2 pending", "1 in_progress", "1 done"]);
}

#[tokio::test]
async fn what_an_agent_still_holds_is_free_when_it_ends() {
    let world = World::new(|received| match (user(received).as_str(), step(received)) {
        ("go", 0) => Reply::calls([("board_add", json!({"title": "draw"}))]),
        ("go", 1) => Reply::calls([child("forgetful")]),
        ("forgetful", 0) => Reply::calls([("board_claim", json!({"number": 1}))]),
        _ => Reply::text("done"),
    })
    .await;
    let heard = world.hub.watch(What::Everything);
    let posted = world.prompt("go").await;
    world.end(&posted.run).await;
    let task = tasks(&world, &posted.session.id).await.remove(0);
    assert_eq!((task.state, task.owner, task.version), (TaskState::Pending, None, 3));
    let last = &told(&heard).pop().unwrap()["task"];
    assert_eq!((&last["state"], &last["owner"], &last["version"]), (&json!("pending"), &Value::Null, &json!(3)));
}

#[tokio::test]
async fn a_task_is_changed_by_its_owner_those_above_it_and_people() {
    let gate = Gate::new();
    let hold = gate.clone();
    let background = json!({"description": "a piece", "prompt": "hold", "subagent_type": "general", "name": "holder"});
    let world = World::new(move |received| match (user(received).as_str(), step(received)) {
        ("go", 0) => Reply::calls([("agent", background.clone())]),
        ("hold", 0) => Reply::calls([("board_claim", json!({"number": 1}))]),
        ("hold", _) => Reply::text("done").gated(hold.clone()),
        ("meddle", 0) => Reply::calls([child("sibling")]),
        ("meddle", 1) => Reply::calls([("board_update", json!({"number": 1, "note": "from above"}))]),
        ("sibling", 0) => Reply::calls([("board_update", json!({"number": 1, "state": "done"}))]),
        ("sibling", 1) => Reply::calls([("board_update", json!({"number": 2, "state": "cancelled"}))]),
        _ => Reply::text("done"),
    })
    .await;
    let first = world.prompt("hello").await;
    world.end(&first.run).await;
    let root = first.session.id.clone();
    let board = world.rt.board(Some(root.as_str())).await.unwrap();
    for title in ["draw", "paint"] {
        board.add(BoardAddInput { title: title.into(), ..BoardAddInput::default() }).await.unwrap();
    }
    let launched = world.send(Target::Session(root.clone()), "go").await;
    world.end_of(&launched.run).await;
    // Hello, two steps of the launch, and both of the holder: by the second one it has its task.
    world.fake.wait_for(5).await;
    let task = tasks(&world, &root).await.remove(0);
    assert_eq!((task.state, task.owner_name.as_deref()), (TaskState::InProgress, Some("holder")));
    let meddled = world.send(Target::Session(root.clone()), "meddle").await;
    world.end_of(&meddled.run).await;
    let children = world.children(&root).await;
    let sibling = children.iter().find(|row| row.name.is_none()).unwrap();
    let told = results(&world, &sibling.id).await;
    assert_eq!((&told[0].1["status"], &told[0].1["code"]), (&json!("forbidden"), &json!("denied")));
    assert_eq!(told[0].1["details"]["task"]["owner"], json!(task.owner));
    assert_eq!(told[1].1["state"], "cancelled", "what nobody owns is everybody's");
    let above = results(&world, &root).await.pop().unwrap().1;
    assert_eq!((&above["note"], &above["owner"]), (&json!("from above"), &json!(task.owner)));
    let closed = BoardUpdateInput { number: 1, state: Some(TaskState::Failed), ..BoardUpdateInput::default() };
    let closed = board.update(closed).await.unwrap();
    assert_eq!((closed.state, closed.owner), (TaskState::Failed, task.owner));
    gate.open();
}

#[tokio::test]
async fn a_person_claims_as_a_person_and_is_told_who_was_faster() {
    let world = World::new(|_| Reply::text("hello")).await;
    let posted = world.prompt("hi").await;
    world.end(&posted.run).await;
    let board = world.rt.board(None).await.unwrap();
    let add = |title: &str| BoardAddInput { title: title.into(), ..BoardAddInput::default() };
    board.add(add("draw")).await.unwrap();
    let claimed = board.claim(BoardClaimInput::default()).await.unwrap();
    assert_eq!((claimed.number, claimed.owner), (1, Some(Holder::Person)));
    let none = board.claim(BoardClaimInput::default()).await.unwrap_err();
    assert_eq!(none.code, Code::NotFound);
    let stale = BoardUpdateInput { number: 1, version: Some(1), ..BoardUpdateInput::default() };
    let stale = board.update(stale).await.unwrap_err();
    assert_eq!((stale.code, &stale.details.unwrap()["task"]["version"]), (Code::Conflict, &json!(2)));
    let more = BoardUpdateInput { number: 1, add_blocked_by: vec![2], ..BoardUpdateInput::default() };
    assert_eq!(board.update(more.clone()).await.unwrap_err().code, Code::NotFound);
    board.add(add("mix")).await.unwrap();
    assert_eq!(board.update(more).await.unwrap().blocked_by, [2]);
    let page = BoardListInput { limit: Some(1), ..BoardListInput::default() };
    let page = board.list(&page).await.unwrap();
    assert_eq!((page.count, page.next_cursor.as_deref()), (1, Some("1")));
    let mine = BoardListInput { owner: Some("me".into()), ..BoardListInput::default() };
    assert_eq!(board.list(&mine).await.unwrap().count, 1);
    for bad in ["", "x"] {
        let input = BoardListInput { cursor: Some(bad.into()), ..BoardListInput::default() };
        assert_eq!(board.list(&input).await.unwrap_err().code, Code::InvalidInput);
    }
}
