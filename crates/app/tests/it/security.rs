//! Security cases by their ids, with the real binary: a model that does whatever it is told to, so that only what stands
//! around it is tried.

use crate::World;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use testkit::{FakeModel, Received, Reply, RepoDir, TempHome};

/// A model that makes these calls, one a step, and then repeats what it was told last.
fn obeys(calls: Vec<(&'static str, Value)>) -> FakeModel {
    FakeModel::scripted(move |received| match calls.get(received.step()) {
        Some((tool, input)) => Reply::calls([(*tool, input.clone())]),
        None => Reply::text(received.last("tool").unwrap_or_default()),
    })
}

fn world(model: FakeModel, settings: Value) -> World {
    let home = TempHome::new(&model).config_json(settings);
    World { model, home, repo: RepoDir::new() }
}

/// What each call was told, in order.
fn told(world: &World) -> Vec<String> {
    let last = world.model.last().expect("the model was asked");
    last.lines().into_iter().filter(|line| line.role == "tool").map(|line| line.text).collect()
}

fn git(dir: &Path, words: &str) {
    let mut git = std::process::Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words.split(' ')).current_dir(dir);
    assert!(git.status().unwrap().success(), "git {words}");
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}

/// A server that answers every request with this page, and counts them.
fn serve(page: &'static str) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, count) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 4096]);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{page}",
                page.len()
            );
        }
    });
    (format!("http://{address}"), count)
}

#[test]
fn t23_a_proxy_of_the_environment_gets_nothing_to_see() {
    let ((page, asked), (proxy, passed)) = (serve("the page"), serve("the proxy"));
    let model =
        obeys(vec![("webfetch", json!({ "url": page })), ("webfetch", json!({ "url": "http://169.254.169.254/" }))]);
    let permission = json!({ "private_network": { "127.0.0.1": "allow" } });
    let world = world(model, json!({ "permission": permission }));
    let mut command = world.command(["run", "look it up"]);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env(name, &proxy);
    }
    crate::Done::of(command.output().unwrap()).code(0);
    let told = told(&world);
    assert!(told[0].contains("the page"), "{told:#?}");
    assert!(!told[1].contains("the proxy"), "{told:#?}");
    assert_eq!((asked.load(Ordering::SeqCst), passed.load(Ordering::SeqCst)), (1, 0));
}

#[test]
fn a_wildcard_for_private_hosts_covers_none_that_tells_machines_their_secrets() {
    for (how, extra) in
        [("allow", &[][..]), ("ask", &["--ask", "allow"][..]), ("ask", &["--permission-mode", "auto"][..])]
    {
        let (page, _) = serve("the page");
        let fetch = |url: &str| ("webfetch", json!({ "url": url, "timeout": 2 }));
        let hosts = [
            "http://169.254.169.254/latest/meta-data/",
            "http://[::ffff:169.254.169.254]/",
            "http://0xa9fea9fe/",
            "http://2852039166/",
            "http://[64:ff9b::a9fe:a9fe]/",
            "http://[fe80::1]/",
            "http://[fd00:ec2::254]/",
            "http://100.100.100.200/",
            "http://metadata.google.internal/",
            "http://METADATA.google.internal./",
        ];
        let model = obeys([fetch(&page)].into_iter().chain(hosts.iter().map(|url| fetch(url))).collect());
        let world = world(model, json!({ "permission": { "private_network": how } }));
        let words = ["run", "look it up"].iter().chain(extra).copied().collect::<Vec<_>>();
        crate::Done::of(world.command(words).output().unwrap()).code(0);
        let told = told(&world);
        assert!(told[0].contains("the page"), "{how} {extra:?}: {told:#?}");
        for (host, told) in hosts.iter().zip(&told[1..]) {
            assert!(told.contains("private_network"), "{how} {extra:?} {host}: {told}");
        }
    }
}

