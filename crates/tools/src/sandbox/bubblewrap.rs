//! How bubblewrap is called.

use super::inside::{CHECK, INSIDE};
use super::layout::Mount;
use std::ffi::OsString;
use std::fs::{DirEntry, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// This program inside of a sandbox, where its file may not be: whoever starts bubblewrap hands it over as standard
/// output.
const PROGRAM: &str = "/proc/self/fd/1";

/// What stands between the name of bubblewrap and the arguments of the reaper.
pub(crate) fn arguments(mounts: &[Mount], network: bool) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut say = |said: &[&dyn AsRef<std::ffi::OsStr>]| words.extend(said.iter().map(|word| word.as_ref().to_owned()));
    for flag in ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"] {
        say(&[&flag]);
    }
    if !network {
        say(&[&"--unshare-net"]);
    }
    say(&[&"--new-session", &"--cap-drop", &"ALL"]);
    let whole = |mount: &Mount| *mount == Mount::Writable("/".into());
    let root = if mounts.iter().any(whole) { "--bind" } else { "--ro-bind" };
    say(&[&root, &"/", &"/", &"--dev", &"/dev", &"--proc", &"/proc"]);
    for about in machine() {
        match about {
            Machine::Steered(at) => say(&[&"--ro-bind", &at, &at]),
            Machine::Told(at) => say(&[&"--ro-bind", &"/dev/null", &at]),
        }
    }
    for mount in mounts.iter().filter(|mount| !whole(mount)) {
        match mount {
            Mount::Writable(at) => say(&[&"--bind", at, at]),
            Mount::Fixed(at) => say(&[&"--ro-bind", at, at]),
            Mount::Instead { at, of, writable: true } => say(&[&"--bind", of, at]),
            Mount::Instead { at, of, writable: false } => say(&[&"--ro-bind", of, at]),
            Mount::Blank(at) => say(&[&"--tmpfs", at]),
        }
    }
    // The reaper is the first process of its own, so that nothing at all survives it.
    say(&[&"--chdir", &"/", &"--as-pid-1", &"--", &PROGRAM]);
    words
}

/// What in `/proc` is about the machine and not about processes.
enum Machine {
    /// Can be changed there.
    Steered(PathBuf),
    /// Can be read there, by root alone. In its place is a device, which cannot be opened in a sandbox.
    Told(PathBuf),
}

/// Most of it asks for no capability but for the user: to root it has to be closed. To others it is, but for what in
/// `/proc/sys` belongs to the sandbox itself.
fn machine() -> Vec<Machine> {
    if !rustix::process::geteuid().is_root() {
        return vec![Machine::Steered("/proc/sys".into())];
    }
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let other = entries.filter(|entry| !entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit));
    let about = |entry: DirEntry| {
        let found = entry.metadata().ok().filter(|found| !found.is_symlink())?;
        let has = |bits: u32| found.permissions().mode() & bits != 0;
        match () {
            () if found.is_dir() || has(0o222) => Some(Machine::Steered(entry.path())),
            () if !has(0o004) || entry.file_name() == "keys" => Some(Machine::Told(entry.path())),
            () => None,
        }
    };
    other.filter_map(about).collect()
}

/// Starts one and does nothing in it.
pub(super) fn try_out(bwrap: &Path, exe: &Path) -> Result<(), String> {
    #[expect(clippy::disallowed_methods, reason = "our own program")]
    let program = File::open(exe).map_err(|error| error.to_string())?;
    let output = Command::new(bwrap)
        .args(arguments(&[], false))
        .args(["reaper", INSIDE, CHECK])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(program)
        .stderr(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(said.trim().lines().next().unwrap_or("it fails").chars().take(200).collect())
}
