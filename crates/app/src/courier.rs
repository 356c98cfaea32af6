//! The courier: takes mail to this user's other gateways on this machine, over their sockets, and to gateways elsewhere
//! that the settings name (C5).

use async_trait::async_trait;
use client::Client;
use config::Peer;
use futures_util::future::join_all;
use proto::methods::{DeliverInput, MailReceipt, MessagesDeliver, PeerRow, PeersInput, PeersList, Place};
use proto::{Code, Error, SessionId};
use session::Courier;
use session::courier::{Route, Undelivered};
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// How long another gateway may take to take a message over.
const HANDOVER: Duration = Duration::from_secs(5);
/// How long a gateway may take to say who lives there.
const LOOK: Duration = Duration::from_secs(2);
/// Paths that are looked at together; one that hangs keeps its place.
const LOOKS: usize = 8;
/// The most gateways of one machine that are looked at.
const MOST: usize = 64;

pub(crate) struct Post {
    /// This gateway's own socket, where answers come in.
    own: PathBuf,
    peers: Vec<Peer>,
    /// Looks at paths that models name.
    looks: Arc<Semaphore>,
}

#[async_trait]
impl Courier for Post {
    async fn carry(&self, route: &Route, message: &DeliverInput, first: bool) -> Result<MailReceipt, Undelivered> {
        match route {
            Route::Socket(socket) => self.by_socket(socket, message, first).await,
            Route::Bridge(Some(name)) => match self.peers.iter().find(|peer| peer.name == *name) {
                Some(peer) => by_bridge(peer, message).await,
                // Mail comes in under the name of its sender's token, which may not be the name of a peer. An id means one
                // session in the world, so whichever gateway knows it is the one that wrote.
                None if message.to.starts_with(SessionId::PREFIX) => self.by_any_bridge(name, message).await,
                None => Err(never(self.nobody(name))),
            },
            Route::Bridge(None) => self.by_any_bridge(&message.to, message).await,
        }
    }

    /// Through links, hard links, `..` and whatever else leads to one file.
    async fn is_own(&self, socket: &Path) -> bool {
        if socket == self.own {
            return true;
        }
        let file = async |path: &Path| self.glance(path, std::fs::metadata).await.map(|meta| (meta.dev(), meta.ino()));
        let named = file(socket).await;
        named.is_some() && named == file(&self.own).await
    }

    async fn peers(&self) -> Vec<PeerRow> {
        let near = join_all(self.sockets().await.into_iter().map(async |socket| {
            let rows = look(Client::connect(&socket)).await;
            rehomed(rows, Place::Machine, |session| format!("uds:{}#{session}", socket.display()))
        }));
        let far = join_all(self.peers.iter().map(async |peer| {
            let rows = look(reach(peer)).await;
            rehomed(rows, Place::Remote, |session| format!("bridge:{}/{session}", peer.name))
        }));
        let (near, far) = tokio::join!(near, far);
        near.into_iter().chain(far).flatten().collect()
    }
}

impl Post {
    pub(crate) fn new(own: PathBuf, peers: Vec<Peer>) -> Self {
        Self { own, peers, looks: Arc::new(Semaphore::new(LOOKS)) }
    }

