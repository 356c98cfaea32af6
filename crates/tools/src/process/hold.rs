//! `convoke hold PATH… -- PROGRAM ARG…`: becomes a program that changes nothing outside of these paths.
//!
//! The gateway calls git in repositories that agents write to, and git follows the links it finds there: a branch's log
//! that is a link to the user's `.bashrc` would be appended to. What the kernel holds a process to does not depend on names,
//! nor on who changes them meanwhile. Where it cannot do that, agents are not held either.

use crate::sandbox;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The hidden subcommand.
pub(crate) const HOLD: &str = "hold";
/// Between the paths and the program.
const THEN: &str = "--";
/// The program could not be started, as a shell says it.
pub(crate) const NOT_STARTED: u8 = 127;
/// Far beyond what git needs for a large repository; a file without end is not read into all memory there is. Files that
/// are mapped do not count.
const MOST_MEMORY: u64 = 2 << 30;

/// The words that make this program become another one.
pub(crate) fn arguments(writable: &[PathBuf], program: &str, args: &[&str]) -> Vec<String> {
    let there = writable.iter().filter(|path| path.exists()).map(|path| path.display().to_string());
    let program = [THEN, program].into_iter().chain(args.iter().copied()).map(str::to_owned);
    std::iter::once(HOLD.to_owned()).chain(there).chain(program).collect()
}

/// What the hidden subcommand does.
pub fn hold_main() -> ExitCode {
    let mut words = std::env::args_os().skip(2);
    let writable: Vec<PathBuf> = words.by_ref().take_while(|word| word != THEN).map(PathBuf::from).collect();
    let why = match held(&writable) {
        Ok(()) => become_program(words),
        Err(why) => why,
    };
    let _ = writeln!(io::stderr(), "{why}");
    ExitCode::from(NOT_STARTED)
}

fn held(writable: &[PathBuf]) -> Result<(), String> {
    let most = Rlimit { current: Some(MOST_MEMORY), ..getrlimit(Resource::Data) };
    setrlimit(Resource::Data, most).map_err(|error| format!("cannot limit its memory: {error}"))?;
    let paths: Vec<&Path> = writable.iter().map(PathBuf::as_path).collect();
    sandbox::hold(&paths)
}

/// Comes back only with the reason why not.
fn become_program(mut words: impl Iterator<Item = OsString>) -> String {
    let Some(program) = words.next() else { return "no program is named".into() };
    let error = Command::new(&program).args(words).exec();
    format!("cannot start `{}`: {error}", program.display())
}
