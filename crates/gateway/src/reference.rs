//! Finding the session a caller means, and the directory.

use crate::Gateway;
use proto::methods::Selector;
use proto::{Code, Error, Key, Reference};
use session::Target;
use store::{Find, Session};

impl Gateway {
    /// The session that an id, a key, a name or a label means.
    pub(crate) async fn named(&self, text: &str) -> Result<Session, Error> {
        self.runtime.resolve(&outside(Reference::parse(text)?)?).await
    }

    /// The session that exactly one selector names.
    pub(crate) async fn selected(&self, selector: &Selector) -> Result<Session, Error> {
        let given = [&selector.session_id, &selector.key, &selector.label, &selector.reference, &selector.newest_in];
        if given.iter().filter(|given| given.is_some()).count() != 1 {
            return Err(Error::invalid("exactly one selector is needed")
                .hint("give one of `sessionId`, `key`, `label`, `ref` and `newestIn`"));
        }
        selector.agent_id.as_deref().map(proto::AgentId::parse).transpose()?;
        if let Some(label) = &selector.label {
            return self.labelled(label, selector.agent_id.as_deref()).await;
        }
        if let Some(directory) = &selector.newest_in {
            let found = self.store().find(&Find::NewestIn(directory.clone())).await?;
            return found.into_iter().next().ok_or_else(|| {
                Error::not_found(format!("no session was started in `{directory}` yet"))
                    .hint("start one with `convoke run`, without `--continue`")
            });
        }
        let text = selector.session_id.as_ref().or(selector.key.as_ref()).or(selector.reference.as_ref());
        self.named(text.map_or("", String::as_str)).await
    }

    pub(crate) async fn labelled(&self, label: &str, owner: Option<&str>) -> Result<Session, Error> {
        let label = proto::key::label(label)?;
        let owner = owner.map(proto::AgentId::parse).transpose()?.map(|agent| agent.as_str().to_owned());
        self.runtime.labelled(&label, owner.as_deref()).await
    }

    /// Where a prompt to this reference goes. An agent's main session is made on first use, in `cwd`.
    pub(crate) async fn target(&self, text: &str, cwd: Option<&str>) -> Result<Target, Error> {
        let reference = outside(Reference::parse(text)?)?;
        let main = match &reference {
            Reference::Main => Some(self.runtime.agents().default_agent().to_owned()),
            Reference::Key(key) if key.rest() == "main" => Some(key.agent().as_str().to_owned()),
            Reference::Key(_) | Reference::Id(_) | Reference::Word(_) | Reference::Current => None,
        };
        Ok(match main {
            Some(agent) => Target::Main { agent, cwd: directory(cwd.unwrap_or(&self.home))? },
            None => Target::Found(Box::new(self.runtime.resolve(&reference).await?)),
        })
    }

    /// A key as models and people are shown it.
    pub(crate) fn display_key(&self, key: &str) -> String {
        let agents = self.runtime.agents();
        Key::parse(key).map_or_else(|_| key.to_owned(), |key| key.display(agents.default_agent()))
    }
}

/// Nobody outside has a session of their own.
fn outside(reference: Reference) -> Result<Reference, Error> {
    match reference {
        Reference::Current => Err(Error::invalid("`current` means the caller's session, and there is none here")
            .hint("name the session by its id, key, name or label")),
        other => Ok(other),
    }
}

/// A directory sessions can work in: it exists, and its name is free of symlinks so that equal ones compare equal.
pub(crate) fn directory(text: &str) -> Result<String, Error> {
    let path = std::path::Path::new(text);
    let refused = |why: &str| {
        let shown: String = text.chars().take(200).collect();
        Error::not_found(format!("cannot work in `{shown}`: {why}"))
            .hint("name a directory that exists and can be read")
    };
    if !path.is_absolute() || text.contains('\0') {
        return Err(Error { code: Code::InvalidInput, ..refused("it is not an absolute path") });
    }
    let path = path.canonicalize().map_err(|error| refused(&error.to_string()))?;
    if !path.is_dir() {
        return Err(refused("it is not a directory"));
    }
    path.into_os_string().into_string().map_err(|_| refused("its name is not UTF-8"))
}
