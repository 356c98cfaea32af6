//! A command in a sandbox does not reach a gateway: neither its own nor that of another home, by whatever socket, and with
//! bubblewrap as with landlock alone. And when everything that would end a command is killed at once, the next gateway does.

use crate::{CONVOKE, Done, World};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use testkit::{FakeModel, Received, Reply, RepoDir, TempHome};

/// A model that runs what it is told, and says what came of it.
fn obedient(received: &Received) -> Reply {
    match (received.step(), received.last("user").unwrap_or_default().strip_prefix("run: ")) {
        (0, Some(command)) => Reply::calls([("bash", json!({ "command": command, "description": "x" }))]),
        (0, None) => Reply::text("fine"),
        _ => Reply::text(received.last("tool").unwrap_or_default()),
    }
}

fn world(settings: Value) -> World {
    let model = FakeModel::scripted(obedient);
    let home = TempHome::new(&model).config_json(json!({ "permission": "allow" })).config_json(settings);
    World { model, home, repo: RepoDir::new() }
}

/// Both ways to hold a command; the best there is comes first.
const BACKENDS: [Option<&str>; 2] = [None, Some("landlock")];

fn with(mut command: Command, backend: Option<&str>) -> Command {
    command.envs(backend.map(|backend| ("CONVOKE_TEST_SANDBOX", backend)));
    command
}

/// What a command printed.
fn run(world: &World, backend: Option<&str>, line: &str) -> String {
    let mut run = with(world.command(["run", &format!("run: {line}")]), backend);
    Done::of(run.output().unwrap()).code(0).stdout
}

fn ready(command: &mut Command) -> (Child, Value) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, serde_json::from_str(&line).unwrap())
}

fn alive(child: &mut Child) -> bool {
    child.try_wait().unwrap().is_none()
}

#[test]
fn a_sandboxed_command_is_not_let_in_by_its_own_gateway() {
    for backend in BACKENDS {
        let world = world(json!({}));
        let (mut gateway, _) = ready(&mut with(world.command(["serve", "--no-tcp", "--json"]), backend));
        let home = world.home.path().display();
        for line in [
            format!("CONVOKE_HOME={home} {CONVOKE} stop --force"),
            format!("setsid -w sh -c 'CONVOKE_HOME={home} {CONVOKE} stop --force'"),
            format!(
                "(CONVOKE_HOME={home} nohup {CONVOKE} stop --force >said 2>&1 &) ; until grep -q . said; do :; done; cat said"
            ),
            format!("env -i CONVOKE_HOME={home} {CONVOKE} stop --force"),
        ] {
            let said = run(&world, backend, &line);
            assert!(said.contains("may not use a gateway") || said.contains("no gateway runs"), "{line}: {said}");
            assert!(backend.is_none() || said.contains("may not use a gateway"), "{line}: {said}");
        }
        assert!(alive(&mut gateway), "{backend:?}");
        world.convoke(["stop", "--force"]).code(0);
        gateway.wait().unwrap();
    }
}

/// Asks the gateway at a socket for its sessions, with the token in a file.
const LOOK_IN: &str = r#"python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
token = open(sys.argv[2]).read().strip()
head = "POST /rpc/sessions.list HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
s.sendall((head % token).encode())
print(s.recv(4096).decode())
'"#;

#[test]
fn a_sandboxed_command_is_not_let_in_by_the_gateway_of_another_home() {
    // Not below `/tmp`, which is another one in a sandbox.
    let place = tempfile::Builder::new().prefix("o").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for backend in BACKENDS {
        let world = world(json!({}));
        let mut serve = Command::new(CONVOKE);
        serve.args(["serve", "--json"]).env("CONVOKE_HOME", place.path()).env("HOME", place.path());
        let (mut other, ready) = ready(&mut serve);
        assert!(ready["socket"].as_str().unwrap().starts_with(place.path().to_str().unwrap()), "{ready}");
        let said = run(&world, backend, &format!("CONVOKE_HOME={} {CONVOKE} stop --force", place.path().display()));
        assert!(said.contains("may not use a gateway") || said.contains("no gateway runs"), "{backend:?}: {said}");
        assert!(backend.is_none() || said.contains("may not use a gateway"), "{backend:?}: {said}");
        // The token of its owner is a file that can be read there, like any other outside of one's own home.
        let (socket, token) = (ready["socket"].as_str().unwrap(), ready["tokenFile"].as_str().unwrap());
        let said = run(&world, backend, &format!("{LOOK_IN} {socket} {token}"));
        // Where sockets of services are put away, nothing answers at all.
        let refused = if backend.is_none() { "Error" } else { " 403 " };
        assert!(said.contains(refused) && !said.contains(" 200 "), "{backend:?}: {said}");
        assert!(alive(&mut other));
        let mut stop = Command::new(CONVOKE);
        stop.args(["stop", "--force"]).env("CONVOKE_HOME", place.path()).env("HOME", place.path());
        assert!(stop.status().unwrap().success(), "{backend:?}: the owner is let in");
        other.wait().unwrap();
    }
}