#[test]
fn a_repository_puts_no_file_into_a_prompt_that_may_not_be_read() {
    let world =
        world(obeys(Vec::new()), json!({ "permission": { "read": { "secrets/*": "deny", "secrets/key": "deny" } } }));
    let repo = &world.repo;
    git(repo.path(), "init --quiet");
    repo.write(".env", "TOKEN=hunter2\n");
    repo.write("secrets/key", "hunter2\n");
    repo.write("sub/other.env", "hunter2");
    fs::hard_link(repo.path().join("secrets/key"), repo.path().join("sub/CLAUDE.md")).unwrap();
    symlink(".env", repo.path().join("AGENTS.md")).unwrap();
    symlink("secrets", repo.path().join("folder")).unwrap();
    repo.write(
        "sub/convoke.json",
        r#"{ "instructions": ["../.env", "other.env", "../secrets/key", "../folder/key", "fine.md"],
             "agent": { "build": { "prompt": "BEGIN {file:../secrets/key} {file:../.env} {file:../folder/key} END" } } }"#,
    );
    repo.write("sub/fine.md", "this may be read");
    fs::create_dir_all(repo.path().join(".convoke/agents")).unwrap();
    symlink("../../secrets/key", repo.path().join(".convoke/agents/spy.md")).unwrap();
    let run = |words: &[&str]| {
        let mut command = world.command(words.iter().copied());
        crate::Done::of(command.current_dir(repo.path().join("sub")).output().unwrap())
    };
    for trusted in [false, true] {
        if trusted {
            run(&["trust"]).code(0);
        }
        let done = run(&["run", "hello"]).code(0);
        let sent = world.model.last().unwrap().body().to_string();
        assert!(sent.contains("this may be read") && sent.contains("BEGIN    END"), "{trusted}: {sent}");
        assert!(!sent.contains("hunter2"), "{trusted}: {sent}");
        for file in ["AGENTS.md", "CLAUDE.md", "../.env", "other.env", "../folder/key", "spy.md"] {
            assert!(done.stderr.contains(file), "{trusted}: {file} is named: {}", done.stderr);
        }
    }
}

/// A repository whose settings, which git does not know, deny one folder to be read and another to be changed.
fn anchored(model: FakeModel) -> World {
    let world = world(model, json!({ "permission": { "external_directory": "allow" } }));
    let repo = &world.repo;
    git(repo.path(), "init --quiet");
    repo.write("secrets/key", "hunter2\n");
    repo.write("locked/file", "as it was\n");
    repo.write("sub/file", "nothing\n");
    git(repo.path(), "add .");
    git(repo.path(), "commit --quiet -m all");
    repo.write(
        "convoke.json",
        r#"{ "permission": { "read": { "secrets/*": "deny" }, "edit": { "locked/*": "deny" } } }"#,
    );
    world
}

/// Everything an agent may try to get at what those settings deny, seen from a directory.
fn tries(root: &Path, up: &str) -> Vec<(&'static str, Value)> {
    let all = root.display().to_string();
    let mut calls = Vec::new();
    for at in [up.to_owned(), format!("{all}/")] {
        calls.push(("read", json!({ "filePath": format!("{at}secrets/key") })));
        calls.push(("grep", json!({ "pattern": "hunter", "path": format!("{at}secrets") })));
        calls.push(("grep", json!({ "pattern": "hunter", "path": if at.is_empty() { "." } else { at.as_str() } })));
        calls.push(("bash", json!({ "command": format!("cat {at}secrets/key") })));
        calls.push(("write", json!({ "filePath": format!("{at}locked/file"), "content": "changed" })));
        calls.push(("write", json!({ "filePath": format!("{at}locked/new"), "content": "changed" })));
        calls.push(("edit", json!({ "filePath": format!("{at}locked/file"), "oldString": "was", "newString": "is" })));
        calls.push(("bash", json!({ "command": format!("echo changed > {at}locked/file; echo x > {at}locked/new") })));
    }
    calls
}

#[track_caller]
fn nothing_was_got(world: &World, trees: &[&Path]) {
    let requests = world.model.requests();
    assert!(requests.iter().any(|request| request.body().to_string().contains("secrets/key")), "it was tried");
    for request in requests {
        let results = request.lines().into_iter().filter(|line| line.role == "tool").map(|line| line.text);
        let leaked: Vec<String> = results.filter(|text| text.contains("hunter2")).collect();
        assert!(leaked.is_empty(), "{leaked:#?}");
    }
    for tree in trees {
        assert_eq!(fs::read_to_string(tree.join("locked/file")).unwrap(), "as it was\n", "{}", tree.display());
        assert!(!tree.join("locked/new").exists(), "{}", tree.display());
    }
}

