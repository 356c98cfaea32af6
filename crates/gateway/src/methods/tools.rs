//! `tools.list`, `tools.why`: what models are shown, and why something is decided as it is.

use crate::{Gateway, reference};
use proto::Error;
use proto::methods::{Handle, ToolsInput, ToolsList, ToolsOutput, ToolsWhy, WhyInput, WhyOutput};

impl Handle<ToolsList> for Gateway {
    async fn handle(&self, input: ToolsInput) -> Result<ToolsOutput, Error> {
        let cwd = place(input.cwd.as_deref())?;
        self.runtime.tools(&ToolsInput { cwd, ..input }).await
    }
}

impl Handle<ToolsWhy> for Gateway {
    async fn handle(&self, input: WhyInput) -> Result<WhyOutput, Error> {
        let cwd = place(input.cwd.as_deref())?;
        self.runtime.why(&WhyInput { cwd, ..input }).await
    }
}

/// The directory that is asked about, which has to be one.
fn place(cwd: Option<&str>) -> Result<Option<String>, Error> {
    cwd.map(reference::directory).transpose()
}
