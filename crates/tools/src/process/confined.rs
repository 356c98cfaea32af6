//! Sandboxes that are warm: each is a reaper inside of one, for a session and what it is kept in.

use super::fresh::Kept;
use super::link::{Link, Start};
use super::links::Links;
use super::{Command, Error};
use crate::files::Hands;
use crate::sandbox::{
    self, Backend, Confine, Enforced, Found, Ground, HeldInside, Hiding, Mask, Masks, Mode, Places, Walks,
};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// How long one is kept between two commands of a run: starting it costs some ten milliseconds, keeping it a process and
/// stand-ins in the workspace.
/// How many workspaces are looked at at once, and how long that may take: 100,000 files take 25 ms.
const LOOKS: usize = 64;
const LOOK_LIMIT: Duration = Duration::from_secs(60);
const IDLE: Duration = Duration::from_secs(30);
/// Times a sandbox is made before a command is refused.
const ATTEMPTS: usize = 8;
/// More than that bubblewrap does not take.
const MOST_MOUNTS: usize = 2_500;
/// The most that are kept without being used.
const MOST_IDLE: usize = 32;
/// Temporary files of a session that nobody touched for so long are removed when a gateway starts.
const FORGOTTEN: Duration = Duration::from_secs(7 * 24 * 3600);

/// The sandboxes of a gateway.
pub(super) struct Sandboxes {
    places: Places,
    backend: OnceLock<Backend>,
    masks: OnceLock<Arc<Masks>>,
    walks: Walks,
    pub(super) links: Links,
    /// Who looks at the workspace before a command.
    hands: Hands,
    rooms: Mutex<Vec<Room>>,
    sweeper: OnceLock<AbortOnDropHandle<()>>,
}

/// Whoever comes first starts it.
type Cell = Arc<OnceCell<Arc<Inside>>>;

/// One sandbox, started or about to be.
pub(super) struct Room {
    pub(super) session: proto::SessionId,
    ground: Ground,
    found: Arc<Found>,
    inside: Cell,
    used: Instant,
}

/// A reaper in a sandbox. The masks go when it is gone.
struct Inside {
    link: Arc<Link>,
    /// What was laid over, and what that was. A file that is replaced takes away what lies over it.
    laid: Vec<(PathBuf, Option<Stamp>)>,
    _masks: Vec<Mask>,
}

/// Which file it is: the device and the number there.
type Stamp = (u64, u64);

fn stamp(path: &Path) -> Option<Stamp> {
    path.symlink_metadata().ok().map(|found| (found.dev(), found.ino()))
}

impl Inside {
    /// Whether it still serves, and holds what it is to hold.
    fn is_whole(&self) -> bool {
        !self.link.is_gone() && self.laid.iter().all(|(path, was)| stamp(path) == *was)
    }
}

/// Where a command is to be run.
pub(super) enum Way {
    Bare { notice: Option<String> },
    Inside(Entered),
}

/// What was known about repositories before a command: see [`sandbox::Ground`].
pub(super) struct Before {
    pub(super) sites: Vec<PathBuf>,
    pub(super) guarded: Vec<PathBuf>,
    pub(super) settled: Vec<PathBuf>,
    /// Where what is guarded can be changed all the same.
    pub(super) kept: Vec<Kept>,
}

pub(super) struct Entered {
    pub(super) link: Arc<Link>,
    pub(super) notice: Option<String>,
    /// Where temporary files go.
    pub(super) temporary: PathBuf,
    pub(super) before: Arc<Before>,
    /// Keeps it from being taken for idle.
    _inside: Arc<Inside>,
}

impl Sandboxes {
    pub(super) fn new(places: Places, backend: Option<Backend>) -> Self {
        let known = OnceLock::new();
        if let Some(backend) = backend {
            let _ = known.set(backend);
        }
        Self {
            places,
            backend: known,
            masks: OnceLock::new(),
            walks: Walks::default(),
            links: Links::default(),
            hands: Hands::new(LOOKS, LOOKS, LOOK_LIMIT),
            rooms: Mutex::default(),
            sweeper: OnceLock::new(),
        }
    }