#[test]
fn a_repository_that_is_made_inside_takes_no_rule_away() {
    let calls: Arc<std::sync::OnceLock<Vec<(&str, Value)>>> = Arc::default();
    let script = calls.clone();
    let world = anchored(FakeModel::scripted(move |received| match received.last("user") {
        Some(text) if text.contains("go on") => match script.get().and_then(|calls| calls.get(received.step())) {
            Some((tool, input)) => Reply::calls([(*tool, input.clone())]),
            None => Reply::text("done"),
        },
        _ => Reply::text("hello"),
    }));
    let root = world.repo.path().canonicalize().unwrap();
    calls.set(tries(&root, "../")).unwrap();
    let sub = root.join("sub");
    let run =
        |words: &[&str]| crate::Done::of(world.command(words.iter().copied()).current_dir(&sub).output().unwrap());
    run(&["run", "--label", "it", "hello"]).code(0);
    git(&sub, "init --quiet");
    run(&["send", "it", "go on", "--wait", "60"]).code(0);
    nothing_was_got(&world, &[&root]);
}

#[test]
fn a_child_elsewhere_is_held_to_the_rules_of_the_project_it_was_started_in() {
    let calls: Arc<std::sync::OnceLock<Vec<(&str, Value)>>> = Arc::default();
    let script = calls.clone();
    let world = anchored(FakeModel::scripted(move |received| {
        let child =
            received.body()["messages"][0]["content"].as_str().unwrap_or_default().contains("You were started by");
        match (child, received.step()) {
            (false, _) if received.last("tool").is_none() => {
                let input =
                    json!({ "task": "look around", "agentId": "general", "cwd": "sub", "runTimeoutSeconds": 60 });
                Reply::calls([("sessions_spawn", input)])
            }
            (true, step) => match script.get().and_then(|calls| calls.get(step)) {
                Some((tool, input)) => Reply::calls([(*tool, input.clone())]),
                None => Reply::text("done"),
            },
            (false, _) => Reply::text("done"),
        }
    }));
    let root = world.repo.path().canonicalize().unwrap();
    calls.set(tries(&root, "../")).unwrap();
    git(&root.join("sub"), "init --quiet");
    world.convoke(["run", "hello"]).code(0);
    nothing_was_got(&world, &[&root]);
}

#[test]
fn a_worktree_is_held_to_the_rules_of_the_main_checkout() {
    let calls: Arc<std::sync::OnceLock<Vec<(&str, Value)>>> = Arc::default();
    let script = calls.clone();
    let world = anchored(FakeModel::scripted(move |received| {
        match script.get().and_then(|calls| calls.get(received.step())) {
            Some((tool, input)) => Reply::calls([(*tool, input.clone())]),
            None => Reply::text("done"),
        }
    }));
    let root = world.repo.path().canonicalize().unwrap();
    let mut all = vec![("enter_worktree", json!({ "name": "side" }))];
    all.extend(tries(&root, ""));
    all.push(("bash", json!({ "command": "echo fine > src-new; cat sub/file" })));
    calls.set(all).unwrap();
    world.convoke(["run", "hello"]).code(0);
    let side = root.join(".convoke/worktrees/side");
    assert!(side.join("src-new").is_file(), "what is allowed works: {:#?}", told(&world));
    nothing_was_got(&world, &[&root, &side]);
}

