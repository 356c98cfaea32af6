//! `agents.list`: who can be asked.

use crate::Gateway;
use proto::Error;
use proto::methods::{AgentsList, AgentsOutput, Handle, Nothing};

impl Handle<AgentsList> for Gateway {
    async fn handle(&self, _: Nothing) -> Result<AgentsOutput, Error> {
        Ok(AgentsOutput { agents: self.runtime.agents().list().map(session::Profile::row).collect() })
    }
}
