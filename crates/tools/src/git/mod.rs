//! Git, called so that nothing a repository says gets to run.
//!
//! A repository's settings can name programs: hooks, filters, a watcher of files, an editor, a transport. Whoever cloned
//! it has not agreed to any of them. So every call gets settings of ours on top of the repository's, an environment that
//! holds nothing of the user's git, and a time limit; the few harmless things of the user's own settings that change
//! what counts as a change (`core.excludesFile` and the like) are carried over.
//!
//! Filters have names that nobody knows beforehand, so they cannot be turned off that way. Every call that would run one
//! is made `Apart` from the repository's settings.
//!
//! None of this reaches a git that git itself starts in a repository inside of this one, and `status` and `add` do that:
//! no call may let them look into one. Whoever wants to know opens it on its own.
//!
//! Nor may a repository make git read or wait without end: what it would do that with is looked for (`odd`), and what is
//! not found there ends with the memory and the time that a call has.

mod apart;
mod harden;
mod odd;

pub(crate) use apart::{Apart, Site, Which};

use crate::process::{self, Command, Finished, NOT_STARTED, Processes};
use proto::{Code, Error};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// For questions: far beyond what the largest repository needs.
const QUESTION: Duration = Duration::from_secs(60);
/// For the one that comes before a command: what its index names. A large one is read in a second.
const GLANCE: Duration = Duration::from_secs(20);
/// For work: a checkout or a snapshot of a very large tree on a slow disk.
const WORK: Duration = Duration::from_secs(600);
/// The most of an answer that is kept; 64 MiB list some hundred thousand files.
const ANSWER: usize = 64 << 20;
/// The most of git's own words that anybody is told.
const WORDS: usize = 2000;
/// After this time the files that may block git are looked at.
const LONG: Duration = Duration::from_secs(3);

/// Git in one directory.
#[derive(Clone)]
pub struct Git {
    processes: Arc<dyn Processes>,
    cancel: CancellationToken,
    dir: PathBuf,
    env: Vec<(String, String)>,
    /// What it may change.
    writable: Vec<PathBuf>,
}

impl Git {
    /// Git in a directory, with what of the settings there is harmless.
    pub async fn open(processes: Arc<dyn Processes>, cancel: CancellationToken, dir: &Path) -> Result<Self, Error> {
        let asking = harden::asking(processes.env());
        let mut git = Self { processes, cancel, dir: dir.to_owned(), env: asking, writable: Vec::new() };
        // Reading settings starts nothing. Outside of a repository this lists the user's own.
        let listed = git.read(&["config", "--null", "--list"]).await?;
        git.env = harden::environment(git.processes.env(), &listed);
        Ok(git)
    }

    /// Git where other settings may hold: in another worktree, or in a repository inside of this one.
    pub(crate) async fn open_in(&self, dir: &Path) -> Result<Self, Error> {
        Self::open(Arc::clone(&self.processes), self.cancel.clone(), dir).await
    }

    /// The same in another directory where the same settings hold.
    #[must_use]
    pub fn at(&self, dir: &Path) -> Self {
        Self { dir: dir.to_owned(), ..self.clone() }
    }

    /// With further places that it may change.
    #[must_use]
    pub(crate) fn writing(&self, places: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut git = self.clone();
        git.writable.extend(places);
        git
    }

    /// With one more variable.
    #[must_use]
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut git = self.clone();
        git.env.push((name.into(), value.into()));
        git
    }

    /// Like this one, but no cancelled call stops it: for what must not be left half done.
    #[must_use]
    pub(crate) fn steadfast(&self) -> Self {
        Self { cancel: CancellationToken::new(), ..self.clone() }
    }

    /// What git answers to a question.
    pub(crate) async fn read(&self, args: &[&str]) -> Result<String, Error> {
        answer(args, self.call(args, QUESTION).await?)
    }

    /// The same, or `None` when git says no.
    pub(crate) async fn ask(&self, args: &[&str]) -> Result<Option<String>, Error> {
        let finished = self.call(args, QUESTION).await?;
        if finished.code == Some(0) { answer(args, finished).map(Some) } else { Ok(None) }
    }

    /// Lets git do something. What it says when it fails is the error.
    pub(crate) async fn work(&self, args: &[&str]) -> Result<String, Error> {
        answer(args, self.call(args, WORK).await?)
    }

    async fn call(&self, args: &[&str], timeout: Duration) -> Result<Finished, Error> {
        let (program, words) = held(&*self.processes, &self.writable, args);
        let command = Command {
            program,
            args: words,
            dir: self.dir.clone(),
            env: self.env.clone(),
            timeout,
            limit: ANSWER,
            spill: None,
            live: None,
            confine: None,
            // With an input, if an empty one, warnings do not get between the lines of an answer.
            input: Some(String::new()),
        };
        let finished = run(&*self.processes, command, &self.cancel).await?;
        if finished.cancelled {
            return Err(Error::new(Code::Cancelled, "cancelled"));
        }
        if finished.timed_out {
            let why = format!("`{}` did not come to its end in {} s", shown(args), timeout.as_secs());
            return Err(Error::new(Code::Timeout, why).hint("look whether the disk or another git holds it up"));
        }
        Ok(finished)
    }
}

