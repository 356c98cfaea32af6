//! Memory: what large prompts took is given back, and what a repository holds does not become far more than it is.

use crate::World;
use serde_json::{Value, json};
use std::io::{BufRead, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};
use testkit::{FakeModel, Gate, Reply};

/// What a process holds, in MiB.
fn resident(pid: rustix::process::Pid) -> u64 {
    of_status(pid, "VmRSS:")
}

fn of_status(pid: rustix::process::Pid, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
fn memory_of_large_prompts_is_handed_back() {
    let world = World::bare();
    // Started by a command, and by hand.
    for by_hand in [false, true] {
        let mut child = by_hand.then(|| {
            let mut child = world.command(["serve", "--no-tcp", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            child
        });
        let large = "x y z ".repeat(2 << 20);
        for _ in 0..6 {
            let mut run = world.command(["run"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
            run.stdin.take().unwrap().write_all(large.as_bytes()).unwrap();
            // Whether such a prompt can be followed to its end is another matter: the gateway has taken it.
            run.wait().unwrap();
        }
        let end = Instant::now() + Duration::from_secs(40);
        while resident(world.gateway_pid()) > 130 {
            let held = resident(world.gateway_pid());
            assert!(Instant::now() < end, "the gateway holds {held} MiB, started by hand: {by_hand}");
            std::thread::sleep(Duration::from_millis(50));
        }
        world.convoke(["stop", "--force"]).code(0);
        child.iter_mut().for_each(|child| drop(child.wait()));
    }
}

/// Calls a method over the gateway's socket: arguments of a command cannot be this long.
fn call(world: &World, method: &str, input: &Value) -> String {
    let run = std::fs::read_dir(world.home.path().join("run")).unwrap().flatten().map(|entry| entry.path());
    let socket = run.into_iter().find(|path| path.extension().is_some_and(|end| end == "sock")).expect("a socket");
    let mut stream = UnixStream::connect(socket).unwrap();
    let body = input.to_string();
    let head = format!(
        "POST /rpc/{method} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_session_at_work_does_not_hold_the_messages_that_wait_for_it() {
    let world = World::with(FakeModel::start());
    world.model.push(Reply::text("Later.").gated(Gate::new()));
    world.convoke(["spawn", "--label", "desk", "--stay", "work"]).code(0);
    world.model.wait_for_blocking(1);
    let before = resident(world.gateway_pid());
    for n in 0..5 {
        let message = format!("{n} {}", "x y z ".repeat((9 << 20) / 6));
        let input = json!({ "sessionKey": "desk", "message": message, "timeoutSeconds": 0 });
        let answer = call(&world, "sessions.send", &input);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let end = Instant::now() + Duration::from_secs(20);
    while resident(world.gateway_pid()) > before + 32 {
        let held = resident(world.gateway_pid());
        assert!(Instant::now() < end, "the gateway holds {held} MiB, and {before} MiB before");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn lists_of_ignored_files_take_up_no_more_memory_than_they_have() {
    let search = ("glob", json!({ "pattern": "**/*.txt" }));
    let model = FakeModel::scripted(move |received| match received.step() {
        0 => Reply::calls(vec![search.clone(); 4]),
        _ => Reply::text("done"),
    });
    let world = World::with(model);
    for n in 0..32 {
        let folder = world.repo.path().join(format!("d{n}"));
        std::fs::create_dir_all(&folder).unwrap();
        let lines: String = (0..60).map(|line| format!("**/{}{line}\n", "[!a-c]*".repeat(580))).collect();
        std::fs::write(folder.join(".gitignore"), lines).unwrap();
        std::fs::write(folder.join("x.txt"), "x").unwrap();
    }
    world.convoke(["run", "look around"]).code(0);
    let most = of_status(world.gateway_pid(), "VmHWM:");
    assert!(most < 250, "{most} MiB for 8 MiB of lists");
}
