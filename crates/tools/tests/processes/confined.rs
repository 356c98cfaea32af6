//! What is promised about commands in a sandbox. Cases of the security list have their number in their name.

use crate::sandbox::{CANARY, LOOKING, OFF, OFFLINE, Room, WORKSPACE, places};
use crate::support::{block_on, processes_with, text, within};
use convoke_tools::process::Processes;
use convoke_tools::sandbox::{Backend, Mode, Reach, clear_up};
use proto::{Action, Rule};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub(crate) static ALL: &[(&str, fn())] = &[
    ("sockets_of_services_are_out_of_reach_wherever_they_are", sockets_of_services_are_out_of_reach_wherever_they_are),
    ("our_own_files_inside_of_a_workspace_stay_ours", our_own_files_inside_of_a_workspace_stay_ours),
    (
        "repositories_in_a_directory_that_a_rule_names_are_protected",
        repositories_in_a_directory_that_a_rule_names_are_protected,
    ),
    ("only_the_workspace_and_temporary_files_are_written", only_the_workspace_and_temporary_files_are_written),
    ("whoever_only_looks_writes_nothing_but_temporary_files", whoever_only_looks_writes_nothing_but_temporary_files),
    ("whoever_only_looks_has_nobody_write_for_it", whoever_only_looks_has_nobody_write_for_it),
    ("a_second_command_is_run_in_the_same_sandbox", a_second_command_is_run_in_the_same_sandbox),
    ("our_own_files_do_not_exist_for_a_command", our_own_files_do_not_exist_for_a_command),
    ("work_goes_on_as_usual_in_a_repository", work_goes_on_as_usual_in_a_repository),
    ("t27_protected_paths_cannot_be_made", t27_protected_paths_cannot_be_made),
    ("t27_protected_files_that_are_there_stay_as_they_are", t27_protected_files_that_are_there_stay_as_they_are),
    (
        "whoever_makes_a_protected_file_otherwise_is_not_kept_from_it",
        whoever_makes_a_protected_file_otherwise_is_not_kept_from_it,
    ),
    ("t27_a_protected_file_that_is_replaced_stays_protected", t27_a_protected_file_that_is_replaced_stays_protected),
    ("t27_what_submodules_run_stays_as_it_is", t27_what_submodules_run_stays_as_it_is),
    (
        "t27_agents_and_commands_cannot_be_made_in_the_users_own_directory",
        t27_agents_and_commands_cannot_be_made_in_the_users_own_directory,
    ),
    ("t27_what_leads_git_elsewhere_cannot_be_made", t27_what_leads_git_elsewhere_cannot_be_made),
    (
        "a_repository_that_a_command_makes_runs_nothing_in_the_users_git",
        a_repository_that_a_command_makes_runs_nothing_in_the_users_git,
    ),
    ("a_repository_inside_that_is_there_stays_where_it_is", a_repository_inside_that_is_there_stays_where_it_is),
    ("a_linked_worktree_leaves_the_main_one_alone", a_linked_worktree_leaves_the_main_one_alone),
    (
        "a_main_worktree_that_a_rule_names_is_open_to_a_linked_one",
        a_main_worktree_that_a_rule_names_is_open_to_a_linked_one,
    ),
    ("a_link_of_the_workspace_opens_nothing_outside", a_link_of_the_workspace_opens_nothing_outside),
    ("a_link_that_comes_and_goes_opens_nothing_outside", a_link_that_comes_and_goes_opens_nothing_outside),
    ("t27_nothing_is_left_behind", t27_nothing_is_left_behind),
    ("t28_files_that_rules_deny_cannot_be_read", t28_files_that_rules_deny_cannot_be_read),
    ("t28_a_file_that_rules_deny_cannot_be_moved_into_sight", t28_a_file_that_rules_deny_cannot_be_moved_into_sight),
    ("files_that_rules_deny_to_edit_cannot_be_changed", files_that_rules_deny_to_edit_cannot_be_changed),
    (
        "t42_a_worktree_does_not_reach_hooks_and_settings_of_its_main",
        t42_a_worktree_does_not_reach_hooks_and_settings_of_its_main,
    ),
    ("t43_without_network_nothing_outside_is_reached", t43_without_network_nothing_outside_is_reached),
    (
        "a_folder_that_is_merely_called_git_hides_nothing_from_the_rules",
        a_folder_that_is_merely_called_git_hides_nothing_from_the_rules,
    ),
    ("no_file_is_left_that_runs_as_its_owner_or_group", no_file_is_left_that_runs_as_its_owner_or_group),
    ("t43_sockets_of_services_are_out_of_reach", t43_sockets_of_services_are_out_of_reach),
    ("t43_other_processes_are_out_of_reach", t43_other_processes_are_out_of_reach),
    ("the_machine_cannot_be_steered_through_proc", the_machine_cannot_be_steered_through_proc),
    ("t45_a_cancelled_command_leaves_nothing_in_its_sandbox", t45_a_cancelled_command_leaves_nothing_in_its_sandbox),
    ("t45_a_killed_gateway_leaves_no_sandbox", t45_a_killed_gateway_leaves_no_sandbox),
    ("t47_only_listed_variables_get_inside", t47_only_listed_variables_get_inside),
    ("a_killed_sandbox_is_replaced", a_killed_sandbox_is_replaced),
    ("a_sandbox_that_cannot_be_made_runs_nothing", a_sandbox_that_cannot_be_made_runs_nothing),
    (
        "landlock_alone_refuses_writes_elsewhere_and_says_what_it_lacks",
        landlock_alone_refuses_writes_elsewhere_and_says_what_it_lacks,
    ),
    (
        "without_anything_only_what_nobody_asked_to_be_held_runs",
        without_anything_only_what_nobody_asked_to_be_held_runs,
    ),
];

fn only_the_workspace_and_temporary_files_are_written() {
    let Some(room) = Room::new() else { return };
    let elsewhere = room.path("elsewhere/x");
    room.ok(WORKSPACE, "echo hello > src/new; mkdir -p deep/er; echo t > /tmp/x; cat /tmp/x; echo v > /var/tmp/y");
    assert_eq!(std::fs::read_to_string(room.work.join("src/new")).unwrap(), "hello\n");
    for target in [elsewhere.display().to_string(), "/etc/x".into(), "$HOME/x".into(), "/usr/x".into()] {
        let said = room.fails(WORKSPACE, &format!("echo x > {target}"));
        assert!(said.contains("Read-only file system") || said.contains("No such file"), "{target}: {said}");
    }
    assert!(!elsewhere.exists());
    room.ok(OFF, &format!("echo x > {}", elsewhere.display()));
    assert!(elsewhere.exists());
}

fn whoever_only_looks_writes_nothing_but_temporary_files() {
    let Some(room) = Room::new() else { return };
    room.put("a", "content");
    assert_eq!(room.ok(LOOKING, "cat a"), "content");
    for script in ["echo x > a", "echo x > b", "rm a", "mkdir d", "mv a c", "chmod 777 a", "touch a"] {
        let said = room.fails(LOOKING, script);
        assert!(said.contains("Read-only file system"), "{script}: {said}");
    }
    // Temporary files are the session's: another sandbox of it that only looks has them as well.
    room.ok(LOOKING, "echo mine > /tmp/x");
    assert_eq!(room.ok(Reach { network: true, ..LOOKING }, "cat /tmp/x"), "mine\n");
    room.fails(WORKSPACE, "cat /tmp/x");
}

