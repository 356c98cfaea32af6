//! `tools.list`, `tools.why`: what models are shown, and why something is decided as it is.

use crate::Gateway;
use proto::Error;
use proto::methods::{Handle, ToolsInput, ToolsList, ToolsOutput, ToolsWhy, WhyInput, WhyOutput};

impl Handle<ToolsList> for Gateway {
    async fn handle(&self, input: ToolsInput) -> Result<ToolsOutput, Error> {
        self.runtime.tools(&input).await
    }
}

impl Handle<ToolsWhy> for Gateway {
    async fn handle(&self, input: WhyInput) -> Result<WhyOutput, Error> {
        self.runtime.why(&input).await
    }
}
