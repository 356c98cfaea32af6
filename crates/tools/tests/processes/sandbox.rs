//! What the cases of sandboxes share: a workspace, a home beside it, and commands that are confined.

use crate::support::{block_on, text};
use convoke_tools::process::{Command, Error, Finished, Processes, Reaper};
use convoke_tools::sandbox::{self, Backend, Confine, Mode, Places, Reach};
use proto::Action::{Allow, Ask};
use proto::{Action, Rule};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub(crate) const WORKSPACE: Reach = Reach::USUAL;
pub(crate) const LOOKING: Reach = Reach::LOOKING;
pub(crate) const OFFLINE: Reach = Reach { mode: Mode::Workspace, network: false, asked: true };
pub(crate) const OFF: Reach = Reach { mode: Mode::Off, network: true, asked: true };

/// The value of variables that no command is to see.
pub(crate) const CANARY: &str = "canary-in-the-environment";

/// What agents usually have, as far as it concerns files.
const RULES: &[(&str, &str, Action)] = &[
    ("*", "*", Allow),
    ("read", "*", Allow),
    ("read", "*.env", Ask),
    ("read", "*.env.*", Ask),
    ("read", "*.env.example", Allow),
];

pub(crate) struct Room {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) work: PathBuf,
    pub(crate) session: proto::SessionId,
    pub(crate) reaper: Arc<Reaper>,
    pub(crate) backend: Backend,
    pub(crate) rules: Vec<Rule>,
    /// A duration for `sleep` that no other process has in its command line.
    pub(crate) mark: String,
}

impl Room {
    /// Held by landlock alone. `None` where the kernel has none, which is said, and which CI does not let pass.
    pub(crate) fn by_landlock() -> Option<Self> {
        let (backend, notes) = sandbox::find(&exe(), None);
        if backend != Backend::Landlock {
            eprintln!("CANNOT RUN THIS TEST: {}", notes.join("; "));
            assert!(std::env::var_os("CI").is_none(), "CI has to have landlock: {notes:?}");
            return None;
        }
        Some(Self::held_by(backend))
    }

    /// Held by bubblewrap. `None` where there is none, which is said, and which CI does not let pass.
    pub(crate) fn new() -> Option<Self> {
        let (backend, notes) = sandbox::find(&exe(), std::env::var_os("PATH").as_deref());
        if !matches!(backend, Backend::Bubblewrap(_)) {
            eprintln!("CANNOT RUN THIS TEST: {}", notes.join("; "));
            assert!(std::env::var_os("CI").is_none(), "CI has to have bubblewrap: {notes:?}");
            return None;
        }
        Some(Self::held_by(backend))
    }

    pub(crate) fn held_by(backend: Backend) -> Self {
        Self::held_in(tempfile::tempdir().unwrap(), backend)
    }

