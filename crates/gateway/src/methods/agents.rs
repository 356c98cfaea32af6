//! `agents.list`: who can be asked.

use crate::Gateway;
use proto::Error;
use proto::methods::{AgentsList, AgentsOutput, Handle, InDirectory};
use std::path::Path;
use std::sync::Arc;

impl Gateway {
    /// What holds in a directory, or everywhere.
    pub(crate) fn here(&self, directory: Option<&str>) -> Result<Arc<session::Here>, Error> {
        let settings = self.runtime.settings();
        directory.map_or_else(|| Ok(settings.global()), |directory| settings.fresh(Path::new(directory)))
    }
}

impl Handle<AgentsList> for Gateway {
    async fn handle(&self, input: InDirectory) -> Result<AgentsOutput, Error> {
        let here = self.here(input.cwd.as_deref())?;
        Ok(AgentsOutput { agents: here.agents.list().map(session::Profile::row).collect() })
    }
}
