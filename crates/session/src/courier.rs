//! Mail to sessions of other gateways (C5).
//!
//! A message is taken over at once when the other side answers: then its receipt is the other side's own. When it does
//! not, the message goes into the outbox with the commit of whoever wrote it, and is taken over later, in order for each
//! address, until the other side has it. Each gateway is tried by itself, with pauses of its own. The other side takes each once, by its id.

use crate::doors::mail::{NOTICE, runtime_letter};
use crate::runtime::Inner;
use crate::{now, steady};
use async_trait::async_trait;
use proto::methods::{DeliverInput, MailReceipt, MailState, PeerRow};
use proto::{Error, Millis};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use store::{Fate, Mail, Parcel};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// What becomes of mail from another gateway.
pub use config::Inbound as Policy;

/// How long the other side is tried before the sender is told that it never came.
const PATIENCE: Millis = 24 * 3600 * 1000;
/// Between two tries: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Messages to one address that are read at once; each has at most 1 MiB.
const LOT: usize = 8;
/// Addresses that one look into the outbox finds.
const MOST_ADDRESSES: usize = 10_000;
/// Gateways that are tried at once. Each try holds a connection and a few messages.
const AT_ONCE: usize = 64;

/// Takes mail to other gateways. Knows sockets and networks, which nobody else here does.
#[async_trait]
pub trait Courier: Send + Sync {
    /// Returns when the other gateway has the message on disk, or has said no. `first` is the try in the sender's own
    /// call: an address that is plainly nobody's is refused then.
    async fn carry(&self, route: &Route, message: &DeliverInput, first: bool) -> Result<MailReceipt, Undelivered>;

    /// Whether a socket is this gateway's own, whatever path leads to it.
    async fn is_own(&self, socket: &Path) -> bool;

    /// Live sessions of other gateways.
    async fn peers(&self) -> Vec<PeerRow>;
}

/// Where a message leaves for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Another gateway of this user on this machine.
    Socket(PathBuf),
    /// A gateway elsewhere, by its name in the settings; without one, whichever knows the session.
    Bridge(Option<String>),
}

/// Why a message is not there.
#[derive(Debug)]
pub struct Undelivered {
    pub error: Error,
    /// It may go better later.
    pub later: bool,
}

/// Reads `uds:<socket>[#session]` and `bridge:[peer/]<session>`: the route, and whom it means there.
pub(crate) fn route(address: &str) -> Option<(Route, String)> {
    if let Some(rest) = address.strip_prefix("uds:") {
        let (socket, session) = rest.rsplit_once('#').unwrap_or((rest, "main"));
        return Some((Route::Socket(socket.into()), session.to_owned()));
    }
    let rest = address.strip_prefix("bridge:")?;
    let (peer, session) = match rest.split_once('/') {
        Some((peer, session)) => (Some(peer.to_owned()), session),
        None => (None, rest),
    };
    Some((Route::Bridge(peer), session.to_owned()))
}

/// For a runtime that is not a gateway: there is nobody else.
pub struct Nowhere;

#[async_trait]
impl Courier for Nowhere {
    async fn carry(&self, _: &Route, _: &DeliverInput, _: bool) -> Result<MailReceipt, Undelivered> {
        let error = Error::new(proto::Code::Unavailable, "no mail leaves from here");
        Err(Undelivered { error, later: false })
    }

    async fn is_own(&self, _: &Path) -> bool {
        false
    }

    async fn peers(&self) -> Vec<PeerRow> {
        Vec::new()
    }
}

/// Tells the courier of mail, and others whether there may be some.
pub(crate) struct Outbox {
    hint: Notify,
    /// Grows with each letter that was put into the outbox.
    posted: AtomicU64,
    /// What `posted` was when the outbox was last seen empty.
    empty_at: AtomicU64,
}

impl Default for Outbox {
    /// Not looked into yet, so there may be mail.
    fn default() -> Self {
        Self { hint: Notify::new(), posted: AtomicU64::new(1), empty_at: AtomicU64::new(0) }
    }
}

