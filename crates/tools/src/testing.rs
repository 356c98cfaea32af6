//! For tests of tools: a folder and a context for calls in it.

use crate::process::Reaper;
use crate::{Access, AnyTool, ToolCx};
use proto::{CallId, SessionId};
use serde_json::value::to_raw_value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A worktree, a folder of saved outputs beside it, and what one session has read.
pub(crate) struct Place {
    temporary: tempfile::TempDir,
    work: PathBuf,
    call: CallId,
    seen: Arc<crate::files::Seen>,
}

impl Place {
    pub(crate) fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let work = temporary.path().canonicalize().unwrap().join("work");
        std::fs::create_dir(&work).unwrap();
        Self { temporary, work, call: CallId::new(), seen: Arc::default() }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.work
    }

    /// Makes a file and the folders above it.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn content(&self, name: &str) -> String {
        std::fs::read_to_string(self.work.join(name)).unwrap()
    }

    pub(crate) fn cx(&self) -> ToolCx {
        ToolCx {
            session: SessionId::new(),
            call: self.call.clone(),
            agent: "build".into(),
            dir: self.work.clone(),
            worktree: self.work.clone(),
            outputs: self.temporary.path().canonicalize().unwrap().join("outputs"),
            cancel: CancellationToken::new(),
            // Never started here: commands are tested with real processes in `tests/processes`.
            processes: Arc::new(Reaper::new("/nowhere".into(), Vec::new())),
            spawner: Arc::new(crate::doors::Closed),
            directory: Arc::new(crate::doors::Closed),
            office: Arc::new(crate::doors::Closed),
            board: Arc::new(crate::doors::Closed),
            catalogue: Arc::new(crate::doors::Closed),
            files: Arc::clone(&self.seen),
        }
    }

    /// What the model is told, whether it went well or not.
    pub(crate) async fn call(&self, tool: &dyn AnyTool, input: serde_json::Value) -> Result<String, String> {
        let output = tool.run(&to_raw_value(&input).unwrap(), &self.cx()).await;
        output.map(|output| output.text).map_err(|error| error.to_string())
    }

    /// What the call would ask for, as `permission pattern`.
    pub(crate) fn asks(&self, tool: &dyn AnyTool, input: serde_json::Value) -> Vec<String> {
        let accesses = tool.access(&to_raw_value(&input).unwrap(), &self.cx()).unwrap();
        accesses.iter().map(|Access { permission, pattern, .. }| format!("{permission} {pattern}")).collect()
    }
}
