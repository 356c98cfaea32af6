//! Reading: answered by the gateway that runs, and without one by the same methods in this process over the database
//! opened for reading.
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
use std::time::{Duration, Instant};
use store::Store;
use store::memory::Memory;
use store::sqlite::Sqlite;

/// How long a gateway may be starting or dying before a reader gives up on it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two looks at something another process does.
const GLANCE: Duration = Duration::from_millis(10);

/// Asks about what is stored.
pub(crate) async fn read<M: Method>(home: &Home, input: M::Input) -> Result<M::Output, Failure>
where
    M::Input: Clone,
    Gateway: Handle<M>,
{
    let end = Instant::now() + PATIENCE;
    loop {
        if let Ok(client) = Client::connect(&home.paths.socket()).await {
            match client.call::<M>(input.clone()).await {
                Err(error) if error.is_lost() && Instant::now() < end => {}
                answered => return Ok(answered?),
            }
        } else {
            match open(home) {
                // Its first gateway is still making it.
                Err(store::Error::Outdated { .. }) if Instant::now() < end => {}
                store => {
                    let gateway = wiring::gateway(home, store?, Hub::default(), true, None)?;
                    return Ok(Handle::<M>::handle(&gateway, input).await?);
                }
            }
        }
        tokio::time::sleep(GLANCE).await;
    }
}

fn open(home: &Home) -> Result<Arc<dyn Store>, store::Error> {
    // A home in which nothing happened yet is empty, not broken.
    Ok(if home.paths.database().exists() {
        Arc::new(Sqlite::open_read(&home.paths.state)?)
    } else {
        Arc::new(Memory::new(Arc::new(|_| {})))
    })
}
