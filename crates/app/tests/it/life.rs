//! A gateway that cannot be killed by accident and always ends when it is told to: hanging threads, a wiped runtime
//! directory, a stopped process, a clock that is set.

use crate::{Done, World};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use testkit::{FakeModel, Gate, Reply, RepoDir, TempHome};

/// How long a gateway may take to end: its grace period, 15 s, and 5 s.
const ENDING: Duration = Duration::from_secs(20);

/// Tried until it is so; far longer than it takes.
#[track_caller]
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A gateway of our own, and where it listens.
fn serve(world: &World) -> (Child, PathBuf) {
    ready(world.command(["serve", "--no-tcp", "--json"]).stderr(Stdio::null()))
}

fn ready(command: &mut Command) -> (Child, PathBuf) {
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    (child, ready["socket"].as_str().unwrap().into())
}

fn ended(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

fn answers(socket: &Path) -> bool {
    let ask = || {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_millis(500)))?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")?;
        stream.read(&mut [0; 16])
    };
    ask().is_ok_and(|read| read > 0)
}

/// A gateway whose threads hang.
fn hanging(world: &World, what: &str) -> Child {
    let mut command = world.command(["serve", "--no-tcp", "--json"]);
    let (child, socket) = ready(command.env("CONVOKE_TEST_HANG", what).stderr(Stdio::null()));
    if what == "workers" {
        eventually("it still answers", || (!answers(&socket) && !answers(&socket)).then_some(()));
    }
    child
}

#[test]
fn a_gateway_whose_threads_all_hang_ends_within_its_grace_period() {
    let worlds = ["workers", "pool"].map(|what| (what, World::new()));
    let started = worlds.each_ref().map(|(what, world)| (what, hanging(world, what)));
    started.iter().for_each(|(_, child)| kill_process(Pid::from_child(child), Signal::TERM).unwrap());
    for (what, mut child) in started {
        assert!(ended(&mut child, ENDING).is_some(), "it never ended: {what}");
    }
}

#[test]
fn a_second_signal_ends_a_gateway_at_once_though_its_threads_hang() {
    for (first, second) in [(Signal::TERM, Signal::TERM), (Signal::INT, Signal::TERM)] {
        let world = World::new();
        let mut child = hanging(&world, "workers");
        let pid = Pid::from_child(&child);
        kill_process(pid, first).unwrap();
        // Two that arrive together are one to the kernel.
        let again = || {
            kill_process(pid, second).unwrap();
            child.try_wait().unwrap()
        };
        eventually("it never ended", again);
    }
}

#[test]
fn a_run_whose_output_nobody_reads_ends_on_signals() {
    let world = World::new();
    world.model.push(Reply::deltas(std::iter::repeat_n("much to say ".repeat(1000), 50)));
    let mut child = world.start(["run", "--json", "talk"]);
    eventually("it says nothing", || {
        let ready = rustix::io::ioctl_fionread(child.stdout.as_ref().unwrap()).unwrap();
        (ready >= 30_000).then_some(())
    });
    let pid = Pid::from_child(&child);
    eventually("it never ended", || {
        kill_process(pid, Signal::TERM).unwrap();
        child.try_wait().unwrap()
    });
}

#[test]
fn a_wiped_runtime_directory_is_made_anew() {
    let world = World::new();
    let (mut child, socket) = serve(&world);
    let run = socket.parent().unwrap();
    for wipe in [
        &(|| fs::remove_dir_all(run).unwrap()) as &dyn Fn(),
        &|| fs::remove_file(&socket).unwrap(),
        &|| fs::rename(&socket, run.join("elsewhere")).unwrap(),
        // Something that nobody listens at.
        &|| {
            fs::remove_file(&socket).unwrap();
            drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        },
    ] {
        wipe();
        eventually("the socket does not come back", || answers(&socket).then_some(()));
    }
    // A command in between waits for it, and starts no second gateway.
    fs::remove_dir_all(run).unwrap();
    world.model.push(Reply::text("still here"));
    let done = world.convoke(["run", "are you there?"]).code(0);
    assert_eq!(done.stdout, "still here\n");
    assert_eq!(world.gateway_pid(), Pid::from_child(&child));
    fs::remove_dir_all(run).unwrap();
    world.convoke(["stop"]).code(0);
    assert!(ended(&mut child, ENDING).is_some_and(|status| status.success()));
    assert!(!socket.exists(), "the new socket goes with its gateway");
}

#[test]
fn stop_finds_a_gateway_without_a_socket_by_its_lock() {
    let world = World::new();
    let (mut child, socket) = serve(&world);
    let run = socket.parent().unwrap();
    fs::remove_dir_all(run).unwrap();
    // It cannot make itself a new one.
    symlink("/nowhere/at/all", run).unwrap();
    let done = world.convoke(["stop", "--json"]).code(0);
    assert_eq!(done.json(), json!({ "stopped": true }));
    assert!(ended(&mut child, Duration::from_secs(1)).is_some_and(|status| status.success()));
    assert_eq!(world.convoke(["stop", "--json"]).code(0).json(), json!({ "stopped": false }));
    fs::remove_file(run).unwrap();
}