async fn comes(room: &Room, names: &[&str]) {
    for _ in 0..2000 {
        if names.iter().all(|name| room.work.join(name).exists()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{names:?} did not come");
}

/// A command that was started before and may write does what it is told: by a file, by a pipe or by a socket.
fn whoever_only_looks_has_nobody_write_for_it() {
    for room in [Room::new(), Room::by_landlock()].into_iter().flatten() {
        // Below `/tmp` a pipe in the workspace would count as one of the temporary files.
        let room = Room::held_in(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(), room.backend);
        let serve = "import os, socket, threading\n\
            def obey(s):\n\
            \x20   while True: os.system(s.recv(999) if s.type == socket.SOCK_DGRAM else s.accept()[0].recv(999))\n\
            for name, kind in ((\"stream\", socket.SOCK_STREAM), (\"dgram\", socket.SOCK_DGRAM)):\n\
            \x20   s = socket.socket(socket.AF_UNIX, kind); s.bind(name)\n\
            \x20   if kind == socket.SOCK_STREAM: s.listen()\n\
            \x20   threading.Thread(target=obey, args=(s,), daemon=True).start()\n\
            threading.Event().wait()\n";
        room.put("serve.py", serve);
        let has_python = has("python3");
        let job = format!(
            "{} mkfifo pipe; exec 3<>pipe; while read -r line <&3; do eval \"$line\"; done & touch ready; while ! [ -e stop ]; do \
             if mv $TMPDIR/order $TMPDIR/taken 2>/dev/null; then sh $TMPDIR/taken; fi; sleep 0.01; done",
            if has_python { "python3 serve.py & while ! [ -e dgram ]; do sleep 0.01; done;" } else { "" }
        );
        let mut tries = vec![
            "echo 'touch evil' > $TMPDIR/order; echo 'touch evil' > /tmp/order".to_owned(),
            "timeout 5 sh -c 'echo touch evil > pipe'".into(),
            "timeout 5 sh -c 'echo touch evil 1<>pipe >&1'".into(),
        ];
        if has_python {
            for (name, kind) in [("stream", "STREAM"), ("dgram", "DGRAM")] {
                tries.push(format!(
                    "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_{kind}); s.connect(\"{name}\"); s.send(b\"touch evil\")'"
                ));
            }
            tries.push("python3 -c 'import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.sendto(b\"touch evil\", \"dgram\")'".into());
            for kind in ["DGRAM", "RAW"] {
                tries.push(format!("python3 -c 'import socket; s, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_{kind}); s.sendto(b\"touch evil\", \"dgram\")'"));
                tries.push(format!("python3 -c 'import socket; s, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_{kind}); s.sendmsg([b\"touch evil\"], [], 0, \"dgram\")'"));
            }
        }
        block_on(async {
            let plan = async {
                comes(&room, &["ready"]).await;
                for script in &tries {
                    let tried = text(&room.run(LOOKING, script).await.unwrap());
                    // Whoever may write is obeyed, and after all that came before.
                    room.run(
                        WORKSPACE,
                        "echo 'touch control' > $TMPDIR/o; mv $TMPDIR/o $TMPDIR/order; echo touch piped > pipe",
                    )
                    .await
                    .unwrap();
                    comes(&room, &["control", "piped"]).await;
                    assert!(!room.work.join("evil").exists(), "{script}: {tried}");
                    std::fs::remove_file(room.work.join("control")).unwrap();
                    std::fs::remove_file(room.work.join("piped")).unwrap();
                }
                std::fs::write(room.work.join("stop"), "").unwrap();
            };
            let (finished, ()) = tokio::join!(room.run(WORKSPACE, &job), plan);
            assert_eq!(finished.unwrap().code, Some(0));
        });
        assert!(!room.work.join("evil").exists());
    }
}

fn a_second_command_is_run_in_the_same_sandbox() {
    let Some(room) = Room::new() else { return };
    let look = "readlink /proc/self/ns/pid";
    let seen = block_on(async {
        let mut seen = Vec::new();
        for reach in [WORKSPACE, WORKSPACE, LOOKING, OFF] {
            seen.push(text(&room.run(reach, look).await.unwrap()));
        }
        seen
    });
    assert_eq!(seen[0], seen[1]);
    assert!(seen[2] != seen[0] && seen[3] != seen[0] && seen[3] != seen[2], "{seen:?}");
}

fn our_own_files_do_not_exist_for_a_command() {
    let Some(room) = Room::new() else { return };
    // Of what was saved, that of its own tree does.
    let saved = format!("state/outputs/{}/long", room.session);
    let own = format!("home/{saved}");
    let others = "home/state/outputs/ses_other/long";
    for name in ["home/config/convoke.jsonc", "home/state/auth.json", "home/run/s.sock", &own, others] {
        let path = room.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "secret").unwrap();
    }
    let home = room.path("home");
    for reach in [WORKSPACE, LOOKING, Reach { mode: Mode::Off, network: false, asked: true }] {
        let seen = room.ok(reach, &format!("cd {}; find . -type f", home.display()));
        assert_eq!(seen, format!("./{saved}\n"), "{reach:?}");
        room.fails(reach, &format!("echo x > {}/{saved}", home.display()));
    }
    assert_eq!(std::fs::read_to_string(home.join(saved)).unwrap(), "secret");
}

fn work_goes_on_as_usual_in_a_repository() {
    let Some(room) = Room::new() else { return };
    let room = room.repository();
    let said = room.ok(
        WORKSPACE,
        "echo two > b.txt && git add --all && git commit --quiet -m second && git status --porcelain && git log --format=%s",
    );
    assert_eq!(said, "second\nfirst\n");
    assert_eq!(room.git("log --format=%s"), "second\nfirst\n");
    room.ok(WORKSPACE, "git switch --quiet -c other && git stash list && git gc --quiet && git switch --quiet main");
    assert_eq!(room.git("show --stat --format= HEAD").trim().lines().count(), 2, "nothing but the file was committed");
}

fn t27_protected_paths_cannot_be_made() {
    let Some(room) = Room::new() else { return };
    let room = room.repository();
    std::fs::remove_dir_all(room.work.join(".git/hooks")).unwrap();
    let config = std::fs::read_to_string(room.work.join(".git/config")).unwrap();
    for script in [
        "echo x > .convoke/x",
        "mkdir -p .convoke/agents",
        "rmdir .convoke && mkdir .convoke",
        "mv .convoke x",
        "ln -sfn /etc .convoke && test -e .convoke/passwd",
        "echo {} > convoke.json",
        "echo {} > convoke.jsonc",
        "rm -rf convoke.json",
        "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
        "rm -rf .git/hooks",
        "echo x >> .git/config",
        "git config core.hooksPath hooks",
        "git config core.fsmonitor ./x",
        "mv .git/config .git/old",
        "mv .git old && mkdir .git",
        "echo KEY=1 > .env",
        "cat .env",
    ] {
        room.fails(WORKSPACE, script);
    }
    assert_eq!(std::fs::read_to_string(room.work.join(".git/config")).unwrap(), config);
}

fn t27_protected_files_that_are_there_stay_as_they_are() {
    let Some(room) = Room::new() else { return };
    room.put(".convoke/agents/a.md", "mine");
    room.put(".env", "KEY=1");
    assert_eq!(room.ok(WORKSPACE, "cat .convoke/agents/a.md"), "mine");
    let said = room.fails(WORKSPACE, "echo x > .convoke/agents/a.md");
    assert!(said.contains("Read-only file system"), "{said}");
    let said = room.fails(WORKSPACE, "cat .env");
    assert!(said.contains("Permission denied"), "{said}");
    for script in ["echo x > .env", "rm -f .env", "mv .env x", "cp .env x", "ln .env x"] {
        room.fails(WORKSPACE, script);
    }
    assert_eq!(std::fs::read_to_string(room.work.join(".env")).unwrap(), "KEY=1");
}

fn whoever_makes_a_protected_file_otherwise_is_not_kept_from_it() {
    let Some(room) = Room::new() else { return };
    let env = room.work.join(".env");
    block_on(async {
        room.run(WORKSPACE, "true").await.unwrap();
        assert!(env.is_dir());
        room.reaper.give_way(&env);
        std::fs::write(&env, "KEY=1").unwrap();
        let said = text(&room.run(WORKSPACE, "cat .env").await.unwrap());
        assert!(said.contains("Permission denied"), "{said}");
    });
    assert_eq!(std::fs::read_to_string(&env).unwrap(), "KEY=1");
}

fn t27_a_protected_file_that_is_replaced_stays_protected() {
    let Some(room) = Room::new() else { return };
    let room = room.repository();
    room.put(".env", "KEY=1");
    block_on(async {
        room.run(WORKSPACE, "true").await.unwrap();
        // As editors and git do it, and as somebody does who tidies up.
        room.git("config some.thing new");
        room.put("new", "KEY=2");
        std::fs::rename(room.work.join("new"), room.work.join(".env")).unwrap();
        std::fs::remove_dir(room.work.join(".convoke")).unwrap();
        for script in ["cat .env", "echo x >> .git/config", "mkdir .convoke", "echo x > .convoke/x"] {
            let finished = room.run(WORKSPACE, script).await.unwrap();
            assert_ne!(finished.code, Some(0), "{script}: {}", text(&finished));
        }
    });
    assert!(!std::fs::read_to_string(room.work.join(".git/config")).unwrap().contains('x'));
}

fn t27_what_submodules_run_stays_as_it_is() {
    let Some(room) = Room::new() else { return };
    let mut room = room.repository();
    room.git("init --quiet --bare .git/modules/a/b");
    room.git("config extensions.worktreeConfig true");
    let before = room.listed();
    for script in [
        "echo x >> .git/modules/a/b/config",
        "echo x > .git/modules/a/b/hooks/post-checkout",
        "mv .git/modules/a/b .git/modules/a/c",
        "mv .git/modules/a .git/modules/c",
        "mv .git/modules .git/other",
        "git config --worktree core.fsmonitor ./x",
        "echo x > .git/config.worktree",
    ] {
        room.fails(WORKSPACE, script);
    }
    // Ours does not get into the way of git's, neither inside nor outside.
    block_on(async {
        let finished =
            room.run(WORKSPACE, "git status --porcelain && touch .git/modules/a/b/FETCH_HEAD").await.unwrap();
        assert_eq!((finished.code, text(&finished).as_str()), (Some(0), ""));
        assert_eq!(room.git("status --porcelain"), "");
        let inside = "readlink /proc/self/ns/pid";
        assert_eq!(
            room.run(WORKSPACE, inside).await.unwrap().output,
            room.run(WORKSPACE, inside).await.unwrap().output
        );
        room.reaper = Room::held_by(Backend::Nobody).reaper;
    });
    assert_eq!(room.listed(), before);
}

fn t27_agents_and_commands_cannot_be_made_in_the_users_own_directory() {
    let Some(room) = Room::new() else { return };
    let room = room.at_home();
    room.put(".claude/agents/a.md", "mine");
    for script in [
        "mkdir -p .opencode/agent && echo x > .opencode/agent/x.md",
        "mkdir -p .claude/commands && echo x > .claude/commands/x.md",
        "echo x > .claude/agents/x.md",
        "mv .claude other && mkdir -p .claude/agents",
        "mkdir -p x/agent && mv x .opencode && touch .opencode/agent/x.md",
    ] {
        room.fails(WORKSPACE, script);
    }
    room.ok(WORKSPACE, "echo x > .claude/notes");
    // Elsewhere the same folders are nobody's business while they do not exist.
    let Some(room) = Room::new() else { return };
    room.ok(WORKSPACE, "mkdir -p .opencode/agent .claude/commands");
}

fn t27_what_leads_git_elsewhere_cannot_be_made() {
    let Some(room) = Room::new() else { return };
    let mut room = room.repository();
    room.git("init --quiet --bare .git/modules/a");
    room.git("worktree add --quiet ../linked");
    let before = room.listed();
    room.put("evil/config", "[core]\n\tfsmonitor = touch ran; false\n");
    for name in ["evil/refs/x", "evil/objects/x", "evil/HEAD"] {
        room.put(name, "ref: refs/heads/main\n");
    }
    for script in [
        "echo ../evil > .git/commondir",
        "rm -f .git/commondir && echo ../evil > .git/commondir",
        "echo ../evil > x && mv -f x .git/commondir",
        "ln -sfn ../evil .git/commondir",
        "mv .git/commondir .git/x",
        "echo ../../../evil > .git/modules/a/commondir",
        "cp -r evil .git/modules/new",
        "mkdir .git/modules/a/modules/new",
        "echo ../../../evil > .git/worktrees/linked/commondir",
        "echo x > .git/worktrees/linked/gitdir",
        "mkdir .git/worktrees/new",
        "mv .git/worktrees .git/others",
    ] {
        room.fails(WORKSPACE, script);
    }
    room.ok(WORKSPACE, "echo two > b.txt && git add b.txt && git commit --quiet -m second && git status");
    block_on(async {
        room.run(WORKSPACE, "true").await.unwrap();
        // What stands in for it means nothing to git, inside or outside.
        assert_eq!(room.git("status --porcelain"), "?? evil/\n?? x\n");
        assert_eq!(room.git("rev-parse --show-toplevel").trim(), room.work.display().to_string());
        assert_eq!(room.git("worktree list").lines().count(), 2);
        room.reaper = Room::held_by(Backend::Nobody).reaper;
    });
    std::fs::remove_dir_all(room.work.join("evil")).unwrap();
    room.git("reset --quiet --hard HEAD~1");
    for name in ["x", ".git/ORIG_HEAD"] {
        let _ = std::fs::remove_file(room.work.join(name));
    }
    assert!(!room.work.join("ran").exists());
    assert_eq!(room.listed(), before);
    let Some(room) = Room::new() else { return };
    let room = room.repository();
    room.put(".git/commondir", "../evil");
    let why = room.refused(WORKSPACE, "true");
    assert!(why.contains("leads git elsewhere"), "{why}");
}

/// What a command leaves behind, and where the user's git comes by then.
const TRAPS: &[(&str, &str)] = &[
    ("git init -q; git config core.fsmonitor 'touch CANARY; false'", "."),
    ("git init -q; git add f; touch -d yesterday f; git config core.hooksPath evil", "."),
    (
        "git init -q; printf '[core]\\n\\tfsmonitor = \"touch CANARY; false\"\\n' > .git/inc; git config include.path inc",
        ".",
    ),
    (
        "git init -q; printf '[core]\\n\\tfsmonitor = \"touch CANARY; false\"\\n' > .git/inc; git config includeIf.onbranch:**.path inc",
        ".",
    ),
    ("git init -q; git add f; touch -d yesterday f; cp evil/* .git/hooks/", "."),
    (
        "git init -q; git config extensions.worktreeConfig true; git config --worktree core.fsmonitor 'touch CANARY; false'",
        ".",
    ),
    (
        "git init -q e; git -C e config core.fsmonitor 'touch CANARY; false'; git init -q; echo ../e/.git > .git/commondir",
        ".",
    ),
    ("git init -q e; git -C e config core.fsmonitor 'touch CANARY; false'; ln -s e/.git .git", "."),
    ("git init -q e; git -C e config core.fsmonitor 'touch CANARY; false'; echo gitdir: e/.git > .git", "."),
    (
        "git init -q; git config filter.x.clean 'touch CANARY; cat'; echo '* filter=x' > .gitattributes; git add .gitattributes; touch -d yesterday f; git add f; echo y > f",
        ".",
    ),
    (
        "cd src; git init -q --bare .; git config core.bare false; git config core.worktree ..; git config core.fsmonitor 'touch CANARY; false'",
        "src",
    ),
    ("cd src; git init -q; git config core.fsmonitor 'touch CANARY; false'", "src"),
    // Repositories inside of one that is there.
    ("OUTER; NEW sub; git -C sub config core.fsmonitor 'touch CANARY; false'; git add sub", "."),
    ("OUTER; NEW sub; git add sub; touch -d yesterday sub/f; cp evil/* sub/.git/hooks/", "."),
    (
        "OUTER; NEW a/b/sub; git add a; rm -rf a/b/sub; NEW a/b/sub; git -C a/b/sub config core.fsmonitor 'touch CANARY; false'",
        ".",
    ),
    (
        "OUTER; NEW sub; NEW sub/in; git -C sub add in; git -C sub commit -qm in; git add sub; git -C sub/in config core.fsmonitor 'touch CANARY; false'",
        ".",
    ),
    (
        "OUTER; NEW sub; git add sub; git -C sub config filter.x.clean 'touch CANARY; cat'; echo '* filter=x' > sub/.git/info/attributes; echo y > sub/f",
        ".",
    ),
    // What git takes for one of its directories need not look like one that it made.
    ("mkdir -p objects refs/heads; ln -s refs/heads/x HEAD; BARE > config", "."),
    ("echo ref: refs/heads/x > HEAD; touch objects refs; chmod 755 objects refs; BARE > config", "."),
    // The way to it is made by one command, and what it leads to by the next.
    ("echo gitdir: x > .git THEN mkdir -p x/objects x/refs; echo ref: refs/heads/x > x/HEAD; BARE > x/config", "."),
    (
        "OUTER; NEW sub; mv sub/.git .git/evil; echo gitdir: ../.git/evil > sub/.git; git add sub THEN git -C sub config core.fsmonitor 'touch CANARY; false'",
        ".",
    ),
    (
        "OUTER; NEW sub; git add sub; mv sub/.git hold; echo gitdir: ../later > sub/.git THEN mv hold later; git -C sub config core.fsmonitor 'touch CANARY; false'",
        ".",
    ),
    // Outside of the workspace, where a command may write all the same.
    (
        "T=${TMPDIR:-TEMPORARY}; mkdir -p $T/e/objects $T/e/refs; echo ref: refs/heads/x > $T/e/HEAD; BARE > $T/e/config; echo gitdir: TEMPORARY/e > .git",
        ".",
    ),
    // All names are taken, or none can be given.
    (
        "git init -q; for i in '' $(seq 1 99); do : > .git/config.disabled$i; done; git config core.fsmonitor 'touch CANARY; false'",
        ".",
    ),
    (
        "git init -q; git config core.fsmonitor 'touch CANARY; false'; chmod 500 .git; chmod 0 .git/config; chmod 400 .git/config",
        ".",
    ),
];

fn a_repository_that_a_command_makes_runs_nothing_in_the_users_git() {
    let new = |name: &str| {
        format!(
            "git init -q {name}; (cd {name}; git config user.name t; git config user.email t@t; echo x > f; git add f; git commit -qm one)"
        )
    };
    for backend in [Room::new(), Room::by_landlock()].into_iter().flatten().map(|room| room.backend) {
        for (trap, place) in TRAPS {
            // As a control: without a sandbox the user's git falls for it.
            for (reach, falls) in [(WORKSPACE, false), (OFF, true)] {
                let room = Room::held_by(backend.clone());
                let canary = room.work.join("canary");
                room.put("f", "x\n");
                room.put("evil/post-index-change", &format!("#!/bin/sh\ntouch {}\n", canary.display()));
                let runs = std::fs::Permissions::from_mode(0o755);
                std::fs::set_permissions(room.work.join("evil/post-index-change"), runs).unwrap();
                let room = if trap.contains("OUTER") { room.repository() } else { room };
                let mut script = trap.replace("OUTER", "true").replace("CANARY", canary.to_str().unwrap());
                for name in ["sub/in", "a/b/sub", "sub"] {
                    script = script.replace(&format!("NEW {name};"), &format!("{};", new(name)));
                }
                let bare = "printf '[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = WORK\\n\\tfsmonitor = \"touch CANARY; false\"\\n'";
                let work = room.work.to_str().unwrap();
                script = script.replace("BARE", bare).replace("CANARY", canary.to_str().unwrap()).replace("WORK", work);
                let mut notices = Vec::new();
                let mut said = String::new();
                for script in script.split(" THEN ") {
                    let mut command = room.command(reach, script);
                    let mut confine = std::sync::Arc::unwrap_or_clone(command.confine.take().unwrap());
                    let temporary = room.temporary(&confine.session);
                    if let Some(argument) = command.args.last_mut() {
                        *argument = argument.replace("TEMPORARY", temporary.to_str().unwrap());
                    }
                    if *place == "src" {
                        confine.dir = room.work.join("src");
                    }
                    command.confine = Some(std::sync::Arc::new(confine));
                    let finished = block_on(room.reaper.run(command, &CancellationToken::new())).unwrap();
                    said.push_str(&text(&finished));
                    notices.extend(finished.notice);
                }
                let _ = std::fs::remove_file(&canary);
                let mut git = std::process::Command::new("git");
                let status = git.args(["status"]).current_dir(room.work.join(place)).output().unwrap();
                assert_eq!(canary.exists(), falls, "{backend:?} {reach:?} {trap}: {said} {notices:?} {status:?}");
                // From the second command on it is protected, and nothing has to be taken out.
                if !falls && !trap.contains("THEN") {
                    assert!(notices.concat().contains("work/"), "{trap}: {notices:?}");
                }
            }
        }
        // What runs nothing stays as it is.
        let room = Room::held_by(backend);
        let script = "git init -q; git config user.name t; git config user.email t@t; git remote add origin https://example.org/x; touch f; \
                      git add f; git commit -qm one; cp .git/config copy";
        let finished = block_on(room.run(WORKSPACE, script)).unwrap();
        assert_eq!(finished.code, Some(0), "{}", text(&finished));
        assert_eq!(
            std::fs::read(room.work.join(".git/config")).unwrap(),
            std::fs::read(room.work.join("copy")).unwrap()
        );
    }
}

fn a_repository_inside_that_is_there_stays_where_it_is() {
    let Some(room) = Room::new() else { return };
    let room = room.repository();
    room.git("init --quiet --bare --initial-branch main ../upstream");
    for words in [
        "push --quiet ../upstream main",
        "-c protocol.file.allow=always submodule --quiet add ../upstream sub",
        "init --quiet deep/plain",
        "-C deep/plain -c user.name=t -c user.email=t@t commit --quiet --allow-empty --message one",
        "add deep/plain",
        "commit --quiet --message links",
    ] {
        room.git(words);
    }
    let canary = room.work.join("canary");
    let evil = format!("touch {}; false", canary.display());
    room.git("init --quiet evil");
    room.put("evil/.git/config", &format!("[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"{evil}\"\n"));
    for script in [
        "echo gitdir: ../evil/.git > sub/.git",
        "rm sub/.git && cp -r evil/.git sub/.git",
        "mv sub old && cp -r evil sub",
        "mv deep old && mkdir deep && cp -r evil deep/plain",
        "cat evil/.git/config > deep/plain/.git/config",
        "git -C deep/plain config core.fsmonitor x",
        "git -C sub config core.fsmonitor x",
        "mkdir -p deep/plain/.git/hooks && touch deep/plain/.git/hooks/post-index-change",
        "echo ../../../evil/.git > deep/plain/.git/commondir",
        "echo ../../../evil/.git > .git/modules/sub/commondir",
    ] {
        let said = text(&block_on(room.run(WORKSPACE, script)).unwrap());
        let status = std::process::Command::new("git").arg("status").current_dir(&room.work).output().unwrap();
        assert!(status.status.success() && !canary.exists(), "{script}: {said} {status:?}");
    }
    room.ok(WORKSPACE, "cd deep/plain && git config --get user.name; touch f && git add f && git -c user.name=t -c user.email=t@t commit -qm two");
    // Over another mount, files are copied and deleted: what is left of it is no repository.
    let _ = block_on(room.run(WORKSPACE, "mv deep/plain/.git deep/x; cp -r evil/.git deep/plain/.git"));
    let _ = std::process::Command::new("git").arg("status").current_dir(&room.work).output().unwrap();
    assert!(!canary.exists());
}

/// Everything of the main worktree that a linked one must leave alone.
fn main_of(main: &std::path::Path) -> String {
    let run = |words: &str| {
        let output = std::process::Command::new("bash").args(["-c", words]).current_dir(main).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    run(
        "git rev-parse HEAD; git symbolic-ref HEAD; find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum; \
         cd .git; sha256sum HEAD index config; find hooks info modules -type f 2>/dev/null | sort | xargs sha256sum; ls; \
         cat logs/HEAD",
    )
}

fn a_linked_worktree_leaves_the_main_one_alone() {
    for (mut room, packed) in [(Room::new(), false), (Room::new(), true), (Room::by_landlock(), false)]
        .into_iter()
        .filter_map(|(r, p)| Some((r?.repository(), p)))
    {
        let main = room.work.clone();
        room.git("branch other");
        room.git("commit --quiet --allow-empty --message second");
        room.git("worktree add --quiet -b convoke/x ../linked");
        if packed {
            room.git("switch --quiet -c deep/er");
            room.git("pack-refs --all");
            std::fs::remove_dir_all(main.join(".git/refs/heads")).unwrap();
            std::fs::create_dir_all(main.join(".git/refs/heads/convoke")).unwrap();
        }
        // Rules that allow everything name nothing.
        room.rules.push(Rule::new("external_directory", "*", Action::Allow));
        let before = main_of(&main);
        room.work = room.path("linked");
        let at = main.display();
        for script in [
            "git -C MAIN commit --allow-empty -m evil",
            "cd MAIN && echo x > a.txt && git commit -am evil",
            "git -C MAIN symbolic-ref HEAD refs/heads/other",
            "git -C MAIN checkout other",
            "git -C MAIN reset --soft other",
            "git -C MAIN update-ref HEAD other",
            "git update-ref refs/heads/main other",
            "git update-ref refs/heads/deep/er other",
            "git -C MAIN rm --cached a.txt",
            "git -C MAIN config core.fsmonitor ./x",
            "git -C MAIN stash push --include-untracked",
            "GIT_DIR=MAIN/.git GIT_WORK_TREE=. git add . ",
            "GIT_DIR=MAIN/.git git commit --allow-empty -m evil",
            "GIT_INDEX_FILE=MAIN/.git/index git rm --cached a.txt",
            "git branch -f main other; git branch -f deep/er other",
            "git branch -m main gone",
            "git branch -m deep/er gone",
            "git push . +other:main; git push . +other:deep/er",
            "git fetch . +other:main; git fetch . +other:deep/er",
            "echo x > MAIN/new",
            "echo x > MAIN/a.txt",
            "rm MAIN/a.txt",
            "echo x > MAIN/.git/hooks/pre-commit",
            "echo x > MAIN/.git/index",
            "echo x > MAIN/.git/info/attributes",
            "mv MAIN/.git/refs/heads MAIN/.git/refs/old",
            "mv MAIN/.git/refs MAIN/.git/old",
            "mkdir -p MAIN/.git/refs/heads/deep/er/x/y",
            "git worktree remove --force MAIN",
            "rm MAIN/.git/refs/heads/main MAIN/.git/refs/heads/deep/er",
            "git rev-parse other > MAIN/.git/refs/heads/main",
            "git rev-parse other > MAIN/.git/refs/heads/deep/er",
            "git pack-refs --all",
        ] {
            // Some of it goes well, and concerns others.
            let _ = block_on(room.run(WORKSPACE, &script.replace("MAIN", &at.to_string())));
            assert_eq!(main_of(&main), before, "{script}");
        }
        // What is made beside its files is not there for anybody else.
        let _ = block_on(
            room.run(WORKSPACE, &format!("cd {at}/.git; echo x > MERGE_HEAD; echo x > commondir; touch index.lock")),
        );
        assert_eq!(main_of(&main), before);
        room.ok(WORKSPACE, "echo new > n.txt && git add --all && git commit --quiet -m new && echo more >> n.txt && git commit --quiet --amend -am newer");
        if room.is_bubblewrap() {
            room.ok(
                WORKSPACE,
                "set -e; git switch --quiet -c convoke/y; echo y > y; git add y; git commit --quiet -m y; git switch --quiet convoke/x; \
                 git merge --quiet --no-edit --no-ff convoke/y; echo z >> n.txt; git stash --quiet; git stash pop --quiet; \
                 git commit --quiet -am z; git rebase --quiet --force-rebase HEAD~1; git branch --quiet -D convoke/y; git tag t; \
                 git fetch --quiet . main:refs/remotes/o/m; git log -1 --format=%s | grep -q z; git status --porcelain",
            );
        }
        assert_eq!(main_of(&main), before);
        assert_eq!(room.git("status --porcelain"), "");
        room.git("fsck --strict --no-dangling");
        room.work = main.clone();
        assert!(room.git("log --format=%s convoke/x").contains("new"));
        assert_eq!(room.git("status --porcelain"), "");
    }
}

fn a_main_worktree_that_a_rule_names_is_open_to_a_linked_one() {
    let Some(room) = Room::new() else { return };
    let mut room = room.repository();
    let main = room.work.clone();
    room.git("worktree add --quiet -b convoke/x ../linked");
    room.rules.push(Rule::new("external_directory", format!("{}/*", main.display()), Action::Allow));
    room.work = room.path("linked");
    room.ok(WORKSPACE, &format!("cd {} && echo x > a.txt && git commit --quiet -am named", main.display()));
    room.fails(WORKSPACE, &format!("git -C {} config core.fsmonitor ./x", main.display()));
    room.fails(WORKSPACE, &format!("echo x > {}/.git/hooks/pre-commit", main.display()));
    room.work = main;
    assert_eq!(room.git("log -1 --format=%s"), "named\n");
}

fn a_link_of_the_workspace_opens_nothing_outside() {
    let rooms = [Room::new(), Room::by_landlock()];
    for room in rooms.into_iter().flatten() {
        let mut room = room.repository();
        let outside = room.path("elsewhere");
        for name in ["settings.json", "opencode.json", "agents/a.md", "sub/HEAD", "sub/config", "agent/b.md"] {
            let path = outside.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "theirs").unwrap();
        }
        let inner = room.work.join("src/named");
        std::os::unix::fs::symlink(&outside, &inner).unwrap();
        room.rules.push(Rule::new("external_directory", format!("{}/*", inner.display()), Action::Allow));
        let places = [".claude", ".opencode", ".convoke", ".git/modules", "src/.claude", ".git/worktrees", ".git/info"];
        for place in places {
            let link = room.work.join(place);
            let kept = room.path("kept");
            let moved = std::fs::rename(&link, &kept).is_ok();
            for target in
                [outside.clone(), "../../elsewhere".into(), "../elsewhere".into(), "../../../elsewhere".into()]
            {
                std::os::unix::fs::symlink(&target, &link).unwrap();
                let script = format!(
                    "echo x > {place}/new; echo x > {place}/sub/new; echo x > {place}/settings.json; rm -r {place}/sub; \
                     mkdir -p {place}/sub/hooks/x; echo x > {}/new; echo x > src/named/new",
                    outside.display()
                );
                // Some are refused for the link's sake, which is as good.
                let _ = block_on(room.run(WORKSPACE, &script));
                let at = format!("{place} -> {}", target.display());
                assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 5, "{at}");
                assert_eq!(std::fs::read_dir(outside.join("sub")).unwrap().count(), 2, "{at}");
                assert_eq!(std::fs::read_to_string(outside.join("settings.json")).unwrap(), "theirs", "{at}");
                std::fs::remove_file(&link).unwrap();
            }
            if moved {
                std::fs::rename(&kept, &link).unwrap();
            }
        }
        // A link that stays inside is followed, and what it leads to is protected.
        room.put("shared/settings.json", "mine");
        std::os::unix::fs::symlink("shared", room.work.join(".claude")).unwrap();
        if room.is_bubblewrap() {
            room.fails(WORKSPACE, "echo x > .claude/settings.json");
            room.fails(WORKSPACE, "echo x > shared/settings.json");
        }
        room.ok(WORKSPACE, "echo x > shared/other");
    }
}

