//! `agents.list`: who can be asked.

use crate::Gateway;
use proto::Error;
use proto::methods::{AgentRow, AgentsList, AgentsOutput, Handle, Nothing};

impl Handle<AgentsList> for Gateway {
    async fn handle(&self, _: Nothing) -> Result<AgentsOutput, Error> {
        let rows = self.runtime.agents().list().map(|profile| AgentRow {
            name: profile.name.clone(),
            description: profile.description.clone(),
            mode: mode(profile.mode).into(),
            model: profile.model.clone(),
            native: profile.native,
            hidden: profile.hidden,
        });
        Ok(AgentsOutput { agents: rows.collect() })
    }
}

fn mode(mode: config::Mode) -> &'static str {
    match mode {
        config::Mode::Primary => "primary",
        config::Mode::Subagent => "subagent",
        config::Mode::All => "all",
    }
}
