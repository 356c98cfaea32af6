//! What leaves the program: nothing that steers a terminal, and no success when it could not be written.

use crate::{CONVOKE, Done, World};
use serde_json::json;
use std::fs::{self, File};
use std::process::{Command, Stdio};
use testkit::{FakeModel, Reply, RepoDir, TempHome};

/// Escapes, a title, a carriage return, backspaces, C1, the other direction, no width, and tags.
const FOREIGN: &str =
    "A\x1b[2JB\x1b]0;T\x07C\rD\x08E\x7fF\u{9b}1mG\u{202e}H\u{2066}I\u{200b}J\u{200f}K\u{61c}L\u{e0041}M";

/// Nothing of [`FOREIGN`] that could do something, besides what a terminal adds itself and what we paint.
#[track_caller]
fn is_harmless(what: &str, output: &str) {
    let ours = ["\x1b[2m", "\x1b[1m", "\x1b[31m", "\x1b[0m", "\r\x1b[2K"]
        .iter()
        .fold(output.replace("\r\n", "\n"), |text, ours| text.replace(ours, ""));
    let bad = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{61c}' | '\u{e0000}'..='\u{e007f}')
    };
    assert_eq!(ours.chars().find(|c| bad(*c)), None, "{what}: {ours:?}");
}

/// Runs a command at a terminal; what is seen there.
fn at_terminal(world: &World, args: &[&str]) -> String {
    let quoted: Vec<String> = args.iter().map(|arg| format!("'{arg}'")).collect();
    let line = format!("'{CONVOKE}' {}", quoted.join(" "));
    let mut script = world.home.command("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(world.repo.path()).stdin(Stdio::null());
    String::from_utf8_lossy(&script.output().expect("script is there").stdout).into_owned()
}

/// A home in which everything that can have a name has a foreign one.
fn foreign() -> World {
    let model = FakeModel::scripted(|received| match received.step() {
        0 => Reply::calls([("bash", json!({ "command": format!("echo {FOREIGN}"), "description": FOREIGN }))]),
        1 => Reply::calls([(FOREIGN, json!({ FOREIGN: FOREIGN }))]),
        2 => Reply::calls([(
            "todowrite",
            json!({ "todos": [{ "content": FOREIGN, "status": "in_progress", "priority": "high" }] }),
        )]),
        3 => Reply::calls([("board_add", json!({ "title": FOREIGN, "description": FOREIGN }))]),
        _ => Reply::text(FOREIGN).thinking(FOREIGN),
    });
    let home = TempHome::new(&model).config_json(json!({ "permission": { "bash": "ask" } }));
    World { model, home, repo: RepoDir::new() }
}

#[test]
fn foreign_text_never_steers_a_terminal() {
    let world = foreign();
    let seen = at_terminal(&world, &["run", "--label", "one", "--ask", "allow", FOREIGN]);
    is_harmless("run", &seen);
    assert!(seen.contains("\\u{202e}H") && seen.contains("\\u{1b}[2J"), "shown, not dropped: {seen}");
    world.convoke(["board", "add", FOREIGN]);
    fs::create_dir_all(world.repo.path().join(".convoke/agents")).unwrap();
    let named = FOREIGN.replace('/', "");
    fs::write(world.repo.path().join(format!(".convoke/agents/{named}.md")), "---\ndescription: x\n---\nx").unwrap();
    fs::write(world.repo.path().join("convoke.jsonc"), json!({ "model": FOREIGN, FOREIGN: 1 }).to_string()).unwrap();
    for args in [
        &["ps"][..],
        &["tree", "one"],
        &["history", "one"],
        &["history", "--json", "one"],
        &["ps", "--json"],
        &["board"],
        &["peers"],
        &["mail"],
        &["agents"],
        &["tools"],
        &["models"],
        &["worktrees"],
        &["trust"],
        &["trust", "list"],
        &["config", "show"],
        &["config", "show", "--origin"],
        &["config", "show", "--json"],
        &["doctor"],
        &["permissions", "list"],
        &["approve"],
        &["why", "bash", FOREIGN],
        &["history", FOREIGN],
        &["run", "--agent", FOREIGN, "x"],
        &["run", "--model", FOREIGN, "x"],
        &["send", FOREIGN, "x"],
        &["kill", FOREIGN],
        &["config", "set", FOREIGN, "1"],
        &["undo", "one"],
        &["token", "revoke", FOREIGN],
        &["worktrees", "restore", FOREIGN],
    ] {
        is_harmless(&args.join(" "), &at_terminal(&world, args));
    }
}

#[test]
fn arguments_that_are_not_understood_never_steer_a_terminal() {
    let world = World::bare();
    let option = format!("--{FOREIGN}");
    for args in [
        &[FOREIGN][..],
        &["run", &option],
        &["run", "--permission-mode", FOREIGN, "x"],
        &["token", "add", "x", "--scope", FOREIGN],
        &["ps", FOREIGN],
    ] {
        let seen = at_terminal(&world, args);
        is_harmless(&args.join(" "), &seen);
        assert!(seen.contains("error:") && seen.contains("\\u{202e}H"), "shown, not dropped: {seen}");
        assert_eq!(world.convoke(args).code, Some(2), "{args:?}");
    }
}

#[test]
fn an_answer_that_goes_to_a_file_is_left_as_it_is() {
    let world = World::new();
    world.model.push(Reply::text(FOREIGN));
    let done = world.convoke(["run", "say it"]).code(0);
    assert_eq!(done.stdout, format!("{FOREIGN}\n"));
    is_harmless("stderr", &done.stderr);
    let json = world.convoke(["history", "--json", "main"]);
    is_harmless("json", &json.stdout);
}

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// A pipe whose reader has left.
fn closed() -> Stdio {
    let (read, write) = rustix::pipe::pipe().unwrap();
    drop(read);
    write.into()
}

fn into(command: &mut Command, stdout: Stdio) -> Done {
    Done::of(command.stdout(stdout).output().unwrap())
}

#[test]
fn what_cannot_be_written_is_an_error_and_a_closed_pipe_is_none() {
    let world = World::new();
    world.model.push(Reply::text("here"));
    let run = world.convoke(["spawn", "--json", "--label", "one", "hello"]).code(0).json();
    let run = run["runId"].as_str().unwrap().to_owned();
    world.convoke(["wait", &run]).code(0);
    for args in [
        &["--help"][..],
        &["--version"],
        &["run", "--help"],
        &["ps"],
        &["ps", "--json"],
        &["tree", "one"],
        &["history", "one"],
        &["wait", &run],
        &["wait", "--json", &run],
        &["agents"],
        &["tools"],
        &["models"],
        &["peers"],
        &["mail", "--json"],
        &["board", "--json"],
        &["hooks", "--json"],
        &["permissions", "list", "--json"],
        &["approve", "--json"],
        &["config", "show"],
        &["config", "show", "--json"],
        &["config", "schema"],
        &["trust", "list"],
        &["token", "list"],
        &["why", "bash", "ls"],
        &["completions", "bash"],
        &["doctor"],
        &["db", "check"],
        &["run", "hello"],
        &["run", "--json", "hello"],
        &["send", "one", "hello"],
        &["serve", "--json", "--no-tcp", "--idle-exit", "1ms"],
    ] {
        world.model.push(Reply::text("again"));
        // Two gateways have no room in one home.
        let apart = (args[0] == "serve").then(World::new);
        let world = apart.as_ref().unwrap_or(&world);
        let done = into(&mut world.command(args), full());
        assert!(done.code == Some(1) && done.stderr.contains("standard output"), "{args:?}: {done:#?}");
        let done = into(&mut world.command(args), closed());
        assert!(done.code == Some(0) && !done.stderr.contains("error"), "{args:?}: {done:#?}");
    }
}

#[test]
fn a_token_that_nobody_saw_does_not_exist() {
    let world = World::new();
    for (stdout, json) in [(full as fn() -> Stdio, false), (full, true), (closed, false), (closed, true)] {
        let mut command = world.command(["token", "add", "unseen"]);
        if json {
            command.arg("--json");
        }
        assert_eq!(into(&mut command, stdout()).code, Some(1));
        let list = world.convoke(["token", "list", "--json"]).code(0).json();
        assert!(!list.to_string().contains("unseen"), "{list}");
    }
    world.convoke(["token", "add", "unseen"]).code(0);
}

/// What becomes of the bytes of a file.
type Damage = fn(Vec<u8>) -> Vec<u8>;

#[test]
fn a_damaged_database_is_told_with_exit_code_1() {
    let damage: [(&str, Damage); 6] = [
        ("no header", |mut bytes| {
            bytes[..100].fill(b'x');
            bytes
        }),
        ("cut off", |bytes| bytes[..bytes.len() / 2].to_vec()),
        ("cut off in a page", |bytes| bytes[..bytes.len() / 2 + 100].to_vec()),
        ("empty", |_| Vec::new()),
        ("pages of nothing", |mut bytes| {
            let half = bytes.len() / 2;
            bytes[half..].fill(0);
            bytes
        }),
        ("noise after the first page", |mut bytes| {
            bytes[4096..].iter_mut().step_by(3).for_each(|byte| *byte ^= 0x5a);
            bytes
        }),
    ];
    for (what, damage) in damage {
        let world = World::new();
        world.model.push(Reply::text("here"));
        world.convoke(["run", "hello"]).code(0);
        world.convoke(["db", "check"]).code(0);
        world.convoke(["stop", "--force"]).code(0);
        let database = world.home.path().join("state/convoke.db");
        // Until it has left, what it holds is not all in the file.
        while world.home.path().join("state/convoke.db-wal").exists() {
            std::thread::yield_now();
        }
        fs::write(&database, damage(fs::read(&database).unwrap())).unwrap();
        let done = world.convoke(["db", "check"]).code(1);
        assert!(!done.stdout.trim().is_empty(), "{what}: {done:#?}");
        let json = world.convoke(["db", "check", "--json"]).code(1).json();
        assert_eq!(json["ok"], false, "{what}");
    }
}