/// Somebody who puts a link in the way and takes it back all the time, while sandboxes are made.
fn a_link_that_comes_and_goes_opens_nothing_outside() {
    let Some(room) = Room::new() else { return };
    let outside = room.path("elsewhere");
    std::fs::write(outside.join("settings.json"), "theirs").unwrap();
    room.put(".claude/settings.json", "mine");
    let (link, aside) = (room.work.join(".claude"), room.path("aside"));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = std::fs::rename(&link, &aside);
                let _ = std::os::unix::fs::symlink("../elsewhere", &link);
                let _ = std::fs::remove_file(&link);
                let _ = std::fs::rename(&aside, &link);
            }
        });
        for n in 0..20 {
            // Each in a sandbox of its own.
            room.put(&format!("src/{n}/convoke.json"), "{}");
            let room = Room { work: room.work.clone(), ..Room::held_by(room.backend.clone()) };
            let script =
                format!("echo x > {0}/new; echo x > .claude/new; echo x > {0}/settings.json", outside.display());
            let _ = block_on(room.run(WORKSPACE, &script));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(std::fs::read_to_string(outside.join("settings.json")).unwrap(), "theirs");
    assert!(!outside.join("new").exists());
}

fn t27_nothing_is_left_behind() {
    let Some(mut room) = Room::new() else { return };
    room = room.repository();
    let before = room.listed();
    block_on(async {
        room.run(WORKSPACE, "true").await.unwrap();
        assert!(room.work.join(".convoke").is_dir(), "it stands in while the sandbox is warm");
        assert_eq!(room.git("status --porcelain"), "");
        // What somebody puts there meanwhile is theirs, and seen.
        std::fs::write(room.work.join("convoke.jsonc/x"), "").unwrap();
        assert_eq!(text(&room.run(WORKSPACE, "ls convoke.jsonc").await.unwrap()), "x\n");
        room.reaper = Room::held_by(Backend::Nobody).reaper;
    });
    assert!(room.work.join("convoke.jsonc/x").exists());
    std::fs::remove_dir_all(room.work.join("convoke.jsonc")).unwrap();
    assert_eq!(room.listed(), before);
}

