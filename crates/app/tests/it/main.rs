//! The whole: the real binary, a home of its own, and a model that says what a test wants.

mod asks;
mod attaching;
mod bad_input;
mod compaction;
mod company;
mod company_script;
mod contract;
mod crash;
mod doors;
mod environment;
mod foreign;
mod hooks;
mod jobs;
mod life;
mod limits;
mod memory;
mod messages;
mod minds;
mod modes;
mod names;
mod neighbours;
mod output;
mod oversight;
mod questions;
mod reads;
mod rows;
mod rules;
mod sandbox;
mod screen;
mod security;
mod settings;
mod sockets;
mod talks;
mod terminal;
mod undo;
mod wires;
mod worktrees;

use serde_json::{Value, json};
use std::ffi::OsStr;
use std::process::{Child, Command, Output, Stdio};
use testkit::{FakeModel, RepoDir, TempHome};

const CONVOKE: &str = env!("CARGO_BIN_EXE_convoke");

/// A home, a project and a model. Dropping it ends the gateway that its commands started.
pub(crate) struct World {
    pub(crate) model: FakeModel,
    pub(crate) home: TempHome,
    pub(crate) repo: RepoDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(FakeModel::start())
    }

    /// With nothing configured.
    pub(crate) fn bare() -> Self {
        Self { model: FakeModel::start(), home: TempHome::bare(), repo: RepoDir::new() }
    }

    pub(crate) fn with(model: FakeModel) -> Self {
        let home = TempHome::new(&model);
        Self { model, home, repo: RepoDir::new() }
    }

    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.home.command(CONVOKE);
        command.args(args).current_dir(self.repo.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs to the end.
    pub(crate) fn convoke<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Done {
        Done::of(self.command(args).output().expect("the binary runs"))
    }

    pub(crate) fn start<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Child {
        self.command(args).spawn().expect("the binary starts")
    }

    /// The process that listens in this home.
    pub(crate) fn gateway_pid(&self) -> rustix::process::Pid {
        let text = std::fs::read_to_string(self.home.path().join("state/lock")).expect("a gateway signed the lock");
        let pid = text.trim().parse().expect("the lock holds a pid");
        rustix::process::Pid::from_raw(pid).expect("a pid is positive")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.command(["stop", "--force"]).output();
    }
}

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
        }
    }

    #[track_caller]
    pub(crate) fn code(self, expected: i32) -> Self {
        assert_eq!(self.code, Some(expected), "{self:#?}");
        self
    }

    /// The one JSON value on stdout.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Every line of stdout as JSON.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        let read = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}: {self:#?}"));
        self.stdout.lines().map(read).collect()
    }

    #[track_caller]
    pub(crate) fn says(self, words: &str) -> Self {
        assert!(self.stderr.contains(words), "`{words}` is not said: {self:#?}");
        self
    }
}

/// As if the date had been so much later when the last gateway ran, the machine was restarted, and the date set back.
pub(crate) fn set_back(home: &TempHome, hours: i64) {
    let file = home.path().join("state/clock.json");
    let mut clock: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    clock["seen"] = json!(clock["seen"].as_i64().unwrap() + hours * 3_600_000);
    clock["boot"] = json!("another");
    std::fs::write(file, clock.to_string()).unwrap();
}
