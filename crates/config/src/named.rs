//! Names in the settings of things that others know: whether there is such a tool, agent or model is theirs to say. Here
//! is where each name stands.

use serde::Serialize;

use crate::document::Node;
use crate::layer::Origin;
use crate::section::Notes;

/// A name, and the setting that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Named {
    pub of: Of,
    /// The setting, such as `agent.build.tools`.
    pub path: String,
    pub name: String,
    pub origin: Origin,
}

/// What a name is the name of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    Tool,
    Model,
}

impl Notes {
    /// A setting that holds a name.
    pub(crate) fn names(&mut self, of: Of, path: &str, name: &str, at: &Node) {
        self.named.push(Named { of, path: path.to_owned(), name: name.to_owned(), origin: at.place.origin() });
    }
}
