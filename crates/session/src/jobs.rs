//! Jobs: commands that go on after the call that started them, owned by the runtime and not by an actor, which may sleep.
//!
//! They live in memory and in the reaper, and die with the gateway. What is stored is enough to tell so: the result of the
//! call names the job, and its end is one letter with an id made from the job's. A job that a log knows of, and neither
//! this process nor the inbox does, is gone: its session posts that letter to itself (`actor/jobs.rs`).

use crate::doors::charge;
use crate::doors::mail::{NOTICE, runtime_letter};
use crate::runtime::Inner;
use crate::steady;
use futures_util::FutureExt;
use proto::{Code, Error, Job, JobId, Millis, RunId, SessionId};
use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::Post;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tools::doors::{JobEnd, JobInfo, JobState};
use tools::process::{Command, Finished};

/// Jobs of one session at once: more is a swarm nobody looks after.
const MOST: usize = 8;
/// Jobs of one session that are over and still listed.
const REMEMBERED: usize = 16;
/// Characters of the command that a job is shown with.
const SHOWN: usize = 200;
/// What the letter of its end quotes of the output.
const LAST_LINES: usize = 20;
const LAST_BYTES: u64 = 2 << 10;
/// Between two tries to post that letter.
const PAUSE: Duration = Duration::from_secs(1);

/// The jobs of all sessions that this process has started.
#[derive(Default)]
pub(crate) struct Jobs {
    all: Mutex<HashMap<SessionId, Vec<Arc<Running>>>>,
}

struct Running {
    job: Job,
    since: Millis,
    cancel: CancellationToken,
    end: watch::Sender<Option<JobEnd>>,
}

impl Jobs {
    /// Those of a session, oldest first.
    pub(crate) fn of(&self, session: &SessionId) -> Vec<JobInfo> {
        self.lock().get(session).into_iter().flatten().map(|running| running.info()).collect()
    }

    /// What they print to while they run.
    pub(crate) fn files(&self) -> HashSet<PathBuf> {
        self.lock()
            .values()
            .flatten()
            .filter(|running| running.is_live())
            .map(|it| PathBuf::from(&it.job.file))
            .collect()
    }

    pub(crate) fn running(&self) -> usize {
        self.lock().values().flatten().filter(|running| running.is_live()).count()
    }

    pub(crate) fn knows(&self, session: &SessionId, job: &JobId) -> bool {
        self.lock().get(session).into_iter().flatten().any(|running| &running.job.id == job)
    }

    /// Sessions with a command in the background.
    pub(crate) fn owners(&self) -> Vec<SessionId> {
        let live =
            |(id, own): (&SessionId, &Vec<Arc<Running>>)| own.iter().any(|job| job.is_live()).then(|| id.clone());
        self.lock().iter().filter_map(live).collect()
    }

    fn add(&self, session: &SessionId, running: &Arc<Running>) -> Result<(), Error> {
        let mut all = self.lock();
        let own = all.entry(session.clone()).or_default();
        let live = own.iter().filter(|running| running.is_live()).count();
        if live >= MOST {
            let why = format!("{MOST} jobs of this session run already: stop one first, with `jobs`");
            return Err(Error::new(Code::LimitChildren, why));
        }
        if own.len() - live >= REMEMBERED
            && let Some(oldest) = own.iter().position(|running| !running.is_live())
        {
            own.remove(oldest);
        }
        own.push(running.clone());
        Ok(())
    }

    /// Ends one, and waits for that.
    pub(crate) async fn stop(&self, session: &SessionId, id: &str) -> Option<JobInfo> {
        let own = self.lock().get(session).cloned().unwrap_or_default();
        let running = own.into_iter().find(|running| running.job.id.as_str() == id)?;
        running.stop().await;
        Some(running.info())
    }

