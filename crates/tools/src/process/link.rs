//! The gateway's side: starts the reaper when it is needed, feeds it, and follows each call to its end.

use super::collect::Collector;
use super::confined::{self, Before, Entered, Sandboxes, Way};
use super::fresh;
use super::left::Mark;
use super::wire::{self, Note, Report};
use super::{Command, Error, Finished, Processes, Wanted, clean_env, env_with};
use crate::sandbox::{Backend, Confine, Mode, Places};
use async_trait::async_trait;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::pipe::{PipeFlags, pipe_with};
use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// How long the reaper goes without food before it takes the gateway for stopped.
const FEED_LIMIT: Duration = Duration::from_secs(10);
/// Times the reaper is fed within its limit.
const FEEDS: u32 = 10;
/// How long a runner may take to end its call before the reaper is asked to end the runner. More than its own patience.
const RUNNER_GRACE: Duration = Duration::from_secs(4);
/// How long a sandbox may take to serve; a busy machine takes a second.
const START_LIMIT: Duration = Duration::from_secs(20);
/// How long output may keep coming after all is dead: a descriptor that was handed to a stranger never closes.
const PIPE_GRACE: Duration = Duration::from_secs(1);

/// Runs commands through a reaper process, which is started when the first command is.
pub struct Reaper {
    exe: PathBuf,
    /// All there is, for settings that let more of it through.
    base: Vec<(String, String)>,
    env: Vec<(String, String)>,
    feed_limit: Duration,
    link: Mutex<Option<Arc<Link>>>,
    feeder: Arc<Feeder>,
    sandboxes: Option<Arc<Sandboxes>>,
    mark: Option<Mark>,
}

impl Reaper {
    /// `exe` must answer to the arguments `reaper` and `runner` with [`super::reaper_main`] and [`super::runner_main`].
    /// `env` is cleaned here once more.
    pub fn new(exe: PathBuf, env: Vec<(String, String)>) -> Self {
        let (base, link) = (env, Mutex::new(None));
        let env = clean_env(base.iter().cloned());
        Self { exe, base, env, feed_limit: FEED_LIMIT, link, feeder: Arc::default(), sandboxes: None, mark: None }
    }

    /// With sandboxes, enforced by the best there is on this machine, or by the backend that is given. Without this,
    /// commands that are to be confined are refused.
    #[must_use]
    pub fn sandboxes(mut self, places: Places, backend: Option<Backend>) -> Self {
        self.sandboxes = Some(Arc::new(Sandboxes::new(places, backend)));
        self
    }

    /// With commands that the next gateway recognises, if this one is killed with all that would end them.
    #[must_use]
    pub fn marked(mut self, mark: Mark) -> Self {
        self.mark = Some(mark);
        self
    }

    /// With another time after which a gateway that stopped counts as gone.
    #[must_use]
    pub fn feed_limit(mut self, limit: Duration) -> Self {
        self.feed_limit = limit;
        self
    }

