//! Agents are called by their names: in what is shown, and in what a command takes.

use crate::World;
use crate::company::until;
use crate::terminal::Terminal;
use serde_json::{Value, json};
use testkit::{FakeModel, Gate, Reply, RepoDir, TempHome};

/// Plays a lead that starts an agent called `writer` and waits for it; the id of the agent's session.
fn led(world: &World, label: &str) -> String {
    let launch = json!({
        "description": "a piece", "prompt": "write it", "subagent_type": "general", "name": "writer",
        "run_in_background": false,
    });
    world.model.push(Reply::calls([("agent", launch)]));
    world.model.push(Reply::calls([("list", json!({}))]));
    world.model.push(Reply::text("It is written."));
    world.model.push(Reply::text("Done."));
    let ran = world.convoke(["run", "--label", label, "lead the work"]).code(0);
    assert!(ran.stderr.contains("[writer] • list"), "the line says whose it is: {ran:#?}");
    let tree = world.convoke(["tree", label, "--json"]).code(0).json();
    let row = tree["sessions"].as_array().unwrap().iter().find(|row| row["name"] == "writer");
    row.unwrap_or_else(|| panic!("{tree}"))["sessionId"].as_str().unwrap().to_owned()
}

#[test]
fn an_agent_is_shown_and_reached_by_its_name_and_by_the_end_of_its_id() {
    let world = World::new();
    let id = led(&world, "book");
    let drawn = world.convoke(["tree"]).code(0).stdout;
    assert!(drawn.contains("└─ writer (general) done") && drawn.starts_with("book (build)"), "{drawn}");
    assert!(world.convoke(["ps"]).code(0).stdout.contains("writer"));
    let mail = world.convoke(["mail", "--json"]).code(0).json();
    let ends = |row: &Value| (row["fromName"].clone(), row["toName"].clone());
    assert_eq!(ends(&mail["messages"][0]), (json!("book"), json!("writer")), "{mail}");
    assert!(world.convoke(["mail"]).code(0).stdout.contains("book  writer"), "{mail}");

    let tail = &id[id.len() - 6..];
    for name in ["writer", "Writer", &format!("writer#{tail}"), tail, &format!("…{tail}"), &id] {
        let history = world.convoke(["history", name, "--json"]).code(0).json();
        assert_eq!(history["messages"].as_array().unwrap().last().unwrap()["content"], "It is written.", "{name}");
    }
    world.convoke(["history", &id[id.len() - 3..]]).code(2).says("no session");
    world.convoke(["history", "nobody"]).code(2).says("no session");
    world.model.push(Reply::text("Twice."));
    assert_eq!(world.convoke(["send", "writer", "again", "--wait", "60"]).code(0).stdout, "Twice.\n");
    world.convoke(["kill", "writer"]).code(0).says("nothing to stop");
    // In one tree, the name is enough.
    let peers = world.convoke(["peers", "writer", "--json"]).code(0).json();
    assert!(peers["peers"].to_string().contains("\"book\""), "{peers}");
}

#[test]
fn a_name_of_two_trees_is_ambiguous_and_the_hint_tells_them_apart() {
    let world = World::new();
    let (first, second) = (led(&world, "one"), led(&world, "two"));
    let refused = world.convoke(["history", "writer"]).code(2).says("`writer` means several sessions");
    assert!(refused.stderr.contains(&first) && refused.stderr.contains(&second), "{refused:#?}");
    world.convoke(["send", "writer", "hello"]).code(2).says("several sessions");
    world.convoke(["kill", "writer"]).code(2).says("several sessions");
    world.convoke(["attach", "writer"]).code(2).says("several sessions");
    world.convoke(["history", &first[first.len() - 8..]]).code(0);
}