#[test]
fn no_search_names_what_is_in_the_programs_own_directories() {
    let config = "convoke.json*";
    let world = world(
        obeys(vec![
            ("glob", json!({ "pattern": "**/*" })),
            ("glob", json!({ "pattern": config, "path": "home" })),
            ("glob", json!({ "pattern": "state/*", "path": "home" })),
            ("glob", json!({ "pattern": "*", "path": "home/state" })),
            ("list", json!({})),
            ("list", json!({ "path": "home" })),
            ("list", json!({ "path": "home/config" })),
            ("grep", json!({ "pattern": "." })),
            ("grep", json!({ "pattern": ".", "path": "home" })),
            ("grep", json!({ "pattern": ".", "path": "home/config" })),
        ]),
        json!({ "permission": { "external_directory": "allow" } }),
    );
    // The project is the directory that holds the home, and the home goes by another name besides.
    let above = world.home.path().parent().unwrap().canonicalize().unwrap();
    let project = tempfile::tempdir_in(&above).unwrap();
    symlink(world.home.path(), project.path().join("home")).unwrap();
    fs::write(project.path().join("plain.txt"), "plain").unwrap();
    let mut command = world.command(["run", "look"]);
    crate::Done::of(command.current_dir(project.path()).output().unwrap()).code(0);
    let all = told(&world);
    assert!(all[0].contains("plain.txt") && all[4].contains("plain.txt"), "{all:#?}");
    for told in &all {
        for name in ["convoke.jsonc", "convoke.json", "sessions.db", "auth.json", "lock"] {
            assert!(!told.contains(name), "{name}: {told}");
        }
    }
    let mut command = world.command(["run", "look"]);
    crate::Done::of(command.current_dir(world.home.path()).output().unwrap()).code(0);
    for told in told(&world) {
        for name in ["convoke.json", ".db", "auth.json", "state/lock"] {
            assert!(!told.contains(name), "{name}: {told}");
        }
    }
}

#[test]
fn t26_a_file_that_is_denied_is_denied_by_every_name() {
    let secret = tempfile::tempdir().unwrap();
    let secret = secret.path().canonicalize().unwrap();
    fs::write(secret.join("passwd"), "the secret\n").unwrap();
    let root = format!("/proc/self/root{}/passwd", secret.display());
    let dots = format!("{0}/../{1}/passwd", secret.display(), secret.file_name().unwrap().to_str().unwrap());
    let read = |path: &str| ("read", json!({ "filePath": path }));
    let model = obeys(vec![
        read(secret.join("passwd").to_str().unwrap()),
        read("link"),
        read("folder/passwd"),
        read(&root),
        read(&dots),
        read("hard"),
        ("grep", json!({ "pattern": "secret", "path": "hard" })),
        ("edit", json!({ "filePath": "hard", "oldString": "secret", "newString": "x" })),
    ]);
    let rule = format!("{}/passwd", secret.display());
    let permission =
        json!({ "external_directory": "allow", "read": { rule.clone(): "deny" }, "edit": { rule: "deny" } });
    let world = world(model, json!({ "permission": permission }));
    symlink(secret.join("passwd"), world.repo.path().join("link")).unwrap();
    symlink(&secret, world.repo.path().join("folder")).unwrap();
    fs::hard_link(secret.join("passwd"), world.repo.path().join("hard")).unwrap();
    world.convoke(["run", "look"]).code(0);
    let told = told(&world);
    assert_eq!(told.len(), 8, "{told:#?}");
    for (n, told) in told.iter().enumerate() {
        assert!(!told.contains("the secret"), "call {n}: {told}");
        assert!(told.contains("the rules deny") || told.contains("left out"), "call {n}: {told}");
    }
    assert_eq!(fs::read_to_string(secret.join("passwd")).unwrap(), "the secret\n");
}

