//! What waits for a person: leave, questions, answers that hold for good; and why something is decided as it is.

use crate::World;
use proto::entry::{Call, Decision, Finish, Input, On, Reply, ReplyPart, Waiting};
use proto::letter::Prompt;
use proto::methods::{AskAbout, dispatch};
use proto::{Action, AskId, CallId, Entry, Question, Rule, RunId, SessionId, Usage};
use serde_json::{Value, json};
use std::path::Path;
use store::{Ask, AskChange, Batch, Fence};

async fn call(world: &World, method: &str, input: Value) -> Value {
    let answer = dispatch(&world.gateway, method, input.to_string().as_bytes(), &|_| Ok(())).await;
    serde_json::from_slice(&answer.unwrap_or_else(|error| panic!("{method}: {error:?}"))).unwrap()
}

async fn refused(world: &World, method: &str, input: Value) -> Value {
    json!(dispatch(&world.gateway, method, input.to_string().as_bytes(), &|_| Ok(())).await.unwrap_err().code)
}

/// A session whose call waits for a person.
async fn asking(world: &World, questions: Vec<Question>, always: &str) -> (SessionId, AskId) {
    let session = world.session().await;
    let (run, id) = (RunId::new(), AskId::new());
    let input = json!({ "questions": questions });
    let made = Call {
        id: CallId::new(),
        tool: if questions.is_empty() { "bash" } else { "question" }.into(),
        input: serde_json::value::to_raw_value(&input).unwrap(),
        changed: None,
        decision: Decision::Ask,
        wire_id: None,
    };
    let entries = vec![
        Entry::Input(Input {
            letter: run.letter(),
            run: run.clone(),
            parts: Prompt::text("go").parts,
            agent: "build".into(),
            name: None,
            model: "offline/plain".into(),
            provenance: None,
            conversation: None,
            until: None,
            purse: None,
            shutdown: None,
            compact: None,
        }),
        Entry::Reply(Reply {
            step: 1,
            parts: vec![ReplyPart::Call(made.clone())],
            usage: Usage::default(),
            finish: Finish::ToolCalls,
            model: "offline/plain".into(),
            deferred: Vec::new(),
        }),
        Entry::Waiting(Waiting { call: made.id.clone(), on: On::Ask { ask: id.clone() }, until: None, note: None }),
    ];
    let ask = Ask {
        id: id.clone(),
        session: session.clone(),
        root: session.clone(),
        call: made.id,
        agent: "build".into(),
        tool: made.tool,
        permission: if questions.is_empty() { "bash" } else { "question" }.into(),
        patterns: vec!["what is asked".into()],
        always: vec![always.into()],
        rules: vec![Rule::new("bash", always, Action::Allow)],
        keeps: Vec::new(),
        about: AskAbout::default(),
        created: 1,
        until: i64::MAX,
        reply: None,
        to: None,
        questions,
    };
    let batch = Batch { at: 1, entries, asks: vec![AskChange::Open(Box::new(ask))], ..Batch::default() };
    world.gateway.runtime().store().commit(&session, Fence::Claim, batch).await.unwrap();
    (session, id)
}

fn question(text: &str) -> Question {
    Question { question: text.into(), header: None, options: Vec::new(), multiple: false }
}

#[tokio::test]
async fn questions_and_leave_are_told_apart_and_answered_each_in_its_way() {
    let world = World::new().await;
    let (session, wish) = asking(&world, Vec::new(), "ls *").await;
    let (_, id) = asking(&world, vec![question("Which?"), question("Why?")], "*").await;
    let open = call(&world, "questions.list", json!({})).await;
    assert_eq!(open["questions"].as_array().unwrap().len(), 1, "{open}");
    assert_eq!(
        (&open["questions"][0]["id"], &open["questions"][0]["questions"][1]["question"]),
        (&json!(id), &json!("Why?"))
    );
    assert_eq!(call(&world, "questions.list", json!({ "ref": session })).await["questions"], json!([]));
    assert_eq!(call(&world, "permissions.list", json!({})).await["asks"][0]["askId"], json!(wish));
    for (method, input) in [
        ("questions.reply", json!({ "id": id })),
        ("questions.reply", json!({ "id": id, "answers": [["a"]] })),
        ("questions.reply", json!({ "id": id, "answers": [["a"], ["b", "c"]] })),
        ("questions.reply", json!({ "id": id, "answers": [["a"], ["b"]], "reject": true })),
        ("questions.reply", json!({ "id": id, "answers": [["a"], ["b"]], "message": "m" })),
        ("questions.reply", json!({ "id": wish, "answers": [["a"]] })),
        ("questions.reply", json!({ "id": wish, "reject": true })),
        ("permissions.reply", json!({ "askId": id, "reply": "once" })),
    ] {
        assert_eq!(refused(&world, method, input.clone()).await, "invalid_input", "{method} {input}");
    }
    let unknown = json!({ "id": "ask_none", "answers": [["a"]] });
    assert_eq!(refused(&world, "questions.reply", unknown).await, "not_found");
    let answer = json!({ "id": id, "answers": [["red"], ["it is warm"]] });
    assert_eq!(call(&world, "questions.reply", answer.clone()).await["ok"], true);
    assert_eq!(refused(&world, "questions.reply", answer).await, "conflict");
    assert_eq!(call(&world, "permissions.reply", json!({ "askId": wish, "reply": "reject" })).await["ok"], true);
}