fn t28_files_that_rules_deny_cannot_be_read() {
    let Some(mut room) = Room::new() else { return };
    room.rules.push(Rule::new("read", "*.secret", Action::Deny));
    room.put("deep/er/one.secret", "hidden");
    room.put(".gitignore", "*");
    room.put("shared.env.example", "open");
    room.put("deep/.env.local", "hidden");
    block_on(async {
        for reach in [WORKSPACE, LOOKING] {
            let said =
                text(&room.run(reach, "cat deep/er/one.secret deep/.env.local shared.env.example").await.unwrap());
            assert!(!said.contains("hidden") && said.contains("Permission denied") && said.contains("open"), "{said}");
        }
        room.put("later.secret", "hidden");
        let said = text(&room.run(WORKSPACE, "cat later.secret; grep -r hidden . ; cat < later.secret").await.unwrap());
        assert!(!said.contains("hidden\n") && said.contains("Permission denied"), "{said}");
    });
    // More than can be hidden one by one is not read either.
    for n in 0..=1000 {
        room.put(&format!("many/{n}.secret"), "");
    }
    let why = room.refused(WORKSPACE, "true");
    assert!(why.contains("files to hide"), "{why}");
}

fn t28_a_file_that_rules_deny_cannot_be_moved_into_sight() {
    let Some(mut room) = Room::new() else { return };
    room.rules.push(Rule::new("read", "deep/secrets/*", Action::Deny));
    room.put("deep/secrets/key", "hidden");
    block_on(async {
        for script in ["mv deep/secrets s2", "mv deep d2", "mv deep/secrets deep/s2", "rmdir deep/secrets"] {
            let finished = room.run(WORKSPACE, script).await.unwrap();
            assert_ne!(finished.code, Some(0), "{script}");
            let said = text(&room.run(WORKSPACE, "cat $(find . -name key)").await.unwrap());
            assert!(said.contains("Permission denied") && !said.contains("hidden"), "{script}: {said}");
        }
        let said =
            text(&room.run(WORKSPACE, "echo x > deep/secrets/new && echo x > deep/other && ls deep").await.unwrap());
        assert_eq!(said, "other\nsecrets\n");
    });
    // A name that is hidden wherever it is needs no folder to stay.
    room.put("plain/.env", "hidden");
    room.ok(WORKSPACE, "mv plain other && test -e other/.env");
    room.fails(WORKSPACE, "cat other/.env");
}

