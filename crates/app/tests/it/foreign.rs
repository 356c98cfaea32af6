//! A hostile repository and a manipulated model against the real binary: nothing they leave or ask for ends the gateway,
//! holds it up or costs anybody else a command.

use crate::World;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use testkit::{FakeModel, Reply, RepoDir, TempHome};

/// A model that makes these calls, a few in each step, and then says that it is done.
fn world(calls: Vec<(&'static str, Value)>, settings: Value) -> World {
    let model = FakeModel::scripted(move |received| match calls.chunks(2).nth(received.step()) {
        Some(some) => Reply::calls(some.to_vec()),
        None => Reply::text("done"),
    });
    let home = TempHome::new(&model).config_json(settings);
    World { model, home, repo: RepoDir::new() }
}

fn told(world: &World) -> Vec<String> {
    let last = world.model.last().expect("the model was asked");
    last.lines().into_iter().filter(|line| line.role == "tool").map(|line| line.text).collect()
}

fn write(repo: &Path, name: &str, text: impl AsRef<[u8]>) {
    let path = repo.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn pipe(repo: &Path, name: &str) {
    let path = repo.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success(), "{name}");
}

#[test]
fn no_ignored_file_of_a_repository_ends_the_gateway_or_holds_it_up() {
    let search = |path: &str| ("grep", json!({ "pattern": "needle", "path": path }));
    let folders =
        ["braces", "vendor/deep", "mixed", "zero", "pipe", "git-pipe", "exclude", "link", "long", "many", "random"];
    let mut calls: Vec<(&str, Value)> = folders.iter().map(|folder| search(folder)).collect();
    calls.push(("glob", json!({ "pattern": "**/*.txt" })));
    calls.push(("list", json!({})));
    let world = world(calls, json!({}));
    let repo = world.repo.path();
    for folder in folders {
        write(repo, &format!("{folder}/a.txt"), "a needle\n");
    }
    let braces = "{".repeat(20_000);
    write(repo, "braces/.gitignore", format!("{braces}{}\n", "}".repeat(20_000)));
    // Above what is searched.
    write(repo, "vendor/.ignore", format!("!{}\n", "{a,".repeat(20_000)));
    write(repo, "mixed/.ignore", "{[}]".repeat(20_000));
    symlink("/dev/zero", repo.join("zero/.ignore")).unwrap();
    pipe(repo, "pipe/.ignore");
    pipe(repo, "pipe/.gitignore");
    pipe(repo, "git-pipe/.git");
    pipe(repo, "exclude/.git/info/exclude");
    write(repo, "link/.git", "gitdir: ../link/own\n");
    pipe(repo, "link/own/commondir");
    write(repo, "long/.gitignore", "a".repeat(3 << 20));
    write(repo, "many/.gitignore", "*[a-z]?x*\n".repeat(300_000));
    symlink("/dev/urandom", repo.join("random/.gitignore")).unwrap();
    for n in 0..100 {
        pipe(repo, &format!("pipes/{n}/.ignore"));
    }
    world.convoke(["run", "look around"]).code(0);
    let told = told(&world);
    assert_eq!(told.len(), folders.len() + 2, "{told:#?}");
    for (folder, told) in folders.iter().zip(&told) {
        assert!(told.contains("a needle"), "{folder}: {told}");
    }
    assert!(told[folders.len()].contains("braces/a.txt"), "{}", told[folders.len()]);
}

#[test]
fn no_pattern_path_or_line_of_a_model_ends_the_gateway_or_holds_it_up() {
    let braces = "{".repeat(10_000);
    let nested = |open: &str, close: &str, n: usize| format!("{}x{}", open.repeat(n), close.repeat(n));
    let calls = vec![
        ("glob", json!({ "pattern": braces })),
        ("glob", json!({ "pattern": format!("/{braces}") })),
        ("grep", json!({ "pattern": "x", "include": nested("{", "}", 10_000) })),
        ("grep", json!({ "pattern": nested("(", ")", 50_000) })),
        ("grep", json!({ "pattern": "(((((a{1000}){1000}){1000}){1000}){1000})" })),
        ("grep", json!({ "pattern": "\\pL{900}{900}" })),
        ("read", json!({ "filePath": "a/".repeat(50_000) })),
        ("read", json!({ "filePath": "../".repeat(50_000) })),
        ("write", json!({ "filePath": "a/".repeat(50_000) + "b", "content": "x" })),
        ("edit", json!({ "filePath": "x".repeat(100_000), "oldString": "a", "newString": "b" })),
        ("list", json!({ "path": "./".repeat(50_000) })),
        ("glob", json!({ "pattern": "*", "path": "a/".repeat(50_000) })),
        (
            "apply_patch",
            json!({ "patch": format!("*** Begin Patch\n*** Add File: {}b\n+x\n*** End Patch", "a/".repeat(50_000)) }),
        ),
        ("bash", json!({ "command": "echo hi", "workdir": "a/".repeat(50_000) })),
        ("bash", json!({ "command": format!("cat {}b", "a/".repeat(15_000)) })),
        ("bash", json!({ "command": nested("$(", ")", 10_000) })),
        ("bash", json!({ "command": nested("{ ", ";}", 6_000) })),
        ("bash", json!({ "command": ": ;".repeat(10_000) })),
        ("bash", json!({ "command": format!("echo {}", "x".repeat(100_000)) })),
        (
            "edit",
            json!({ "filePath": "same.txt", "oldString": "a", "newString": "y".repeat(100_000), "replaceAll": true }),
        ),
        ("read", json!({ "filePath": "bad\u{0}name" })),
        ("read", json!({ "filePath": "new\nline" })),
        ("webfetch", json!({ "url": format!("http://{}", "a.".repeat(50_000)) })),
    ];
    // Each in a session of its own, and none so long that it fills the context.
    let prompts: Vec<String> = (0..calls.len()).map(|n| format!("call {n}")).collect();
    let model = FakeModel::scripted(move |received| {
        let n = received.last("user").and_then(|said| said.strip_prefix("call ")?.trim().parse::<usize>().ok());
        match (received.step(), n.and_then(|n| calls.get(n))) {
            (0, Some(call)) => Reply::calls([call.clone()]),
            _ => Reply::text("done"),
        }
    });
    let home = TempHome::new(&model)
        .config_json(json!({ "permission": { "*": "allow", "bash": { "*": "deny", "true *": "allow" } } }));
    let world = World { model, home, repo: RepoDir::new() };
    write(world.repo.path(), "same.txt", "a".repeat(1 << 20));
    for (n, prompt) in prompts.iter().enumerate() {
        world.convoke(["run", prompt]).code(0);
        let told = told(&world);
        assert_eq!(told.len(), 1, "call {n}: {told:#?}");
        let refused = [
            "bad pattern",
            "bad `include`",
            "not a path",
            "wrong name",
            "too large",
            "do not fit",
            "does not exist",
            "address",
            "the rules deny",
        ];
        let fine = refused.iter().any(|word| told[0].contains(word));
        assert!(fine, "call {n}: {}", &told[0][..told[0].len().min(400)]);
    }
}

/// Puts something into a repository.
type Prepare = Box<dyn Fn(&Path)>;

#[test]
fn no_settings_or_instructions_of_a_repository_end_the_gateway_or_hold_it_up() {
    let list = vec![("list", json!({}))];
    let brackets = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let deep = format!("{{ \"agent\": {} }}", brackets(400_000));
    let many: String = (0..100_000).map(|n| format!("\"{n}\":1,")).collect();
    let cases: Vec<(&str, Prepare)> = vec![
        ("a pipe as instructions", Box::new(|repo| pipe(repo, "AGENTS.md"))),
        ("endless instructions", Box::new(|repo| symlink("/dev/zero", repo.join("AGENTS.md")).unwrap())),
        ("a pipe as an agent", Box::new(|repo| pipe(repo, ".convoke/agents/a.md"))),
        ("front matter without a bottom", {
            let text = format!("---\na: {}x\n---\nbody", "- ".repeat(400_000));
            Box::new(move |repo| write(repo, ".claude/agents/a.md", &text))
        }),
        ("front matter in short lines", {
            let text = format!("---\na: {}x\n---\nbody", "- ".repeat(30_000));
            Box::new(move |repo| write(repo, ".claude/commands/a.md", &text))
        }),
        ("front matter that names itself", {
            let lines: String =
                (1..30).map(|n| format!("k{n}: &k{n} [{}]\n", vec![format!("*k{}", n - 1); 9].join(", "))).collect();
            let text = format!("---\nk0: &k0 [x, x]\n{lines}---\nbody");
            Box::new(move |repo| write(repo, ".opencode/agent/a.md", &text))
        }),
        ("settings without a bottom", Box::new(move |repo| write(repo, "convoke.jsonc", &deep))),
        ("settings without an end", Box::new(move |repo| write(repo, ".convoke/convoke.json", format!("{{{many}}}")))),
        (
            "settings whose files name each other",
            Box::new(|repo| {
                (0..14).for_each(|n| write(repo, &format!("f{n}"), format!("{{file:f{}}}", n + 1).repeat(40)));
                write(repo, "f14", "");
                write(repo, "convoke.jsonc", r#"{"agent": {"a": {"prompt": "{file:f0}"}}}"#);
            }),
        ),
        (
            "settings that name a large file again and again",
            Box::new(|repo| {
                write(repo, "big.txt", "x".repeat(900_000));
                let prompt = json!({ "prompt": "{file:big.txt}".repeat(20) });
                let agents: serde_json::Map<String, Value> =
                    (0..50).map(|n| (format!("a{n}"), prompt.clone())).collect();
                write(repo, "convoke.jsonc", json!({ "agent": agents }).to_string());
            }),
        ),
        ("settings that are a device", Box::new(|repo| symlink("/dev/zero", repo.join("convoke.json")).unwrap())),
        (
            "a pipe for git",
            Box::new(|repo| {
                let _ = fs::remove_dir_all(repo.join(".git"));
                pipe(repo, ".git");
            }),
        ),
    ];
    for (what, prepare) in cases {
        let world = world(list.clone(), json!({}));
        prepare(world.repo.path());
        let done = world.convoke(["run", "look"]);
        // Settings that are wrong are told; whoever has others goes on in the same gateway.
        let elsewhere = RepoDir::new();
        let mut command = world.command(["run", "look"]);
        crate::Done::of(command.current_dir(elsewhere.path()).output().unwrap()).code(0);
        assert!(!done.stderr.contains("panicked") && !done.stderr.contains("overflow"), "{what}: {}", done.stderr);
    }
}

#[test]
fn no_name_number_or_nesting_of_a_reply_spoils_a_session() {
    let nested = format!("{}1{}", "[".repeat(50_000), "]".repeat(50_000));
    let answer = |call: Value, usage: &str| {
        let call = json!({ "index": 0, "id": "c", "type": "function", "function": call });
        let choice = json!({ "index": 0, "delta": { "tool_calls": [call] }, "finish_reason": "tool_calls" });
        format!("data: {{\"choices\":[{choice}],\"usage\":{usage}}}\n\ndata: [DONE]\n\n")
    };
    let name = "x".repeat(1 << 20);
    let few = r#"{"prompt_tokens":1,"completion_tokens":1}"#;
    let bodies = [
        answer(json!({ "name": name, "arguments": "{}" }), few),
        answer(json!({ "name": "list", "arguments": json!({ "k".repeat(100_000): 1 }).to_string() }), few),
        answer(json!({ "name": "list", "arguments": nested }), few),
        answer(
            json!({ "name": "list", "arguments": "{}" }),
            r#"{"prompt_tokens":18446744073709551615,"completion_tokens":18446744073709551615}"#,
        ),
        answer(json!({ "name": "list", "arguments": "{}" }), r#"{"prompt_tokens":-5,"completion_tokens":1.5}"#),
        answer(
            json!({ "name": "list", "arguments": "{}" }),
            r#"{"prompt_tokens":1e300,"completion_tokens":2,"cost":1e308}"#,
        ),
    ];
    let count = bodies.len();
    let model = FakeModel::scripted(move |received| match bodies.get(received.step()) {
        Some(body) => Reply::raw(200, body.clone()).content_type("text/event-stream"),
        None => Reply::text("done"),
    });
    let world = World::with(model);
    world.convoke(["run", "say it"]).code(0);
    let told = told(&world);
    assert_eq!(told.len(), count, "{told:#?}");
    assert!(told.iter().all(|told| told.len() < 10_000), "what was sent is not told again");
    // The session goes on, and is still read whole.
    world.convoke(["run", "--continue", "and more"]).code(0);
}

#[test]
fn no_file_of_a_git_directory_makes_git_read_or_wait_without_end() {
    let cases: Vec<(&str, Prepare)> = vec![
        ("HEAD", Box::new(|git| fs::remove_file(git.join("HEAD")).map(|()| pipe(git, "HEAD")).unwrap())),
        ("commondir", Box::new(|git| symlink("/dev/zero", git.join("commondir")).unwrap())),
        ("alternates", Box::new(|git| symlink("/dev/zero", git.join("objects/info/alternates")).unwrap())),
        ("packed-refs", Box::new(|git| pipe(git, "packed-refs"))),
    ];
    for (name, prepare) in cases {
        let calls = vec![("enter_worktree", json!({ "name": "w" })), ("bash", json!({ "command": "echo it runs" }))];
        let world = world(calls, json!({ "permission": "allow" }));
        let repo = world.repo.path();
        let git = |words: &[&str]| {
            let mut command = std::process::Command::new("git");
            let done = command.args(["-c", "user.name=x", "-c", "user.email=x@localhost"]).args(words);
            assert!(done.current_dir(repo).output().unwrap().status.success(), "{words:?}");
        };
        write(repo, "a.txt", "x");
        git(&["init", "--quiet"]);
        git(&["add", "--all"]);
        git(&["commit", "--quiet", "--allow-empty", "--message", "x"]);
        prepare(&repo.join(".git"));
        world.convoke(["run", "go"]).code(0);
        let told = told(&world);
        assert!(told[0].contains(name) && told[0].contains("git is not used here"), "{name}: {}", told[0]);
        // Where a sandbox cannot protect a file, it says so.
        assert!(told[1].contains("it runs") || told[1].contains("was not run"), "{name}: {}", told[1]);
    }
}

#[test]
fn a_pipe_that_goes_along_with_a_prompt_is_waited_for_with_a_note() {
    use std::io::{BufRead, BufReader};
    let world = world(Vec::new(), json!({}));
    pipe(world.repo.path(), "pipe");
    let mut run = world.command(["run", "-f", "pipe", "look"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("reading `pipe` until it ends")));
    fs::write(world.repo.path().join("pipe"), "what it says").unwrap();
    drop(lines.last());
    assert!(run.wait().unwrap().success());
}
