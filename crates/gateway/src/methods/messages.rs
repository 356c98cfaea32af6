//! `messages.*` and `peers.list`: mail from people and from other gateways, mail that a person oversees, and whom one can
//! write to (C3–C5).

use super::agent::run_id;
use crate::Gateway;
use crate::caller::calling;
use proto::Error;
use proto::methods::{
    AcceptInput, DeliverInput, Handle, MailInput, MailOutput, MailReceipt, MessageRow, MessagesAccept, MessagesDeliver,
    MessagesInput, MessagesList, MessagesOutput, MessagesRefuse, MessagesSend, PeersInput, PeersList, PeersOutput,
    RefuseInput,
};
use session::courier::Policy;
use session::{Arriving, Inbound};
use tools::doors::Mail;

impl Handle<MessagesSend> for Gateway {
    async fn handle(&self, input: MailInput) -> Result<MailOutput, Error> {
        let to = input.to.trim().to_owned();
        if to.is_empty() {
            return Err(Error::invalid("`to` is missing").hint("name an agent, a session, `main` or `*`"));
        }
        let say = tools::send_message::say(input.message)?;
        let id = run_id(input.idempotency_key)?.map(|id| id.to_string());
        let mail = Mail { to, say, summary: input.summary, notify_when_idle: false };
        let mailed = self.runtime.mail(input.session.as_deref(), id, mail).await?;
        let status = mailed.status().into();
        Ok(MailOutput { status, receipts: mailed.receipts, request_id: mailed.request })
    }
}

impl Handle<MessagesList> for Gateway {
    async fn handle(&self, input: MessagesInput) -> Result<MessagesOutput, Error> {
        self.runtime.messages(&input).await
    }
}

impl Handle<MessagesAccept> for Gateway {
    async fn handle(&self, input: AcceptInput) -> Result<MessageRow, Error> {
        self.runtime.release(&input.id, true, None).await
    }
}

impl Handle<MessagesRefuse> for Gateway {
    async fn handle(&self, input: RefuseInput) -> Result<MessageRow, Error> {
        self.runtime.release(&input.id, false, input.reason).await
    }
}

impl Handle<MessagesDeliver> for Gateway {
    async fn handle(&self, message: DeliverInput) -> Result<MailReceipt, Error> {
        if message.message.trim().is_empty() || message.to.trim().is_empty() {
            return Err(Error::invalid("a message needs `to` and `message`"));
        }
        let (from, socket) = (plain(&message.from)?, message.socket.as_deref().map(path).transpose()?);
        let (from, policy) = match calling() {
            // Whoever holds the token is who it was made for, whatever the message says.
            Some(token) => {
                let policy = self.inbound.peers.get(&*token).copied().or(self.inbound.usual);
                (format!("bridge:{token}/{from}"), Inbound::Far(policy.unwrap_or(Policy::Hold)))
            }
            None => {
                let from = match socket {
                    Some(socket) => format!("uds:{socket}#{from}"),
                    None => from,
                };
                (from, Inbound::Near(self.inbound.usual))
            }
        };
        self.runtime.arrive(Arriving { message, from, policy }).await
    }
}

/// Part of an address that is shown to models and copied by them.
fn plain(text: &str) -> Result<String, Error> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    if text.is_empty() || text.len() > 200 || !text.chars().all(fits) {
        return Err(Error::invalid("`from` must be the id of the session that writes"));
    }
    Ok(text.to_owned())
}

fn path(text: &str) -> Result<&str, Error> {
    let fits = |c: char| !c.is_control() && !matches!(c, '"' | '<' | '>' | '#');
    if !text.starts_with('/') || text.len() > 200 || !text.chars().all(fits) {
        return Err(Error::invalid("`socket` must be the path of the socket that answers"));
    }
    Ok(text)
}

impl Handle<PeersList> for Gateway {
    async fn handle(&self, input: PeersInput) -> Result<PeersOutput, Error> {
        Ok(PeersOutput { peers: self.runtime.peers(input.session.as_deref(), input.local).await? })
    }
}