fn files_that_rules_deny_to_edit_cannot_be_changed() {
    let Some(mut room) = Room::new() else { return };
    room.rules.push(Rule::new("edit", "deep/prot/*", Action::Deny));
    room.rules.push(Rule::new("edit", "*.lock", Action::Deny));
    room.rules.push(Rule::new("edit", "asked/*", Action::Ask));
    room.put("deep/prot/f", "mine");
    room.put("a/b.lock", "mine");
    room.put("asked/f", "x");
    for script in [
        "cp a/b.lock deep/prot/f",
        "env -C deep/prot sh -c 'echo x > f'",
        "ln -s deep/prot pp; echo x > pp/f",
        "echo x > deep/prot/new",
        "rm -f deep/prot/f",
        "mv deep/prot p2",
        "mv deep d2",
        "echo x > a/b.lock",
        "mv a/b.lock c",
    ] {
        room.fails(WORKSPACE, script);
    }
    assert_eq!(room.ok(WORKSPACE, "echo x > asked/f && echo x > deep/new && cat deep/prot/f a/b.lock"), "minemine");
    assert_eq!(std::fs::read_to_string(room.work.join("deep/prot/f")).unwrap(), "mine");
    assert!(!room.work.join("deep/prot/new").exists());
}

fn t42_a_worktree_does_not_reach_hooks_and_settings_of_its_main() {
    let Some(room) = Room::new() else { return };
    let mut room = room.repository();
    let main = room.work.clone();
    for name in ["linked", "other"] {
        room.git(&format!("worktree add --quiet ../{name}"));
    }
    let config = std::fs::read_to_string(main.join(".git/config")).unwrap();
    room.work = room.path("linked");
    let at = main.display();
    for script in [
        format!("echo x >> {at}/.git/config"),
        format!("echo x > {at}/.git/hooks/pre-commit"),
        format!("mv {at}/.git/hooks {at}/.git/old"),
        format!("mv {at}/.git {at}/old"),
        format!("echo x > {at}/.git/HEAD"),
        format!("rm -rf {at}/.git/worktrees/other"),
        format!("echo /tmp > {at}/.git/worktrees/linked/commondir"),
        "git config core.hooksPath hooks".into(),
        "echo gitdir: /tmp > .git".into(),
        "rm .git".into(),
    ] {
        room.fails(WORKSPACE, &script);
    }
    assert_eq!(std::fs::read_to_string(main.join(".git/config")).unwrap(), config);
    assert!(!main.join(".git/hooks/pre-commit").exists() && main.join(".git/worktrees/other/HEAD").exists());
    block_on(room.run(WORKSPACE, &format!("echo x > {at}/a.txt"))).unwrap();
    assert_eq!(std::fs::read_to_string(main.join("a.txt")).unwrap(), "one\n");
    room.ok(WORKSPACE, "echo new > n.txt && git add --all && git commit --quiet -m new");
    assert_eq!(room.git("log -1 --format=%s linked"), "new\n");
    room.ok(LOOKING, "git status --porcelain && git log -1");
}

