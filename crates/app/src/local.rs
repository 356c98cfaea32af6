//! Reading without a gateway: the same methods, answered in this process over the database opened for reading.
//!
//! Nothing is woken and nothing is written, so that looking never starts work.

use crate::failure::Failure;
use crate::home::Home;
use crate::wiring;
use client::Client;
use gateway::Gateway;
use proto::methods::{Handle, Method};
use session::Hub;
use std::sync::Arc;
use store::Store;
use store::memory::Memory;
use store::sqlite::Sqlite;

/// Whoever answers questions about what is stored.
pub(crate) enum Reader {
    Running(Client),
    Here(Box<Gateway>),
}

impl Reader {
    pub(crate) async fn open(home: &Home) -> Result<Self, Failure> {
        if let Ok(client) = Client::connect(&home.paths.socket()).await {
            return Ok(Self::Running(client));
        }
        // A home in which nothing happened yet is empty, not broken.
        let store: Arc<dyn Store> = if home.paths.database().exists() {
            Arc::new(Sqlite::open_read(&home.paths.state)?)
        } else {
            Arc::new(Memory::new(Arc::new(|_| {})))
        };
        Ok(Self::Here(Box::new(wiring::gateway(home, store, Hub::default(), true)?)))
    }

    pub(crate) async fn call<M: Method>(&self, input: M::Input) -> Result<M::Output, Failure>
    where
        Gateway: Handle<M>,
    {
        Ok(match self {
            Self::Running(client) => client.call::<M>(input).await?,
            Self::Here(gateway) => Handle::<M>::handle(gateway.as_ref(), input).await?,
        })
    }
}
