//! The way in: a typed connection to a gateway. Every front end uses it, and none reaches around it.
//!
//! A [`Client`] is an address: each call opens a connection of its own, so that one which waits for an hour does not
//! stand in the way of the next. Starting a gateway, and trying again when one dies, is left to the caller.

mod error;
mod events;
mod http;

pub use error::Error;
pub use events::{Events, Watch};

use proto::methods::Method;
use std::path::{Path, PathBuf};

/// Where a gateway listens. Cloning is cheap enough to hand one to every task.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// Makes sure that somebody listens there.
    pub async fn connect(socket: &Path) -> Result<Self, Error> {
        http::connect(socket).await?;
        Ok(Self { socket: socket.to_owned() })
    }

    /// Calls one method of the table. Waits as long as the gateway does.
    pub async fn call<M: Method>(&self, input: M::Input) -> Result<M::Output, Error> {
        let body = serde_json::to_vec(&input).map_err(|error| Error::Garbage(error.to_string()))?;
        let answer = http::post(&self.socket, M::NAME, body).await?;
        serde_json::from_slice(&answer).map_err(|error| Error::Garbage(format!("`{}` answered {error}", M::NAME)))
    }

    /// Watches a tree of sessions.
    pub async fn events(&self, watch: &Watch) -> Result<Events, Error> {
        Ok(Events::new(http::get(&self.socket, &watch.path()).await?))
    }
}