fn a_folder_that_is_merely_called_git_hides_nothing_from_the_rules() {
    let Some(room) = Room::new() else { return };
    room.put("a/.git/prod.env", "hidden");
    room.put(".git/top.env", "hidden");
    room.put("b/keys/one.env", "hidden");
    room.put("prot/.git/f", "mine");
    let mut room = room;
    room.rules.push(Rule::new("edit", "prot/*", Action::Deny));
    let look = "cat $(find . -name '*.env' -type f) .git/top.env 2>&1; echo x > prot/.git/f";
    for script in [
        "true",
        "git init --quiet n && mv b/keys n/.git/objects/keys",
        "mv b/keys n/.git/refs/keys; mv n/.git/objects/keys n/.git/refs/keys",
        "mkdir c; mv a/.git c/.git; cp -r n/.git/HEAD n/.git/config c/.git; mkdir -p c/.git/objects c/.git/refs",
        "mv c/.git/prod.env c/.git/objects; mv b d; mv d .git/objects",
        "git init --quiet; mv n .git/objects/; mv c .git/refs; mv a .git/",
    ] {
        let _ = block_on(room.run(WORKSPACE, script));
        // In another sandbox, which is made of what is there now.
        room.session = proto::SessionId::new();
        for reach in [WORKSPACE, LOOKING] {
            let said = text(&block_on(room.run(reach, look)).unwrap());
            assert!(!said.contains("hidden") && said.contains("Permission denied"), "{script}: {said}");
        }
    }
    assert_eq!(std::fs::read_to_string(room.work.join("prot/.git/f")).unwrap(), "mine");
}

fn no_file_is_left_that_runs_as_its_owner_or_group() {
    for room in [Room::new(), Room::by_landlock()].into_iter().flatten() {
        let mut scripts = vec![
            "touch f; chmod u+s f".to_owned(),
            "touch f; chmod 4755 f".into(),
            "touch f; chmod g+xs f".into(),
            "touch f; chmod 6777 f".into(),
            "cp /bin/sh f && chmod 04755 f".into(),
            "install -m 4755 /bin/sh f".into(),
            "mkdir d; chmod 2755 d".into(),
        ];
        if has("python3") {
            let calls = [
                "os.open(\"f\", os.O_CREAT | os.O_WRONLY, 0o4755)",
                "os.fchmod(os.open(\"f\", os.O_CREAT | os.O_WRONLY), 0o2755)",
                "os.mknod(\"f\", 0o104755)",
                "os.link(\"/proc/self/fd/%d\" % os.open(\".\", os.O_TMPFILE | os.O_WRONLY, 0o4755), \"f\", follow_symlinks=True)",
                "ctypes.CDLL(None).syscall(452, -100, b\"src\", 0o4755, 0) == 0 or sys.exit(1)",
                "ctypes.CDLL(None).syscall(437, -100, b\"f\", struct.pack(\"QQQ\", 0o101, 0o4755, 0), 24) >= 0 or sys.exit(1)",
            ];
            scripts.extend(calls.map(|call| format!("python3 -c 'import os, sys, ctypes, struct; {call}'")));
        }
        for script in &scripts {
            room.fails(WORKSPACE, script);
            let found = room.ok(WORKSPACE, "find . -perm /6000");
            assert_eq!(found, "", "{script}");
            room.ok(WORKSPACE, "rm -rf f d");
        }
        room.ok(
            WORKSPACE,
            "touch f; chmod 1777 f; chmod 755 f; mkdir -m 700 d; install -m 600 f g; umask 077; touch h",
        );
    }
}

/// Whether there is such a program; that there is none is said.
fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !there {
        eprintln!("NOT TRIED with `{program}`, which is not installed here");
    }
    there
}