    fn beginning(&self) -> Start<'_> {
        Start { exe: &self.exe, env: &self.env, feed_limit: self.feed_limit, feeder: &self.feeder }
    }

    /// The reaper that lives, or a new one.
    fn link(&self) -> io::Result<Arc<Link>> {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = link.as_ref().filter(|link| !link.gone.is_cancelled()) {
            return Ok(Arc::clone(link));
        }
        let fresh = Arc::new(self.beginning().bare()?);
        *link = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    async fn start(&self) -> io::Result<Call> {
        let (ours, theirs) = ends()?;
        let link = self.link()?;
        match link.send_run(&theirs).await {
            Ok(id) => Ok(Call { link, id, ends: ours }),
            // It died and nobody had noticed: nothing was started, so a second try repeats nothing.
            Err(_) => {
                link.gone.cancel();
                Call::begin(self.link()?, ours, &theirs).await
            }
        }
    }

    /// Where a command is to be run.
    async fn way(&self, command: &Command) -> Result<Way, Error> {
        let Some(confine) = &command.confine else { return Ok(Way::Bare { notice: None }) };
        let Some(sandboxes) = &self.sandboxes else {
            let reason = "there are no sandboxes here".to_owned();
            return Err(Error::Refused { program: command.program.clone(), reason });
        };
        let nested = match confine.reach.mode {
            Mode::Workspace => sandboxes.links.of(self, &confine.worktree).await.map_err(|unlisted| {
                let place = unlisted.index.display();
                let reason = format!(
                    "which repositories `{place}` names cannot be told, and so not protected: {}",
                    unlisted.why
                );
                Error::Refused { program: command.program.clone(), reason }
            })?,
            Mode::ReadOnly | Mode::Off => Vec::new(),
        };
        sandboxes.enter(command, confine, nested, &self.beginning()).await
    }

    /// Takes out of repositories that a command made, where the user's git would look into them, what would run then. What
    /// the command is told about that.
    async fn disarm(&self, confine: &Confine, before: &Before) -> Option<String> {
        if confine.reach.mode != Mode::Workspace {
            return None;
        }
        let mut told = Vec::new();
        let nested = match self.sandboxes.as_ref()?.links.of(self, &confine.worktree).await {
            Ok(nested) => nested,
            Err(unlisted) => {
                fresh::put_aside(&unlisted.index, &mut told);
                Vec::new()
            }
        };
        told.extend(fresh::disarm(self, before, &nested).await);
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// Begins a command where it is to be run.
    async fn begin(&self, command: &Command) -> Result<Begun, Error> {
        // A sandbox may die between two looks; nothing was started then, so a second try repeats nothing.
        for _ in 0..2 {
            let entered = match self.way(command).await? {
                Way::Bare { notice } => {
                    let call = self.start().await.map_err(Error::Reaper)?;
                    return Ok(Begun { call, notice, entered: None });
                }
                Way::Inside(entered) => entered,
            };
            let (ours, theirs) = ends().map_err(Error::Reaper)?;
            match Call::begin(Arc::clone(&entered.link), ours, &theirs).await {
                Ok(call) => return Ok(Begun { call, notice: None, entered: Some(entered) }),
                Err(_) => entered.link.gone.cancel(),
            }
        }
        Err(Error::Reaper(io::ErrorKind::BrokenPipe.into()))
    }
}

/// A command that is about to be told what it is.
struct Begun {
    call: Call,
    notice: Option<String>,
    entered: Option<Entered>,
}

impl Begun {
    async fn follow(self, mut command: Command, cancel: &CancellationToken) -> Result<Finished, Error> {
        let Some(entered) = self.entered else {
            let finished = self.call.follow(wire::encode(&command)?, &command, cancel).await?;
            return Ok(Finished { notice: self.notice, ..finished });
        };
        let temporary = entered.temporary.display();
        for (name, below) in [("TMPDIR", ""), ("XDG_CACHE_HOME", "/.cache"), ("npm_config_cache", "/.cache/npm")] {
            // Build tools give up where they can keep nothing; what they keep here is the session's own.
            command.env.retain(|(known, _)| known != name);
            command.env.push((name.into(), format!("{temporary}{below}")));
        }
        let finished = self.call.follow(wire::encode(&command)?, &command, cancel).await?;
        Ok(Finished { notice: entered.notice, ..finished })
    }
}

#[async_trait]
impl Processes for Reaper {
    async fn run(&self, mut command: Command, cancel: &CancellationToken) -> Result<Finished, Error> {
        let started = Instant::now();
        command.env.extend(self.mark.as_ref().map(Mark::variable));
        // What cannot be said to a runner is refused before anything is set up for it.
        wire::encode(&command)?;
        let begun = tokio::select! {
            // What is cancelled already does not start.
            biased;
            () = cancel.cancelled() => return Ok(Finished { cancelled: true, ..Finished::default() }),
            begun = self.begin(&command) => begun?,
        };
        let before = begun.entered.as_ref().map(|entered| Arc::clone(&entered.before));
        let confine = command.confine.clone();
        let finished = begun.follow(command, cancel).await;
        let told = match (&before, &confine) {
            (Some(before), Some(confine)) => self.disarm(confine, before).await,
            _ => None,
        };
        let finished = finished?;
        let finished = Finished { notice: told.or(finished.notice.clone()), ..finished };
        Ok(Finished { ms: started.elapsed().as_millis().try_into().unwrap_or(u64::MAX), ..finished })
    }

    fn give_way(&self, path: &Path) {
        if let Some(sandboxes) = &self.sandboxes {
            sandboxes.give_way(path);
        }
    }

    fn rest(&self, session: &proto::SessionId) {
        if let Some(sandboxes) = &self.sandboxes {
            sandboxes.end_idle(|room| room.session == *session);
        }
    }

    fn holder(&self) -> Option<&Path> {
        Some(&self.exe)
    }

    fn env_with(&self, wanted: &Wanted) -> Vec<(String, String)> {
        env_with(&self.base, wanted)
    }

    fn env(&self) -> &[(String, String)] {
        &self.env
    }
}

/// What a reaper is started with.
pub(super) struct Start<'a> {
    pub(super) exe: &'a Path,
    pub(super) env: &'a [(String, String)],
    pub(super) feed_limit: Duration,
    feeder: &'a Arc<Feeder>,
}