impl Outbox {
    /// Something was put into it.
    pub(crate) fn posted(&self) {
        self.posted.fetch_add(1, Ordering::SeqCst);
        self.hint.notify_one();
    }

    /// Something may have to be delivered still.
    pub(crate) fn has_mail(&self) -> bool {
        self.empty_at.load(Ordering::SeqCst) != self.posted.load(Ordering::SeqCst)
    }
}

/// Who takes mail over: one gateway, whatever its sessions. It waits for nobody but itself, so that one that is dead or
/// slow holds up no other.
#[derive(Default)]
struct Lane {
    busy: bool,
    /// Since its last failure.
    pause: Duration,
    /// Not before then.
    due: Option<Instant>,
}

impl Lane {
    fn is_due(&self) -> bool {
        !self.busy && self.due.is_none_or(|due| due <= Instant::now())
    }

    /// A round is over.
    fn rest(&mut self, stuck: bool) {
        self.busy = false;
        self.pause = if stuck { (self.pause * 2).clamp(PAUSE.0, PAUSE.1) } else { Duration::ZERO };
        self.due = stuck.then(|| Instant::now() + self.pause);
    }
}

/// Everything of an address but the session.
fn lane_of(address: &str) -> String {
    match route(address) {
        Some((Route::Socket(socket), _)) => format!("uds:{}", socket.display()),
        Some((Route::Bridge(Some(peer)), _)) => format!("bridge:{peer}"),
        // Any of several: each address is looked for by itself.
        Some((Route::Bridge(None), _)) | None => address.to_owned(),
    }
}

impl Inner {
    /// Takes over what waits in the outbox, for as long as the gateway runs.
    pub(crate) async fn carry_mail(self: Arc<Self>) {
        let mut lanes: HashMap<String, Lane> = HashMap::new();
        let mut rounds = JoinSet::new();
        loop {
            self.start_rounds(&mut lanes, &mut rounds).await;
            let resting = lanes.values().filter(|lane| !lane.busy).filter_map(|lane| lane.due).min();
            let next = resting.unwrap_or_else(|| Instant::now() + PAUSE.1);
            tokio::select! {
                () = self.stop_token().cancelled() => return,
                () = self.outbox.hint.notified() => {}
                Some(round) = rounds.join_next(), if !rounds.is_empty() => {
                    // A round that panicked is not known by its name; its lane is looked at anew.
                    match round {
                        Ok((name, stuck)) => drop(lanes.get_mut(&name).map(|lane: &mut Lane| lane.rest(stuck))),
                        Err(_) => lanes.values_mut().for_each(|lane| lane.rest(true)),
                    }
                }
                () = tokio::time::sleep_until(next.into()), if self.outbox.has_mail() => {}
            }
        }
    }

    /// Starts a round for every gateway that has mail and is due.
    async fn start_rounds(self: &Arc<Self>, lanes: &mut HashMap<String, Lane>, rounds: &mut JoinSet<(String, bool)>) {
        let before = self.outbox.posted.load(Ordering::SeqCst);
        let addresses = match self.store.outbox_addresses(MOST_ADDRESSES).await {
            Ok(addresses) => addresses,
            Err(error) => return tracing::warn!(%error, "cannot look into the outbox"),
        };
        if addresses.is_empty() {
            self.outbox.empty_at.store(before, Ordering::SeqCst);
        }
        let mut waiting: HashMap<String, Vec<String>> = HashMap::new();
        for address in addresses {
            waiting.entry(lane_of(&address)).or_default().push(address);
        }
        lanes.retain(|name, lane| lane.busy || waiting.contains_key(name));
        for (name, addresses) in waiting {
            if rounds.len() >= AT_ONCE {
                return;
            }
            let lane = lanes.entry(name.clone()).or_default();
            if lane.is_due() {
                lane.busy = true;
                let office = Arc::clone(self);
                rounds.spawn(async move {
                    let stuck = office.carry_all(&addresses).await.unwrap_or_else(|error| {
                        tracing::warn!(%error, "cannot look into the outbox");
                        true
                    });
                    (name, stuck)
                });
            }
        }
    }

