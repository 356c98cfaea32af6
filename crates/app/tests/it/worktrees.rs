//! Worktrees as a person and a model meet them: entered, refused, removed, restored, and there after a crash.

use crate::World;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{FakeModel, RepoDir, TempHome};

#[track_caller]
pub(crate) fn git(dir: &Path, words: &str) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(words.split(' ')).current_dir(dir);
    let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    assert!(output.status.success(), "git {words}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Waits for what another process does.
#[track_caller]
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !done() {
        assert!(start.elapsed() < std::time::Duration::from_secs(20), "not in time: {what}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// A world with a repository in it and a script for the offline model.
fn world(script: &str) -> World {
    world_with(script, json!({}))
}

fn world_with(script: &str, settings: Value) -> World {
    let home = TempHome::bare().config_json(json!({ "model": "offline/play" })).config_json(settings);
    home.script("play.script", script);
    let world = World { model: FakeModel::start(), home, repo: RepoDir::new() };
    git(world.repo.path(), "init --quiet --initial-branch main");
    git(world.repo.path(), "add --all");
    git(world.repo.path(), "commit --quiet --message first");
    world
}

impl World {
    /// What the tools of a run returned, in order, read as JSON where it is.
    #[track_caller]
    fn play(&self, prompt: &[&str]) -> Vec<Value> {
        let args = ["run", "--format", "json"].iter().chain(prompt);
        let lines = self.convoke(args).code(0).lines();
        let results = lines.iter().filter(|line| line["entry"]["type"] == "result");
        results
            .map(|line| {
                let text = line["entry"]["output"].as_str().unwrap();
                serde_json::from_str(text).unwrap_or_else(|_| json!(text))
            })
            .collect()
    }

    fn tree(&self, name: &str) -> PathBuf {
        self.repo.path().canonicalize().unwrap().join(".convoke/worktrees").join(name)
    }

    #[track_caller]
    fn worktrees(&self) -> Value {
        self.convoke(["worktrees", "--json"]).code(0).json()
    }
}

const SCRIPT: &str = r#"
when: enter
call EnterWorktree {"name": "fix"}
---
call write {"filePath": "notes.txt", "content": "work"}
---
call session_status {}
---
say: in.

when: look
call bash {"command": "pwd"}
---
say: looked.

when: leave
call ExitWorktree {"action": "remove"}
---
say: refused.

when: discard
call exit_worktree {"action": "remove", "discard_changes": true}
---
call bash {"command": "pwd"}
---
call exit_worktree {"action": "keep"}
---
say: out.

when: keep
call exit_worktree {"action": "keep"}
---
say: kept.
"#;

#[test]
fn a_dirty_worktree_is_refused_then_removed_on_purpose_then_restored() {
    let world = world(SCRIPT);
    let entered = world.play(&["enter"]);
    assert_eq!((&entered[0]["status"], &entered[0]["worktreeBranch"]), (&json!("entered"), &json!("convoke/fix")));
    assert_eq!(entered[2]["worktree"]["path"], json!(world.tree("fix")), "{entered:?}");
    assert_eq!(std::fs::read_to_string(world.tree("fix").join("notes.txt")).unwrap(), "work");
    assert_eq!(world.worktrees()["worktrees"][0]["state"], "open");

    // Another gateway, the same place; and from the directory it was started in it is still found.
    world.convoke(["stop"]).code(0);
    let looked = world.play(&["-c", "look"]);
    assert!(looked[0].as_str().unwrap().starts_with(world.tree("fix").to_str().unwrap()), "{looked:?}");

    let refused = world.play(&["-c", "leave"]);
    assert_eq!(refused[0]["details"]["files"], json!(["?? notes.txt"]), "{refused:?}");
    assert!(world.tree("fix").exists());

    let removed = world.play(&["-c", "discard"]);
    let snapshot = removed[0]["snapshot"].as_str().unwrap();
    assert_eq!(git(world.repo.path(), &format!("show {snapshot}:notes.txt")), "work");
    let home = world.repo.path().canonicalize().unwrap();
    assert!(removed[1].as_str().unwrap().starts_with(&format!("{}\n", home.display())), "{removed:?}");
    assert_eq!(removed[2]["status"], "nothing", "{removed:?}");
    assert!(!world.tree("fix").exists());

    let restored = world.convoke(["worktrees", "restore", "fix", "--json"]).code(0).json();
    assert_eq!(restored["path"], json!(world.tree("fix")));
    assert_eq!(std::fs::read_to_string(world.tree("fix").join("notes.txt")).unwrap(), "work");
    assert_eq!(git(world.repo.path(), "status --porcelain"), "");
}

#[test]
fn what_a_person_removes_is_kept_too_and_sessions_in_it_go_home() {
    let world = world(SCRIPT);
    world.play(&["enter"]);
    world.convoke(["worktrees", "remove", "fix"]).code(2).says("?? notes.txt");
    world.convoke(["worktrees", "remove", "nothing"]).code(2).says("there is: fix");
    let removed = world.convoke(["worktrees", "remove", "fix", "--discard-changes", "--json"]).code(0).json();
    assert_eq!(removed["discardedFiles"], 1);
    let looked = world.play(&["-c", "look"]);
    let home = world.repo.path().canonicalize().unwrap();
    assert!(looked[0].as_str().unwrap().starts_with(&format!("{}\n", home.display())), "{looked:?}");
    assert_eq!(world.worktrees()["snapshots"][0]["worktree"], "fix");
}

#[test]
fn a_worktree_nobody_is_in_is_shown_as_an_orphan_and_entered_again() {
    let world = world(SCRIPT);
    // As after a crash between git's work and the commit of the call.
    git(world.repo.path(), "worktree add --quiet -b convoke/fix .convoke/worktrees/fix");
    let listed = world.worktrees();
    assert_eq!(listed["worktrees"][0]["state"], "orphan", "{listed}");
    world.convoke(["worktrees"]).code(0).says("enter it again");
    let entered = world.play(&["enter"]);
    assert!(entered[0]["message"].as_str().unwrap().contains("there already"), "{entered:?}");
    world.play(&["-c", "keep"]);
    assert_eq!(world.worktrees()["worktrees"][0]["state"], "kept");
}

#[test]
fn whoever_is_in_a_folder_that_was_deleted_goes_home_and_is_told() {
    let world = world(SCRIPT);
    world.play(&["enter"]);
    std::fs::remove_dir_all(world.tree("fix")).unwrap();
    assert_eq!(world.worktrees()["worktrees"][0]["state"], "missing");
    let lines = world.convoke(["run", "--format", "json", "-c", "look"]).code(0).lines();
    let entries = |kind: &str| -> Vec<&Value> {
        lines.iter().map(|line| &line["entry"]).filter(|entry| entry["type"] == kind).collect()
    };
    let home = world.repo.path().canonicalize().unwrap();
    assert!(entries("result")[0]["output"].as_str().unwrap().starts_with(home.to_str().unwrap()), "{lines:?}");
    let told = entries("notice")[0]["text"].as_str().unwrap();
    assert!(told.contains("`fix` is gone") && told.contains(home.to_str().unwrap()), "{told}");
    assert_eq!(world.play(&["-c", "keep"])[0]["status"], "nothing");
}

#[test]
fn of_two_calls_that_enter_at_once_one_moves_the_session() {
    let world = world(
        r#"
call enter_worktree {"name": "one"}
call enter_worktree {"name": "two"}
---
call bash {"command": "pwd"}
---
say: done.
"#,
    );
    let results = world.play(&["go"]);
    let entered: Vec<&Value> = results.iter().filter(|result| result["status"] == "entered").collect();
    assert_eq!(entered.len(), 1, "{results:?}");
    assert!(results.iter().any(|result| result["error"].to_string().contains("moved this session")), "{results:?}");
    assert!(results[2].as_str().unwrap().starts_with(entered[0]["worktreePath"].as_str().unwrap()), "{results:?}");
}

#[test]
fn hooks_replace_git_and_one_that_fails_fails_the_call() {
    let settings = json!({ "hooks": {
        "worktree_create": "mkdir -p trees/made && cat > trees/input && echo trees/made",
        "worktree_remove": "echo not this one >&2; exit 2",
        "worktree.create": "cat > \"$HOME/told\"",
    } });
    let world = world_with(SCRIPT, settings);
    let entered = world.play(&["enter"]);
    let made = world.repo.path().canonicalize().unwrap().join("trees/made");
    assert_eq!(entered[0]["worktreePath"], json!(made), "{entered:?}");
    assert!(made.join("notes.txt").exists());
    until("the event is told", || {
        std::fs::read_to_string(world.home.path().join("told")).is_ok_and(|t| t.contains("fix"))
    });
    let refused = world.play(&["-c", "discard"]);
    assert!(refused[0]["error"].as_str().unwrap().contains("not this one"), "{refused:?}");
    assert!(made.exists());
}

const AGENTS: &str = r#"
when: two agents
call agent {"description": "idle", "prompt": "only look", "subagent_type": "general", "isolation": "worktree", "run_in_background": false}
call agent {"description": "busy", "prompt": "leave a file", "subagent_type": "general", "isolation": "worktree", "run_in_background": false}
---
say: both are back.

when: only look
call bash {"command": "pwd"}
call exit_worktree {"action": "keep"}
---
say: looked.

when: leave a file
call write {"filePath": "left.txt", "content": "work"}
---
say: written.
"#;

#[test]
fn an_isolated_agents_worktree_goes_when_unchanged_and_stays_with_its_work() {
    let world = world(AGENTS);
    let results = world.play(&["two agents"]);
    let by =
        |reply: &str| results.iter().find(|result| result["reply"] == reply).unwrap_or_else(|| panic!("{results:?}"));
    let (looked, wrote) = (by("looked."), by("written."));
    assert!(looked["worktree"]["kept"].is_null(), "{looked}");
    // It is told before it is done: the answer does not wait for the disk.
    let gone = Path::new(looked["worktree"]["path"].as_str().unwrap());
    until("the unchanged worktree is gone", || !gone.exists());
    let kept = Path::new(wrote["worktree"]["path"].as_str().unwrap());
    assert!(wrote["note"].as_str().unwrap().contains("1 uncommitted file"), "{wrote}");
    assert_eq!(std::fs::read_to_string(kept.join("left.txt")).unwrap(), "work");
    assert!(!world.repo.path().join("left.txt").exists(), "the isolation holds");
    // Whoever was put into one cannot leave it.
    assert!(results.iter().any(|result| result["status"] == "nothing"), "{results:?}");
}

#[test]
fn isolation_holds_or_there_is_no_agent() {
    let world = world(AGENTS);
    std::fs::remove_dir_all(world.repo.path().join(".git")).unwrap();
    let results = world.play(&["two agents"]);
    assert!(results[0]["error"].as_str().unwrap().contains("no worktree of its own"), "{results:?}");
    assert_eq!(world.convoke(["ps", "--json"]).json()["count"], 1);
}

#[test]
fn a_gateway_killed_after_entering_comes_back_in_the_worktree() {
    let world = world(
        r#"
when: enter
call enter_worktree {"name": "fix"}
---
wait: 60s
say: too late.

when: look
call bash {"command": "pwd"}
---
say: looked.
"#,
    );
    let mut child = world.start(["run", "--format", "json", "enter"]);
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    while !lines.next().unwrap().unwrap().contains("\"type\":\"result\"") {}
    let gateway = world.gateway_pid();
    kill_process(gateway, Signal::KILL).unwrap();
    kill_process(rustix::process::Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    until("the gateway is gone", || rustix::process::test_kill_process(gateway).is_err());
    let listed = world.worktrees();
    assert_eq!(listed["worktrees"][0]["sessions"].as_array().unwrap().len(), 1, "{listed}");
    let busy = world.convoke(["worktrees", "remove", "fix", "--discard-changes"]).code(2);
    assert!(busy.stderr.contains("is in use"), "a run goes on in it: {busy:?}");
    assert!(world.tree("fix").exists());
}

#[test]
fn a_worktree_that_git_is_just_making_is_waited_for() {
    let world = world(SCRIPT);
    git(world.repo.path(), "worktree add --quiet .convoke/worktrees/slow -b slow");
    let half = world.repo.path().join(".git/worktrees/slow/commondir");
    let whole = std::fs::read(&half).unwrap();
    // As another git leaves it for a moment.
    std::fs::write(&half, "").unwrap();
    std::thread::scope(|scope| {
        let listed = scope.spawn(|| world.worktrees());
        std::thread::sleep(std::time::Duration::from_millis(300));
        std::fs::write(&half, whole).unwrap();
        let listed = listed.join().unwrap();
        assert!(listed.to_string().contains("slow"), "{listed}");
    });
}

/// An isolated agent that does all it can to the main checkout, and then what it was made for.
const REACHING_OUT: &str = r#"
when: isolate
call agent {"description": "x", "prompt": "reach out", "subagent_type": "general", "isolation": "worktree", "run_in_background": false}
---
say: back.

when: reach out
call write {"filePath": "MAIN/new.txt", "content": "x"}
---
call read {"filePath": "MAIN/README.md"}
---
call edit {"filePath": "MAIN/README.md", "oldString": "a", "newString": "b"}
---
call apply_patch {"patchText": "*** Begin Patch\n*** Add File: MAIN/patched.txt\n+x\n*** End Patch"}
---
call write {"filePath": "../../../up.txt", "content": "x"}
---
call bash {"command": "echo x > MAIN/new.txt"}
---
call bash {"command": "cp .git MAIN/new.txt; rm -f MAIN/README.md; git -C MAIN commit --allow-empty -m evil; git -C MAIN checkout -b evil"}
---
call write {"filePath": "own.txt", "content": "x"}
---
call bash {"command": "git add -A && git commit -q -m own && git log -1 --format=%s"}
---
say: done.
"#;

#[test]
fn an_isolated_agent_leaves_the_main_checkout_alone_whatever_is_allowed() {
    for (named, changed) in [(false, false), (true, true)] {
        let world = world("");
        let main = world.repo.path().canonicalize().unwrap();
        std::fs::write(main.join("README.md"), "a\n").unwrap();
        for words in ["config user.name t", "config user.email t@t", "add --all", "commit --quiet --message readme"] {
            git(&main, words);
        }
        world.home.script("play.script", &REACHING_OUT.replace("MAIN", main.to_str().unwrap()));
        let place = if named { format!("{}/*", main.display()) } else { "*".into() };
        let settings = json!({ "*": "allow", "external_directory": { "*": "allow", place: "allow" } });
        let mut config: Value =
            serde_json::from_str(&std::fs::read_to_string(world.home.config_file()).unwrap()).unwrap();
        config["permission"] = settings;
        std::fs::write(world.home.config_file(), config.to_string()).unwrap();
        let before = git(&main, "rev-parse HEAD");
        world.play(&["isolate"]);
        let own = git(&main, "for-each-ref --format=%(contents:subject) refs/heads/convoke");
        assert_eq!(own, "own", "it works in its own");
        if changed {
            assert!(main.join("patched.txt").exists(), "a rule names it");
            continue;
        }
        assert_eq!(git(&main, "status --porcelain"), "");
        assert_eq!((git(&main, "rev-parse HEAD"), git(&main, "symbolic-ref HEAD")), (before, "refs/heads/main".into()));
    }
}

#[test]
fn whoever_plans_gets_no_worktree() {
    let world = world(
        r#"
when: plan
call enter_worktree {"name": "fix"}
---
call agent {"description": "x", "prompt": "look", "subagent_type": "general", "isolation": "worktree", "run_in_background": false}
---
say: planned.

when: look
say: looked.
"#,
    );
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(world.home.config_file()).unwrap()).unwrap();
    config["permission"] = json!("allow");
    std::fs::write(world.home.config_file(), config.to_string()).unwrap();
    for how in [["--agent", "plan"], ["--permission-mode", "plan"]] {
        world.play(&[how[0], how[1], "plan"]);
        assert!(!world.repo.path().join(".convoke").exists(), "{how:?}");
        assert_eq!(git(world.repo.path(), "branch --list convoke/*"), "");
    }
    world.play(&["plan"]);
    assert!(world.tree("fix").exists(), "whoever builds does");
}

/// What a hostile repository, or an agent in an earlier command, may have left below `.git`. `DIR` is a folder elsewhere and
/// `FILE` a file in it.
const LEFT: &[&str] = &[
    "mkdir -p .git/logs/refs/heads/convoke; ln -s FILE .git/logs/refs/heads/convoke/fix",
    "mkdir -p .git/logs/refs/heads; ln -s DIR .git/logs/refs/heads/convoke",
    "rm -rf .git/logs/refs/heads; ln -s DIR .git/logs/refs/heads",
    "ln -s DIR .git/refs/heads/convoke",
    "ln -s DIR .git/worktrees",
    "rm -rf .git/info; ln -s DIR .git/info",
    "rm -f .git/info/exclude; ln -s FILE .git/info/exclude",
    "ln -s FILE .git/info/exclude.convoke-new",
    "ln -s FILE .git/commondir.convoke-new",
    "ln -s FILE .git/convoke-worktrees.lock",
    "ln -s DIR/new .git/convoke-worktrees.lock",
    "mkfifo .git/convoke-worktrees.lock",
    "ln -s FILE .git/packed-refs.lock",
    "mv .git/HEAD DIR/../HEAD; ln -s DIR/../HEAD .git/HEAD",
];

#[test]
fn links_in_a_repository_lead_the_gateway_nowhere() {
    for left in LEFT {
        let world = world_with(SCRIPT, json!({ "permission": "allow" }));
        let outside = tempfile::tempdir().unwrap();
        let (dir, file) = (outside.path().join("dir"), outside.path().join("dir/file"));
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(&file, "precious\n").unwrap();
        let script = left.replace("DIR", dir.to_str().unwrap()).replace("FILE", file.to_str().unwrap());
        let mut sh = Command::new("sh");
        assert!(sh.args(["-ec", &script]).current_dir(world.repo.path()).status().unwrap().success(), "{left}");
        let _ = world.convoke(["run", "enter"]);
        let _ = world.convoke(["run", "look"]);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious\n", "{left}");
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "{left}");
        assert!(!dir.join("new").exists(), "{left}");
        // It still answers.
        world.convoke(["ps", "--json"]).code(0);
    }
}

#[test]
fn a_file_that_is_hidden_from_an_agent_gets_into_no_snapshot() {
    let rules = json!({ "permission": { "*": "allow", "read": { "*": "allow", "private.txt": "deny" } } });
    let script = r#"
when: enter
call enter_worktree {"name": "fix"}
---
say: in.

when: remove
call exit_worktree {"action": "remove", "discard_changes": true}
---
say: out.
"#;
    let world = world_with(script, rules);
    world.play(&["enter"]);
    std::fs::write(world.tree("fix").join("private.txt"), "precious").unwrap();
    let said = world.convoke(["run", "--format", "json", "-c", "remove"]).stdout;
    assert!(said.contains("private.txt") && said.contains("snapshot"), "{said}");
    assert!(world.tree("fix").join("private.txt").exists());
    assert_eq!(git(world.repo.path(), "for-each-ref refs/convoke/snapshots"), "");
}

#[test]
fn rules_see_the_name_that_is_asked_for_and_the_file_it_leads_to() {
    let rules = json!({ "permission": {
        "*": "allow",
        "read": { "*": "allow", "secrets/*": "deny" },
        "edit": { "*": "allow", "locked/*": "deny" },
    } });
    let script = r#"
when: read
call read {"filePath": "secrets/key"}
---
call grep {"pattern": "precious", "path": "secrets"}
---
call edit {"filePath": "locked/a", "oldString": "old", "newString": "new"}
---
call write {"filePath": "locked/new", "content": "x"}
---
call apply_patch {"patchText": "*** Begin Patch\n*** Add File: locked/more\n+x\n*** End Patch"}
---
call bash {"command": "echo x > locked/by-line"}
---
say: done.
"#;
    let world = world_with(script, rules);
    let repo = world.repo.path();
    for name in ["vault", "open"] {
        std::fs::create_dir(repo.join(name)).unwrap();
    }
    std::fs::write(repo.join("vault/key"), "precious").unwrap();
    std::fs::write(repo.join("open/a"), "old").unwrap();
    std::os::unix::fs::symlink("vault", repo.join("secrets")).unwrap();
    std::os::unix::fs::symlink("open", repo.join("locked")).unwrap();
    let said = world.convoke(["run", "--format", "json", "read"]).stdout;
    let results = said.lines().filter(|line| line.contains("\"result\""));
    assert!(results.clone().count() == 6 && !results.clone().any(|line| line.contains(": precious")), "{said}");
    assert_eq!(std::fs::read_to_string(repo.join("open/a")).unwrap(), "old");
    assert_eq!(std::fs::read_dir(repo.join("open")).unwrap().count(), 1, "{said}");
    let why = world.convoke(["why", "read", "secrets/key"]).stdout;
    assert!(why.contains("deny"), "{why}");
}