#[test]
fn commands_that_nothing_holds_are_let_in() {
    let world = world(json!({ "sandbox": { "mode": "off" } }));
    let home = world.home.path().display();
    let said = run(&world, None, &format!("CONVOKE_HOME={home} {CONVOKE} ps --json"));
    assert!(said.contains("\"sessions\":[{"), "{said}");
}

/// The token of the gateway's own user opens TCP, so it is no more to be read than the socket is to be reached.
#[test]
fn a_sandboxed_command_reads_no_token_and_no_settings() {
    for backend in BACKENDS {
        let world = world(json!({}));
        let (mut gateway, ready) = ready(&mut with(world.command(["serve", "--json"]), backend));
        let file = ready["tokenFile"].as_str().unwrap();
        let token = fs::read_to_string(file).unwrap();
        let home = world.home.path().display();
        for line in [
            format!("cat {file}"),
            format!("cat /proc/self/root{file}"),
            format!("ln -s {file} link; cat link"),
            format!("cp {file} copy; cat copy"),
            format!("grep -rs . {home}/state {home}/config"),
            format!("cd {home}/state && cat *"),
            format!("ln {file} hard; cat hard"),
        ] {
            let said = run(&world, backend, &line);
            assert!(!said.contains(token.trim()) && !said.contains("test-key"), "{backend:?} {line}: {said}");
        }
        // What is not ours is still there.
        assert!(run(&world, backend, "cat README.md && cat /etc/passwd").contains("root"), "{backend:?}");
        assert!(
            run(&world, backend, "echo mine > new; cat new; echo t > $TMPDIR/t; cat $TMPDIR/t").contains("mine\nt")
        );
        world.convoke(["stop", "--force"]).code(0);
        gateway.wait().unwrap();
    }
}

#[test]
fn sockets_without_a_file_are_out_of_reach() {
    let name = format!("convoke-test-{}", std::process::id());
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let line = format!(
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"\\0{name}\"); print(\"connected\")'"
    );
    for backend in BACKENDS {
        let world = world(json!({}));
        let doctor = with(world.command(["doctor", "--json"]), backend).output().unwrap();
        if String::from_utf8_lossy(&doctor.stdout).contains("abstract sockets") {
            eprintln!("CANNOT RUN THIS TEST: this kernel has no scopes");
            continue;
        }
        let said = run(&world, backend, &line);
        assert!(!said.contains("connected\n") && said.contains("Operation not permitted"), "{backend:?}: {said}");
    }
}

fn children(pid: i32) -> Vec<i32> {
    let list = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.flat_map(|task| list(task).split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<i32>>()).collect()
}

fn wait_for(path: &Path) -> String {
    loop {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => std::thread::yield_now(),
        }
    }
}

#[test]
fn a_command_that_lost_gateway_reaper_and_runner_at_once_is_ended_by_the_next_gateway() {
    let world = world(json!({ "sandbox": { "mode": "off" } }));
    let line = "run: (setsid sleep 1000 & echo $! > left; cat left; echo $$ > shell); sleep 1000";
    let mut child = world.start(["run", line]);
    let left: i32 = wait_for(&world.repo.path().join("left")).parse().unwrap();
    wait_for(&world.repo.path().join("shell"));
    let gateway = world.gateway_pid().as_raw_nonzero().get();
    let reapers = children(gateway);
    let runners: Vec<i32> = reapers.iter().flat_map(|reaper| children(*reaper)).collect();
    let all: Vec<i32> = [gateway].into_iter().chain(reapers).chain(runners).collect();
    assert!(all.len() >= 3, "{all:?}");
    let pid = |raw: &i32| Pid::from_raw(*raw).unwrap();
    // Stopped first, so that none of them sees another one die.
    all.iter().for_each(|raw| kill_process(pid(raw), Signal::STOP).unwrap());
    child.kill().and_then(|()| child.wait()).unwrap();
    all.iter().for_each(|raw| kill_process(pid(raw), Signal::KILL).unwrap());
    assert!(test_kill_process(pid(&left)).is_ok(), "nobody was there to end it");
    world.convoke(["serve", "--no-tcp", "--json", "--idle-exit", "2s"]);
    let gone = |raw: i32| match fs::read_to_string(format!("/proc/{raw}/stat")) {
        Ok(stat) => stat.contains(") Z "),
        Err(_) => true,
    };
    assert!(gone(left), "the next gateway ends it");
}