    /// What is at a path, links followed or not. One that hangs is not there, and keeps its thread.
    async fn glance(&self, path: &Path, look: fn(PathBuf) -> std::io::Result<Metadata>) -> Option<Metadata> {
        let (looks, path) = (Arc::clone(&self.looks), path.to_owned());
        let looked = async move {
            let permit = looks.acquire_owned().await.ok()?;
            let looked = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                look(path)
            });
            looked.await.ok()?.ok()
        };
        tokio::time::timeout(LOOK, looked).await.ok()?
    }

    async fn by_socket(&self, socket: &Path, message: &DeliverInput, first: bool) -> Result<MailReceipt, Undelivered> {
        if self.is_own(socket).await {
            let why = "that is this gateway's own socket: write to the session itself";
            return Err(never(Error::invalid(why)));
        }
        // A relative path would mean another place after a restart.
        if !socket.is_absolute() {
            let why = format!("`{}` is not an absolute path", socket.display());
            return Err(never(Error::invalid(why).hint(self.who_is_near().await)));
        }
        if let Err(why) = is_ours(socket, self.glance(socket, std::fs::symlink_metadata).await) {
            // A socket that is not there may be on its way back; for whoever writes first, it is a dead address.
            let missing = why.code == Code::NotFound;
            let error = if missing { why.hint(self.who_is_near().await) } else { why };
            return Err(Undelivered { error, later: missing && !first });
        }
        let own = self.own.to_string_lossy().into_owned();
        let message = DeliverInput { socket: Some(own), ..message.clone() };
        hand_over(Client::connect(socket), message).await
    }

    /// Whichever gateway knows the session.
    async fn by_any_bridge(&self, name: &str, message: &DeliverInput) -> Result<MailReceipt, Undelivered> {
        let mut last = never(self.nobody(name));
        for peer in &self.peers {
            match by_bridge(peer, message).await {
                Ok(receipt) => return Ok(receipt),
                // One that does not answer now may be the one that knows it.
                Err(refused) if refused.later => last = refused,
                Err(refused) if refused.error.code == Code::NotFound => {}
                Err(refused) => return Err(refused),
            }
        }
        Err(last)
    }

    fn nobody(&self, name: &str) -> Error {
        let names: Vec<&str> = self.peers.iter().map(|peer| peer.name.as_str()).collect();
        let error = Error::not_found(format!("no gateway elsewhere is known as `{name}`"));
        match names.is_empty() {
            true => error.hint("name it in the settings: \"peers\": [{ \"name\", \"url\", \"token\" }]"),
            false => error.hint(format!("there is: {}", names.join(", "))),
        }
    }

    async fn who_is_near(&self) -> String {
        let near: Vec<String> = self.sockets().await.iter().map(|socket| format!("uds:{}", socket.display())).collect();
        if near.is_empty() { "no other gateway runs here".into() } else { format!("there is: {}", near.join(", ")) }
    }

    /// The sockets of this user's other gateways.
    async fn sockets(&self) -> Vec<PathBuf> {
        let Some(dir) = self.own.parent() else { return Vec::new() };
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut sockets = Vec::new();
        for path in entries.filter(|path| path.extension().is_some_and(|end| end == "sock")) {
            if sockets.len() < MOST && is_ours(&path, path.symlink_metadata().ok()).is_ok() && !self.is_own(&path).await
            {
                sockets.push(path);
            }
        }
        sockets
    }
}

/// A socket that belongs to this user, and no link to somewhere else. A check that cannot run denies.
fn is_ours(path: &Path, meta: Option<Metadata>) -> Result<(), Error> {
    let shown = path.display();
    let meta = meta.ok_or_else(|| Error::not_found(format!("no gateway has its socket at `{shown}`")))?;
    let user = rustix::process::geteuid().as_raw();
    if !meta.file_type().is_socket() {
        return Err(Error::new(Code::Denied, format!("`{shown}` is not a socket")));
    }
    if meta.uid() != user {
        return Err(Error::new(Code::Denied, format!("the socket `{shown}` belongs to another user")));
    }
    Ok(())
}

async fn by_bridge(peer: &Peer, message: &DeliverInput) -> Result<MailReceipt, Undelivered> {
    hand_over(reach(peer), message.clone()).await
}

async fn reach(peer: &Peer) -> Result<Client, client::Error> {
    let token = peer.token.as_ref().map_or("", |token| token.expose());
    match &peer.ca {
        Some(ca) => Client::connect_tls(&peer.url, token, ca).await,
        None => Client::connect_tcp(&peer.url, token).await,
    }
}

async fn hand_over(
    connect: impl Future<Output = Result<Client, client::Error>>,
    message: DeliverInput,
) -> Result<MailReceipt, Undelivered> {
    let handed = async { connect.await?.call::<MessagesDeliver>(message).await };
    match tokio::time::timeout(HANDOVER, handed).await {
        Ok(Ok(receipt)) => Ok(receipt),
        Ok(Err(error)) => {
            // A full inbox empties; what was refused for another reason stays refused.
            let full = matches!(&error, client::Error::Refused(refused) if refused.retryable);
            let later = error.is_lost() || full;
            Err(Undelivered { error: error.into(), later })
        }
        Err(_) => {
            let error = Error::unavailable("the other gateway took too long", 1000);
            Err(Undelivered { error, later: true })
        }
    }
}

async fn look(connect: impl Future<Output = Result<Client, client::Error>>) -> Vec<PeerRow> {
    let asked = async { connect.await?.call::<PeersList>(PeersInput { session: None, local: true }).await };
    match tokio::time::timeout(LOOK, asked).await {
        Ok(Ok(list)) => list.peers,
        // Whoever does not answer is not there: liveness is a connection, not a file.
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

/// Rows of another gateway, with the addresses that lead there from here.
fn rehomed(rows: Vec<PeerRow>, place: Place, address: impl Fn(&str) -> String) -> Vec<PeerRow> {
    let there = |row: PeerRow| {
        let session = row.session_id.as_ref()?.to_string();
        Some(PeerRow { address: address(&session), place, ..row })
    };
    rows.into_iter().filter_map(there).collect()
}

fn never(error: Error) -> Undelivered {
    Undelivered { error, later: false }
}
