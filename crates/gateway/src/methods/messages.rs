//! `messages.*` and `peers.list`: mail from a person, mail that a person oversees, and whom one can write to (C3, C4).

use super::agent::run_id;
use crate::Gateway;
use proto::Error;
use proto::methods::{
    AcceptInput, Handle, MailInput, MailOutput, MessageRow, MessagesAccept, MessagesInput, MessagesList,
    MessagesOutput, MessagesRefuse, MessagesSend, PeersInput, PeersList, PeersOutput, RefuseInput,
};
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

impl Handle<PeersList> for Gateway {
    async fn handle(&self, input: PeersInput) -> Result<PeersOutput, Error> {
        Ok(PeersOutput { peers: self.runtime.peers(input.session.as_deref()).await? })
    }
}