impl Start<'_> {
    fn bare(&self) -> io::Result<Link> {
        let mut command = tokio::process::Command::new(self.exe);
        command.arg("reaper").stdout(Stdio::null()).stderr(Stdio::null());
        Link::open(command, self).map(|(link, _)| link)
    }

    /// A reaper that confines itself, and before that is confined by another program with its arguments. Returns when
    /// it serves, so that what is wrong with the sandbox is not taken for a command that failed.
    pub(super) async fn inside(&self, outer: Option<(&Path, Vec<OsString>)>, words: &[OsString]) -> io::Result<Link> {
        let mut command = match outer {
            Some((program, words)) => {
                let mut command = tokio::process::Command::new(program);
                command.args(words).stdout(confined::program(self.exe)?);
                command
            }
            None => {
                let mut command = tokio::process::Command::new(self.exe);
                command.stdout(Stdio::null());
                command
            }
        };
        command.arg("reaper").args(words).stderr(Stdio::piped());
        let (link, stderr) = Link::open(command, self)?;
        let serves = link.socket.async_io(Interest::READABLE, || {
            let mut word = [0; 1];
            let (read, _) = rustix::net::recv(&link.socket, &mut word, RecvFlags::empty())?;
            Ok(read)
        });
        match timeout(START_LIMIT, serves).await {
            Ok(Ok(1..)) => return Ok(link),
            Err(_) => return Err(io::Error::other("it did not start in time")),
            Ok(Ok(_) | Err(_)) => {}
        }
        let mut said = Vec::new();
        if let Some(stderr) = stderr {
            let _ = timeout(PIPE_GRACE, stderr.take(wire::MAX_REPORT).read_to_end(&mut said)).await;
        }
        let said = String::from_utf8_lossy(&said);
        Err(io::Error::other(said.trim().lines().next().unwrap_or("it ended at once").to_owned()))
    }
}

/// A reaper process. Dropping this ends it and everything it runs.
pub(super) struct Link {
    /// Packets in truth; only its readiness is asked for as a stream's.
    socket: UnixStream,
    next: AtomicU64,
    gone: CancellationToken,
    _keeper: AbortOnDropHandle<()>,
    /// It is fed for as long as this is there.
    _mouth: Arc<OwnedFd>,
}