    /// Finds, or makes, what a command is to be kept in.
    pub(super) async fn enter(
        self: &Arc<Self>,
        command: &Command,
        confine: &Confine,
        nested: Vec<PathBuf>,
        start: &Start<'_>,
    ) -> Result<Way, Error> {
        let refused = |reason: String| Error::Refused { program: command.program.clone(), reason };
        if confine.reach.is_free() {
            return Ok(Way::Bare { notice: None });
        }
        let backend = self.backend(start).await.map_err(Error::Reaper)?;
        let hiding = Hiding::of(&confine.rules);
        let notice = match backend.enforce(confine.reach, hiding.is_strict()) {
            Enforced::Bare(notice) => return Ok(Way::Bare { notice }),
            Enforced::Refused(why) => return Err(refused(why)),
            Enforced::Inside(notice) => notice,
        };
        if let Backend::Bubblewrap(program) = &backend
            && program.starts_with(&confine.worktree)
        {
            return Err(refused(format!("`{}` is a file of this very workspace", program.display())));
        }
        let masks = self.masks().map_err(Error::Reaper)?;
        // Files come and go while a sandbox is made of them, and one that was made may have died or no longer hold: then
        // all of it is looked at anew.
        let mut why = String::new();
        let home = start.env.iter().find(|(name, _)| name == "HOME").map(|(_, home)| Path::new(home));
        for _ in 0..ATTEMPTS {
            let by = sandbox::For {
                places: &self.places,
                home,
                keeps: matches!(backend, Backend::Bubblewrap(_)),
                nested: &nested,
            };
            let ground = sandbox::look(confine, &by, |path| masks.made(path)).map_err(refused)?;
            let warm = if hiding.is_strict() { None } else { self.room(confine, |room| room.ground == ground) };
            let (inside, found) = match warm {
                Some(room) => room,
                None => {
                    let found = self.find(confine, &backend).await.map_err(refused)?;
                    self.room_for(confine, &ground, found)
                }
            };
            let make = || self.make(confine, &backend, &ground, &found, &masks, start);
            match inside.get_or_try_init(make).await {
                Ok(whole) if whole.is_whole() => {
                    let notice = notice.or_else(|| found.notice.clone());
                    return Ok(Way::Inside(self.entered(
                        confine,
                        &backend,
                        Before {
                            kept: if by.keeps {
                                Vec::new()
                            } else {
                                ground.guarded.iter().map(|dir| Kept::of(dir)).collect()
                            },
                            sites: ground.sites,
                            guarded: ground.guarded,
                            settled: ground.settled,
                        },
                        notice,
                        whole,
                    )));
                }
                Ok(_) => why = "files that its sandbox protects are being replaced; try again".into(),
                Err(error) => why = error,
            }
            self.forget(&inside);
        }
        Err(refused(why))
    }

    fn entered(
        &self,
        confine: &Confine,
        backend: &Backend,
        before: Before,
        notice: Option<String>,
        inside: &Arc<Inside>,
    ) -> Entered {
        let temporary = match backend {
            Backend::Bubblewrap(_) if confine.reach.mode != Mode::Off => PathBuf::from("/tmp"),
            _ => self.places.temporary(&confine.session, confine.reach.mode),
        };
        Entered {
            link: Arc::clone(&inside.link),
            notice,
            temporary,
            before: Arc::new(before),
            _inside: Arc::clone(inside),
        }
    }

    /// Looked for once: what a machine can do does not change while a gateway runs.
    async fn backend(&self, start: &Start<'_>) -> io::Result<Backend> {
        if let Some(backend) = self.backend.get() {
            return Ok(backend.clone());
        }
        let path = start.env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
        let exe = start.exe.to_owned();
        let look = move || sandbox::find(&exe, path.as_deref().map(std::ffi::OsStr::new));
        let (backend, notes) = tokio::task::spawn_blocking(look).await.map_err(io::Error::other)?;
        if backend.modes().len() < 3 {
            tracing::warn!("commands cannot be held in full: {}", notes.join("; "));
        }
        Ok(self.backend.get_or_init(|| backend).clone())
    }