#[test]
fn history_says_who_spoke() {
    let world = World::new();
    led(&world, "book");
    world.model.push(Reply::text("Twice."));
    world.convoke(["send", "writer", "again", "--wait", "60"]).code(0);
    let senders = |reference: &str| {
        let history = world.convoke(["history", reference, "--json"]).code(0).json();
        let messages = history["messages"].as_array().unwrap().clone();
        messages.iter().map(|message| message["sender"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(senders("writer"), ["parent", "writer", "person", "writer"]);
    assert_eq!(senders("book"), ["person", "build"]);
    let told = world.convoke(["history", "writer"]).code(0).stdout;
    for who in ["parent (1)\nwrite it", "writer (", "you ("] {
        assert!(told.contains(who), "{who}: {told}");
    }
}

#[test]
fn sessions_are_listed_with_what_tells_them_apart() {
    let world = World::new();
    let id = led(&world, "book");
    let count = |filter: &[&str]| {
        let listed = world.convoke([&["ps", "--json"], filter].concat()).code(0).json();
        listed["count"].as_u64().unwrap()
    };
    for (filter, expected) in [
        (&[][..], 2),
        (&["--name", "writer"], 1),
        (&["--label", "book"], 1),
        (&["--agent", "general"], 1),
        (&["--status", "done,failed"], 1),
        (&["--busy"], 0),
        (&["--active", "1h"], 2),
        (&["--here"], 2),
        (&["--dir", "/"], 2),
        (&["--dir", "/nowhere"], 0),
        (&["--children-of", "book"], 1),
    ] {
        assert_eq!(count(filter), expected, "{filter:?}");
    }
    world.convoke(["ps", "--status", "tired"]).code(2).says("use one of: ");
    let row = world.convoke(["ps", "--name", "writer", "--json"]).code(0).json()["sessions"][0].clone();
    let short = row["shortId"].as_str().unwrap();
    assert!(id.ends_with(short) && short.len() >= 6 && row["createdAt"].is_i64(), "{row}");
    assert_eq!((&row["systemSent"], &row["abortedLastRun"]), (&json!(true), &json!(false)), "{row}");
    assert_eq!((&row["sendPolicy"], &row["label"]), (&json!("allow"), &Value::Null), "{row}");
    let shown = world.convoke(["ps"]).code(0).stdout;
    for words in ["SESSION", "NAME", "LABEL", "AGE", "DIRECTORY", short, "book", "writer"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(!shown.contains(&id), "{shown}");
    world.convoke(["history", short]).code(0);
}

#[test]
fn a_session_is_removed_with_its_descendants_and_gives_its_label_back() {
    let world = World::new();
    let id = led(&world, "book");
    world.convoke(["rm", "book", "nobody"]).code(2).says("no session `nobody`");
    let gone = world.convoke(["rm", "book", "--json"]).code(0).json();
    assert_eq!(gone["removed"][0]["sessions"].as_array().unwrap().len(), 2, "{gone}");
    assert_eq!(world.convoke(["ps", "--json"]).code(0).json()["count"], 0);
    world.convoke(["history", "writer"]).code(2);
    world.convoke(["history", &id]).code(0);
    world.model.push(Reply::text("Anew."));
    world.convoke(["run", "--label", "book", "begin anew"]).code(0);
    world.convoke(["rm", "book"]).code(0).says("removed 1 session: book");

    let gate = Gate::new();
    world.model.push(Reply::text("Late.").gated(gate.clone()));
    let run = world.start(["run", "--label", "slow", "take your time"]);
    let busy = || world.convoke(["ps", "--busy", "--json"]).code(0).json()["count"] == 1;
    until(&world, "the run works", || busy().then_some(()));
    world.convoke(["rm", "slow"]).code(2).says("convoke kill");
    world.convoke(["rm", "slow", "--force"]).code(0).says("removed 1 session: slow");
    assert_eq!(world.convoke(["ps", "--json"]).code(0).json()["count"], 0);
    drop(run.wait_with_output().unwrap());
}

#[test]
fn an_agent_and_a_model_are_known_by_the_names_they_have_in_claude_code() {
    let model = FakeModel::start();
    let limits = json!({ "context": 200_000, "output": 8_000 });
    let models = json!({ "claude-sonnet-4": limits, "claude-sonnet-4-5": limits });
    let home = TempHome::new(&model).config_json(json!({ "provider": { "fake": { "models": models } } }));
    let world = World { model, home, repo: RepoDir::new() };
    let agents = world.repo.path().join(".claude/agents");
    std::fs::create_dir_all(&agents).unwrap();
    let file = "---\ndescription: helps\nmodel: haiku\npermissionMode: bypassPermissions\n---\nHelp.";
    std::fs::write(agents.join("helper.md"), file).unwrap();
    world.convoke(["trust"]).code(0);
    let launch = |model: &str, kind: &str| {
        let input = json!({
            "description": "a piece", "prompt": "do it", "subagent_type": kind, "model": model, "run_in_background": false,
        });
        Reply::calls([("agent", input)])
    };
    world.model.push(launch("sonnet", "general-purpose"));
    world.model.push(Reply::text("Done by sonnet."));
    world.model.push(launch("opus", "helper"));
    world.model.push(Reply::text("Done by what there is."));
    world.model.push(Reply::text("Done."));
    let ran = world.convoke(["run", "--label", "lead", "have it done"]).code(0);
    for words in ["helper.md:3", "no configured model fits `haiku`", "helper.md:4", "permissionMode: bypassPermissions"]
    {
        assert!(ran.stderr.contains(words), "{words}: {ran:#?}");
    }
    let asked: Vec<Value> = world.model.requests().iter().map(|request| request.body()["model"].clone()).collect();
    assert_eq!(asked, ["test", "claude-sonnet-4-5", "test", "test", "test"].map(|name| json!(name)));
    let history = world.convoke(["history", "lead", "--include-tools", "--json"]).code(0).json().to_string();
    assert!(history.contains("No configured model fits `opus`"), "{history}");
    let row = world.convoke(["ps", "--agent", "general", "--json"]).code(0).json()["sessions"][0].clone();
    assert_eq!(row["model"], "fake/claude-sonnet-4-5", "{row}");
}

#[test]
fn lists_fit_a_narrow_terminal_and_are_whole_in_a_pipe() {
    let world = World::new();
    let id = led(&world, "a-label-that-is-rather-long");
    for command in ["ps", "tree"] {
        let (shown, code) = Terminal::of_width(&world, 80, &[command]).end();
        assert_eq!(code, Some(0), "{shown}");
        let longest = shown.lines().map(|line| line.trim_end().chars().count()).max().unwrap();
        assert!(longest <= 80 && shown.contains('…'), "{longest}: {shown}");
        let piped = world.convoke([command]).code(0).stdout;
        assert!(piped.lines().any(|line| line.chars().count() > 80) && !piped.contains('…'), "{piped}");
    }
    let tail = &id[id.len() - 6..];
    assert!(Terminal::of_width(&world, 80, &["ps"]).end().0.contains(tail), "ids are not cut");
}