fn sockets_of_services_are_out_of_reach_wherever_they_are() {
    if !has("python3") {
        return;
    }
    let Some(Room { backend, .. }) = Room::new() else { return };
    // Not below `/tmp`, which is another one in a sandbox.
    let room = Room::held_in(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(), backend);
    let path = room.path("elsewhere/s");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || while listener.accept().is_ok() {});
    let script = format!("python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\")'", path.display());
    room.ok(OFF, &script);
    room.fails(WORKSPACE, &script);
    room.fails(LOOKING, &script);
    room.fails(OFFLINE, &script);
    // What belongs to the workspace works, and pairs always do.
    let own = "python3 -c 'import socket, threading; s = socket.socket(socket.AF_UNIX); s.bind(\"own\"); s.listen(); socket.socket(socket.AF_UNIX).connect(\"own\")'";
    room.ok(WORKSPACE, own);
    room.ok(
        OFFLINE,
        "python3 -c 'import socket; a, b = socket.socketpair(); a.send(b\"x\"); assert b.recv(1) == b\"x\"'",
    );
}

fn our_own_files_inside_of_a_workspace_stay_ours() {
    for room in [Room::new(), Room::by_landlock()].into_iter().flatten() {
        std::fs::write(room.path("home/config/convoke.jsonc"), CANARY).unwrap();
        let above = |script: &str| {
            let mut command = room.command(WORKSPACE, script);
            let confine = std::sync::Arc::unwrap_or_clone(command.confine.take().unwrap());
            let root = room.path("");
            command.dir = root.clone();
            command.confine = Some(std::sync::Arc::new(convoke_tools::sandbox::Confine {
                dir: root.clone(),
                worktree: root,
                ..confine
            }));
            block_on(room.reaper.run(command, &CancellationToken::new()))
        };
        if !room.is_bubblewrap() {
            let why = above("true").unwrap_err().to_string();
            assert!(why.contains("Convoke's own"), "{why}");
            continue;
        }
        for script in [
            "cat home/config/*",
            "mv home h2",
            "mv home/config home/c2",
            "mv home h2; cat h2/config/*",
            "echo x > home/config/convoke.jsonc",
        ] {
            let finished = above(script).unwrap();
            assert!(!text(&finished).contains(CANARY), "{script}");
            assert_eq!(std::fs::read_to_string(room.path("home/config/convoke.jsonc")).unwrap(), CANARY, "{script}");
        }
        // What is not there yet cannot be made.
        std::fs::remove_dir_all(room.path("home/config")).unwrap();
        let finished = above("mkdir -p home/config && echo x > home/config/convoke.jsonc").unwrap();
        assert!(!room.path("home/config/convoke.jsonc").exists(), "{}", text(&finished));
        // Nor is it a place to work in.
        let mut command = room.command(WORKSPACE, "true");
        let confine = std::sync::Arc::unwrap_or_clone(command.confine.take().unwrap());
        let (dir, worktree) = (room.path("home/state"), room.path("home/state"));
        command.confine = Some(std::sync::Arc::new(convoke_tools::sandbox::Confine { dir, worktree, ..confine }));
        assert!(block_on(room.reaper.run(command, &CancellationToken::new())).is_err());
    }
}

fn repositories_in_a_directory_that_a_rule_names_are_protected() {
    let Some(mut room) = Room::new() else { return };
    let elsewhere = room.path("elsewhere");
    room.rules.push(Rule::new("external_directory", format!("{}/*", elsewhere.display()), Action::Allow));
    for name in ["", "repo"] {
        let dir = elsewhere.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        room.git(&format!("init --quiet {}", dir.display()));
        std::fs::write(dir.join("convoke.jsonc"), "{}").unwrap();
        room.ok(WORKSPACE, &format!("cd {}; echo x > f; git add f", dir.display()));
        for script in
            ["git config core.fsmonitor x", "touch .git/hooks/post-commit", "echo x > convoke.jsonc", "mv .git g"]
        {
            room.fails(WORKSPACE, &format!("cd {}; {script}", dir.display()));
        }
    }
}

fn t43_without_network_nothing_outside_is_reached() {
    let Some(room) = Room::new() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        }
    });
    let mut tries = vec![
        format!("exec 3<>/dev/tcp/127.0.0.1/{port}"),
        format!("exec 3<>/dev/udp/127.0.0.1/{port}"),
        format!("exec 3<>/dev/tcp/localhost/{port}"),
    ];
    if has("curl") {
        tries.push(format!("curl --noproxy '*' --silent --fail --max-time 10 http://127.0.0.1:{port}/"));
    }
    if has("nc") {
        tries.push(format!("echo | nc -w 5 127.0.0.1 {port}"));
    }
    if has("ping") {
        tries.push("ping -c 1 -W 5 127.0.0.1".into());
    }
    if has("python3") {
        tries.push("python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)'".into());
        tries.push("python3 -c 'import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)'".into());
    }
    for script in &tries {
        room.ok(OFF, script);
        // With network they get out of a sandbox as well.
        room.ok(WORKSPACE, script);
        room.fails(OFFLINE, script);
        room.fails(LOOKING, script);
    }
    // Even the machine itself has no address to be reached at.
    assert_eq!(room.ok(OFFLINE, "tail -n +3 /proc/net/dev | grep -v '^ *lo:' | wc -l").trim(), "0");
    room.fails(OFFLINE, "getent ahosts example.org");
}

fn t43_sockets_of_services_are_out_of_reach() {
    let Some(room) = Room::new() else { return };
    if !has("python3") {
        return;
    }
    let connect = |address: &str| {
        format!("python3 -c 'import socket; socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).connect(\"{address}\")'")
    };
    let mark = format!("convoke-test-{}", room.mark);
    let hidden = SocketAddr::from_abstract_name(&mark).unwrap();
    let _abstract = UnixListener::bind_addr(&hidden).unwrap();
    room.ok(OFF, &connect(&format!("\\0{mark}")));
    room.fails(OFFLINE, &connect(&format!("\\0{mark}")));
    room.fails(LOOKING, &connect(&format!("\\0{mark}")));
    let own = room.path("home/run/gateway.sock");
    let mut sockets = vec![own, format!("/tmp/{mark}.sock").into()];
    let service = std::path::PathBuf::from(format!("/run/{mark}.sock"));
    // Like that of docker; only root may make one there.
    if rustix::process::geteuid().is_root() {
        sockets.push(service);
    } else {
        eprintln!("NOT TRIED with a socket in /run, where this user cannot make one");
    }
    for socket in sockets {
        let _listener = UnixListener::bind(&socket).unwrap();
        let script = connect(&socket.display().to_string());
        room.ok(OFF, &script);
        for reach in [WORKSPACE, OFFLINE, LOOKING] {
            room.fails(reach, &script);
        }
        std::fs::remove_file(&socket).unwrap();
    }
}

fn t43_other_processes_are_out_of_reach() {
    let Some(room) = Room::new() else { return };
    let own = std::process::id();
    for script in [format!("cat /proc/{own}/environ > /dev/null"), format!("kill -0 {own}")] {
        room.ok(OFF, &script);
        room.fails(WORKSPACE, &script);
        room.fails(LOOKING, &script);
    }
    if !has("python3") {
        return;
    }
    // Prints 0 when it went well, else what the kernel said.
    let call = |words: &str| {
        format!(
            "python3 -c 'import ctypes; libc = ctypes.CDLL(None, use_errno=True); print(0 if libc.syscall({words}) >= 0 \
             else ctypes.get_errno())'"
        )
    };
    #[cfg(target_arch = "x86_64")]
    let (ptrace, process_vm_readv) = (101, 310);
    #[cfg(not(target_arch = "x86_64"))]
    let (ptrace, process_vm_readv) = (117, 270);
    for (name, words) in [
        ("ptrace", format!("{ptrace}, 0, 0, 0, 0")),
        ("io_uring_setup", "425, 1, ctypes.create_string_buffer(120)".into()),
        ("process_vm_readv", format!("{process_vm_readv}, 1, None, 0, None, 0, 0")),
        ("unshare", format!("{}, 0", if cfg!(target_arch = "x86_64") { 272 } else { 97 })),
    ] {
        let bare = room.ok(OFF, &call(&words));
        if bare == "1\n" {
            eprintln!("NOT TRIED: `{name}` is refused on this machine without a sandbox, too");
        }
        for reach in [WORKSPACE, LOOKING] {
            assert_eq!(room.ok(reach, &call(&words)), "1\n", "{name} {reach:?}");
        }
    }
    // No privileges, and none to be had.
    let status = room.ok(WORKSPACE, "grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status");
    let words: Vec<&str> = status.split_whitespace().collect();
    assert_eq!(
        words,
        ["CapEff:", "0000000000000000", "CapBnd:", "0000000000000000", "NoNewPrivs:", "1", "Seccomp:", "2"],
        "{status}"
    );
    room.fails(WORKSPACE, "unshare --user true");
    // Not even the one that serves them.
    room.fails(WORKSPACE, "exec 3<>/proc/1/mem");
}