    /// Ends all of a session, which is told when it goes on. False when none ran.
    pub(crate) async fn end(&self, session: &SessionId) -> bool {
        let own = self.lock().remove(session).unwrap_or_default();
        let live: Vec<_> = own.into_iter().filter(|running| running.is_live()).collect();
        live.iter().for_each(|running| running.cancel.cancel());
        for running in &live {
            running.stop().await;
        }
        !live.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Vec<Arc<Running>>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    fn is_live(&self) -> bool {
        self.end.borrow().is_none()
    }

    fn info(&self) -> JobInfo {
        let ms = u64::try_from(steady() - self.since).unwrap_or(0);
        let state = (*self.end.borrow()).map_or(JobState::Running { ms }, JobState::Ended);
        JobInfo { job: self.job.clone(), state }
    }

    async fn stop(&self) {
        self.cancel.cancel();
        // The sender is ours, so this ends by the value alone.
        let _ = self.end.subscribe().wait_for(Option::is_some).await;
    }
}

impl Inner {
    /// Starts a command of a session, whose end is told by a letter.
    pub(crate) async fn start_job(
        self: &Arc<Self>,
        (session, root): (&SessionId, &SessionId),
        purse: Option<&RunId>,
        command: Command,
        words: &str,
    ) -> Result<Job, Error> {
        let id = JobId::new();
        let file = self.outputs_of(root).join(format!("{id}.txt"));
        make(&file).map_err(|error| Error::internal(format!("cannot make `{}`: {error}", file.display())))?;
        let shown: String = words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHOWN).collect();
        let job = Job { id, command: shown, file: file.to_string_lossy().into_owned() };
        let cancel = self.stop_token().child_token();
        let running = Arc::new(Running { job: job.clone(), since: steady(), cancel, end: watch::Sender::default() });
        self.jobs.add(session, &running)?;
        let command = Command { spill: Some(file), ..command };
        self.spawn(self.clone().attend_job(session.clone(), purse.cloned(), running, command));
        Ok(job)
    }

    async fn attend_job(
        self: Arc<Self>,
        session: SessionId,
        purse: Option<RunId>,
        running: Arc<Running>,
        command: Command,
    ) {
        let done = AssertUnwindSafe(self.processes.run(command, &running.cancel)).catch_unwind().await;
        let (end, trouble) = match done {
            Ok(Ok(finished)) => (ended(&finished), None),
            _ if running.cancel.is_cancelled() => (JobEnd { stopped: true, ..JobEnd::default() }, None),
            Ok(Err(error)) => (JobEnd::default(), Some(error.to_string())),
            Err(_) => (JobEnd::default(), Some("it broke down inside".to_owned())),
        };
        let end = JobEnd { ms: u64::try_from(steady() - running.since).unwrap_or(0), ..end };
        if !end.stopped {
            let said = self.conceal(words(&running.job, &end, trouble.as_deref()));
            let mut post = runtime_letter(running.job.id.end().as_str(), &session, said);
            if let Some(purse) = &purse {
                charge(&mut post.letter, purse);
            }
            self.tell(post, &running.cancel).await;
        }
        // After its letter is stored: until then it must not look as if nobody knew of it.
        running.end.send_replace(Some(end));
    }

    /// Posts it, however long that takes; a session that is gone needs none.
    async fn tell(self: &Arc<Self>, post: Post, cancel: &CancellationToken) {
        while let Err(error) = self.post(vec![post.clone()]).await {
            if error.code == Code::NotFound {
                return;
            }
            tracing::warn!(%error, "the end of a job cannot be told yet");
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }
}

/// What a session is told of a job that is gone without a word.
pub(crate) fn gone(session: &SessionId, job: &Job) -> Post {
    let text = format!(
        "{NOTICE} The job `{}` (`{}`) is gone: it was ended with the gateway or the run it belonged to. What it had printed \
         is in `{}`. Start it again if it is still needed.",
        job.id, job.command, job.file
    );
    runtime_letter(job.id.end().as_str(), session, text)
}

fn ended(finished: &Finished) -> JobEnd {
    JobEnd {
        code: finished.code,
        signal: finished.signal,
        timed_out: finished.timed_out,
        stopped: finished.cancelled,
        bytes: finished.total,
        ms: finished.ms,
    }
}

/// What the one letter about a job's end says.
fn words(job: &Job, end: &JobEnd, trouble: Option<&str>) -> String {
    let how = trouble.map_or_else(|| end.words(), |why| format!("came to no good end: {why}"));
    let mut text = format!("{NOTICE} The job `{}` (`{}`) {how}.", job.id, job.command);
    match last_lines(Path::new(&job.file)) {
        Ok(lines) if lines.is_empty() => text.push_str(" It printed nothing."),
        Ok(lines) => {
            text.push_str(&format!(" It printed {} bytes, which are in `{}`; the last of it:\n", end.bytes, job.file));
            text.push_str(&lines);
        }
        Err(error) => text.push_str(&format!(" What it printed cannot be read: {error}.")),
    }
    text
}

fn last_lines(file: &Path) -> io::Result<String> {
    let mut file = foreign::file(file)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LAST_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    Ok(lines[lines.len().saturating_sub(LAST_LINES)..].join("\n"))
}

/// An empty file that is nobody else's.
fn make(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    std::fs::File::options().write(true).create_new(true).mode(0o600).open(path).map(drop)
}
