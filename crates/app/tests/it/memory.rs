//! Memory: what large prompts took is given back.

use crate::World;
use std::io::{BufRead, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// What a process holds, in MiB.
fn resident(pid: rustix::process::Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
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
