//! Rules as a person meets them: why something is decided, questions and their answers, and what "always" leaves behind.

use crate::jobs::wait_for;
use crate::{Done, World};
use proto::{Action, Rule, SessionId};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;
use store::Store;
use store::sqlite::Sqlite;
use testkit::{FakeModel, Reply};

/// A model that runs one command and says what came of it.
fn runs(command: &'static str) -> World {
    World::with(FakeModel::scripted(move |received| match received.step() {
        0 => Reply::calls([("bash", json!({ "command": command }))]),
        _ => Reply::text(received.last("tool").unwrap_or_default()),
    }))
}

pub(crate) fn permit(world: &World, rules: Value) {
    let text = std::fs::read_to_string(world.home.config_file()).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["permission"] = rules;
    std::fs::write(world.home.config_file(), serde_json::to_string_pretty(&config).unwrap()).unwrap();
}

fn line_of(world: &World, what: &str) -> usize {
    let text = std::fs::read_to_string(world.home.config_file()).unwrap();
    text.lines().position(|line| line.contains(what)).unwrap() + 1
}

#[test]
fn what_may_be_denied_is_not_allowed_where_nobody_is_asked() {
    let allows_most = json!({ "bash": { "*": "allow", "rm *": "deny" } });
    for how in [["--permission-mode", "auto"], ["--ask", "allow"]] {
        let world = runs("eval rm victim");
        permit(&world, allows_most.clone());
        std::fs::write(world.repo.path().join("victim"), "").unwrap();
        let done = world.convoke(["run", how[0], how[1], "remove it"]).code(0);
        assert!(world.repo.path().join("victim").exists(), "{how:?}: {done:#?}");
    }
    let world = runs("eval touch made");
    permit(&world, json!({ "bash": "ask" }));
    world.convoke(["run", "--ask", "allow", "make it"]).code(0);
    assert!(world.repo.path().join("made").exists());
}