#[test]
fn stop_by_the_lock_asks_for_force_when_sessions_are_busy() {
    let world = World::new();
    let (mut child, socket) = serve(&world);
    world.model.push(Reply::text("never").gated(Gate::new()));
    let mut run = world.start(["run", "take your time"]);
    world.model.wait_for_blocking(1);
    fs::remove_dir_all(socket.parent().unwrap()).unwrap();
    fs::write(socket.parent().unwrap(), "in the way").unwrap();
    world.convoke(["stop"]).code(2).says("busy").says("--force");
    world.convoke(["stop", "--force"]).code(0);
    assert!(ended(&mut child, Duration::from_secs(1)).is_some());
    run.kill().and_then(|()| run.wait()).unwrap();
    fs::remove_file(socket.parent().unwrap()).unwrap();
}

/// Every command that asks the gateway, and one that goes on asking.
#[test]
fn every_command_gives_up_on_a_gateway_that_was_stopped() {
    let world = World::new();
    let (mut child, _) = serve(&world);
    world.model.push(Reply::text("here"));
    world.convoke(["run", "--label", "one", "hello"]).code(0);
    world.model.push(Reply::text("never").gated(Gate::new()));
    let follows = world.start(["run", "--json", "wait for it"]);
    world.model.wait_for_blocking(2);
    let watches = world.start(["attach", "one"]);
    eventually("nothing is attached", || {
        (rustix::io::ioctl_fionread(watches.stdout.as_ref().unwrap()).unwrap() > 0).then_some(())
    });
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::STOP).unwrap();
    let started = Instant::now();
    let commands: [&[&str]; 20] = [
        &["run", "hello"],
        &["ps"],
        &["tree", "one"],
        &["history", "one"],
        &["send", "one", "hello"],
        &["spawn", "do it"],
        &["wait", "run_01hzzzzzzzzzzzzzzzzzzzzzzz"],
        &["kill", "one"],
        &["compact", "one"],
        &["summary", "one"],
        &["undo", "one"],
        &["attach", "one"],
        &["board", "--session", "one"],
        &["mail", "list"],
        &["peers"],
        &["approve"],
        &["answer"],
        &["kill", "main"],
        &["worktrees"],
        &["stop", "--force"],
    ];
    let children = commands.map(|args| (args, world.start(args)));
    let followed = [(&["run", "(follows)"][..], follows), (&["attach", "(watches)"][..], watches)];
    for (args, child) in children.into_iter().chain(followed) {
        let done = Done::of(child.wait_with_output().unwrap());
        assert!(done.code.is_some_and(|code| code == 1 || code == 2), "{args:?}: {done:#?}");
        let told = done.stderr.contains("does not answer") || done.stdout.contains("does not answer");
        assert!(told, "{args:?}: {done:#?}");
    }
    assert!(started.elapsed() < Duration::from_secs(40), "{:?}", started.elapsed());
    kill_process(pid, Signal::CONT).unwrap();
    world.convoke(["ps"]).code(0);
    child.kill().and_then(|()| child.wait()).unwrap();
}

/// A library that adds what a file says, in seconds, to the date every program sees.
fn shim(dir: &Path) -> PathBuf {
    const SOURCE: &str = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <time.h>
        int clock_gettime(clockid_t id, struct timespec *out) {
            static int (*real)(clockid_t, struct timespec *);
            if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
            int done = real(id, out);
            const char *path = getenv("TEST_CLOCK");
            FILE *file = id == CLOCK_REALTIME && path ? fopen(path, "r") : 0;
            long leap = 0;
            if (file) { if (fscanf(file, "%ld", &leap) != 1) leap = 0; fclose(file); }
            out->tv_sec += leap;
            return done;
        }
    "#;
    let (source, library) = (dir.join("clock.c"), dir.join("clock.so"));
    fs::write(&source, SOURCE).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl").status();
    assert!(built.unwrap().success());
    library
}

#[test]
fn a_clock_that_is_set_neither_stalls_a_wait_nor_ends_it_early() {
    const DAY: i64 = 24 * 60 * 60;
    for (leap, minutes, too_late) in [(-DAY, 0.1, true), (DAY, 1.0, false)] {
        let model = FakeModel::start();
        let home = TempHome::new(&model).config_json(json!({
            "permission": { "bash": "ask" },
            "limits": { "askMinutes": minutes },
        }));
        let world = World { model, home, repo: RepoDir::new() };
        let clock = world.home.path().join("clock");
        let library = shim(world.home.path());
        world.model.push(Reply::calls([("bash", json!({ "command": "echo asked", "description": "x" }))]));
        world.model.push(Reply::text("went on"));
        let mut serve = world.command(["serve", "--no-tcp", "--json"]);
        serve.env("LD_PRELOAD", &library).env("TEST_CLOCK", &clock).stderr(Stdio::null());
        let (mut gateway, _) = ready(&mut serve);
        let spawned = world.convoke(["spawn", "--json", "do it"]).code(0).json();
        let asked = || {
            let asks = world.convoke(["approve", "--json"]).code(0).json();
            asks["asks"].as_array().and_then(|asks| asks.first().cloned())
        };
        let ask = eventually("nothing is asked", asked);
        fs::write(&clock, leap.to_string()).unwrap();
        if !too_late {
            world.convoke(["approve", ask["askId"].as_str().unwrap(), "once"]).code(0);
        }
        let run = spawned["runId"].as_str().unwrap();
        let done = world.convoke(["wait", run, "--timeout", "25"]).code(0);
        assert_eq!(done.stdout, "went on\n", "{leap}");
        let told = world.model.last().unwrap().last("tool").unwrap();
        assert_eq!(told.contains("nobody answered"), too_late, "{leap}: {told}");
        kill_process(Pid::from_child(&gateway), Signal::KILL).unwrap();
        gateway.wait().unwrap();
    }
}
