//! Where a setting can come from: eight layers, the later one wins.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

/// In the order in which they are laid over each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// What holds when nobody says otherwise.
    Builtin,
    /// Fetched from the organisation's server.
    Organisation,
    /// The user's own file.
    User,
    /// The file that `CONVOKE_CONFIG` names.
    File,
    /// `convoke.json(c)`, from the root of the repository down to the directory.
    Project,
    /// `.convoke` directories: the user's, then from the root of the repository down.
    Directory,
    /// The text in `CONVOKE_CONFIG_CONTENT`.
    Content,
    /// What the administrator of this machine has set.
    Managed,
}

impl Layer {
    /// As it is written in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Organisation => "organisation",
            Self::User => "user",
            Self::File => "file",
            Self::Project => "project",
            Self::Directory => "directory",
            Self::Content => "content",
            Self::Managed => "managed",
        }
    }
}

/// Where one value stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    pub layer: Layer,
    /// A path, an address, or the name of a variable.
    pub file: String,
    pub line: usize,
}

/// One text of one layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) layer: Layer,
    /// As messages name it.
    pub(crate) name: String,
    /// What relative paths in it start from.
    pub(crate) directory: PathBuf,
    /// The root of the repository it is a part of, unless it is the user's own: such a text has to be trusted.
    pub(crate) repository: Option<PathBuf>,
    /// The root of the repository it came with, trusted or not.
    pub(crate) came_with: Option<PathBuf>,
}

impl Source {
    /// A file of the user, the organisation or the administrator.
    pub(crate) fn file(layer: Layer, file: &Path) -> Arc<Self> {
        let directory = file.parent().unwrap_or(Path::new("")).to_owned();
        Arc::new(Self { layer, name: file.display().to_string(), directory, repository: None, came_with: None })
    }

    /// A file that came with a repository.
    pub(crate) fn of_repository(layer: Layer, file: &Path, root: &Path) -> Arc<Self> {
        let directory = file.parent().unwrap_or(Path::new("")).to_owned();
        let root = Some(root.to_owned());
        Arc::new(Self { layer, name: file.display().to_string(), directory, repository: root.clone(), came_with: root })
    }

    /// A text that is no file.
    pub(crate) fn text(layer: Layer, name: &str, directory: &Path) -> Arc<Self> {
        Arc::new(Self {
            layer,
            name: name.to_owned(),
            directory: directory.to_owned(),
            repository: None,
            came_with: None,
        })
    }

    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Arc<Self> {
        Self::file(Layer::User, Path::new(name))
    }
}
