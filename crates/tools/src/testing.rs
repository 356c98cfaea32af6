//! For tests of tools: a folder and a context for calls in it.

use crate::process::{Command, Error, Finished, Processes, Reaper};
use crate::{Access, AnyTool, ToolCx};
use async_trait::async_trait;
use proto::{CallId, SessionId};
use serde_json::value::to_raw_value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A worktree, a folder of saved outputs beside it, and what one session has read.
pub(crate) struct Place {
    temporary: tempfile::TempDir,
    work: PathBuf,
    call: CallId,
    seen: Arc<crate::files::Seen>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let work = temporary.path().canonicalize().unwrap().join("work");
        std::fs::create_dir(&work).unwrap();
        Self { temporary, work, call: CallId::new(), seen: Arc::default() }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.work
    }

    /// Makes a file and the folders above it.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn content(&self, name: &str) -> String {
        std::fs::read_to_string(self.work.join(name)).unwrap()
    }

    pub(crate) fn cx(&self) -> ToolCx {
        ToolCx {
            session: SessionId::new(),
            call: self.call.clone(),
            agent: "build".into(),
            dir: self.work.clone(),
            worktree: self.work.clone(),
            outputs: self.temporary.path().canonicalize().unwrap().join("outputs"),
            cancel: CancellationToken::new(),
            leave: Arc::new(crate::door::Freely),
            // Never started here: commands are tested with real processes in `tests/processes`.
            processes: Arc::new(Reaper::new("/nowhere".into(), Vec::new())),
            spawner: Arc::new(crate::doors::Closed),
            directory: Arc::new(crate::doors::Closed),
            office: Arc::new(crate::doors::Closed),
            board: Arc::new(crate::doors::Closed),
            background: Arc::new(crate::doors::Closed),
            catalogue: Arc::new(crate::doors::Closed),
            hands: crate::files::Hands::default(),
            files: Arc::clone(&self.seen),
            journal: self.journal(),
            worktrees: crate::worktree::Here {
                settings: Arc::default(),
                entered: None,
                tenants: Arc::new(crate::doors::Closed),
            },
            confine: None,
            todo: Arc::default(),
            live: crate::process::Live::default(),
        }
    }

    pub(crate) fn journal(&self) -> crate::journal::Journal {
        let session = SessionId::parse("ses_1").unwrap();
        crate::journal::Journal::of(&self.temporary.path().join("journal"), &session)
    }

    /// What the model is told, whether it went well or not.
    pub(crate) async fn call(&self, tool: &dyn AnyTool, input: serde_json::Value) -> Result<String, String> {
        let output = tool.run(&to_raw_value(&input).unwrap(), &self.cx()).await;
        output.map(|output| output.text).map_err(|error| error.to_string())
    }

    /// What the call would ask for, as `permission pattern`.
    pub(crate) fn asks(&self, tool: &dyn AnyTool, input: serde_json::Value) -> Vec<String> {
        let accesses = tool.access(&to_raw_value(&input).unwrap(), &self.cx()).unwrap();
        accesses.iter().map(|Access { permission, pattern, .. }| format!("{permission} {pattern}")).collect()
    }
}

/// A repository with one commit: a file, a folder and something to ignore.
pub(crate) fn repository() -> Place {
    let place = Place::new();
    place.file("a.txt", "one\n");
    place.file("src/b.txt", "two\n");
    place.file(".gitignore", "*.log\n");
    place.git("init --quiet --initial-branch main");
    place.git("config user.name tester");
    place.git("config user.email tester@localhost");
    place.git("add --all");
    place.git("commit --quiet --message first");
    place
}

impl Place {
    /// Plain git in the worktree, as a person calls it.
    #[track_caller]
    pub(crate) fn git(&self, words: &str) -> String {
        git_in(&self.work, words)
    }
}

#[track_caller]
pub(crate) fn git_in(dir: &Path, words: &str) -> String {
    let output = std::process::Command::new("git")
        .args(words.split(' '))
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(output.status.success(), "git {words}: {said} {}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Starts commands itself: for tests of what commands do, and not of who cleans up after them.
pub(crate) struct Direct {
    env: Vec<(String, String)>,
}

impl Direct {
    pub(crate) fn new() -> Self {
        Self::with(Vec::new())
    }

    /// With more variables than the usual ones.
    pub(crate) fn with(more: Vec<(String, String)>) -> Self {
        let mut env = crate::process::clean_env(std::env::vars());
        env.extend(more);
        Self { env }
    }
}

#[async_trait]
impl Processes for Direct {
    async fn run(&self, command: Command, cancel: &CancellationToken) -> Result<Finished, Error> {
        let program = command.program.clone();
        let failed = |error: std::io::Error| Error::Start { program: program.clone(), reason: error.to_string() };
        let mut child = tokio::process::Command::new(&command.program);
        child.args(&command.args).env_clear().envs(command.env).current_dir(&command.dir).kill_on_drop(true);
        child.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = child.stderr(std::process::Stdio::piped()).spawn().map_err(failed)?;
        let mut stdin = child.stdin.take().expect("it is piped");
        let input = command.input.clone().unwrap_or_default();
        // One that reads nothing is no failure.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut stdin, input.as_bytes()).await;
        drop(stdin);
        tokio::select! {
            () = cancel.cancelled() => Ok(Finished { cancelled: true, ..Finished::default() }),
            () = tokio::time::sleep(command.timeout) => Ok(Finished { timed_out: true, ..Finished::default() }),
            output = child.wait_with_output() => {
                let output = output.map_err(failed)?;
                let (output, code, errors) = (output.stdout, output.status.code(), output.stderr);
                Ok(Finished { code, output, errors, ..Finished::default() })
            }
        }
    }

    fn env(&self) -> &[(String, String)] {
        &self.env
    }
}
