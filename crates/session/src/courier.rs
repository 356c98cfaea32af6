//! Mail to sessions of other gateways (C5).
//!
//! A message is taken over at once when the other side answers: then its receipt is the other side's own. When it does
//! not, the message goes into the outbox with the commit of whoever wrote it, and is taken over later, in order, until
//! the other side has it. The other side takes each once, by its id.

use crate::doors::mail::{NOTICE, runtime_letter};
use crate::now;
use crate::runtime::Inner;
use async_trait::async_trait;
use proto::methods::{DeliverInput, MailReceipt, MailState, PeerRow};
use proto::{Error, Millis};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use store::{Mail, Parcel};

/// What becomes of mail from another gateway.
pub use config::Inbound as Policy;

/// How long the other side is tried before the sender is told that it never came.
const PATIENCE: Millis = 24 * 3600 * 1000;
/// Between two tries: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// What one look into the outbox takes.
const LOT: usize = 500;

/// Takes mail to other gateways. Knows sockets and networks, which nobody else here does.
#[async_trait]
pub trait Courier: Send + Sync {
    /// Returns when the other gateway has the message on disk, or has said no. `first` is the try in the sender's own
    /// call: an address that is plainly nobody's is refused then.
    async fn carry(&self, route: &Route, message: &DeliverInput, first: bool) -> Result<MailReceipt, Undelivered>;

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

    async fn peers(&self) -> Vec<PeerRow> {
        Vec::new()
    }
}

impl Inner {
    /// Takes over what waits in the outbox, for as long as the gateway runs.
    pub(crate) async fn carry_mail(self: Arc<Self>) {
        let mut pause = PAUSE.0;
        loop {
            let waiting = match self.carry_lot().await {
                Ok(waiting) => waiting,
                Err(error) => {
                    tracing::warn!(%error, "cannot look into the outbox");
                    true
                }
            };
            pause = if waiting { (pause * 2).min(PAUSE.1) } else { PAUSE.0 };
            tokio::select! {
                () = self.stop_token().cancelled() => return,
                () = self.outbox.notified() => {}
                () = tokio::time::sleep(pause), if waiting => {}
            }
        }
    }

    /// True when something has to be tried again.
    async fn carry_lot(self: &Arc<Self>) -> Result<bool, store::Error> {
        let mut stuck: HashSet<String> = HashSet::new();
        for parcel in self.store.outbox(LOT).await? {
            // What comes after a message to the same address does not overtake it.
            if stuck.contains(&parcel.address) || self.stop_token().is_cancelled() {
                continue;
            }
            match self.carry(&parcel).await {
                Ok(None) => self.settle(&parcel, None).await?,
                Ok(Some(why)) => self.settle(&parcel, Some(&why)).await?,
                Err(why) if now() - parcel.posted > PATIENCE => self.settle(&parcel, Some(&why)).await?,
                Err(why) => {
                    tracing::debug!(address = parcel.address, why, "mail has to wait");
                    stuck.insert(parcel.address);
                }
            }
        }
        Ok(!stuck.is_empty())
    }

    /// `Ok(Some)` says why it will never be there, `Err` why it is not there yet.
    async fn carry(&self, parcel: &Parcel) -> Result<Option<String>, String> {
        let message: DeliverInput = match serde_json::from_str(&parcel.body) {
            Ok(message) => message,
            Err(error) => return Ok(Some(format!("it cannot be read any more: {error}"))),
        };
        let Some((route, _)) = route(&parcel.address) else { return Ok(Some("that is no address".into())) };
        match self.courier.carry(&route, &message, false).await {
            Ok(MailReceipt { state: MailState::Refused, reason, .. }) => {
                Ok(Some(reason.unwrap_or_else(|| "the other gateway refused it".into())))
            }
            Ok(_) => Ok(None),
            Err(Undelivered { error, later: true }) => Err(error.message),
            Err(Undelivered { error, later: false }) => Ok(Some(error.message)),
        }
    }

    /// Out of the outbox; a message that came to nothing goes back to its sender in the same transaction.
    async fn settle(self: &Arc<Self>, parcel: &Parcel, why: Option<&str>) -> Result<(), store::Error> {
        let bounced = why.zip(parcel.sender.as_ref()).map(|(why, sender)| {
            let text = format!("{NOTICE} Your message to `{}` was not delivered: {why}.", parcel.address);
            runtime_letter(&format!("bounce_{}", parcel.id), sender, text)
        });
        let mail =
            Mail { at: now(), sent: vec![parcel.id.clone()], post: bounced.into_iter().collect(), ..Mail::default() };
        let receipts = match self.store.deliver(mail).await {
            // Whoever sent it is gone as well.
            Err(store::Error::NoSession(_)) => {
                self.store.deliver(Mail { at: now(), sent: vec![parcel.id.clone()], ..Mail::default() }).await?
            }
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
