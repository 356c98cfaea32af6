//! Real processes through a real reaper. This program is its own gateway, reaper and runner, told apart by an argument.

#![allow(clippy::disallowed_methods, reason = "tests know what they wrote")]

mod cases;
mod confined;
mod sandbox;
mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("reaper") => convoke_tools::process::reaper_main(),
        Some("runner") => convoke_tools::process::runner_main(),
        Some("hold") => convoke_tools::process::hold_main(),
        Some("gateway") => support::gateway(&args[1..]),
        Some("confined-gateway") => sandbox::gateway(&args[1..]),
        // None is ignored: a runner that asks for those alone must not be told the same names again.
        _ if args.iter().any(|arg| arg == "--ignored") => ExitCode::SUCCESS,
        _ if args.iter().any(|arg| arg == "--list") => list(),
        _ => run(&args),
    }
}

#[expect(clippy::print_stdout, reason = "this is what test runners ask for")]
fn list() -> ExitCode {
    for (name, _) in cases::ALL.iter().chain(confined::ALL) {
        println!("{name}: test");
    }
    ExitCode::SUCCESS
}

fn run(args: &[String]) -> ExitCode {
    let filters: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let exact = args.iter().any(|arg| arg == "--exact");
    let asked_for = |filter: &&String, name: &str| if exact { *filter == name } else { name.contains(filter.as_str()) };
    let mut failed = Vec::new();
    for (name, case) in cases::ALL.iter().chain(confined::ALL) {
        if !filters.is_empty() && !filters.iter().any(|filter| asked_for(filter, name)) {
            continue;
        }
        let passed = std::panic::catch_unwind(case).is_ok();
        eprintln!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
        if !passed {
            failed.push(*name);
        }
    }
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        eprintln!("failed: {failed:?}");
        ExitCode::FAILURE
    }
}