    fn masks(&self) -> io::Result<Arc<Masks>> {
        if let Some(masks) = self.masks.get() {
            return Ok(Arc::clone(masks));
        }
        prepare(&self.places)?;
        Ok(Arc::clone(self.masks.get_or_init(|| Masks::open(self.places.list()))))
    }

    fn room(&self, confine: &Confine, fits: impl Fn(&Room) -> bool) -> Option<(Cell, Arc<Found>)> {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        let room = rooms.iter_mut().find(|room| room.session == confine.session && fits(room))?;
        room.used = Instant::now();
        Some((Arc::clone(&room.inside), Arc::clone(&room.found)))
    }

    fn room_for(self: &Arc<Self>, confine: &Confine, ground: &Ground, found: Found) -> (Cell, Arc<Found>) {
        if let Some(room) = self.room(confine, |room| room.ground == *ground && *room.found == found) {
            return room;
        }
        let found = Arc::new(found);
        let inside = Arc::new(OnceCell::new());
        let session = confine.session.clone();
        let room = Room {
            session,
            ground: ground.clone(),
            found: Arc::clone(&found),
            inside: Arc::clone(&inside),
            used: Instant::now(),
        };
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        // One of the same session that no longer fits is of no more use.
        rooms.retain(|room| room.session != confine.session || !room.is_idle());
        rooms.push(room);
        let dropped = bounded(&mut rooms);
        drop(rooms);
        drop(dropped);
        self.sweeper.get_or_init(|| AbortOnDropHandle::new(tokio::spawn(sweep(Arc::downgrade(self)))));
        (inside, found)
    }

    /// Ends idle sandboxes that keep the place of a file.
    pub(super) fn give_way(&self, path: &Path) {
        if !self.masks.get().is_some_and(|masks| masks.made(path)) {
            return;
        }
        self.end_idle(|room| room.ground.missing.iter().any(|missing| missing == path));
    }

    /// Ends those of these that nobody uses.
    pub(super) fn end_idle(&self, of: impl Fn(&Room) -> bool) {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        let ended: Vec<Room> = rooms.extract_if(.., |room| room.is_idle() && of(room)).collect();
        drop(rooms);
        drop(ended);
    }

    fn forget(&self, inside: &Cell) {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        rooms.retain(|room| !Arc::ptr_eq(&room.inside, inside));
    }

    /// What lies in the workspace and elsewhere that commands must not read or change.
    async fn find(&self, confine: &Confine, backend: &Backend) -> Result<Found, String> {
        if !matches!(backend, Backend::Bubblewrap(_)) {
            return Ok(Found::default());
        }
        let (rules, worktree) = (Arc::clone(&confine.rules), confine.worktree.clone());
        let mut known = self.walks.take(&worktree, &rules);
        let walk = move || {
            let found = Hiding::of(&rules).find(&worktree, &mut known);
            (found, worktree, rules, known)
        };
        let walked = self.hands.work("bash", &CancellationToken::new(), move |_| Ok(walk())).await;
        let (found, worktree, rules, known) =
            walked.map_err(|error| format!("cannot look for files to hide: {error}"))?;
        self.walks.keep(worktree, rules, known);
        found
    }

