//! Undo and redo as a person uses them, and what a crash leaves of them.

use crate::{Done, World};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use testkit::{FakeModel, Gate, Reply, RepoDir, TempHome};

/// One turn: these calls, each in a step of its own, then an answer.
fn turn(world: &World, prompt: &str, calls: &[(&str, Value)]) {
    calls.iter().for_each(|(tool, input)| world.model.push(Reply::calls([(*tool, input.clone())])));
    world.model.push(Reply::text(format!("answer to {prompt}")));
    world.convoke(["run", "-c", prompt]).code(0);
}

/// The first turn, which makes the session.
fn begin(world: &World, prompt: &str, calls: &[(&str, Value)]) {
    calls.iter().for_each(|(tool, input)| world.model.push(Reply::calls([(*tool, input.clone())])));
    world.model.push(Reply::text(format!("answer to {prompt}")));
    world.convoke(["run", prompt]).code(0);
}

fn edit(path: &str, old: &str, new: &str) -> (&'static str, Value) {
    ("edit", json!({ "filePath": path, "oldString": old, "newString": new }))
}

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("write", json!({ "filePath": path, "content": content }))
}

/// What became of files, by name.
fn files(done: &Value) -> Vec<(String, String)> {
    let named = |file: &Value| {
        let path = Path::new(file["path"].as_str().unwrap());
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, file["state"].as_str().unwrap().to_owned())
    };
    let mut files: Vec<_> = done["files"].as_array().unwrap().iter().map(named).collect();
    files.sort_unstable();
    files
}

#[track_caller]
fn check(done: &Value, expected: &[(&str, &str)]) {
    let expected: Vec<_> = expected.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect();
    assert_eq!(files(done), expected, "{done:#}");
}