impl Link {
    fn open(
        mut command: tokio::process::Command,
        start: &Start<'_>,
    ) -> io::Result<(Self, Option<tokio::process::ChildStderr>)> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        let mut child = command
            .env_clear()
            .envs(start.env.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .spawn()?;
        // Closes our copy of its standard input, which would keep the socket open after it died.
        drop(command);
        let stderr = child.stderr.take();
        let gone = CancellationToken::new();
        let mouth = Arc::new(ours.try_clone()?);
        start.feeder.feed(&mouth, start.feed_limit)?;
        let keeper = tokio::spawn(keep(child, gone.clone()));
        let socket = UnixStream::from_std(ours.into())?;
        Ok((
            Self { socket, next: AtomicU64::new(1), gone, _keeper: AbortOnDropHandle::new(keeper), _mouth: mouth },
            stderr,
        ))
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }

    async fn send_run(&self, theirs: &Theirs) -> io::Result<u64> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.send(Note::Run(id), &[theirs.control.as_fd(), theirs.output.as_fd()]).await?;
        Ok(id)
    }

    async fn send(&self, note: Note, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        tokio::select! {
            sent = self.socket.async_io(Interest::WRITABLE, || send(&self.socket, note, fds)) => sent,
            () = self.gone.cancelled() => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

fn send(socket: &impl AsFd, note: Note, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(fds));
        debug_assert!(fits, "the space is for two descriptors");
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(&note.to_bytes())], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Notices a reaper's death.
async fn keep(mut child: tokio::process::Child, gone: CancellationToken) {
    let status = child.wait().await;
    tracing::warn!(?status, "the reaper died; the next command starts a new one");
    gone.cancel();
}

/// Feeds reapers, from a thread of its own: a runtime that is busy for a while must not starve them, since commands that
/// have nothing to do with that would end. A gateway that was stopped feeds nobody, nor does one that died.
#[derive(Default)]
struct Feeder {
    mouths: Mutex<Vec<(Weak<OwnedFd>, Note)>>,
    thread: Mutex<bool>,
}

impl Feeder {
    /// At once, and from then on for as long as the socket is there.
    fn feed(self: &Arc<Self>, mouth: &Arc<OwnedFd>, limit: Duration) -> io::Result<()> {
        let food = Note::Feed(limit.as_millis().try_into().unwrap_or(u64::MAX));
        self.mouths.lock().unwrap_or_else(PoisonError::into_inner).push((Arc::downgrade(mouth), food));
        let _ = send(mouth, food, &[]);
        let mut started = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if !*started {
            let (feeder, pause) = (Arc::downgrade(self), limit / FEEDS);
            std::thread::Builder::new().name("feeder".into()).spawn(move || go_round(&feeder, pause))?;
            *started = true;
        }
        Ok(())
    }
}

fn go_round(feeder: &Weak<Feeder>, pause: Duration) {
    while let Some(feeder) = feeder.upgrade() {
        feeder.mouths.lock().unwrap_or_else(PoisonError::into_inner).retain(|(mouth, food)| {
            let Some(mouth) = mouth.upgrade() else { return false };
            // A full socket means that it has food enough and is busy or stopped.
            let _ = send(&mouth, *food, &[]);
            true
        });
        drop(feeder);
        std::thread::sleep(pause);
    }
}

/// One command under way. Dropping it closes the control socket, which ends it.
struct Call {
    link: Arc<Link>,
    id: u64,
    ends: Ours,
}

/// The gateway's ends of what it shares with a runner.
struct Ours {
    control: OwnedWriteHalf,
    report: BufReader<OwnedReadHalf>,
    output: pipe::Receiver,
}

/// The runner's ends. Blocking, and closed here once they are sent.
struct Theirs {
    control: std::os::unix::net::UnixStream,
    output: OwnedFd,
}

fn ends() -> io::Result<(Ours, Theirs)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    let (report, control) = UnixStream::from_std(ours)?.into_split();
    let output = pipe::Receiver::from_owned_fd(read)?;
    let ours = Ours { control, report: BufReader::new(report), output };
    Ok((ours, Theirs { control: theirs, output: write }))
}

/// Why a call stopped waiting.
enum Stop {
    Reported(Option<Said>),
    Cancelled,
    TimedOut,
}

impl Call {
    async fn begin(link: Arc<Link>, ends: Ours, theirs: &Theirs) -> io::Result<Self> {
        let id = link.send_run(theirs).await?;
        Ok(Self { link, id, ends })
    }

