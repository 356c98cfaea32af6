//! `agents.list`, `models.list`: who can be asked.

use crate::Gateway;
use proto::Error;
use proto::methods::{AgentRow, AgentsList, AgentsOutput, Handle, InDirectory, ModelRow, ModelsList, ModelsOutput};
use std::path::Path;
use std::sync::Arc;

impl Gateway {
    /// What holds in a directory, or everywhere.
    pub(crate) fn here(&self, directory: Option<&str>) -> Result<Arc<session::Here>, Error> {
        let settings = self.runtime.settings();
        directory.map_or_else(
            || Ok(settings.global()),
            |directory| settings.fresh(&session::Place::found(Path::new(directory))),
        )
    }
}

impl Handle<AgentsList> for Gateway {
    async fn handle(&self, input: InDirectory) -> Result<AgentsOutput, Error> {
        let here = self.here(input.cwd.as_deref())?;
        Ok(AgentsOutput { agents: here.agents.list().map(|profile| row(profile, &here)).collect() })
    }
}

/// A profile, with what the settings say that is only shown.
fn row(profile: &session::Profile, here: &session::Here) -> AgentRow {
    let (loaded, name) = (&here.loaded, &profile.name);
    let set = loaded.config.agent.get(name);
    let origin = |path: String| loaded.origin(&path);
    let origin = origin(format!("agent.{name}.prompt")).or_else(|| origin(format!("agent.{name}")));
    AgentRow {
        color: set.and_then(|agent| agent.color.clone()),
        file: origin.map(|origin| origin.file),
        ..profile.row()
    }
}

impl Handle<ModelsList> for Gateway {
    async fn handle(&self, input: InDirectory) -> Result<ModelsOutput, Error> {
        let here = self.here(input.cwd.as_deref())?;
        let models = here.models.list(&here.default_model).into_iter().map(|model| ModelRow {
            name: model.name,
            provider: model.provider,
            model: model.model,
            wire: model.wire.to_owned(),
            context: model.context,
            output: model.output,
            cost: model.cost.and_then(|cost| serde_json::to_value(cost).ok()),
            reasoning: model.reasoning,
            variants: model.variants,
            images: model.images,
            key: model.key,
        });
        Ok(ModelsOutput { default: here.default_model.clone(), models: models.collect() })
    }
}