/// Opens every file about the machine for writing, and writes nothing. Prints those that could be opened.
const STEER: &str = "
    shopt -s nullglob
    for file in /proc/sys/kernel/* /proc/sys/vm/* /proc/sys/fs/* /proc/irq/* /proc/[a-z]*; do
        if [ -f $file ] && (exec 3<>$file) 2>/dev/null; then echo $file; fi
    done
";

fn the_machine_cannot_be_steered_through_proc() {
    let Some(room) = Room::new() else { return };
    if rustix::process::geteuid().is_root() {
        assert!(room.ok(OFF, "ls -l /proc/sys/kernel/core_pattern").starts_with("-rw"));
    } else {
        eprintln!("NOT TRIED as root, to whom it would be open without a sandbox");
    }
    for reach in [WORKSPACE, LOOKING, Reach { mode: Mode::Off, network: false, asked: true }] {
        assert_eq!(room.ok(reach, &format!("{STEER} true")), "", "{reach:?}");
        for file in ["kcore", "kmsg", "timer_list", "slabinfo"] {
            room.fails(reach, &format!("exec 3</proc/{file}"));
        }
        // What is about processes is as usual.
        room.ok(reach, "cat /proc/self/status /proc/meminfo /proc/cpuinfo /proc/sys/kernel/ostype > /dev/null");
        room.ok(reach, "echo 100 > /proc/self/oom_score_adj");
    }
    if let Some(room) = Room::by_landlock() {
        assert_eq!(room.ok(LOOKING, &format!("{STEER} true")), "");
    }
}

/// A command that detaches in every usual way and does not want to end; it says so in the file `up`.
const STRAYS: &str = "
    trap '' TERM HUP INT
    setsid sleep MARK >/dev/null 2>&1 &
    (sleep MARK & disown)
    setsid --fork bash -c 'trap \"\" TERM; touch one; while true; do sleep MARK; done' &
    while ! [ -e one ]; do sleep 0.01; done
    touch up
    while true; do sleep MARK; done
";

const SOON: Duration = Duration::from_secs(5);

fn t45_a_cancelled_command_leaves_nothing_in_its_sandbox() {
    let Some(room) = Room::new() else { return };
    block_on(async {
        let cancel = CancellationToken::new();
        let run = room.reaper.run(room.command(WORKSPACE, STRAYS), &cancel);
        let up = room.work.join("up");
        let stop = async {
            while !up.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert!(processes_with(&room.mark) >= 3);
            cancel.cancel();
        };
        let (finished, ()) = tokio::join!(run, stop);
        assert!(finished.unwrap().cancelled);
        assert_eq!(processes_with(&room.mark), 0);
        // The sandbox is as good as before.
        assert_eq!(text(&room.run(WORKSPACE, "echo fine").await.unwrap()), "fine\n");
    });
}

fn t45_a_killed_gateway_leaves_no_sandbox() {
    let Some(room) = Room::new() else { return };
    let (Backend::Bubblewrap(bwrap), _) =
        convoke_tools::sandbox::find(&std::env::current_exe().unwrap(), std::env::var_os("PATH").as_deref())
    else {
        unreachable!("looked for above");
    };
    let before = room.listed();
    let mut gateway = std::process::Command::new(std::env::current_exe().unwrap())
        .arg("confined-gateway")
        .args([&room.path(""), &bwrap])
        .arg(STRAYS.replace("MARK", &room.mark))
        .spawn()
        .unwrap();
    within(SOON * 4, "the command runs", || room.work.join("up").exists());
    assert!(processes_with(&room.mark) >= 3);
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    within(SOON, "everything is gone", || processes_with(&room.mark) == 0);
    within(SOON, "the sandbox is gone", || processes_with(&room.work.display().to_string()) == 0);
    assert!(room.work.join(".convoke").is_dir(), "a killed gateway cannot clear up");
    clear_up(&places(&room.path("")));
    for name in ["one", "up"] {
        std::fs::remove_file(room.work.join(name)).unwrap();
    }
    assert_eq!(room.listed(), before);
}

fn t47_only_listed_variables_get_inside() {
    let Some(room) = Room::new() else { return };
    let seen = room.ok(WORKSPACE, "env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'");
    assert!(!seen.contains(CANARY), "{seen}");
    let names: Vec<&str> = seen.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    let known = convoke_tools::process::clean_env(std::env::vars());
    // What bash sets itself.
    let own = ["PWD", "SHLVL", "_", "OLDPWD", "TMPDIR", "XDG_CACHE_HOME", "npm_config_cache"];
    for name in names {
        assert!(own.contains(&name) || known.iter().any(|(known, _)| known == name), "{name}");
    }
    assert_eq!(room.ok(WORKSPACE, "echo $TMPDIR $XDG_CACHE_HOME"), "/tmp /tmp/.cache\n");
}

/// Whoever watches over the sandbox of a room, and the first process in it.
fn first_inside(room: &Room) -> (Pid, Pid) {
    let work = room.work.display().to_string();
    let mut pids =
        std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let line = |pid: &String| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let outer = pids.find(|pid| String::from_utf8_lossy(&line(pid)).contains(&work)).unwrap();
    let children = std::fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).unwrap();
    let pid = |text: &str| Pid::from_raw(text.trim().parse().unwrap()).unwrap();
    (pid(&outer), pid(&children))
}

fn a_killed_sandbox_is_replaced() {
    let Some(room) = Room::new() else { return };
    block_on(async {
        room.run(WORKSPACE, "touch /dev/shm/mine").await.unwrap();
        assert_eq!(text(&room.run(WORKSPACE, "ls /dev/shm").await.unwrap()), "mine\n");
        let (outer, inside) = first_inside(&room);
        kill_process(inside, Signal::KILL).unwrap();
        // Both have the socket, and not before it is closed does anybody notice.
        let ended = |pid: Pid| {
            let line = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
            line.is_err() || line.is_ok_and(|line| line.contains(") Z"))
        };
        within(SOON, "both are dead", || ended(inside) && ended(outer));
        assert_eq!(text(&room.run(WORKSPACE, "ls /dev/shm; echo fine").await.unwrap()), "fine\n");
    });
}

fn a_sandbox_that_cannot_be_made_runs_nothing() {
    let broken = tempfile::tempdir().unwrap();
    let program = broken.path().join("bwrap");
    std::fs::write(&program, "#!/bin/sh\necho 'bwrap: no namespaces here' >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let room = Room::held_by(Backend::Bubblewrap(program));
    let why = room.refused(WORKSPACE, "touch ran");
    assert!(why.contains("no namespaces here"), "{why}");
    assert!(!room.work.join("ran").exists() && !room.work.join(".convoke").exists());
}

fn landlock_alone_refuses_writes_elsewhere_and_says_what_it_lacks() {
    let Some(room) = Room::by_landlock() else { return };
    let elsewhere = room.path("elsewhere/x");
    let finished = block_on(room.run(WORKSPACE, "echo x > new && echo t > $TMPDIR/t && cat $TMPDIR/t")).unwrap();
    assert_eq!((finished.code, text(&finished).as_str()), (Some(0), "t\n"));
    assert!(finished.notice.is_some_and(|notice| notice.contains("bubblewrap")));
    for target in [elsewhere.display().to_string(), "/tmp/convoke-landlock".into(), "$HOME/convoke-landlock".into()] {
        let said = room.fails(WORKSPACE, &format!("echo x > {target}"));
        assert!(said.contains("Permission denied"), "{target}: {said}");
    }
    for script in
        ["echo x > new", "rm new", "exec 3<>/dev/tcp/127.0.0.1/1", &format!("cat /proc/{}/environ", std::process::id())]
    {
        room.fails(LOOKING, script);
    }
    room.ok(LOOKING, "cat new > /dev/null && echo t > $TMPDIR/u");
    let asked = Reach { asked: true, ..WORKSPACE };
    assert!(room.refused(asked, "true").contains("install bubblewrap"));
}

fn without_anything_only_what_nobody_asked_to_be_held_runs() {
    let room = Room::held_by(Backend::Nobody);
    let finished = block_on(room.run(WORKSPACE, "touch ran")).unwrap();
    assert_eq!(finished.code, Some(0));
    assert!(finished.notice.is_some_and(|notice| notice.contains("no sandbox")));
    for reach in [LOOKING, OFFLINE] {
        assert!(room.refused(reach, "touch no").contains("install bubblewrap"));
    }
    room.ok(OFF, "true");
    assert!(!room.work.join("no").exists());
}