    async fn follow(self, order: Vec<u8>, command: &Command, cancel: &CancellationToken) -> Result<Finished, Error> {
        let mut collector = Collector::new(command.limit, command.spill.clone()).live(command.live.clone());
        let end = CancellationToken::new();
        let (stop, report) = {
            let limit = tokio::time::sleep(command.timeout);
            let talk = talk(self.ends.control, self.ends.report, order, &end);
            let drain = collector.drain(self.ends.output);
            tokio::pin!(limit, talk, drain);
            let mut drained = false;
            let stop = loop {
                tokio::select! {
                    report = &mut talk => break Stop::Reported(report),
                    () = &mut drain, if !drained => drained = true,
                    () = cancel.cancelled() => break Stop::Cancelled,
                    () = &mut limit => break Stop::TimedOut,
                }
            };
            let report = match &stop {
                Stop::Reported(report) => report.clone(),
                Stop::Cancelled | Stop::TimedOut => {
                    end.cancel();
                    let answer = timeout(RUNNER_GRACE, &mut talk).await;
                    if answer.is_err() {
                        let _ = timeout(PIPE_GRACE, self.link.send(Note::Kill(self.id), &[])).await;
                    }
                    answer.ok().flatten()
                }
            };
            if !drained {
                let _ = timeout(PIPE_GRACE, &mut drain).await;
            }
            (stop, report)
        };
        collector.flush().await;
        finished(stop, report, collector, command)
    }
}

/// Sends the order, closes the control socket once `end` fires, and gives what the runner says meanwhile.
async fn talk(
    mut control: OwnedWriteHalf,
    report: BufReader<OwnedReadHalf>,
    order: Vec<u8>,
    end: &CancellationToken,
) -> Option<Said> {
    let speak = async {
        tokio::select! {
            // A failed write is told by the report, or by its absence.
            _ = control.write_all(&order) => end.cancelled().await,
            () = end.cancelled() => {}
        }
        drop(control);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        report = read_report(report) => report,
        () = speak => None,
    }
}

/// What a runner says at the end, behind what was complained about.
async fn read_report(mut from: BufReader<OwnedReadHalf>) -> Option<Said> {
    let mut errors = Vec::new();
    let mut line = read_line(&mut from).await?;
    if let Some(count) = wire::errors_after(&line) {
        errors.resize(count, 0);
        from.read_exact(&mut errors).await.ok()?;
        line = read_line(&mut from).await?;
    }
    Some(Said { report: Report::parse(&line)?, errors })
}

async fn read_line(from: &mut BufReader<OwnedReadHalf>) -> Option<String> {
    let mut line = String::new();
    from.take(wire::MAX_REPORT).read_line(&mut line).await.ok()?;
    Some(line)
}

/// A runner's last words.
#[derive(Clone)]
struct Said {
    report: Report,
    errors: Vec<u8>,
}

fn finished(stop: Stop, said: Option<Said>, kept: Collector, command: &Command) -> Result<Finished, Error> {
    let program = || command.program.clone();
    let (report, errors) = said.map_or((None, Vec::new()), |said| (Some(said.report), said.errors));
    let (code, signal) = match (&stop, report) {
        (_, Some(Report::Exit(code))) => (Some(code), None),
        (_, Some(Report::Signal(signal))) => (None, Some(signal)),
        (_, Some(Report::Refused(reason))) => return Err(Error::Start { program: program(), reason }),
        (Stop::Reported(_), _) => return Err(Error::Lost { program: program() }),
        (Stop::Cancelled | Stop::TimedOut, _) => (None, None),
    };
    Ok(Finished {
        code,
        signal,
        truncated: kept.truncated(),
        total: kept.total,
        output: kept.kept,
        errors,
        timed_out: matches!(stop, Stop::TimedOut),
        cancelled: matches!(stop, Stop::Cancelled),
        notice: None,
        ms: 0,
    })
}
