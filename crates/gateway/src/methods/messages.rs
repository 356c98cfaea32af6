//! `messages.send` and `peers.list`: mail from a person, and whom one can write to (C3, C4).

use super::agent::run_id;
use crate::Gateway;
use proto::Error;
use proto::methods::{Handle, MailInput, MailOutput, MessagesSend, PeersInput, PeersList, PeersOutput};
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

impl Handle<PeersList> for Gateway {
    async fn handle(&self, input: PeersInput) -> Result<PeersOutput, Error> {
        Ok(PeersOutput { peers: self.runtime.peers(input.session.as_deref()).await? })
    }
}