#[test]
fn why_names_the_rule_its_file_and_its_line() {
    let world = World::new();
    permit(&world, json!({ "bash": { "*": "ask", "git *": "allow", "git push*": "deny" } }));
    let said = world.convoke(["why", "bash", "git push --force", "--json"]).code(0).json();
    assert_eq!(said["action"], "deny", "{said}");
    assert_eq!(said["rule"], json!({ "permission": "bash", "pattern": "git push*", "action": "deny" }));
    assert_eq!(said["origin"]["layer"], "user");
    assert_eq!(said["origin"]["line"], line_of(&world, "git push*"));
    assert_eq!(said["origin"]["file"], world.home.config_file().display().to_string());
    let said = world.convoke(["why", "bash", "git log | wc -l && git -C sub push > out", "--json"]).code(0).json();
    let parts: Vec<(&str, &str)> = said["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| (part["action"].as_str().unwrap(), part["pattern"].as_str().unwrap()))
        .collect();
    let found = |action, pattern| parts.contains(&(action, pattern));
    assert!(found("allow", "git log") && found("ask", "wc -l") && found("deny", "git -C sub push"), "{parts:?}");
    assert_eq!(said["action"], "deny");
    let said = world.convoke(["why", "bash", "eval $X", "--json"]).code(0).json();
    assert_eq!((&said["action"], &said["parts"][1]["rule"]["pattern"]), (&json!("ask"), &json!("git push*")), "{said}");
    let said = world.convoke(["why", "write", "a.txt", "--agent", "explore", "--json"]).code(0).json();
    assert_eq!((&said["action"], &said["origin"]["layer"]), (&json!("deny"), &json!("builtin")), "{said}");
    let words = world.convoke(["why", "bash", "git push"]).code(0).stdout;
    assert!(words.starts_with("deny") && words.contains(&format!(":{}", line_of(&world, "git push*"))), "{words}");
    world.convoke(["why", "bash", "ls", "--agent", "nobody"]).code(2).says("no agent");
}

#[test]
fn why_tells_of_the_leave_that_a_path_outside_needs() {
    let world = World::new();
    permit(&world, json!({ "*": "allow", "external_directory": { "*": "ask", "/usr/*": "allow" } }));
    for (tool, pattern, action, outside) in [
        ("bash", "cat src/claims.rs", "allow", None),
        ("bash", "cat /etc/hostname", "ask", Some("/etc/*")),
        ("bash", "ls > /etc/list", "ask", Some("/etc/*")),
        ("bash", "ls /usr/share", "allow", Some("/usr/share/*")),
        ("edit", "/etc/hostname", "ask", Some("/etc/*")),
        ("read", "../../../../../../../../etc/hostname", "ask", Some("/etc/*")),
        ("read", "src/claims.rs", "allow", None),
    ] {
        let said = world.convoke(["why", tool, pattern, "--json"]).code(0).json();
        assert_eq!(said["action"], action, "{tool} {pattern}: {said}");
        let parts = said["parts"].as_array().cloned().unwrap_or_default();
        let elsewhere = parts.iter().find(|part| part["permission"] == "external_directory");
        assert_eq!(elsewhere.map(|part| part["pattern"].as_str().unwrap()), outside, "{tool} {pattern}: {said}");
        if action == "ask" {
            assert_eq!(said["rule"]["permission"], "external_directory", "{tool} {pattern}: {said}");
            assert!(said["reason"].as_str().unwrap().contains("external_directory"), "{tool} {pattern}: {said}");
        }
    }
}

#[test]
fn why_sees_a_path_as_where_it_leads_and_knows_its_names() {
    let world = World::new();
    permit(&world, json!({ "read": { "*": "allow", "src/*": "deny" } }));
    std::os::unix::fs::symlink("src", world.repo.path().join("link")).unwrap();
    let whole = world.repo.path().join("src/claims.rs").display().to_string();
    for path in ["src/claims.rs", "./src/claims.rs", "none/../src/claims.rs", "link/claims.rs", &whole] {
        let said = world.convoke(["why", "read", path, "--json"]).code(0).json();
        assert_eq!((&said["action"], &said["pattern"]), (&json!("deny"), &json!("src/claims.rs")), "{path}: {said}");
    }
    let said = world.convoke(["why", "webfetch", "http://localhost:3/", "--json"]).code(0).json();
    assert_eq!((&said["action"], &said["rule"]["permission"]), (&json!("deny"), &json!("private_network")), "{said}");
    let said = world.convoke(["why", "edit", "src/claims.rs", "--json"]).code(0).json();
    assert_eq!((&said["action"], &said["rule"]["permission"]), (&json!("deny"), &json!("read")), "{said}");
    world.convoke(["why", "raed", "x"]).code(2).says("did you mean `read`");
}

#[test]
fn an_answer_of_always_holds_in_the_project_until_it_is_taken_back() {
    let world = runs("ls > listed.txt");
    permit(&world, json!({ "bash": "ask", "edit": "ask" }));
    let session = world.convoke(["run", "--json", "list them"]).code(0).lines()[0]["sessionId"].clone();
    let session = session.as_str().unwrap().to_owned();
    assert!(!world.repo.path().join("listed.txt").exists());

    let run = waits_for_an_answer(&world, &session);
    let answered = world.convoke(["approve", "always", "--json"]).code(0).json();
    assert_eq!(answered["reply"], "always");
    world.convoke(["wait", &run]).code(0);
    assert!(world.repo.read("listed.txt").contains("listed.txt"));

    // It holds for others, and after the gateway is gone.
    world.convoke(["stop"]).code(0);
    std::fs::remove_file(world.repo.path().join("listed.txt")).unwrap();
    world.convoke(["run", "again"]).code(0);
    assert!(world.repo.path().join("listed.txt").exists());
    let said = world.convoke(["why", "bash", "ls", "--json"]).code(0).json();
    assert_eq!((&said["action"], &said["origin"]["layer"]), (&json!("allow"), &json!("always")), "{said}");

    let saved = world.convoke(["permissions", "list", "--json"]).code(0).json();
    let saved = saved["saved"].as_array().unwrap().clone();
    let shown: Vec<(&Value, &Value)> = saved.iter().map(|one| (&one["permission"], &one["pattern"])).collect();
    assert_eq!(shown, [(&json!("bash"), &json!("ls *")), (&json!("edit"), &json!("listed.txt"))]);
    for one in &saved {
        world.convoke(["permissions", "revoke", one["id"].as_str().unwrap()]).code(0);
    }
    world.convoke(["permissions", "revoke", "nothing"]).code(2).says("`nothing`");
    std::fs::remove_file(world.repo.path().join("listed.txt")).unwrap();
    world.convoke(["run", "once more"]).code(0);
    assert!(!world.repo.path().join("listed.txt").exists(), "it is asked again, and nobody is there");
}

#[test]
fn an_answer_of_always_that_a_kill_meets_is_kept_once_and_obeyed_once() {
    for written in [false, true] {
        let world = runs("echo made >> made.txt");
        permit(&world, json!({ "bash": "ask" }));
        let session = world.convoke(["run", "--json", "make it"]).code(0).lines()[0]["sessionId"].clone();
        let run = waits_for_an_answer(&world, session.as_str().unwrap());
        let ask = world.convoke(["approve", "--json"]).code(0).json()["asks"][0].clone();
        let paths = config::Paths::under(world.home.path());
        // Who answers is obeyed once this file can be written, and that is not before the kill.
        let lock = File::create(paths.always().with_extension("lock")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let mut approve = world.start(["approve", "always"]);
        wait_for("the answer", || unread(&paths, session.as_str().unwrap()));
        approve.kill().unwrap();
        approve.wait().unwrap();
        kill_process(world.gateway_pid(), Signal::KILL).unwrap();
        drop(lock);
        if written {
            // The kill came after the file, and before the commit that takes the answer.
            let pattern = |pattern: &Value| Rule::new("bash", pattern.as_str().unwrap(), Action::Allow);
            let rules: Vec<Rule> = ask["always"].as_array().unwrap().iter().map(pattern).collect();
            config::keep_always(&paths, &world.repo.path().canonicalize().unwrap(), &rules).unwrap();
        }
        world.convoke(["wait", &run]).code(0);
        assert_eq!(world.repo.read("made.txt"), "made\n", "written: {written}");
        let kept = config::always(&paths);
        assert_eq!(kept.iter().map(|one| one.pattern.as_str()).collect::<Vec<_>>(), ["echo *"], "written: {written}");
        world.convoke(["run", "again"]).code(0);
        assert_eq!(world.repo.read("made.txt"), "made\nmade\n", "nobody is asked any more");
    }
}

/// Whether a session has a letter that it did not obey yet.
fn unread(paths: &config::Paths, session: &str) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = Sqlite::open_read(&paths.state).unwrap();
    let row = runtime.block_on(store.session(&SessionId::parse(session).unwrap())).unwrap().unwrap();
    row.pending > 0
}

/// Sends a prompt whose command is asked about, and waits until it is. Returns the run.
fn waits_for_an_answer(world: &World, session: &str) -> String {
    let sent = world.convoke(["send", session, "please", "--json"]).code(0).json();
    for _ in 0..500 {
        let asks = world.convoke(["approve", "--json"]).code(0).json();
        if !asks["asks"].as_array().unwrap().is_empty() {
            return sent["runId"].as_str().expect("a run").to_owned();
        }
    }
    panic!("nothing is asked: {sent}");
}

#[test]
fn a_rejection_reaches_the_model_with_its_reason() {
    let world = runs("ls");
    permit(&world, json!({ "bash": "ask" }));
    world.convoke(["approve", "once"]).code(2).says("nothing is asked");
    let session = world.convoke(["run", "--json", "list them"]).code(0).lines()[0]["sessionId"].clone();
    let run = waits_for_an_answer(&world, session.as_str().unwrap());
    world.convoke(["approve", "perhaps"]).code(2).says("no answer");
    world.convoke(["approve", "ask_nothing", "once"]).code(2).says("no open question");
    world.convoke(["approve", "reject", "--message", "not on a Sunday"]).code(0);
    let waited = world.convoke(["wait", &run, "--json"]).code(0);
    assert!(waited.stdout.contains("not on a Sunday"), "{waited:#?}");
}

/// Runs the binary in a terminal of its own, types `answer` when it is asked, and returns all that was shown.
pub(crate) fn at_a_terminal(world: &World, answer: &str) -> String {
    let inner = world.command(["run", "list them"]);
    let mut command = world.home.command("script");
    let line = format!("'{}' run 'list them'", inner.get_program().to_str().unwrap());
    command.args(["-qefc", &line, "/dev/null"]).current_dir(world.repo.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script is there");
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (mut shown, mut typed, mut bytes) = (String::new(), false, [0; 4096]);
    while let Ok(count @ 1..) = screen.read(&mut bytes) {
        shown.push_str(&String::from_utf8_lossy(&bytes[..count]));
        if !typed && shown.contains("allow it?") {
            keys.write_all(answer.as_bytes()).unwrap();
            keys.flush().unwrap();
            typed = true;
        }
    }
    let status = child.wait().unwrap();
    assert!(status.success() && typed, "{shown}");
    shown
}

#[test]
fn whoever_sits_at_a_terminal_is_asked() {
    let world = runs("echo it was run");
    permit(&world, json!({ "bash": "ask" }));
    let shown = at_a_terminal(&world, "y\n");
    assert!(shown.contains("echo it was run") && shown.contains("exit code 0"), "{shown}");
    let shown = at_a_terminal(&world, "use a list\n");
    assert!(shown.contains("the answer was no: use a list"), "{shown}");
    at_a_terminal(&world, "a\n");
    let saved = world.convoke(["permissions", "list", "--json"]).code(0).json();
    assert_eq!(saved["saved"][0]["pattern"], "echo *", "{saved}");
    // Now nobody has to be asked.
    let done: Done = world.convoke(["run", "list them"]).code(0);
    assert!(done.stdout.contains("it was run"), "{done:#?}");
}

/// Long enough that every line that is cut would lose its end.
const HIDES: &str = "echo '0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 \
    0123456789 0123456789' && rm -rf the-end-of-it";

#[test]
fn nothing_of_what_is_asked_for_is_left_out() {
    let world = runs(HIDES);
    permit(&world, json!({ "bash": "ask" }));
    let shown = at_a_terminal(&world, "n\n");
    assert!(shown.contains("rm -rf the-end-of-it"), "{shown}");
    assert!(shown.contains("always, in this project: `echo") && shown.contains("`, `rm -rf the-end-of-it`"), "{shown}");
    let spawned = world.convoke(["spawn", "list them", "--json"]).code(0).json();
    let open = (0..500).find_map(|_| {
        let done = world.convoke(["approve"]).code(0);
        done.stdout.contains("ask_").then_some(done.stdout)
    });
    let open = open.unwrap_or_else(|| panic!("nothing is asked: {spawned}"));
    assert!(open.contains("rm -rf the-end-of-it") && open.contains("always, in its project: `echo"), "{open}");
}

#[test]
fn a_repository_made_inside_another_one_takes_none_of_its_rules_away() {
    let world = World::with(FakeModel::scripted(|received| match received.step() {
        0 => Reply::calls([
            ("read", json!({ "filePath": "secret" })),
            ("read", json!({ "filePath": "mine" })),
            ("bash", json!({ "command": "touch made" })),
            ("bash", json!({ "command": "cat secret" })),
        ]),
        _ => Reply::text("done"),
    }));
    permit(&world, json!({ "bash": "allow", "read": { "*": "allow", "sub/mine": "deny" } }));
    let (root, sub) = (world.repo.path(), world.repo.path().join("sub"));
    std::fs::create_dir_all(&sub).unwrap();
    for name in ["secret", "mine"] {
        std::fs::write(sub.join(name), "hunter2").unwrap();
    }
    let rules = json!({ "permission": { "bash": { "touch *": "deny" }, "read": { "sub/secret": "deny" } } });
    std::fs::write(root.join("convoke.jsonc"), rules.to_string()).unwrap();
    for dir in [root, &sub] {
        let git = std::process::Command::new("git").args(["init", "--quiet"]).current_dir(dir).status();
        assert!(git.unwrap().success());
    }
    let done = Done::of(world.command(["run", "--format", "json", "go"]).current_dir(&sub).output().unwrap()).code(0);
    assert!(!sub.join("made").exists() && !done.stdout.contains("hunter2"), "{done:#?}");
    let why = |dir: &std::path::Path, permission: &str, pattern: &str| {
        let asked = world.command(["why", permission, pattern, "--json"]).current_dir(dir).output().unwrap();
        Done::of(asked).code(0).json()["action"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!([why(&sub, "read", "secret"), why(&sub, "bash", "touch x")], ["deny", "deny"]);
    assert_eq!([why(&sub, "read", "other"), why(&sub, "bash", "ls")], ["allow", "allow"]);
    // What git knows as a part of the repository is a project by itself.
    let part = root.join("part");
    std::fs::create_dir(&part).unwrap();
    std::fs::create_dir_all(root.join(".git/modules/part")).unwrap();
    std::fs::write(part.join(".git"), "gitdir: ../.git/modules/part\n").unwrap();
    assert_eq!(why(&part, "bash", "touch x"), "allow");
}

#[test]
fn an_alias_of_a_denied_git_command_is_denied() {
    let world = World::new();
    permit(&world, json!({ "bash": { "*": "allow", "git push *": "deny" } }));
    let why = |line: &str| world.convoke(["why", "bash", line, "--json"]).code(0).json()["action"].clone();
    let git = |args: &[&str]| {
        let done = std::process::Command::new("git").args(args).current_dir(world.repo.path()).status();
        assert!(done.unwrap().success());
    };
    git(&["init", "--quiet"]);
    assert_eq!(why("git p"), "ask", "nobody knows what it is");
    git(&["config", "alias.p", "push --all"]);
    assert_eq!((why("git p"), why("make && git p origin")), (json!("deny"), json!("deny")));
}