async fn run(processes: &dyn Processes, command: Command, cancel: &CancellationToken) -> Result<Finished, Error> {
    let dir = command.dir.clone();
    looked(odd::look, &dir).await?;
    let stop = cancel.child_token();
    let mut running = std::pin::pin!(processes.run(command, &stop));
    let ended = tokio::select! {
        ended = &mut running => ended,
        odd = held_up(&dir) => {
            stop.cancel();
            let _ = running.await;
            return Err(odd);
        }
    };
    let finished = ended.map_err(|error| broken(&error))?;
    if finished.code == Some(NOT_STARTED.into()) {
        let reason = text(&finished.errors).trim().to_owned();
        return Err(broken(&process::Error::Start { program: "git".into(), reason }));
    }
    Ok(finished)
}

/// The file that blocks git, once it takes long; never returns if there is none.
async fn held_up(dir: &Path) -> Error {
    tokio::time::sleep(LONG).await;
    match looked(odd::look_everywhere, dir).await {
        Err(odd) => odd,
        Ok(()) => std::future::pending().await,
    }
}

/// Beside the async workers: a disk may take its time.
async fn looked(look: fn(&Path) -> Result<(), Error>, dir: &Path) -> Result<(), Error> {
    let dir = dir.to_owned();
    let looked = tokio::task::spawn_blocking(move || look(&dir)).await;
    looked.unwrap_or_else(|error| Err(Error::internal(format!("a look at a repository broke: {error}"))))
}

/// Repositories inside of the one in `dir` that its index names: whoever asks about its state looks into them.
pub(crate) async fn links(processes: &dyn Processes, dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let listed = match bare(processes, dir, &["ls-files", "--stage", "-z"], String::new()).await {
        // Whatever else git complains about, it complains to the user about as well, and looks into none.
        Err(error) if !matches!(error.code, Code::Timeout | Code::Conflict) => return Ok(Vec::new()),
        listed => listed?,
    };
    let lines = listed.split(|byte| *byte == 0).filter(|line| line.starts_with(b"160000 "));
    let names = lines.filter_map(|line| line.iter().position(|byte| *byte == b'\t').map(|at| &line[at + 1..]));
    Ok(names.map(|name| dir.join(std::ffi::OsStr::from_bytes(name))).collect())
}

/// What settings say, one by one, without those they include.
pub(crate) async fn list_settings(processes: &dyn Processes, text: &str) -> Result<String, Error> {
    let args = ["config", "--file", "-", "--null", "--list"];
    bare(processes, Path::new("/"), &args, text.to_owned()).await.map(|listed| self::text(&listed))
}

/// How git is started, so that it changes nothing but these places: a repository's links lead it anywhere.
fn held(processes: &dyn Processes, writable: &[PathBuf], args: &[&str]) -> (String, Vec<String>) {
    match processes.holder() {
        Some(holder) => (holder.display().to_string(), process::arguments_held(writable, "git", args)),
        None => ("git".into(), args.iter().map(|arg| (*arg).to_owned()).collect()),
    }
}

/// One question that starts nothing.
async fn bare(processes: &dyn Processes, dir: &Path, args: &[&str], input: String) -> Result<Vec<u8>, Error> {
    let (program, words) = held(processes, &[], args);
    let command = Command {
        program,
        args: words,
        dir: dir.to_owned(),
        env: harden::looking(processes.env()),
        timeout: GLANCE,
        limit: ANSWER,
        spill: None,
        live: None,
        confine: None,
        input: Some(input),
    };
    let finished = run(processes, command, &CancellationToken::new()).await?;
    match finished.code {
        Some(0) if !finished.truncated => Ok(finished.output),
        _ if finished.truncated || finished.timed_out => {
            let why = format!("`{}` has more to say than fits, or takes too long", shown(args));
            Err(Error::new(Code::Timeout, why))
        }
        _ => answer(args, finished).map(String::into_bytes),
    }
}

/// What git printed, or its own words for why it did not do it.
fn answer(args: &[&str], finished: Finished) -> Result<String, Error> {
    if finished.code == Some(0) && !finished.truncated {
        return Ok(text(&finished.output));
    }
    let said = text(&finished.errors);
    let words: String = said.trim().chars().take(WORDS).collect();
    let why = match () {
        () if finished.truncated => "it has more to say than fits".to_owned(),
        () if words.is_empty() => "it gives no reason".to_owned(),
        () => words,
    };
    Err(Error::new(Code::Unavailable, format!("`{}` failed: {why}", shown(args))))
}

fn broken(error: &process::Error) -> Error {
    match error {
        process::Error::Start { reason, .. } => {
            Error::new(Code::Unavailable, format!("git cannot be started: {reason}"))
                .hint("install git 2.36 or newer, or set `hooks.worktree_create` and `hooks.worktree_remove`")
        }
        other => Error::new(Code::Unavailable, other.to_string()),
    }
}

fn shown(args: &[&str]) -> String {
    let words: Vec<&str> = args.iter().take(4).copied().collect();
    format!("git {}", words.join(" "))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Direct, repository};

    #[tokio::test]
    async fn git_that_waits_for_a_pipe_is_stopped_and_the_pipe_is_named() {
        let place = repository();
        let pipe = place.dir().join(".gitignore");
        std::fs::remove_file(&pipe).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        let git = Git::open(Arc::new(Direct::new()), CancellationToken::new(), place.dir()).await.unwrap();
        let error = git.work(&["status"]).await.unwrap_err();
        assert!(error.code == Code::Conflict && error.message.contains(".gitignore` is a pipe"), "{error}");
    }
}