#[test]
fn t29_nothing_a_repository_configures_for_git_is_executed() {
    let world = World::with(obeys(vec![
        ("enter_worktree", json!({ "name": "side" })),
        ("write", json!({ "filePath": "new.evil", "content": "x" })),
        ("exit_worktree", json!({ "action": "keep" })),
    ]));
    let canaries = tempfile::tempdir().unwrap();
    let canary = |name: &str| format!("touch {}/{name}; cat", canaries.path().display());
    let script = canaries.path().join("hooks/all");
    fs::create_dir(script.parent().unwrap()).unwrap();
    fs::write(&script, format!("#!/bin/sh\n{}\n", canary("hook"))).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    for hook in ["post-checkout", "pre-commit", "post-commit", "reference-transaction", "post-index-change"] {
        fs::copy(&script, script.with_file_name(hook)).unwrap();
    }
    let git = |args: &[&str]| {
        let done = std::process::Command::new("git").args(args).current_dir(world.repo.path()).output().unwrap();
        assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    world.repo.write(".gitattributes", "*.evil filter=evil diff=evil\n");
    world.repo.write("a.evil", "a\n");
    git(&["init", "--quiet", "--initial-branch", "main"]);
    git(&["add", "--all"]);
    let who = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
    git(&[&who[..], &["commit", "--quiet", "--message", "first"]].concat());
    for (key, value) in [
        ("core.fsmonitor", canary("fsmonitor")),
        ("core.hooksPath", script.parent().unwrap().display().to_string()),
        ("filter.evil.smudge", canary("smudge")),
        ("filter.evil.clean", canary("clean")),
        ("filter.evil.process", canary("process")),
        ("diff.external", canary("external")),
        ("diff.evil.textconv", canary("textconv")),
        ("core.sshCommand", canary("ssh")),
        ("core.editor", canary("editor")),
        ("core.pager", canary("pager")),
        ("credential.helper", format!("!{}", canary("credential"))),
        ("remote.origin.url", format!("ext::sh -c '{}'", canary("remote"))),
        ("gpg.program", canary("gpg")),
        ("commit.gpgSign", "true".into()),
    ] {
        git(&["config", key, &value]);
    }
    world.repo.write("a.evil", "changed\n");
    let done = world.convoke(["run", "work aside"]).code(0);
    world.convoke(["worktrees", "list", "--json"]).code(0);
    let told = told(&world);
    assert!(told[0].contains("side") && told[1].contains("made"), "{told:#?} {done:#?}");
    let left: Vec<PathBuf> = fs::read_dir(canaries.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [script.parent().unwrap()], "something was executed");
}

/// Calls of every tool that changes files, and what they are about.
fn changes(path: &str) -> Vec<(&'static str, Value)> {
    let patch = format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch");
    vec![
        ("write", json!({ "filePath": path, "content": "---\ndescription: x\n---\nx" })),
        ("apply_patch", json!({ "patch": patch })),
        ("bash", json!({ "command": format!("echo x > {path}") })),
    ]
}

#[test]
fn what_decides_what_runs_later_is_changed_by_no_tool_unasked() {
    for path in
        [".git/config", ".convoke/agents/build.md", "convoke.json", ".claude/settings.json", ".opencode/agents/a.md"]
    {
        // Leave for edits in general is none for these.
        let world = world(obeys(changes(path)), json!({ "permission": { "edit": "allow" } }));
        world.convoke(["run", "change it"]).code(0);
        let told = told(&world);
        assert_eq!(told.len(), 3, "{path}: {told:#?}");
        for told in &told {
            assert!(told.contains("Nobody is there to be asked"), "{path}: {told}");
        }
        assert!(!world.repo.path().join(path).exists(), "{path}");
    }
}

#[test]
fn whatever_is_allowed_plan_writes_no_settings_and_nothing_elsewhere() {
    let elsewhere = tempfile::tempdir().unwrap();
    let note = elsewhere.path().join("note.md").display().to_string();
    let write = |path: &str| ("write", json!({ "filePath": path, "content": "x" }));
    let calls = vec![write("note.md"), write(".convoke/agents/plan.md"), write(&note)];
    let world = world(obeys(calls), json!({ "permission": "allow" }));
    world.convoke(["run", "--agent", "plan", "plan it"]).code(0);
    let told = told(&world);
    assert!(told[0].contains("made"), "{told:#?}");
    assert!(told[1].contains("the rules deny") && told[2].contains("the rules deny"), "{told:#?}");
    assert!(!Path::new(&note).exists() && !world.repo.path().join(".convoke/agents").exists());
}

#[test]
fn a_child_is_started_elsewhere_only_with_leave_to_go_there() {
    let elsewhere = tempfile::tempdir().unwrap();
    let spawn = json!({ "task": "look", "cwd": elsewhere.path(), "background": false });
    let world =
        world(obeys(vec![("sessions_spawn", spawn)]), json!({ "permission": { "external_directory": "deny" } }));
    world.convoke(["run", "send somebody"]).code(0);
    let told = told(&world);
    assert!(told[0].contains("the rules deny `external_directory`"), "{told:#?}");
    assert_eq!(world.convoke(["ps", "--json"]).code(0).json()["count"], 1);
}

#[test]
fn a_secret_does_not_move_to_where_it_may_be_read() {
    let patch = "*** Begin Patch\n*** Update File: secrets/key\n*** Move to: shown\n*** End Patch";
    let world = world(
        obeys(vec![
            ("apply_patch", json!({ "patch": patch })),
            ("edit", json!({ "filePath": "secrets/key", "oldString": "the", "newString": "a" })),
        ]),
        json!({ "permission": { "read": { "secrets/*": "deny" } } }),
    );
    world.repo.write("secrets/key", "the secret\n");
    world.convoke(["run", "move it"]).code(0);
    for told in told(&world) {
        assert!(told.contains("the rules deny `read`") && !told.contains("secret\n"), "{told}");
    }
    assert_eq!(world.repo.read("secrets/key"), "the secret\n");
}

#[test]
fn leave_to_edit_is_enough_for_what_is_no_secret() {
    let edit = |path: &str| ("edit", json!({ "filePath": path, "oldString": "one", "newString": "two" }));
    let permission = json!({ "*": "ask", "edit": "allow", "read": { "*.env": "ask" } });
    let world = world(obeys(vec![edit("plain.txt"), edit("key.env")]), json!({ "permission": permission }));
    world.repo.write("plain.txt", "one\n");
    world.repo.write("key.env", "one\n");
    world.convoke(["run", "change them"]).code(0);
    assert_eq!((world.repo.read("plain.txt"), world.repo.read("key.env")), ("two\n".into(), "one\n".into()));
}

#[test]
fn what_one_session_saved_is_not_read_by_another() {
    let long = || ("bash", json!({ "command": "seq 1 20000 | sed 's/^/the words of one /'" }));
    let saved = Arc::new(std::sync::Mutex::new(String::new()));
    let (found, calls) = (Arc::clone(&saved), [long()]);
    let model = FakeModel::scripted(move |received: &Received| match received.last("user").as_deref() {
        Some("look") => match received.step() {
            0 => Reply::calls([("read", json!({ "filePath": *found.lock().unwrap() }))]),
            1 => Reply::calls([("grep", json!({ "pattern": "words of one", "path": *found.lock().unwrap() }))]),
            2 => Reply::calls([("bash", json!({ "command": format!("cat {}", found.lock().unwrap()) }))]),
            _ => Reply::text("done"),
        },
        _ if received.step() == 0 => Reply::calls(calls.clone()),
        _ => {
            let told = received.last("tool").unwrap_or_default();
            let file = told.split_whitespace().find(|word| word.ends_with(".txt:")).unwrap_or_default();
            file.trim_end_matches(':').clone_into(&mut found.lock().unwrap());
            Reply::text("done")
        }
    });
    let world = world(model, json!({ "permission": "allow" }));
    world.convoke(["run", "print"]).code(0);
    assert!(Path::new(&*saved.lock().unwrap()).is_file(), "{saved:?}");
    world.convoke(["run", "look"]).code(0);
    for told in told(&world) {
        assert!(!told.contains("the words of one 1"), "{told}");
    }
}

#[test]
fn files_of_our_own_are_closed_to_whoever_works_above_them() {
    let read = |path: &str| ("read", json!({ "filePath": path }));
    let grep = ("grep", json!({ "pattern": "provider" }));
    let write = ("write", json!({ "filePath": "config/scripts/x.script", "content": "x" }));
    let world = world(obeys(vec![read("config/convoke.json"), write, grep]), json!({ "permission": "allow" }));
    let home = world.home.path().to_str().unwrap().to_owned();
    world.convoke(["run", "-C", &home, "look"]).code(0);
    let told = told(&world);
    assert!(told[0].contains("the rules deny") && told[1].contains("the rules deny"), "{told:#?}");
    assert!(!told[2].contains("base_url"), "{told:#?}");
}

#[test]
fn t44_nothing_we_make_can_be_read_by_others_whatever_the_umask() {
    let world = World::with(obeys(vec![
        ("bash", json!({ "command": "seq 100000" })),
        ("write", json!({ "filePath": "made.txt", "content": "x" })),
    ]));
    let before: Vec<PathBuf> = files_below(world.home.path());
    let mut command = world.home.command("sh");
    command.current_dir(world.repo.path());
    let script = format!("umask 000; exec {} run work", crate::CONVOKE);
    let done = command.args(["-c", &script]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut command = world.home.command("sh");
    let script =
        format!("umask 000; {0} token add test >/dev/null; exec {0} history --json >/dev/null", crate::CONVOKE);
    command.current_dir(world.repo.path()).args(["-c", &script]).output().unwrap();
    let made: Vec<PathBuf> = files_below(world.home.path()).into_iter().filter(|path| !before.contains(path)).collect();
    assert!(made.len() > 5, "{made:?}");
    for path in made {
        // Whatever is behind a folder nobody else may enter is out of reach; so is what has no bits for them.
        let open = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.mode() & 0o077 != 0);
        let reached = path.ancestors().take_while(|at| *at != world.home.path()).all(open);
        assert!(!reached, "{} can be read by others", path.display());
    }
}

/// Processes whose command line has these words.
pub(crate) fn running(words: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = fs::read(entry.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(words) && !line.contains("convoke run") {
            found.push(line);
        }
    }
    found
}

#[track_caller]
pub(crate) fn gone_in_five_seconds(words: &str) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !running(words).is_empty() {
        assert!(Instant::now() < deadline, "still alive: {:?}", running(words));
        std::thread::yield_now();
    }
}