#[tokio::test]
async fn what_holds_for_good_is_listed_and_taken_back_and_wildcards_never_hold_for_good() {
    let world = World::new().await;
    let settings = world.gateway.runtime().settings().clone();
    settings.keep_always(Path::new("/p"), &[Rule::new("bash", "ls *", Action::Allow)]).unwrap();
    let saved = call(&world, "permissions.saved", json!({})).await["saved"].clone();
    assert_eq!(
        (&saved[0]["permission"], &saved[0]["pattern"], &saved[0]["project"]),
        (&json!("bash"), &json!("ls *"), &json!("/p"))
    );
    let id = saved[0]["id"].clone();
    assert_eq!(call(&world, "permissions.revoke", json!({ "id": id })).await["ok"], true);
    assert_eq!(refused(&world, "permissions.revoke", json!({ "id": id })).await, "not_found");
    assert_eq!(call(&world, "permissions.saved", json!({})).await["saved"], json!([]));
    let (_, wish) = asking(&world, Vec::new(), "").await;
    let always = json!({ "askId": wish, "reply": "always" });
    assert_eq!(refused(&world, "permissions.reply", always).await, "invalid_input");
    assert_eq!(call(&world, "permissions.list", json!({})).await["asks"].as_array().unwrap().len(), 1, "it stays open");
}

#[tokio::test]
async fn a_request_is_shown_whole_and_its_answer_keeps_what_was_chosen_and_is_told() {
    let world = World::new().await;
    let (session, id) = asking(&world, Vec::new(), "ls *").await;
    let (_, question) = asking(&world, vec![question("Which?")], "*").await;
    let shown = call(&world, "permissions.get", json!({ "askId": id })).await;
    assert_eq!(shown, call(&world, "permissions.list", json!({ "ref": session })).await["asks"][0]);
    assert_eq!((&shown["always"], &shown["keeps"][0][0]["pattern"]), (&json!(["ls *"]), &json!("ls *")), "{shown}");
    // An older program asked it, and said nothing of that.
    assert_eq!(shown["mayBeDenied"], true, "{shown}");
    for unknown in [json!({ "askId": "ask_none" }), json!({ "askId": question })] {
        assert_eq!(refused(&world, "permissions.get", unknown).await, "not_found");
    }
    for (reply, keep) in [("always", 1), ("once", 0)] {
        let answer = json!({ "askId": id, "reply": reply, "keep": keep });
        assert_eq!(refused(&world, "permissions.reply", answer).await, "invalid_input", "{reply} {keep}");
    }
    let watching = world.gateway.runtime().hub().watch(session::hub::What::Session(session));
    call(&world, "permissions.reply", json!({ "askId": id, "reply": "always", "keep": 0 })).await;
    let settled = loop {
        let seen: Value = serde_json::from_str(&watching.next().await.unwrap().json).unwrap();
        if seen["type"] == "settled" {
            break seen;
        }
    };
    assert_eq!(
        (&settled["askId"], &settled["by"], &settled["reply"]),
        (&json!(id), &json!("person"), &json!("always"))
    );
    assert_eq!(call(&world, "permissions.saved", json!({})).await["saved"][0]["pattern"], "ls *");
    assert_eq!(call(&world, "permissions.get", json!({ "askId": id })).await["reply"], "always");
}

#[tokio::test]
async fn a_session_knows_its_tools_and_why() {
    let world = World::new().await;
    let session = world.session().await;
    let tools = call(&world, "tools.list", json!({ "session": session })).await;
    assert_eq!(tools["agent"], "build");
    call(&world, "sessions.patch", json!({ "ref": session, "permissionMode": "plan" })).await;
    let why = call(&world, "tools.why", json!({ "tool": "write", "pattern": "a.txt", "session": session })).await;
    assert_eq!((&why["action"], &why["permission"], &why["agent"]), (&json!("deny"), &json!("edit"), &json!("build")));
    let tools = call(&world, "tools.list", json!({ "session": session })).await;
    let enter = tools["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "plan_enter").unwrap().clone();
    assert_eq!(enter["hidden"], true, "{enter}");
    assert!(enter["why"].as_str().unwrap().contains("permission mode"), "{enter}");
    let why = call(&world, "tools.why", json!({ "tool": "bash", "pattern": "ls | wc", "agent": "build" })).await;
    assert_eq!((&why["action"], why["parts"].as_array().unwrap().len()), (&json!("allow"), 2), "{why}");
    let both = json!({ "session": session, "agent": "build" });
    assert_eq!(refused(&world, "tools.list", both).await, "invalid_input");
    assert_eq!(refused(&world, "tools.list", json!({ "agent": "nobody" })).await, "not_found");
}
