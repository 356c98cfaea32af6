//! Who works in a directory, as far as a call may know.

use super::Doors;
use crate::worktrees::busy;
use async_trait::async_trait;
use proto::Error;
use rules::access::Act;
use std::path::Path;
use store::Session;
use tools::worktree::Tenants;

/// Everybody but the session that asks. Whom it may not see is not named.
#[async_trait]
impl Tenants for Doors {
    async fn busy_in(&self, dir: &Path) -> Result<Vec<String>, Error> {
        let inside = self.rt.inside(dir).await?;
        let guard = self.view().guard;
        let name = |session: &Session| match guard.sees(session, Act::List) {
            true => self.rt.display_key(&session.key),
            false => "another session".to_owned(),
        };
        Ok(busy(&inside, Some(&self.caller.row.id)).map(name).collect())
    }
}