    pub(crate) fn held_in(dir: tempfile::TempDir, backend: Backend) -> Self {
        let root = dir.path().canonicalize().unwrap();
        let work = root.join("work");
        for name in ["work/src", "home/config", "home/state/outputs", "home/run", "elsewhere"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        let reaper = Arc::new(reaper(&root, backend.clone()));
        let rules =
            RULES.iter().map(|(permission, pattern, action)| Rule::new(*permission, *pattern, *action)).collect();
        Self { dir, work, session: proto::SessionId::new(), reaper, backend, rules, mark: format!("86400.{nanos}") }
    }

    pub(crate) fn is_bubblewrap(&self) -> bool {
        matches!(self.backend, Backend::Bubblewrap(_))
    }

    /// With the workspace as the user's own directory.
    pub(crate) fn at_home(mut self) -> Self {
        let (backend, _) = sandbox::find(&exe(), std::env::var_os("PATH").as_deref());
        let home = ("HOME".to_owned(), self.work.display().to_string());
        let env = std::env::vars().filter(|(name, _)| name != "HOME").chain([home]);
        self.reaper = Arc::new(Reaper::new(exe(), env.collect()).sandboxes(places(&self.path("")), Some(backend)));
        self
    }

    /// With a repository that has one commit.
    pub(crate) fn repository(self) -> Self {
        self.put("a.txt", "one\n");
        for words in ["init --quiet --initial-branch main", "config user.name tester", "config user.email t@localhost"]
        {
            self.git(words);
        }
        self.git("add --all");
        self.git("commit --quiet --message first");
        self
    }

    pub(crate) fn git(&self, words: &str) -> String {
        let mut git = std::process::Command::new("git");
        let output = git.args(words.split(' ')).current_dir(&self.work).output().unwrap();
        assert!(output.status.success(), "git {words}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn put(&self, name: &str, content: &str) {
        let path = self.work.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// What is in the workspace, at the top and in its `.git`.
    pub(crate) fn listed(&self) -> Vec<PathBuf> {
        let dirs = [self.work.clone(), self.work.join(".git")];
        let entries = dirs.iter().flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten());
        let mut names: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        names.sort();
        names
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    /// Where its temporary files are, as seen from outside.
    pub(crate) fn temporary(&self, session: &proto::SessionId) -> PathBuf {
        self.path("home/state/sandbox/tmp").join(session.as_str())
    }

    pub(crate) fn command(&self, reach: Reach, script: &str) -> Command {
        let confine = Confine {
            session: self.session.clone(),
            root: self.session.clone(),
            reach,
            dir: self.work.clone(),
            worktree: self.work.clone(),
            rules: Arc::new(rules::Policy { own: self.rules.clone(), ..rules::Policy::default() }),
        };
        command(&self.reaper, confine, &script.replace("MARK", &self.mark))
    }

    pub(crate) async fn run(&self, reach: Reach, script: &str) -> Result<Finished, Error> {
        self.reaper.run(self.command(reach, script), &CancellationToken::new()).await
    }

    /// Why it is not run at all.
    #[track_caller]
    pub(crate) fn refused(&self, reach: Reach, script: &str) -> String {
        let error = block_on(self.run(reach, script)).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{script}: {error}");
        error.to_string()
    }

    /// What it prints, which has to go well.
    #[track_caller]
    pub(crate) fn ok(&self, reach: Reach, script: &str) -> String {
        let finished = block_on(self.run(reach, script)).unwrap();
        assert_eq!(finished.code, Some(0), "{script}: {}", text(&finished));
        text(&finished)
    }

    /// What it complains about, which has to fail.
    #[track_caller]
    pub(crate) fn fails(&self, reach: Reach, script: &str) -> String {
        let finished = block_on(self.run(reach, script)).unwrap();
        assert_ne!(finished.code, Some(0), "{script}: {}", text(&finished));
        text(&finished)
    }
}

fn exe() -> PathBuf {
    std::env::current_exe().unwrap()
}

pub(crate) fn places(root: &Path) -> Places {
    let home = root.join("home");
    Places {
        private: ["config", "state", "run"].map(|name| home.join(name)).to_vec(),
        outputs: home.join("state/outputs"),
        root: home.join("state/sandbox"),
    }
}

fn reaper(root: &Path, backend: Backend) -> Reaper {
    let places = places(root);
    let secrets = [("OPENAI_API_KEY", CANARY), ("MY_APP", CANARY)].map(|(name, value)| (name.into(), value.into()));
    Reaper::new(exe(), std::env::vars().chain(secrets).collect()).sandboxes(places, Some(backend))
}

fn command(reaper: &Reaper, confine: Confine, script: &str) -> Command {
    Command {
        program: "bash".into(),
        args: vec!["-c".into(), script.into()],
        dir: confine.dir.clone(),
        env: reaper.env().to_vec(),
        timeout: Duration::from_secs(20),
        limit: 50 << 10,
        spill: None,
        live: None,
        confine: Some(Arc::new(confine)),
        input: None,
    }
}

/// A gateway to be killed: runs the script it is given, confined, in the place it is given.
pub(crate) fn gateway(args: &[String]) -> ExitCode {
    let [root, bwrap, script] = args else { return ExitCode::FAILURE };
    let root = PathBuf::from(root);
    let reaper = reaper(&root, Backend::Bubblewrap(bwrap.into()));
    let work = root.join("work");
    let confine = Confine {
        session: proto::SessionId::new(),
        root: proto::SessionId::new(),
        reach: WORKSPACE,
        dir: work.clone(),
        worktree: work,
        rules: Arc::default(),
    };
    let command = command(&reaper, confine, script);
    block_on(async { reaper.run(command, &CancellationToken::new()).await.unwrap() });
    ExitCode::SUCCESS
}
