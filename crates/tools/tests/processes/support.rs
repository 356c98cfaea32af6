//! What the cases share: a place, commands, and a look at which processes live.

use convoke_tools::ToolCx;
use convoke_tools::process::{Command, Error, Finished, Processes, Reaper};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// A folder and a reaper for one case.
pub(crate) struct Place {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) reaper: Arc<Reaper>,
    /// A duration for `sleep` that no other process has in its command line.
    pub(crate) mark: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        Self { dir, reaper: Arc::new(reaper()), mark: format!("86400.{nanos}") }
    }

    pub(crate) fn bash(&self, script: &str) -> Command {
        Command {
            program: "bash".into(),
            args: vec!["-c".into(), script.replace("MARK", &self.mark)],
            dir: self.dir.path().into(),
            env: self.reaper.env().to_vec(),
            timeout: Duration::from_secs(20),
            limit: 50 << 10,
            spill: None,
            live: None,
            confine: None,
            input: None,
        }
    }

    pub(crate) async fn run(&self, script: &str) -> Result<Finished, Error> {
        self.reaper.run(self.bash(script), &CancellationToken::new()).await
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Processes whose command line has this place's mark.
    pub(crate) fn running(&self) -> usize {
        processes_with(&self.mark)
    }
}

impl Place {
    /// What the model is told by the `bash` tool.
    pub(crate) async fn bash_tool(&self, input: serde_json::Value) -> Result<String, String> {
        let dir = self.dir.path().canonicalize().unwrap();
        let cx = ToolCx {
            session: proto::SessionId::new(),
            call: proto::CallId::new(),
            agent: "build".into(),
            worktree: dir.clone(),
            outputs: dir.join("outputs"),
            journal: convoke_tools::journal::Journal::of(&dir.join("journal"), &proto::SessionId::new()),
            dir,
            cancel: CancellationToken::new(),
            leave: Arc::new(convoke_tools::door::Freely),
            processes: Arc::<Reaper>::clone(&self.reaper),
            spawner: Arc::new(convoke_tools::doors::Closed),
            directory: Arc::new(convoke_tools::doors::Closed),
            office: Arc::new(convoke_tools::doors::Closed),
            board: Arc::new(convoke_tools::doors::Closed),
            background: Arc::new(convoke_tools::doors::Closed),
            catalogue: Arc::new(convoke_tools::doors::Closed),
            hands: convoke_tools::files::Hands::default(),
            files: Arc::default(),
            worktrees: convoke_tools::worktree::Here {
                settings: Arc::default(),
                entered: None,
                tenants: Arc::new(convoke_tools::doors::Closed),
            },
            confine: None,
            todo: Arc::default(),
            live: convoke_tools::process::Live::default(),
        };
        let input = serde_json::value::to_raw_value(&input).unwrap();
        let output = convoke_tools::find("bash").unwrap().run(&input, &cx).await;
        output.map(|output| output.text).map_err(|error| error.to_string())
    }
}

pub(crate) fn reaper() -> Reaper {
    Reaper::new(std::env::current_exe().unwrap(), std::env::vars().collect())
}

pub(crate) fn text(finished: &Finished) -> String {
    String::from_utf8_lossy(&finished.output).into_owned()
}

pub(crate) fn processes_with(mark: &str) -> usize {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    pids.filter(|pid| {
        std::fs::read(pid.path().join("cmdline")).is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
    })
    .count()
}

/// Waits for something another process does.
#[track_caller]
pub(crate) fn within(limit: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap().block_on(future)
}

/// A gateway to be killed: runs the script it is given, in the folder it is given, and stops being fed after a second.
pub(crate) fn gateway(args: &[String]) -> ExitCode {
    let [dir, script] = args else { return ExitCode::FAILURE };
    let reaper = reaper().feed_limit(Duration::from_secs(1));
    let command = Command {
        program: "bash".into(),
        args: vec!["-c".into(), script.clone()],
        dir: dir.into(),
        env: reaper.env().to_vec(),
        timeout: Duration::from_secs(60),
        limit: 1024,
        spill: None,
        live: None,
        confine: None,
        input: None,
    };
    block_on(async { reaper.run(command, &CancellationToken::new()).await.unwrap() });
    ExitCode::SUCCESS
}

/// Starts a gateway that runs `script`, and returns once the script made the file `up`.
pub(crate) fn start_gateway(place: &Place, script: &str) -> std::process::Child {
    let script = script.replace("MARK", &place.mark);
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .arg("gateway")
        .args([place.dir.path(), Path::new(&script)])
        .spawn()
        .unwrap();
    within(Duration::from_secs(10), "the script runs", || place.file("up").exists());
    child
}
