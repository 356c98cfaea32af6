//! `hooks.list`: the commands that run when something happens.

use crate::Gateway;
use proto::Error;
use proto::methods::{Handle, HooksList, HooksOutput, Nothing};

impl Handle<HooksList> for Gateway {
    async fn handle(&self, _: Nothing) -> Result<HooksOutput, Error> {
        Ok(HooksOutput { hooks: self.runtime.hooks() })
    }
}
