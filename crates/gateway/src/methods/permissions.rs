//! `permissions.*`: questions to a person, and their answers.

use crate::Gateway;
use proto::Error;
use proto::methods::{AskAnswer, AskInfo, Asks, AsksInput, Done, Handle, PermissionsList, PermissionsReply};

impl Handle<PermissionsList> for Gateway {
    async fn handle(&self, input: AsksInput) -> Result<Asks, Error> {
        let root = match &input.reference {
            Some(reference) => Some(self.named(reference).await?.root),
            None => None,
        };
        let asks = self.store().asks(root.as_ref()).await?;
        Ok(Asks { asks: asks.into_iter().map(info).collect() })
    }
}

impl Handle<PermissionsReply> for Gateway {
    async fn handle(&self, input: AskAnswer) -> Result<Done, Error> {
        self.runtime.answer(&input.ask_id, input.reply, input.message).await?;
        Ok(Done { ok: true })
    }
}

fn info(ask: store::Ask) -> AskInfo {
    AskInfo {
        ask_id: ask.id,
        session_id: ask.session,
        agent: ask.agent,
        tool: ask.tool,
        permission: ask.permission,
        patterns: ask.patterns,
        always: ask.always,
        created_at: ask.created,
        until: ask.until,
        to: ask.to,
    }
}
