//! `permissions.*`: questions to a person, and their answers.

use crate::Gateway;
use proto::Error;
use proto::letter::AskReply;
use proto::methods::{
    AskAnswer, AskInfo, AskInput, Asks, AsksInput, Done, Handle, Nothing, PermissionsGet, PermissionsList,
    PermissionsReply, PermissionsRevoke, PermissionsSaved, RevokeInput, SavedOutput, SavedRule,
};

impl Handle<PermissionsList> for Gateway {
    async fn handle(&self, input: AsksInput) -> Result<Asks, Error> {
        let root = match &input.reference {
            Some(reference) => Some(self.named(reference).await?.root),
            None => None,
        };
        let asks = self.store().asks(root.as_ref()).await?;
        Ok(Asks { asks: asks.iter().filter(|ask| ask.questions.is_empty()).map(session::asked::info).collect() })
    }
}

impl Handle<PermissionsGet> for Gateway {
    async fn handle(&self, input: AskInput) -> Result<AskInfo, Error> {
        self.runtime.ask(&input.ask_id).await
    }
}

impl Handle<PermissionsReply> for Gateway {
    async fn handle(&self, input: AskAnswer) -> Result<Done, Error> {
        match input.keep {
            None => self.runtime.answer(&input.ask_id, input.reply, input.message).await?,
            Some(keep) if input.reply == AskReply::Always && input.message.is_none() => {
                self.runtime.answer_always(&input.ask_id, keep).await?;
            }
            Some(_) => {
                let hint = "answer `always`, or leave `keep` out";
                return Err(Error::invalid("`keep` goes with the reply `always`").hint(hint));
            }
        }
        Ok(Done { ok: true })
    }
}

impl Handle<PermissionsSaved> for Gateway {
    async fn handle(&self, _: Nothing) -> Result<SavedOutput, Error> {
        let saved = self.runtime.settings().always().into_iter().map(|kept| SavedRule {
            id: kept.id,
            project: kept.project.display().to_string(),
            permission: kept.permission,
            pattern: kept.pattern,
            created_at: i64::try_from(kept.at).unwrap_or(i64::MAX),
        });
        Ok(SavedOutput { saved: saved.collect() })
    }
}

impl Handle<PermissionsRevoke> for Gateway {
    async fn handle(&self, input: RevokeInput) -> Result<Done, Error> {
        if !self.runtime.settings().revoke_always(&input.id)? {
            let shown: String = input.id.chars().take(64).collect();
            let what = format!("nothing was allowed for good as `{shown}`");
            return Err(Error::not_found(what).hint("`permissions.saved` lists what was"));
        }
        Ok(Done { ok: true })
    }
}
