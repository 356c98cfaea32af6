//! `sessions.undo` and `sessions.redo`.

use crate::Gateway;
use crate::caller::calling_may;
use proto::entry::Undone;
use proto::letter::Undo;
use proto::methods::{Handle, RedoInput, Scope, SessionsRedo, SessionsUndo, Talked, UndoInput, UndoOutput, What};
use proto::{Error, SessionId};

impl Handle<SessionsUndo> for Gateway {
    async fn handle(&self, input: UndoInput) -> Result<UndoOutput, Error> {
        let wish = Undo { to: input.to, ..wish(input.what) };
        self.take_back(&input.reference, wish, input.idempotency_key).await
    }
}

impl Handle<SessionsRedo> for Gateway {
    async fn handle(&self, input: RedoInput) -> Result<UndoOutput, Error> {
        let wish = Undo { redo: true, ..wish(input.what) };
        self.take_back(&input.reference, wish, input.idempotency_key).await
    }
}

impl Gateway {
    async fn take_back(&self, reference: &str, wish: Undo, key: Option<String>) -> Result<UndoOutput, Error> {
        let once = super::agent::chosen(key)?;
        let session = self.named(reference).await?.id;
        let wish = Undo { keep_mode: !calling_may(Scope::Approve), ..wish };
        let undone = self.runtime.undo(&session, wish, once.as_deref()).await?;
        Ok(output(session, undone))
    }
}

fn wish(what: What) -> Undo {
    Undo { files: what != What::Conversation, conversation: what != What::Files, ..Undo::default() }
}

fn output(session_id: SessionId, undone: Undone) -> UndoOutput {
    let talked = match undone.redoes {
        None => Talked { removed: Some(undone.messages), restored: None },
        Some(_) => Talked { removed: None, restored: Some(undone.messages) },
    };
    UndoOutput {
        session_id,
        to: undone.to,
        files: undone.changed,
        conversation: undone.conversation.then_some(talked),
        not_undone: undone.not_undone,
    }
}
