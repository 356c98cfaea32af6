//! The Unix socket: for this user alone, in a directory of theirs. A logout may wipe that directory while the gateway
//! lives, so it looks after its socket and makes it anew.

use crate::peer::{Peer, Peers};
use proto::{Code, Error};
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// How often the gateway looks whether its socket is still there: a command that finds none tries for 5 s.
const LOOK: Duration = Duration::from_secs(1);

/// A bound socket.
pub struct Socket {
    listener: UnixListener,
    file: File,
}

/// The socket in the file system; removed when the gateway ends, if it is still the one it made.
#[derive(Clone)]
pub(crate) struct File {
    path: PathBuf,
    /// Device and inode of the one made last.
    made: Arc<Mutex<(u64, u64)>>,
}

impl Socket {
    /// Binds, replacing what a dead gateway left behind. The caller must hold the lock of the home's store: only that
    /// makes sure that nobody alive listens there.
    pub fn bind(path: &Path) -> Result<Self, Error> {
        let (listener, made) = bind(path)?;
        Ok(Self { listener, file: File { path: path.to_owned(), made: Arc::new(Mutex::new(made)) } })
    }

    pub(crate) fn split(self) -> (Listener, File) {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        (
            Listener { listener: self.listener, file: self.file.clone(), look, complained: false, peers: Peers::new() },
            self.file,
        )
    }
}

/// The listener, and the device and inode of what it made.
fn bind(path: &Path) -> Result<(UnixListener, (u64, u64)), Error> {
    make_private(path.parent().unwrap_or(Path::new("/")))?;
    remove_stale(path)?;
    let cannot = |error: io::Error| cannot(path, &error);
    let listener = UnixListener::bind(path).map_err(cannot)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(cannot)?;
    let meta = std::fs::symlink_metadata(path).map_err(cannot)?;
    Ok((listener, (meta.dev(), meta.ino())))
}

impl File {
    /// Whether what is there is what this gateway made.
    fn stands(&self) -> bool {
        let made = *self.made.lock().unwrap_or_else(PoisonError::into_inner);
        std::fs::symlink_metadata(&self.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == made)
    }

    pub(crate) fn remove(&self) {
        if self.stands()
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(%error, "the socket stays behind");
        }
    }
}

fn make_private(directory: &Path) -> Result<(), Error> {
    let cannot = |error: io::Error| cannot(directory, &error);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(cannot)?;
    let meta = std::fs::symlink_metadata(directory).map_err(cannot)?;
    if !meta.is_dir() || meta.uid() != user() {
        return Err(refused(directory, "the directory is not this user's"));
    }
    if meta.mode() & 0o077 != 0 {
        std::fs::set_permissions(directory, Permissions::from_mode(0o700)).map_err(cannot)?;
    }
    Ok(())
}

fn remove_stale(path: &Path) -> Result<(), Error> {
    let meta = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(cannot(path, &error)),
    };
    if !meta.file_type().is_socket() {
        return Err(refused(path, "something that is not a socket is in the way"));
    }
    if meta.uid() != user() {
        return Err(refused(path, "the socket there is another user's"));
    }
    std::fs::remove_file(path).map_err(|error| cannot(path, &error))
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn cannot(path: &Path, error: &io::Error) -> Error {
    refused(path, &error.to_string())
}

fn refused(path: &Path, why: &str) -> Error {
    Error::new(Code::Unavailable, format!("cannot listen at `{}`: {why}", path.display()))
        .hint("move it away, or set CONVOKE_RUNTIME_DIR to a directory of your own")
}

/// Accepts connections of this user.
pub(crate) struct Listener {
    listener: UnixListener,
    file: File,
    look: Interval,
    /// It was said that there is no socket.
    complained: bool,
    peers: Peers,
}

impl Listener {
    /// A connection, and whether a sandbox holds the process that made it.
    pub(crate) async fn accept(&mut self) -> io::Result<(UnixStream, bool)> {
        loop {
            let (stream, _) = tokio::select! {
                biased;
                accepted = self.listener.accept() => accepted?,
                _ = self.look.tick() => {
                    self.look_after();
                    continue;
                }
            };
            match self.peers.judge(&stream) {
                Peer::Owner => return Ok((stream, false)),
                Peer::Held => return Ok((stream, true)),
                Peer::Stranger => tracing::warn!("a connection of another user was refused"),
            }
        }
    }

    /// Makes the socket anew when it is gone. Its name is this home's, whose lock we hold: whatever socket is there now
    /// leads nowhere.
    fn look_after(&mut self) {
        if self.file.stands() {
            return;
        }
        match bind(&self.file.path) {
            Ok((listener, made)) => {
                self.listener = listener;
                *self.file.made.lock().unwrap_or_else(PoisonError::into_inner) = made;
                self.complained = false;
                tracing::warn!(socket = %self.file.path.display(), "the socket was gone and was made anew");
            }
            Err(error) if !self.complained => {
                self.complained = true;
                tracing::error!(%error, "the socket is gone; trying again every second");
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/s.sock");
        (dir, path)
    }

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().mode() & 0o777
    }

    #[tokio::test]
    async fn only_this_user_may_enter() {
        let (_dir, path) = socket();
        let _socket = Socket::bind(&path).unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_the_end_removes_its_own_only() {
        let (_dir, path) = socket();
        drop(Socket::bind(&path).unwrap());
        let (_, first) = Socket::bind(&path).unwrap().split();
        let (_, second) = Socket::bind(&path).unwrap().split();
        if *first.made.lock().unwrap() != *second.made.lock().unwrap() {
            first.remove();
            assert!(path.exists());
        }
        second.remove();
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_link_or_a_file_in_the_way_is_refused_and_kept() {
        let (dir, path) = socket();
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &path).unwrap();
        let error = Socket::bind(&path).err().unwrap();
        assert!(error.message.contains("not a socket") && error.hint.is_some(), "{error}");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "mine").unwrap();
        assert!(Socket::bind(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    }
}
