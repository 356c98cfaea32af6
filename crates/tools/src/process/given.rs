//! The processes of others, with an environment of one's own.

use super::{Command, Error, Finished, Processes, Wanted};
use async_trait::async_trait;
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// With what settings add to the environment of commands.
pub fn given(processes: Arc<dyn Processes>, wanted: &Wanted) -> Arc<dyn Processes> {
    if *wanted == Wanted::default() {
        return processes;
    }
    let env = processes.env_with(wanted);
    Arc::new(Given { processes, env })
}

struct Given {
    processes: Arc<dyn Processes>,
    env: Vec<(String, String)>,
}

#[async_trait]
impl Processes for Given {
    async fn run(&self, command: Command, cancel: &CancellationToken) -> Result<Finished, Error> {
        self.processes.run(command, cancel).await
    }

    fn give_way(&self, path: &Path) {
        self.processes.give_way(path);
    }

    fn rest(&self, session: &proto::SessionId) {
        self.processes.rest(session);
    }

    fn holder(&self) -> Option<&Path> {
        self.processes.holder()
    }

    fn env(&self) -> &[(String, String)] {
        &self.env
    }
}
