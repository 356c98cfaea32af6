//! The way in: a typed connection to a gateway. Every front end uses it, and none reaches around it.
//!
//! A [`Client`] is an address: each call opens a connection of its own, so that one which waits for an hour does not
//! stand in the way of the next. Starting a gateway, and trying again when one dies, is left to the caller.

mod address;
mod error;
mod events;
mod http;
mod pulse;
mod tls;

pub use error::Error;
pub use events::{Events, Watch};

use address::{Address, Site};
use proto::methods::Method;
use std::path::Path;

/// Where a gateway listens. Cloning is cheap enough to hand one to every task.
#[derive(Debug, Clone)]
pub struct Client {
    address: Address,
}

impl Client {
    /// The gateway of this user's home. Makes sure that somebody listens there.
    pub async fn connect(socket: &Path) -> Result<Self, Error> {
        Self::reach(Address::Socket(socket.to_owned())).await
    }

    /// A gateway over TCP, at the `url` it printed when it started. Makes sure that somebody listens there; whether the
    /// token opens anything is told by the first call.
    pub async fn connect_tcp(url: &str, token: &str) -> Result<Self, Error> {
        Self::reach(Address::Tcp(Site::parse(url, token, None)?)).await
    }

    /// A gateway at `https://host:port` whose certificate is signed by whoever is in the PEM file `ca`, and by nobody
    /// else.
    pub async fn connect_tls(url: &str, token: &str, ca: &Path) -> Result<Self, Error> {
        Self::reach(Address::Tcp(Site::parse(url, token, Some(ca))?)).await
    }

    async fn reach(address: Address) -> Result<Self, Error> {
        pulse::prompt(http::reach(&address)).await?;
        Ok(Self { address })
    }

    /// Calls one method of the table. Waits as long as the gateway does, and gives up on one that shows no sign of life.
    pub async fn call<M: Method>(&self, input: M::Input) -> Result<M::Output, Error> {
        let body = serde_json::to_vec(&input).map_err(|error| Error::Garbage(error.to_string()))?;
        let answer = pulse::watched(&self.address, http::post(&self.address, M::NAME, body)).await?;
        serde_json::from_slice(&answer).map_err(|error| Error::Garbage(format!("`{}` answered {error}", M::NAME)))
    }

    /// Watches a tree of sessions.
    pub async fn events(&self, watch: &Watch) -> Result<Events, Error> {
        let open = pulse::watched(&self.address, http::get(&self.address, &watch.path())).await?;
        Ok(Events::new(self.address.clone(), open))
    }
}