    /// Takes over what waits for addresses of one gateway. True when something has to be tried again.
    async fn carry_all(self: &Arc<Self>, addresses: &[String]) -> Result<bool, store::Error> {
        let mut stuck = false;
        for address in addresses {
            stuck |= self.carry_to(address).await?;
        }
        Ok(stuck)
    }

    /// In order: what comes after a message to the same address does not overtake it. True when one has to be tried again.
    async fn carry_to(self: &Arc<Self>, address: &str) -> Result<bool, store::Error> {
        loop {
            let lot = self.store.outbox(address, LOT).await?;
            if lot.is_empty() {
                return Ok(false);
            }
            for parcel in lot {
                if self.stop_token().is_cancelled() {
                    return Ok(true);
                }
                let (state, reason) = match self.carry(&parcel).await {
                    Ok(settled) => settled,
                    Err(why) if steady() - parcel.posted > PATIENCE => (MailState::Unreachable, Some(why)),
                    Err(why) => {
                        tracing::debug!(address, why, "mail has to wait");
                        return Ok(true);
                    }
                };
                self.settle(&parcel, Fate { state, reason, at: now() }).await?;
            }
        }
    }

    /// What became of it, and why; `Err` says why it is not there yet.
    async fn carry(&self, parcel: &Parcel) -> Result<(MailState, Option<String>), String> {
        let unreachable = |why: String| Ok((MailState::Unreachable, Some(why)));
        let message: DeliverInput = match serde_json::from_str(&parcel.body) {
            Ok(message) => message,
            Err(error) => return unreachable(format!("it cannot be read any more: {error}")),
        };
        let Some((route, _)) = route(&parcel.address) else { return unreachable("that is no address".into()) };
        match self.courier.carry(&route, &message, false).await {
            Ok(MailReceipt { state: MailState::Refused, reason, .. }) => {
                Ok((MailState::Refused, Some(reason.unwrap_or_else(|| "the other gateway refused it".into()))))
            }
            Ok(MailReceipt { state, reason, .. }) => Ok((state, reason)),
            Err(Undelivered { error, later: true }) => Err(error.message),
            Err(Undelivered { error, later: false }) => Ok((MailState::Refused, Some(error.message))),
        }
    }

    /// It waits no longer. A message that came to nothing goes back to its sender in the same transaction.
    async fn settle(self: &Arc<Self>, parcel: &Parcel, fate: Fate) -> Result<(), store::Error> {
        let lost = matches!(fate.state, MailState::Refused | MailState::Unreachable);
        let why = fate.reason.as_deref().filter(|_| lost);
        let bounced = why.zip(parcel.sender.as_ref()).map(|(why, sender)| {
            let text = format!("{NOTICE} Your message to `{}` was not delivered: {why}.", parcel.address);
            runtime_letter(&format!("bounce_{}", parcel.id), sender, text)
        });
        let sent = vec![(parcel.id.clone(), fate)];
        let mail = Mail { at: now(), sent: sent.clone(), post: bounced.into_iter().collect(), ..Mail::default() };
        let receipts = match self.store.deliver(mail).await {
            // Whoever sent it is gone as well.
            Err(store::Error::NoSession(_)) => self.store.deliver(Mail { at: now(), sent, ..Mail::default() }).await?,
            done => done?,
        };
        receipts.iter().for_each(|receipt| self.wake(&receipt.to));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_other_gateways_are_read() {
        let socket = |path: &str, to: &str| Some((Route::Socket(path.into()), to.to_owned()));
        assert_eq!(route("uds:/run/c/a.sock"), socket("/run/c/a.sock", "main"));
        assert_eq!(route("uds:/run/c/a.sock#ses_1"), socket("/run/c/a.sock", "ses_1"));
        assert_eq!(route("bridge:office/main"), Some((Route::Bridge(Some("office".into())), "main".into())));
        assert_eq!(route("bridge:ses_1"), Some((Route::Bridge(None), "ses_1".into())));
        assert_eq!(route("researcher"), None);
    }
}