fn said(world: &World, session: &str) -> Vec<String> {
    let page = world.convoke(["history", session, "--json"]).code(0).json();
    let words = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    page["messages"].as_array().unwrap().iter().map(words).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn what_every_file_tool_did_is_taken_back_and_comes_back() {
    let world = World::new();
    let at = |name: &str| world.repo.path().join(name);
    world.repo.write("crlf.txt", "one\r\ntwo\r\n");
    world.repo.write("run.sh", "#!/bin/sh\n");
    world.repo.write("gone.txt", "gone\n");
    world.repo.write("here.txt", "a\nb\n");
    fs::set_permissions(at("run.sh"), Permissions::from_mode(0o750)).unwrap();
    fs::set_permissions(at("gone.txt"), Permissions::from_mode(0o600)).unwrap();
    let patch = "*** Begin Patch\n*** Add File: added.txt\n+new\n*** Delete File: gone.txt\n*** Update File: run.sh\n \
                 #!/bin/sh\n+exit\n*** Update File: here.txt\n*** Move to: there/here.txt\n-a\n+A\n*** End Patch\n";
    let calls = [
        write("deep/made.txt", "made\n"),
        edit("crlf.txt", "two", "2"),
        ("apply_patch", json!({ "patch": patch })),
        ("bash", json!({ "command": "echo by hand" })),
    ];
    begin(&world, "work", &calls);
    assert_eq!(world.repo.read("there/here.txt"), "A\nb\n");
    let done = world.convoke(["undo", "--json"]).code(0).json();
    let undone = [
        ("added.txt", "removed"),
        ("crlf.txt", "restored"),
        ("gone.txt", "recreated"),
        ("here.txt", "recreated"),
        ("here.txt", "removed"),
        ("made.txt", "removed"),
        ("run.sh", "restored"),
    ];
    check(&done, &undone);
    assert_eq!((&done["to"], &done["conversation"]), (&json!(0), &json!({ "removed": 6 })), "{done:#}");
    assert_eq!(done["notUndone"][0]["tool"], "bash");
    assert_eq!(done["notUndone"][0]["input"]["command"], "echo by hand");
    assert!(done["sessionId"].as_str().unwrap().starts_with("ses_"));
    assert_eq!(
        (world.repo.read("crlf.txt"), world.repo.read("run.sh")),
        ("one\r\ntwo\r\n".into(), "#!/bin/sh\n".into())
    );
    assert_eq!((world.repo.read("here.txt"), world.repo.read("gone.txt")), ("a\nb\n".into(), "gone\n".into()));
    assert_eq!((mode(&at("run.sh")), mode(&at("gone.txt"))), (0o750, 0o600));
    assert!(["added.txt", "deep", "there"].iter().all(|name| !at(name).exists()));
    let done = world.convoke(["redo", "--json"]).code(0).json();
    assert_eq!((files(&done).len(), &done["conversation"]), (7, &json!({ "restored": 6 })), "{done:#}");
    assert_eq!(
        (world.repo.read("there/here.txt"), world.repo.read("crlf.txt")),
        ("A\nb\n".into(), "one\r\n2\r\n".into())
    );
    assert!(!at("gone.txt").exists() && !at("here.txt").exists());
    assert_eq!(mode(&at("run.sh")), 0o750);
}

#[test]
fn what_a_person_changed_since_stays_and_what_meets_is_left() {
    let world = World::new();
    world.repo.write("apart.txt", "1\n2\n3\n4\n5\n");
    world.repo.write("same.txt", "old\n");
    world.repo.write("link.txt", "old\n");
    begin(
        &world,
        "work",
        &[edit("apart.txt", "1", "one"), edit("same.txt", "old", "new"), edit("link.txt", "old", "new")],
    );
    world.repo.write("apart.txt", "one\n2\n3\n4\nfive\n");
    world.repo.write("same.txt", "newer\n");
    let outside = RepoDir::empty();
    outside.write("secret", "new\n");
    fs::remove_file(world.repo.path().join("link.txt")).unwrap();
    symlink(outside.path().join("secret"), world.repo.path().join("link.txt")).unwrap();
    let done = world.convoke(["undo"]).code(0);
    assert!(done.stdout.contains("merged    apart.txt\n"), "{done:#?}");
    assert!(done.stdout.contains("conflict  same.txt: the same lines were changed since\n"), "{done:#?}");
    assert!(done.stdout.contains("skipped   link.txt: its path leads to"), "{done:#?}");
    assert_eq!(world.repo.read("apart.txt"), "1\n2\n3\n4\nfive\n");
    assert_eq!((world.repo.read("same.txt"), outside.read("secret")), ("newer\n".into(), "new\n".into()));
    check(&world.convoke(["redo", "--json"]).code(0).json(), &[("apart.txt", "restored")]);
    assert_eq!(world.repo.read("apart.txt"), "one\n2\n3\n4\nfive\n");
}

#[test]
fn parts_of_it_places_in_it_and_more_than_one_of_it() {
    let world = World::new();
    begin(&world, "first", &[write("a.txt", "1\n")]);
    turn(&world, "second", &[edit("a.txt", "1", "2")]);
    turn(&world, "third", &[edit("a.txt", "2", "3")]);
    let all = ["first", "answer to first", "second", "answer to second", "third", "answer to third"];
    let ps = world.convoke(["ps", "--json"]).code(0).json();
    let session = ps["sessions"][0]["sessionId"].as_str().unwrap().to_owned();
    let undo = |args: &[&str]| world.convoke([&["undo", &session, "--json"], args].concat()).code(0).json();
    let redo = |args: &[&str]| world.convoke([&["redo", &session, "--json"], args].concat()).code(0).json();

    let done = undo(&["--files"]);
    assert_eq!(done["conversation"], Value::Null);
    assert_eq!((world.repo.read("a.txt").as_str(), said(&world, &session)), ("2\n", all.map(str::to_owned).to_vec()));
    redo(&[]);
    assert_eq!(world.repo.read("a.txt"), "3\n");

    let done = undo(&["--conversation"]);
    assert_eq!((files(&done), &done["conversation"]), (vec![], &json!({ "removed": 3 })));
    assert_eq!(
        (world.repo.read("a.txt").as_str(), said(&world, &session)),
        ("3\n", all[..4].iter().map(|s| (*s).to_owned()).collect())
    );
    redo(&["--both"]);

    undo(&[]);
    world.convoke(["stop"]).code(0);
    undo(&[]);
    assert_eq!((world.repo.read("a.txt").as_str(), said(&world, &session).len()), ("1\n", 2), "after a restart too");
    redo(&[]);
    redo(&[]);
    assert_eq!((world.repo.read("a.txt").as_str(), said(&world, &session).len()), ("3\n", 6));

    let page = world.convoke(["history", &session, "--json", "--include-tools"]).code(0).json();
    let seq = |words: &str| {
        page["messages"].as_array().unwrap().iter().find(|m| m["content"] == words).unwrap()["seq"].to_string()
    };
    check(&undo(&["--to", &seq("answer to first")]), &[("a.txt", "restored")]);
    assert_eq!((world.repo.read("a.txt").as_str(), said(&world, &session).len()), ("1\n", 2));
    turn(&world, "other", &[]);
    world.convoke(["redo", &session]).code(2).says("something was said since");
    world.convoke(["undo", &session, "--to", &seq("second")]).code(2).says("was undone before");
    world.convoke(["undo", &session, "--to", "1000"]).code(2).says("the log ends with");
    world.convoke(["undo", "nobody"]).code(2).says("there is no session `nobody`");
    world.convoke(["undo", "--files", "--conversation"]).code(2);
    let sent = world.model.last().unwrap().body().to_string();
    assert!(sent.contains("answer to first") && !sent.contains("answer to second"), "{sent}");
}

#[test]
fn a_session_that_is_busy_is_left_alone() {
    let world = World::new();
    begin(&world, "first", &[write("a.txt", "1\n")]);
    let gate = Gate::new();
    world.model.push(Reply::text("late").gated(gate.clone()));
    let child = world.start(["run", "-c", "wait"]);
    world.model.wait_for_blocking(3);
    world.convoke(["undo"]).code(2).says("is busy").says("convoke kill");
    gate.open();
    Done::of(child.wait_with_output().unwrap()).code(0);
    assert_eq!(world.repo.read("a.txt"), "1\n");
    world.convoke(["undo", "--to", "0"]).code(0);
    assert!(!world.repo.path().join("a.txt").exists());
}

/// The file is changed, the call's end is not written down yet.
#[test]
fn a_change_whose_call_was_killed_before_its_end_was_kept_can_be_undone() {
    let model = FakeModel::start();
    let hook = "echo > changed; read -r nothing < never";
    let home =
        TempHome::new(&model).config_json(json!({ "hooks": { "tool.after": { "command": hook, "match": "edit" } } }));
    let world = World { model, home, repo: RepoDir::new() };
    world.repo.write("a.txt", "old\n");
    // Somebody reads the one, and nobody ever writes to the other.
    let pipe = |name: &str| {
        let path = world.repo.path().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
        path
    };
    let (changed, _never) = (pipe("changed"), pipe("never"));
    world.model.push(Reply::calls([edit("a.txt", "old", "new")]));
    world.model.push(Reply::text("I see"));
    let child = world.start(["run", "--json", "change it"]);
    assert_eq!(fs::read_to_string(changed).unwrap(), "\n");
    assert_eq!(world.repo.read("a.txt"), "new\n");
    kill_process(world.gateway_pid(), Signal::KILL).unwrap();
    let done = Done::of(child.wait_with_output().unwrap()).code(0);
    assert!(done.lines().iter().any(|line| line["entry"]["state"] == "interrupted"), "{done:#?}");
    check(&world.convoke(["undo", "--json"]).code(0).json(), &[("a.txt", "restored")]);
    assert_eq!(world.repo.read("a.txt"), "old\n");
}

/// Killed at whatever moment that is, after the first file was put back.
#[test]
fn an_undo_that_a_kill_cuts_off_comes_to_its_end_once() {
    const FILES: usize = 60;
    let world = World::new();
    let name = |n: usize| format!("f{n:02}.txt");
    let mut patch = String::from("*** Begin Patch\n");
    for n in 0..FILES {
        world.repo.write(&name(n), &format!("old {n}\nsame\n"));
        patch.push_str(&format!("*** Update File: {}\n-old {n}\n+new {n}\n", name(n)));
    }
    patch.push_str("*** End Patch\n");
    begin(&world, "hello", &[]);
    turn(&world, "change all", &[("apply_patch", json!({ "patch": patch }))]);
    world.repo.write(&name(0), "new 0\nsame\nmine\n");
    let child = world.start(["undo", "--json"]);
    while world.repo.read(&name(1)).starts_with("new") {
        std::thread::yield_now();
    }
    kill_process(world.gateway_pid(), Signal::KILL).unwrap();
    let done = Done::of(child.wait_with_output().unwrap()).code(0).json();
    assert_eq!(files(&done).len(), FILES, "{done:#}");
    assert_eq!(files(&done)[0], (name(0), "merged".to_owned()));
    assert!(files(&done)[1..].iter().all(|(_, state)| state == "restored"), "{done:#}");
    assert_eq!(world.repo.read(&name(0)), "old 0\nsame\nmine\n");
    assert!((1..FILES).all(|n| world.repo.read(&name(n)) == format!("old {n}\nsame\n")));
    let session = done["sessionId"].as_str().unwrap();
    assert_eq!(said(&world, session), ["hello", "answer to hello"]);
    assert_eq!(files(&world.convoke(["redo", "--json"]).code(0).json()).len(), FILES);
    assert_eq!(world.repo.read(&name(0)), "new 0\nsame\nmine\n");
    assert_eq!(said(&world, session).len(), 4);
}

#[test]
fn there_is_nothing_to_undo_where_nothing_was_done() {
    let world = World::new();
    world.convoke(["undo"]).code(2).says("no session");
    world.convoke(["redo"]).code(2).says("no session");
    begin(&world, "hello", &[]);
    world.convoke(["redo"]).code(2).says("there is nothing to redo");
    let done = world.convoke(["undo"]).code(0);
    assert_eq!(done.stdout, "no files to put back\nundone: 2 messages after entry 0\n");
    world.convoke(["undo"]).code(2).says("there is nothing to undo");
}