#[test]
fn t45_what_hides_from_its_end_is_ended() {
    for how in ["abort", "kill"] {
        // A number nobody else sleeps for, as the mark of this test.
        let mark = format!("86400.{}", std::process::id() * 2 + u32::from(how == "kill"));
        let hides = format!(
            "trap '' TERM HUP INT; (setsid sh -c \"trap '' TERM; sleep {mark} & sleep {mark}\" &) ; sleep {mark}"
        );
        let model = FakeModel::scripted(move |received: &Received| match received.step() {
            0 => Reply::calls([("bash", json!({ "command": hides }))]),
            _ => Reply::text("over"),
        });
        let world = world(model, json!({ "permission": "allow" }));
        let mut child = world.start(["run", "hide"]);
        let words = format!("sleep {mark}");
        while running(&words).len() < 3 {
            assert!(child.try_wait().unwrap().is_none(), "the run ended before its command ran");
            std::thread::yield_now();
        }
        if how == "kill" {
            rustix::process::kill_process(world.gateway_pid(), rustix::process::Signal::KILL).unwrap();
        } else {
            let session = world.convoke(["ps", "--json"]).code(0).json();
            let id = session["sessions"][0]["sessionId"].as_str().expect("a session").to_owned();
            world.convoke(["kill", &id]).code(0);
        }
        gone_in_five_seconds(&words);
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[test]
fn t46_a_key_is_shown_nowhere() {
    const KEY: &str = "sk-canary-0123456789abcdefghijklmnopqrstuvwxyz";
    let model = FakeModel::scripted(|received| match received.step() {
        0 => Reply::calls([("bash", json!({ "command": "env; cat key.txt" }))]),
        1 => Reply::calls([("read", json!({ "filePath": "key.txt" }))]),
        2 => Reply::raw(401, format!("{{\"error\":{{\"message\":\"Incorrect API key provided: {KEY}\"}}}}")),
        _ => Reply::text("never"),
    });
    let world = world(model, json!({ "provider": { "fake": { "api_key": KEY } } }));
    world.repo.write("key.txt", &format!("{KEY}\n"));
    let mut shown = String::new();
    let mut keep = |done: crate::Done| {
        shown.push_str(&done.stdout);
        shown.push_str(&done.stderr);
    };
    let run = |args: &[&str]| {
        let mut command = world.command(args);
        command.env("OPENAI_API_KEY", KEY).env("RUST_LOG", "trace");
        crate::Done::of(command.output().unwrap())
    };
    let first = run(&["run", "--format", "json", "what is the key?"]);
    let session = first.lines()[0]["sessionId"].as_str().expect("a session").to_owned();
    keep(first);
    for args in [
        &["history", &session, "--include-tools", "--json"][..],
        &["config", "show", "--origin", "--json"],
        &["config", "show"],
        &["models", "--json"],
        &["auth", "list", "--json"],
        &["ps", "--json"],
    ] {
        keep(run(args));
    }
    assert!(shown.contains("key.txt"), "{shown}");
    assert!(!shown.contains(KEY), "{}", &shown[shown.find(KEY).unwrap().saturating_sub(200)..]);
    for path in files_below(world.home.path()) {
        if path == world.home.config_file() || !path.is_file() {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        let found = bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes());
        assert!(!found, "the key is in {}", path.display());
    }
}

#[test]
fn t53_a_model_that_never_stops_is_stopped() {
    // Another call every time, so that it does not look like a circle.
    let endless = || {
        FakeModel::scripted(|received| {
            Reply::calls([("glob", json!({ "pattern": format!("*{}", received.step()) }))]).usage(1000, 100)
        })
    };
    for (settings, says) in [
        (json!({ "agent": { "build": { "steps": 5 } } }), "used up its 5 steps"),
        (json!({ "limits": { "tokens": 20_000 } }), "tokens"),
        (
            json!({ "limits": { "costUsd": 0.01 }, "provider": { "fake": { "models": { "test": { "cost": { "input": 1.0, "output": 1.0 } } } } } }),
            "limits.costUsd",
        ),
    ] {
        let world = world(endless(), settings.clone());
        let done = world.convoke(["run", "go on"]);
        assert!(world.model.count() < 60, "{settings}: {} requests", world.model.count());
        assert!(done.stderr.contains(says), "{settings}: {done:#?}");
    }
}

/// Runs these lines where `rm` is denied and everything else is allowed, and no user is there to answer.
fn none_removes_it(lines: &[&'static str]) {
    let calls = lines.iter().map(|line| ("bash", json!({ "command": *line }))).collect();
    let permission = json!({ "bash": { "*": "allow", "rm *": "deny", "git push*": "deny" } });
    let world = world(obeys(calls), json!({ "permission": permission, "sandbox": { "mode": "off" } }));
    fs::write(world.repo.path().join("victim"), "x").unwrap();
    world.convoke(["run", "do as you like"]).code(0);
    let told = told(&world);
    for (line, told) in lines.iter().zip(&told) {
        assert!(told.contains("the rules deny") || told.contains("the answer was no"), "{line:?}: {told}");
    }
    assert_eq!(told.len(), lines.len());
    assert!(world.repo.path().join("victim").exists());
}

#[test]
fn a_line_that_goes_on_hides_no_denied_program() {
    none_removes_it(&[
        "r\\\nm victim",
        "\"r\\\nm\" victim",
        "true &\\\n& rm victim",
        "true # \\\nrm victim",
        "echo $\\\n(rm victim)",
        "cat <<'E'\n\\\nE\nr\\\nm victim",
        "bash -c 'r\\\nm victim'",
    ]);
}

#[test]
fn a_denied_program_does_not_run_through_another_one() {
    none_removes_it(&[
        "printf 'a.o:\\n\\t$(CC) victim\\n' > Makefile; CC='rm -f victim --' make a.o",
        "printf 'a.o:\\n\\t$(CC) victim\\n' > Makefile; export CC=rm; make a.o",
        "printf '#!/bin/sh\\nshift; exec \"$@\"\\n' > launch; chmod +x launch; ./launch x rm victim",
        "printf '#!/bin/sh\\neval \"$1\"\\n' > launch; chmod +x launch; ./launch 'rm victim'",
        "printf '#!/bin/sh\\neval \"${1#*=}\"\\n' > launch; chmod +x launch; ./launch --editor='rm victim'",
        "npm explore x -- rm victim",
        "pip config edit --editor 'rm victim'",
        "dpkg-architecture -c rm victim",
        "git p origin main",
    ]);
}
