//! Whether the gateway that is waited for still lives. An answer may take hours; a gateway that is well says so at once,
//! whatever else it does.

use crate::address::Address;
use crate::{Error, http};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How long an answer may take before the gateway is asked whether it lives.
const QUIET: Duration = Duration::from_secs(5);

/// How long it may take to say so. With [`QUIET`], 15 s: what a busy machine may need.
const PROBE: Duration = Duration::from_secs(10);

/// Between two tries to reach one whose socket is gone; it makes itself a new one.
const AGAIN: Duration = Duration::from_millis(500);

/// Waits for an answer for as long as the gateway lives.
pub(crate) async fn watched<T>(address: &Address, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let mut answer = pin!(answer);
    loop {
        if let Ok(answered) = timeout(QUIET, &mut answer).await {
            return answered;
        }
        tokio::select! {
            biased;
            answered = &mut answer => return answered,
            lives = probe(address) => lives?,
        }
    }
}

/// For what takes a moment or will never be.
pub(crate) async fn prompt<T>(answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(QUIET + PROBE, answer).await.unwrap_or(Err(Error::Silent))
}

async fn probe(address: &Address) -> Result<(), Error> {
    let mut unreachable = None;
    let asked = async {
        loop {
            match http::get(address, "/healthz").await {
                Err(error @ Error::Unreachable { .. }) => unreachable = Some(error),
                // Whatever it says, it lives.
                _ => return,
            }
            sleep(AGAIN).await;
        }
    };
    match timeout(PROBE, asked).await {
        Ok(()) => Ok(()),
        Err(_) => Err(unreachable.unwrap_or(Error::Silent)),
    }
}