    async fn make(
        &self,
        confine: &Confine,
        backend: &Backend,
        ground: &Ground,
        found: &Found,
        masks: &Arc<Masks>,
        start: &Start<'_>,
    ) -> Result<Arc<Inside>, String> {
        let failed = |error: io::Error| format!("its sandbox cannot be made: {error}");
        let temporary = self.places.temporary(&confine.session, confine.reach.mode);
        private_dir(&temporary).map_err(failed)?;
        let network = confine.reach.network;
        let Backend::Bubblewrap(bwrap) = backend else {
            let mut writable = vec![temporary.canonicalize().map_err(failed)?];
            writable.extend(ground.writable.iter().cloned());
            if confine.reach.mode == Mode::Off {
                writable.push("/".into());
            }
            let writable = sandbox::pinned(&writable)?;
            let words = sandbox::arguments_inside(
                network,
                HeldInside::ByLandlock { writable: &writable, private: &ground.private, readable: &ground.outputs },
                confine.reach.mode,
            );
            let link = start.inside(None, &words).await.map_err(failed)?;
            return Ok(Arc::new(Inside { link: Arc::new(link), laid: Vec::new(), _masks: Vec::new() }));
        };
        let stand_ins = ground.missing.iter().map(|path| masks.hold(path)).collect::<io::Result<Vec<Mask>>>();
        let stand_ins = stand_ins.map_err(failed)?;
        // Those that vanished since they were found have nothing left to hide.
        let mut found = found.clone();
        found.hidden.retain(|held| held.path.exists());
        found.kept.retain(|held| held.path.exists());
        let mounts = sandbox::lay_out(ground, &found, &self.places, &temporary);
        if mounts.len() > MOST_MOUNTS {
            return Err(format!(
                "more than {MOST_MOUNTS} files and folders would have to be protected one by one: narrow the rules of \
                 `read` and `edit`, or work in a smaller directory"
            ));
        }
        // Before they are made: what is replaced in between counts as replaced.
        let laid = mounts.iter().map(|mount| (mount.at().to_owned(), stamp(mount.at()))).collect();
        let outer = (bwrap.as_path(), sandbox::arguments(&mounts, network));
        // What the system supplies may be a link, and nobody here can change that.
        let system = |at: &&Path| ground.kept_of_run.iter().any(|kept| kept == at);
        let own = mounts.iter().filter_map(|mount| mount.own()).filter(|at| !system(at));
        let own: Vec<PathBuf> = own.map(Path::to_owned).collect();
        let own = sandbox::pinned(&own)?;
        let inner = sandbox::arguments_inside(network, HeldInside::ByMounts(&own), confine.reach.mode);
        let link = start.inside(Some(outer), &inner).await.map_err(failed)?;
        Ok(Arc::new(Inside { link: Arc::new(link), laid, _masks: stand_ins }))
    }
}

impl Room {
    /// Nobody runs anything in it, nor is about to.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.inside) == 1 && self.inside.get().is_some_and(|inside| Arc::strong_count(inside) == 1)
    }
}

/// Takes out the idle ones that were used longest ago, when there are many.
fn bounded(rooms: &mut Vec<Room>) -> Vec<Room> {
    let mut idle: Vec<Instant> = rooms.iter().filter(|room| room.is_idle()).map(|room| room.used).collect();
    let Some(excess) = idle.len().checked_sub(MOST_IDLE).filter(|excess| *excess > 0) else { return Vec::new() };
    idle.sort();
    let until = idle[excess - 1];
    rooms.extract_if(.., |room| room.is_idle() && room.used <= until).collect()
}

async fn sweep(sandboxes: Weak<Sandboxes>) {
    let mut ticks = tokio::time::interval(IDLE / 4);
    loop {
        ticks.tick().await;
        let Some(sandboxes) = sandboxes.upgrade() else { return };
        sandboxes.end_idle(|room| room.used.elapsed() > IDLE);
        sandboxes.walks.forget_old();
    }
}

/// Makes what sandboxes are made of, and forgets temporary files of long ago.
fn prepare(places: &Places) -> io::Result<()> {
    private_dir(&places.root.join("tmp"))?;
    DirBuilder::new().recursive(true).mode(0o555).create(places.empty())?;
    for (path, mode) in [(places.nothing(), 0o000), (places.blank(), 0o444)] {
        match OpenOptions::new().write(true).create_new(true).mode(mode).open(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    let now = SystemTime::now();
    for session in std::fs::read_dir(places.root.join("tmp"))?.flatten() {
        let touched = session.metadata().and_then(|found| found.modified()).unwrap_or(now);
        if now.duration_since(touched).is_ok_and(|age| age > FORGOTTEN) {
            let _ = std::fs::remove_dir_all(session.path());
        }
    }
    Ok(())
}

fn private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// This program, opened so that it can be started where its file is not.
#[expect(clippy::disallowed_methods, reason = "our own program")]
pub(super) fn program(exe: &Path) -> io::Result<File> {
    File::open(exe)
}
